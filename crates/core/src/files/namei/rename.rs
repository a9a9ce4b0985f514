//! Renaming.
//!
//! Locks, in order: the shape of the tree, if a directory gets another parent or may lose one; both directories, and
//! the directories that are moved or replaced, by number (`shape`); then what is moved or replaced and no directory.
//!
//! A rename may leave a *whiteout*: a character device 0:0, by which overlayfs says that a name of a lower layer is
//! gone. The old entry comes to name it where it stands, so the directory needs no room.

use super::link::{check_project, drop_directory, drop_link, renamed};
use super::make::Order;
use super::shape::{Moved, Tried};
use super::transaction::Transaction;
use super::{check_dir, check_name, is_dot};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::attr::protect::Act;
use crate::files::attr::times::{clock, touch_contents};
use crate::files::dir::{FoundEntry, Room, Search};
use crate::files::inode::{Inode, InodeRef};
use crate::files::orphans::Orphan;
use crate::gate::Want;
use crate::types::{NewInode, RenameFlags};
use crate::volume::Volume;
use std::sync::Arc;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{DeviceNumber, Inode as RawInode, Time};
use steadyfs_rt::RwLockWriteGuard;

/// The type of a whiteout, and no permissions.
const WHITEOUT_MODE: u32 = 0o020_000;

/// A directory and a name in it.
#[derive(Clone, Copy)]
struct Spot<'a> {
    dir: &'a Arc<Inode>,
    name: &'a [u8],
}

/// An entry and the inode behind it.
struct Entry {
    found: FoundEntry,
    inode: InodeRef,
}

impl Entry {
    fn is_dir(&self) -> bool {
        self.inode.kind() == FileType::Dir
    }
}

/// What stands at the new name.
enum There {
    Nothing(Room),
    Entry(Entry),
    /// An entry that nobody wants to know.
    Something,
}

impl There {
    fn entry(&self) -> Option<&Entry> {
        match self {
            There::Entry(entry) => Some(entry),
            There::Nothing(_) | There::Something => None,
        }
    }
}

impl Volume {
    /// Refuses to take `entry` from one directory to the other.
    fn check_move(&self, from: Spot<'_>, to: Spot<'_>, entry: &Entry) -> Result<()> {
        let features = self.sb.features();
        self.check_removal(from.dir, &entry.inode)?;
        to.dir.read(|raw| check_dir(raw, Act::AddName))??;
        let project = entry.inode.inode.read(|raw| raw.project_id(features))?;
        to.dir.read(|raw| check_project(raw, project, features))?
    }

    /// Times of both directories, and their link counts by as many subdirectories as each gained or lost.
    fn after_move(&self, t: &Transaction<'_>, from: Spot<'_>, to: Spot<'_>, gained: [i64; 2], now: Time) -> Result<()> {
        assert!(gained.iter().all(|by| by.abs() <= 1), "one move adds {gained:?} subdirectories to two directories");
        for (spot, gained) in [from, to].into_iter().zip(gained) {
            self.edit_inode(t.change, spot.dir, |raw| {
                let links = i64::from(raw.links()) + gained;
                raw.set_links(u32::try_from(links.max(2)).unwrap_or(u32::MAX));
                touch_contents(raw, now);
            })?;
        }
        Ok(())
    }
}

impl Files {
    /// See `Fs::rename`.
    pub(crate) fn rename(
        &self,
        dir: &InodeRef,
        name: &[u8],
        new_dir: &InodeRef,
        new_name: &[u8],
        how: RenameFlags,
    ) -> Result<()> {
        self.rename_leaving(dir, name, new_dir, new_name, how, None)
    }

    /// See `Fs::rename_whiteout`.
    pub(crate) fn rename_whiteout(
        &self,
        dir: &InodeRef,
        name: &[u8],
        new_dir: &InodeRef,
        new_name: &[u8],
        how: RenameFlags,
        owner: &NewInode,
    ) -> Result<()> {
        if how == RenameFlags::Exchange {
            return Err(Error::Invalid);
        }
        let whiteout = NewInode { mode: WHITEOUT_MODE, rdev: DeviceNumber::default(), ..owner.clone() };
        self.rename_leaving(dir, name, new_dir, new_name, how, Some(&whiteout))
    }

