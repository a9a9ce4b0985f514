//! The host as a destination: makes the tree below a directory.
//!
//! What gives rights on the host is made only as far as [`Keep`] says; a word at the end tells what was left out.
//! Everything else is tried by everyone, and what the host refuses is noted. A directory gets its mode and times when
//! all its contents are there: until then it has to stay writable, and its times change.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, linkat, lsetxattr,
    makedev, mkdirat, mknodat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::host_dir::{HostDir, open_file, proc_path};
use super::{Body, Content, Entry, Job, Kind, Meta, Sink, Time, for_each_piece, show};
use crate::failure::Failure;

/// Set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;

/// What a copy may bring along of what gives rights on the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    /// Owner and group.
    pub(crate) owner: bool,
    /// The set-id bits.
    pub(crate) set_id: bool,
    /// Permission bits that files lose.
    pub(crate) umask: u32,
    /// Character and block devices.
    pub(crate) devices: bool,
    /// Attributes whose names begin with `security.` or `trusted.`: file capabilities are among them.
    pub(crate) privileged: bool,
}

impl Keep {
    /// All that this user can.
    #[cfg(test)]
    pub(crate) fn all() -> Self {
        let root = rustix::process::geteuid().is_root();
        Keep { owner: root, set_id: true, umask: 0, devices: root, privileged: root }
    }

    fn permissions(&self, perm: u32) -> u32 {
        let perm = perm & !self.umask;
        if self.set_id { perm } else { perm & !SET_ID }
    }

    fn attribute(&self, name: &[u8]) -> bool {
        self.privileged || !(name.starts_with(b"security.") || name.starts_with(b"trusted."))
    }
}

/// What was left out because of [`Keep`].
#[derive(Default)]
struct LeftOut {
    set_id: u64,
    devices: u64,
    attributes: u64,
}

impl LeftOut {
    /// One line for each kind.
    fn tell(&self, job: &Job) {
        let counts = [
            (self.set_id, "set-id bits of files", "-p keeps them"),
            (self.devices, "device nodes", "root makes them, without --no-devices"),
            (
                self.attributes,
                "security.* and trusted.* attributes",
                "root sets them, if owners and permissions are kept",
            ),
        ];
        for (count, what, how) in counts {
            if count > 0 {
                job.progress.line(&format!("steadyfs: left out {count} {what}; {how}"));
            }
        }
    }
}

/// A directory of the host that receives a tree.
pub(crate) struct HostSink {
    host: HostDir,
    keep: Keep,
    left_out: LeftOut,
    /// Directories whose metadata waits for their contents.
    directories: Vec<(Vec<u8>, Meta)>,
}

impl HostSink {
    /// Receives the copy below `path`, which exists.
    pub(crate) fn open(path: &Path, keep: Keep) -> io::Result<Self> {
        Ok(HostSink { host: HostDir::open(path)?, keep, left_out: LeftOut::default(), directories: Vec::new() })
    }

    fn make(&mut self, entry: Entry<'_>, job: &mut Job) -> Result<(), Failure> {
        let path = entry.path;
        let cannot = |e: Errno| cannot(path, e);
        match entry.body {
            Body::Parent => return self.directory(path).map_err(cannot),
            Body::Directory => {
                self.directory(path).map_err(cannot)?;
                self.directories.push((path.to_vec(), entry.meta.clone()));
                return Ok(());
            }
            Body::HardLink(_)
                if matches!(entry.meta.kind, Kind::CharDevice | Kind::BlockDevice) && !self.keep.devices =>
            {
                self.left_out.devices += 1;
                return Ok(());
            }
            Body::HardLink(first) => return self.link(&first, path).map_err(cannot),
            Body::File(content) => self.file(path, content, job)?,
            Body::Symlink(target) => {
                self.replace(path, |dir, name| symlinkat(target.as_slice(), dir, name)).map_err(cannot)?
            }
            Body::Special if matches!(entry.meta.kind, Kind::CharDevice | Kind::BlockDevice) && !self.keep.devices => {
                self.left_out.devices += 1;
                return Ok(());
            }
            Body::Special => match self.special(path, entry.meta) {
                // Root of a container.
                Err(Errno::PERM) => {
                    job.notes.add(&job.progress, path, "left out", "the system allows no device here");
                    return Ok(());
                }
                made => made.map_err(cannot)?,
            },
        }
        self.set_meta(path, entry.meta, job)
    }

    /// Makes a name with `make`; a file that has the name already makes room.
    fn replace<T>(&mut self, path: &[u8], make: impl Fn(&OwnedFd, &[u8]) -> Result<T, Errno>) -> Result<T, Errno> {
        let (dir, name) = self.host.parent(path)?;
        match make(dir, name) {
            Err(Errno::EXIST) => {
                unlinkat(dir, name, AtFlags::empty())?;
                make(dir, name)
            }
            made => made,
        }
    }

