//! Names and attributes over a device in memory: scenarios, a model, full volumes, damaged volumes.

mod attributes;
mod concurrent;
mod damaged;
mod full;
mod listing;
mod model;
mod scenarios;
pub(crate) mod support;
