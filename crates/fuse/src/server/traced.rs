//! Requests as records of a trace: what was asked for, and what came of it. Knows the messages, and nothing of what
//! they do.
//!
//! An attribute of the root directory that is not listed turns recording on and off and gives out what was recorded:
//! like the counters, it needs no other channel into the process. Only root and the user who mounted may use it.
//! Requests about it are not recorded.

use super::{Answer, Server};
use crate::wire::abi::{
    CopyFileRangeIn, CopyFileRangeOut, CreateIn, EntryOut, FallocateIn, FsyncIn, GetxattrIn, LinkIn, LseekIn, MkdirIn,
    MknodIn, OpenIn, ReadIn, Rename2In, RenameIn, SetattrIn, SetxattrIn, SetxattrShortIn, WriteIn, WriteOut,
};
use crate::wire::flags::linux::O_DIRECT;
use crate::wire::flags::{FSYNC_DATASYNC, WRITE_CACHE, init};
use crate::wire::{Args, Opcode, Reply, Request};
use rustix::io::Errno;
use std::sync::atomic::Ordering::SeqCst;
use steadyfs_rt::{Instant, now};
use steadyfs_trace::{DATA_ONLY, DIRECT, NOT_FOUND, Op, Record, WRITTEN_BACK};
use zerocopy::FromBytes;

/// The name of the attribute. Setting it to `start` or `stop` turns recording on or off; its value is the next part of
/// the trace's file, without the header, and empty if there is none now.
pub const TRACE_ATTRIBUTE: &str = "steadyfs.trace";

/// Attributes of our own begin so; nobody's program uses them.
const OURS: &[u8] = b"steadyfs.";

/// A request that is being recorded.
pub(super) struct Traced {
    record: Record,
    start: Instant,
}

impl Server {
    /// The beginning of a request, if it is to be recorded.
    pub(super) fn trace_begin(&self, bytes: &[u8]) -> Option<Traced> {
        if !self.recorder.is_on() {
            return None;
        }
        let Request { header, opcode, args } = Request::parse(bytes).ok()?;
        let mut record = Record::new(op(opcode?)?, header.pid, header.nodeid);
        self.arguments(opcode?, args, &mut record)?;
        Some(Traced { record, start: now() })
    }

    /// Its end.
    pub(super) fn trace_end(&self, traced: Traced, failed: Option<Errno>, reply: &Reply) {
        let Traced { mut record, start } = traced;
        match failed {
            Some(errno) => record.error = errno.raw_os_error().unsigned_abs(),
            None => result(reply, &mut record),
        }
        self.recorder.push(record, start);
    }

