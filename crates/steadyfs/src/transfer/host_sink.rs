//! The host as a destination: makes the tree below a directory.
//!
//! What gives rights on the host is made only as far as [`Keep`] says; a word at the end tells what was left out.
//! Everything else is tried by everyone, and what the host refuses is noted. A directory gets its mode and times when
//! all its contents are there: until then it has to stay writable, and its times change.
//!
//! Somebody else may write where the copy goes. So owners, modes, attributes and times are set on open files, never on
//! a name. They are only set on what the copy has made or found to be a directory: a file on the descriptor that wrote
//! it, a directory if it still is the same. Permissions come last, and those of lists with the lists.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags, chmod, chownat, fchmod,
    fsetxattr, fstat, futimens, linkat, makedev, mkdirat, mknodat, openat, removexattr, setxattr, statat, symlinkat,
    unlinkat, utimensat,
};
use rustix::io::Errno;

use super::host_dir::{HostDir, Identity, identity, open_file, proc_self};
use super::lists;
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
    /// Access control lists: they give rights to users that the volume names.
    pub(crate) lists: bool,
    /// Attributes whose names begin with `security.` or `trusted.`: file capabilities are among them.
    pub(crate) privileged: bool,
}

impl Keep {
    /// All that this user can.
    #[cfg(test)]
    pub(crate) fn all() -> Self {
        let root = rustix::process::geteuid().is_root();
        Keep { owner: root, set_id: true, umask: 0, devices: root, lists: true, privileged: root }
    }

    fn permissions(&self, perm: u32) -> u32 {
        let perm = perm & !self.umask;
        if self.set_id { perm } else { perm & !SET_ID }
    }

    fn attribute(&self, name: &[u8]) -> bool {
        self.privileged || !(name.starts_with(b"security.") || name.starts_with(b"trusted."))
    }
}

/// Counts of things left out because of [`Keep`].
#[derive(Default)]
struct LeftOut {
    set_id: u64,
    devices: u64,
    lists: u64,
    attributes: u64,
}

impl LeftOut {
    /// One line for each kind.
    fn tell(&self, job: &Job) {
        let counts = [
            (self.set_id, "set-id bits of files", "-p keeps them"),
            (self.devices, "device nodes", "root makes them, without --no-devices"),
            (self.lists, "access control lists", "-p keeps them"),
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
    directories: Vec<Waiting>,
}

/// A directory whose metadata waits for its contents.
struct Waiting {
    path: Vec<u8>,
    meta: Meta,
    made: Made,
    /// Which one it was before the contents came.
    identity: Identity,
}

/// Whether something was there before the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    New,
    Before,
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
            Body::Parent => return self.directory(path).map(drop).map_err(cannot),
            Body::Directory => {
                let (made, identity) = self.directory(path).map_err(cannot)?;
                let (path, meta) = (path.to_vec(), entry.meta.clone());
                self.directories.push(Waiting { path, meta, made, identity });
                return Ok(());
            }
            Body::HardLink(_)
                if matches!(entry.meta.kind, Kind::CharDevice | Kind::BlockDevice) && !self.keep.devices =>
            {
                self.left_out.devices += 1;
                return Ok(());
            }
            Body::HardLink(first) => return self.link(&first, path).map_err(cannot),
            Body::File(content) => {
                let file = self.file(path, content, job)?;
                return self.set_meta(&Handle::File(file.into()), path, entry.meta, Made::New, job);
            }
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
        let handle = self.just_made(path, entry.meta)?;
        self.set_meta(&handle, path, entry.meta, Made::New, job)
    }

