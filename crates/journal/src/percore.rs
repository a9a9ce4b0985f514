//! The members of a list in one list a core (ScaleXFS' per-core in-memory logging).
//!
//! A new member goes to the list of the core that commits it, and stays there: who commits it again changes only its
//! vector and its stamp. So lists are in no order, and bytes of a core may be less than none; only sums mean something.
//! A seal brings them together and sorts by stamps.

use crate::item::{Item, Stamp};
use crate::lists::{Classes, Counts};
use std::sync::Arc;
use steadyfs_rt::{Cost, Mutex, MutexGuard, charge_n, cpus, thread_number};

/// More lists than this are no gain.
const MOST: usize = 256;

/// The members of all cores.
pub(crate) struct PerCore<T> {
    cores: Box<[CoreList<T>]>,
}

/// One core's list, with its cache line, and the one that processors fetch beside it, to itself.
#[repr(align(128))]
struct CoreList<T>(Mutex<OwnMembers<T>>);

/// What one core has committed first.
pub(crate) struct OwnMembers<T> {
    items: Vec<Arc<Item<T>>>,
    /// Bytes by which this core changed vectors, and what it committed.
    pub(crate) bytes: i64,
    pub(crate) counts: Counts,
}

impl<T: Default> OwnMembers<T> {
    pub(crate) fn add(&mut self, item: &Arc<Item<T>>) {
        self.items.push(Arc::clone(item));
    }
}

impl<T: Default> PerCore<T> {
    pub(crate) fn new(classes: &Classes) -> Self {
        let empty = || {
            CoreList(Mutex::new(classes.list, OwnMembers { items: Vec::new(), bytes: 0, counts: Counts::default() }))
        };
        PerCore { cores: std::iter::repeat_with(empty).take(cpus().clamp(1, MOST)).collect() }
    }

    pub(crate) fn cores(&self) -> usize {
        self.cores.len()
    }

    /// The list of the calling core: nobody else wants it, unless the thread was moved.
    pub(crate) fn own(&self) -> MutexGuard<'_, OwnMembers<T>> {
        self.cores[thread_number() % self.cores.len()].0.lock()
    }

    /// What all cores have committed.
    pub(crate) fn counts(&self) -> Counts {
        self.cores.iter().map(|core| core.0.lock().counts).fold(Counts::default(), Counts::plus)
    }

    /// Takes all members out in the order of their last commits in list number `list`; and how many bytes they had.
    pub(crate) fn take(&self, list: usize, reversed: bool) -> (Vec<Arc<Item<T>>>, i64) {
        let (mut all, mut bytes) = (Vec::new(), 0);
        for core in &self.cores {
            let mut members = core.0.lock();
            bytes += std::mem::take(&mut members.bytes);
            all.append(&mut members.items);
        }
        let mut stamped: Vec<(Stamp, Arc<Item<T>>)> = all.into_iter().map(|item| (item.stamp(list), item)).collect();
        // Each comparison looks at two stamps that another core wrote.
        let comparisons = stamped.len() as u64 * u64::from(stamped.len().max(1).ilog2());
        charge_n(Cost::DentryScan, comparisons);
        stamped.sort_by_key(|(stamp, _)| *stamp);
        if reversed {
            stamped.reverse();
        }
        assert!(stamped.is_sorted_by_key(|(stamp, _)| *stamp), "the items of a batch are out of order");
        (stamped.into_iter().map(|(_, item)| item).collect(), bytes)
    }
}
