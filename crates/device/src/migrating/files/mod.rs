//! [`MigratingDevice`]: a device that collects by itself and tells the host (D2FS), in a directory of files.
//!
//! The directory has three files. `steadyfs-coupled` names the areas, and is what processes lock. `blocks` holds each
//! page at the address that it has now; whatever nobody needs is a hole. `journal` has the steps of the [`Ledger`]. The
//! device has no time of its own: it is for trying D2FS volumes, not for measuring them.
//!
//! It has as many *lines* as flash of its capacity, and a few to write in. When more zones than that hold pages, it
//! empties those that hold least. Where no zone has room to gain it writes on: a file has room for all addresses, so
//! the device never waits for the host.
//!
//! Kept true:
//! - steps reach the journal after the blocks that they tell of are durable, in their order, and before the host hears
//!   of a record among them. So the journal of any moment is what the device remembers after a power cut then;
//! - room is given back, and a zone filled again, when the journal says that nobody needs its contents, never before;
//! - a step that breaks a promise, and blocks that cannot be synced, end all I/O until the device is opened again. A
//!   write for which the host has no room changes nothing, and so does a frame of the journal that cannot be written:
//!   both may be tried again.
//!
//! One lock is held while a file is read or written. While a file is synced only that of flushes is, but where the
//! journal begins again.

mod collect;
#[cfg(test)]
mod cuts;
mod journal;
mod left;
mod open;

#[cfg(test)]
pub(crate) use cuts::Volatile;

use crate::device::IoResult;
use crate::file::locked::Locked;
use crate::host::{HostDir, HostFile, HostModel};
use crate::migrating::{Broken, Ledger, MigrationGeometry, Migrations, Sort, Step, Upcall};
use crate::{
    BLOCK_SIZE, Device, DeviceInfo, IoError, Op, OpKind, OpenError, OpenOptions, PageBuf, Request, StreamHint, errno,
};
use journal::Journal;
use left::Left;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_rt::{Condvar, LockClass, Mutex, MutexGuard};

/// Taken before the other, by each flush: frames of the journal follow one another.
static FLUSH: LockClass = LockClass::new("device.migrating.flush", u16::MAX - 14);

static STATE: LockClass = LockClass::new("device.migrating", u16::MAX - 13);

/// After so long an idle device delivers what waits.
const DEADLINE: Duration = Duration::from_millis(50);

/// What a directory of a model is called.
const MODEL: &str = "model";

/// Most outstanding records: 1 MiB of them.
const BOUND: usize = 1 << 16;

/// See the head of the module.
pub struct MigratingDevice {
    info: DeviceInfo,
    geometry: MigrationGeometry,
    blocks: HostFile,
    flushing: Mutex<()>,
    state: Mutex<State>,
    changed: Condvar,
    #[cfg(test)]
    cuts: cuts::Cuts,
    #[cfg(test)]
    faults: cuts::Faults,
    /// The file that says what the device is; locked as long as the device is open, if it is one of the system.
    _marker: Option<Locked>,
}

struct State {
    ledger: Ledger,
    journal: Journal,
    /// Number of the last record that is delivered in the journal.
    durable: u64,
    /// Blocks that the host wrote to the regular area since the device last looked for something to collect.
    written: u64,
    /// Next block of the GC zone that is open for data, and of that for nodes.
    next: [Option<u64>; 2],
    /// How many waiting records may be delivered.
    due: usize,
    closed: bool,
    /// Why nothing goes on.
    failed: Option<String>,
    /// Addresses that the journal may need though no page is there.
    left: Left,
}

impl State {
    /// Takes a step, and notes it.
    fn take(&mut self, step: Step) -> Result<(), Broken> {
        match self.ledger.take(step) {
            Ok(()) => self.journal.push(&step),
            Err(broken) => {
                self.failed.get_or_insert_with(|| format!("the host broke a promise: {broken}"));
                return Err(broken);
            }
        }
        Ok(())
    }
}

