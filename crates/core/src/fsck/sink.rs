//! Where the threads of a check put what they find, and where they say how far they are.
//!
//! Bounded: a ruined volume of a terabyte may break a rule a billion times. Beyond the limit issues are counted, not
//! kept.

use super::issue::{Issue, Severity};
use super::options::{CheckOptions, Phase, Progress};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steadyfs_rt::{LockClass, Mutex};

/// Taken last, for one insertion.
static FOUND: LockClass = LockClass::new("fsck.found", u16::MAX - 8);

/// Collects issues.
pub(super) struct IssueSink {
    found: Mutex<Findings>,
    limit: usize,
}

/// Everything found.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) issues: Vec<Issue>,
    /// Issues by severity, those beyond the limit included.
    pub(super) counts: [u64; 4],
    pub(super) dropped: u64,
}

impl IssueSink {
    pub(super) fn new(limit: usize) -> Self {
        IssueSink { found: Mutex::new(&FOUND, Findings::default()), limit }
    }

    /// Adds an issue.
    pub(super) fn add(&self, issue: Issue) {
        let mut found = self.found.lock();
        found.counts[issue.severity() as usize] += 1;
        if found.issues.len() < self.limit || issue.severity() == Severity::Fatal && found.issues.len() < 2 * self.limit
        {
            found.issues.push(issue);
        } else {
            found.dropped += 1;
        }
    }

    /// The worst severity so far.
    pub(super) fn worst(&self) -> Option<Severity> {
        self.found.lock().issues.iter().map(Issue::severity).max()
    }

    /// Takes everything, in the order of the table and then of the places, whichever thread was first.
    pub(super) fn take(&self) -> Findings {
        let mut found = std::mem::take(&mut *self.found.lock());
        found.issues.sort_by_cached_key(|issue| (issue.rank(), issue.location(), issue.to_string()));
        found
    }
}

/// Tells the caller how far a phase is.
pub(super) struct Tracker {
    report: Option<super::options::ProgressFn>,
    phase: Phase,
    done: AtomicU64,
    total: u64,
}

impl Tracker {
    /// Begins a phase of `total` units.
    pub(super) fn begin(options: &CheckOptions, phase: Phase, total: u64) -> Self {
        let tracker = Tracker { report: options.progress.clone(), phase, done: AtomicU64::new(0), total };
        tracker.advance(0);
        tracker
    }

    /// `units` more units are done.
    pub(super) fn advance(&self, units: u64) {
        let done = self.done.fetch_add(units, Relaxed) + units;
        if let Some(report) = &self.report {
            report(Progress { phase: self.phase, done, total: self.total });
        }
    }
}
