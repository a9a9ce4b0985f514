//! The buffer pool: a bounded number of pages in memory, the least recently used of which make room; which are dirty,
//! and since when.
//!
//! Kept true:
//! - A page that is pinned, dirty or being written stays.
//! - A page is read by one task, for which others wait.
//! - The image of each page in its file is known ([`Pool::image`]), so a read of any other is an error.
//! - The log's checkpoint is never behind a change that only memory has: a change is appended to the log and its pages
//!   become dirty in one step.

use super::files::EngineFiles;
use super::log::Redo;
use super::page::{Image, PageNo, TreeContent};
use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_rt::{Condvar, LockClass, Mutex, RwLock};

static PAGE_LATCH: LockClass = LockClass::new("lab.engine.page", 4).multi();
static POOL: LockClass = LockClass::new("lab.engine.pool", 6);
static IMAGES: LockClass = LockClass::new("lab.engine.images", 7);
/// Part of the pool that the cleaners keep clean.
const CLEAN: usize = 8;
/// Part of the log's circle above which the oldest changes are written to their places, and above which changes wait
/// for that.
const WRITE_OLD: f64 = 0.5;
const WAIT: f64 = 0.75;
/// How often cleaners look whether there is work.
const LOOK: Duration = Duration::from_millis(100);

/// A page in memory.
pub(super) struct Frame {
    pub(super) page: PageNo,
    pub(super) content: RwLock<Arc<TreeContent>>,
}

struct Slot {
    frame: Arc<Frame>,
    pins: u32,
    /// When it was last let go: its place in the order of use.
    tick: u64,
    loading: bool,
    /// Where in the log its first change begins that is not in its file.
    oldest: Option<u64>,
    /// Where its last change ends.
    newest: u64,
    /// The same as `oldest` for what is being written.
    writing: Option<u64>,
}

#[derive(Default)]
struct State {
    slots: BTreeMap<PageNo, Slot>,
    /// Pages that nobody has pinned, by last use: clean ones, and dirty ones that nobody writes.
    clean: BTreeMap<u64, PageNo>,
    dirty: BTreeMap<u64, PageNo>,
    /// Dirty pages by their oldest change, and pages that are being written.
    by_age: BTreeSet<(u64, PageNo)>,
    writing: BTreeSet<(u64, PageNo)>,
    ticks: u64,
    /// Tasks that wait for a page to become clean.
    starving: u32,
    misses: u64,
    stopping: bool,
    failed: Option<String>,
}

/// See the head of the module.
pub(super) struct Pool {
    pub(super) files: Arc<EngineFiles>,
    pub(super) log: Arc<Redo>,
    capacity: usize,
    state: Mutex<State>,
    /// A page has become clean, or the log shorter.
    freed: Condvar,
    loaded: Condvar,
    work: Condvar,
    images: Mutex<Vec<Option<Image>>>,
}

impl Pool {
    pub(super) fn new(files: &Arc<EngineFiles>, log: &Arc<Redo>, capacity: usize) -> Self {
        Pool {
            files: Arc::clone(files),
            log: Arc::clone(log),
            capacity,
            state: Mutex::new(&POOL, State::default()),
            freed: Condvar::new(),
            loaded: Condvar::new(),
            work: Condvar::new(),
            images: Mutex::new(&IMAGES, Vec::new()),
        }
    }

    /// What the file holds of a page.
    pub(super) fn image(&self, page: PageNo) -> Option<Image> {
        self.images.lock().get(page as usize).cloned().flatten()
    }

    /// The file holds this now.
    pub(super) fn set_image(&self, image: Image) {
        let mut images = self.images.lock();
        let at = image.page as usize;
        if at >= images.len() {
            images.resize(at + 1, None);
        }
        images[at] = Some(image);
    }

