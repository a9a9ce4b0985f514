//! System calls by path, as an answer that can be compared across file systems.

use rustix::fs::{
    Access, AtFlags, CWD, Dev, FileType, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT,
    Uid, XattrFlags,
};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// What a probe found: an error, or a small number.
pub(super) type Answer = Result<u64, Errno>;

pub(super) const OK: Answer = Ok(0);
pub(super) const ACCES: Answer = Err(Errno::ACCESS);
pub(super) const PERM: Answer = Err(Errno::PERM);

/// Who probes.
pub(super) const NOBODY: u32 = 65_534;
/// The user whose files are probed, beside root's.
pub(super) const OTHER: u32 = 4242;
/// A group that the user who probes is no member of.
pub(super) const GROUP: u32 = 7777;

pub(super) const READ: OFlags = OFlags::RDONLY;
pub(super) const WRITE: OFlags = OFlags::WRONLY;

/// A success without a number.
pub(super) fn done<T>(result: Result<T, Errno>) -> Answer {
    result.map(|_| 0)
}

/// What a probe takes for granted.
pub(super) fn require(holds: bool) -> Result<(), Errno> {
    if holds { Ok(()) } else { Err(Errno::BADMSG) }
}

pub(super) fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits)
}

pub(super) fn file(path: &Path, how: OFlags) -> Result<File, Errno> {
    rustix::fs::open(path, how | OFlags::CLOEXEC, mode(0o644)).map(File::from)
}

pub(super) fn opens(path: &Path, how: OFlags) -> Answer {
    done(file(path, how))
}

pub(super) fn creates(path: &Path, how: u32) -> Answer {
    done(rustix::fs::open(path, WRITE | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, mode(how)))
}

pub(super) fn makes_device(path: &Path, kind: FileType, how: u32, device: Dev) -> Answer {
    done(rustix::fs::mknodat(CWD, path, kind, mode(how), device))
}

pub(super) fn makes_dir(path: &Path) -> Answer {
    done(rustix::fs::mkdir(path, mode(0o755)))
}

pub(super) fn unlinks(path: &Path) -> Answer {
    done(rustix::fs::unlink(path))
}

pub(super) fn removes_dir(path: &Path) -> Answer {
    done(rustix::fs::rmdir(path))
}

pub(super) fn links(from: &Path, to: &Path) -> Answer {
    done(rustix::fs::link(from, to))
}

/// Links what is open.
pub(super) fn links_open(file: &File, to: &Path) -> Answer {
    done(rustix::fs::linkat(CWD, through(file), CWD, to, AtFlags::SYMLINK_FOLLOW))
}

/// The name in `/proc` of what is open.
pub(super) fn through(file: &File) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

pub(super) fn renames(from: &Path, to: &Path) -> Answer {
    done(rustix::fs::rename(from, to))
}

pub(super) fn exchanges(from: &Path, to: &Path) -> Answer {
    renames_so(from, to, RenameFlags::EXCHANGE)
}

pub(super) fn renames_so(from: &Path, to: &Path, how: RenameFlags) -> Answer {
    done(rustix::fs::renameat_with(CWD, from, CWD, to, how))
}

pub(super) fn chmods(path: &Path, bits: u32) -> Answer {
    done(rustix::fs::chmod(path, mode(bits)))
}

pub(super) fn chowns(path: &Path, owner: Option<u32>, group: Option<u32>) -> Answer {
    let (owner, group) = (owner.map(Uid::from_raw), group.map(Gid::from_raw));
    done(rustix::fs::chownat(CWD, path, owner, group, AtFlags::SYMLINK_NOFOLLOW))
}

/// The type-less bits of the mode.
pub(super) fn mode_of(path: &Path) -> Answer {
    rustix::fs::stat(path).map(|stat| u64::from(stat.st_mode & 0o7777))
}

pub(super) fn may(path: &Path, what: Access) -> Answer {
    done(rustix::fs::accessat(CWD, path, what, AtFlags::empty()))
}

/// Sets both times to now.
pub(super) fn touches(path: &Path) -> Answer {
    sets_times(path, UTIME_NOW, UTIME_NOW)
}

/// Sets the times to a second, or what the nanoseconds say.
pub(super) fn sets_times(path: &Path, access: i64, change: i64) -> Answer {
    let time = |nanos| Timespec { tv_sec: 1_000_000_000, tv_nsec: nanos };
    let times = Timestamps { last_access: time(access), last_modification: time(change) };
    done(rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW))
}

/// Sets one time to now, and leaves the other.
pub(super) fn half_touches(path: &Path) -> Answer {
    sets_times(path, UTIME_OMIT, UTIME_NOW)
}

pub(super) fn sets_attribute(path: &Path, name: &str, value: &[u8]) -> Answer {
    done(rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()))
}

/// The length of the value.
pub(super) fn gets_attribute(path: &Path, name: &str) -> Answer {
    rustix::fs::lgetxattr(path, name, &mut [0; 4096]).map(|len| len as u64)
}

pub(super) fn removes_attribute(path: &Path, name: &str) -> Answer {
    done(rustix::fs::lremovexattr(path, name))
}

/// How many attributes are listed.
pub(super) fn lists_attributes(path: &Path) -> Answer {
    let mut list = [0; 4096];
    let len = rustix::fs::llistxattr(path, &mut list)?;
    Ok(list[..len].iter().filter(|byte| **byte == 0).count() as u64)
}

/// How many names are in the directory.
pub(super) fn lists(path: &Path) -> Answer {
    let found = std::fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    found.map(|names| names.len() as u64).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

pub(super) const ACL: &str = "system.posix_acl_access";
pub(super) const DEFAULT_ACL: &str = "system.posix_acl_default";

/// An ACL that says what the mode 0755 says.
pub(super) const PLAIN_ACL: &[u8] = &[
    2, 0, 0, 0, // version
    1, 0, 7, 0, 255, 255, 255, 255, // owner
    4, 0, 5, 0, 255, 255, 255, 255, // group
    32, 0, 5, 0, 255, 255, 255, 255, // others
];
/// One that gives the user who probes everything.
pub(super) const GREEDY_ACL: &[u8] = &[
    2, 0, 0, 0, // version
    1, 0, 7, 0, 255, 255, 255, 255, // owner
    2, 0, 7, 0, 254, 255, 0, 0, // a user
    4, 0, 5, 0, 255, 255, 255, 255, // group
    16, 0, 7, 0, 255, 255, 255, 255, // mask
    32, 0, 5, 0, 255, 255, 255, 255, // others
];

/// The capability to open raw sockets, as the kernel writes it.
pub(super) const CAPABILITY: &[u8] = &[1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
