//! Extended attributes: reading, setting, listing and removing them.
//!
//! Names are those of the system calls, with their prefix; who may see or set which prefix is the caller's to decide.
//! ACLs change the mode as well and have a form of their own on the disk: see `acl`. Errors are those of Linux' F2FS.

mod area;

use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::acl::AclKind;
use crate::files::attr::protect::{self, Act};
use crate::files::attr::times::clock;
use crate::files::inode::{Inode, InodeRef};
use crate::gate::Want;
use crate::types::XattrFlags;
use crate::volume::{Change, Volume};
use std::sync::Arc;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{Inode as RawInode, advise};
use steadyfs_format::xattr::{self, XattrName, index};

/// The longest name, prefix included.
const MAX_NAME: usize = 255;
/// Not stored: the inode's advice about its data, one byte.
const ADVISE: &[u8] = b"system.advise";
/// The advice that a user may give.
const SETTABLE_ADVICE: u8 = advise::COLD | advise::HOT;
/// What programs may do beyond their user; void once somebody else owns or writes the program.
const CAPABILITY: XattrName<'static> = XattrName { index: index::SECURITY, rest: b"capability" };

/// What a name stands for.
enum Kind<'a> {
    Plain(XattrName<'a>),
    Acl(AclKind),
    Advice,
}

fn classify(name: &[u8]) -> Result<Kind<'_>> {
    if name.len() > MAX_NAME {
        return Err(Error::Range);
    }
    if name == ADVISE {
        return Ok(Kind::Advice);
    }
    if name.contains(&0) {
        return Err(Error::Invalid);
    }
    let Some(stored) = XattrName::parse(name) else {
        // A prefix and no name is something else than an unknown prefix.
        return Err(if name.ends_with(b".") { Error::Invalid } else { Error::NotSupported });
    };
    Ok(match stored.index {
        index::POSIX_ACL_ACCESS => Kind::Acl(AclKind::Access),
        index::POSIX_ACL_DEFAULT => Kind::Acl(AclKind::Default),
        _ => Kind::Plain(stored),
    })
}

/// Only files and directories have attributes that everybody may set.
fn has_user_attributes(kind: FileType) -> bool {
    matches!(kind, FileType::Regular | FileType::Dir)
}

impl Volume {
    /// Whether this is a program with capabilities. Quick for inodes whose attributes are few.
    pub(crate) fn has_capability(&self, inode: &Inode) -> Result<bool> {
        let features = self.sb.features();
        let in_inode = |raw: &RawInode| -> Result<Option<bool>> {
            if !raw.xattr_nid().is_null() {
                return Ok(None);
            }
            Ok(Some(xattr::get(raw.xattr_area(raw.shape(features)?), CAPABILITY)?.is_some()))
        };
        if let Some(found) = inode.read(in_inode)?? {
            return Ok(found);
        }
        let _inode = inode.rwsem.read();
        Ok(self.stored_xattr(inode, CAPABILITY)?.is_some())
    }
}

impl Files {
    /// See `Fs::getxattr`.
    pub(crate) fn getxattr(&self, inode: &InodeRef, name: &[u8]) -> Result<Vec<u8>> {
        let inode = &inode.inode;
        let _inode = inode.rwsem.read();
        match classify(name)? {
            Kind::Advice => Ok(vec![inode.read(RawInode::advise)?]),
            Kind::Acl(which) => self.vol.acl(inode, which)?.map(|acl| acl.to_call()).ok_or(Error::NoAttribute),
            Kind::Plain(name) => self.vol.stored_xattr(inode, name)?.ok_or(Error::NoAttribute),
        }
    }

    /// See `Fs::setxattr`.
    pub(crate) fn setxattr(&self, inode: &InodeRef, name: &[u8], value: &[u8], how: XattrFlags) -> Result<()> {
        let kind = classify(name)?;
        let inode = &inode.inode;
        let _inode = inode.rwsem.write();
        inode.read(|raw| protect::check(raw, Act::Attributes))??;
        match kind {
            Kind::Advice => self.set_advice(inode, value),
            Kind::Acl(which) => {
                let change = self.gate.begin(Want::default())?;
                self.set_acl(&change, inode, which, value, how.clear_sgid)?;
                self.log_inode(&change, inode, true);
                Ok(())
            }
            Kind::Plain(name) => {
                if name.index == index::USER && !has_user_attributes(inode.kind) {
                    return Err(Error::NotPermitted);
                }
                match self.vol.stored_xattr(inode, name)? {
                    Some(_) if how.create => return Err(Error::Exists),
                    None if how.replace => return Err(Error::NoAttribute),
                    _ => {}
                }
                let change = self.gate.begin(Want::default())?;
                self.store_xattr(&change, inode, name, value)?;
                self.vol.edit_inode(&change, inode, |raw| raw.set_ctime(clock()))?;
                self.log_inode(&change, inode, true);
                Ok(())
            }
        }
    }

    /// See `Fs::listxattr`.
    pub(crate) fn listxattr(&self, inode: &InodeRef) -> Result<Vec<Vec<u8>>> {
        let inode = &inode.inode;
        let _inode = inode.rwsem.read();
        let area = self.vol.xattr_area(inode)?;
        let mut names = Vec::new();
        for xattr in steadyfs_format::xattr::entries(&area) {
            names.extend(xattr?.name.full());
        }
        Ok(names)
    }

    /// See `Fs::removexattr`.
    pub(crate) fn removexattr(&self, inode: &InodeRef, name: &[u8]) -> Result<()> {
        let kind = classify(name)?;
        let inode = &inode.inode;
        let _inode = inode.rwsem.write();
        inode.read(|raw| protect::check(raw, Act::Attributes))??;
        let name = match kind {
            Kind::Advice => return Err(Error::Invalid),
            Kind::Acl(which) => which.stored_name(),
            Kind::Plain(name) => name,
        };
        let change = self.gate.begin(Want::default())?;
        if !self.drop_xattr(&change, inode, name)? {
            return Err(Error::NoAttribute);
        }
        self.vol.edit_inode(&change, inode, |raw| raw.set_ctime(clock()))?;
        self.log_inode(&change, inode, true);
        Ok(())
    }

    /// Removes the capabilities of a program whose owner or contents change. The inode is locked.
    pub(crate) fn drop_capability(&self, change: &Change<'_>, inode: &Arc<Inode>) -> Result<()> {
        self.drop_xattr(change, inode, CAPABILITY).map(|_| ())
    }

    fn set_advice(&self, inode: &Arc<Inode>, value: &[u8]) -> Result<()> {
        let [wanted] = value else { return Err(Error::Invalid) };
        if wanted & !SETTABLE_ADVICE != 0 {
            return Err(Error::Invalid);
        }
        let change = self.gate.begin(Want::default())?;
        self.vol.edit_inode(&change, inode, |raw| {
            raw.set_advise(raw.advise() & !SETTABLE_ADVICE | wanted);
            raw.set_ctime(clock());
        })?;
        self.log_inode(&change, inode, false);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_with_the_errors_of_linux() {
        let errno = |name: &[u8]| classify(name).err().map(|e| e.errno());
        for name in [
            &b"user.a"[..],
            b"user.a.",
            b"trusted.b",
            b"security.selinux",
            b"system.posix_acl_default",
            b"system.advise",
        ] {
            assert_eq!(errno(name), None);
        }
        let long = [&b"user."[..], &[b'x'; 251]].concat();
        for (name, expected) in [(&b"user."[..], 22), (b"system.other", 95), (b"plain", 95), (&long, 34)] {
            assert_eq!(errno(name), Some(expected), "{}", String::from_utf8_lossy(name));
        }
    }
}