    /// A page, read from its file if need be; it stays until [`Pool::unpin`].
    pub(super) fn pin(&self, page: PageNo) -> Result<Arc<Frame>> {
        let mut state = self.state.lock();
        loop {
            state.check()?;
            match state.slots.get(&page).map(|slot| slot.loading) {
                Some(true) => self.loaded.wait(&mut state),
                Some(false) => return Ok(state.hold(page)),
                None if self.has_room(&mut state) => break,
                None => self.starve(&mut state),
            }
        }
        let image = self.image(page).ok_or_else(|| Error::Check(format!("page {page} has never been written")))?;
        let content = RwLock::new(&PAGE_LATCH, Arc::clone(&image.content));
        let frame = Arc::new(Frame { page, content });
        state.misses += 1;
        state.slots.insert(page, Slot::new(&frame, true));
        drop(state);
        let read = self.files.read_page(&image, false);
        let mut state = self.state.lock();
        match &read {
            Ok(()) => state.slots.entry(page).and_modify(|slot| slot.loading = false),
            Err(e) => {
                state.failed.get_or_insert_with(|| e.to_string());
                state.slots.entry(page)
            }
        };
        drop(state);
        self.loaded.notify_all();
        read.map(|()| frame)
    }

    /// A page that no file has yet.
    pub(super) fn create(&self, page: PageNo, content: TreeContent) -> Result<Arc<Frame>> {
        let frame = Arc::new(Frame { page, content: RwLock::new(&PAGE_LATCH, Arc::new(content)) });
        let mut state = self.state.lock();
        while !self.has_room(&mut state) {
            state.check()?;
            self.starve(&mut state);
        }
        state.slots.insert(page, Slot::new(&frame, false));
        Ok(frame)
    }

    /// Lets a page go.
    pub(super) fn unpin(&self, frame: &Frame) {
        let mut state = self.state.lock();
        state.release(frame.page);
        if state.starving > 0 {
            drop(state);
            self.freed.notify_all();
        }
    }

    /// Appends a record of so many bytes to the log, for a change of these pages, whose latches the caller holds; where
    /// it ends.
    pub(super) fn change(&self, frames: &[&Frame], bytes: u64) -> u64 {
        let mut state = self.state.lock();
        let (start, end) = self.log.append(bytes);
        for frame in frames {
            let Some(slot) = state.slots.get_mut(&frame.page) else { unreachable!("changed pages are pinned") };
            slot.newest = end;
            if slot.oldest.is_none() {
                slot.oldest = Some(start);
                state.by_age.insert((start, frame.page));
            }
        }
        end
    }

    /// Waits until the log has room for changes. No latch and no pin may be held.
    pub(super) fn wait_for_log(&self) -> Result<()> {
        if self.log.age() < WAIT {
            return Ok(());
        }
        let mut state = self.state.lock();
        while self.log.age() >= WAIT {
            state.check()?;
            self.work.notify_all();
            self.freed.wait_timeout(&mut state, LOOK);
        }
        Ok(())
    }

    /// Pages that were read because they were not in memory.
    pub(super) fn misses(&self) -> u64 {
        self.state.lock().misses
    }

    /// The next pages for a cleaner to write, at most so many; waits until there is need. `None` when everything is
    /// clean and the engine stops.
    pub(super) fn next_batch(&self, most: usize) -> Option<Vec<Arc<Frame>>> {
        let mut state = self.state.lock();
        loop {
            if state.failed.is_some() {
                return None;
            }
            let spare = self.capacity - state.slots.len() + state.clean.len();
            let by_age = state.stopping || self.log.age() > WRITE_OLD;
            let pages: Vec<PageNo> = if by_age {
                let idle = state.by_age.iter().filter(|(_, page)| !state.is_writing(*page));
                idle.take(most).map(|(_, page)| *page).collect()
            } else if spare < self.capacity / CLEAN || state.starving > 0 {
                state.dirty.values().take(most).copied().collect()
            } else {
                Vec::new()
            };
            if !pages.is_empty() {
                return Some(pages.into_iter().map(|page| state.begin_write(page)).collect());
            }
            if state.stopping && state.by_age.is_empty() && state.writing.is_empty() {
                return None;
            }
            if by_age && state.by_age.is_empty() && state.writing.is_empty() {
                return Some(Vec::new());
            }
            self.work.wait_timeout(&mut state, LOOK);
        }
    }

    /// What is to be written of a page now: its contents, and where in the log its last change ends.
    pub(super) fn freeze(&self, frame: &Frame) -> (Arc<TreeContent>, u64) {
        let content = frame.content.read();
        let newest = self.state.lock().slots.get(&frame.page).map_or(0, |slot| slot.newest);
        (Arc::clone(&content), newest)
    }

