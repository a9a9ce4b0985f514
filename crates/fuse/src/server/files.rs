//! Requests about open files: opening, reading, writing, syncing, allocating, seeking, copying.
//!
//! A handle says whether its file was opened for writing, so that the end of it can be counted, and which write errors
//! it was told of.

use super::caller::is_in_group;
use super::handles::Seat;
use super::nodes::Closed;
use super::{Answer, Call, node_of};
use crate::options::Cache;
use crate::wire::abi::{
    CopyFileRangeIn, CopyFileRangeOut, FallocateIn, FlushIn, FsyncIn, LseekIn, LseekOut, OpenIn, OpenOut, ReadIn,
    ReleaseIn, WriteIn, WriteOut,
};
use crate::wire::flags::linux::{
    FALLOC_COLLAPSE_RANGE, FALLOC_INSERT_RANGE, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO_RANGE, O_ACCMODE,
    O_APPEND, O_DIRECT, O_DSYNC, O_NOATIME, O_RDONLY, O_SYNC, O_TRUNC, O_WRONLY, SEEK_DATA, SEEK_HOLE,
};
use crate::wire::flags::{
    FS_APPEND_FL, FS_IMMUTABLE_FL, FS_SYNC_FL, FSYNC_DATASYNC, OPEN_KILL_SUIDGID, WRITE_CACHE, WRITE_KILL_SUIDGID,
    fopen,
};
use crate::wire::{Args, Notice, Opcode};
use rustix::io::Errno;
use steadyfs_core::{Changer, FallocMode, InodeRef, SetAttr, Whence};

/// From this many bytes on, what the kernel has in its own cache does not go through ours as well: a second copy of it
/// would cost more than it ever saves.
pub(super) const LARGE: u32 = 128 << 10;

/// Most bytes that one COPY_FILE_RANGE copies; the caller asks again for the rest.
const COPY_MOST: u64 = 16 << 20;

pub(super) fn writes(flags: u32) -> bool {
    flags & O_ACCMODE != O_RDONLY
}

