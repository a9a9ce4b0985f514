//! Names: finding, making, moving and removing them; inodes that have none.

use super::Fs;
use crate::error::Result;
use crate::files::inode::InodeRef;
use crate::files::orphans::OrphanStats;
use crate::types::{DirEntry, NewInode, RenameFlags};
use steadyfs_format::Ino;

impl Fs {
    /// The inode with this name in a directory; `.` and `..` work too.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound), [`Error::NotDirectory`](crate::Error::NotDirectory),
    /// [`Error::NameTooLong`](crate::Error::NameTooLong).
    pub fn lookup(&self, dir: &InodeRef, name: &[u8]) -> Result<InodeRef> {
        self.files.lookup(dir, name)
    }

    /// Calls `f` with the entries from `cookie` on (0: all, `.` and `..` included), until it returns false or there are
    /// no more. An entry for which `f` returned false was not consumed: to see it again, go on from where the one
    /// before ended.
    ///
    /// No lock is held while `f` runs. Names that no caller could use (with `/` or NUL, from a damaged volume) are left
    /// out.
    ///
    /// # Errors
    /// [`Error::NotDirectory`](crate::Error::NotDirectory); [`Error::NotFound`](crate::Error::NotFound) if the
    /// directory was removed meanwhile; failures to read it.
    pub fn readdir(&self, dir: &InodeRef, cookie: u64, f: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.files.readdir(dir, cookie, f)
    }

    /// Makes a file, directory, device, FIFO or socket, by the type bits of `new.mode`.
    ///
    /// # Errors
    /// [`Error::Exists`](crate::Error::Exists), [`Error::NoSpace`](crate::Error::NoSpace),
    /// [`Error::Invalid`](crate::Error::Invalid) for a mode without a type or of a symlink,
    /// [`Error::TooManyLinks`](crate::Error::TooManyLinks), [`Error::NotFound`](crate::Error::NotFound) in a removed
    /// directory, [`Error::NotPermitted`](crate::Error::NotPermitted) in an immutable one.
    pub fn create(&self, dir: &InodeRef, name: &[u8], new: &NewInode) -> Result<InodeRef> {
        self.files.create(dir, name, new)
    }

    /// Makes a symlink. Its permissions are 0777, as everywhere.
    ///
    /// # Errors
    /// As [`Fs::create`]; [`Error::NameTooLong`](crate::Error::NameTooLong) for a target of more than 4095 bytes,
    /// [`Error::NotFound`](crate::Error::NotFound) for an empty one.
    pub fn symlink(&self, dir: &InodeRef, name: &[u8], target: &[u8], new: &NewInode) -> Result<InodeRef> {
        self.files.symlink(dir, name, target, new)
    }

    /// The target of a symlink.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for anything but a symlink.
    pub fn readlink(&self, inode: &InodeRef) -> Result<Vec<u8>> {
        self.files.readlink(inode)
    }

    /// Makes a regular file without a name. It goes when its last reference does, unless [`Fs::link`] has given it a
    /// name by then.
    ///
    /// # Errors
    /// As [`Fs::create`].
    pub fn tmpfile(&self, dir: &InodeRef, new: &NewInode) -> Result<InodeRef> {
        self.files.tmpfile(dir, new)
    }

    /// Gives an inode another name, or a first one if [`Fs::tmpfile`] made it.
    ///
    /// # Errors
    /// [`Error::NotPermitted`](crate::Error::NotPermitted) for directories and protected inodes,
    /// [`Error::Exists`](crate::Error::Exists), [`Error::TooManyLinks`](crate::Error::TooManyLinks),
    /// [`Error::NotFound`](crate::Error::NotFound) if the last name was removed,
    /// [`Error::CrossProject`](crate::Error::CrossProject) into a directory that keeps another project.
    pub fn link(&self, inode: &InodeRef, dir: &InodeRef, name: &[u8]) -> Result<()> {
        self.files.link(inode, dir, name)
    }

    /// Removes a name of anything but a directory. The inode goes with its last name, as soon as nobody uses it.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound), [`Error::IsDirectory`](crate::Error::IsDirectory),
    /// [`Error::NotPermitted`](crate::Error::NotPermitted) for protected inodes and directories.
    pub fn unlink(&self, dir: &InodeRef, name: &[u8]) -> Result<()> {
        self.files.unlink(dir, name)
    }

