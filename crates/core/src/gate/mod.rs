//! The gate that changes pass before they take blocks, and what changes of a file and collectors keep from each other.
//!
//! A change says what it wants ([`Want`]) and begins when there is room for that ([`Gate::begin`]). How much room there
//! is knows the [`Headroom`] of the volume; where there is too little, the gate calls those who make some, above
//! ([`MakeRoom`]). So files, and what makes them durable, need to know only this.
//!
//! Kept true: a thread that waits here holds no node lock and no change, so a checkpoint and a collection can go on.

pub(crate) mod admission;
pub(crate) mod freezes;
pub(crate) mod protect;

use crate::counters::Cause;
use crate::error::{Error, Result};
use crate::volume::{Change, Volume};
use admission::{Admission, Admissions};
use freezes::Freezes;
use protect::{FileLocks, PageHold};
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock, Weak};
use steadyfs_format::{Lba, PageIndex};

/// The room of a volume, as each kind of it reckons.
pub(crate) trait Headroom: Send + Sync {
    /// Whether there is room for a change now, with the blocks of all admissions, and nobody has to make some soon.
    fn has_room(&self) -> bool;

    /// Passes the gate, if that needs no waiting.
    fn try_pass<'a>(&self, admissions: &'a Admissions, blocks: u64) -> Option<Admission<'a>> {
        Admission::if_room(admissions, blocks, || self.has_room())
    }

    /// Something is asked of the volume that making room should not be in the way of.
    fn note_request(&self) {}

    /// Sections have become free.
    fn announce(&self) {}
}

/// The way up: making room, which the gate asks for where there is too little.
pub(crate) trait MakeRoom: Send + Sync {
    /// Waits until there is room for `blocks` blocks, and makes some if need be.
    ///
    /// # Errors
    /// `NoSpace`; why none could be made.
    fn make_room<'a>(&self, admissions: &'a Admissions, blocks: u64) -> Result<Admission<'a>>;

    /// Makes a checkpoint.
    ///
    /// # Errors
    /// Why it failed.
    fn checkpoint(&self, cause: Cause) -> Result<()>;

    /// Moves the contents of these blocks of the main area, wherever they are and whichever node owns them.
    ///
    /// # Errors
    /// A summary, an owner or a block cannot be read; or there is no room.
    fn move_blocks(&self, lbas: &[Lba]) -> Result<()>;
}

/// The gate of a mounted volume.
pub(crate) struct Gate {
    vol: Arc<Volume>,
    admissions: Arc<Admissions>,
    room: Arc<dyn Headroom>,
    freezes: Arc<Freezes>,
    above: OnceLock<Weak<dyn MakeRoom>>,
}

/// A change's wishes.
#[derive(Default)]
pub(crate) struct Want<'a> {
    blocks: u64,
    frees: bool,
    pages: Option<(&'a FileLocks, Range<PageIndex>)>,
}

impl<'a> Want<'a> {
    /// A change that takes up to `blocks` blocks for data; no more than a section's.
    pub(crate) fn blocks(blocks: u64) -> Self {
        Want { blocks, ..Want::default() }
    }

    /// A change that frees more than it takes. It is not refused because the device takes nothing, so that somebody can
    /// make room there.
    pub(crate) fn to_free() -> Self {
        Want { frees: true, ..Want::default() }
    }

    /// It frees, replaces or moves contents of these pages, whose file is locked. Collectors leave the pages alone
    /// meanwhile, but not while it waits for room.
    pub(crate) fn on(self, file: &'a FileLocks, pages: Range<PageIndex>) -> Self {
        Want { frees: self.frees || self.blocks == 0, pages: Some((file, pages)), ..self }
    }
}

/// A change that has passed the gate. Its parts end in this order.
pub(crate) struct Begun<'a> {
    change: Change<'a>,
    _held: Option<PageHold<'a>>,
    admission: Admission<'a>,
}

impl<'a> Begun<'a> {
    /// It has taken `blocks` blocks.
    ///
    /// # Panics
    /// If they are more than it wanted.
    pub(crate) fn used(&self, blocks: u64) {
        self.admission.used(blocks);
    }

