//! Requests that go by contents which the kernel may still have in its cache only: before such a request the kernel is
//! made to write them back.
//!
//! Kept true: whoever waits for the kernel here holds no gate, so what it writes back meanwhile is served, or refused
//! once the file system has ended, and never waits behind that end. The end itself waits until nobody waits for the
//! kernel any more, and lets nobody begin: without a process that answers, they would wait for ever.

use super::{Answer, Call, FETCH, Kernel, Server, State, node_of};
use crate::options::Cache;
use crate::wire::abi::{CopyFileRangeIn, FallocateIn, InHeader, Rename2In, RenameIn, WriteIn};
use crate::wire::flags::WRITE_CACHE;
use crate::wire::flags::linux::{
    FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT,
};
use crate::wire::{Args, Opcode, Reply};
use rustix::io::Errno;
use std::ops::Range;
use steadyfs_core::InodeRef;
use steadyfs_format::BLOCK_SIZE;
use steadyfs_rt::{Condvar, Mutex};

/// How many threads wait for the kernel, which may wait for another request.
pub(super) struct Fetches {
    count: Mutex<Count>,
    none: Condvar,
}

#[derive(Default)]
struct Count {
    waiting: usize,
    over: bool,
}

/// One of them.
pub(super) struct Fetch<'a>(&'a Fetches);

impl Fetches {
    pub(super) fn new() -> Self {
        Fetches { count: Mutex::new(&FETCH, Count::default()), none: Condvar::new() }
    }

    /// `None` when it is over.
    pub(super) fn begin(&self) -> Option<Fetch<'_>> {
        let mut count = self.count.lock();
        if count.over {
            return None;
        }
        count.waiting += 1;
        Some(Fetch(self))
    }

    /// Returns when there is none, and will be none.
    pub(super) fn end(&self) {
        let mut count = self.count.lock();
        while count.waiting > 0 {
            self.none.wait(&mut count);
        }
        count.over = true;
    }
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        let mut count = self.0.count.lock();
        assert!(count.waiting > 0, "a wait for the kernel ended twice");
        count.waiting -= 1;
        if count.waiting == 0 {
            self.0.none.notify_all();
        }
    }
}

impl Server {
    /// Does what may have to wait for the kernel, unless the file system has ended.
    pub(crate) fn wait_for_kernel(&self, wait: impl FnOnce()) {
        if let Some(_fetch) = self.fetches.begin() {
            wait();
        }
    }

    /// Makes the kernel write back what it may have of the files whose contents a request goes by.
    ///
    /// # Errors
    /// `ENODEV` if the file system has ended.
    pub(super) fn fetch(
        &self,
        header: InHeader,
        opcode: Opcode,
        args: Args<'_>,
        reply: &mut Reply,
        kernel: &dyn Kernel,
    ) -> Answer {
        let goes_by_contents = match opcode {
            Opcode::Rename | Opcode::Rename2 | Opcode::Lseek | Opcode::CopyFileRange | Opcode::CopyFileRange64 => {
                self.policy.cache == Cache::Writeback
            }
            // By what a mapping wrote, which the kernel keeps in any case.
            Opcode::Fallocate => true,
            // By none, but it takes room.
            Opcode::Write => {
                self.policy.cache == Cache::Writeback
                    && past_the_cache(args).is_some()
                    && !steadyfs_rt::mutated("a-direct-write-leaves-others-their-room")
            }
            _ => false,
        };
        if !goes_by_contents || !self.policy.admits(header.uid) {
            return Ok(());
        }
        let (parts, takes_room, _fetch) = {
            let state = self.state.read();
            let State::Live(fs) = &*state else {
                return Err(Errno::NODEV.into());
            };
            // A request that cannot be understood is its handler's to refuse.
            let call = Call { server: self, fs, header, kernel, reply };
            let mut parts = call.behind(opcode, args).unwrap_or_default();
            let takes_room = call.takes_room(opcode, args);
            if takes_room {
                parts.extend(self.nodes.all_with_writers().into_iter().map(|node| (node, 0..u64::MAX)));
            }
            if parts.is_empty() {
                return Ok(());
            }
            // Still behind the gate: the end sees it.
            (parts, takes_room, self.fetches.begin())
        };
        if !steadyfs_rt::mutated("the-kernel-writes-back-first") {
            parts.into_iter().for_each(|(node, range)| kernel.invalidate(node, range));
            if takes_room {
                self.room.note_written_back();
            }
        }
        Ok(())
    }
}