    fn rename_leaving(
        &self,
        dir: &InodeRef,
        name: &[u8],
        new_dir: &InodeRef,
        new_name: &[u8],
        how: RenameFlags,
        whiteout: Option<&NewInode>,
    ) -> Result<()> {
        check_name(name)?;
        check_name(new_name)?;
        let (from, to) = (Spot { dir: &dir.inode, name }, Spot { dir: &new_dir.inode, name: new_name });
        for spot in [from, to] {
            self.vol.dir_head(spot.dir)?;
            if is_dot(spot.name) {
                return Err(Error::Invalid);
            }
        }
        let replaced = self.rename_locked(from, to, how, whiteout)?;
        self.reap_own(replaced);
        Ok(())
    }

    /// Returns the inode that was replaced.
    fn rename_locked(
        &self,
        from: Spot<'_>,
        to: Spot<'_>,
        how: RenameFlags,
        whiteout: Option<&NewInode>,
    ) -> Result<Option<InodeRef>> {
        self.with_directories(from.dir, to.dir, |below| self.rename_with(from, to, how, whiteout, below))
    }

    /// Renames while both directories are locked, and others below them.
    fn rename_with(
        &self,
        from: Spot<'_>,
        to: Spot<'_>,
        how: RenameFlags,
        whiteout: Option<&NewInode>,
        below: &[InodeRef],
    ) -> Result<Tried<Option<InodeRef>>> {
        let found = self.dir_find(from.dir, from.name)?.ok_or(Error::NotFound)?;
        let source = Entry { inode: self.changeable_inode(from.dir, found)?, found };
        let there = match self.dir_search(to.dir, to.name)? {
            Search::Found(found) if how != RenameFlags::NoReplace => {
                There::Entry(Entry { inode: self.changeable_inode(to.dir, found)?, found })
            }
            Search::Found(_) => There::Something,
            Search::Missing(room) => There::Nothing(room),
        };
        let dirs: Vec<_> =
            [Some(&source), there.entry()].into_iter().flatten().filter(|entry| entry.is_dir()).collect();
        if !dirs.iter().all(|entry| below.iter().any(|dir| dir.ino() == entry.inode.ino())) {
            return Ok(Tried::Wants(dirs.into_iter().map(|entry| entry.inode.clone()).collect()));
        }
        self.check_shape(from, to, &source, there.entry(), how)?;
        let replaced = match there {
            There::Nothing(_) if how == RenameFlags::Exchange => return Err(Error::NotFound),
            There::Something => return Err(Error::Exists),
            // Two names of one inode: nothing changes, by POSIX.
            There::Entry(target) if target.inode.ino() == source.inode.ino() => None,
            There::Nothing(room) => {
                let _files = lock_files(&[&source]);
                self.vol.check_move(from, to, &source)?;
                self.move_to_free(from, to, &source, room, whiteout)?;
                None
            }
            There::Entry(target) if how == RenameFlags::Exchange => {
                let _files = lock_files(&[&source, &target]);
                self.vol.check_move(from, to, &source)?;
                self.vol.check_move(to, from, &target)?;
                self.settle_before_rename(&source.inode.inode)?;
                self.settle_before_rename(&target.inode.inode)?;
                self.swap(from, to, &source, &target)?;
                None
            }
            There::Entry(target) => {
                let _files = lock_files(&[&source, &target]);
                self.vol.check_move(from, to, &source)?;
                // Or a crash could leave neither the old contents under this name, nor the new.
                self.settle_before_rename(&source.inode.inode)?;
                self.move_over(from, to, &source, &target, whiteout)?;
                Some(target.inode.clone())
            }
        };
        Ok(Tried::Done(replaced))
    }