    /// Opens a symlink or special file that has just been made, as a name. Somebody may have been faster.
    fn just_made(&mut self, path: &[u8], meta: &Meta) -> Result<Handle, Failure> {
        let open = |(dir, name): (&OwnedFd, &[u8])| -> Result<(OwnedFd, Stat), Errno> {
            let fd = openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
            let stat = fstat(&fd)?;
            Ok((fd, stat))
        };
        let (fd, stat) = self.host.parent(path).and_then(open).map_err(|e| cannot(path, e))?;
        let device = matches!(meta.kind, Kind::CharDevice | Kind::BlockDevice);
        let same_device = !device || stat.st_rdev == makedev(meta.rdev.major, meta.rdev.minor);
        // A file that has another name is not the one that was made now.
        if FileType::from_raw_mode(stat.st_mode) == file_type(meta.kind) && same_device && stat.st_nlink <= 1 {
            return Ok(Handle::Name(fd));
        }
        let hint = "choose a directory that nobody else may write";
        Err(Failure::new(format!("cannot write {}", show(path)), "somebody replaced it meanwhile", hint))
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

    /// Makes a directory, or finds the one that is there.
    fn directory(&mut self, path: &[u8]) -> Result<(Made, Identity), Errno> {
        let (dir, name) = self.host.parent(path)?;
        if name.is_empty() {
            return Ok((Made::Before, identity(&fstat(dir)?)));
        }
        let made = match mkdirat(dir, name, Mode::RWXU) {
            // An existing directory takes the contents in; a symlink to one does not.
            Err(Errno::EXIST) => Made::Before,
            made => made.map(|()| Made::New)?,
        };
        let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            Ok((made, identity(&stat)))
        } else {
            Err(Errno::NOTDIR)
        }
    }

    fn link(&mut self, first: &[u8], path: &[u8]) -> Result<(), Errno> {
        let (first_dir, first_name) = self.host.parent(first)?;
        let (first_dir, first_name) = (rustix::io::dup(first_dir)?, first_name.to_vec());
        let linked = identity(&statat(&first_dir, first_name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?);
        let (dir, name) = self.host.parent(path)?;
        if statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|there| identity(&there) == linked) {
            return Ok(()); // what makes room would be the file itself
        }
        self.replace(path, |dir, name| linkat(&first_dir, first_name.as_slice(), dir, name, AtFlags::empty()))
    }

    fn special(&mut self, path: &[u8], meta: &Meta) -> Result<(), Errno> {
        let kind = file_type(meta.kind);
        let device = makedev(meta.rdev.major, meta.rdev.minor);
        self.replace(path, |dir, name| mknodat(dir, name, kind, Mode::RUSR | Mode::WUSR, device))
    }

    fn file(&mut self, path: &[u8], content: &mut dyn Content, job: &Job) -> Result<File, Failure> {
        let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        let made = self.replace(path, |dir, name| open_file(dir, name, create, Mode::RUSR | Mode::WUSR));
        let file = made.map_err(|e| cannot(path, e))?;
        let failed =
            |e: io::Error| Failure::new(format!("cannot write {}", show(path)), e, "make room, or copy elsewhere");
        for_each_piece(content, &job.progress, &mut |offset, data| file.write_all_at(data, offset).map_err(failed))?;
        // Covers a hole at the end.
        file.set_len(content.size()).map_err(failed)?;
        Ok(file)
    }

    /// Owner first (chown clears set-id bits and file capabilities), then attributes and lists, then the mode, which
    /// lists change, times last.
    fn set_meta(
        &mut self,
        handle: &Handle,
        path: &[u8],
        meta: &Meta,
        made: Made,
        job: &mut Job,
    ) -> Result<(), Failure> {
        let keep = self.keep;
        if keep.owner {
            handle.chown(meta.uid, meta.gid).map_err(|e| cannot(path, e))?;
        }
        let mut perm = meta.perm;
        if made == Made::New && keep.lists && meta.kind != Kind::Symlink {
            self.drop_inherited(handle, path, meta, job);
        }
        for (key, value) in &meta.xattrs {
            let set = match () {
                () if lists::is_list(key) && !keep.lists => {
                    self.left_out.lists += 1;
                    false
                }
                () if !keep.attribute(key) => {
                    self.left_out.attributes += 1;
                    false
                }
                () => match handle.set_attribute(key, value) {
                    Ok(()) => true,
                    Err(e) => {
                        let what = format!("attribute {} left out", show(key));
                        job.notes.add(&job.progress, path, &what, io::Error::from(e));
                        false
                    }
                },
            };
            if key == lists::ACCESS && !set {
                perm = lists::permissions_without(perm, value);
            }
        }
        if meta.kind != Kind::Symlink {
            handle.chmod(keep.permissions(perm)).map_err(|e| cannot(path, e))?;
            self.left_out.set_id += u64::from(meta.perm & SET_ID != 0 && !keep.set_id);
        }
        handle.set_times(meta).map_err(|e| cannot(path, e))
    }

