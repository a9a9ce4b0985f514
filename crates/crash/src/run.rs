//! The runner: does a workload on a small volume in memory, and notes what reached the device when.
//!
//! Keeps true: what the set-up made is durable in the trace's base; every later change of the device is in its records;
//! a step that returned by a tick of that log has its end there.

use crate::content::fill;
use crate::lang::{BALLAST, Falloc, Op, Schedule, VolumeKind, Workload};
use crate::late::LateDevice;
use crate::left::WriteHistory;
use crate::model::{HANDLE, ModelError, State, Timeline, timelines};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::mkfs::{self, Infinite, MkfsOptions, parse_features};
use steadyfs_core::{
    Error, FallocMode, Fs, InodeRef, MountOptions, NewInode, RenameFlags, SetAttr, SetTime, Urgency, XattrFlags,
};
use steadyfs_device::{Device, MemDevice, Record, RecordingDevice};
use steadyfs_format::inode::Time;
use steadyfs_rt::sim::{self, SimConfig, SimFailure};
use thiserror::Error;

/// When a step ran, in ticks of the device log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// The last tick before it.
    pub(crate) start: u64,
    /// The last tick before it returned.
    pub(crate) end: u64,
}

/// What happened to a device.
pub(crate) struct Trace {
    /// Its durable contents from before.
    pub(crate) base: MemDevice,
    /// What changed since.
    pub(crate) records: Vec<Record>,
    /// The tick at which it ended.
    pub(crate) end: u64,
    /// Torn inode blocks show.
    pub(crate) checksums: bool,
    /// The writes from before.
    pub(crate) history: WriteHistory,
}

/// What collectors had done by some tick.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) tick: u64,
    /// Blocks moved since the mount.
    pub(crate) moved: u64,
    /// Victims since the mount.
    pub(crate) victims: u64,
    /// Streams open.
    pub(crate) streams: usize,
}

/// A workload that was run.
pub(crate) struct Run {
    /// The steps that were done: the workload, and on a full volume only those of its steps that had room.
    pub(crate) done: Workload,
    /// The volume after the set-up, and what the steps did to it.
    pub(crate) trace: Trace,
    /// When each step ran, by its index in the workload.
    pub(crate) spans: Vec<Span>,
    /// What the tree should have been, per writer.
    pub(crate) timelines: Vec<Timeline>,
    /// Steps that promise something and were refused by the device: they promise nothing.
    pub(crate) refused: BTreeSet<usize>,
    /// Of workloads whose mount says how many collectors there are: what these had done at the start and after each
    /// step, in the order of ticks.
    pub(crate) samples: Vec<Sample>,
}

