//! The jobs at work: each a task, or several, that asks its job what comes next and does it.

use super::progress::Progress;
use crate::error::{Error, Result};
use crate::histogram::Histogram;
use crate::workload::{Fio, Io, Job, Kind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use steadyfs_core::{Fs, InodeRef, NewInode};
use steadyfs_format::PageIndex;
use steadyfs_rt::{Cost, Instant, LockClass, Mutex, charge, now, spawn};

/// A job's choices: the lowest rank, nothing is taken under it.
static JOB: LockClass = LockClass::new("lab.job", 0);
const FILE_MODE: u32 = 0o100_644;
const PAGE: u64 = 4096;
/// Pages that the layout writes at a time.
const LAYOUT_PAGES: u64 = 256;

/// Bytes that the jobs have moved in the measured phase.
#[derive(Default)]
pub(super) struct Traffic {
    written: AtomicU64,
    read: AtomicU64,
}

impl Traffic {
    /// Bytes written.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Bytes read.
    pub(super) fn read(&self) -> u64 {
        self.read.load(Relaxed)
    }
}

/// A job with its file.
pub(super) struct Worker {
    number: u32,
    file: InodeRef,
    job: Mutex<Job>,
}

/// What the jobs share.
pub(super) struct Field {
    pub(super) fs: Arc<Fs>,
    pub(super) options: Fio,
    pub(super) traffic: Arc<Traffic>,
    pub(super) progress: Arc<Progress>,
    /// Somebody failed; the others need not go on.
    failed: AtomicBool,
}

impl Field {
    /// A field for these options.
    pub(super) fn new(fs: &Arc<Fs>, options: &Fio, progress: &Arc<Progress>) -> Arc<Self> {
        Arc::new(Field {
            fs: Arc::clone(fs),
            options: options.clone(),
            traffic: Arc::default(),
            progress: Arc::clone(progress),
            failed: AtomicBool::new(false),
        })
    }
}

/// Makes a job's file and fills it, as fio does before it starts.
pub(super) fn lay_out(field: &Field, number: u32, seed: u64) -> Result<Arc<Worker>> {
    let (fs, name) = (&field.fs, format!("job.{number}.0"));
    let root = fs.root().map_err(Error::core("opening the root directory"))?;
    let file = fs
        .create(&root, name.as_bytes(), &NewInode { mode: FILE_MODE, ..NewInode::default() })
        .map_err(Error::core(format!("creating {name}")))?;
    let mut job = Job::new(&field.options, number, seed);
    let pages = job.content.pages();
    let mut at = 0;
    while at < pages {
        let count = LAYOUT_PAGES.min(pages - at);
        let contents = job.content.next(at, count);
        charge(Cost::SyscallEntry);
        let n = fs.write_pages(&file, PageIndex(at), &contents).map_err(Error::core(format!("laying out {name}")))?;
        if n as u64 != count * PAGE {
            return Err(Error::Core { doing: format!("laying out {name}"), source: steadyfs_core::Error::NoSpace });
        }
        field.progress.advance(count * PAGE);
        at += count;
    }
    fs.fsync(&file, false).map_err(Error::core(format!("syncing {name}")))?;
    Ok(Arc::new(Worker { number, file, job: Mutex::new(&JOB, job) }))
}

/// Does everything that the jobs have to do, until all of it or the time is over; the times of the I/Os.
pub(super) fn work(field: &Arc<Field>, workers: &[Arc<Worker>]) -> Result<Histogram> {
    let deadline = field.options.time().map(|time| now().as_nanos().saturating_add(time.as_nanos() as u64));
    let deadline = deadline.map(Instant::from_nanos);
    let mut tasks = Vec::new();
    for worker in workers {
        for _ in 0..field.options.iodepth {
            let (field, worker) = (Arc::clone(field), Arc::clone(worker));
            tasks.push(spawn("job", move || {
                let outcome = one(&field, &worker, deadline);
                if outcome.is_err() {
                    field.failed.store(true, Relaxed);
                }
                outcome
            }));
        }
    }
    let mut times = Histogram::default();
    let mut first = Ok(());
    for task in tasks {
        match task.join() {
            Ok(Ok(mine)) => times.merge(&mine),
            Ok(Err(e)) => first = first.and(Err(e)),
            Err(panicked) => first = first.and(Err(Error::Check(panicked.to_string()))),
        }
    }
    first.map(|()| times)
}

fn one(field: &Field, worker: &Worker, deadline: Option<Instant>) -> Result<Histogram> {
    let mut times = Histogram::default();
    while !field.failed.load(Relaxed) && deadline.is_none_or(|end| now() < end) {
        let Some(io) = worker.job.lock().next() else { break };
        let began = now();
        perform(field, worker, &io)?;
        times.record(began.elapsed());
        if let Some(data_only) = io.sync {
            sync(field, worker, data_only)?;
        }
    }
    if field.options.end_fsync {
        sync(field, worker, false)?;
    }
    Ok(times)
}

fn sync(field: &Field, worker: &Worker, data_only: bool) -> Result<()> {
    charge(Cost::SyscallEntry);
    field.fs.fsync(&worker.file, data_only).map_err(Error::core(format!("syncing file {}", worker.number)))
}

fn perform(field: &Field, worker: &Worker, io: &Io) -> Result<()> {
    charge(Cost::SyscallEntry);
    let bytes = field.options.bs.bytes();
    let (fs, file, first) = (&field.fs, &worker.file, PageIndex(io.page));
    let doing = |what: &str| Error::core(format!("{what} page {first} of file {}", worker.number));
    match io.kind {
        Kind::Write => {
            let wrote = match field.options.direct {
                true => fs.write_pages_direct(file, first, &io.pages),
                false => fs.write_pages(file, first, &io.pages),
            };
            if wrote.map_err(doing("writing"))? as u64 != bytes {
                return Err(doing("writing")(steadyfs_core::Error::NoSpace));
            }
            field.traffic.written.fetch_add(bytes, Relaxed);
        }
        Kind::Read => {
            let mut buffer = vec![0; bytes as usize];
            let read = match field.options.direct {
                true => fs.read_direct(file, io.page * PAGE, &mut buffer),
                false => fs.read(file, io.page * PAGE, &mut buffer),
            };
            let n = read.map_err(doing("reading"))?;
            // Beside other tasks on the same file an older write of the page may be what there was.
            let newest = field.options.iodepth == 1;
            worker.job.lock().content.judge(io.page, &buffer[..n], newest).map_err(Error::Check)?;
            field.traffic.read.fetch_add(bytes, Relaxed);
        }
    }
    field.progress.advance(bytes);
    Ok(())
}

/// Reads a job's file and compares every page with what was last written there.
pub(super) fn verify(field: &Field, worker: &Worker) -> Result<u64> {
    let job = worker.job.lock();
    let newest = field.options.iodepth == 1;
    let mut buffer = vec![0; (LAYOUT_PAGES * PAGE) as usize];
    let mut at = 0;
    while at < job.content.pages() {
        let count = LAYOUT_PAGES.min(job.content.pages() - at);
        let part = &mut buffer[..(count * PAGE) as usize];
        let doing = || Error::core(format!("reading file {} back", worker.number));
        let n = field.fs.read_direct(&worker.file, at * PAGE, part).map_err(doing())?;
        if n != part.len() {
            return Err(Error::Check(format!("file {} ends within its page {at}", worker.number)));
        }
        job.content.judge(at, part, newest).map_err(Error::Check)?;
        field.progress.advance(count * PAGE);
        at += count;
    }
    Ok(at)
}
