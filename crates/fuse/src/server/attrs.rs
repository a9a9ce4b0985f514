//! Requests about attributes: stat, statx, setattr, statfs.

use super::names::device_to_kernel;
use super::{Answer, Call, handles};
use crate::options::Cache;
use crate::wire::Args;
use crate::wire::abi::{Attr, AttrOut, GetattrIn, SetattrIn, Statx, StatxOut, SxTime};
use crate::wire::flags::linux::{STATX_ATTR_APPEND, STATX_ATTR_IMMUTABLE, STATX_BASIC_STATS, STATX_BTIME};
use crate::wire::flags::{FS_APPEND_FL, FS_IMMUTABLE_FL, GETATTR_FH, fattr};
use rustix::io::Errno;
use steadyfs_core::{SetAttr, SetTime};
use steadyfs_format::BLOCK_SIZE;
use steadyfs_format::inode::Time;

const BLOCK: u32 = BLOCK_SIZE as u32;

/// What the kernel sends of an open file that it wrote to its cache: no program can ask for these alone, with a handle.
const WRITTEN_BACK: u32 = fattr::MTIME | fattr::CTIME | fattr::FH;

impl Call<'_> {
    /// How long the kernel may trust the reply: seconds and nanoseconds.
    pub(super) fn ttl(&self) -> (u64, u32) {
        let ttl = self.server.policy.ttl;
        (ttl.as_secs(), ttl.subsec_nanos())
    }

    /// Attributes as the mount shows them, as the kernel takes them.
    pub(super) fn shown(&self, attr: steadyfs_core::Attr) -> Attr {
        let blocks = self.blocks(&attr);
        let attr = self.server.policy.shown(attr);
        Attr {
            ino: attr.ino.get().into(),
            size: attr.size,
            blocks,
            atime: attr.atime.secs.cast_unsigned(),
            mtime: attr.mtime.secs.cast_unsigned(),
            ctime: attr.ctime.secs.cast_unsigned(),
            atimensec: attr.atime.nanos,
            mtimensec: attr.mtime.nanos,
            ctimensec: attr.ctime.nanos,
            mode: attr.mode,
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            rdev: device_to_kernel(attr.rdev),
            blksize: BLOCK,
            flags: 0,
        }
    }

    /// Refuses what only the owner, as the mount shows it, or root may do. For requests that the kernel passes on
    /// without a look at who makes them.
    ///
    /// The kernel tells the caller's user only, so that root stands for everybody with `CAP_FOWNER`.
    pub(super) fn check_owner(&self, attr: &steadyfs_core::Attr) -> Answer {
        let owner = self.server.policy.shown(attr.clone()).uid;
        if self.header.uid == 0 || self.header.uid == owner { Ok(()) } else { Err(Errno::PERM.into()) }
    }

    pub(super) fn getattr(&mut self, mut args: Args<'_>) -> Answer {
        let GetattrIn { flags, fh, .. } = args.take()?;
        let inode = self.this()?;
        // stat(2) names no open file.
        if flags & GETATTR_FH != 0 && handles::writes(fh) {
            self.admit_write(inode.ino().get(), fh)?;
        }
        self.ask_again_now(inode.ino().get());
        let attr = self.fs.attr(&inode)?;
        self.put_attr(attr)
    }

    fn put_attr(&mut self, attr: steadyfs_core::Attr) -> Answer {
        let (attr_valid, attr_valid_nsec) = self.ttl();
        let out = AttrOut { attr_valid, attr_valid_nsec, dummy: 0, attr: self.shown(attr) };
        Ok(self.reply.put(&out)?)
    }

    /// Attributes with the time of creation and the flags that statx(2) shows.
    pub(super) fn statx(&mut self) -> Answer {
        let attr = self.fs.attr(&self.this()?)?;
        self.ask_again_now(attr.ino.get());
        let (attr_valid, attr_valid_nsec) = self.ttl();
        let (btime, flags, blocks) = (attr.crtime, attr.flags, self.blocks(&attr));
        let shown = self.server.policy.shown(attr);
        let bit = |flag: u32, shown_as: u64| if flags & flag != 0 { shown_as } else { 0 };
        let stat = Statx {
            mask: STATX_BASIC_STATS | if btime.is_some() { STATX_BTIME } else { 0 },
            blksize: BLOCK,
            attributes: bit(FS_IMMUTABLE_FL, STATX_ATTR_IMMUTABLE) | bit(FS_APPEND_FL, STATX_ATTR_APPEND),
            attributes_mask: STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND,
            nlink: shown.nlink,
            uid: shown.uid,
            gid: shown.gid,
            mode: u16::try_from(shown.mode).map_err(|_| Errno::IO)?,
            ino: shown.ino.get().into(),
            size: shown.size,
            blocks,
            atime: sx_time(shown.atime),
            btime: btime.map(sx_time).unwrap_or_default(),
            ctime: sx_time(shown.ctime),
            mtime: sx_time(shown.mtime),
            rdev_major: shown.rdev.major,
            rdev_minor: shown.rdev.minor,
            ..Statx::default()
        };
        Ok(self.reply.put(&StatxOut { attr_valid, attr_valid_nsec, stat, ..StatxOut::default() })?)
    }

    pub(super) fn setattr(&mut self, mut args: Args<'_>) -> Answer {
        let set: SetattrIn = args.take()?;
        let inode = self.this()?;
        let has = |bit: u32| set.valid & bit != 0;
        let time = |given: u32, now: u32, sec: u64, nsec: u32| match (has(given), has(now)) {
            (true, true) => Some(SetTime::Now),
            (true, false) => Some(SetTime::At(Time { secs: sec.cast_signed(), nanos: nsec })),
            _ => None,
        };
        if self.server.policy.cache == Cache::Writeback && set.valid == WRITTEN_BACK {
            let mtime = Time { secs: set.mtime.cast_signed(), nanos: set.mtimensec };
            let ctime = Time { secs: set.ctime.cast_signed(), nanos: set.ctimensec };
            let attr = self.with_space(|| self.fs.write_back_times(&inode, mtime, ctime))?;
            return self.put_attr(attr);
        }
        let change = SetAttr {
            mode: has(fattr::MODE).then_some(set.mode),
            uid: has(fattr::UID).then_some(set.uid),
            gid: has(fattr::GID).then_some(set.gid),
            size: has(fattr::SIZE).then_some(set.size),
            atime: time(fattr::ATIME, fattr::ATIME_NOW, set.atime, set.atimensec),
            mtime: time(fattr::MTIME, fattr::MTIME_NOW, set.mtime, set.mtimensec),
            ctime: has(fattr::CTIME).then_some(Time { secs: set.ctime.cast_signed(), nanos: set.ctimensec }),
            ..SetAttr::default()
        };
        if has(fattr::SIZE) {
            self.revoke(&inode, !has(fattr::KILL_SUIDGID))?;
        }
        let attr = self.with_space(|| self.fs.setattr(&inode, &change))?;
        if let Some(size) = change.size {
            self.server.nodes.found(inode.ino().get(), size..u64::MAX);
        }
        self.settle(&inode)?;
        self.ask_again(inode.ino().get());
        self.put_attr(attr)
    }
}

fn sx_time(time: Time) -> SxTime {
    SxTime { tv_sec: time.secs, tv_nsec: time.nanos, reserved: 0 }
}