/// Why a workload could not be run to its end.
#[derive(Debug, Error)]
pub enum RunError {
    /// It makes no sense.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The file system refused what the model allows.
    #[error("step {step} ('{op}') failed: {source}")]
    Step {
        /// The step: set-up steps count first.
        step: u32,
        /// Its text.
        op: String,
        /// Why.
        source: Error,
    },
    /// The volume could not be made or mounted, or the set-up not be made durable.
    #[error("the volume for the run: {0}")]
    Volume(#[from] Error),
    /// A writer panicked.
    #[error("a writer panicked: {0}")]
    Panicked(String),
    /// In virtual time: it did not end.
    #[error(transparent)]
    Schedule(#[from] SimFailure),
}

/// How far a log of an IPLFS volume runs between two checkpoints: so little that workloads come to it.
const LEAP: u64 = 512;

/// An empty volume for a workload.
pub(crate) fn volume(workload: &Workload) -> Result<MemDevice, Error> {
    let blocks = u64::from(workload.mib) << 8;
    let mut options = MkfsOptions::new([0x5f; 16], 1_700_000_000);
    let device = match workload.kind {
        VolumeKind::F2fs => MemDevice::new(blocks),
        VolumeKind::Iplfs => {
            let chosen = Infinite { leap: LEAP, ..Infinite::new(blocks) };
            options.infinite = Some(chosen);
            MemDevice::new(chosen.device_blocks())
        }
    };
    options.segs_per_sec = workload.segs_per_sec;
    options.features = parse_features(&workload.features)?;
    mkfs::format(&device, &options)?;
    Ok(device)
}

/// The options of the mount that is explored: the workload's own; nothing happens but what the workload says.
fn options(workload: &Workload) -> Result<MountOptions, Error> {
    quiet(workload, &workload.mount)
}

/// The options of mounts after a crash: the same, without planted faults.
pub(crate) fn options_afterwards(workload: &Workload) -> Result<MountOptions, Error> {
    let sound: Vec<&str> = workload.mount.split(',').filter(|option| !option.starts_with("canary=")).collect();
    quiet(workload, &sound.join(","))
}

fn quiet(workload: &Workload, mount: &str) -> Result<MountOptions, Error> {
    // Threads that collect do so when they get to it: the same each time only where a schedule says when.
    let gc = if workload.schedule.is_some() { "gc=scalelfs" } else { "gc=f2fs-lfs" };
    let mut options = MountOptions::parse(&format!("{gc},{mount}"))?;
    (options.background_gc, options.commit_seconds) = (false, Some(0));
    Ok(options)
}

/// Runs a workload on a fresh volume: several writers without a schedule as threads of this machine, all else in
/// virtual time.
pub(crate) fn run(workload: &Workload, empty: &MemDevice) -> Result<Run, RunError> {
    if workload.schedule.is_none() && timelines(workload)?.len() > 1 {
        return run_here(workload, empty);
    }
    let config = virtual_time(workload);
    let (workload, empty) = (workload.clone(), empty.fork());
    sim::run(config, move || run_here(&workload, &empty))?.value
}

/// The virtual time of a workload and of recovery after it. Writes have the time in them, so with that of the machine
/// other states would come of them each time.
pub(crate) fn virtual_time(workload: &Workload) -> SimConfig {
    let usual = SimConfig::default();
    workload.schedule.map_or(usual.clone(), |Schedule { cores, seed }| SimConfig { cores, seed, ..usual })
}

fn run_here(workload: &Workload, empty: &MemDevice) -> Result<Run, RunError> {
    let timelines = timelines(workload)?;
    let device = Arc::new(RecordingDevice::new(LateDevice::new(empty.fork(), workload.late)));
    let (watched, history) = WriteHistory::of_new(workload, empty).watch(Arc::clone(&device) as Arc<dyn Device>);
    let fs = Fs::mount(watched, options(workload)?)?;
    let mut hand = Hand { fs: Arc::clone(&fs), open: Vec::new() };
    for (at, op) in workload.setup.iter().enumerate() {
        hand.perform(op, at as u32)?;
    }
    if let Some(free) = workload.free {
        take_space(&fs, u64::from(free))?;
    }
    let (base, start, history) = durable(&fs, &device, &history)?;
    if let Some(seed) = workload.fail {
        device.inner().begin_refusing(seed);
    }
    let spans = vec![Span { start, end: u64::MAX }; workload.steps.len()];
    let samples = sample(&fs, workload, start).into_iter().collect();
    let mut done = Done { workload: workload.clone(), spans, refused: BTreeSet::new(), samples };
    match timelines.as_slice() {
        [] => {}
        [only] => done.add(perform(&mut hand, workload, only, &device)?),
        several => {
            let mut threads = Vec::new();
            for line in several {
                let (workload, line) = (workload.clone(), line.clone());
                let (device, mut hand) = (Arc::clone(&device), Hand { fs: Arc::clone(&fs), open: Vec::new() });
                let work = move || (perform(&mut hand, &workload, &line, &device), hand);
                threads.push(steadyfs_rt::spawn("crash-writer", work));
            }
            for thread in threads {
                let (performed, _open) = thread.join().map_err(|panic| RunError::Panicked(panic.to_string()))?;
                done.add(performed?);
            }
        }
    }
    // Looked at before the handles are closed: from here on nothing is part of the workload.
    let (end, records) = (device.tick(), device.take_log());
    let trace = Trace { base, records, end, checksums: workload.has_checksums(), history };
    let Done { workload: done, spans, refused, mut samples } = done;
    samples.sort_by_key(|sample| sample.tick);
    let timelines = if done == *workload { timelines } else { crate::model::timelines(&done)? };
    Ok(Run { done, trace, spans, timelines, refused, samples })
}

/// Takes all space but `left` blocks (or one less, if the last block needs a node).
fn take_space(fs: &Fs, left: u64) -> Result<(), Error> {
    let ballast = fs.create(&fs.root()?, BALLAST.as_bytes(), &NewInode { mode: 0o100_644, ..NewInode::default() })?;
    let mut off = 0;
    loop {
        // Half of it: nodes need room, too.
        let len = fs.statfs().blocks_free.saturating_sub(left).div_ceil(2) * crate::model::PAGE;
        if len == 0 {
            return Ok(());
        }
        match fs.fallocate(&ballast, FallocMode::Allocate { keep_size: true }, off, len) {
            Err(Error::NoSpace) => return Ok(()),
            done => done?,
        }
        off += len;
    }
}

/// What the device holds after all that was done so far, durably, the tick from which on the log says what changes, and
/// what was written until then.
fn durable(
    fs: &Fs,
    device: &RecordingDevice<LateDevice>,
    history: &WriteHistory,
) -> Result<(MemDevice, u64, WriteHistory), Error> {
    loop {
        fs.sync()?;
        let start = device.tick();
        let base = device.inner().settled();
        let history = history.now();
        let all_ended = device.take_log().iter().all(|record| record.completed.is_some());
        // Else collectors are at work still, and what they have written meanwhile may be in neither of the two.
        if all_ended && device.tick() == start {
            return Ok((base, start, history));
        }
    }
}

/// What collectors have done so far. Only where it is asked for: looking takes locks, which changes the schedule.
fn sample(fs: &Fs, workload: &Workload, tick: u64) -> Option<Sample> {
    if !workload.mount.contains("gc.collectors=") {
        return None;
    }
    let sum = fs.gc_totals();
    let moved = sum.data_moved + sum.nodes_moved;
    Some(Sample { tick, moved, victims: sum.victims, streams: fs.open_streams() })
}

/// A step that was done.
struct Performed {
    step: usize,
    /// The part of it that was done.
    op: Op,
    span: Span,
    refused: bool,
    sample: Option<Sample>,
}

/// All of them.
struct Done {
    workload: Workload,
    spans: Vec<Span>,
    refused: BTreeSet<usize>,
    samples: Vec<Sample>,
}

impl Done {
    fn add(&mut self, performed: Vec<Performed>) {
        for Performed { step, op, span, refused, sample } in performed {
            self.workload.steps[step].op = op;
            self.spans[step] = span;
            self.samples.extend(sample);
            if refused {
                self.refused.insert(step);
            }
        }
    }
}

/// Does the steps of one writer, in order, with the time of each.
fn perform(
    hand: &mut Hand,
    workload: &Workload,
    line: &Timeline,
    device: &RecordingDevice<LateDevice>,
) -> Result<Vec<Performed>, RunError> {
    let mut performed = Vec::with_capacity(line.steps.len());
    let mut full = workload.free.map(|_| (*line.states[0]).clone());
    for &step in &line.steps {
        let start = device.tick();
        let (mut op, number) = (workload.steps[step].op.clone(), workload.number(step));
        let result = match &mut full {
            Some(state) => hand.perform_if_there_is_room(&op, number, state).map(|done| op = done),
            None => hand.perform(&op, number),
        };
        let refused = match result {
            Err(RunError::Step { source: Error::Io(_), .. }) if workload.fail.is_some() && op.is_promise() => true,
            done => done.map(|()| false)?,
        };
        let end = device.tick();
        let sample = sample(&hand.fs, workload, end);
        performed.push(Performed { step, op, span: Span { start, end }, refused, sample });
    }
    Ok(performed)
}

/// One writer on a mounted volume.
pub(crate) struct Hand {
    pub(crate) fs: Arc<Fs>,
    /// Files kept open, by their paths when they were opened.
    pub(crate) open: Vec<(String, InodeRef)>,
}

impl Hand {
    fn perform(&mut self, op: &Op, step: u32) -> Result<(), RunError> {
        let done = self.attempt(op, step).and_then(|short| short.map_or(Ok(()), |_| Err(Error::NoSpace)));
        done.map_err(|source| RunError::Step { step, op: op.to_string(), source })
    }

    /// Does a step on a full volume, of which the model knows the `state`; what was done of it. A step that builds on
    /// one for which there was no room is left out.
    fn perform_if_there_is_room(&mut self, op: &Op, step: u32, state: &mut State) -> Result<Op, RunError> {
        if state.clone().apply(op, step, 0).is_err() {
            return Ok(Op::Skip);
        }
        let done = match self.attempt(op, step) {
            Ok(None) => op.clone(),
            Ok(Some(written)) => op.cut(written),
            // What gives space back, and what makes something durable, needs none.
            Err(Error::NoSpace) if !op.is_promise() && !matches!(op, Op::Unlink { .. } | Op::Rmdir { .. }) => Op::Skip,
            Err(source) => return Err(RunError::Step { step, op: op.to_string(), source }),
        };
        state.apply(&done, step, 0)?;
        Ok(done)
    }

    /// What a path names.
    pub(crate) fn find(&self, path: &str) -> Result<InodeRef, Error> {
        if let Some(opened) = path.strip_prefix(HANDLE) {
            let known = self.open.iter().rev().find(|(path, _)| path == opened);
            return known.map(|(_, file)| file.clone()).ok_or(Error::NotFound);
        }
        let mut at = self.fs.root()?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = self.fs.lookup(&at, name.as_bytes())?;
        }
        Ok(at)
    }

    fn place<'p>(&self, path: &'p str) -> Result<(InodeRef, &'p [u8]), Error> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.find(dir)?, name.as_bytes()))
    }

