//! A mounted file system: the upper half, over [`Volume`].
//!
//! The public operations are methods of [`Fs`], spread over the modules by subject: `file` (contents), `dir` and
//! `namei` (names), `attr`, `xattr`, `checkpoint` (sync), `reclaim` (collection), `mount` (bring-up and end). Each
//! public operation makes room first (collection, checkpoint), then takes the locks in the order of `locks`.

use crate::durable::checkpoint::state::Checkpoints;
use crate::durable::journal::{Journal, JournalStats};
use crate::durable::recovery::recovered::Recovered;
use crate::durable::sync::counters::SyncCounters;
use crate::error::Result;
use crate::files::file::flusher::Flusher;
use crate::files::inode::{Inode, InodeRef, InodeTable};
use crate::files::noted::since::Since;
use crate::files::orphans::Orphans;
use crate::files::pages::{Budget, CacheStats};
use crate::gate::admission::{Admission, Admissions};
use crate::gate::protect::PageHold;
use crate::mount::background::Background;
use crate::mount::discarder::Discarder;
use crate::options::{InPlace, MountOptions};
use crate::reclaim::Reclaim;
use crate::reclaim::report::GcReport;
use crate::stats::counters::{Cause, Traffic};
use crate::stats::serving::Serving;
use crate::volume::io::IoStats;
use crate::volume::{Change, Volume};
use std::ops::Range;
use std::sync::OnceLock;
use steadyfs_format::{Ino, PageIndex, ROOT_INO};

/// A mounted file system.
///
/// Who drops it without [`Fs::unmount`] leaves the volume as a power cut does, but not at once: collectors and
/// write-back that are at work keep it, and write to the device, until they have come to an end. So let nobody else
/// read that device meanwhile.
pub struct Fs {
    pub(crate) vol: Volume,
    pub(crate) options: MountOptions,
    /// The writes that go in place on this volume: never [`InPlace::Auto`].
    pub(crate) in_place: InPlace,
    pub(crate) inodes: InodeTable,
    /// Memory for cached pages.
    pub(crate) budget: Budget,
    /// Inodes without links that are still in use.
    pub(crate) orphans: Orphans,
    pub(crate) checkpoints: Checkpoints,
    /// Changes that have passed the gate.
    pub(crate) admissions: Admissions,
    pub(crate) reclaim: Reclaim,
    /// The shape of the directory tree, for operations that give a directory another parent.
    pub(crate) shape: steadyfs_rt::Mutex<()>,
    pub(crate) background: Background,
    /// Tells the device what holds nothing any more, where the mount wants that.
    pub(crate) discarder: Option<Discarder>,
    pub(crate) flusher: Flusher,
    /// Changes of names that fsync must know of.
    pub(crate) since: Since,
    /// What the metadata journal is to make durable.
    pub(crate) journal: Journal,
    pub(crate) syncs: SyncCounters,
    /// What users wrote and read.
    pub(crate) traffic: Traffic,
    /// What the mount found to recover.
    pub(crate) recovered: OnceLock<Recovered>,
    /// Tells of what serves the volume.
    pub(crate) serving: OnceLock<Serving>,
}

/// Space and inodes of a volume, for statfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// Bytes in a block.
    pub block_size: u32,
    /// Blocks that files and nodes may use.
    pub blocks: u64,
    /// Blocks that are free.
    pub blocks_free: u64,
    /// Blocks that are set aside ([`Fs::set_aside`]), free or not.
    pub set_aside: u64,
    /// Inodes that could exist.
    pub files: u64,
    /// Inodes that could still be created.
    pub files_free: u64,
    /// Longest name, in bytes.
    pub name_max: u32,
    /// A number that tells this volume from others.
    pub fsid: u64,
}

impl StatFs {
    /// Free blocks that anybody may take.
    pub fn blocks_available(&self) -> u64 {
        self.blocks_free.saturating_sub(self.set_aside)
    }
}

impl Volume {
    /// An error if no change can begin now, whatever is free.
    pub(crate) fn check_room_for_changes(&self) -> Result<()> {
        self.check_writable()?;
        self.io.failed.check_room()
    }
}

impl Fs {
    /// The root directory.
    pub fn root(&self) -> Result<InodeRef> {
        self.inode(ROOT_INO)
    }

    /// What this mount recovered of what was fsynced before a crash, if there was something.
    pub fn recovered(&self) -> Option<Recovered> {
        self.recovered.get().copied()
    }

    /// Whether the volume takes no changes.
    pub fn is_read_only(&self) -> bool {
        self.vol.check_writable().is_err()
    }

