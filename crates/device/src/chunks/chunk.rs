//! [`Chunk`]: one file of a chunk directory, while it is open.
//!
//! Kept true: what has ended is marked as not durable before anybody hears of its end, and a sync takes the mark before
//! it asks the system. So a sync that begins after an end covers it, or another one does that is under way.

use super::Trouble;
use super::table::name;
use crate::host::{HostDir, HostFile, HostStat};
use crate::{BLOCK_SIZE, IoError, Op, PageBuf};
use rustix::io::Errno;
use std::ops::Range;
use steadyfs_rt::{LockClass, Mutex};

/// Taken before that of the table.
static STATE: LockClass = LockClass::new("device.chunks.chunk", u16::MAX - 11);

/// What changes with every operation.
pub(super) struct State {
    /// A bit for each block that is held.
    held: Vec<u64>,
    count: u64,
    /// The file was removed; a thread that still has it looks again.
    pub(super) gone: bool,
    /// Written or punched since the last sync.
    written: bool,
    punched: bool,
    /// Bytes that the file has at least.
    length: u64,
}

/// An open chunk.
pub(super) struct Chunk {
    number: u64,
    /// Tells the file from others.
    id: [u64; 2],
    /// How many blocks it can hold.
    blocks: u64,
    file: HostFile,
    pub(super) state: Mutex<State>,
}

impl Chunk {
    /// A chunk of `blocks` blocks whose file is open; the host is asked for its contents. `written`: some of them may
    /// not be durable.
    pub(super) fn new(number: u64, blocks: u64, file: HostFile, written: bool) -> Result<Self, Errno> {
        let HostStat { file: id, length, .. } = file.stat()?;
        let held = vec![0; (blocks / 64) as usize];
        let mut state = State { held, count: 0, gone: false, written, punched: written, length };
        let mut from = 0;
        while let Some(run) = file.held_from(from, blocks).map_err(|error| errno_of(&error))? {
            from = run.end;
            state.hold(run);
        }
        Ok(Chunk { number, id, blocks, file, state: Mutex::new(&STATE, state) })
    }

    /// Reads blocks, zeros where nothing is held.
    pub(super) fn read(&self, at: u64, pages: &mut [PageBuf]) -> Result<(), Errno> {
        self.file.read_pages(at, pages).map_err(|error| errno_of(&error))
    }

    /// Fills memory of whole blocks from the file.
    pub(super) fn read_bytes(&self, at: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        self.file.read_bytes(at, bytes).map_err(|error| errno_of(&error))
    }

    /// Counts blocks that are going to be written; false if the chunk has gone meanwhile.
    pub(super) fn claim(&self, at: u64, count: u64) -> bool {
        let mut state = self.state.lock();
        if !state.gone {
            state.hold(at..at + count);
            #[cfg(feature = "canary")]
            {
                state.written |= self.file.marks_early();
            }
        }
        !state.gone || steadyfs_rt::mutated("a-gone-chunk-takes-no-write")
    }

    /// Writes blocks that were claimed.
    pub(super) fn write(&self, at: u64, pages: &[PageBuf]) -> Result<(), Errno> {
        let result = self.file.write_pages(at, pages).map_err(|error| errno_of(&error));
        #[cfg(feature = "canary")]
        if self.file.marks_early() {
            return result;
        }
        let mut state = self.state.lock();
        // Not before: a sync beside the write would take the mark and cover nothing of it. An error may come amid it.
        state.written = !steadyfs_rt::mutated("a-write-is-marked-when-it-has-ended");
        if result.is_ok() {
            state.length = state.length.max((at + pages.len() as u64) * BLOCK_SIZE as u64);
        }
        result
    }

    /// Punches blocks out of the file.
    pub(super) fn punch(&self, state: &mut State, range: Range<u64>) -> Result<(), Errno> {
        state.punched = true;
        let op = Op::Discard { block: range.start, count: range.end - range.start };
        self.file.perform(op).map(drop).map_err(|error| errno_of(&error))
    }

    /// Makes durable what was written and punched, in the directory `dir`. A file that is not there any more, or has
    /// become shorter, is an error: whatever it holds is lost. After any error nobody may ask again: what the system
    /// could not write it forgets, and says so once.
    pub(super) fn sync(&self, dir: &HostDir) -> Result<(), Trouble> {
        let (written, punched, length) = {
            let mut state = self.state.lock();
            if state.gone {
                return Ok(());
            }
            (std::mem::take(&mut state.written), std::mem::take(&mut state.punched), state.length)
        };
        if !written && !punched {
            return Ok(());
        }
        self.file.sync(punched)?;
        let trouble = match dir.stat(&name(self.number)) {
            Ok(stat) if stat.file == self.id && stat.length >= length => return Ok(()),
            Ok(stat) if stat.file == self.id => Trouble::Cut(self.number),
            Ok(_) | Err(Errno::NOENT) => Trouble::Removed(self.number),
            Err(errno) => errno.into(),
        };
        // A chunk that holds nothing any more is removed here.
        match self.state.lock().gone || steadyfs_rt::mutated("a-lost-chunk-fails-a-flush") {
            true => Ok(()),
            false => Err(trouble),
        }
    }

    /// Whether a flush has something to do.
    #[cfg(test)]
    pub(super) fn is_dirty(&self) -> bool {
        let state = self.state.lock();
        state.written || state.punched
    }

    /// The first run of blocks from `at` on that the host keeps.
    pub(super) fn held_from(&self, at: u64) -> Result<Option<Range<u64>>, Errno> {
        self.file.held_from(at, self.blocks).map_err(|error| errno_of(&error))
    }
}

impl State {
    /// Counts blocks.
    pub(super) fn hold(&mut self, range: Range<u64>) {
        for block in range {
            let (word, bit) = ((block / 64) as usize, 1 << (block % 64));
            self.count += u64::from(self.held[word] & bit == 0);
            self.held[word] |= bit;
        }
        assert!(self.count <= 64 * self.held.len() as u64, "a chunk holds more blocks than it has");
    }

    /// Takes blocks out of the count. From the first to the last of them that was held; none if none was.
    pub(super) fn release(&mut self, range: Range<u64>) -> Option<Range<u64>> {
        let mut released: Option<Range<u64>> = None;
        for block in range {
            let (word, bit) = ((block / 64) as usize, 1 << (block % 64));
            if self.held[word] & bit != 0 {
                self.held[word] &= !bit;
                self.count -= 1;
                released = Some(released.map_or(block, |range| range.start)..block + 1);
            }
        }
        released
    }

    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

fn errno_of(error: &IoError) -> Errno {
    Errno::from_raw_os_error(error.errno())
}
