//! Attributes of inodes, extended ones too.

use super::Fs;
use crate::error::Result;
use crate::files::attr::Changer;
use crate::files::inode::InodeRef;
use crate::types::{Attr, SetAttr, XattrFlags};
use steadyfs_format::Ino;
use steadyfs_format::inode::Time;

impl Fs {
    /// The attributes of an inode.
    pub fn attr(&self, inode: &InodeRef) -> Result<Attr> {
        self.files.attr(inode)
    }

    /// The directory and name that an inode was last given: a hint for caches of names. With several links the
    /// others are as good, and an inode without links keeps it.
    ///
    /// # Errors
    /// If the inode cannot be read.
    pub fn name_hint(&self, inode: &InodeRef) -> Result<(Ino, Vec<u8>)> {
        self.files.name_hint(inode)
    }

    /// Changes attributes and returns all of them.
    ///
    /// # Errors
    /// [`Error::NotPermitted`](crate::Error::NotPermitted) by the inode's flags;
    /// [`Error::Invalid`](crate::Error::Invalid) or [`Error::IsDirectory`](crate::Error::IsDirectory) for the size of
    /// anything but a regular file; [`Error::NotSupported`](crate::Error::NotSupported) for flags that cannot be
    /// changed, or a project id on a volume without them.
    pub fn setattr(&self, inode: &InodeRef, set: &SetAttr) -> Result<Attr> {
        self.files.setattr(inode, set)
    }

    /// Takes away what a file lends to those who run it, because its contents are about to change: capabilities always,
    /// set-id bits unless the `changer` may keep them. True if there was something.
    ///
    /// Costs a look at the inode where there is nothing to take, so that it can precede every write.
    ///
    /// # Errors
    /// [`Error::NotPermitted`](crate::Error::NotPermitted) if the inode is immutable; of the device.
    pub fn revoke_privileges(&self, inode: &InodeRef, changer: Changer<'_>) -> Result<bool> {
        self.files.revoke_privileges(inode, changer)
    }

    /// Notes that a file was opened by somebody who will read it where this file system does not see it; true if the
    /// access time has changed. Linux notes the reads themselves.
    pub fn note_open(&self, inode: &InodeRef) -> bool {
        self.files.note_open(inode)
    }

    /// Sets the times of contents as a cache above this one noted them when it took a write, which was allowed then: no
    /// flag of the inode forbids it now. Returns all attributes.
    ///
    /// # Errors
    /// Those of a volume that takes no changes.
    pub fn write_back_times(&self, file: &InodeRef, mtime: Time, ctime: Time) -> Result<Attr> {
        self.files.write_back_times(file, mtime, ctime)
    }

    /// The value of an attribute, in the form of getxattr(2).
    ///
    /// # Errors
    /// [`Error::NoAttribute`](crate::Error::NoAttribute); [`Error::NotSupported`](crate::Error::NotSupported) for a
    /// prefix that F2FS has no place for; [`Error::Range`](crate::Error::Range) for a name longer than 255 bytes.
    pub fn getxattr(&self, inode: &InodeRef, name: &[u8]) -> Result<Vec<u8>> {
        self.files.getxattr(inode, name)
    }

    /// The names of all attributes, in the order in which they are stored.
    pub fn listxattr(&self, inode: &InodeRef) -> Result<Vec<Vec<u8>>> {
        self.files.listxattr(inode)
    }

    /// Sets an attribute to a value in the form of setxattr(2).
    ///
    /// # Errors
    /// - [`Error::Exists`](crate::Error::Exists) and [`Error::NoAttribute`](crate::Error::NoAttribute) by the flags.
    /// - [`Error::TooMuch`](crate::Error::TooMuch) if the inode's attributes together would exceed what one node holds.
    /// - [`Error::NoSpace`](crate::Error::NoSpace).
    /// - [`Error::NotPermitted`](crate::Error::NotPermitted) for protected inodes, and for `user.` attributes of
    ///   anything but files and directories.
    /// - [`Error::Invalid`](crate::Error::Invalid) for an ACL that POSIX does not allow.
    /// - As [`Fs::getxattr`].
    pub fn setxattr(&self, inode: &InodeRef, name: &[u8], value: &[u8], how: XattrFlags) -> Result<()> {
        self.files.setxattr(inode, name, value, how)
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// [`Error::NoAttribute`](crate::Error::NoAttribute); otherwise as [`Fs::setxattr`].
    pub fn removexattr(&self, inode: &InodeRef, name: &[u8]) -> Result<()> {
        self.files.removexattr(inode, name)
    }
}
