//! [`Table`]: the chunks of a directory: which there are, which are open, and what of the directory is not durable yet.
//!
//! Kept true:
//! - a file is closed when it is durable, or its error is kept;
//! - after a sync that failed all others fail, too: the system tells one of them, and forgets what it could not write;
//! - blocks that an earlier process wrote and did not sync, and this one reads, are synced as if this one had written
//!   them.

use super::Trouble;
use super::chunk::Chunk;
use crate::PageBuf;
use crate::host::{Access, HostDir};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use steadyfs_rt::{LockClass, Mutex};

/// Files that are open at a time, unless more are at work; few in tests, so that files are closed there.
const OPEN: usize = if cfg!(test) { 3 } else { 256 };

/// Of the files that a process may have open chunks take this part.
const SHARE: u64 = 4;

/// Taken before all others, by each sync: nobody may see a file as clean while somebody else still syncs it.
static SYNC: LockClass = LockClass::new("device.chunks.sync", u16::MAX - 12);

static TABLE: LockClass = LockClass::new("device.chunks.table", u16::MAX - 10);

struct Open {
    chunk: Arc<Chunk>,
    used: u64,
}

#[derive(Default)]
struct State {
    /// Chunks that have files; of a device that is only read, those that had at some time.
    there: BTreeSet<u64>,
    open: BTreeMap<u64, Open>,
    /// Counts uses.
    clock: u64,
    /// Files were made or removed since the directory was synced.
    changed: bool,
    /// Why no sync succeeds any more.
    failed: Option<Trouble>,
    /// Chunks that were there and nobody has opened yet: an earlier process may have left what is not durable.
    unsynced: BTreeSet<u64>,
}

/// See the head of the module.
pub(super) struct Table {
    dir: HostDir,
    read_only: bool,
    /// Blocks of a chunk.
    pub(super) blocks: u64,
    /// Files that are open at a time.
    most: usize,
    state: Mutex<State>,
    syncing: Mutex<()>,
}

/// The name of a chunk's file.
pub(super) fn name(number: u64) -> String {
    format!("{number:012x}")
}

/// The number of the chunk with this name.
fn number(name: &str) -> Option<u64> {
    let number = u64::from_str_radix(name, 16).ok()?;
    (self::name(number) == name).then_some(number)
}

impl Table {
    /// The chunks of an open directory, of `blocks` blocks each. Files that hold nothing, which a crash may leave, go.
    /// `files`: how many the process may have open.
    pub(super) fn new(dir: HostDir, blocks: u64, read_only: bool, files: u64) -> Result<Self, Trouble> {
        let (state, syncing) = (Mutex::new(&TABLE, State::default()), Mutex::new(&SYNC, ()));
        let most = usize::try_from(files / SHARE).unwrap_or(OPEN).min(OPEN);
        let table = Table { dir, read_only, blocks, most, state, syncing };
        let numbers = table.numbers()?;
        table.state.lock().there = numbers.iter().copied().collect();
        if !read_only {
            let mut state = table.state.lock();
            // An earlier process may have been killed before it synced the names.
            if !steadyfs_rt::mutated("what-a-kill-left-is-synced") {
                (state.unsynced, state.changed) = (state.there.clone(), true);
            }
            drop(state);
            for number in numbers {
                if table.dir.stat(&name(number))?.is_hole {
                    table.discard(number, 0..0)?;
                }
            }
        }
        Ok(table)
    }