    /// Starts a change of the volume: waits for room (collecting if free segments run short), then takes the checkpoint
    /// lock shared. Hold no node lock, and no other [`Change`], when calling; an inode lock is fine. Keep it short: a
    /// checkpoint waits for it. Long operations give it back between pieces of at most a few hundred pages.
    pub(crate) fn change(&self) -> Result<Change<'_>> {
        self.prepare_change()?;
        self.make_room()?;
        self.vol.begin_change()
    }

    /// As [`Fs::change`], for one that frees more than it takes: it is not refused because the device takes nothing, so
    /// that somebody can make room there.
    pub(crate) fn change_to_free(&self) -> Result<Change<'_>> {
        self.prepare_change_to_free()?;
        self.make_room()?;
        self.vol.begin_change()
    }

    /// As [`Fs::change`], for one that frees, replaces or moves contents of these pages, and takes up to `blocks`
    /// blocks for data; collectors leave the pages alone meanwhile, but not while it waits for room. The file's lock is
    /// held. In this order, for the change has to end first.
    pub(crate) fn change_contents<'a>(
        &'a self,
        inode: &'a Inode,
        pages: Range<PageIndex>,
        blocks: u64,
    ) -> Result<(Admission<'a>, PageHold<'a>, Change<'a>)> {
        match blocks {
            0 => self.prepare_change_to_free()?,
            _ => self.prepare_change()?,
        }
        let admission = self.admit(blocks)?;
        let held = inode.gc.for_change(pages);
        Ok((admission, held, self.vol.begin_change()?))
    }

    /// Sees to it that a change finds free node ids if there are any, and that dirty nodes are not without bound, by a
    /// checkpoint, which nobody can make within a change. An error if no change can begin now, whatever is free.
    pub(crate) fn prepare_change(&self) -> Result<()> {
        self.vol.check_room_for_changes()?;
        self.prepare_change_to_free()
    }

    fn prepare_change_to_free(&self) -> Result<()> {
        self.vol.check_writable()?;
        let cause = match self.vol.nids.needs_release() {
            true => Cause::NodeIds,
            false if self.vol.nodes.has_too_many_dirty() => Cause::Backlog,
            false => return Ok(()),
        };
        // A caller that needs no id, and no memory, does not need it to succeed; that it failed has been noted.
        let _noted = self.checkpoint(cause);
        self.vol.check_writable()
    }

    /// What went to the device and came from it since the mount.
    pub fn io_stats(&self) -> IoStats {
        self.vol.io.counters.read()
    }

    /// A reference to the inode with this number.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) if there is none, or if it has no name and is neither in use nor
    /// held; damage.
    pub fn inode(&self, ino: Ino) -> Result<InodeRef> {
        self.inodes.get(&self.vol, &self.budget, &self.orphans, ino)
    }

    /// Reads those of these inodes into memory that are not there, at the same time: for who is about to look at all of
    /// them, such as a listing with attributes. What cannot be read is left to that look.
    pub fn read_inodes_ahead(&self, inos: impl Iterator<Item = Ino>) {
        self.vol.read_nodes_ahead(inos.map(Ino::nid));
    }

    /// Counters of the page cache.
    pub fn cache_stats(&self) -> CacheStats {
        self.budget.stats()
    }

    /// What collection did since the mount.
    pub fn gc_totals(&self) -> GcReport {
        self.reclaim.totals()
    }

    /// What the metadata journal did since the mount.
    pub fn journal_stats(&self) -> JournalStats {
        self.journal.stats()
    }

    /// Space and inodes.
    pub fn statfs(&self) -> StatFs {
        let space = &self.vol.space;
        let now = space.counts();
        let free = space.user_blocks().saturating_sub(now.blocks);
        let files = space.max_nodes.min(space.user_blocks());
        let uuid = self.vol.sb.uuid();
        let (head, tail) = uuid.split_at(8);
        let fold = |half: &[u8]| half.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        StatFs {
            block_size: steadyfs_format::BLOCK_SIZE as u32,
            blocks: space.user_blocks(),
            blocks_free: free,
            set_aside: space.set_aside(),
            files,
            files_free: space.max_nodes.saturating_sub(now.nodes).min(free.saturating_sub(space.set_aside())),
            name_max: 255,
            fsid: fold(head) ^ fold(tail),
        }
    }

    /// Sets this many blocks aside for [`Fs::entitled`], an eighth of all at most; how many it is. The mount forgets
    /// it.
    pub fn set_aside(&self, blocks: u64) -> u64 {
        self.vol.space.set_blocks_aside(blocks)
    }

    /// Runs `work`, whose operations in this thread may take the blocks that are set aside.
    pub fn entitled<T>(&self, work: impl FnOnce() -> T) -> T {
        self.vol.space.entitled(work)
    }
}
