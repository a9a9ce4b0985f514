//! The lists of what was committed: commit, seal, and how full they are.

use crate::context::Contexts;
use crate::fault::{Fault, Planted};
use crate::item::Item;
use crate::linked::Linked;
use crate::percore::PerCore;
use crate::space::Space;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use steadyfs_rt::{Cost, LockClass, Mutex, charge_n, now};

/// How commits and seals keep out of each other's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One list under one lock, as XFS has it.
    Single,
    /// Two lists in turn: commits go on while a seal walks one.
    Double,
    /// The same, with a list a core; bytes are counted in strides, a power of two.
    PerCore {
        /// Bytes.
        stride: u64,
    },
}

/// The classes of the locks in here, in the order in which they are taken.
#[derive(Clone, Copy, Debug)]
pub struct Classes {
    /// The context lock.
    pub context: &'static LockClass,
    /// The lock of a list.
    pub list: &'static LockClass,
}

/// What one operation did to one item.
#[derive(Debug)]
pub struct Part<T, P> {
    /// The item; the committer holds its lock.
    pub item: Arc<Item<T>>,
    /// What happened to it.
    pub what: P,
}

/// Everything that was committed before some moment and no earlier seal had.
#[derive(Debug)]
pub struct Sealed<T> {
    /// Which seal it was: from 0, without a gap. Seals of nothing are not counted.
    pub sequence: u64,
    /// The items and their vectors, in the order of their last commits.
    pub items: Vec<(Arc<Item<T>>, T)>,
}

/// What became of commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListStats {
    /// Parts committed.
    pub parts: u64,
    /// Of those, the ones whose item was a member already.
    pub relogged: u64,
    /// Writes of the global count of bytes, where cores have lists of their own.
    pub space_updates: u64,
    /// The longest time for which a seal had a list to itself, in nanoseconds.
    pub longest_seal_ns: u64,
}

/// One of the two lists.
struct List<T> {
    members: Members<T>,
    space: Space,
    /// Nothing was committed to it since it was sealed.
    is_empty: AtomicBool,
}

enum Members<T> {
    One(Mutex<Linked<T>>),
    PerCore(PerCore<T>),
}

/// The lists of one journal.
pub struct CommitLists<T> {
    contexts: Contexts,
    lists: Box<[List<T>]>,
    planted: Planted,
    longest_seal_ns: AtomicU64,
}

/// Counts of commits to a list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) parts: u64,
    pub(crate) relogged: u64,
}

impl Counts {
    pub(crate) fn plus(self, other: Counts) -> Counts {
        Counts { parts: self.parts + other.parts, relogged: self.relogged + other.relogged }
    }

    pub(crate) fn of<T>(touched: &[(Arc<Item<T>>, bool)]) -> Counts {
        let relogged = touched.iter().filter(|(_, is_first)| !is_first).count();
        Counts { parts: touched.len() as u64, relogged: relogged as u64 }
    }
}

/// Bytes of a vector that formatting takes at once.
const LINE: u64 = 64;

impl<T: Default> CommitLists<T> {
    /// Empty lists of this form.
    pub fn new(form: Form, classes: Classes) -> Self {
        let one = || List {
            members: Members::One(Mutex::new(classes.list, Linked::new())),
            space: Space::new(1),
            is_empty: AtomicBool::new(true),
        };
        let per_core = |stride| List {
            members: Members::PerCore(PerCore::new(&classes)),
            space: Space::new(stride),
            is_empty: AtomicBool::new(true),
        };
        let (contexts, lists) = match form {
            Form::Single => (Contexts::one(&classes), vec![one()]),
            Form::Double => (Contexts::two(&classes), vec![one(), one()]),
            Form::PerCore { stride } => (Contexts::two(&classes), vec![per_core(stride), per_core(stride)]),
        };
        CommitLists {
            contexts,
            lists: lists.into_boxed_slice(),
            planted: Planted::default(),
            longest_seal_ns: AtomicU64::new(0),
        }
    }

    /// The same lists with a fault; without the feature `canary` it has no effect.
    #[must_use]
    pub fn with_fault(self, fault: Option<Fault>) -> Self {
        CommitLists { planted: Planted::new(fault), ..self }
    }

