//! Inodes without a name that are still in use.
//!
//! Kept true: an inode whose link count is zero is in [`Orphans`] until its node is freed, and the checkpoint writes
//! that set down, so a crash at any moment leaves either the whole inode listed as an orphan or no inode at all. Format
//! section 13. Each core has a part of the room in the checkpoint pack at hand, so that removals on several cores meet
//! nowhere.

use crate::error::{Error, Result};
use crate::files::inode::Inode;
use crate::locks;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use steadyfs_format::Ino;
use steadyfs_format::numbers::NumberMap;
use steadyfs_rt::{Mutex, SharedLine, cpus, thread_number};

const SHARDS: usize = 64;

/// Why an inode has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Orphan {
    /// Its last name was removed: it can never have one again.
    Unlinked,
    /// It was made without a name and may still be given one.
    Unnamed,
}

/// Counts of orphans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct OrphanStats {
    /// Inodes without a name that the next checkpoint lists.
    pub listed: u64,
    /// Of those, the ones that could not be deleted: they are tried again, in this mount or a later one.
    pub kept: u64,
}

/// The set of orphans, in parts by number.
pub(crate) struct Orphans {
    shards: Box<[Mutex<NumberMap<Ino, Orphan>>]>,
    room: PackRoom,
    failed: Mutex<Vec<Failed>>,
}

/// An orphan that could not be deleted, to be tried again.
pub(super) enum Failed {
    /// It could not be read.
    Unread(Ino),
    /// It was claimed, which nobody can do twice, and is deleted in part.
    Claimed(Arc<Inode>),
}

impl Orphans {
    /// An empty set; a checkpoint can write down `limit` inodes.
    pub(crate) fn new(limit: usize) -> Self {
        Orphans {
            shards: (0..SHARDS).map(|_| Mutex::new(&locks::ORPHANS, NumberMap::default())).collect(),
            room: PackRoom::new(limit),
            failed: Mutex::new(&locks::ORPHANS, Vec::new()),
        }
    }

    fn shard(&self, ino: Ino) -> &Mutex<NumberMap<Ino, Orphan>> {
        &self.shards[ino.index() % SHARDS]
    }

    /// Adds an inode that has no name, or is about to lose the last one.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if a checkpoint could not write one more down; damage, if the inode had a name beyond its
    /// last one.
    pub(crate) fn add(&self, ino: Ino, why: Orphan) -> Result<()> {
        if !self.room.take() {
            return Err(Error::NoSpace);
        }
        let mut shard = self.shard(ino).lock();
        if shard.contains_key(&ino) {
            drop(shard);
            self.room.give();
            return Err(Error::corrupt(format!("inode {ino} has more names than links")));
        }
        shard.insert(ino, why);
        Ok(())
    }

    /// Takes an inode out: it has a name again, or it is gone.
    pub(crate) fn remove(&self, ino: Ino) {
        let old = self.shard(ino).lock().remove(&ino);
        assert!(old.is_some(), "{ino:?} is no orphan");
        self.room.give();
    }

    /// Whether the inode has no name, and why.
    pub(crate) fn get(&self, ino: Ino) -> Option<Orphan> {
        self.shard(ino).lock().get(&ino).copied()
    }

    /// An inode is to be tried again.
    pub(super) fn keep(&self, failed: Failed) {
        if let Failed::Claimed(inode) = &failed {
            assert_eq!(inode.users(), 0, "inode {} is used and deleted in part", inode.ino);
        }
        self.failed.lock().push(failed);
    }

    /// Those to be tried again, which leaves none.
    pub(super) fn take_failed(&self) -> Vec<Failed> {
        std::mem::take(&mut *self.failed.lock())
    }

    /// How many there are.
    pub(super) fn stats(&self) -> OrphanStats {
        let listed = self.shards.iter().map(|shard| shard.lock().len() as u64).sum();
        OrphanStats { listed, kept: self.failed.lock().len() as u64 }
    }

    /// The orphans in rising order, for a checkpoint; consistent under the exclusive checkpoint lock.
    pub(crate) fn list(&self) -> Vec<Ino> {
        let mut inos: Vec<Ino> =
            self.shards.iter().flat_map(|shard| shard.lock().keys().copied().collect::<Vec<_>>()).collect();
        inos.sort_unstable();
        inos
    }
}

