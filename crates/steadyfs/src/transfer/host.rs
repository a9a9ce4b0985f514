//! The host as a source: files named on the command line and everything below them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, SeekFrom, Stat, lgetxattr, llistxattr, major, minor, readlinkat, seek, statat,
};
use rustix::io::Errno;

use super::host_dir::{HostDir, open_file, proc_path};
use super::{Body, Content, DeviceNumber, Entry, Job, Kind, Meta, Sink, Source, Time, Xattrs, join};
use crate::failure::Failure;

/// One tree or file of the host, and the path it gets in the copy.
pub(crate) struct Root {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Its path in the copy; empty: its contents go to the top.
    pub(crate) to: Vec<u8>,
}

/// The trees that a user named.
pub(crate) struct HostSource {
    roots: Vec<Root>,
    /// First path in the copy of every file with several names, by device and inode number.
    linked: HashMap<(u64, u64), Vec<u8>>,
}

impl HostSource {
    pub(crate) fn new(roots: Vec<Root>) -> Self {
        HostSource { roots, linked: HashMap::new() }
    }

    /// Bytes of file data below the roots, as far as they can be read.
    pub(crate) fn total(&self) -> u64 {
        self.roots.iter().map(|root| bytes_below(&root.path)).sum()
    }
}

impl Source for HostSource {
    fn send(&mut self, sink: &mut dyn Sink, job: &mut Job) -> Result<(), Failure> {
        for root in std::mem::take(&mut self.roots) {
            let mut walk = Walk::open(&root)?;
            walk.tree(&mut self.linked, sink, job)?;
        }
        Ok(())
    }
}

/// The walk of one root.
struct Walk<'a> {
    root: &'a Root,
    host: HostDir,
    /// The root's name in `host`; empty if `host` is the root itself.
    name: Vec<u8>,
}

impl<'a> Walk<'a> {
    fn open(root: &'a Root) -> Result<Self, Failure> {
        let cannot = |e: std::io::Error| {
            Failure::new(format!("cannot read {}", root.path.display()), e, "check the name and its permissions")
        };
        // A directory is its own top, so that `dir/.` and `/` need no name.
        if std::fs::symlink_metadata(&root.path).map_err(cannot)?.is_dir() {
            return Ok(Walk { root, host: HostDir::open(&root.path).map_err(cannot)?, name: Vec::new() });
        }
        let parent = root.path.parent().unwrap_or(Path::new("."));
        let name = root.path.file_name().unwrap_or_default().as_bytes().to_vec();
        Ok(Walk { root, host: HostDir::open(parent).map_err(cannot)?, name })
    }

    /// Sends the root and all below it, without recursion: a tree may be deeper than the stack.
    fn tree(
        &mut self,
        linked: &mut HashMap<(u64, u64), Vec<u8>>,
        sink: &mut dyn Sink,
        job: &mut Job,
    ) -> Result<(), Failure> {
        let mut pending = vec![self.name.clone()];
        while let Some(path) = pending.pop() {
            if self.entry(&path, linked, sink, job)?
                && let Some(mut names) = self.or_left_out(&path, job, |walk| walk.names(&path))?
            {
                names.sort_unstable();
                pending.extend(names.into_iter().rev().map(|name| join(&path, &name)));
            }
        }
        Ok(())
    }

    /// The path in the copy of what is at `path` in the walk.
    fn to(&self, path: &[u8]) -> Vec<u8> {
        if self.name.is_empty() { join(&self.root.to, path) } else { self.root.to.clone() }
    }

    /// The path on the host, for messages.
    fn full(&self, path: &[u8]) -> PathBuf {
        if self.name.is_empty() { self.root.path.join(OsStr::from_bytes(path)) } else { self.root.path.clone() }
    }

    /// The file that is there, or a line that it is left out: a tree may change while it is copied. Files that the user
    /// named have to be there.
    fn or_left_out<T>(
        &mut self,
        path: &[u8],
        job: &mut Job,
        read: impl FnOnce(&mut Self) -> Result<T, Errno>,
    ) -> Result<Option<T>, Failure> {
        match read(self) {
            Ok(found) => Ok(Some(found)),
            Err(e) if path == self.name => Err(self.cannot(path, e)),
            Err(e) => {
                let full = self.full(path);
                job.notes.add(&job.progress, full.as_os_str().as_bytes(), "left out", std::io::Error::from(e));
                Ok(None)
            }
        }
    }

    fn cannot(&self, path: &[u8], e: Errno) -> Failure {
        let what = format!("cannot read {}", self.full(path).display());
        Failure::new(what, std::io::Error::from(e), "check its permissions, or leave it out")
    }

    fn names(&mut self, path: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.host.dir(path)?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        Ok(names)
    }

    /// Sends one entry; says whether it is a directory that was sent.
    fn entry(
        &mut self,
        path: &[u8],
        linked: &mut HashMap<(u64, u64), Vec<u8>>,
        sink: &mut dyn Sink,
        job: &mut Job,
    ) -> Result<bool, Failure> {
        let Some(found) = self.or_left_out(path, job, |walk| walk.look(path))? else { return Ok(false) };
        let to = self.to(path);
        job.progress.at(&to);
        let body = match found.meta.kind {
            Kind::Dir => Body::Directory,
            _ if found.stat.st_nlink > 1 && linked.contains_key(&found.identity()) => {
                Body::HardLink(linked[&found.identity()].clone())
            }
            Kind::Symlink => Body::Symlink(found.target.clone()),
            Kind::Regular => {
                let Some(mut content) = self.or_left_out(path, job, |walk| walk.content(path))? else {
                    return Ok(false);
                };
                remember(linked, &found, &to);
                sink.entry(Entry { path: &to, meta: &found.meta, body: Body::File(&mut content) }, job)?;
                return Ok(false);
            }
            _ => Body::Special,
        };
        let directory = matches!(body, Body::Directory);
        if !directory && !matches!(body, Body::HardLink(_)) {
            remember(linked, &found, &to);
        }
        sink.entry(Entry { path: &to, meta: &found.meta, body }, job)?;
        Ok(directory)
    }

