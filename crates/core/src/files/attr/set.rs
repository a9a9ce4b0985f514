//! Changing attributes.

use super::protect::{self, Act};
use super::times::clock;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::InodeRef;
use crate::gate::Want;
use crate::types::{Attr, SetAttr, SetTime};
use steadyfs_format::Features;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{Inode as RawInode, Time, flags};

/// Permission bits of a mode.
const PERMISSIONS: u16 = 0o7777;
const SET_UID: u16 = 0o4000;
const SET_GID: u16 = 0o2000;
const GROUP_EXEC: u16 = 0o0010;

/// Inode flags that a user may change. The others follow from what a file is.
const SETTABLE: u32 = flags::SYNC
    | flags::IMMUTABLE
    | flags::APPEND
    | flags::NODUMP
    | flags::NOATIME
    | flags::DIRSYNC
    | flags::PROJINHERIT;

impl SetAttr {
    fn is_empty(&self) -> bool {
        *self == SetAttr::default()
    }

    /// What kind of change this is, for the protection of immutable and append-only inodes; `None` if only flags
    /// change.
    fn act(&self) -> Option<Act> {
        // A caller with a clock of its own (the kernel, with FUSE write-back) says what now is, in the time that nobody
        // can choose.
        let explicit = |time: Option<SetTime>| matches!(time, Some(SetTime::At(at)) if self.ctime != Some(at));
        let attributes = self.mode.is_some() || self.uid.is_some() || self.gid.is_some() || self.project.is_some();
        let untouched = self.atime.is_none() && self.mtime.is_none();
        let given = explicit(self.atime) || explicit(self.mtime) || self.crtime.is_some();
        let given = given || (self.ctime.is_some() && untouched);
        if attributes || given {
            Some(Act::Attributes)
        } else {
            (self.atime.is_some() || self.mtime.is_some()).then_some(Act::Touch)
        }
    }
}

impl Files {
    /// See `Fs::setattr`.
    pub(crate) fn setattr(&self, inode: &InodeRef, set: &SetAttr) -> Result<Attr> {
        if let Some(size) = set.size {
            match inode.kind() {
                FileType::Regular => {}
                FileType::Dir => return Err(Error::IsDirectory),
                _ => return Err(Error::Invalid),
            }
            inode.inode.read(|raw| protect::check(raw, Act::Overwrite))??;
            self.set_size(&inode.inode, size)?;
        }
        let rest = SetAttr { size: None, ..set.clone() };
        if !rest.is_empty() {
            self.set_plain(inode, &rest)?;
        }
        self.attr(inode)
    }

    /// See `Fs::revoke_privileges`.
    pub(crate) fn revoke_privileges(&self, inode: &InodeRef, changer: Changer<'_>) -> Result<bool> {
        let inode = &inode.inode;
        let (mode, gid) = inode.read(|raw| (raw.mode(), raw.gid()))?;
        // Asked without a lock, so what it says may be of a moment ago, as the mode.
        let takes: fn(u16) -> u16 = match changer {
            Changer::KeepsSetId => |mode| mode,
            Changer::Other { .. } if mode & SET_GID == 0 => without_set_id,
            Changer::Other { is_member } if is_member(gid) => without_set_id,
            Changer::Other { .. } => |mode| mode & !(SET_UID | SET_GID),
        };
        let lends = takes(mode) != mode || self.vol.has_capability(inode)?;
        if inode.kind != FileType::Regular || !lends {
            return Ok(false);
        }
        let _inode = inode.rwsem.write();
        inode.read(|raw| protect::check(raw, Act::Append))??;
        let change = self.gate.begin(Want::default())?;
        self.drop_capability(&change, inode)?;
        self.vol.edit_inode(&change, inode, |raw| {
            let mode = takes(raw.mode());
            assert_eq!((mode ^ raw.mode()) & !(SET_UID | SET_GID), 0, "more is revoked than set-id bits: {mode:o}");
            raw.set_mode(mode);
            raw.set_ctime(clock());
        })?;
        self.log_inode(&change, inode, true);
        Ok(true)
    }

    /// See `Fs::write_back_times`.
    pub(crate) fn write_back_times(&self, file: &InodeRef, mtime: Time, ctime: Time) -> Result<Attr> {
        let inode = &file.inode;
        {
            let _inode = inode.rwsem.write();
            let change = self.gate.begin(Want::default())?;
            self.vol.edit_inode(&change, inode, |raw| {
                raw.set_mtime(mtime);
                raw.set_ctime(ctime);
            })?;
        }
        self.attr(file)
    }

    /// Everything but the size, in one change.
    fn set_plain(&self, inode: &InodeRef, set: &SetAttr) -> Result<()> {
        let inode = &inode.inode;
        let _inode = inode.rwsem.write();
        let features = self.vol.sb.features();
        inode.read(|raw| check(raw, set, features))??;
        let change = self.gate.begin(Want::default())?;
        if let Some(mode) = set.mode {
            self.acl_follow_mode(&change, inode, mode as u16 & PERMISSIONS)?;
        }
        if set.uid.is_some() || set.gid.is_some() {
            self.drop_capability(&change, inode)?;
        }
        let now = clock();
        self.vol.edit_inode(&change, inode, |raw| apply(raw, inode.kind, set, features, now))?;
        let xattrs = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
        self.log_inode(&change, inode, xattrs);
        Ok(())
    }
}

/// Refuses what cannot be changed, before anything is.
fn check(raw: &RawInode, set: &SetAttr, features: Features) -> Result<()> {
    if let Some(act) = set.act() {
        protect::check(raw, act)?;
    }
    if set.flags.is_some_and(|wanted| (wanted ^ raw.flags()) & !SETTABLE != 0) {
        return Err(Error::NotSupported);
    }
    if set.project.is_some_and(|wanted| wanted != raw.project_id(features).unwrap_or(0))
        && raw.project_id(features).is_none()
    {
        return Err(Error::NotSupported);
    }
    Ok(())
}

