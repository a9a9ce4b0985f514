//! [`Chunk`]: one file of a chunk directory, while it is open.

use super::CHUNK_BLOCKS;
use crate::file::locked::Locked;
use crate::file::raw::RawFile;
use crate::{IoError, Op, PageBuf};
use rustix::fs::{fdatasync, fsync};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::ops::Range;
use steadyfs_rt::{LockClass, Mutex};

/// Taken before that of the table.
static STATE: LockClass = LockClass::new("device.chunks.chunk", u16::MAX - 11);

/// What changes with every operation.
pub(super) struct State {
    /// A bit for each block that is held.
    held: Vec<u64>,
    count: u64,
    /// The file was removed; whoever still has it looks again.
    pub(super) gone: bool,
    /// Written or punched since the last sync.
    written: bool,
    punched: bool,
}

/// An open chunk.
pub(super) struct Chunk {
    raw: RawFile,
    pub(super) state: Mutex<State>,
}

impl Chunk {
    /// A chunk whose file is open; what it holds is asked of the host.
    pub(super) fn new(file: File) -> Result<Self, Errno> {
        let raw = RawFile::new(Locked::unlocked(file), 0, false, true);
        let mut held = vec![0u64; (CHUNK_BLOCKS / 64) as usize];
        let (mut count, mut from) = (0, 0);
        while let Some(run) = held_from(&raw, from)? {
            for block in run.clone() {
                held[(block / 64) as usize] |= 1 << (block % 64);
            }
            count += run.end - run.start;
            from = run.end;
        }
        let state = State { held, count, gone: false, written: false, punched: false };
        Ok(Chunk { raw, state: Mutex::new(&STATE, state) })
    }

    /// Reads blocks, zeros where nothing is held.
    pub(super) fn read(&self, at: u64, pages: &mut [PageBuf]) -> Result<(), Errno> {
        self.raw.read_rest(at, pages, 0).map_err(|error| errno_of(&error))
    }

    /// Fills memory of whole blocks from the file.
    pub(super) fn read_bytes(&self, at: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        self.raw.read_bytes(at, bytes).map_err(|error| errno_of(&error))
    }

    /// Counts blocks that are going to be written; false if the chunk has gone meanwhile.
    pub(super) fn claim(&self, at: u64, count: u64) -> bool {
        let mut state = self.state.lock();
        if !state.gone {
            state.written = true;
            state.hold(at..at + count);
        }
        !state.gone
    }

    /// Writes blocks that were claimed.
    pub(super) fn write(&self, at: u64, pages: &[PageBuf]) -> Result<(), Errno> {
        self.raw.write_rest(at, pages, 0, false).map_err(|error| errno_of(&error))
    }

    /// Punches blocks out of the file.
    pub(super) fn punch(&self, state: &mut State, range: Range<u64>) -> Result<(), Errno> {
        state.punched = true;
        let op = Op::Discard { block: range.start, count: range.end - range.start };
        self.raw.perform(op).map(drop).map_err(|error| errno_of(&error))
    }

    /// Makes durable what was written and punched. After an error the next flush tries, and fails, again if the host
    /// does.
    pub(super) fn sync(&self) -> Result<(), Errno> {
        let (written, punched) = {
            let mut state = self.state.lock();
            if state.gone {
                return Ok(());
            }
            (std::mem::take(&mut state.written), std::mem::take(&mut state.punched))
        };
        if !written && !punched {
            return Ok(());
        }
        // Holes are the file's metadata alone, of which fdatasync promises little.
        let sync = || if punched { fsync(self.raw.file()) } else { fdatasync(self.raw.file()) };
        retry_on_intr(sync).inspect_err(|_| {
            let mut state = self.state.lock();
            state.written |= written;
            state.punched |= punched;
        })
    }

    /// The first run of blocks from `at` on that the host keeps.
    pub(super) fn held_from(&self, at: u64) -> Result<Option<Range<u64>>, Errno> {
        held_from(&self.raw, at)
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
        assert!(self.count <= CHUNK_BLOCKS, "a chunk holds more blocks than it has");
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

fn held_from(raw: &RawFile, at: u64) -> Result<Option<Range<u64>>, Errno> {
    raw.held_from(at, CHUNK_BLOCKS).map_err(|error| errno_of(&error))
}
