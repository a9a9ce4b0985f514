//! What the lanes are built on: real atomics, events of this crate.

pub(super) use crate::EventCount as Event;
pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize};