    /// Refuses to move a directory below itself, and to replace one that is above the source. Others than directories
    /// go any way.
    fn check_shape(
        &self,
        from: Spot<'_>,
        to: Spot<'_>,
        source: &Entry,
        target: Option<&Entry>,
        how: RenameFlags,
    ) -> Result<()> {
        let directory = |entry: &Entry| entry.is_dir().then(|| entry.inode.ino());
        let (source, target) = (directory(source), target.and_then(directory));
        if from.dir.ino == to.dir.ino || source.is_none() && target.is_none() {
            return Ok(());
        }
        match self.lies_above((from.dir, source), (to.dir, target))? {
            None => Ok(()),
            Some(Moved::Target) if how != RenameFlags::Exchange => Err(Error::NotEmpty),
            Some(_) => Err(Error::Invalid),
        }
    }

    fn move_to_free(
        &self,
        from: Spot<'_>,
        to: Spot<'_>,
        source: &Entry,
        room: Room,
        whiteout: Option<&NewInode>,
    ) -> Result<()> {
        let moves_dir = source.is_dir() && from.dir.ino != to.dir.ino;
        if moves_dir && to.dir.read(RawInode::links)? == u32::MAX {
            return Err(Error::TooManyLinks);
        }
        let change = self.gate.begin(Want::default())?;
        self.transact(&change, |t| {
            t.changes(&source.inode);
            let left = self.make_whiteout(t, from, whiteout)?;
            t.insert(to.dir, room, to.name, &source.inode)?;
            // Adding the new name may have moved the entries of this directory to blocks.
            let found = self.dir_find(from.dir, from.name)?.ok_or(Error::NotFound)?;
            vacate(t, from, found, source, left)?;
            self.redirect_parent(t, source, to.dir, moves_dir)?;
            let now = clock();
            self.vol.after_move(t, from, to, [-i64::from(moves_dir), i64::from(moves_dir)], now)?;
            self.vol.edit_inode(&change, &source.inode.inode, |raw| renamed(raw, to.dir.ino, to.name, now))
        })?;
        self.note_move(from, source);
        Ok(())
    }

    fn move_over(
        &self,
        from: Spot<'_>,
        to: Spot<'_>,
        source: &Entry,
        target: &Entry,
        whiteout: Option<&NewInode>,
    ) -> Result<()> {
        match (source.is_dir(), target.is_dir()) {
            (true, false) => return Err(Error::NotDirectory),
            (false, true) => return Err(Error::IsDirectory),
            (true, true) if !self.dir_is_empty(&target.inode.inode)? => return Err(Error::NotEmpty),
            _ => {}
        }
        self.vol.check_removal(to.dir, &target.inode)?;
        let across = from.dir.ino != to.dir.ino;
        let last = target.is_dir() || target.inode.inode.read(RawInode::links)? <= 1;
        let change = self.gate.begin(Want::default())?;
        self.transact(&change, |t| {
            t.changes(&source.inode);
            t.changes(&target.inode);
            let left = self.make_whiteout(t, from, whiteout)?;
            if last {
                t.orphan(&target.inode, Orphan::Unlinked)?;
            }
            t.retarget(to.dir, to.name, target.found, source.inode.ino(), source.inode.kind())?;
            vacate(t, from, source.found, source, left)?;
            self.redirect_parent(t, source, to.dir, source.is_dir() && across)?;
            let now = clock();
            // The directory that is replaced goes from the new parent, the one that takes its place comes from the old.
            self.vol.after_move(t, from, to, [-i64::from(source.is_dir()), 0], now)?;
            self.vol.edit_inode(&change, &source.inode.inode, |raw| renamed(raw, to.dir.ino, to.name, now))?;
            let drop = if target.is_dir() { drop_directory } else { drop_link };
            self.vol.edit_inode(&change, &target.inode.inode, |raw| drop(raw, now))
        })?;
        self.note_move(from, source);
        self.since.note_lost_name(to.dir.ino, to.name, target.is_dir() || !last);
        if last {
            target.inode.inode.lose_last_name(self.gate.progress().0);
        }
        Ok(())
    }

