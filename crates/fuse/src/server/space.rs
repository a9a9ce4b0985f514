//! Space of the volume for whoever asks: what a deleted file is about to give back, and what is set aside.
//!
//! The kernel tells of an inode's end a moment after the name is gone, and its blocks are freed then. Whoever finds no
//! space waits for that; who only asks how much there is is told of them as free, and holds up no thread.

use super::nodes::Nodes;
use super::{Answer, Call, Server};
use crate::wire::abi::StatfsOut;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use steadyfs_format::BLOCK_SIZE;
use steadyfs_rt::{Instant, LockClass, Mutex, MutexGuard, now, sleep};

static UNLINKED: LockClass = LockClass::new("fuse_unlinked_mutex", 5);

/// How long after a file was deleted its space may still come.
const FORGET_PATIENCE: Duration = Duration::from_millis(250);
/// The same of a file that seems to be open: the kernel tells of a close a moment later, too.
pub(super) const CLOSE_PATIENCE: Duration = Duration::from_millis(20);
/// Sectors, by which stat(2) counts, of a block.
const SECTORS: u64 = BLOCK_SIZE as u64 / 512;
const PAUSE: Duration = Duration::from_millis(1);

/// An inode that lost its last link, and is not deleted yet.
struct Leaving {
    ino: u32,
    since: Instant,
    /// Blocks that it had then.
    blocks: u64,
}

/// Those of a short time ago, by age.
pub(super) struct Unlinked(Mutex<VecDeque<Leaving>>);

impl Unlinked {
    pub(super) fn new() -> Self {
        Unlinked(Mutex::new(&UNLINKED, VecDeque::new()))
    }

    /// An inode with so many sectors has lost its last link.
    pub(super) fn note(&self, ino: u32, sectors: u64) {
        self.recent().push_back(Leaving { ino, since: now(), blocks: sectors / SECTORS });
    }

    /// It is deleted.
    pub(super) fn gone(&self, ino: u32) {
        let mut recent = self.recent();
        if let Some(at) = recent.iter().position(|leaving| leaving.ino == ino) {
            recent.remove(at);
        }
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<Leaving>> {
        let mut recent = self.0.lock();
        while recent.front().is_some_and(|leaving| now().saturating_since(leaving.since) >= FORGET_PATIENCE) {
            recent.pop_front();
        }
        recent
    }

    /// Whether space of one may still come that was unlinked before `then`.
    fn are_awaited(&self, then: Instant) -> bool {
        self.recent().front().is_some_and(|leaving| leaving.since <= then)
    }

    /// Blocks of those that nobody has open: they are about to be freed.
    fn blocks(&self, nodes: &Nodes) -> u64 {
        let is_closed =
            |leaving: &&Leaving| now().saturating_since(leaving.since) < CLOSE_PATIENCE || !nodes.is_open(leaving.ino);
        self.recent().iter().filter(is_closed).map(|leaving| leaving.blocks).sum()
    }
}

impl Server {
    /// Does something that takes space. If there is none, but a deleted file is about to be freed, waits for that and
    /// tries again. It does not wait for files that are deleted from now on: somebody may never end deleting.
    fn with_space<T>(&self, mut work: impl FnMut() -> steadyfs_core::Result<T>) -> steadyfs_core::Result<T> {
        let began = now();
        loop {
            let reaps = self.reaps.load(SeqCst);
            match work() {
                Err(steadyfs_core::Error::NoSpace) if self.space_comes(reaps, began) => {}
                done => return done,
            }
        }
    }

    /// Waits until an inode has been deleted since there were `reaps` deletions; false if none is to be expected of
    /// those that were unlinked before the request `began`. The kernel forgets an inode right after its last link is
    /// gone, but it may ask for something else first.
    fn space_comes(&self, reaps: u64, began: Instant) -> bool {
        while now().saturating_since(began) < FORGET_PATIENCE {
            let awaited = self.unlinked.are_awaited(began);
            // Whoever is just deleting one.
            drop(self.reaping.lock());
            if self.reaps.load(SeqCst) != reaps {
                return true;
            }
            if !awaited {
                return false;
            }
            sleep(PAUSE);
        }
        false
    }
}

impl Call<'_> {
    /// Does something that takes space: see [`Server::with_space`]. Who is entitled to it gets what is set aside when
    /// nothing else is left.
    pub(super) fn with_space<T>(&self, work: impl FnMut() -> steadyfs_core::Result<T>) -> Answer<T> {
        self.with_space_for(|| self.server.policy.is_entitled(&self.header), work)
    }

    /// The same on behalf of somebody.
    pub(super) fn with_space_for<T>(
        &self,
        is_entitled: impl FnOnce() -> bool,
        mut work: impl FnMut() -> steadyfs_core::Result<T>,
    ) -> Answer<T> {
        Ok(match self.server.with_space(&mut work) {
            Err(steadyfs_core::Error::NoSpace) if is_entitled() => self.fs.entitled(work)?,
            done => done?,
        })
    }

    pub(super) fn statfs(&mut self) -> Answer {
        let mut stat = self.fs.statfs();
        if !steadyfs_rt::mutated("statfs-counts-deleted-files") {
            stat.blocks_free = stat.blocks.min(stat.blocks_free + self.server.unlinked.blocks(&self.server.nodes));
        }
        Ok(self.reply.put(&StatfsOut {
            blocks: stat.blocks,
            bfree: stat.blocks_free,
            bavail: stat.blocks_available(),
            files: stat.files,
            ffree: stat.files_free,
            bsize: stat.block_size,
            namelen: stat.name_max,
            frsize: stat.block_size,
            ..StatfsOut::default()
        })?)
    }
}
