//! The context lock: commits share it, a seal takes it alone.
//!
//! One context, as in XFS: while a seal walks the list nobody commits, and the count of those inside is one line that
//! all cores write. Two contexts (ScaleXFS' double committed item list): a seal first sends new commits to the other
//! list, and then waits only for those that came before.
//!
//! Kept true: a thread inside a context found it to be the current one after entering; a seal is alone in the list
//! that it walks.

use crate::fault::{Fault, Planted};
use crate::lists::Classes;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_rt::{
    PassThroughLock, PassingReader, PassingWriter, RwLock, RwLockReadGuard, RwLockWriteGuard, SharedLine,
};

/// The contexts of one journal.
pub(crate) enum Contexts {
    One { lock: RwLock<()>, inside: SharedLine, sequence: AtomicU64 },
    Two { locks: Box<[PassThroughLock; 2]>, sequence: AtomicU64 },
}

/// Inside the current context, for a commit.
pub(crate) struct Inside<'a> {
    pub(crate) sequence: u64,
    pub(crate) list: usize,
    _hold: Shared<'a>,
}

enum Shared<'a> {
    One { inside: &'a SharedLine, _guard: RwLockReadGuard<'a, ()> },
    Two { _guard: PassingReader<'a> },
}

/// Alone in a list that was the current one, for a seal.
pub(crate) struct Alone<'a> {
    pub(crate) sequence: u64,
    pub(crate) list: usize,
    _hold: Option<Exclusive<'a>>,
}

enum Exclusive<'a> {
    One { _guard: RwLockWriteGuard<'a, ()> },
    Two { _guard: PassingWriter<'a> },
}

impl Contexts {
    pub(crate) fn one(classes: &Classes) -> Self {
        Contexts::One { lock: RwLock::new(classes.context, ()), inside: SharedLine::new(), sequence: AtomicU64::new(0) }
    }

    pub(crate) fn two(classes: &Classes) -> Self {
        let lock = || PassThroughLock::new(classes.context);
        Contexts::Two { locks: Box::new([lock(), lock()]), sequence: AtomicU64::new(0) }
    }

    /// The list that commits go to now.
    pub(crate) fn current(&self) -> usize {
        match self {
            Contexts::One { .. } => 0,
            Contexts::Two { sequence, .. } => list_of(sequence.load(SeqCst)),
        }
    }

    /// That of the current context.
    pub(crate) fn sequence(&self) -> u64 {
        match self {
            Contexts::One { sequence, .. } | Contexts::Two { sequence, .. } => sequence.load(SeqCst),
        }
    }

    /// Enters the current context.
    pub(crate) fn enter(&self, planted: &Planted) -> Inside<'_> {
        match self {
            Contexts::One { lock, inside, sequence } => {
                let guard = lock.read();
                inside.write();
                let hold = Shared::One { inside, _guard: guard };
                Inside { sequence: sequence.load(SeqCst), list: 0, _hold: hold }
            }
            Contexts::Two { locks, sequence } => loop {
                let seen = sequence.load(SeqCst);
                let Some(guard) = locks[list_of(seen)].try_read() else {
                    // A seal has this list: the sequence has gone on before that.
                    continue;
                };
                // Seals may have come and gone since, and commits go to the other list by now.
                if sequence.load(SeqCst) == seen
                    || planted.is(Fault::StaleSequence)
                    || steadyfs_rt::mutated("commits-look-again")
                {
                    return Inside { sequence: seen, list: list_of(seen), _hold: Shared::Two { _guard: guard } };
                }
            },
        }
    }

    /// Ends the current context, and waits until nobody is inside. One at a time.
    pub(crate) fn close(&self, planted: &Planted) -> Alone<'_> {
        let drains = !planted.is(Fault::NoDrain) && !steadyfs_rt::mutated("seals-wait-for-commits");
        match self {
            Contexts::One { lock, sequence, .. } => {
                let hold = drains.then(|| Exclusive::One { _guard: lock.write() });
                Alone { sequence: sequence.fetch_add(1, SeqCst), list: 0, _hold: hold }
            }
            Contexts::Two { locks, sequence } => {
                let ended = sequence.fetch_add(1, SeqCst);
                let lock = &locks[list_of(ended)];
                let hold = drains.then(|| Exclusive::Two { _guard: lock.write() });
                Alone { sequence: ended, list: list_of(ended), _hold: hold }
            }
        }
    }
}

fn list_of(sequence: u64) -> usize {
    (sequence % 2) as usize
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        if let Shared::One { inside, .. } = self {
            inside.write();
        }
    }
}
