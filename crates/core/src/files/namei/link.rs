//! Giving an inode another name, and taking names away.

use super::shape::Tried;
use super::{check_dir, check_name, is_dot};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::attr::protect::{self, Act};
use crate::files::attr::times::{clock, touch_contents};
use crate::files::inode::{Inode, InodeRef};
use crate::files::orphans::Orphan;
use crate::gate::Want;
use crate::volume::Volume;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{Inode as RawInode, Time, advise, flags};
use steadyfs_format::{Features, Ino};

impl Volume {
    /// Refuses to take a name out of `dir`, or away from `child`, if flags protect either.
    pub(super) fn check_removal(&self, dir: &Inode, child: &InodeRef) -> Result<()> {
        dir.read(|raw| check_dir(raw, Act::DropName))??;
        child.inode.read(|raw| protect::check(raw, Act::Link))?
    }
}

impl Files {
    /// See `Fs::link`.
    pub(crate) fn link(&self, inode: &InodeRef, dir: &InodeRef, name: &[u8]) -> Result<()> {
        check_name(name)?;
        if inode.kind() == FileType::Dir {
            return Err(Error::NotPermitted);
        }
        let dir = &dir.inode;
        let features = self.vol.sb.features();
        let _dir = dir.rwsem.write();
        let room = self.room_for(dir, name)?;
        let _inode = inode.inode.rwsem.write();
        let unnamed = self.orphans.get(inode.ino()) == Some(Orphan::Unnamed);
        let project = inode.inode.read(|raw| check_link(raw, unnamed).map(|()| raw.project_id(features)))??;
        dir.read(|raw| check_project(raw, project, features))??;
        let change = self.gate.begin(Want::default())?;
        self.transact(&change, |t| {
            t.insert(dir, room, name, inode)?;
            t.changes(inode);
            let now = clock();
            self.vol.edit_inode(&change, dir, |raw| touch_contents(raw, now))?;
            self.vol.edit_inode(&change, &inode.inode, |raw| {
                raw.set_links(raw.links() + 1);
                renamed(raw, dir.ino, name, now);
            })
        })?;
        self.since.note_new_name(inode.ino());
        if unnamed {
            inode.inode.unlinked.store(false, SeqCst);
            self.orphans.let_go(&inode.inode);
            self.orphans.remove(inode.ino());
        }
        Ok(())
    }

    /// See `Fs::unlink`.
    pub(crate) fn unlink(&self, dir: &InodeRef, name: &[u8]) -> Result<()> {
        check_name(name)?;
        let last = self.unlink_locked(&dir.inode, name)?;
        self.reap_own(last);
        Ok(())
    }

    /// See `Fs::unlink_held`.
    pub(crate) fn unlink_held(&self, dir: &InodeRef, name: &[u8]) -> Result<Option<InodeRef>> {
        check_name(name)?;
        let held = self.unlink_locked(&dir.inode, name)?;
        self.reap_quietly();
        Ok(held)
    }

    fn unlink_locked(&self, dir: &Arc<Inode>, name: &[u8]) -> Result<Option<InodeRef>> {
        let _dir = dir.rwsem.write();
        self.vol.dir_head(dir)?;
        if is_dot(name) {
            return Err(Error::IsDirectory);
        }
        let found = self.dir_find(dir, name)?.ok_or(Error::NotFound)?;
        let child = self.changeable_inode(dir, found)?;
        if child.kind() == FileType::Dir {
            return Err(Error::IsDirectory);
        }
        let locked = child.inode.rwsem.write();
        self.vol.check_removal(dir, &child)?;
        let last = child.inode.read(RawInode::links)? <= 1;
        let change = self.gate.begin(Want::to_free())?;
        self.transact(&change, |t| {
            if last {
                t.orphan(&child, Orphan::Unlinked)?;
            }
            t.remove(dir, name, found.place, &child)?;
            t.changes(&child);
            let now = clock();
            self.vol.edit_inode(&change, dir, |raw| touch_contents(raw, now))?;
            self.vol.edit_inode(&change, &child.inode, |raw| drop_link(raw, now))
        })?;
        self.since.note_lost_name(dir.ino, name, !last);
        if last {
            child.inode.lose_last_name(self.gate.progress().0);
        }
        drop((change, locked));
        Ok(last.then_some(child))
    }

