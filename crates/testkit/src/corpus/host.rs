//! The tree in a directory of the host, made by plain system calls; the reference for every other [`Target`].

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{
    self, AtFlags, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::{Falloc, Special, Target};
use crate::manifest::Time;

/// A directory. Everything happens below it, also if it is moved.
#[derive(Debug)]
pub struct HostTarget {
    root: OwnedFd,
    /// Files without a name.
    orphans: Vec<OwnedFd>,
}

type Outcome = Result<(), Errno>;

impl HostTarget {
    /// An existing directory. Clears the umask of the process: what is made below has exactly the mode that the
    /// operation says.
    pub fn open(root: &Path) -> Result<Self, Errno> {
        rustix::process::umask(Mode::empty());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: fs::open(root, flags, Mode::empty())?, orphans: Vec::new() })
    }

    /// The existing file at `path`, not followed.
    fn open_file(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        fs::openat(&self.root, name(path), flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    }

    /// Sets the bits that the call which makes a file does not set.
    fn special_bits(&mut self, path: &[u8], mode: u32) -> Outcome {
        if mode & 0o7000 == 0 { Ok(()) } else { self.chmod(path, mode) }
    }

    /// A path for calls that know no directory handle.
    fn by_fd(&self, path: &[u8]) -> Vec<u8> {
        let mut whole = format!("/proc/self/fd/{}/", self.root.as_raw_fd()).into_bytes();
        whole.extend_from_slice(path);
        whole
    }
}

impl Target for HostTarget {
    type Error = Errno;

    fn mkdir(&mut self, path: &[u8], mode: u32) -> Outcome {
        fs::mkdirat(&self.root, name(path), Mode::from_raw_mode(mode))?;
        self.special_bits(path, mode)
    }

    fn create(&mut self, path: &[u8], mode: u32) -> Outcome {
        self.create_inherit(path, mode)?;
        self.special_bits(path, mode)
    }

    fn mkdir_inherit(&mut self, path: &[u8], mode: u32) -> Outcome {
        fs::mkdirat(&self.root, name(path), Mode::from_raw_mode(mode))
    }

    fn create_inherit(&mut self, path: &[u8], mode: u32) -> Outcome {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        fs::openat(&self.root, name(path), flags, Mode::from_raw_mode(mode)).map(drop)
    }

    fn write(&mut self, path: &[u8], offset: u64, mut data: &[u8]) -> Outcome {
        let fd = self.open_file(path, OFlags::WRONLY)?;
        let mut at = offset;
        while !data.is_empty() {
            let n = rustix::io::pwrite(&fd, data, at)?;
            if n == 0 {
                return Err(Errno::IO);
            }
            (data, at) = (&data[n..], at + n as u64);
        }
        Ok(())
    }

    fn truncate(&mut self, path: &[u8], size: u64) -> Outcome {
        fs::ftruncate(self.open_file(path, OFlags::WRONLY)?, size)
    }

    fn fallocate(&mut self, path: &[u8], how: Falloc, offset: u64, len: u64) -> Outcome {
        let flags = match how {
            Falloc::Allocate => FallocateFlags::empty(),
            Falloc::KeepSize => FallocateFlags::KEEP_SIZE,
            Falloc::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            Falloc::Zero => FallocateFlags::ZERO_RANGE,
            Falloc::ZeroKeepSize => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
            Falloc::Collapse => FallocateFlags::COLLAPSE_RANGE,
            Falloc::Insert => FallocateFlags::INSERT_RANGE,
        };
        fs::fallocate(self.open_file(path, OFlags::RDWR)?, flags, offset, len)
    }

    fn symlink(&mut self, path: &[u8], target: &[u8]) -> Outcome {
        fs::symlinkat(name(target), &self.root, name(path))
    }

    fn link(&mut self, existing: &[u8], new: &[u8]) -> Outcome {
        fs::linkat(&self.root, name(existing), &self.root, name(new), AtFlags::empty())
    }

    fn mknod(&mut self, path: &[u8], kind: Special, mode: u32) -> Outcome {
        let (file_type, device) = match kind {
            Special::Fifo => (FileType::Fifo, 0),
            Special::Socket => (FileType::Socket, 0),
            Special::Char(major, minor) => (FileType::CharacterDevice, fs::makedev(major, minor)),
            Special::Block(major, minor) => (FileType::BlockDevice, fs::makedev(major, minor)),
        };
        fs::mknodat(&self.root, name(path), file_type, Mode::from_raw_mode(mode), device)?;
        self.special_bits(path, mode)
    }

    fn set_xattr(&mut self, path: &[u8], attribute: &[u8], value: &[u8]) -> Outcome {
        fs::lsetxattr(name(&self.by_fd(path)), name(attribute), value, XattrFlags::empty())
    }

    fn remove_xattr(&mut self, path: &[u8], attribute: &[u8]) -> Outcome {
        fs::lremovexattr(name(&self.by_fd(path)), name(attribute))
    }

    fn chown(&mut self, path: &[u8], uid: u32, gid: u32) -> Outcome {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        fs::chownat(&self.root, name(path), Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
    }

    fn chmod(&mut self, path: &[u8], mode: u32) -> Outcome {
        fs::chmodat(&self.root, name(path), Mode::from_raw_mode(mode), AtFlags::empty())
    }

    fn set_times(&mut self, path: &[u8], atime: Time, mtime: Time) -> Outcome {
        let stamp = |t: Time| Timespec { tv_sec: t.sec, tv_nsec: t.nsec.into() };
        let times = Timestamps { last_access: stamp(atime), last_modification: stamp(mtime) };
        fs::utimensat(&self.root, name(path), &times, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn unlink(&mut self, path: &[u8]) -> Outcome {
        fs::unlinkat(&self.root, name(path), AtFlags::empty())
    }

    fn rmdir(&mut self, path: &[u8]) -> Outcome {
        fs::unlinkat(&self.root, name(path), AtFlags::REMOVEDIR)
    }

    fn rename(&mut self, from: &[u8], to: &[u8]) -> Outcome {
        fs::renameat(&self.root, name(from), &self.root, name(to))
    }

    fn exchange(&mut self, a: &[u8], b: &[u8]) -> Outcome {
        fs::renameat_with(&self.root, name(a), &self.root, name(b), RenameFlags::EXCHANGE)
    }

    fn orphan(&mut self, path: &[u8]) -> Outcome {
        self.orphans.push(self.open_file(path, OFlags::RDONLY)?);
        self.unlink(path).or_else(|errno| if errno == Errno::ISDIR { self.rmdir(path) } else { Err(errno) })
    }

    fn fsync(&mut self, path: &[u8]) -> Outcome {
        fs::fsync(self.open_file(path, OFlags::RDONLY)?)
    }

    fn sync(&mut self) -> Outcome {
        // A file system without a device behind it knows no syncfs; fsync of the root does then what can be done.
        fs::syncfs(&self.root).or_else(|_| fs::fsync(&self.root))
    }
}

fn name(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}
