//! The upper half: inodes, names, contents and attributes, as programs see them.
//!
//! [`inode`] is an inode in memory; [`dir`] and [`namei`] are names, [`file`] and [`pages`] contents, [`mapping`] says
//! which blocks they lie in, [`attr`], [`xattr`] and [`acl`] are attributes. [`orphans`] are inodes without a name, and
//! [`reap`] deletes those that nobody uses any more. [`noted`] is written down for [`crate::durable`], which decides
//! what becomes durable when, and [`overwrites`] are contents that were written in place.
//!
//! Operations are methods of [`Files`], spread over these modules by subject. Each passes the gate first, where room is
//! made (`gate`), then takes the locks in the order of `locks`.

pub(crate) mod acl;
pub(crate) mod attr;
pub(crate) mod dir;
pub(crate) mod errseq;
pub(crate) mod file;
pub(crate) mod inode;
pub(crate) mod mapping;
pub(crate) mod namei;
pub(crate) mod noted;
pub(crate) mod orphans;
pub(crate) mod overwrites;
pub(crate) mod pages;
mod reap;
pub(crate) mod xattr;

use crate::counters::Traffic;
use crate::error::{Error, Result};
use crate::gate::Gate;
use crate::options::{InPlace, MountOptions};
use crate::volume::Volume;
use file::flusher::Flusher;
use inode::{Inode, InodeRef, InodeTable};
use noted::journal::Journal;
use noted::since::Since;
use orphans::Orphans;
use pages::Budget;
use std::sync::{Arc, OnceLock, Weak};
use steadyfs_format::Ino;

/// The files of a mounted volume.
pub(crate) struct Files {
    pub(crate) vol: Arc<Volume>,
    pub(crate) options: Arc<MountOptions>,
    /// The writes that go in place on this volume: never [`InPlace::Auto`].
    pub(crate) in_place: InPlace,
    pub(crate) inodes: InodeTable,
    /// Memory for cached pages.
    pub(crate) budget: Budget,
    /// Inodes without links that are still in use.
    pub(crate) orphans: Orphans,
    /// The shape of the directory tree, for operations that give a directory another parent.
    pub(crate) shape: steadyfs_rt::Mutex<()>,
    pub(crate) flusher: Flusher,
    /// Changes of names that fsync must know of.
    pub(crate) since: Since,
    /// What the metadata journal is to make durable.
    pub(crate) journal: Journal,
    /// What users wrote and read.
    pub(crate) traffic: Traffic,
    pub(crate) gate: Gate,
    /// The way up: an operation on names that relies on contents.
    pub(crate) order: OnceLock<Weak<dyn KeepOrder>>,
}

/// What becomes durable in which order, where names rely on contents.
pub(crate) trait KeepOrder: Send + Sync {
    /// Before a file takes the name of another one, or swaps names with it: a checkpoint from here on has its contents,
    /// and a crash has them if it has the rename. The file is locked, and no change is held.
    ///
    /// # Errors
    /// As a write-back.
    fn settle_before_rename(&self, inode: &Arc<Inode>) -> Result<()>;
}

impl Files {
    /// See `Fs::inode`.
    pub(crate) fn inode(&self, ino: Ino) -> Result<InodeRef> {
        self.inodes.get(&self.vol, &self.budget, &self.orphans, ino)
    }

    /// See [`KeepOrder::settle_before_rename`].
    pub(crate) fn settle_before_rename(&self, inode: &Arc<Inode>) -> Result<()> {
        let order = self.order.get().and_then(Weak::upgrade);
        order.ok_or_else(|| Error::ReadOnly("the volume is not mounted any more".into()))?.settle_before_rename(inode)
    }
}