    /// See `Fs::rmdir`.
    pub(crate) fn rmdir(&self, dir: &InodeRef, name: &[u8]) -> Result<()> {
        check_name(name)?;
        let removed = self.rmdir_locked(&dir.inode, name)?;
        self.reap_own(Some(removed));
        Ok(())
    }

    /// See `Fs::rmdir_held`.
    pub(crate) fn rmdir_held(&self, dir: &InodeRef, name: &[u8]) -> Result<InodeRef> {
        check_name(name)?;
        let held = self.rmdir_locked(&dir.inode, name)?;
        self.reap_quietly();
        Ok(held)
    }

    fn rmdir_locked(&self, dir: &Arc<Inode>, name: &[u8]) -> Result<InodeRef> {
        self.with_directories(dir, dir, |below| self.rmdir_with(dir, name, below))
    }

    /// Removes a directory while its parent is locked, and others below that.
    fn rmdir_with(&self, dir: &Arc<Inode>, name: &[u8], below: &[InodeRef]) -> Result<Tried<InodeRef>> {
        self.vol.dir_head(dir)?;
        match name {
            b"." => return Err(Error::Invalid),
            b".." => return Err(Error::NotEmpty),
            _ => {}
        }
        let found = self.dir_find(dir, name)?.ok_or(Error::NotFound)?;
        let child = self.changeable_inode(dir, found)?;
        if child.kind() != FileType::Dir {
            return Err(Error::NotDirectory);
        }
        let is_next = below.is_empty() && child.ino() > dir.ino;
        let locked = is_next.then(|| child.inode.rwsem.write());
        if locked.is_none() && !below.iter().any(|dir| dir.ino() == child.ino()) {
            return Ok(Tried::Wants(vec![child.clone()]));
        }
        self.vol.check_removal(dir, &child)?;
        if !self.dir_is_empty(&child.inode)? {
            return Err(Error::NotEmpty);
        }
        let change = self.gate.begin(Want::to_free())?;
        self.transact(&change, |t| {
            t.orphan(&child, Orphan::Unlinked)?;
            t.remove(dir, name, found.place, &child)?;
            t.changes(&child);
            let now = clock();
            self.vol.edit_inode(&change, dir, |raw| {
                raw.set_links(raw.links().saturating_sub(1).max(2));
                touch_contents(raw, now);
            })?;
            self.vol.edit_inode(&change, &child.inode, |raw| drop_directory(raw, now))
        })?;
        self.since.note_lost_name(dir.ino, name, true);
        child.inode.lose_last_name(self.gate.progress().0);
        drop((change, locked));
        Ok(Tried::Done(child))
    }
}

fn check_link(raw: &RawInode, unnamed: bool) -> Result<()> {
    match raw.links() {
        0 if !unnamed => Err(Error::NotFound),
        u32::MAX => Err(Error::TooManyLinks),
        _ => protect::check(raw, Act::Link),
    }
}

/// Refuses to bring an inode of another project into a directory that keeps its project.
pub(super) fn check_project(dir: &RawInode, project: Option<u32>, features: Features) -> Result<()> {
    let keeps = dir.flags() & flags::PROJINHERIT != 0;
    if keeps && project != dir.project_id(features) { Err(Error::CrossProject) } else { Ok(()) }
}

/// The inode has a new name. Recovery must not take it for the only one: fsync of a renamed or linked file is a
/// checkpoint (format section 12.2).
pub(super) fn renamed(raw: &mut RawInode, dir: Ino, name: &[u8], now: Time) {
    raw.set_pino(dir);
    raw.set_ctime(now);
    // A name that is in a directory is never too long for the inode.
    let kept = raw.set_name(name);
    assert!(kept.is_ok(), "a name of {} bytes", name.len());
    if !raw.is_dir() {
        raw.set_advise(raw.advise() | advise::LOST_PINO);
    }
}

/// One name less.
pub(crate) fn drop_link(raw: &mut RawInode, now: Time) {
    raw.set_links(raw.links().saturating_sub(1));
    raw.set_ctime(now);
}

/// The directory's only name is gone.
pub(crate) fn drop_directory(raw: &mut RawInode, now: Time) {
    assert!(raw.is_dir(), "only directories lose all links at once");
    raw.set_links(0);
    raw.set_ctime(now);
}
