//! [`Volume`]: a volume that this process uses, by paths.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use steadyfs_core::mkfs::MkfsOptions;
use steadyfs_core::{Attr, Error as Refusal, Fs, InodeRef, MountOptions, NewInode, RenameFlags, SetAttr};
use steadyfs_device::{Device, OpenOptions, open_image};
use steadyfs_format::Features;
use steadyfs_format::dir::FileType;

use super::error::{Cause, Error, Result};
use super::file::File;
use super::path::{self, Entry};

/// A volume in an image file or on a block device, which this process alone uses until it unmounts it.
///
/// Paths start at the volume's root and follow symlinks, as those of [`std::fs`] do; an operation on a name (removing,
/// renaming) means the symlink itself. Whatever is made belongs to the user who runs the process. Permissions are kept,
/// and not asked: who may open the image may do everything. Threads may share a volume.
///
/// Dropping it unmounts it, and loses errors of that: [`Volume::unmount`] tells them.
pub struct Volume {
    fs: Arc<Fs>,
    mounted: bool,
}

impl Volume {
    /// Makes an image file of `bytes` with an empty volume in it, and opens that. The file is sparse, and
    /// only its owner may read it.
    ///
    /// # Errors
    /// A file that exists already; a size that no volume has; what the system refuses. No file is left behind.
    pub fn make(image: impl AsRef<Path>, bytes: u64) -> Result<Self> {
        let image = image.as_ref();
        let cannot = |cause| Error::new("make a volume in", image, cause);
        let mut new = fs::File::options();
        new.write(true).create_new(true).mode(steadyfs_device::PRIVATE);
        let file = new.open(image).map_err(|e| cannot(Cause::System(e)))?;
        let made = (|| {
            file.set_len(bytes)?;
            drop(file);
            let device = open_image(image, OpenOptions::default())?;
            steadyfs_core::mkfs::format(&*device, &usual_format())?;
            Ok(Self::mounted(Fs::mount(device, MountOptions::default())?))
        })();
        made.map_err(|cause| {
            // The failure to report is the one that led here.
            let _ = fs::remove_file(image);
            cannot(cause)
        })
    }

    /// Opens the volume in an image file or on a block device. Files that were fsynced before a crash are recovered.
    ///
    /// # Errors
    /// Whatever keeps the device from being opened, also that another process uses it; a volume that is damaged, or
    /// uses what this version does not support.
    pub fn open(image: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(image.as_ref(), OpenOptions::default())
    }