    /// These pages are in their places, synced.
    pub(super) fn written(&self, frames: &[Arc<Frame>]) {
        let mut state = self.state.lock();
        frames.iter().for_each(|frame| state.end_write(frame.page));
        drop(state);
        self.freed.notify_all();
    }

    /// Where recovery would have to begin.
    pub(super) fn oldest(&self) -> u64 {
        let state = self.state.lock();
        let first = |set: &BTreeSet<(u64, PageNo)>| set.first().map(|(lsn, _)| *lsn);
        first(&state.by_age).into_iter().chain(first(&state.writing)).min().unwrap_or_else(|| self.log.end())
    }

    /// The log has become shorter.
    pub(super) fn log_freed(&self) {
        self.freed.notify_all();
    }

    /// Whether the log must become shorter soon.
    pub(super) fn log_is_long(&self) -> bool {
        self.log.age() > WRITE_OLD || self.state.lock().stopping
    }

    /// Cleaners write everything and end.
    pub(super) fn stop(&self) {
        self.state.lock().stopping = true;
        self.work.notify_all();
    }

    /// Something went wrong: nobody waits any more.
    pub(super) fn fail(&self, why: &Error) {
        self.state.lock().failed.get_or_insert_with(|| why.to_string());
        self.freed.notify_all();
        self.loaded.notify_all();
        self.work.notify_all();
    }

    /// Whether there is room for one more page, after the page that was not used longest has made it if need be.
    fn has_room(&self, state: &mut State) -> bool {
        if state.slots.len() < self.capacity {
            return true;
        }
        let Some((_, page)) = state.clean.pop_first() else { return false };
        state.slots.remove(&page);
        true
    }

    fn starve(&self, state: &mut steadyfs_rt::MutexGuard<'_, State>) {
        state.starving += 1;
        self.work.notify_all();
        self.freed.wait_timeout(state, LOOK);
        state.starving -= 1;
    }
}

impl Slot {
    fn new(frame: &Arc<Frame>, loading: bool) -> Self {
        Slot { frame: Arc::clone(frame), pins: 1, tick: 0, loading, oldest: None, newest: 0, writing: None }
    }
}

impl State {
    fn check(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |why| Err(Error::Check(why.clone())))
    }

    fn slot(&mut self, page: PageNo) -> &mut Slot {
        let Some(slot) = self.slots.get_mut(&page) else { unreachable!("page {page} stays while it is used") };
        slot
    }

    fn is_writing(&self, page: PageNo) -> bool {
        self.slots.get(&page).is_some_and(|slot| slot.writing.is_some())
    }

    fn hold(&mut self, page: PageNo) -> Arc<Frame> {
        let slot = self.slot(page);
        slot.pins += 1;
        let (tick, frame) = (slot.tick, Arc::clone(&slot.frame));
        self.clean.remove(&tick);
        self.dirty.remove(&tick);
        frame
    }

    fn release(&mut self, page: PageNo) {
        self.ticks += 1;
        let tick = self.ticks;
        let slot = self.slot(page);
        slot.pins -= 1;
        slot.tick = tick;
        self.place(page);
    }

    /// Puts a page into the order of use, if nobody has it.
    fn place(&mut self, page: PageNo) {
        let slot = self.slot(page);
        let (tick, dirty) = (slot.tick, slot.oldest.is_some());
        if slot.pins == 0 && slot.writing.is_none() {
            if dirty {
                self.dirty.insert(tick, page)
            } else {
                self.clean.insert(tick, page)
            };
        }
    }

    fn begin_write(&mut self, page: PageNo) -> Arc<Frame> {
        let slot = self.slot(page);
        let (tick, oldest, frame) = (slot.tick, slot.oldest.take(), Arc::clone(&slot.frame));
        slot.writing = oldest;
        if let Some(lsn) = oldest {
            self.by_age.remove(&(lsn, page));
            self.writing.insert((lsn, page));
        }
        self.dirty.remove(&tick);
        frame
    }

    fn end_write(&mut self, page: PageNo) {
        if let Some(lsn) = self.slot(page).writing.take() {
            self.writing.remove(&(lsn, page));
        }
        self.place(page);
    }
}