    /// As [`Fs::unlink`]. If that was the last name the inode is returned, to be used on: it goes with the last
    /// reference, once [`Fs::reap`] is called.
    ///
    /// # Errors
    /// As [`Fs::unlink`].
    pub fn unlink_held(&self, dir: &InodeRef, name: &[u8]) -> Result<Option<InodeRef>> {
        self.files.unlink_held(dir, name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Error::NotEmpty`](crate::Error::NotEmpty), [`Error::NotDirectory`](crate::Error::NotDirectory),
    /// [`Error::NotFound`](crate::Error::NotFound), [`Error::Invalid`](crate::Error::Invalid) for `.`,
    /// [`Error::NotPermitted`](crate::Error::NotPermitted).
    pub fn rmdir(&self, dir: &InodeRef, name: &[u8]) -> Result<()> {
        self.files.rmdir(dir, name)
    }

    /// As [`Fs::rmdir`]. Returns the directory, to be used on: it goes with the last reference, once [`Fs::reap`] is
    /// called.
    ///
    /// # Errors
    /// As [`Fs::rmdir`].
    pub fn rmdir_held(&self, dir: &InodeRef, name: &[u8]) -> Result<InodeRef> {
        self.files.rmdir_held(dir, name)
    }

    /// Moves an inode to another name, in the same directory or another.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound); [`Error::Exists`](crate::Error::Exists) with
    /// [`RenameFlags::NoReplace`]; [`Error::IsDirectory`](crate::Error::IsDirectory),
    /// [`Error::NotDirectory`](crate::Error::NotDirectory), [`Error::NotEmpty`](crate::Error::NotEmpty) if the target
    /// cannot be replaced; [`Error::Invalid`](crate::Error::Invalid) to move a directory below itself, or a dot entry;
    /// [`Error::TooFar`](crate::Error::TooFar) for a directory; [`Error::NotPermitted`](crate::Error::NotPermitted);
    /// [`Error::CrossProject`](crate::Error::CrossProject); [`Error::TooManyLinks`](crate::Error::TooManyLinks);
    /// [`Error::NoSpace`](crate::Error::NoSpace).
    pub fn rename(
        &self,
        dir: &InodeRef,
        name: &[u8],
        new_dir: &InodeRef,
        new_name: &[u8],
        how: RenameFlags,
    ) -> Result<()> {
        self.files.rename(dir, name, new_dir, new_name, how)
    }

    /// As [`Fs::rename`], and a new whiteout takes the old name: a character device 0:0 without permissions. `owner`
    /// gives its owner and group. Anybody may have it made, as in Linux: it is no door to a device.
    ///
    /// # Errors
    /// As [`Fs::rename`]; [`Error::Invalid`](crate::Error::Invalid) with [`RenameFlags::Exchange`], which leaves no
    /// name free.
    pub fn rename_whiteout(
        &self,
        dir: &InodeRef,
        name: &[u8],
        new_dir: &InodeRef,
        new_name: &[u8],
        how: RenameFlags,
        owner: &NewInode,
    ) -> Result<()> {
        self.files.rename_whiteout(dir, name, new_dir, new_name, how, owner)
    }

    /// Keeps an inode without a name beyond its last reference, by its number: [`Fs::inode`] finds it until
    /// [`Fs::release`]. It may leave memory meanwhile, as one with a name may. Nothing for one that has a name.
    pub fn hold(&self, inode: &InodeRef) {
        self.files.hold(inode)
    }

    /// Takes [`Fs::hold`] back: the next [`Fs::reap`] deletes the inode, if it has no name and nobody uses it. Nothing
    /// for one that is not held.
    pub fn release(&self, ino: Ino) {
        self.files.release(ino)
    }

    /// Deletes inodes whose last user went while they had no link. Hold no lock when calling.
    ///
    /// Every operation that can leave such inodes does this, and so does the housekeeper; a front end that drops
    /// references by itself may.
    ///
    /// # Errors
    /// The first failure; the other inodes are still seen to. One that could not be deleted stays an orphan, and is
    /// tried again by [`Fs::sync`], before periodic checkpoints, when the volume is unmounted, and by the next mount.
    pub fn reap(&self) -> Result<()> {
        self.files.reap()
    }

    /// How many inodes without a name there are.
    pub fn orphan_stats(&self) -> OrphanStats {
        self.files.orphan_stats()
    }
}