    /// Whether the host keeps the directory in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        self.dir.is_in_memory()
    }

    /// The chunks that have files now, in order.
    pub(super) fn numbers(&self) -> Result<Vec<u64>, Errno> {
        let mut numbers: Vec<u64> = self.dir.names()?.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Of these chunks, those that have files.
    pub(super) fn known(&self, range: RangeInclusive<u64>) -> Vec<u64> {
        self.state.lock().there.range(range).copied().collect()
    }

    /// A chunk that is open, or can be opened; none if it has no file.
    pub(super) fn find(&self, number: u64) -> Result<Option<Arc<Chunk>>, Trouble> {
        {
            let mut state = self.state.lock();
            if let Some(chunk) = state.take(number) {
                return Ok(Some(chunk));
            }
            // Somebody else may write to a device that is only looked at.
            if !self.read_only && !state.there.contains(&number) {
                return Ok(None);
            }
        }
        self.open(number, false)
    }

    /// Opens a file, and makes it if that is asked for and it never was there. Somebody may have been faster.
    fn open(&self, number: u64, make: bool) -> Result<Option<Arc<Chunk>>, Trouble> {
        let mut state = self.state.lock();
        if let Some(chunk) = state.take(number) {
            return Ok(Some(chunk));
        }
        let is_known = state.there.contains(&number);
        let access = match (self.read_only, make && !is_known) {
            (true, _) => Access::Read,
            (false, true) => Access::Make,
            (false, false) => Access::Write,
        };
        let file = match self.dir.open(&name(number), access) {
            Ok(file) => file,
            Err(Errno::NOENT) if is_known && !self.read_only => return Err(Trouble::Removed(number)),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let chunk = Arc::new(Chunk::new(number, self.blocks, file, state.unsynced.contains(&number))?);
        state.unsynced.remove(&number);
        state.changed |= state.there.insert(number) && make;
        state.clock += 1;
        let used = state.clock;
        state.open.insert(number, Open { chunk: Arc::clone(&chunk), used });
        let closing = state.closing(self.most);
        drop(state);
        if let Some((number, chunk, used)) = closing {
            self.close(number, &chunk, used);
        }
        Ok(Some(chunk))
    }

    /// Syncs a file that was not in use, and closes it if it has not been used since.
    fn close(&self, number: u64, chunk: &Arc<Chunk>, used: u64) {
        let _one = self.syncing.lock();
        let synced = chunk.sync(&self.dir);
        let mut state = self.state.lock();
        if let Err(trouble) = synced {
            state.failed.get_or_insert(trouble);
        }
        if state.open.get(&number).is_some_and(|open| open.used == used) {
            state.open.remove(&number);
        }
    }

    /// Writes to a chunk, which is made if it is not there.
    pub(super) fn write(&self, number: u64, at: u64, pages: &[PageBuf]) -> Result<Arc<Chunk>, Trouble> {
        loop {
            let chunk = self.open(number, true)?.ok_or(Errno::NOENT)?;
            if chunk.claim(at, pages.len() as u64) {
                chunk.write(at, pages)?;
                return Ok(chunk);
            }
        }
    }

    /// Discards blocks of a chunk, and the chunk if nothing is left. What fails may be tried again.
    pub(super) fn discard(&self, number: u64, range: Range<u64>) -> Result<(), Trouble> {
        let Some(chunk) = self.find(number)? else { return Ok(()) };
        let mut state = chunk.state.lock();
        if state.gone {
            return Ok(());
        }
        let released = state.release(range);
        let done = match &released {
            _ if state.is_empty() => self.remove(number),
            Some(range) => chunk.punch(&mut state, range.clone()),
            None => Ok(()),
        };
        match (&done, released) {
            (Ok(()), _) => state.gone = state.is_empty(),
            (Err(_), Some(range)) => state.hold(range),
            (Err(_), None) => {}
        }
        Ok(done?)
    }

    /// Removes the file of a chunk that holds nothing.
    fn remove(&self, number: u64) -> Result<(), Errno> {
        let mut state = self.state.lock();
        self.dir.unlink(&name(number))?;
        state.open.remove(&number);
        state.there.remove(&number);
        state.changed = true;
        Ok(())
    }

    /// Whether a flush syncs the directory.
    #[cfg(test)]
    pub(super) fn is_changed(&self) -> bool {
        self.state.lock().changed
    }

    /// Makes everything durable that has ended.
    pub(super) fn sync_all(&self) -> Result<(), Trouble> {
        let _one = self.syncing.lock();
        let open: Vec<Arc<Chunk>> = self.state.lock().open.values().map(|open| Arc::clone(&open.chunk)).collect();
        self.sync_alone(&open)
    }

    /// Makes durable what has been done to these chunks, and which chunks there are.
    pub(super) fn sync(&self, chunks: &[Arc<Chunk>]) -> Result<(), Trouble> {
        let _one = self.syncing.lock();
        self.sync_alone(chunks)
    }

    /// The same, while nobody else syncs.
    fn sync_alone(&self, chunks: &[Arc<Chunk>]) -> Result<(), Trouble> {
        if let Some(trouble) = self.state.lock().failed {
            return Err(trouble);
        }
        let synced = chunks.iter().try_for_each(|chunk| chunk.sync(&self.dir)).and_then(|()| {
            let changed = std::mem::take(&mut self.state.lock().changed);
            if changed { Ok(self.dir.sync()?) } else { Ok(()) }
        });
        synced.inspect_err(|trouble| self.state.lock().failed = Some(*trouble))
    }
}

impl State {
    /// An open chunk, used now.
    fn take(&mut self, number: u64) -> Option<Arc<Chunk>> {
        self.clock += 1;
        let open = self.open.get_mut(&number)?;
        open.used = self.clock;
        Some(Arc::clone(&open.chunk))
    }

    /// A chunk to close: of those that nobody uses, the one that was used least recently.
    fn closing(&self, most: usize) -> Option<(u64, Arc<Chunk>, u64)> {
        if self.open.len() <= most {
            return None;
        }
        let idle = self.open.iter().filter(|(_, open)| Arc::strong_count(&open.chunk) == 1);
        idle.min_by_key(|(_, open)| open.used).map(|(number, open)| (*number, Arc::clone(&open.chunk), open.used))
    }
}
