//! The jobs at work: each a task, or several, that asks its job what comes next and does it.

use super::{FileLayout, Fio, Io, Job, Kind};
use crate::error::{Error, Result};
use crate::stage::{self, Stage, Tally};
use crate::workload::Act;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::{FallocMode, InodeRef, NewInode};
use steadyfs_format::PageIndex;
use steadyfs_rt::{Cost, Instant, LockClass, Mutex, charge, now, sleep};

/// A job's choices: the lowest rank, nothing is taken under it.
static JOB: LockClass = LockClass::new("lab.job", 0);
const FILE_MODE: u32 = 0o100_644;
const PAGE: u64 = 4096;
/// Pages that the layout writes at a time.
const LAYOUT_PAGES: u64 = 256;

/// A job with its file.
struct Worker {
    number: u32,
    file: InodeRef,
    job: Mutex<Job>,
}

/// What the jobs share.
struct Field {
    stage: Arc<Stage>,
    options: Fio,
}

/// All jobs.
pub(super) struct Jobs {
    field: Arc<Field>,
    workers: Vec<Arc<Worker>>,
}

impl Jobs {
    /// Jobs without files.
    pub(super) fn new(options: &Fio, stage: &Arc<Stage>) -> Self {
        Jobs { field: Arc::new(Field { stage: Arc::clone(stage), options: options.clone() }), workers: Vec::new() }
    }
}

impl Act for Jobs {
    fn lay_out(&mut self) -> Result<()> {
        let jobs = 0..self.field.options.numjobs;
        self.workers = jobs.map(|number| lay_out(&self.field, number)).collect::<Result<_>>()?;
        Ok(())
    }

    fn amount(&self) -> u64 {
        let options = &self.field.options;
        if options.time_based {
            return 0;
        }
        options.ios().saturating_mul(options.bs.bytes()).saturating_mul(u64::from(options.numjobs))
    }

    fn seconds(&self) -> Option<f64> {
        self.field.options.runtime
    }

    fn work(&mut self) -> Result<Tally> {
        let options = &self.field.options;
        let deadline = options.runtime.map(|seconds| self.field.stage.deadline(seconds));
        let mut tasks = Vec::new();
        for worker in &self.workers {
            for _ in 0..options.iodepth {
                let (field, worker) = (Arc::clone(&self.field), Arc::clone(worker));
                tasks.push(self.field.stage.start("job", move || one(&field, &worker, deadline)));
            }
        }
        stage::join(tasks)
    }

    fn verify(&mut self) -> Result<String> {
        let pages =
            self.workers.iter().try_fold(0, |sum, worker| Ok::<u64, Error>(sum + verify(&self.field, worker)?))?;
        Ok(format!("{pages} pages hold what was written last"))
    }
}

/// Makes a job's file, and has in it what the layout asks for.
fn lay_out(field: &Field, number: u32) -> Result<Arc<Worker>> {
    let (fs, name) = (&field.stage.fs, format!("job.{number}.0"));
    let root = fs.root().map_err(Error::core("opening the root directory"))?;
    let file = fs
        .create(&root, name.as_bytes(), &NewInode { mode: FILE_MODE, ..NewInode::default() })
        .map_err(Error::core(format!("creating {name}")))?;
    let mut job = Job::new(&field.options, number, field.stage.seed);
    let bytes = job.content.pages() * PAGE;
    match field.options.layout() {
        FileLayout::Written => fill(field, &file, &name, &mut job)?,
        FileLayout::Fallocate => {
            charge(Cost::SyscallEntry);
            fs.fallocate(&file, FallocMode::Allocate { keep_size: false }, 0, bytes)
                .map_err(Error::core(format!("laying out {name}")))?;
            field.stage.progress.advance(bytes);
        }
        FileLayout::None => field.stage.progress.advance(bytes),
    }
    Ok(Arc::new(Worker { number, file, job: Mutex::new(&JOB, job) }))
}

/// Writes every page of a job's file once, in order, and syncs it.
fn fill(field: &Field, file: &InodeRef, name: &str, job: &mut Job) -> Result<()> {
    let fs = &field.stage.fs;
    let pages = job.content.pages();
    let mut at = 0;
    while at < pages {
        let count = LAYOUT_PAGES.min(pages - at);
        let contents = job.content.next(at, count);
        charge(Cost::SyscallEntry);
        let n = fs.write_pages(file, PageIndex(at), &contents).map_err(Error::core(format!("laying out {name}")))?;
        if n as u64 != count * PAGE {
            return Err(Error::Core { doing: format!("laying out {name}"), source: steadyfs_core::Error::NoSpace });
        }
        field.stage.progress.advance(count * PAGE);
        at += count;
    }
    fs.fsync(file, false).map_err(Error::core(format!("syncing {name}")))
}

fn one(field: &Field, worker: &Worker, deadline: Option<Instant>) -> Result<Tally> {
    let mut times = Tally::default();
    let mut until_pause = field.options.thinktime_blocks;
    while field.stage.goes_on(deadline) {
        let Some(io) = worker.job.lock().next() else { break };
        if io.sync_first {
            sync(field, worker, false)?;
        }
        let began = now();
        perform(field, worker, &io)?;
        times.record(io.kind.name(), began.elapsed());
        if let Some(data_only) = io.sync {
            sync(field, worker, data_only)?;
        }
        until_pause -= 1;
        if until_pause == 0 {
            until_pause = field.options.thinktime_blocks;
            if field.options.thinktime > 0 {
                sleep(Duration::from_micros(field.options.thinktime));
            }
        }
    }
    if field.options.end_fsync {
        sync(field, worker, false)?;
    }
    Ok(times)
}

fn sync(field: &Field, worker: &Worker, data_only: bool) -> Result<()> {
    charge(Cost::SyscallEntry);
    field.stage.fs.fsync(&worker.file, data_only).map_err(Error::core(format!("syncing file {}", worker.number)))
}

fn perform(field: &Field, worker: &Worker, io: &Io) -> Result<()> {
    charge(Cost::SyscallEntry);
    let bytes = field.options.bs.bytes();
    let (fs, file, first) = (&field.stage.fs, &worker.file, PageIndex(io.page));
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
            field.stage.wrote(bytes);
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
            field.stage.read(bytes);
        }
    }
    field.stage.progress.advance(bytes);
    Ok(())
}

/// Reads a job's file and compares every page with what was last written there.
fn verify(field: &Field, worker: &Worker) -> Result<u64> {
    let job = worker.job.lock();
    let newest = field.options.iodepth == 1;
    let mut buffer = vec![0; (LAYOUT_PAGES * PAGE) as usize];
    let mut at = 0;
    while at < job.content.pages() {
        let count = LAYOUT_PAGES.min(job.content.pages() - at);
        let part = &mut buffer[..(count * PAGE) as usize];
        let doing = || Error::core(format!("reading file {} back", worker.number));
        let n = field.stage.fs.read_direct(&worker.file, at * PAGE, part).map_err(doing())?;
        // A file that nobody laid out ends behind the last page that was written.
        let end = if n == part.len() { at + count } else { at + n as u64 / PAGE };
        let may_end = field.options.layout() == FileLayout::None && n.is_multiple_of(PAGE as usize);
        if n != part.len() && !(may_end && job.content.is_blank(end..at + count)) {
            return Err(Error::Check(format!("file {} ends within its page {end}", worker.number)));
        }
        job.content.judge(at, &part[..n], newest).map_err(Error::Check)?;
        field.stage.progress.advance(count * PAGE);
        at += count;
    }
    Ok(at)
}
