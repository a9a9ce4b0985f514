//! A run on the device itself. Of the series, device writes and reads are what the
//! flash programs and reads (host's and collector's), `waf` is that of the flash, and sections cleaned are lines
//! erased; columns that only a file system has are 0.
//!
//! Kept true: the next write is chosen, and its contents fixed, under one lock; what is read back in the end is
//! compared page by page.

use super::phases::{Measured, Metrics, Outcome, Trial, levels, make_target, named};
use super::sample::{FlashNow, Snapshot, Source};
use crate::device::Target;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::record::Row;
use crate::spec::Experiment;
use crate::stage::{Content, Tally, join};
use crate::workload::{Offsets, Options, Raw};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use steadyfs_device::{Device, Op, PageBuf, Request, StreamHint};
use steadyfs_flash::{EmulatedSsd, Stats};
use steadyfs_rt::sim::cpu_time;
use steadyfs_rt::{Instant, LockClass, Mutex, Pending, now, sleep, spawn};

/// The choices: the lowest rank, nothing is taken under it.
static WRITER: LockClass = LockClass::new("lab.writer", 0);
/// Pages of a request when the device is filled or read back, and such requests at a time.
const PIECE: u64 = 64;
const PIECES: u64 = 64;

/// What the tasks share.
struct Field {
    options: Raw,
    device: Arc<dyn Device>,
    ssd: Option<Arc<EmulatedSsd>>,
    next: Mutex<Next>,
    written: AtomicU64,
    progress: Arc<Progress>,
}

/// What is written next.
struct Next {
    offsets: Offsets,
    content: Content,
    left: u64,
    /// Not before this.
    due: Instant,
}

impl Next {
    /// The next block; passes follow one another in orders of their own.
    fn block(&mut self) -> u64 {
        loop {
            if let Some(block) = self.offsets.next(1) {
                return block;
            }
            self.offsets.rewind(false);
        }
    }
}

/// See the head of the module.
pub(super) struct DeviceTrial {
    target: Target,
    field: Arc<Field>,
    /// The cold part, and where it begins.
    cold: Content,
    cold_at: u64,
    /// Lines erased before the measured phase.
    erased: u64,
    verify: bool,
}

impl DeviceTrial {
    pub(super) fn new(experiment: &Experiment, raw: &Raw, seed: u64, progress: &Arc<Progress>) -> Result<Self> {
        let target = make_target(experiment)?;
        let content = Content::new(0, seed, raw.pages());
        let next = Next { offsets: raw.offsets(seed), content, left: raw.writes(), due: now() };
        let field = Arc::new(Field {
            options: raw.clone(),
            device: target.device(),
            ssd: target.ssd().cloned(),
            next: Mutex::new(&WRITER, next),
            written: AtomicU64::new(0),
            progress: Arc::clone(progress),
        });
        let cold = Content::new(1, seed, raw.cold_pages());
        let cold_at = field.device.info().blocks.saturating_sub(raw.cold_pages());
        Ok(DeviceTrial { target, field, cold, cold_at, erased: 0, verify: experiment.verify })
    }
}

impl Trial for DeviceTrial {
    fn layout_bytes(&self) -> u64 {
        let raw = &self.field.options;
        (raw.cold_pages() + if raw.laid_out { raw.pages() } else { 0 }) * 4096
    }

    fn lay_out(&mut self) -> Result<()> {
        if self.field.options.laid_out {
            fill(&self.field, 0, &mut self.field.next.lock().content)?;
        }
        fill(&self.field, self.cold_at, &mut self.cold)
    }

    fn amount(&self) -> u64 {
        self.field.options.writes() * self.field.options.bs.bytes()
    }

    fn begin(&mut self) {
        self.target.begin();
        self.erased = self.field.stats().lines_erased;
    }

    fn source(&self) -> Option<Arc<dyn Source>> {
        Some(Arc::clone(&self.field) as Arc<dyn Source>)
    }

    fn work(&mut self) -> Result<Tally> {
        self.field.next.lock().due = now();
        let task = |_| {
            let field = Arc::clone(&self.field);
            spawn("writer", move || one(&field))
        };
        join((0..self.field.options.iodepth).map(task).collect())
    }

    fn figures(&mut self, measured: &Measured, metrics: &mut Metrics) -> Result<()> {
        metrics.extend(self.target.metrics(measured.seconds));
        let rate = self.field.written.load(Relaxed) as f64 / measured.seconds / 1e6;
        metrics.extend(named([("mb_s", rate), ("write_mb_s", rate)]));
        metrics.extend(measured.series(self.erased as f64));
        metrics.extend(levels(&measured.rows, self.erased as f64));
        Ok(())
    }

