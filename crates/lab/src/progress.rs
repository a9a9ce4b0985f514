//! How far a run is: numbers that another thread may look at while it goes on.

use crate::record::Row;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steadyfs_rt::sim;

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for its turn.
    Waiting,
    /// Making files.
    Layout,
    /// Being measured.
    Measuring,
    /// Reading everything back.
    Verifying,
    /// Over.
    Done,
}

impl Phase {
    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Layout => "layout",
            Phase::Measuring => "measuring",
            Phase::Verifying => "verifying",
            Phase::Done => "done",
        }
    }
}

/// How far one run is.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU64,
    done: AtomicU64,
    total: AtomicU64,
    virtual_ns: AtomicU64,
    kb_s: AtomicU64,
    free_sections: AtomicU64,
    waf_milli: AtomicU64,
    /// When the measured phase ends at the latest; 0 if nothing but its amount ends it.
    end_ns: AtomicU64,
    events: AtomicU64,
}

impl Progress {
    /// The phase.
    pub fn phase(&self) -> Phase {
        let phases = [Phase::Waiting, Phase::Layout, Phase::Measuring, Phase::Verifying, Phase::Done];
        phases.get(self.phase.load(Relaxed) as usize).copied().unwrap_or(Phase::Done)
    }

    /// Bytes of the phase that are done, and all of them (0 if time ends it).
    pub fn bytes(&self) -> (u64, u64) {
        (self.done.load(Relaxed), self.total.load(Relaxed))
    }

    /// How much of the phase is done, from 0 to 1; 0 where neither an amount nor a time tells.
    pub fn share(&self) -> f64 {
        let of = |done: u64, all: u64| if all == 0 { 0.0 } else { (done as f64 / all as f64).min(1.0) };
        let (done, total) = self.bytes();
        let time = if self.phase() == Phase::Measuring {
            of(self.virtual_ns.load(Relaxed), self.end_ns.load(Relaxed))
        } else {
            0.0
        };
        of(done, total).max(time)
    }

    /// Scheduling events so far.
    pub fn events(&self) -> u64 {
        self.events.load(Relaxed)
    }

    /// Virtual seconds of the measured phase so far.
    pub fn seconds(&self) -> f64 {
        self.virtual_ns.load(Relaxed) as f64 / 1e9
    }

    /// In the last interval: what the jobs moved in 10^6 bytes per second, blocks written for each of theirs, free
    /// sections.
    pub fn latest(&self) -> (f64, f64, u64) {
        let (kb_s, waf) = (self.kb_s.load(Relaxed), self.waf_milli.load(Relaxed));
        (kb_s as f64 / 1e3, waf as f64 / 1e3, self.free_sections.load(Relaxed))
    }

    /// A phase begins.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u64, Relaxed);
        self.done.store(0, Relaxed);
        self.total.store(0, Relaxed);
    }

    /// So much is to be done in this phase.
    pub(crate) fn expect(&self, bytes: u64) {
        self.total.store(bytes, Relaxed);
    }

    /// The measured phase ends after so many virtual seconds at the latest.
    pub(crate) fn end_after(&self, seconds: f64) {
        self.end_ns.store((seconds * 1e9) as u64, Relaxed);
    }

    /// So much more has been done.
    pub(crate) fn advance(&self, bytes: u64) {
        self.events.store(sim::events(), Relaxed);
        self.done.fetch_add(bytes, Relaxed);
    }

    /// What the last interval was like.
    pub(crate) fn note(&self, row: &Row) {
        self.virtual_ns.store((row.seconds * 1e9) as u64, Relaxed);
        self.kb_s.store(((row.app_write_mb_s + row.app_read_mb_s) * 1e3) as u64, Relaxed);
        self.free_sections.store(row.free_sections as u64, Relaxed);
        self.waf_milli.store((row.waf * 1e3) as u64, Relaxed);
    }
}