    /// What the message says beyond its header; `None` if it is not to be recorded, or is cut off.
    fn arguments(&self, opcode: Opcode, mut args: Args<'_>, r: &mut Record) -> Option<()> {
        match r.op {
            Op::Lookup | Op::Unlink | Op::Rmdir => r.name = self.recorder.name(r.file, args.name().ok()?),
            Op::Setattr => {
                let SetattrIn { valid, size, .. } = args.take().ok()?;
                (r.flags, r.size) = (valid.into(), size);
            }
            Op::Mknod | Op::Mkdir | Op::Create => {
                match r.op {
                    Op::Mknod => args.take::<MknodIn>().map(drop).ok()?,
                    Op::Mkdir => args.take::<MkdirIn>().map(drop).ok()?,
                    _ => args.take::<CreateIn>().map(drop).ok()?,
                }
                r.name = self.recorder.name(r.file, args.name().ok()?);
            }
            Op::Symlink => {
                r.name = self.recorder.name(r.file, args.name().ok()?);
                r.size = args.name().ok()?.len() as u64;
            }
            Op::Link => {
                let LinkIn { oldnodeid } = args.take().ok()?;
                (r.other, r.name) = (oldnodeid, self.recorder.name(r.file, args.name().ok()?));
            }
            Op::Rename => {
                let (dir, flags) = match opcode {
                    Opcode::Rename => (args.take::<RenameIn>().ok()?.newdir, 0),
                    _ => args.take::<Rename2In>().map(|rename| (rename.newdir, rename.flags)).ok()?,
                };
                (r.other, r.flags) = (dir, flags.into());
                r.name = self.recorder.name(r.file, args.name().ok()?);
                r.other_name = self.recorder.name(dir, args.name().ok()?);
            }
            Op::Read | Op::Readdir => {
                let ReadIn { offset, size, flags, .. } = args.take().ok()?;
                (r.offset, r.size) = (offset, size.into());
                r.flags = if flags & O_DIRECT != 0 { DIRECT } else { 0 };
            }
            Op::Write => {
                let WriteIn { offset, size, flags, write_flags, .. } = args.take().ok()?;
                (r.offset, r.size) = (offset, size.into());
                // Who caused a write-back is not known, whatever thread the kernel names.
                let back = write_flags & WRITE_CACHE != 0;
                let direct = !back && flags & O_DIRECT != 0;
                r.flags = if back { WRITTEN_BACK } else { 0 } | if direct { DIRECT } else { 0 };
                if back {
                    r.thread = 0;
                }
            }
            _ => return self.rarer(args, r),
        }
        Some(())
    }

    fn rarer(&self, mut args: Args<'_>, r: &mut Record) -> Option<()> {
        match r.op {
            Op::Open => r.flags = args.take::<OpenIn>().ok()?.flags.into(),
            Op::Fsync | Op::Fsyncdir => {
                let data_only = args.take::<FsyncIn>().ok()?.fsync_flags & FSYNC_DATASYNC != 0;
                r.flags = if data_only { DATA_ONLY } else { 0 };
            }
            Op::Fallocate => {
                let FallocateIn { offset, length, mode, .. } = args.take().ok()?;
                (r.offset, r.size, r.flags) = (offset, length, mode.into());
            }
            Op::Lseek => {
                let LseekIn { offset, whence, .. } = args.take().ok()?;
                (r.offset, r.flags) = (offset, whence.into());
            }
            Op::Copy => {
                let CopyFileRangeIn { off_in, nodeid_out, off_out, len, .. } = args.take().ok()?;
                (r.offset, r.other, r.other_offset, r.size) = (off_in, nodeid_out, off_out, len);
            }
            Op::Setxattr => {
                r.size = match self.uses(init::SETXATTR_EXT) {
                    true => args.take::<SetxattrIn>().ok()?.size.into(),
                    false => args.take::<SetxattrShortIn>().ok()?.size.into(),
                };
                r.name = self.attribute(r.file, args.name().ok()?)?;
            }
            Op::Getxattr => {
                r.size = args.take::<GetxattrIn>().ok()?.size.into();
                r.name = self.attribute(r.file, args.name().ok()?)?;
            }
            Op::Removexattr => r.name = self.attribute(r.file, args.name().ok()?)?,
            _ => {}
        }
        Some(())
    }

    fn attribute(&self, file: u64, name: &[u8]) -> Option<steadyfs_trace::Name> {
        (!name.starts_with(OURS)).then(|| self.recorder.name(file, name))
    }

    /// Turns recording on or off for a user.
    pub(super) fn control_trace(&self, uid: u32, value: &[u8]) -> Answer {
        self.may_control(uid)?;
        match value {
            b"start" => self.recorder.start().map_err(|_| Errno::BUSY)?,
            // What writes into a file of the process ends with the mount.
            b"stop" if self.to_file.load(SeqCst) => return Err(Errno::BUSY.into()),
            b"stop" => self.recorder.stop(),
            _ => return Err(Errno::INVAL.into()),
        }
        Ok(())
    }

