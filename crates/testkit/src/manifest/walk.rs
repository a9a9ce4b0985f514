//! Takes the manifest of a directory through system calls.
//!
//! Few calls per name, because they are slow in user-mode Linux. Symbolic links are never followed. Large sparse files
//! cost only their data; the file system's SEEK_DATA is trusted for that, unless told otherwise, and where it lies the
//! digest shows it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, Dir, FileType, IFlags, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;

use super::{ContentDigest, Entry, Kind, Manifest, Time, digest, escape};
use crate::error::{Result, os};
use crate::sparse;

/// An attribute value longer than this is written as its length and digest.
const LONG_VALUE: usize = 64;
const READ_SIZE: usize = 256 << 10;

/// What to write down beyond the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Access times. Reading changes them, unless the mount is noatime.
    pub atime: bool,
    /// Change times.
    pub ctime: bool,
    /// Creation times.
    pub crtime: bool,
    /// Allocated space.
    pub blocks: bool,
    /// Which ranges are data and which are holes.
    pub data: bool,
    /// Inode flags.
    pub flags: bool,
    /// Leaves out the contents of files.
    pub no_contents: bool,
    /// Reads holes, too. Linux 6.1's F2FS calls the first block of every compressed cluster a hole.
    pub read_holes: bool,
}

impl Options {
    /// The same as arguments of the program `steadyfs-manifest`.
    pub fn as_args(&self) -> String {
        let all = [
            (self.atime, "--atime"),
            (self.ctime, "--ctime"),
            (self.crtime, "--crtime"),
            (self.blocks, "--blocks"),
            (self.data, "--data"),
            (self.flags, "--flags"),
            (self.no_contents, "--no-contents"),
            (self.read_holes, "--read-holes"),
        ];
        all.iter().filter(|(on, _)| *on).map(|(_, arg)| *arg).collect::<Vec<_>>().join(" ")
    }
}

impl Manifest {
    /// The manifest of the tree at `root`, a directory.
    pub fn of(root: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let root = root.as_ref();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = fs::open(root, flags, Mode::empty()).map_err(os(format!("open {}", root.display())))?;
        let mut walk = Walk { options, buffer: vec![0; READ_SIZE], entries: BTreeMap::new(), links: HashMap::new() };
        walk.directory_itself(&fd)?;
        // Directories whose names are still to be read, by path from the root. A path fits into PATH_MAX, as the tree's
        // maker used it.
        let mut pending = vec![Vec::new()];
        while let Some(path) = pending.pop() {
            walk.directory(&fd, &path, &mut pending)?;
        }
        walk.name_link_groups();
        Ok(Self { entries: walk.entries })
    }
}

struct Walk<'a> {
    options: &'a Options,
    buffer: Vec<u8>,
    entries: BTreeMap<String, Entry>,
    /// Names of inodes with several of them, by inode number.
    links: HashMap<u64, Vec<String>>,
}

