//! The peer: a FUSE file system that keeps everything in memory, on the crate `fuser`, to compare our mount with.
//!
//! It pays for what any FUSE file system pays for, the way of a request from the kernel and back, and for nearly
//! nothing else. It is set up as such file systems are when they are to be fast:
//! - one thread, and writes of up to 1 MiB;
//! - names and attributes trusted for an hour, and pages kept when a file is opened again;
//! - `ENOSYS` to FLUSH, GETXATTR, OPENDIR and ACCESS, so that the kernel does not send them again;
//! - permissions not checked by the kernel, unless it is told to ([`CHECKED`]), so that it need not ask for those of a
//!   directory that has changed.
//!
//! With [`ATTRIBUTES`] it answers GETXATTR, as a file system with attributes and ACLs has to. An fsync does nothing. It
//! answers what the workloads need, and no more.
//!
//! It survives unmounting, not its process: a mount after another has the same files.

mod store;

use anyhow::{Context, Result};
use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, ReplyXattr, Request, Session, SessionACL, TimeOrNow,
    WriteFlags,
};
use std::ffi::OsStr;
use std::io::{BufRead, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};
use store::{Body, Store};

/// The name of the hidden command.
pub(crate) const COMMAND: &str = "serve-memory";
/// Its argument for a mount that writes through.
pub(crate) const THROUGH: &str = "through";
/// Its argument for a mount with the kernel's write-back cache.
pub(crate) const WRITEBACK: &str = "writeback";
/// The same, with the kernel checking permissions for every user.
pub(crate) const CHECKED: &str = "writeback,checked";
/// The same, with attributes and ACLs, of which no file has one.
pub(crate) const ATTRIBUTES: &str = "writeback,checked,attributes";

/// How long the kernel may trust a reply.
const TTL: Duration = Duration::from_secs(3600);

/// Mounts once for every line on standard input, and says "ready" when mounted and "gone" when unmounted. Ends with the
/// input.
pub(crate) fn serve(dir: &Path, cache: &str) -> Result<()> {
    let store = Arc::new(Store::new());
    for line in std::io::stdin().lock().lines() {
        line?;
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("memory".into()), MountOption::Subtype("bench".into())];
        if [CHECKED, ATTRIBUTES].contains(&cache) {
            config.mount_options.push(MountOption::DefaultPermissions);
            config.acl = SessionACL::All;
        }
        let (writeback, attributes) = (cache != THROUGH, cache == ATTRIBUTES);
        let peer = Peer { store: Arc::clone(&store), writeback, attributes };
        let session = Session::new(peer, dir, &config)?;
        say("ready")?;
        session.run().context("serving the peer")?;
        store.forget_all();
        say("gone")?;
    }
    Ok(())
}

fn say(word: &str) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{word}")?;
    Ok(out.flush()?)
}

/// Lifts the kernel's limits on dirty pages of the FUSE file system at `dir`, as our own mount does.
pub(crate) fn lift_limits(dir: &Path) -> Result<()> {
    let device = std::fs::metadata(dir)?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    for (knob, value) in [("strict_limit", "0"), ("max_ratio", "100")] {
        let path = format!("/sys/class/bdi/{major}:{minor}/{knob}");
        std::fs::write(&path, value).with_context(|| format!("cannot write {path}"))?;
    }
    Ok(())
}

/// The handlers.
struct Peer {
    store: Arc<Store>,
    writeback: bool,
    attributes: bool,
}

impl Peer {
    fn make(&self, req: &Request, dir: INodeNo, name: &OsStr, kind: FileType, mode: u32) -> Result<FileAttr, Errno> {
        self.store.make(dir, name, kind, mode, (req.uid(), req.gid()))
    }
}

fn time(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

impl Filesystem for Peer {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let mut wanted = InitFlags::FUSE_HANDLE_KILLPRIV_V2
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_ATOMIC_O_TRUNC
            | InitFlags::FUSE_NO_OPENDIR_SUPPORT;
        if self.writeback {
            wanted |= InitFlags::FUSE_WRITEBACK_CACHE;
        }
        if self.attributes {
            wanted |= InitFlags::FUSE_POSIX_ACL;
        }
        let refused = |flags| std::io::Error::other(format!("the kernel does not offer {flags:?}"));
        config.add_capabilities(wanted).map_err(refused)
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.store.lookup(parent, name) {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        self.store.forget(ino, nlookup);
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.store.node(ino) {
            Ok(node) => reply.attr(&TTL, &node.attr()),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let node = match self.store.node(ino) {
            Ok(node) => node,
            Err(errno) => return reply.error(errno),
        };
        if let (Some(size), Body::File(contents)) = (size, &node.body) {
            contents.write().unwrap_or_else(PoisonError::into_inner).truncate(size as usize);
        }
        let attr = node.change(|attr| {
            attr.perm = mode.map_or(attr.perm, |mode| (mode & 0o7777) as u16);
            attr.uid = uid.unwrap_or(attr.uid);
            attr.gid = gid.unwrap_or(attr.gid);
            attr.size = size.unwrap_or(attr.size);
            attr.atime = atime.map_or(attr.atime, time);
            attr.mtime = mtime.map_or(attr.mtime, time);
            attr.ctime = ctime.unwrap_or_else(SystemTime::now);
        });
        reply.attr(&TTL, &attr);
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        match self.make(req, parent, name, FileType::Directory, mode & !umask) {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make(req, parent, name, FileType::RegularFile, mode & !umask) {
            Ok(attr) => reply.created(&TTL, &attr, Generation(0), FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(errno) => reply.error(errno),
        }
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.store.unlink(parent, name) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.store.rmdir(parent, name) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        match self.store.rename((parent, name), (new_parent, new_name)) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        match self.store.names(ino, offset) {
            Ok(names) => {
                // The number of an inode is where its directory goes on behind it.
                let _ = names.iter().any(|(name, attr)| reply.add(attr.ino, attr.ino.0, attr.kind, name));
                reply.ok();
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn opendir(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let node = match self.store.node(ino) {
            Ok(node) => node,
            Err(errno) => return reply.error(errno),
        };
        let Body::File(contents) = &node.body else {
            return reply.error(Errno::EISDIR);
        };
        let len = node.attr().size.saturating_sub(offset).min(size.into()) as usize;
        let contents = contents.read().unwrap_or_else(PoisonError::into_inner);
        contents.read(offset as usize, len, |bytes| reply.data(bytes));
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let node = match self.store.node(ino) {
            Ok(node) => node,
            Err(errno) => return reply.error(errno),
        };
        let Body::File(contents) = &node.body else {
            return reply.error(Errno::EISDIR);
        };
        contents.write().unwrap_or_else(PoisonError::into_inner).write(offset as usize, data);
        node.change(|attr| {
            attr.size = attr.size.max(offset + data.len() as u64);
            attr.mtime = SystemTime::now();
        });
        reply.written(data.len() as u32);
    }

    fn getxattr(&self, _req: &Request, _ino: INodeNo, _name: &OsStr, _size: u32, reply: ReplyXattr) {
        // After the second the kernel does not ask again.
        reply.error(if self.attributes { Errno::NO_XATTR } else { Errno::ENOSYS });
    }

    fn fsync(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }
}
