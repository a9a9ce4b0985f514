//! How many requests came, by operation, how long they took, and which way they take: a part of the volume's snapshot.
//!
//! Kept true: each message of the kernel counts once, also one that fails or that nobody understands; the greeting does
//! not. A request is timed by the thread that serves it, from its arrival until the reply is given to the kernel. One
//! that wants no reply is timed until it is done.

use super::service::Slots;
use crate::wire::{Opcode, Request};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steadyfs_core::stats::{Histogram, ServingStats};
use steadyfs_rt::{Instant, LockClass, Mutex};

static TRANSPORT: LockClass = LockClass::new("fuse_transport_lock", 8);

/// The counts of one mount.
pub(crate) struct Counts {
    /// By the number of the operation; those without a name here are the first.
    requests: [AtomicU64; Opcode::END],
    /// Likewise.
    times: [OnceLock<Histogram>; Opcode::END],
    slots: Slots,
    transport: Mutex<&'static str>,
}

impl Counts {
    pub(super) fn new() -> Self {
        Counts {
            requests: std::array::from_fn(|_| AtomicU64::new(0)),
            times: [const { OnceLock::new() }; Opcode::END],
            slots: Slots::new(),
            transport: Mutex::new(&TRANSPORT, ""),
        }
    }

    /// The way of requests, from now on.
    pub(crate) fn set_transport(&self, name: &'static str) {
        *self.transport.lock() = name;
    }

    pub(super) fn count(&self, opcode: Option<Opcode>) {
        self.requests[number(opcode)].fetch_add(1, Relaxed);
    }

    /// A request, given as its bytes, has arrived at this moment. It is in service until what this returns is dropped.
    pub(crate) fn arrived(&self, request: &[u8], at: Instant) -> InService<'_> {
        let request = Request::parse(request);
        let operation = request.as_ref().map_or(0, |request| number(request.opcode));
        let place = request.ok().and_then(|request| self.slots.begin(&request.header, operation, at));
        InService { counts: self, operation, place, arrived: at }
    }

    /// As a snapshot has them.
    pub(crate) fn stats(&self) -> ServingStats {
        let name = |number| Opcode::from_number(number).map_or_else(|| "unknown".to_owned(), Opcode::name);
        let counts = (0..).zip(&self.requests).map(|(number, count)| (number, count.load(Relaxed)));
        let times = (0..).zip(&self.times).filter_map(|(number, times)| Some((name(number), times.get()?.latency())));
        let mut stats = ServingStats {
            transport: (*self.transport.lock()).to_owned(),
            requests: counts.filter(|(_, count)| *count > 0).map(|(number, count)| (name(number), count)).collect(),
            latency: times.collect(),
            ..ServingStats::default()
        };
        self.slots.tell(&mut stats, name);
        stats
    }
}

/// A request from its arrival to its reply.
pub(crate) struct InService<'a> {
    counts: &'a Counts,
    operation: usize,
    /// Where it is listed.
    place: Option<usize>,
    arrived: Instant,
}

impl Drop for InService<'_> {
    fn drop(&mut self) {
        self.place.into_iter().for_each(|place| self.counts.slots.end(place));
        self.counts.times[self.operation].get_or_init(Histogram::new).note(self.arrived.elapsed());
    }
}

/// The place of an operation in the lists.
fn number(opcode: Option<Opcode>) -> usize {
    opcode.map_or(0, |opcode| opcode as usize)
}