    fn swap(&self, from: Spot<'_>, to: Spot<'_>, source: &Entry, target: &Entry) -> Result<()> {
        let across = from.dir.ino != to.dir.ino;
        let shift = if across { i64::from(target.is_dir()) - i64::from(source.is_dir()) } else { 0 };
        let grows = if shift > 0 { from.dir } else { to.dir };
        if shift != 0 && grows.read(RawInode::links)? == u32::MAX {
            return Err(Error::TooManyLinks);
        }
        let change = self.gate.begin(Want::default())?;
        self.transact(&change, |t| {
            t.changes(&source.inode);
            t.changes(&target.inode);
            t.retarget(from.dir, from.name, source.found, target.inode.ino(), target.inode.kind())?;
            t.retarget(to.dir, to.name, target.found, source.inode.ino(), source.inode.kind())?;
            self.redirect_parent(t, source, to.dir, source.is_dir() && across)?;
            self.redirect_parent(t, target, from.dir, target.is_dir() && across)?;
            let now = clock();
            self.vol.after_move(t, from, to, [shift, -shift], now)?;
            self.vol.edit_inode(&change, &source.inode.inode, |raw| renamed(raw, to.dir.ino, to.name, now))?;
            self.vol.edit_inode(&change, &target.inode.inode, |raw| renamed(raw, from.dir.ino, from.name, now))
        })?;
        self.note_move(from, source);
        self.note_move(to, target);
        Ok(())
    }

    /// Makes the whiteout, if there is to be one: before anything that a failure here would have to take back.
    fn make_whiteout(
        &self,
        t: &mut Transaction<'_>,
        from: Spot<'_>,
        whiteout: Option<&NewInode>,
    ) -> Result<Option<InodeRef>> {
        let order = |new| {
            let Spot { dir, name } = from;
            Order { dir, name, kind: FileType::CharDevice, new, target: &[], links: 1 }
        };
        whiteout.map(|new| self.make_inode(t, &order(new))).transpose()
    }

    /// For fsync: the entry has left its place and has another name.
    fn note_move(&self, from: Spot<'_>, moved: &Entry) {
        self.since.note_new_name(moved.inode.ino());
        self.since.note_lost_name(from.dir.ino, from.name, true);
    }

    /// Makes `..` of a directory that moved name its new parent.
    fn redirect_parent(&self, t: &mut Transaction<'_>, moved: &Entry, parent: &Inode, needed: bool) -> Result<()> {
        if !needed {
            return Ok(());
        }
        let dir = &moved.inode.inode;
        let dotdot = self.dir_dotdot(dir)?;
        t.retarget(dir, b"..", dotdot, parent.ino, FileType::Dir)
    }
}

/// Takes the old entry away, or has it name the whiteout.
fn vacate(
    t: &mut Transaction<'_>,
    from: Spot<'_>,
    found: FoundEntry,
    source: &Entry,
    whiteout: Option<InodeRef>,
) -> Result<()> {
    match whiteout {
        Some(left) => t.retarget(from.dir, from.name, found, left.ino(), left.kind()),
        None => t.remove(from.dir, from.name, found.place, &source.inode),
    }
}

/// Locks what is moved or replaced and is no directory: those are locked already.
fn lock_files<'a>(entries: &[&'a Entry]) -> Vec<RwLockWriteGuard<'a, ()>> {
    let files = entries.iter().filter(|entry| !entry.is_dir());
    let mut inodes: Vec<&Arc<Inode>> = files.map(|entry| &entry.inode.inode).collect();
    inodes.sort_by_key(|inode| inode.ino);
    assert!(
        inodes.windows(2).all(|pair| pair[0].ino != pair[1].ino),
        "what is moved onto itself would be locked twice"
    );
    inodes.into_iter().map(|inode| inode.rwsem.write()).collect()
}