impl Call<'_> {
    pub(super) fn open(&mut self, mut args: Args<'_>) -> Answer {
        let OpenIn { flags, open_flags } = args.take()?;
        let (seat, inode) = (self.seat()?, self.this()?);
        self.check_open(&inode, flags, open_flags)?;
        let reads = flags & O_ACCMODE != O_WRONLY && flags & O_NOATIME == 0;
        // What the kernel has cached it reads without a request, and it leaves the access time to the file system.
        if reads && self.opened(flags).caches && self.fs.note_open(&inode) {
            self.kernel.forget_attributes(self.header.nodeid);
        }
        self.put_open(&inode, flags, seat)?;
        self.forget_no_blocks(&inode, flags)
    }

    /// Whether the inode's flags allow to open it so (the kernel has checked the permissions); truncates it if that is
    /// asked for.
    pub(super) fn check_open(&self, inode: &InodeRef, flags: u32, open_flags: u32) -> Answer {
        if writes(flags) || flags & O_TRUNC != 0 {
            let marks = self.fs.attr(inode)?.flags;
            let appends_only = flags & O_APPEND != 0 && flags & O_TRUNC == 0;
            if marks & FS_IMMUTABLE_FL != 0 || (marks & FS_APPEND_FL != 0 && !appends_only) {
                return Err(Errno::PERM.into());
            }
        }
        if flags & O_TRUNC != 0 {
            self.revoke(inode, open_flags & OPEN_KILL_SUIDGID == 0)?;
            self.fs.setattr(inode, &SetAttr { size: Some(0), ..SetAttr::default() })?;
            self.server.nodes.found(inode.ino().get(), 0..u64::MAX);
            self.settle(inode)?;
        }
        Ok(())
    }

    /// Makes a file durable after a change that its caller waits for, if its flags ask for that.
    pub(super) fn settle(&self, inode: &InodeRef) -> Answer {
        self.settle_if(inode, FS_SYNC_FL)
    }

    pub(super) fn settle_if(&self, inode: &InodeRef, asking: u32) -> Answer {
        if self.server.policy.marks & asking == 0 && self.fs.attr(inode)?.flags & asking == 0 {
            return Ok(());
        }
        self.with_space(|| self.fs.fsync(inode, false))
    }

    /// Before contents change: takes from a program what it lends to those who run it, as Linux does, and from the
    /// kernel the mode that it still goes by.
    ///
    /// With `HANDLE_KILLPRIV_V2` the kernel leaves all of this to the file system, so that a plain write costs no
    /// request for the program's capabilities. Writes, truncations and openings say whether the caller may keep set-id
    /// bits.
    pub(super) fn revoke(&self, inode: &InodeRef, keeps_set_id: bool) -> Answer {
        let is_member = |group| is_in_group(&self.header, group);
        let changer = if keeps_set_id { Changer::KeepsSetId } else { Changer::Other { is_member: &is_member } };
        if self.with_space(|| self.fs.revoke_privileges(inode, changer))? {
            self.kernel.forget_attributes(node_of(inode.ino()));
        }
        Ok(())
    }

    /// As [`Call::revoke`], for requests that do not say what the caller may (`CAP_FSETID`): root may.
    fn revoke_unless_root(&self, inode: &InodeRef) -> Answer {
        self.revoke(inode, self.header.uid == 0)
    }

    /// Leave for the caller to open a file. Asked for first, so that nothing is made or cut for who gets none.
    pub(super) fn seat(&self) -> Answer<Seat> {
        let uid = self.header.uid;
        let most = if self.server.may_control(uid).is_ok() { u32::MAX } else { self.server.policy.open_files };
        Ok(self.server.handles.seat(uid, most)?)
    }

    /// Answers with an open file.
    pub(super) fn put_open(&mut self, inode: &InodeRef, flags: u32, seat: Seat) -> Answer {
        let direct = match self.server.policy.cache {
            // With write-back the kernel keeps times by itself, and would miss those of writes that bypass its cache.
            Cache::Writeback => false,
            Cache::Through => flags & O_DIRECT != 0,
            Cache::Direct => true,
        };
        let mut how = self.opened(flags);
        how.entitled = how.writes && self.server.policy.is_entitled(&self.header);
        let cached = match direct {
            true => fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES,
            false => fopen::KEEP_CACHE,
        };
        // Who only reads is told of no write error by a close. With write-back nobody is.
        let open_flags = cached | if how.writes { 0 } else { fopen::NOFLUSH };
        if how.writes {
            self.server.room.expect_growth(self.fs);
        }
        let fh = self.server.handles.open(how, inode.error_cursor(), seat);
        self.server.nodes.opened(inode.ino().get(), how);
        Ok(self.reply.put(&OpenOut { fh, open_flags, backing_id: 0 })?)
    }

    pub(super) fn release(&mut self, mut args: Args<'_>) -> Answer {
        let ReleaseIn { fh, .. } = args.take()?;
        let Some(how) = self.server.handles.close(fh) else {
            tracing::warn!(fh, "the kernel closes a file that is not open");
            return Ok(());
        };
        let ino = u32::try_from(self.header.nodeid).map_err(|_| Errno::STALE)?;
        let Closed { held, guessed } = self.server.nodes.closed(ino, how);
        if guessed {
            self.reply.then(Notice::ForgetAttributes { node: self.header.nodeid });
        }
        let fell_back = if how.writes { self.fall_back(ino) } else { Ok(()) };
        self.server.let_go(self.fs, held.then_some(ino));
        fell_back
    }

    pub(super) fn read(&mut self, mut args: Args<'_>) -> Answer {
        let ReadIn { offset, size, flags, .. } = args.take()?;
        let inode = self.this()?;
        let fs = self.fs;
        let kernel_keeps = self.server.policy.cache != Cache::Direct && size >= LARGE;
        let past_our_cache = kernel_keeps || flags & O_DIRECT != 0;
        if self.opened(flags).caches {
            // First: who writes these bytes from now on sees it.
            self.server.nodes.caches(inode.ino().get(), offset..offset.saturating_add(size.into()));
        }
        self.reply.fill(size as usize, |buf| match past_our_cache {
            false => fs.read(&inode, offset, buf),
            true => fs.read_direct(&inode, offset, buf),
        })?;
        Ok(())
    }

    pub(super) fn write(&mut self, mut args: Args<'_>) -> Answer {
        let asked: WriteIn = args.take()?;
        let data = args.bytes(asked.size)?;
        let (ino, mut done) = (u32::try_from(self.header.nodeid).map_err(|_| Errno::STALE)?, 0);
        let written = self.this().and_then(|inode| {
            self.write_all(&inode, &asked, data, &mut done)?;
            Ok(inode)
        });
        let taken = asked.offset.saturating_add(done as u64);
        self.server.nodes.found(ino, asked.offset..taken);
        self.drop_stale(ino, &asked, asked.offset..taken);
        if let Err(fail) = &written
            && asked.write_flags & WRITE_CACHE != 0
        {
            self.lose(ino, taken..asked.offset.saturating_add(data.len() as u64), fail.0);
        }
        if !steadyfs_rt::mutated("writes-look-at-the-room") {
            self.server.room.look(self.fs);
        }
        let inode = written?;
        // After a write past its cache the kernel does not sync: it passes on that the writer asked for it (`RWF_DSYNC`
        // too).
        if asked.write_flags & WRITE_CACHE == 0 && asked.flags & (O_DSYNC | O_SYNC) != 0 {
            self.sync(&inode, asked.fh, asked.flags & O_SYNC != O_SYNC)?;
        } else if asked.write_flags & WRITE_CACHE == 0 {
            self.settle(&inode)?;
        }
        let size = u32::try_from(done).map_err(|_| Errno::IO)?;
        Ok(self.reply.put(&WriteOut { size, padding: 0 })?)
    }

    /// Writes `data`, and counts in `done` how much was taken, also if the rest is refused.
    fn write_all(&self, inode: &InodeRef, asked: &WriteIn, data: &[u8], done: &mut usize) -> Answer {
        // What the kernel wrote into its cache before, and nobody waits for.
        let written_back = asked.write_flags & WRITE_CACHE != 0;
        let direct = if written_back { asked.size >= LARGE } else { asked.flags & O_DIRECT != 0 };
        // With write-back the kernel set the times when it took the data, and sends them apart, maybe before the data.
        let has_times = written_back && self.server.policy.cache == Cache::Writeback;
        // Who filled the kernel's cache is not known any more; the kernel saw to it when it took the data.
        if !written_back && !steadyfs_rt::mutated("writes-take-set-id-away") {
            self.revoke(inode, asked.write_flags & WRITE_KILL_SUIDGID == 0)?;
        }
        loop {
            let (at, rest) = (asked.offset + *done as u64, &data[*done..]);
            let write = || match (has_times, direct) {
                (true, direct) => self.fs.write_back(inode, at, rest, direct),
                (false, false) => self.fs.write(inode, at, rest),
                (false, true) => self.fs.write_direct(inode, at, rest),
            };
            // What the kernel writes back, it does for whoever has opened the file.
            let taken = match written_back {
                true => self.with_space_for(|| self.server.handles.is_entitled(asked.fh), write),
                false => self.with_space(write),
            }?;
            *done += taken;
            if *done == data.len() {
                return Ok(());
            }
            // Of what it writes back the kernel does not look how much was taken: it is all, or there is an error for
            // the next fsync. Of a direct write within the file it makes EIO of a part: the next piece says why.
            let is_within =
                || -> Answer<bool> { Ok(self.fs.attr(inode)?.size >= asked.offset.saturating_add(data.len() as u64)) };
            if !(written_back || direct && is_within()?) {
                return Ok(());
            }
            if taken == 0 {
                return Err(Errno::IO.into());
            }
        }
    }

    pub(super) fn fsync(&mut self, mut args: Args<'_>) -> Answer {
        let FsyncIn { fh, fsync_flags, .. } = args.take()?;
        let inode = self.this()?;
        self.sync(&inode, fh, fsync_flags & FSYNC_DATASYNC != 0)?;
        // The kernel told of it once. But as long as contents are missing, no fsync succeeds.
        let told = self
            .server
            .nodes
            .tell_lost(inode.ino().get())
            .filter(|_| !steadyfs_rt::mutated("fsync-fails-while-contents-are-missing"));
        told.map_or(Ok(()), |why| Err(why.into()))
    }

    /// Makes what was written durable; the open file `fh` is told of earlier failures.
    fn sync(&self, inode: &InodeRef, fh: u64, datasync: bool) -> Answer {
        match self.server.handles.cursor(fh).filter(|_| !steadyfs_rt::mutated("each-open-file-hears-of-errors")) {
            Some(cursor) => self.with_space(|| self.fs.fsync_open(inode, datasync, &cursor)),
            None => self.with_space(|| self.fs.fsync(inode, datasync)),
        }
    }

    /// One of the descriptors of an open file is closed: its last chance to hear of an error.
    ///
    /// With write-back the kernel writes back before, and tells itself of refused writes. A close would hear of an
    /// error that comes later than the reply to a write by chance only, and fsync tells of it. This round trip is one
    /// of the four that it takes to make a file. So the answer to the first one tells the kernel to send no more.
    pub(super) fn flush(&mut self, mut args: Args<'_>) -> Answer {
        if self.server.policy.cache == Cache::Writeback {
            return Err(Errno::NOSYS.into());
        }
        let FlushIn { fh, .. } = args.take()?;
        if let Some(cursor) = self.server.handles.cursor(fh) {
            self.this()?.take_write_error(&cursor)?;
        }
        Ok(())
    }

    pub(super) fn fallocate(&mut self, mut args: Args<'_>) -> Answer {
        let FallocateIn { offset, length, mode, .. } = args.take()?;
        let keep_size = mode & FALLOC_KEEP_SIZE != 0;
        let how = match mode & !FALLOC_KEEP_SIZE {
            0 => FallocMode::Allocate { keep_size },
            FALLOC_PUNCH_HOLE if keep_size => FallocMode::PunchHole,
            FALLOC_ZERO_RANGE => FallocMode::ZeroRange { keep_size },
            // Linux 6.18 refuses these two for every FUSE mount by itself.
            FALLOC_COLLAPSE_RANGE if !keep_size => FallocMode::CollapseRange,
            FALLOC_INSERT_RANGE if !keep_size => FallocMode::InsertRange,
            _ => return Err(Errno::OPNOTSUPP.into()),
        };
        let inode = self.this()?;
        self.revoke_unless_root(&inode)?;
        self.with_space(|| self.fs.fallocate(&inode, how, offset, length))?;
        if matches!(how, FallocMode::PunchHole | FallocMode::ZeroRange { .. }) {
            // What lies behind the end is not there, zeros or not.
            let end = offset.saturating_add(length).min(self.fs.attr(&inode)?.size);
            self.server.nodes.found(inode.ino().get(), offset..end);
        }
        self.settle(&inode)
    }

    /// Finds the next data or hole. The kernel has written back what it had (`fetch`).
    pub(super) fn lseek(&mut self, mut args: Args<'_>) -> Answer {
        let LseekIn { offset, whence, .. } = args.take()?;
        let whence = match whence {
            SEEK_DATA => Whence::Data,
            SEEK_HOLE => Whence::Hole,
            _ => return Err(Errno::INVAL.into()),
        };
        let inode = self.this()?;
        let offset = self.fs.seek(&inode, offset, whence)?;
        Ok(self.reply.put(&LseekOut { offset })?)
    }

    pub(super) fn copy_file_range(&mut self, opcode: Opcode, mut args: Args<'_>) -> Answer {
        let CopyFileRangeIn { off_in, nodeid_out, off_out, len, flags, .. } = args.take()?;
        if flags != 0 {
            return Err(Errno::INVAL.into());
        }
        let (from, to) = (self.this()?, self.inode(nodeid_out)?);
        self.revoke_unless_root(&to)?;
        let (mut done, most) = (0, len.min(COPY_MOST));
        while done < most {
            self.reply.truncate(0);
            let want = usize::try_from(most - done).map_err(|_| Errno::INVAL)?;
            let (fs, at) = (self.fs, off_in + done);
            if self.reply.fill(want, |buf| fs.read(&from, at, buf))? == 0 {
                break;
            }
            let written = self.with_space(|| fs.write(&to, off_out + done, self.reply.body()));
            match written {
                Ok(0) => break,
                Ok(bytes) => done += bytes as u64,
                // What was copied before stays copied.
                Err(_) if done > 0 => break,
                Err(fail) => return Err(fail),
            }
        }
        self.reply.truncate(0);
        self.server.nodes.found(to.ino().get(), off_out..off_out.saturating_add(done));
        self.settle(&to)?;
        if opcode == Opcode::CopyFileRange64 {
            return Ok(self.reply.put(&CopyFileRangeOut { bytes_copied: done })?);
        }
        let size = u32::try_from(done).map_err(|_| Errno::IO)?;
        Ok(self.reply.put(&WriteOut { size, padding: 0 })?)
    }
}