    /// As [`Volume::open`], for reading: nothing on the device is changed, and others may read it, too.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub fn open_read_only(image: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(image.as_ref(), OpenOptions { read_only: true, ..OpenOptions::default() })
    }

    fn open_with(image: &Path, options: OpenOptions) -> Result<Self> {
        let cannot = |cause| Error::new("open the volume in", image, cause);
        let device = open_image(image, options).map_err(|e| cannot(Cause::Open(e)))?;
        Self::mount(device, MountOptions::default()).map_err(|e| cannot(Cause::Volume(e)))
    }

    /// Opens the volume on any device, with options of a mount.
    ///
    /// # Errors
    /// As [`Fs::mount`].
    pub fn mount(device: Arc<dyn Device>, options: MountOptions) -> steadyfs_core::Result<Self> {
        Fs::mount(device, options).map(Self::mounted)
    }

    fn mounted(fs: Arc<Fs>) -> Self {
        Volume { fs, mounted: true }
    }

    /// The file system, which does what has no method here: links, extended attributes, holes, numbers.
    pub fn fs(&self) -> &Arc<Fs> {
        &self.fs
    }

    /// The inode at a path, for the operations of [`Fs`].
    ///
    /// # Errors
    /// As [`path::resolve`].
    pub fn find(&self, at: impl AsRef<Path>) -> Result<InodeRef> {
        self.on("find", at.as_ref(), |path| path::resolve(&self.fs, path, true))
    }

    /// Size, times, owner and the like of what is at a path.
    ///
    /// # Errors
    /// As [`path::resolve`].
    pub fn metadata(&self, at: impl AsRef<Path>) -> Result<Attr> {
        self.on("look at", at.as_ref(), |path| self.fs.attr(&path::resolve(&self.fs, path, true)?))
    }

    /// What a directory holds, sorted by name.
    ///
    /// # Errors
    /// As [`path::entries`].
    pub fn list(&self, at: impl AsRef<Path>) -> Result<Vec<Entry>> {
        self.on("list", at.as_ref(), |path| path::entries(&self.fs, &path::resolve(&self.fs, path, true)?))
    }

    /// Opens a file for reading and writing, from its start.
    ///
    /// # Errors
    /// No such file, or not a regular one.
    pub fn open_file(&self, at: impl AsRef<Path>) -> Result<File> {
        self.on("open", at.as_ref(), |path| self.regular(path).map(|inode| self.file(inode)))
    }

    /// Opens a file for writing: an empty one, whether there was one before or not.
    ///
    /// # Errors
    /// No such directory, no room, not a regular file, a volume that is read-only.
    pub fn create_file(&self, at: impl AsRef<Path>) -> Result<File> {
        self.on("make", at.as_ref(), |path| match self.regular(path) {
            Ok(inode) => {
                self.fs.setattr(&inode, &SetAttr { size: Some(0), ..SetAttr::default() })?;
                Ok(self.file(inode))
            }
            Err(Refusal::NotFound) => self.create(path, FileType::Regular, 0o644).map(|inode| self.file(inode)),
            Err(e) => Err(e),
        })
    }

    /// All that a file holds.
    ///
    /// # Errors
    /// As [`Volume::open_file`], and errors of the device.
    pub fn read(&self, at: impl AsRef<Path>) -> Result<Vec<u8>> {
        let at = at.as_ref();
        let mut contents = Vec::new();
        self.open_file(at)?.read_to_end(&mut contents).map_err(|e| Error::new("read", at, e))?;
        Ok(contents)
    }

    /// Has a file hold just this: makes it, or replaces what it held.
    ///
    /// # Errors
    /// As [`Volume::create_file`]. A part may have been written.
    pub fn write(&self, at: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> Result<()> {
        let at = at.as_ref();
        io::Write::write_all(&mut self.create_file(at)?, contents.as_ref()).map_err(|e| Error::new("write", at, e))
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// A name that exists, no such directory above, no room.
    pub fn create_dir(&self, at: impl AsRef<Path>) -> Result<()> {
        self.on("make", at.as_ref(), |path| self.create(path, FileType::Dir, 0o755).map(drop))
    }

    /// Removes a name of a file or symlink. The file goes with its last name.
    ///
    /// # Errors
    /// No such name, or a directory.
    pub fn remove_file(&self, at: impl AsRef<Path>) -> Result<()> {
        self.on("remove", at.as_ref(), |path| {
            let (dir, name) = path::parent(&self.fs, path)?;
            self.fs.unlink(&dir, name)
        })
    }

    /// Removes a directory.
    ///
    /// # Errors
    /// No such directory, or one that holds something.
    pub fn remove_dir(&self, at: impl AsRef<Path>) -> Result<()> {
        self.on("remove", at.as_ref(), |path| {
            let (dir, name) = path::parent(&self.fs, path)?;
            self.fs.rmdir(&dir, name)
        })
    }

    /// Gives a file or directory another name; one that has the new name already is replaced, as by rename(2).
    ///
    /// # Errors
    /// As rename(2).
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.on("rename", from.as_ref(), |path| {
            let (from, name) = path::parent(&self.fs, path)?;
            let (to, new_name) = path::parent(&self.fs, to.as_ref().as_os_str().as_bytes())?;
            self.fs.rename(&from, name, &to, new_name, RenameFlags::Replace)
        })
    }

    /// Makes everything durable that was done so far.
    ///
    /// # Errors
    /// What could not be written.
    pub fn sync(&self) -> Result<()> {
        self.on("sync", Path::new("/"), |_| self.fs.sync())
    }

    /// Makes everything durable and ends the use of the volume, which then is as cleanly unmounted.
    ///
    /// # Errors
    /// What could not be written.
    pub fn unmount(mut self) -> Result<()> {
        self.on("unmount", Path::new("/"), |_| self.fs.unmount())?;
        self.mounted = false;
        Ok(())
    }

    /// Does something with a path, and has its error say what and where.
    fn on<T>(&self, what: &'static str, at: &Path, work: impl FnOnce(&[u8]) -> steadyfs_core::Result<T>) -> Result<T> {
        work(at.as_os_str().as_bytes()).map_err(|e| Error::new(what, at, e))
    }

    fn file(&self, inode: InodeRef) -> File {
        File::new(Arc::clone(&self.fs), inode)
    }

    /// The regular file at a path.
    fn regular(&self, path: &[u8]) -> steadyfs_core::Result<InodeRef> {
        let inode = path::resolve(&self.fs, path, true)?;
        match inode.kind() {
            FileType::Regular => Ok(inode),
            FileType::Dir => Err(Refusal::IsDirectory),
            _ => Err(Refusal::NotSupported),
        }
    }

    fn create(&self, path: &[u8], kind: FileType, permissions: u32) -> steadyfs_core::Result<InodeRef> {
        let (dir, name) = path::parent(&self.fs, path)?;
        self.fs.create(&dir, name, &new_inode(kind, permissions))
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if self.mounted
            && let Err(e) = self.fs.unmount()
        {
            tracing::warn!("a volume that nobody unmounted cannot be unmounted: {e}");
        }
    }
}

/// A new inode that belongs to the user who runs the process.
pub fn new_inode(kind: FileType, permissions: u32) -> NewInode {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    NewInode { mode: u32::from(kind.mode_bits()) | permissions, uid, gid, ..NewInode::default() }
}

/// How to make a volume for callers without wishes: with a new uuid, owned by the user who runs the process, and
/// keeping everything that files can have.
pub fn usual_format() -> MkfsOptions {
    let mut options = MkfsOptions::new(random_uuid(), steadyfs_rt::wall_clock().sec);
    options.features = Features::EXTRA_ATTR
        | Features::INODE_CHECKSUM
        | Features::SB_CHECKSUM
        | Features::INODE_CRTIME
        | Features::FLEXIBLE_INLINE_XATTR;
    options.root_owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    options
}

/// A random uuid (version 4).
pub fn random_uuid() -> [u8; 16] {
    // The keys of a hash table are random numbers of the kernel, which std asks for by a system call: an empty root, or
    // a container of this program alone, has no /dev/urandom. A uuid is to be unique, not secret.
    let half = || RandomState::new().build_hasher().finish().to_le_bytes();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&half());
    bytes[8..].copy_from_slice(&half());
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    bytes
}