impl MigratingDevice {
    /// Makes a device that holds nothing in the directory `path`, which is made if it is not there.
    ///
    /// # Errors
    /// The directory holds something; no device can have such areas; what the system says.
    pub fn create(path: impl AsRef<Path>, geometry: &MigrationGeometry) -> Result<(), OpenError> {
        open::create(path.as_ref(), geometry)
    }

    /// Whether the path is a directory with such a device.
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        open::is_at(path.as_ref())
    }

    /// The file that is locked as long as the device in the directory `path` is open.
    pub fn locked_file(path: impl AsRef<Path>) -> PathBuf {
        open::locked_file(path.as_ref())
    }

    /// Removes the device, and leaves an empty directory.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(path: impl AsRef<Path>) -> Result<(), OpenError> {
        open::remove(path.as_ref())
    }

    /// Opens and locks the directory. Offset and size have no meaning here.
    ///
    /// # Errors
    /// It is no device, its journal is damaged, or somebody else has it open.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self, OpenError> {
        let path = path.as_ref();
        Ok(Self::with(open::open(path, &options)?, path, options.read_only))
    }

    /// Makes a device that holds nothing in the directory of a model.
    ///
    /// # Errors
    /// The directory holds something; no device can have such areas.
    pub fn create_on(host: &HostModel, geometry: &MigrationGeometry) -> Result<(), OpenError> {
        open::create_in(&HostDir::Model(host.clone()), Path::new(MODEL), geometry)
    }

    /// Opens the directory of a model. Nobody else may have it open.
    ///
    /// # Errors
    /// It is no device, or its journal is damaged.
    pub fn open_on(host: &HostModel) -> Result<Self, OpenError> {
        let path = Path::new(MODEL);
        Ok(Self::with(open::open_model(host, path)?, path, false))
    }

    fn with(opened: open::OpenedCoupled, path: &Path, read_only: bool) -> Self {
        let open::OpenedCoupled { marker, blocks, journal, ledger } = opened;
        let geometry = ledger.geometry().clone();
        let info = DeviceInfo {
            blocks: geometry.gc.end,
            read_only,
            discard: !read_only,
            synchronous: true,
            prefers_fua: false,
            name: path.display().to_string(),
        };
        #[cfg(test)]
        let cuts = cuts::Cuts::new(journal.end());
        let state = State {
            durable: ledger.last_delivered(),
            ledger,
            journal,
            written: 0,
            next: [None; 2],
            due: 0,
            closed: false,
            failed: None,
            left: Left::default(),
        };
        MigratingDevice {
            info,
            geometry,
            blocks,
            flushing: Mutex::new(&FLUSH, ()),
            state: Mutex::new(&STATE, state),
            changed: Condvar::new(),
            #[cfg(test)]
            cuts,
            #[cfg(test)]
            faults: cuts::Faults::default(),
            _marker: marker,
        }
    }

    /// Records that are not completed.
    pub fn outstanding(&self) -> usize {
        self.state.lock().ledger.outstanding()
    }

    /// Addresses of the regular and the GC area that hold a page, ascending.
    pub fn held(&self) -> Vec<u64> {
        self.state.lock().ledger.live().iter().copied().collect()
    }

    fn dead(&self, (kind, (block, count)): (OpKind, (u64, u64)), why: &str) -> IoError {
        IoError::new(kind, block, count, errno::EIO, format!("{} takes no more: {why}", self.info.name))
    }

    /// The state of a device that works.
    fn working(&self, of: (OpKind, (u64, u64))) -> Result<MutexGuard<'_, State>, IoError> {
        let state = self.state.lock();
        match &state.failed {
            Some(why) => Err(self.dead(of, why)),
            None => Ok(state),
        }
    }

    fn perform(&self, op: Op) -> IoResult {
        let (of, (block, count)) = ((op.kind(), op.range()), op.range());
        let mapped = (block..block + count).filter(|block| self.geometry.is_mapped(*block)).count() as u64;
        match op {
            Op::Read { .. } if mapped > 0 => self.read_mapped(of, block, count),
            Op::Read { .. } => self.blocks.perform(op),
            Op::Write { .. } if mapped > 0 && mapped < count => Err(op.error(errno::EINVAL)),
            Op::Write { pages, hint, fua, .. } => {
                let written = Op::Write { block, pages, hint, fua: false };
                match mapped {
                    0 => drop(self.working(of).and_then(|_| self.change(written))?),
                    _ => self.write_mapped(of, written)?,
                }
                if fua { self.flush_all().map(|()| Vec::new()) } else { Ok(Vec::new()) }
            }
            Op::Flush => self.flush_all().map(|()| Vec::new()),
            Op::Discard { .. } => self.discard_all(of, block, count).map(|()| Vec::new()),
            Op::ZoneReset { .. } | Op::ZoneFinish { .. } => Err(op.error(errno::EOPNOTSUPP)),
        }
    }

    /// Writes or discards blocks of the file.
    fn change(&self, op: Op) -> IoResult {
        #[cfg(test)]
        self.note(&op)?;
        #[cfg(test)]
        self.faults.take_change(&op)?;
        let result = self.blocks.perform(op);
        self.moment();
        result
    }

    /// Makes durable what has ended in the file of the blocks.
    fn sync_blocks(&self) -> Result<(), String> {
        self.blocks.perform(Op::Flush).map_err(|error| error.to_string())?;
        #[cfg(test)]
        self.cuts.synced();
        Ok(())
    }

    /// A moment for tests that kill, or cut the power.
    fn moment(&self) {
        #[cfg(test)]
        self.cuts.moment();
    }

    /// Pages at the addresses that they have now; zeros for what is nowhere.
    fn read_mapped(&self, of: (OpKind, (u64, u64)), block: u64, count: u64) -> IoResult {
        let state = self.working(of)?;
        let mut pages: Vec<PageBuf> = Vec::new();
        // Neighbours that are neighbours still: where they are, and how many.
        let mut run: Option<(u64, u64)> = None;
        let fetch = |run: Option<(u64, u64)>, pages: &mut Vec<PageBuf>| -> Result<(), IoError> {
            if let Some((block, count)) = run {
                pages.extend(self.blocks.perform(Op::Read { block, count })?);
            }
            Ok(())
        };
        for block in block..block + count {
            let at = if self.geometry.is_mapped(block) { state.ledger.resolve(block) } else { Some(block) };
            match (&mut run, at) {
                (Some((first, count)), Some(at)) if *first + *count == at => *count += 1,
                (_, Some(at)) => fetch(run.replace((at, 1)), &mut pages)?,
                (_, None) => {
                    fetch(run.take(), &mut pages)?;
                    pages.push(PageBuf::from_slice(&[0; BLOCK_SIZE]));
                }
            }
        }
        fetch(run, &mut pages)?;
        Ok(pages)
    }

    /// A write to the regular or the GC area.
    fn write_mapped(&self, of: (OpKind, (u64, u64)), op: Op) -> Result<(), IoError> {
        let (block, count) = op.range();
        let sort = match &op {
            Op::Write { hint, .. } => Sort::of(*hint),
            _ => Sort::of(StreamHint::DataWarm),
        };
        let mut state = self.working(of)?;
        if state.ledger.refuses(block) {
            return Err(op.error(errno::EIO));
        }
        for block in block..block + count {
            let taken = state.take(Step::Write(block, sort));
            taken.map_err(|broken| self.dead(of, &broken.to_string()))?;
        }
        state.written += count;
        let result = self.change(op);
        if let Err(error) = &result {
            // Want of room at the host is no fault of the place.
            let step = if error.is_passing() { Step::Unwritten } else { Step::Refused };
            for block in block..block + count {
                // The ledger takes it of any block.
                let _ = state.take(step(block));
            }
        }
        result.map(drop)
    }

    fn discard_all(&self, of: (OpKind, (u64, u64)), block: u64, count: u64) -> Result<(), IoError> {
        let mut state = self.working(of)?;
        for block in (block..block + count).filter(|block| self.geometry.is_mapped(*block)) {
            if let Some(page) = state.ledger.resolve(block) {
                let taken = state.take(Step::Discard(block));
                taken.map_err(|broken| self.dead(of, &broken.to_string()))?;
                state.left.add(self.geometry.zone_of(page), page);
            } else if state.ledger.is_gap(block) {
                let taken = state.take(Step::Discard(block));
                taken.map_err(|broken| self.dead(of, &broken.to_string()))?;
            }
        }
        drop(state);
        match (block + count).min(self.geometry.meta.end).saturating_sub(block) {
            0 => Ok(()),
            count => self.change(Op::Discard { block, count }).map(drop),
        }
    }

    /// Makes durable what has ended: first blocks, then the steps that tell of them. Then gives back the room that
    /// nobody needs.
    ///
    /// # Errors
    /// Of the kind [`OpKind::Flush`] if blocks may be lost. Of the kind [`OpKind::Write`] if only the journal could not
    /// be written: nothing is lost, and another flush tries again.
    fn flush_all(&self) -> Result<(), IoError> {
        let of = (OpKind::Flush, (0, 0));
        let _one = self.flushing.lock();
        let delivered = {
            let mut state = self.working(of)?;
            self.check_names(&state)?;
            state.left.begin_flush();
            state.journal.close_frame();
            state.ledger.last_delivered()
        };
        self.moment();
        let blocks = if steadyfs_rt::mutated("steps-follow-their-blocks") { Ok(()) } else { self.sync_blocks() };
        if let Err(why) = blocks {
            let error = self.dead(of, &why);
            self.state.lock().failed.get_or_insert(why);
            return Err(error);
        }
        self.moment();
        let appended = self.append();
        self.moment();
        let synced = appended.and_then(|file| file.map_or(Ok(()), |file| Ok(file.sync(false)?)));
        synced.map_err(|error| self.unjournaled(&error))?;
        let mut state = self.state.lock();
        state.journal.appended();
        state.durable = state.durable.max(delivered);
        #[cfg(test)]
        self.cuts.journaled(state.journal.end());
        self.give_back(&mut state);
        if state.journal.is_long() {
            self.shorten(&mut state)?;
        }
        drop(state);
        #[cfg(test)]
        self.cuts.flushed();
        self.moment();
        Ok(())
    }

    /// Writes the next frame of the journal.
    fn append(&self) -> std::io::Result<Option<Arc<HostFile>>> {
        #[cfg(test)]
        self.faults.take_append()?;
        self.state.lock().journal.append()
    }

    fn unjournaled(&self, error: &std::io::Error) -> IoError {
        let errno = error.raw_os_error().unwrap_or(errno::EIO);
        let why = format!("the journal of {} cannot be written: {error}", self.info.name);
        IoError::new(OpKind::Write, 0, 0, errno, why)
    }

    /// A file that has lost its name is gone when the device is closed, whatever is written to it.
    fn check_names(&self, state: &State) -> Result<(), IoError> {
        let journal = state.journal.file().map(|file| ("journal", &**file));
        for (name, file) in [Some(("blocks", &self.blocks)), journal].into_iter().flatten() {
            if file.is_nameless() && !steadyfs_rt::mutated("a-removed-file-fails-a-flush") {
                let why = format!("somebody has removed its file `{name}`; copy what you need, and unmount it");
                return Err(self.dead((OpKind::Flush, (0, 0)), &why));
            }
        }
        Ok(())
    }

    /// Makes holes of what no page has moved or been written to meanwhile. Nothing depends on it.
    fn give_back(&self, state: &mut State) {
        let mut left = state.left.end_flush();
        left.retain(|block| !state.ledger.is_live(*block) || steadyfs_rt::mutated("live-pages-are-no-holes"));
        for run in left.chunk_by(|block, next| block + 1 == *next) {
            let _ = self.change(Op::Discard { block: run[0], count: run.len() as u64 });
        }
    }

    /// Has the journal begin again with the ledger as it is, if there is room for that.
    fn shorten(&self, state: &mut State) -> Result<(), IoError> {
        let synced = self.sync_blocks();
        let ledger = &state.ledger;
        let begun = synced.and_then(|()| state.journal.begin_anew(ledger).map_err(|error| error.to_string()));
        let is_anew = begun.map_err(|why| {
            let error = self.dead((OpKind::Flush, (0, 0)), &why);
            state.failed.get_or_insert(why);
            error
        })?;
        if is_anew {
            state.durable = state.ledger.last_delivered();
        }
        #[cfg(test)]
        self.cuts.journaled(state.journal.end());
        Ok(())
    }

    /// The next upcall, if one is there and durable; whether a flush has to come before it.
    fn upcall(&self, state: &mut State) -> (Option<Upcall>, bool) {
        if state.ledger.unheard().is_none() && state.ledger.may_move() {
            let due = state.due.min(state.ledger.waiting());
            if due > 0 && state.take(Step::Deliver(due)).is_ok() {
                state.due = 0;
            }
        }
        let Some(mut upcall) = state.ledger.unheard() else { return (None, false) };
        // A host that waits for a record must not wait for ever: nothing that it writes reaches a failed device.
        if upcall.last() > state.durable && state.failed.is_none() {
            return (None, true);
        }
        upcall.urgent = state.ledger.outstanding() * 2 >= BOUND;
        let heard = state.take(Step::Hear(upcall.moves.len()));
        (heard.is_ok().then_some(upcall), false)
    }
}