    fn make(&self, path: &str, mode: u32) -> Result<(), Error> {
        let (dir, name) = self.place(path)?;
        self.fs.create(&dir, name, &NewInode { mode, ..NewInode::default() }).map(drop)
    }

    /// Does one operation; `step` goes into what it writes. How much it wrote, if less than all.
    pub(crate) fn attempt(&mut self, op: &Op, step: u32) -> Result<Option<u64>, Error> {
        let fs = &self.fs;
        let short = |written: usize, len: u64| Ok((written as u64 != len).then_some(written as u64));
        match op {
            Op::Write { path, off, len } => {
                short(fs.write(&self.find(path)?, *off, &fill(step, *off, *len as usize))?, *len)
            }
            Op::DirectWrite { path, off, len } => {
                short(fs.write_direct(&self.find(path)?, *off, &fill(step, *off, *len as usize))?, *len)
            }
            Op::Append { path, len } => {
                let file = self.find(path)?;
                let off = fs.attr(&file)?.size;
                short(fs.append(&file, &fill(step, off, *len as usize))?.1, *len)
            }
            Op::Wait { seconds } => {
                steadyfs_rt::sleep(Duration::from_secs(u64::from(*seconds)));
                Ok(None)
            }
            _ => self.attempt_whole(op, step).map(|()| None),
        }
    }

