//! Bytes of a list, for the decision when to push.
//!
//! With one list the count goes with the list's lock. With a list a core each core knows its own bytes exactly, and one
//! global count has how many strides of S bytes the cores have begun. With S = 1 nearly every commit writes the global
//! line. Larger strides are ScaleXFS' strided space counting.
//!
//! Kept true: the estimate is not below what is exact, and less than one stride a core above it.

use crate::fault::{Fault, Planted};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use steadyfs_rt::SharedLine;

/// The global count, in strides.
pub(crate) struct Space {
    /// The power of two that a stride has.
    shift: u32,
    strides: AtomicI64,
    line: SharedLine,
    updates: AtomicU64,
}

impl Space {
    /// No bytes; a stride has `stride`, a power of two.
    pub(crate) fn new(stride: u64) -> Self {
        assert!(stride.is_power_of_two(), "a stride of {stride} bytes is no power of two");
        Space {
            shift: stride.trailing_zeros(),
            strides: AtomicI64::new(0),
            line: SharedLine::new(),
            updates: AtomicU64::new(0),
        }
    }

    /// Bytes, at least as many as there are.
    pub(crate) fn estimate(&self) -> u64 {
        u64::try_from(self.strides.load(SeqCst) << self.shift).unwrap_or(0)
    }

    /// Times that the global count was written.
    pub(crate) fn updates(&self) -> u64 {
        self.updates.load(Relaxed)
    }

    /// Strides that `bytes` bytes of one core have begun.
    fn begun(&self, bytes: i64, planted: &Planted) -> i64 {
        let stride = 1i64 << self.shift;
        let ends = if planted.is(Fault::LateEstimate) || steadyfs_rt::mutated("strides-count-when-begun") {
            0
        } else {
            stride - 1
        };
        (bytes + ends) >> self.shift
    }

    /// A core has `after` bytes instead of `before`.
    pub(crate) fn change(&self, before: i64, after: i64, planted: &Planted) {
        let by = self.begun(after, planted) - self.begun(before, planted);
        if by != 0 {
            self.line.write();
            self.strides.fetch_add(by, SeqCst);
            self.updates.fetch_add(1, Relaxed);
        }
    }

    /// As [`Space::change`] under a lock that all who change it hold: its line is theirs already.
    pub(crate) fn change_locked(&self, bytes: i64) {
        self.strides.fetch_add(bytes, SeqCst);
    }

    /// A list with `exact` bytes on `cores` cores is sealed: it has none now.
    pub(crate) fn reset(&self, exact: i64, cores: usize) {
        let estimate = self.strides.swap(0, SeqCst) << self.shift;
        let most = exact + ((cores as i64) << self.shift);
        assert!(exact <= estimate && estimate < most.max(exact + 1), "{estimate} bytes are no estimate of {exact}");
    }
}