/// The bytes of a file that a write goes to, past the kernel's cache.
fn past_the_cache(mut args: Args<'_>) -> Option<Range<u64>> {
    let asked = args.take().ok().filter(|asked: &WriteIn| asked.write_flags & WRITE_CACHE == 0)?;
    Some(asked.offset..asked.offset.saturating_add(asked.size.into()))
}

impl Call<'_> {
    /// Whether the request may take room from what the kernel holds of files that are open for writing.
    fn takes_room(&self, opcode: Opcode, mut args: Args<'_>) -> bool {
        let room = &self.server.room;
        let bytes = match opcode {
            Opcode::Fallocate => {
                let asked = args.take().ok().filter(|asked: &FallocateIn| asked.mode & FALLOC_PUNCH_HOLE == 0);
                asked.map(|asked| asked.length)
            }
            Opcode::CopyFileRange | Opcode::CopyFileRange64 => args.take().ok().map(|asked: CopyFileRangeIn| asked.len),
            Opcode::Write => past_the_cache(args)
                .filter(|range| room.may_be_short_after(self.fs, range.end - range.start) && self.adds_blocks(range))
                .map(|range| range.end - range.start),
            _ => None,
        };
        self.server.policy.cache == Cache::Writeback && bytes.is_some_and(|bytes| room.is_short_after(self.fs, bytes))
    }

    /// Whether a write may take more than it gives up: it goes beyond the end, or into a file with holes.
    fn adds_blocks(&self, written: &Range<u64>) -> bool {
        let attr = self.this().and_then(|inode| Ok(self.fs.attr(&inode)?));
        attr.is_ok_and(|attr| attr.size < written.end || attr.blocks * 512 < attr.size)
    }

    /// The nodes whose contents the request goes by, and of which the kernel may have newer ones; and which of their
    /// bytes.
    fn behind(&self, opcode: Opcode, mut args: Args<'_>) -> Answer<Vec<(u64, Range<u64>)>> {
        let newdir_and_flags = match opcode {
            Opcode::Rename => args.take().map(|RenameIn { newdir }| (newdir, 0))?,
            Opcode::Rename2 => args.take().map(|Rename2In { newdir, flags, .. }| (newdir, flags))?,
            Opcode::Fallocate => return self.tail(&args.take()?),
            Opcode::CopyFileRange | Opcode::CopyFileRange64 | Opcode::Write => return Ok(Vec::new()),
            // The kernel asks for data and holes without writing back what it has, and takes the answer as it is.
            _ => return Ok(self.with_writers([Some(self.this()?)])),
        };
        let (newdir, flags) = newdir_and_flags;
        if flags & RENAME_NOREPLACE != 0 {
            return Ok(Vec::new());
        }
        // The contents of what takes the place of another file count before the rename.
        let (from, to) = (self.fs.lookup(&self.this()?, args.name()?)?, self.inode(newdir)?);
        let Ok(target) = self.fs.lookup(&to, args.name()?) else {
            return Ok(Vec::new());
        };
        let exchanged = flags & !RENAME_WHITEOUT == RENAME_EXCHANGE;
        Ok(self.with_writers([Some(from), exchanged.then_some(target)]))
    }

    /// What lies behind the end of a file, if an allocation moves the end. A program may have written there through a
    /// mapping, which is not to be seen. The kernel has the page; when it writes that back it leaves out what lies
    /// behind the end, as long as that is where it was.
    fn tail(&self, asked: &FallocateIn) -> Answer<Vec<(u64, Range<u64>)>> {
        let inode = self.this()?;
        let size = self.fs.attr(&inode)?.size;
        if asked.mode & FALLOC_KEEP_SIZE != 0 || asked.offset.saturating_add(asked.length) <= size {
            return Ok(Vec::new());
        }
        if steadyfs_rt::mutated("an-allocation-drops-what-lies-behind-the-end") {
            return Ok(Vec::new());
        }
        let from = size - size % BLOCK_SIZE as u64;
        Ok(self.with_writers([Some(inode)]).into_iter().map(|(node, _)| (node, from..u64::MAX)).collect())
    }

    /// Those of the inodes that are open for writing, and all their bytes.
    fn with_writers<const N: usize>(&self, inodes: [Option<InodeRef>; N]) -> Vec<(u64, Range<u64>)> {
        let open = inodes.into_iter().flatten().filter(|inode| self.server.nodes.has_writers(inode.ino().get()));
        open.map(|inode| (node_of(inode.ino()), 0..u64::MAX)).collect()
    }
}