#[cfg(test)]
impl MigratingDevice {
    /// The next upcall, if one is there now.
    pub(crate) fn try_next(&self) -> Option<Upcall> {
        let mut state = self.state.lock();
        state.due = state.ledger.waiting();
        let (upcall, flush) = self.upcall(&mut state);
        drop(state);
        if !flush {
            return upcall;
        }
        self.flush_all().ok()?;
        self.upcall(&mut self.state.lock()).0
    }
}

impl Device for MigratingDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn submit(&self, batch: Vec<Request>) {
        for Request { op, done } in self.info.accept(batch) {
            done(self.perform(op));
        }
        self.collect();
    }

    fn migrations(&self) -> Option<&dyn Migrations> {
        Some(self)
    }
}

impl Migrations for MigratingDevice {
    fn geometry(&self) -> MigrationGeometry {
        self.geometry.clone()
    }

    fn next(&self) -> Option<Upcall> {
        let mut state = self.state.lock();
        while !state.closed {
            let (upcall, flush) = self.upcall(&mut state);
            if upcall.is_some() {
                return upcall;
            }
            if flush {
                drop(state);
                // One that fails is told to the next request; where it may be tried again, that is not at once.
                let flushed = self.flush_all();
                state = self.state.lock();
                if flushed.is_err() && !state.closed && state.failed.is_none() {
                    self.changed.wait_timeout(&mut state, DEADLINE);
                }
            } else if state.ledger.waiting() == 0 || state.failed.is_some() {
                self.changed.wait(&mut state);
            } else if self.changed.wait_timeout(&mut state, DEADLINE) {
                state.due = state.ledger.waiting();
            }
        }
        None
    }

    fn complete(&self, up_to: u64) {
        // A host that completes what it has not heard of finds all I/O ended.
        let _ = self.state.lock().take(Step::Complete(up_to));
    }

    fn resume(&self, served: u64) -> u64 {
        let mut state = self.state.lock();
        let _ = state.take(Step::Resume(served));
        (state.closed, state.next) = (false, [None; 2]);
        self.changed.notify_all();
        state.ledger.last_delivered()
    }

    fn completed(&self) -> u64 {
        self.state.lock().ledger.completed()
    }

    fn deliver(&self) -> u64 {
        let mut state = self.state.lock();
        let waiting = state.ledger.waiting();
        if state.ledger.may_move() && waiting > 0 && state.take(Step::Deliver(waiting)).is_ok() {
            self.changed.notify_all();
        }
        state.ledger.last_delivered()
    }

    fn delivered(&self) -> u64 {
        self.state.lock().ledger.last_delivered()
    }

    /// No write waits for what is collected.
    fn room(&self) -> u64 {
        u64::MAX
    }

    fn press(&self) {
        self.empty_cheapest();
        self.deliver();
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
        // What the host has completed need not come again. If this fails it does.
        let _ = self.flush_all();
    }
}

#[cfg(test)]
pub(crate) mod tests;