    /// Does one operation that is done or is not.
    fn attempt_whole(&mut self, op: &Op, step: u32) -> Result<(), Error> {
        let fs = &self.fs;
        match op {
            Op::Creat { path } => self.make(path, 0o100_644),
            Op::Mkdir { path } => self.make(path, 0o040_755),
            Op::Mkfifo { path } => self.make(path, 0o010_644),
            Op::Tmpfile { path } => {
                let (dir, _) = self.place(path)?;
                let file = fs.tmpfile(&dir, &NewInode { mode: 0o100_644, ..NewInode::default() })?;
                self.open.push((path.clone(), file));
                Ok(())
            }
            Op::Fsync { path } => fs.fsync(&self.find(path)?, false),
            Op::Fdatasync { path } => fs.fsync(&self.find(path)?, true),
            Op::Rename { from, to } => self.rename(from, to, RenameFlags::Replace),
            Op::Exchange { from, to } => self.rename(from, to, RenameFlags::Exchange),
            Op::Whiteout { from, to } => {
                let ((old_dir, old), (new_dir, new)) = (self.place(from)?, self.place(to)?);
                fs.rename_whiteout(&old_dir, old, &new_dir, new, RenameFlags::Replace, &NewInode::default())
            }
            Op::Link { from, to } => {
                let (dir, name) = self.place(to)?;
                fs.link(&self.find(from)?, &dir, name)
            }
            Op::Symlink { target, path } => {
                let (dir, name) = self.place(path)?;
                fs.symlink(&dir, name, target.as_bytes(), &NewInode::default()).map(drop)
            }
            Op::Unlink { path } => {
                let (dir, name) = self.place(path)?;
                fs.unlink(&dir, name)
            }
            Op::Rmdir { path } => {
                let (dir, name) = self.place(path)?;
                fs.rmdir(&dir, name)
            }
            Op::Truncate { path, size } => {
                fs.setattr(&self.find(path)?, &SetAttr { size: Some(*size), ..SetAttr::default() }).map(drop)
            }
            Op::Chmod { path, mode } => {
                fs.setattr(&self.find(path)?, &SetAttr { mode: Some(*mode), ..SetAttr::default() }).map(drop)
            }
            Op::Chown { path, uid, gid } => {
                let owner = SetAttr { uid: Some(*uid), gid: Some(*gid), ..SetAttr::default() };
                fs.setattr(&self.find(path)?, &owner).map(drop)
            }
            Op::Utimes { path, seconds } => {
                let then = Some(SetTime::At(Time { secs: i64::from(*seconds), nanos: 0 }));
                let times = SetAttr { atime: then, mtime: then, ..SetAttr::default() };
                fs.setattr(&self.find(path)?, &times).map(drop)
            }
            Op::Falloc { path, mode, off, len } => fs.fallocate(&self.find(path)?, falloc(*mode), *off, *len),
            Op::SetXattr { path, name, len } => {
                let value = fill(step, 0, *len as usize);
                fs.setxattr(&self.find(path)?, name.as_bytes(), &value, XattrFlags::default())
            }
            Op::RemoveXattr { path, name } => fs.removexattr(&self.find(path)?, name.as_bytes()),
            Op::Open { path } => {
                let file = self.find(path)?;
                self.open.push((path.clone(), file));
                Ok(())
            }
            Op::Sync => fs.sync(),
            // To collect nothing is to commit a checkpoint.
            Op::Checkpoint => fs.gc(0, Urgency::Foreground).map(drop),
            Op::Gc => fs.gc(1, Urgency::Foreground).map(drop),
            Op::Wait { .. } | Op::Skip | Op::Write { .. } | Op::DirectWrite { .. } | Op::Append { .. } => Ok(()),
        }
    }

    fn rename(&self, from: &str, to: &str, flags: RenameFlags) -> Result<(), Error> {
        let ((old_dir, old), (new_dir, new)) = (self.place(from)?, self.place(to)?);
        self.fs.rename(&old_dir, old, &new_dir, new, flags).map(drop)
    }
}

fn falloc(mode: Falloc) -> FallocMode {
    match mode {
        Falloc::Allocate => FallocMode::Allocate { keep_size: false },
        Falloc::AllocateKeep => FallocMode::Allocate { keep_size: true },
        Falloc::Punch => FallocMode::PunchHole,
        Falloc::Zero => FallocMode::ZeroRange { keep_size: false },
        Falloc::ZeroKeep => FallocMode::ZeroRange { keep_size: true },
        Falloc::Collapse => FallocMode::CollapseRange,
        Falloc::Insert => FallocMode::InsertRange,
    }
}
