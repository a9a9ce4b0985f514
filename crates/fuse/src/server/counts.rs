//! How many requests came, by operation, and which way they take: a part of the volume's snapshot.
//!
//! Kept true: each message of the kernel counts once, also one that fails or that nobody understands; the greeting does
//! not.

use crate::wire::Opcode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steadyfs_core::stats::ServingStats;
use steadyfs_rt::{LockClass, Mutex};

static TRANSPORT: LockClass = LockClass::new("fuse_transport_lock", 8);

/// The counts of one mount.
#[derive(Debug)]
pub(crate) struct Counts {
    /// By the number of the operation; those without a name here are the first.
    requests: [AtomicU64; Opcode::END],
    transport: Mutex<&'static str>,
}

impl Counts {
    pub(super) fn new() -> Self {
        Counts { requests: std::array::from_fn(|_| AtomicU64::new(0)), transport: Mutex::new(&TRANSPORT, "") }
    }

    /// The way of requests, from now on.
    pub(crate) fn set_transport(&self, name: &'static str) {
        *self.transport.lock() = name;
    }

    pub(super) fn count(&self, opcode: Option<Opcode>) {
        self.requests[opcode.map_or(0, |opcode| opcode as usize)].fetch_add(1, Relaxed);
    }

    /// As a snapshot has them.
    pub(super) fn stats(&self) -> ServingStats {
        let name = |number| Opcode::from_number(number).map_or_else(|| "unknown".to_owned(), Opcode::name);
        let counts = (0..).zip(&self.requests).map(|(number, count)| (number, count.load(Relaxed)));
        ServingStats {
            transport: (*self.transport.lock()).to_owned(),
            requests: counts.filter(|(_, count)| *count > 0).map(|(number, count)| (name(number), count)).collect(),
            ..ServingStats::default()
        }
    }
}