impl Walk<'_> {
    fn directory_itself(&mut self, root: &OwnedFd) -> Result<()> {
        let entry = self.entry(root.as_fd(), b".", b".")?;
        self.entries.insert(".".to_owned(), entry);
        Ok(())
    }

    /// Writes down everything in the directory at `path`, in the order of names, and adds its subdirectories to
    /// `pending`.
    fn directory(&mut self, root: &OwnedFd, path: &[u8], pending: &mut Vec<Vec<u8>>) -> Result<()> {
        let relative = if path.is_empty() { b"." } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = fs::openat(root, OsStr::from_bytes(relative), flags, Mode::empty()).map_err(os(at("open", path)))?;
        let mut names: Vec<CString> = Vec::new();
        for item in Dir::read_from(&dir).map_err(os(at("list", path)))? {
            let name = item.map_err(os(at("list", path)))?.file_name().to_owned();
            if name.as_bytes() != b"." && name.as_bytes() != b".." {
                names.push(name);
            }
        }
        names.sort();
        for name in names {
            let mut child = path.to_owned();
            if !child.is_empty() {
                child.push(b'/');
            }
            child.extend_from_slice(name.as_bytes());
            let entry = self.entry(dir.as_fd(), name.as_bytes(), &child)?;
            let is_dir = entry.kind == Kind::Dir;
            self.entries.insert(escape(&child), entry);
            if is_dir {
                pending.push(child);
            }
        }
        Ok(())
    }

    /// Everything about `name` in `dir`; `path` is for error texts and link groups.
    fn entry(&mut self, dir: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> Result<Entry> {
        let name = OsStr::from_bytes(name);
        let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let stat = fs::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, mask).map_err(os(at("stat", path)))?;
        let kind = kind(&stat);
        let on = |wanted: bool, stamp: rustix::fs::StatxTimestamp| wanted.then(|| time(stamp));
        let has_birth = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
        let mut entry = Entry {
            kind,
            mode: u32::from(stat.stx_mode) & 0o7777,
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            nlink: stat.stx_nlink.into(),
            size: stat.stx_size,
            mtime: time(stat.stx_mtime),
            atime: on(self.options.atime, stat.stx_atime),
            ctime: on(self.options.ctime, stat.stx_ctime),
            crtime: on(self.options.crtime && has_birth, stat.stx_btime),
            rdev: matches!(kind, Kind::Char | Kind::Block).then_some((stat.stx_rdev_major, stat.stx_rdev_minor)),
            target: None,
            digest: None,
            xattrs: xattrs(dir, name, path)?,
            same_as: None,
            blocks: self.options.blocks.then_some(stat.stx_blocks),
            data: None,
            flags: None,
        };
        if kind != Kind::Dir && stat.stx_nlink > 1 {
            self.links.entry(stat.stx_ino).or_default().push(escape(path));
        }
        match kind {
            Kind::Symlink => {
                let target = fs::readlinkat(dir, name, Vec::new()).map_err(os(at("readlink", path)))?;
                entry.target = Some(escape(target.as_bytes()));
            }
            Kind::File => self.file(dir, name, path, &mut entry)?,
            Kind::Dir if self.options.flags => {
                let fd = fs::openat(dir, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
                entry.flags = Some(inode_flags(&fd.map_err(os(at("open", path)))?, path)?);
            }
            _ => {}
        }
        Ok(entry)
    }

    /// What only an open regular file tells.
    fn file(&mut self, dir: BorrowedFd<'_>, name: &OsStr, path: &[u8], entry: &mut Entry) -> Result<()> {
        let wants_contents = entry.size > 0 && !self.options.no_contents;
        if !wants_contents && !self.options.data && !self.options.flags {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = fs::openat(dir, name, flags, Mode::empty()).map_err(os(at("open", path)))?;
        if self.options.flags {
            entry.flags = Some(inode_flags(&fd, path)?);
        }
        let ranges = sparse::data_ranges(&fd, entry.size).map_err(os(at("find the holes of", path)))?;
        if wants_contents {
            let mut digest = ContentDigest::new(entry.size);
            let whole = [(0, entry.size)];
            for &(start, length) in if self.options.read_holes { &whole[..] } else { &ranges } {
                self.read_range(&fd, start, start + length, &mut digest, path)?;
            }
            entry.digest = Some(digest.finish());
        }
        entry.data = self.options.data.then_some(ranges);
        Ok(())
    }

    fn read_range(
        &mut self,
        fd: &OwnedFd,
        start: u64,
        end: u64,
        digest: &mut ContentDigest,
        path: &[u8],
    ) -> Result<()> {
        let mut position = start;
        while position < end {
            let want = usize::try_from(end - position).map_or(READ_SIZE, |n| n.min(READ_SIZE));
            let got = rustix::io::pread(fd, &mut self.buffer[..want], position).map_err(os(at("read", path)))?;
            if got == 0 {
                // The file is shorter than its size said: the rest would count as zeros and the difference be lost.
                return Err(os(at("read up to its size", path))(Errno::IO));
            }
            digest.update(position, &self.buffer[..got]);
            position += got as u64;
        }
        Ok(())
    }

    /// Names every member of a link group after the first name of the group.
    fn name_link_groups(&mut self) {
        for names in self.links.values_mut().filter(|names| names.len() > 1) {
            names.sort();
            for name in names.iter() {
                if let Some(entry) = self.entries.get_mut(name) {
                    entry.same_as = Some(names[0].clone());
                }
            }
        }
    }
}

/// All attributes of a name, which may be one that cannot be opened, such as a device or a link.
fn xattrs(dir: BorrowedFd<'_>, name: &OsStr, path: &[u8]) -> Result<BTreeMap<String, String>> {
    let mut by_fd = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
    by_fd.extend_from_slice(name.as_bytes());
    let by_fd = OsStr::from_bytes(&by_fd);
    let mut list = vec![0u8; 4096];
    let length = loop {
        match fs::llistxattr(by_fd, &mut list) {
            Ok(length) => break length,
            Err(Errno::RANGE) => list.resize(list.len() * 4, 0),
            Err(Errno::OPNOTSUPP) => return Ok(BTreeMap::new()),
            Err(errno) => return Err(os(at("list the attributes of", path))(errno)),
        }
    };
    let mut found = BTreeMap::new();
    for attribute in list[..length].split(|&b| b == 0).filter(|n| !n.is_empty()) {
        let mut value = vec![0u8; 64 << 10];
        let size = fs::lgetxattr(by_fd, OsStr::from_bytes(attribute), &mut value)
            .map_err(os(at(&format!("read attribute {} of", escape(attribute)), path)))?;
        let text = match &value[..size] {
            long if long.len() > LONG_VALUE => format!("{} bytes {}", long.len(), digest::of_bytes(long)),
            short => escape(short),
        };
        found.insert(escape(attribute), text);
    }
    Ok(found)
}

fn inode_flags(fd: &OwnedFd, path: &[u8]) -> Result<u32> {
    let flags: IFlags = fs::ioctl_getflags(fd).map_err(os(at("read the flags of", path)))?;
    Ok(flags.bits() as u32)
}

fn kind(stat: &Statx) -> Kind {
    match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::Directory => Kind::Dir,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::Char,
        FileType::BlockDevice => Kind::Block,
        FileType::RegularFile | FileType::Unknown => Kind::File,
    }
}

fn time(stamp: rustix::fs::StatxTimestamp) -> Time {
    Time { sec: stamp.tv_sec, nsec: stamp.tv_nsec }
}

fn at(what: &str, path: &[u8]) -> String {
    format!("{what} {}", escape(path))
}
