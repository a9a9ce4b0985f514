//! The emulated SSD: against a model, against closed forms, under a file system, through power cuts.

mod backed;
mod closed_form;
mod common;
mod filesystem;
mod intervals;
mod migrating;
mod model;
mod power;
mod waf;
mod zones;