fn apply(raw: &mut RawInode, kind: FileType, set: &SetAttr, features: Features, now: Time) {
    let mut mode = raw.mode();
    let chown = set.uid.is_some() || set.gid.is_some();
    if chown && kind != FileType::Dir {
        mode = without_set_id(mode);
    }
    if let Some(wanted) = set.mode {
        mode = raw.mode() & !PERMISSIONS | wanted as u16 & PERMISSIONS;
    }
    assert_eq!((mode ^ raw.mode()) & !PERMISSIONS, 0, "an inode of mode {:o} becomes another kind of file", raw.mode());
    raw.set_mode(mode);
    raw.set_uid(set.uid.unwrap_or(raw.uid()));
    raw.set_gid(set.gid.unwrap_or(raw.gid()));
    let time = |wanted: SetTime| match wanted {
        SetTime::Now => now,
        SetTime::At(time) => time,
    };
    if let Some(wanted) = set.atime {
        raw.set_atime(time(wanted));
    }
    if let Some(wanted) = set.mtime {
        raw.set_mtime(time(wanted));
    }
    raw.set_ctime(set.ctime.unwrap_or(now));
    if let Some(wanted) = set.crtime {
        raw.set_crtime(features, wanted);
    }
    raw.set_flags(set.flags.unwrap_or(raw.flags()));
    if let Some(project) = set.project {
        raw.set_project_id(features, project);
    }
}

/// Somebody who is about to change the contents of a file, as [`Fs::revoke_privileges`](crate::Fs::revoke_privileges)
/// sees him.
#[derive(Clone, Copy)]
pub enum Changer<'a> {
    /// He may keep set-id bits (on Linux: `CAP_FSETID`).
    KeepsSetId,
    /// Anybody else. A set-group-id bit without group execution stays only for members of the file's group.
    Other {
        /// Whether he is in this group.
        is_member: &'a dyn Fn(u32) -> bool,
    },
}

/// A mode without the bits that run a program as its owner or group. Set-group-id without group execution means
/// something else (mandatory locks) and stays.
pub(crate) fn without_set_id(mode: u16) -> u16 {
    let group_runs = mode & (SET_GID | GROUP_EXEC) == SET_GID | GROUP_EXEC;
    mode & !SET_UID & if group_runs { !SET_GID } else { !0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(mode: u16, kind: FileType, set: &SetAttr) -> u16 {
        let mut raw = RawInode::zeroed();
        raw.set_mode(kind.mode_bits() | mode);
        apply(&mut raw, kind, set, Features::NONE, Time::default());
        assert_eq!(FileType::from_mode(raw.mode()), Some(kind));
        raw.mode() & PERMISSIONS
    }

    #[test]
    fn set_id_bits_go_when_the_owner_changes() {
        let chown = SetAttr { gid: Some(5), ..SetAttr::default() };
        assert_eq!(after(0o6755, FileType::Regular, &chown), 0o755);
        assert_eq!(after(0o6745, FileType::Regular, &chown), 0o2745, "no group execution: not a set-group-id program");
        assert_eq!(after(0o6755, FileType::Dir, &chown), 0o6755);
        let both = SetAttr { mode: Some(0o4711), ..chown };
        assert_eq!(after(0o6755, FileType::Regular, &both), 0o4711, "an explicit mode wins");
        let type_bits = SetAttr { mode: Some(0o40_644), ..SetAttr::default() };
        assert_eq!(after(0o600, FileType::Regular, &type_bits), 0o644);
    }

    #[test]
    fn flags_that_follow_from_the_file_are_refused() {
        let mut raw = RawInode::zeroed();
        raw.set_flags(flags::INDEX);
        let flags_to = |bits| SetAttr { flags: Some(bits), ..SetAttr::default() };
        check(&raw, &flags_to(flags::INDEX | flags::NOATIME), Features::NONE).unwrap();
        assert!(matches!(check(&raw, &flags_to(flags::NOATIME), Features::NONE), Err(Error::NotSupported)));
        assert!(matches!(
            check(&raw, &flags_to(flags::INDEX | flags::CASEFOLD), Features::NONE),
            Err(Error::NotSupported)
        ));
    }

    #[test]
    fn an_immutable_inode_changes_only_its_flags() {
        let mut raw = RawInode::zeroed();
        raw.set_flags(flags::IMMUTABLE);
        check(&raw, &SetAttr { flags: Some(0), ..SetAttr::default() }, Features::NONE).unwrap();
        let touch = SetAttr { atime: Some(SetTime::Now), ..SetAttr::default() };
        assert!(matches!(check(&raw, &touch, Features::NONE), Err(Error::NotPermitted)));
        raw.set_flags(flags::APPEND);
        check(&raw, &touch, Features::NONE).unwrap();
        let at = Time { secs: 5, nanos: 0 };
        let touched = SetAttr { mtime: Some(SetTime::At(at)), ctime: Some(at), ..touch.clone() };
        check(&raw, &touched, Features::NONE).unwrap();
        let backdated = SetAttr { mtime: Some(SetTime::At(Time::default())), ..touched };
        assert!(matches!(check(&raw, &backdated, Features::NONE), Err(Error::NotPermitted)));
        let given = SetAttr { mtime: Some(SetTime::At(Time::default())), ..SetAttr::default() };
        assert!(matches!(check(&raw, &given, Features::NONE), Err(Error::NotPermitted)));
    }
}