    /// The next part of the trace.
    pub(super) fn next_of_trace(&self, uid: u32, room: u32) -> Answer<Vec<u8>> {
        self.may_control(uid)?;
        if self.to_file.load(SeqCst) {
            return Err(Errno::BUSY.into());
        }
        // Without room it is the size that is asked for, and nothing may be lost.
        Ok(if room == 0 { Vec::new() } else { self.recorder.drain(room as usize) })
    }

    /// Refuses users who may not tell the serving process what to do.
    pub(super) fn may_control(&self, uid: u32) -> Answer {
        let ours = rustix::process::geteuid().as_raw();
        if uid == 0 || uid == ours { Ok(()) } else { Err(Errno::PERM.into()) }
    }
}

/// The operation of a message; `None` for those that are talk between the kernel and this process.
fn op(opcode: Opcode) -> Option<Op> {
    Some(match opcode {
        Opcode::Lookup => Op::Lookup,
        Opcode::Getattr | Opcode::Statx => Op::Getattr,
        Opcode::Setattr => Op::Setattr,
        Opcode::Mknod => Op::Mknod,
        Opcode::Mkdir => Op::Mkdir,
        Opcode::Symlink => Op::Symlink,
        Opcode::Create => Op::Create,
        Opcode::Tmpfile => Op::Tmpfile,
        Opcode::Link => Op::Link,
        Opcode::Unlink => Op::Unlink,
        Opcode::Rmdir => Op::Rmdir,
        Opcode::Rename | Opcode::Rename2 => Op::Rename,
        Opcode::Readlink => Op::Readlink,
        Opcode::Readdir | Opcode::Readdirplus => Op::Readdir,
        Opcode::Open => Op::Open,
        Opcode::Release => Op::Release,
        Opcode::Read => Op::Read,
        Opcode::Write => Op::Write,
        Opcode::Fsync => Op::Fsync,
        Opcode::Fsyncdir => Op::Fsyncdir,
        Opcode::Syncfs => Op::Syncfs,
        Opcode::Fallocate => Op::Fallocate,
        Opcode::Lseek => Op::Lseek,
        Opcode::CopyFileRange | Opcode::CopyFileRange64 => Op::Copy,
        Opcode::Setxattr => Op::Setxattr,
        Opcode::Getxattr => Op::Getxattr,
        Opcode::Listxattr => Op::Listxattr,
        Opcode::Removexattr => Op::Removexattr,
        Opcode::Ioctl => Op::Ioctl,
        Opcode::Flush => Op::Flush,
        Opcode::Statfs => Op::Statfs,
        Opcode::Forget
        | Opcode::BatchForget
        | Opcode::Init
        | Opcode::Destroy
        | Opcode::Interrupt
        | Opcode::NotifyReply
        | Opcode::Opendir
        | Opcode::Releasedir
        | Opcode::Access => return None,
    })
}

/// What a reply without an error says.
fn result(reply: &Reply, r: &mut Record) {
    let body = reply.body();
    match r.op {
        Op::Lookup | Op::Mknod | Op::Mkdir | Op::Symlink | Op::Create | Op::Tmpfile | Op::Link => {
            let Ok((entry, _)) = EntryOut::read_from_prefix(body) else { return };
            if entry.nodeid == 0 {
                r.error = NOT_FOUND;
            }
            (r.other, r.flags) = (entry.nodeid, entry.attr.mode.into());
            if r.op == Op::Lookup || r.op == Op::Create {
                r.size = entry.attr.size;
            }
        }
        Op::Read | Op::Readdir | Op::Listxattr => r.done = reply.len() as u64,
        Op::Getxattr => r.done = if r.size == 0 { 0 } else { body.len() as u64 },
        Op::Write => r.done = WriteOut::read_from_prefix(body).map_or(0, |(out, _)| out.size.into()),
        Op::Copy => {
            let wide = CopyFileRangeOut::read_from_prefix(body).map(|(out, _)| out.bytes_copied);
            r.done = wide.unwrap_or(0);
        }
        _ => {}
    }
}