    /// The change without its admission, which is over.
    pub(crate) fn into_change(self) -> Change<'a> {
        self.change
    }
}

impl<'a> Deref for Begun<'a> {
    type Target = Change<'a>;

    fn deref(&self) -> &Change<'a> {
        &self.change
    }
}

impl Gate {
    /// The gate of a volume with this room; [`Gate::open`] comes before anybody has to wait.
    pub(crate) fn new(vol: &Arc<Volume>, admissions: &Arc<Admissions>, room: Arc<dyn Headroom>) -> Self {
        Gate {
            vol: Arc::clone(vol),
            admissions: Arc::clone(admissions),
            room,
            freezes: Arc::default(),
            above: OnceLock::new(),
        }
    }

    /// From here on the gate asks `above` to make room.
    pub(crate) fn open(&self, above: Weak<dyn MakeRoom>) {
        let first = self.above.set(above).is_ok();
        assert!(first, "two make room on one volume");
    }

    /// Starts a change of the volume: waits for room, then takes the checkpoint lock shared. Hold no node lock, and no
    /// other [`Change`], when calling; an inode lock is fine. Keep it short: a checkpoint waits for it. Long operations
    /// give it back between pieces of at most a few hundred pages.
    ///
    /// # Errors
    /// `NoSpace`; the volume takes no changes; why no room could be made.
    pub(crate) fn begin<'a>(&'a self, want: Want<'a>) -> Result<Begun<'a>> {
        let admission = self.admit(&want)?;
        let held = want.pages.map(|(file, pages)| file.for_change(pages));
        Ok(Begun { change: self.vol.begin_change()?, _held: held, admission })
    }

    /// Passes the gate: as [`Gate::begin`], for a thread that begins changes by itself while it is admitted.
    ///
    /// # Errors
    /// As [`Gate::begin`].
    pub(crate) fn admit(&self, want: &Want<'_>) -> Result<Admission<'_>> {
        if !want.frees {
            self.vol.check_room_for_changes()?;
        }
        self.prepare()?;
        match self.room.try_pass(&self.admissions, want.blocks) {
            Some(admission) => Ok(admission),
            None => self.above()?.make_room(&self.admissions, want.blocks),
        }
    }

    /// Passes the gate if that needs no waiting, and without the help of collectors soon.
    pub(crate) fn try_admit(&self, blocks: u64) -> Option<Admission<'_>> {
        Admission::if_room(&self.admissions, blocks, || self.room.has_room())
    }

    /// Sees to it that a change finds free node ids if there are any, and that dirty nodes are not without bound, by a
    /// checkpoint, which nobody can make within a change.
    fn prepare(&self) -> Result<()> {
        self.vol.check_writable()?;
        let cause = match self.vol.nids.needs_release() {
            true => Cause::NodeIds,
            false if self.vol.nodes.has_too_many_dirty() => Cause::Backlog,
            false => return Ok(()),
        };
        // A caller that needs no id, and no memory, does not need it to succeed; that it failed has been noted.
        let _noted = self.above()?.checkpoint(cause);
        self.vol.check_writable()
    }

    /// See [`MakeRoom::move_blocks`].
    pub(crate) fn move_blocks(&self, lbas: &[Lba]) -> Result<()> {
        self.above()?.move_blocks(lbas)
    }

    fn above(&self) -> Result<Arc<dyn MakeRoom>> {
        self.above
            .get()
            .and_then(Weak::upgrade)
            .ok_or_else(|| Error::ReadOnly("the volume is not mounted any more".into()))
    }

    /// See [`Headroom::note_request`].
    pub(crate) fn note_request(&self) {
        self.room.note_request();
    }

    /// See [`Headroom::announce`].
    pub(crate) fn announce_room(&self) {
        self.room.announce();
    }

    /// The checkpoints that froze, and that committed.
    pub(crate) fn freezes(&self) -> &Arc<Freezes> {
        &self.freezes
    }

    /// See [`Freezes::progress`].
    pub(crate) fn progress(&self) -> (u64, u64) {
        self.freezes.progress()
    }
}