    /// Commits what one operation did, all of it to one list. `merge` adds a part to a vector, and returns by how many
    /// bytes that grew (or shrank). Returns the sequence of the seal that will have it.
    pub fn commit<P>(
        &self,
        parts: impl IntoIterator<Item = Part<T, P>>,
        mut merge: impl FnMut(&mut T, P) -> i64,
    ) -> u64 {
        let inside = self.contexts.enter(&self.planted);
        let (number, list) = (inside.list, &self.lists[inside.list]);
        let at = now().as_nanos();
        let (mut bytes, mut touched) = (0, Vec::new());
        for (place, Part { item, what }) in parts.into_iter().enumerate() {
            if (self.planted.is(Fault::LostRelog) || steadyfs_rt::mutated("commits-go-to-one-list"))
                && self.lists.len() > 1
                && item.is_member(1 - number)
            {
                continue;
            }
            let merged = item.merge(number, (at, place as u32), |vector| merge(vector, what));
            charge_n(Cost::LogRecord, 1 + merged.result.unsigned_abs() / LINE);
            bytes += merged.result;
            touched.push((item, merged.is_first));
        }
        self.insert(number, list, touched, bytes);
        inside.sequence
    }

    fn insert(&self, number: usize, list: &List<T>, touched: Vec<(Arc<Item<T>>, bool)>, bytes: i64) {
        let stays_empty = touched.is_empty()
            || (bytes == 0
                && (self.planted.is(Fault::ZeroDelta) || steadyfs_rt::mutated("a-commit-without-bytes-counts")));
        match &list.members {
            Members::One(members) => {
                let mut members = members.lock();
                for (item, is_first) in &touched {
                    match is_first {
                        true => members.add(number, item),
                        false => members.move_to_tail(number, item),
                    }
                }
                members.bytes += bytes;
                members.counts = members.counts.plus(Counts::of(&touched));
                list.space.change_locked(bytes);
            }
            Members::PerCore(cores) => {
                let own = cores.own();
                own.add(&touched);
                let before = own.grow(bytes);
                list.space.change(before, before + bytes, &self.planted);
            }
        }
        // Looked at first: as long as nothing changes, all cores have this line.
        if !stays_empty && list.is_empty.load(SeqCst) {
            list.is_empty.store(false, SeqCst);
        }
    }

    /// Bytes that wait for a seal: at least as many as there are.
    pub fn bytes(&self) -> u64 {
        self.lists.iter().map(|list| list.space.estimate()).sum()
    }

    /// The seal that will have what is committed now, or a later one: what was committed before this call is in this
    /// one at the latest.
    pub fn sequence(&self) -> u64 {
        self.contexts.sequence()
    }

    /// Takes everything that was committed before this call. The caller sees to it that seals come one at a time.
    pub fn seal(&self) -> Option<Sealed<T>> {
        if self.lists[self.contexts.current()].is_empty.load(SeqCst) {
            return None;
        }
        let alone = self.contexts.close(&self.planted);
        let began = now();
        let list = &self.lists[alone.list];
        list.is_empty.store(true, SeqCst);
        let (members, bytes, cores) = match &list.members {
            Members::One(members) => {
                let (members, bytes) = members.lock().take();
                (members, bytes, 1)
            }
            Members::PerCore(cores) => {
                let (members, bytes) = cores.take(
                    alone.list,
                    self.planted.is(Fault::ReversedOrder) || steadyfs_rt::mutated("batches-are-in-order"),
                );
                (members, bytes, cores.cores())
            }
        };
        list.space.reset(bytes, cores);
        charge_n(Cost::RadixLookup, members.len() as u64);
        let detach = |item: Arc<Item<T>>| item.detach(alone.list).map(|vector| (item, vector));
        let items = members.into_iter().filter_map(detach).collect();
        let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.longest_seal_ns.fetch_max(ns, Relaxed);
        Some(Sealed { sequence: alone.sequence, items })
    }

    /// What became of commits so far.
    pub fn stats(&self) -> ListStats {
        let counts = self.lists.iter().map(|list| match &list.members {
            Members::One(members) => members.lock().counts,
            Members::PerCore(cores) => cores.counts(),
        });
        let Counts { parts, relogged } = counts.fold(Counts::default(), Counts::plus);
        ListStats {
            parts,
            relogged,
            space_updates: self.lists.iter().map(|list| list.space.updates()).sum(),
            longest_seal_ns: self.longest_seal_ns.load(Relaxed),
        }
    }
}