    /// What a directory of the host gives to all that is made in it, the source does not have.
    fn drop_inherited(&self, handle: &Handle, path: &[u8], meta: &Meta, job: &mut Job) {
        for list in [lists::ACCESS, lists::DEFAULT] {
            if meta.xattrs.iter().any(|(key, _)| key == list) || (list == lists::DEFAULT && meta.kind != Kind::Dir) {
                continue;
            }
            match removexattr(proc_self(handle.fd()).as_slice(), list) {
                Ok(()) | Err(Errno::NODATA | Errno::NOTSUP | Errno::NOENT) => {}
                Err(e) => {
                    let what = "an inherited access control list stays";
                    job.notes.add(&job.progress, path, what, io::Error::from(e));
                }
            }
        }
    }

    /// Opens a directory once more whose contents are all there; none if it is another one now.
    fn again(&mut self, waiting: &Waiting) -> Result<Option<Handle>, Errno> {
        let (dir, name) = self.host.parent(&waiting.path)?;
        let name: &[u8] = if name.is_empty() { b"." } else { name };
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = match openat(dir, name, flags | OFlags::RDONLY, Mode::empty()) {
            // It was there before, and is closed to its owner.
            Err(Errno::ACCESS) => Handle::Name(openat(dir, name, flags | OFlags::PATH, Mode::empty())?),
            opened => Handle::File(opened?),
        };
        let same = identity(&fstat(handle.fd())?) == waiting.identity;
        Ok(same.then_some(handle))
    }
}

/// Something open whose metadata is set.
enum Handle {
    /// For reading or writing.
    File(OwnedFd),
    /// As a name only: the calls go through /proc, which leads to what is open, also to a symlink.
    Name(OwnedFd),
}

impl Handle {
    fn fd(&self) -> &OwnedFd {
        let (Handle::File(fd) | Handle::Name(fd)) = self;
        fd
    }

    fn chown(&self, uid: u32, gid: u32) -> Result<(), Errno> {
        chownat(self.fd(), "", Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), AtFlags::EMPTY_PATH)
    }

    fn chmod(&self, perm: u32) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(perm);
        match self {
            Handle::File(fd) => fchmod(fd, mode),
            Handle::Name(fd) => chmod(proc_self(fd).as_slice(), mode),
        }
    }

    fn set_attribute(&self, key: &[u8], value: &[u8]) -> Result<(), Errno> {
        match self {
            Handle::File(fd) => fsetxattr(fd, key, value, XattrFlags::empty()),
            Handle::Name(fd) => setxattr(proc_self(fd).as_slice(), key, value, XattrFlags::empty()),
        }
    }

    fn set_times(&self, meta: &Meta) -> Result<(), Errno> {
        let times = Timestamps { last_access: timespec(meta.atime), last_modification: timespec(meta.mtime) };
        match self {
            Handle::File(fd) => futimens(fd, &times),
            Handle::Name(fd) => utimensat(CWD, proc_self(fd).as_slice(), &times, AtFlags::empty()),
        }
    }
}

impl Sink for HostSink {
    fn entry(&mut self, entry: Entry<'_>, job: &mut Job) -> Result<(), Failure> {
        self.make(entry, job)
    }

    fn finish(&mut self, job: &mut Job) -> Result<(), Failure> {
        // Children first: setting a child's metadata must not need a parent that its own mode has closed.
        while let Some(waiting) = self.directories.pop() {
            let path = &waiting.path;
            match self.again(&waiting) {
                Ok(Some(handle)) => self.set_meta(&handle, path, &waiting.meta, waiting.made, job)?,
                Ok(None) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                    let why = "somebody put something else in its place meanwhile";
                    job.notes.add(&job.progress, path, "owner, permissions and times left out", why);
                }
                Err(e) => return Err(cannot(path, e)),
            }
        }
        self.left_out.tell(job);
        Ok(())
    }
}

fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::Regular => FileType::RegularFile,
        Kind::Dir => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::CharDevice => FileType::CharacterDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::Fifo => FileType::Fifo,
        Kind::Socket => FileType::Socket,
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