    fn directory(&mut self, path: &[u8]) -> Result<(), Errno> {
        let (dir, name) = self.host.parent(path)?;
        if name.is_empty() {
            return Ok(());
        }
        match mkdirat(dir, name, Mode::RWXU) {
            // An existing directory takes the contents in; a symlink to one does not.
            Err(Errno::EXIST) => {
                let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory { Ok(()) } else { Err(Errno::NOTDIR) }
            }
            made => made,
        }
    }

    fn link(&mut self, first: &[u8], path: &[u8]) -> Result<(), Errno> {
        let (first_dir, first_name) = self.host.parent(first)?;
        let (first_dir, first_name) = (rustix::io::dup(first_dir)?, first_name.to_vec());
        self.replace(path, |dir, name| linkat(&first_dir, first_name.as_slice(), dir, name, AtFlags::empty()))
    }

    fn special(&mut self, path: &[u8], meta: &Meta) -> Result<(), Errno> {
        let kind = match meta.kind {
            Kind::CharDevice => FileType::CharacterDevice,
            Kind::BlockDevice => FileType::BlockDevice,
            Kind::Fifo => FileType::Fifo,
            _ => FileType::Socket,
        };
        let device = makedev(meta.rdev.major, meta.rdev.minor);
        self.replace(path, |dir, name| mknodat(dir, name, kind, Mode::RUSR | Mode::WUSR, device))
    }

    fn file(&mut self, path: &[u8], content: &mut dyn Content, job: &Job) -> Result<(), Failure> {
        let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        let made = self.replace(path, |dir, name| open_file(dir, name, create, Mode::RUSR | Mode::WUSR));
        let file = made.map_err(|e| cannot(path, e))?;
        let failed =
            |e: io::Error| Failure::new(format!("cannot write {}", show(path)), e, "make room, or copy elsewhere");
        for_each_piece(content, &job.progress, &mut |offset, data| file.write_all_at(data, offset).map_err(failed))?;
        // Covers a hole at the end.
        file.set_len(content.size()).map_err(failed)
    }

    /// Owner before mode (chown clears setuid), both before xattrs (chown clears file capabilities), times last.
    fn set_meta(&mut self, path: &[u8], meta: &Meta, job: &mut Job) -> Result<(), Failure> {
        let keep = self.keep;
        let (dir, name) = self.host.parent(path).map_err(|e| cannot(path, e))?;
        let name: &[u8] = if name.is_empty() { b"." } else { name };
        let basic = || -> Result<(), Errno> {
            if keep.owner {
                chownat(
                    dir,
                    name,
                    Some(Uid::from_raw(meta.uid)),
                    Some(Gid::from_raw(meta.gid)),
                    AtFlags::SYMLINK_NOFOLLOW,
                )?;
            }
            if meta.kind != Kind::Symlink {
                chmodat(dir, name, Mode::from_raw_mode(keep.permissions(meta.perm)), AtFlags::empty())?;
            }
            Ok(())
        };
        basic().map_err(|e| cannot(path, e))?;
        let set_id = meta.kind != Kind::Symlink && meta.perm & SET_ID != 0;
        self.left_out.set_id += u64::from(set_id && !keep.set_id);
        let xattr_path = proc_path(dir, name);
        for (key, value) in &meta.xattrs {
            if !keep.attribute(key) {
                self.left_out.attributes += 1;
                continue;
            }
            if let Err(e) = lsetxattr(xattr_path.as_slice(), key.as_slice(), value, XattrFlags::empty()) {
                let what = format!("attribute {} left out", show(key));
                job.notes.add(&job.progress, path, &what, io::Error::from(e));
            }
        }
        let times = Timestamps { last_access: timespec(meta.atime), last_modification: timespec(meta.mtime) };
        utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| cannot(path, e))
    }
}

impl Sink for HostSink {
    fn entry(&mut self, entry: Entry<'_>, job: &mut Job) -> Result<(), Failure> {
        self.make(entry, job)
    }

    fn finish(&mut self, job: &mut Job) -> Result<(), Failure> {
        // Children first: setting a child's metadata must not need a parent that its own mode has closed.
        while let Some((path, meta)) = self.directories.pop() {
            self.set_meta(&path, &meta, job)?;
        }
        self.left_out.tell(job);
        Ok(())
    }
}

fn timespec(time: Time) -> Timespec {
    Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() }
}

fn cannot(path: &[u8], e: Errno) -> Failure {
    let hint = match e {
        Errno::ACCESS | Errno::PERM | Errno::ROFS => "choose a directory that you may write",
        Errno::NOTDIR | Errno::ISDIR | Errno::EXIST => "move what has this name away, or choose another directory",
        Errno::NOSPC | Errno::DQUOT => "make room, or choose another directory",
        _ => "choose another directory",
    };
    Failure::new(format!("cannot write {}", show(path)), io::Error::from(e), hint)
}
