//! The members of a list in one list a core (ScaleXFS' per-core in-memory logging).
//!
//! A new member goes to the list of the core that commits it, and stays there: who commits it again changes only its
//! vector and its stamp. So lists are in no order, and bytes of a core may be less than none; only sums mean something.
//! A seal brings them together and sorts by stamps.

use crate::item::{Item, Stamp};
use crate::lists::{Classes, Counts};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use steadyfs_rt::{Cost, Mutex, charge_n, cpus, thread_number};

/// More lists than this are no gain.
const MOST: usize = 256;

/// The members of all cores.
pub(crate) struct PerCore<T> {
    cores: Box<[CoreList<T>]>,
}

/// One core's list, with its cache line, and the one that processors fetch beside it, to itself.
#[repr(align(128))]
pub(crate) struct CoreList<T> {
    /// What this core has committed first.
    items: Mutex<Vec<Arc<Item<T>>>>,
    /// Bytes by which this core changed vectors.
    bytes: AtomicI64,
    /// Parts that it committed.
    parts: AtomicU64,
    relogged: AtomicU64,
}

impl<T: Default> CoreList<T> {
    /// Adds new members; the lock is for seals, and for threads that were moved. Where there are none nobody needs it.
    pub(crate) fn add(&self, touched: &[(Arc<Item<T>>, bool)]) {
        if touched.iter().any(|(_, is_first)| *is_first) {
            let first = touched.iter().filter(|(_, is_first)| *is_first);
            self.items.lock().extend(first.map(|(item, _)| Arc::clone(item)));
        }
        let Counts { parts, relogged } = Counts::of(touched);
        self.parts.fetch_add(parts, Relaxed);
        self.relogged.fetch_add(relogged, Relaxed);
    }

    /// Adds `bytes`: returns how many there were before.
    pub(crate) fn grow(&self, bytes: i64) -> i64 {
        self.bytes.fetch_add(bytes, SeqCst)
    }
}

impl<T: Default> PerCore<T> {
    pub(crate) fn new(classes: &Classes) -> Self {
        let empty = || CoreList {
            items: Mutex::new(classes.list, Vec::new()),
            bytes: AtomicI64::new(0),
            parts: AtomicU64::new(0),
            relogged: AtomicU64::new(0),
        };
        PerCore { cores: std::iter::repeat_with(empty).take(cpus().clamp(1, MOST)).collect() }
    }

    pub(crate) fn cores(&self) -> usize {
        self.cores.len()
    }

    /// The list of the calling core: nobody else wants it, unless the thread was moved.
    pub(crate) fn own(&self) -> &CoreList<T> {
        &self.cores[thread_number() % self.cores.len()]
    }

    /// What all cores have committed.
    pub(crate) fn counts(&self) -> Counts {
        let of = |core: &CoreList<T>| Counts { parts: core.parts.load(Relaxed), relogged: core.relogged.load(Relaxed) };
        self.cores.iter().map(of).fold(Counts::default(), Counts::plus)
    }

    /// Takes all members out in the order of their last commits in list number `list`; and how many bytes they had.
    pub(crate) fn take(&self, list: usize, reversed: bool) -> (Vec<Arc<Item<T>>>, i64) {
        let (mut all, mut bytes) = (Vec::new(), 0);
        for core in &self.cores {
            bytes += core.bytes.swap(0, SeqCst);
            all.append(&mut core.items.lock());
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
