//! A mounted file system, as programs use it: every public operation is a method of [`Fs`].
//!
//! The work is done below. [`Files`] has what programs see, [`Durable`] makes it survive a power cut, [`Reclaim`] makes
//! room; each rests on the one before. The operations lie in the modules by subject, and `mount` brings a volume up and
//! ends it.

mod attributes;
pub(crate) mod background;
mod collection;
mod contents;
pub(crate) mod discarder;
mod durability;
mod names;
pub(crate) mod serving;

use crate::durable::Durable;
use crate::durable::recovery::recovered::Recovered;
use crate::error::Result;
use crate::files::Files;
use crate::files::inode::InodeRef;
use crate::files::noted::journal::JournalStats;
use crate::files::pages::CacheStats;
use crate::reclaim::Reclaim;
use crate::reclaim::report::GcReport;
use crate::volume::Volume;
use crate::volume::io::IoStats;
use background::Background;
use discarder::Discarder;
use serving::Serving;
use std::sync::{Arc, OnceLock};
use steadyfs_format::{Ino, ROOT_INO};

/// A mounted file system.
///
/// Who drops it without [`Fs::unmount`] leaves the volume as a power cut does, but not at once: collectors and
/// write-back that are at work keep it, and write to the device, until they have come to an end. So let nobody else
/// read that device meanwhile.
pub struct Fs {
    pub(crate) vol: Arc<Volume>,
    pub(crate) files: Arc<Files>,
    pub(crate) durable: Arc<Durable>,
    pub(crate) reclaim: Arc<Reclaim>,
    pub(crate) background: Background,
    /// Tells the device what holds nothing any more, where the mount wants that.
    pub(crate) discarder: Option<Discarder>,
    /// What the mount found to recover.
    pub(crate) recovered: OnceLock<Recovered>,
    /// Tells of what serves the volume.
    pub(crate) serving: OnceLock<Serving>,
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
        self.files.inode(ino)
    }

    /// Reads those of these inodes into memory that are not there, at the same time: for who is about to look at all of
    /// them, such as a listing with attributes. What cannot be read is left to that look.
    pub fn read_inodes_ahead(&self, inos: impl Iterator<Item = Ino>) {
        self.vol.read_nodes_ahead(inos.map(Ino::nid));
    }

    /// Counters of the page cache.
    pub fn cache_stats(&self) -> CacheStats {
        self.files.budget.stats()
    }

    /// What collection did since the mount.
    pub fn gc_totals(&self) -> GcReport {
        self.reclaim.totals()
    }

    /// What the metadata journal did since the mount.
    pub fn journal_stats(&self) -> JournalStats {
        self.files.journal.stats()
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