/// More parts than this are no gain.
const MOST_CORES: usize = 256;
/// Most that a core takes, or gives back, at once.
const PORTION: usize = 64;

/// How many more inodes a checkpoint pack has room for: some at hand of each core, and the rest.
///
/// Kept true: what is at hand, the rest and what is taken are the pack's room together; who finds none has looked
/// everywhere.
struct PackRoom {
    rest: AtomicUsize,
    line: SharedLine,
    cores: Box<[RoomAtHand]>,
}

/// A core's part, on cache lines of its own.
#[repr(align(128))]
struct RoomAtHand(Mutex<usize>);

impl PackRoom {
    fn new(limit: usize) -> Self {
        let none = || RoomAtHand(Mutex::new(&locks::ORPHAN_ROOM, 0));
        let cores = std::iter::repeat_with(none).take(cpus().clamp(1, MOST_CORES)).collect();
        PackRoom { rest: AtomicUsize::new(limit), line: SharedLine::new(), cores }
    }

    fn own(&self) -> &Mutex<usize> {
        &self.cores[thread_number() % self.cores.len()].0
    }

    /// Takes room for one; false if there is none.
    fn take(&self) -> bool {
        let mut own = self.own().lock();
        if *own == 0 {
            self.line.write();
            // Few at a time where there is little: nobody hoards what others look for.
            let portion = |rest: usize| (rest / (4 * self.cores.len())).clamp(1, PORTION).min(rest);
            let before = self.rest.fetch_update(SeqCst, SeqCst, |rest| Some(rest - portion(rest))).unwrap_or(0);
            *own = portion(before);
        }
        if *own > 0 {
            *own -= 1;
            return true;
        }
        drop(own);
        self.cores.iter().any(|core| {
            let mut other = core.0.lock();
            let some = *other > 0;
            *other -= usize::from(some);
            some
        })
    }

    /// Gives room for one back.
    fn give(&self) {
        let mut own = self.own().lock();
        *own += 1;
        if *own > 2 * PORTION {
            *own -= PORTION;
            self.line.write();
            self.rest.fetch_add(PORTION, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadyfs_rt::sim::{SimConfig, run};
    use steadyfs_rt::spawn;

    /// Tasks on many cores that take all there is: exactly so many, and what one gives back another finds.
    #[test]
    fn cores_share_the_room_of_the_pack_and_leave_none() {
        for (seed, limit) in [(1, 10), (2, 1000), (3, 20_000)] {
            let config = SimConfig { cores: 8, seed, ..SimConfig::default() };
            let work = move || {
                let room = Arc::new(PackRoom::new(limit));
                let taker = |_| {
                    let room = Arc::clone(&room);
                    spawn("taker", move || std::iter::from_fn(|| room.take().then_some(())).count())
                };
                let takers: Vec<_> = (0..8).map(taker).collect();
                let taken: usize = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
                assert_eq!(taken, limit, "seed {seed}");
                (0..limit).for_each(|_| room.give());
                let other = Arc::clone(&room);
                let again = spawn("taker", move || std::iter::from_fn(|| other.take().then_some(())).count());
                assert_eq!(again.join().unwrap(), limit, "seed {seed}");
            };
            run(config, work).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        }
    }

    #[test]
    fn the_set_is_bounded_and_sorted() {
        let orphans = Orphans::new(2);
        orphans.add(Ino(9), Orphan::Unlinked).unwrap();
        orphans.add(Ino(5), Orphan::Unnamed).unwrap();
        assert!(matches!(orphans.add(Ino(6), Orphan::Unlinked), Err(Error::NoSpace)));
        assert_eq!(orphans.list(), [Ino(5), Ino(9)]);
        assert_eq!((orphans.get(Ino(5)), orphans.get(Ino(6))), (Some(Orphan::Unnamed), None));
        orphans.remove(Ino(9));
        orphans.add(Ino(6), Orphan::Unlinked).unwrap();
        assert_eq!(orphans.list(), [Ino(5), Ino(6)]);
    }
}