    fn look(&mut self, path: &[u8]) -> Result<Found, Errno> {
        let (dir, name) = self.host.parent(path)?;
        let flags = if name.is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::SYMLINK_NOFOLLOW };
        let stat = statat(dir, name, flags)?;
        let meta = Meta { xattrs: xattrs(&proc_path(dir, name))?, ..meta(&stat) };
        let target = match meta.kind {
            Kind::Symlink => readlinkat(dir, name, Vec::new())?.into_bytes(),
            _ => Vec::new(),
        };
        Ok(Found { stat, meta, target })
    }

    fn content(&mut self, path: &[u8]) -> Result<HostContent, Errno> {
        let full = self.full(path);
        let (dir, name) = self.host.parent(path)?;
        let file = open_file(dir, name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?;
        let size = rustix::fs::fstat(&file)?.st_size.try_into().unwrap_or(0);
        Ok(HostContent { path: full, file, size })
    }
}

/// What the host says about one name.
struct Found {
    stat: Stat,
    meta: Meta,
    target: Vec<u8>,
}

impl Found {
    fn identity(&self) -> (u64, u64) {
        (self.stat.st_dev, self.stat.st_ino)
    }
}

fn remember(linked: &mut HashMap<(u64, u64), Vec<u8>>, found: &Found, to: &[u8]) {
    if found.stat.st_nlink > 1 {
        linked.insert(found.identity(), to.to_vec());
    }
}

fn meta(stat: &Stat) -> Meta {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Dir,
        FileType::Symlink => Kind::Symlink,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        _ => Kind::Regular,
    };
    let device = matches!(kind, Kind::CharDevice | Kind::BlockDevice);
    Meta {
        kind,
        perm: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: if device {
            DeviceNumber { major: major(stat.st_rdev), minor: minor(stat.st_rdev) }
        } else {
            DeviceNumber::default()
        },
        atime: Time { secs: stat.st_atime, nanos: stat.st_atime_nsec as u32 },
        mtime: Time { secs: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 },
        xattrs: Vec::new(),
    }
}

/// All xattrs that this user may see. A file system without xattrs has none.
fn xattrs(path: &[u8]) -> Result<Xattrs, Errno> {
    let names = match grow(|buf| llistxattr(path, buf)) {
        Ok(names) => names,
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut found = Vec::new();
    for name in names.split(|b| *b == 0).filter(|name| !name.is_empty()) {
        match grow(|buf| lgetxattr(path, name, buf)) {
            Ok(value) => found.push((name.to_vec(), value)),
            Err(Errno::NODATA) => {} // removed since
            Err(e) => return Err(e),
        }
    }
    found.sort();
    Ok(found)
}

/// Calls `read` with a larger buffer until the result fits.
fn grow(mut read: impl FnMut(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buf = vec![0; 512];
    loop {
        match read(&mut buf) {
            Ok(length) => {
                buf.truncate(length);
                return Ok(buf);
            }
            // The kernel allows no list or value above 64 KiB.
            Err(Errno::RANGE) if buf.len() < 1 << 17 => buf.resize(buf.len() * 4, 0),
            Err(e) => return Err(e),
        }
    }
}

/// A file of the host.
struct HostContent {
    path: PathBuf,
    file: File,
    size: u64,
}

impl HostContent {
    fn cannot(&self, e: impl Into<std::io::Error>) -> Failure {
        Failure::new(format!("cannot read {}", self.path.display()), e.into(), "check the disk it is on")
    }
}

impl Content for HostContent {
    fn size(&self) -> u64 {
        self.size
    }

    fn extents(&mut self) -> Result<Option<Vec<Range<u64>>>, Failure> {
        let mut extents = Vec::new();
        let mut at = 0;
        while at < self.size {
            let start = match seek(&self.file, SeekFrom::Data(at)) {
                Ok(start) => start,
                Err(Errno::NXIO) => break,
                Err(Errno::INVAL) => return Ok(None), // this file system cannot tell
                Err(e) => return Err(self.cannot(e)),
            };
            let end = seek(&self.file, SeekFrom::Hole(start)).map_err(|e| self.cannot(e))?.min(self.size);
            if end <= start {
                break;
            }
            extents.push(start..end);
            at = end;
        }
        Ok(Some(extents))
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize, Failure> {
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.cannot(e)),
            }
        }
        Ok(done)
    }
}

/// Bytes allocated to regular files below `path`: an estimate for the progress bar, so errors count nothing.
fn bytes_below(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut pending = vec![path.to_owned()];
    let mut total = 0;
    while let Some(path) = pending.pop() {
        let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
        if meta.is_dir() {
            pending.extend(std::fs::read_dir(&path).into_iter().flatten().flatten().map(|e| e.path()));
        } else if meta.is_file() {
            total += meta.len().min(meta.blocks() * 512);
        }
    }
    total
}
