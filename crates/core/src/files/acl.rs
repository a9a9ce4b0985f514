//! POSIX access control lists: how they and the mode follow each other, and what a new inode inherits.
//!
//! Kept true: the permission bits of an inode with an access list are those of the list (owner, mask or group, others);
//! a list that says no more than the mode is not stored. The lists themselves are checked and decided on by the kernel,
//! or by the library's user.

use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::attr::times::clock;
use crate::files::inode::Inode;
use crate::volume::{Change, Volume};
use std::sync::Arc;
use steadyfs_format::dir::FileType;
use steadyfs_format::xattr::{Acl, XattrName, index};

/// Which list of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AclKind {
    /// Who may do what with it.
    Access,
    /// Directories: what is made in it starts with.
    Default,
}

impl AclKind {
    /// The name it is stored under.
    pub(crate) fn stored_name(self) -> XattrName<'static> {
        let index = match self {
            AclKind::Access => index::POSIX_ACL_ACCESS,
            AclKind::Default => index::POSIX_ACL_DEFAULT,
        };
        XattrName { index, rest: b"" }
    }
}

/// What a new inode gets from its directory's default list, or from the umask where there is none.
pub(crate) struct Inherited {
    /// All twelve permission bits.
    pub(crate) permissions: u16,
    access: Option<Acl>,
    default: Option<Acl>,
}

/// A value of setxattr(2) without entries: it removes the list.
fn is_empty_list(value: &[u8]) -> bool {
    value.len() <= 4
}

impl Volume {
    /// A list of the inode. The inode is locked, at least shared.
    pub(crate) fn acl(&self, inode: &Inode, which: AclKind) -> Result<Option<Acl>> {
        let value = self.stored_xattr(inode, which.stored_name())?;
        Ok(value.map(|value| Acl::from_disk(&value)).transpose()?)
    }

    /// Permissions and lists of something that is made in `dir` with this mode and umask.
    pub(crate) fn inherit_acl(&self, dir: &Inode, kind: FileType, mode: u32, umask: u32) -> Result<Inherited> {
        if kind == FileType::Symlink {
            return Ok(Inherited { permissions: 0o777, access: None, default: None });
        }
        let asked = (mode & 0o7777) as u16;
        let Some(list) = self.acl(dir, AclKind::Default)? else {
            return Ok(Inherited { permissions: asked & !(umask & 0o777) as u16, access: None, default: None });
        };
        let (access, permissions) = list.inherit(asked);
        let access = Some(access).filter(|acl| !acl.is_mode_only());
        Ok(Inherited { permissions, access, default: (kind == FileType::Dir).then_some(list) })
    }
}

impl Files {
    /// Sets or removes a list given in the form of setxattr(2), and the mode with it.
    pub(crate) fn set_acl(
        &self,
        change: &Change<'_>,
        inode: &Arc<Inode>,
        which: AclKind,
        value: &[u8],
        clear_sgid: bool,
    ) -> Result<()> {
        if inode.kind == FileType::Symlink {
            return Err(Error::NotSupported);
        }
        let acl = if is_empty_list(value) { None } else { Some(Acl::from_call(value).map_err(|_| Error::Invalid)?) };
        if which == AclKind::Default && acl.is_some() && inode.kind != FileType::Dir {
            return Err(Error::NotPermitted);
        }
        let stored = acl.as_ref().filter(|acl| which == AclKind::Default || !acl.is_mode_only());
        match stored {
            Some(acl) => self.store_xattr(change, inode, which.stored_name(), &acl.to_disk())?,
            None => {
                self.drop_xattr(change, inode, which.stored_name())?;
            }
        }
        self.vol.edit_inode(change, inode, |raw| {
            if let Some(acl) = acl.filter(|_| which == AclKind::Access) {
                let kept = if clear_sgid { 0o5000 } else { 0o7000 };
                assert_eq!(acl.mode() & !0o777, 0, "an ACL gives permissions only");
                raw.set_mode(raw.mode() & (0o170_000 | kept) | acl.mode());
            }
            raw.set_ctime(clock());
        })
    }

    /// Brings the access list in line with a mode that is about to be set.
    pub(crate) fn acl_follow_mode(&self, change: &Change<'_>, inode: &Arc<Inode>, mode: u16) -> Result<()> {
        let Some(mut acl) = self.vol.acl(inode, AclKind::Access)? else { return Ok(()) };
        acl.set_mode(mode);
        self.store_xattr(change, inode, AclKind::Access.stored_name(), &acl.to_disk())
    }

    /// Stores what a new inode inherited.
    pub(crate) fn store_inherited(&self, change: &Change<'_>, inode: &Arc<Inode>, lists: &Inherited) -> Result<()> {
        for (which, acl) in [(AclKind::Access, &lists.access), (AclKind::Default, &lists.default)] {
            if let Some(acl) = acl {
                self.store_xattr(change, inode, which.stored_name(), &acl.to_disk())?;
            }
        }
        Ok(())
    }
}