    fn check(self: Box<Self>, outcome: &mut Outcome) -> Result<()> {
        let DeviceTrial { target, field, cold, cold_at, verify, .. } = *self;
        if verify {
            field.progress.expect(field.options.file_bytes());
            let newest = field.options.iodepth == 1;
            let pages =
                read_back(&field, 0, &field.next.lock().content, newest)? + read_back(&field, cold_at, &cold, true)?;
            outcome.checks.insert("contents".into(), format!("{pages} pages hold what was written"));
        }
        outcome.checks.insert("device".into(), target.self_check().map_err(Error::Check)?);
        Ok(())
    }
}

/// Writes all of a part of the device in order, many pieces at a time.
fn fill(field: &Field, at: u64, content: &mut Content) -> Result<()> {
    let mut page = 0;
    while page < content.pages() {
        let end = content.pages().min(page + PIECE * PIECES);
        let writes: Vec<_> = (page..end)
            .step_by(PIECE as usize)
            .map(|first| (at + first, content.next(first, PIECE.min(end - first))))
            .collect();
        write_all(&*field.device, writes)?;
        field.progress.advance((end - page) * 4096);
        page = end;
    }
    Ok(())
}

/// Writes and waits until everything has been accepted.
fn write_all(device: &dyn Device, writes: Vec<(u64, Vec<PageBuf>)>) -> Result<()> {
    let pending = Arc::new(Pending::new());
    let failed = Arc::new(AtomicU64::new(0));
    pending.add(writes.len() as u64);
    let request = |(block, pages)| {
        let (pending, failed) = (Arc::clone(&pending), Arc::clone(&failed));
        let op = Op::Write { block, pages, hint: StreamHint::DataWarm, fua: false };
        Request::new(op, move |result| {
            failed.fetch_add(u64::from(result.is_err()), Relaxed);
            pending.done(1);
        })
    };
    device.submit(writes.into_iter().map(request).collect());
    pending.wait_zero();
    match failed.load(Relaxed) {
        0 => Ok(()),
        n => Err(Error::Check(format!("the device refused {n} writes"))),
    }
}

/// One task: writes until nothing is left.
fn one(field: &Field) -> Result<Tally> {
    let mut times = Tally::default();
    let period = match field.options.rate_iops {
        0 => Duration::ZERO,
        rate => Duration::from_nanos(1_000_000_000 / rate),
    };
    let pages = field.options.bs.bytes() / 4096;
    loop {
        let (page, contents, due) = {
            let mut next = field.next.lock();
            if next.left == 0 {
                return Ok(times);
            }
            next.left -= 1;
            let due = Instant::from_nanos(next.due.as_nanos().max(now().as_nanos()));
            next.due = Instant::from_nanos(due.as_nanos() + period.as_nanos() as u64);
            let page = next.block() * pages;
            (page, next.content.next(page, pages), due)
        };
        sleep(Duration::from_nanos(due.as_nanos().saturating_sub(now().as_nanos())));
        let began = now();
        let written = field.device.write(page, contents);
        written.map_err(|e| Error::Check(format!("writing page {page} of the device: {e}")))?;
        times.record("write", began.elapsed());
        field.written.fetch_add(pages * 4096, Relaxed);
        field.progress.advance(pages * 4096);
    }
}

/// Reads a part of the device back and compares every page; how many there are.
fn read_back(field: &Field, at: u64, content: &Content, newest: bool) -> Result<u64> {
    let mut page = 0;
    while page < content.pages() {
        let count = PIECE.min(content.pages() - page);
        let read = field.device.read(at + page, count);
        let read = read.map_err(|e| Error::Check(format!("reading page {page} of the device back: {e}")))?;
        let bytes: Vec<u8> = read.iter().flat_map(|page| *page.to_array()).collect();
        content.judge(page, &bytes, newest).map_err(Error::Check)?;
        field.progress.advance(count * 4096);
        page += count;
    }
    Ok(page)
}

impl Field {
    fn stats(&self) -> Stats {
        self.ssd.as_ref().map(|ssd| ssd.stats()).unwrap_or_default()
    }
}

impl Source for Field {
    fn snapshot(&self) -> Snapshot {
        let flash = self.stats();
        Snapshot {
            at: now(),
            written: self.written.load(Relaxed),
            read: 0,
            device_written: FlashNow::from(&flash).programmed,
            device_read: flash.flash_read + flash.gc_read,
            cpu: cpu_time(),
            upcalls: 0,
            flash: FlashNow::from(&flash),
        }
    }

    fn state(&self, row: &mut Row) {
        row.victims = self.stats().lines_erased as f64;
        self.progress.note(row);
    }
}
