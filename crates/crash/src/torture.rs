//! Torture: threads write and fsync the same files on a device that refuses some writes, and the power goes at any
//! moment.
//!
//! Explored workloads give each writer files of its own. Here an fsync meets another one of the same file, which fails
//! or succeeds beside it. A seed decides everything: threads, cores, schedule, which writes the device refuses, in
//! which order it ends them, where the power goes.
//!
//! A page belongs to one thread, which numbers what it writes there. So after a crash each page must hold a version
//! that is
//!
//! - *not older* than the newest one that had been written when an fsync of its file was asked for that returned
//!   success before the crash,
//! - *not newer* than the newest one whose write had begun,
//!
//! and a file of which an fsync has succeeded must be there. On a mount that writes in place a page may be one of these
//! versions in some of its 512-byte pieces and another in others. An fsync that failed promises nothing. The checker
//! must find no error, the volume must mount, and must take another file afterwards.

use crate::content::fill;
use crate::judge::{Fault, Rule, check, guarded, in_virtual_time};
use crate::late::LateDevice;
use crate::left::WriteHistory;
use crate::observe::Seen;
use crate::rng::Rng;
use crate::run::Trace;
use crate::seeds::{Sum, each_seed};
use crate::states::{self, CrashState, Effort};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_core::mkfs::{self, MkfsOptions};
use steadyfs_core::{Error, Fs, InPlace, InodeRef, MountOptions, NewInode, Urgency};
use steadyfs_device::{Device, FaultyDevice, MemDevice, PIECE_SIZE, RecordingDevice};
use steadyfs_rt::sim::{self, SimConfig};

/// Files that all threads share.
const FILES: usize = 3;
/// Pages of each, half of them in its inode and half in another node.
const PAGES: usize = 36;
/// Addresses in an inode, or a few more.
const IN_INODE: usize = 923;
const PAGE: u64 = 4096;
/// Operations of all threads together.
const OPERATIONS: u64 = 90;
/// Crashes of one run that are judged.
const CRASHES: usize = 50;
/// MiB of the volume.
const MIB: u64 = 64;
/// The name of the file that is written after a crash.
const AFTERWARDS: &[u8] = b"afterwards";

/// A place in the order of what all threads do.
type Order = u64;

/// A write of one page.
#[derive(Clone, Copy, Debug)]
struct Written {
    file: usize,
    page: usize,
    version: u32,
    /// The device's tick when it began.
    tick: u64,
    /// When it had ended, in the order of all threads; `Order::MAX` if it failed.
    done: Order,
}

/// An fsync that succeeded.
#[derive(Clone, Copy, Debug)]
struct Synced {
    /// None: all files.
    file: Option<usize>,
    /// When it was asked for.
    asked: Order,
    /// The device's tick when it had returned.
    tick: u64,
}

/// What one thread did.
#[derive(Default)]
struct Deeds {
    written: Vec<Written>,
    synced: Vec<Synced>,
    refused: u64,
}

/// What happened in one run.
struct Torment {
    trace: Trace,
    deeds: Deeds,
}

/// What the runs came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TortureOutcome {
    /// Runs, each of another seed.
    pub runs: u64,
    /// Power cuts that were judged.
    pub crashes: u64,
    /// Calls of fsync and sync that succeeded.
    pub synced: u64,
    /// Those that the device's refusals made fail.
    pub refused: u64,
    /// The broken promises, at most one of each seed, in the order of the seeds.
    pub wrong: Vec<BrokenPromise>,
}

/// The broken promise under a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenPromise {
    /// The seed.
    pub seed: u64,
    /// The promise that is broken.
    pub rule: Rule,
    /// How.
    pub what: String,
    /// How the power went.
    pub crash: String,
}

impl Sum for TortureOutcome {
    fn add(&mut self, other: TortureOutcome) {
        self.runs += other.runs;
        self.crashes += other.crashes;
        self.synced += other.synced;
        self.refused += other.refused;
        self.wrong.extend(other.wrong);
        self.wrong.sort_by_key(|wrong| wrong.seed);
    }

    fn done(&self) -> u64 {
        self.crashes
    }
}

/// Runs one seed after the other, on several threads, until there were `crashes` crashes. `tell` hears how many there
/// were so far; once it returns false no run begins any more.
///
/// # Errors
/// The options make no sense, the volume could not be made, or a thread panicked.
pub fn torture(
    seeds: Range<u64>,
    crashes: u64,
    mount: &str,
    jobs: usize,
    tell: impl Fn(u64) -> bool + Send + Sync + 'static,
) -> Result<TortureOutcome, crate::load::Failure> {
    let options = options(mount)?;
    let empty = Arc::new(MemDevice::new(MIB << 8));
    mkfs::format(&*empty, &MkfsOptions::new([0x5f; 16], 1_700_000_000))?;
    Ok(each_seed(seeds, crashes, jobs, tell, move |seed| one(seed, &empty, &options))?)
}

fn options(mount: &str) -> Result<MountOptions, Error> {
    let mut options = MountOptions::parse(&format!("gc=scalelfs,errors=continue,{mount}"))?;
    (options.background_gc, options.commit_seconds) = (false, Some(0));
    Ok(options)
}

/// The run of a seed, and the judgement of some of the crashes that may end it.
fn one(seed: u64, empty: &MemDevice, options: &MountOptions) -> TortureOutcome {
    let mut outcome = TortureOutcome { runs: 1, ..TortureOutcome::default() };
    let wrong = |fault: Fault, crash: String| BrokenPromise { seed, rule: fault.rule, what: fault.what, crash };
    let mut rng = Rng::new(seed ^ 0x7042_7042);
    let config = SimConfig { cores: 1 + rng.below(8) as usize, seed, ..SimConfig::default() };
    let torment = {
        let (image, options, config) = (empty.fork(), options.clone(), config.clone());
        guarded(|| {
            let report = sim::run(config, move || torment(image, options, seed));
            report.map_err(|e| Fault::new(Rule::Works, e.to_string()))?.value
        })
    };
    let torment = match torment {
        Ok(torment) => torment,
        Err(fault) => {
            outcome.wrong.push(wrong(fault, "no crash".to_owned()));
            return outcome;
        }
    };
    outcome.synced = torment.deeds.synced.len() as u64;
    outcome.refused = torment.deeds.refused;
    let mut crashes = states::explore(&torment.trace, Effort::LIGHT, rng.next(), |tick| tick).distinct;
    for _ in 0..CRASHES.min(crashes.len()) {
        let crash = crashes.swap_remove(rng.below(crashes.len() as u64) as usize);
        outcome.crashes += 1;
        if let Err(fault) = guarded(|| judge(&torment, &crash, &config, options)) {
            outcome.wrong.push(wrong(fault, crash.choice.describe(&torment.trace)));
            break;
        }
    }
    outcome
}

/// Lets the threads loose on a fresh volume.
fn torment(image: MemDevice, options: MountOptions, seed: u64) -> Result<Torment, Fault> {
    let works = |e: Error| Fault::new(Rule::Works, e.to_string());
    let mut rng = Rng::new(seed ^ 0x7027_0001);
    let late = (rng.below(2) == 0).then_some(seed);
    let device = Arc::new(RecordingDevice::new(LateDevice::new(image, late)));
    let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options).map_err(works)?;
    let known = rng.below(2) == 0;
    let (mut files, mut deeds) = (Vec::new(), Deeds::default());
    let root = fs.root().map_err(works)?;
    let base = |device: &RecordingDevice<LateDevice>| {
        device.take_log();
        device.inner().settled()
    };
    // Half of the runs begin with files that are there, the other half with files that no checkpoint knows.
    let mut image = (!known).then(|| fs.sync().map(|()| base(&device))).transpose().map_err(works)?;
    for file in 0..FILES {
        let name = name(file);
        files.push(
            fs.create(&root, name.as_bytes(), &NewInode { mode: 0o100_644, ..NewInode::default() }).map_err(works)?,
        );
        for page in 0..PAGES {
            let written = Written { file, page, version: 1, tick: device.tick(), done: 0 };
            fs.write(&files[file], offset(page), &contents(&written)).map_err(works)?;
            deeds.written.push(written);
        }
    }
    if known {
        fs.sync().map_err(works)?;
        image = Some(base(&device));
        deeds.synced.push(Synced { file: None, asked: 1, tick: device.tick() });
    }
    device.inner().begin_refusing(seed);
    let (threads, order) = (2 + rng.below(8) as usize, Arc::new(AtomicU64::new(2)));
    let threads = (0..threads).map(|number| {
        let thread = Thread {
            fs: Arc::clone(&fs),
            device: Arc::clone(&device),
            files: files.clone(),
            order: Arc::clone(&order),
            pages: (number..PAGES).step_by(threads).collect(),
            version: 1,
            rng: Rng::new(seed ^ (number as u64 + 1) << 32),
            deeds: Deeds::default(),
        };
        steadyfs_rt::spawn("torture", move || thread.work(OPERATIONS / threads as u64))
    });
    for thread in threads.collect::<Vec<_>>() {
        let more = thread.join().map_err(|panic| Fault::new(Rule::NoPanic, panic.to_string()))?.map_err(works)?;
        deeds.written.extend(more.written);
        deeds.synced.extend(more.synced);
        deeds.refused += more.refused;
    }
    let (end, records) = (device.tick(), device.take_log());
    let base = image.ok_or_else(|| Fault::new(Rule::Works, "there is no volume to begin with"))?;
    Ok(Torment { trace: Trace { base, records, end, checksums: false, history: WriteHistory::default() }, deeds })
}

fn name(file: usize) -> String {
    format!("shared{file}")
}

/// Where a page is in its file.
fn offset(page: usize) -> u64 {
    let index = if page < PAGES / 2 { page } else { IN_INODE + page };
    index as u64 * PAGE
}

/// What a write puts into its page: the bytes name file, page and version.
fn contents(written: &Written) -> Vec<u8> {
    let step = written.version * FILES as u32 + written.file as u32;
    fill(step, offset(written.page), PAGE as usize)
}

/// One of the threads.
struct Thread {
    fs: Arc<Fs>,
    device: Arc<RecordingDevice<LateDevice>>,
    files: Vec<InodeRef>,
    /// The order of all threads.
    order: Arc<AtomicU64>,
    /// The pages of each file that are this thread's.
    pages: Vec<usize>,
    version: u32,
    rng: Rng,
    deeds: Deeds,
}

impl Thread {
    fn work(mut self, operations: u64) -> Result<Deeds, Error> {
        for _ in 0..operations {
            let file = self.rng.below(FILES as u64) as usize;
            match self.rng.below(20) {
                0..9 => self.write(file)?,
                9..15 => self.sync(Some(file), |fs, inode| fs.fsync(inode, false))?,
                15..18 => self.sync(Some(file), |fs, inode| fs.fsync(inode, true))?,
                18 => self.sync(None, |fs, _| fs.sync())?,
                // To collect a section, or nothing, is to commit a checkpoint.
                _ => {
                    let sections = self.rng.below(2);
                    self.unless_refused(|fs, _| fs.gc(sections, Urgency::Foreground).map(drop), file)?;
                }
            }
        }
        Ok(self.deeds)
    }

    /// Writes some of this thread's pages of a file.
    fn write(&mut self, file: usize) -> Result<(), Error> {
        self.version += 1;
        let first = self.rng.below(self.pages.len() as u64) as usize;
        let count = 1 + self.rng.below(3) as usize;
        for &page in self.pages.iter().skip(first).take(count) {
            let begun = Written { file, page, version: self.version, tick: self.device.tick(), done: Order::MAX };
            self.fs.write(&self.files[file], offset(page), &contents(&begun))?;
            self.deeds.written.push(Written { done: self.order.fetch_add(1, SeqCst), ..begun });
        }
        Ok(())
    }

    /// Makes a file, or all, durable.
    fn sync(
        &mut self,
        file: Option<usize>,
        call: impl FnOnce(&Fs, &InodeRef) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let asked = self.order.fetch_add(1, SeqCst);
        if self.unless_refused(call, file.unwrap_or(0))? {
            self.deeds.synced.push(Synced { file, asked, tick: self.device.tick() });
        }
        Ok(())
    }

    /// Whether the call succeeded. An error of the device is no fault of the file system.
    fn unless_refused(
        &mut self,
        call: impl FnOnce(&Fs, &InodeRef) -> Result<(), Error>,
        file: usize,
    ) -> Result<bool, Error> {
        match call(&self.fs, &self.files[file]) {
            Ok(()) => Ok(true),
            Err(Error::Io(_)) => {
                self.deeds.refused += 1;
                Ok(false)
            }
            Err(other) => Err(other),
        }
    }
}

/// Whether the volume after a crash is one that the promises allow.
fn judge(torment: &Torment, crash: &CrashState<u64>, config: &SimConfig, options: &MountOptions) -> Result<(), Fault> {
    let image = crash.choice.build(&torment.trace).device;
    check(&image, "after the crash")?;
    let in_place = options.writes_in_place(1) != InPlace::Never;
    let options = options.clone();
    let (device, mut seen) = in_virtual_time(config.clone(), move || {
        let device = Arc::new(FaultyDevice::new(image));
        let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options)
            .map_err(|e| Fault::new(Rule::Mounts, format!("it does not mount: {e}")))?;
        let seen = Seen::read(&fs).map_err(|e| Fault::new(Rule::Legal, format!("the tree cannot be read: {e}")))?;
        go_on(&fs).map_err(|e| Fault::new(Rule::Usable, format!("writing afterwards: {e}")))?;
        device.disappear();
        Ok((device, seen))
    })?;
    check(device.inner(), "after writing more")?;
    let found: Vec<_> = (0..FILES).map(|file| seen.take(&name(file))).collect();
    for (file, found) in found.iter().enumerate() {
        let held = |page: usize| match found {
            None => Held::NoFile,
            Some(node) if node.size < offset(page) + PAGE => Held::BeyondTheEnd,
            Some(node) => node.pages.get(&(offset(page) / PAGE)).map_or(Held::Zeros, |bytes| Held::Bytes(bytes)),
        };
        for &tick in &crash.moments {
            (0..PAGES).try_for_each(|page| torment.deeds.check(file, page, tick, held(page), in_place))?;
        }
    }
    Ok(())
}

/// Writes another file and makes it durable.
fn go_on(fs: &Fs) -> Result<(), Error> {
    let file = fs.create(&fs.root()?, AFTERWARDS, &NewInode { mode: 0o100_644, ..NewInode::default() })?;
    fs.write(&file, 0, &fill(0, 0, 9000))?;
    fs.fsync(&file, false)
}

/// The contents found where a page should be.
#[derive(Clone, Copy)]
enum Held<'a> {
    NoFile,
    BeyondTheEnd,
    Zeros,
    Bytes(&'a [u8]),
}

impl Deeds {
    /// Whether a page may hold this after a crash at `tick`, on a mount that writes `in_place` or does not.
    fn check(&self, file: usize, page: usize, tick: u64, held: Held<'_>, in_place: bool) -> Result<(), Fault> {
        let promised = self.synced.iter().filter(|sync| sync.tick <= tick && sync.file.is_none_or(|one| one == file));
        let promised = promised.map(|sync| sync.asked).max().unwrap_or(0);
        let writes = || self.written.iter().filter(|write| (write.file, write.page) == (file, page));
        let oldest = writes().filter(|write| write.done < promised).map(|write| write.version).max().unwrap_or(0);
        let allowed = |write: &&Written| write.version >= oldest && write.tick <= tick;
        let legal = match held {
            Held::Bytes(bytes) => {
                let contents: Vec<Vec<u8>> = writes().filter(allowed).map(contents).collect();
                let size = if in_place { PIECE_SIZE } else { PAGE as usize };
                let places = (0..bytes.len()).step_by(size);
                bytes
                    .chunks(size)
                    .zip(places)
                    .all(|(piece, at)| contents.iter().any(|page| page[at..].starts_with(piece)))
            }
            Held::NoFile | Held::BeyondTheEnd | Held::Zeros => oldest == 0,
        };
        if legal {
            return Ok(());
        }
        let found = match held {
            Held::NoFile => "the file is missing".to_owned(),
            Held::BeyondTheEnd => "the file ends before it".to_owned(),
            Held::Zeros => "it holds zeros".to_owned(),
            Held::Bytes(bytes) => {
                let known = writes().find(|write| contents(write) == bytes);
                known.map_or("it holds foreign bytes".to_owned(), |write| format!("it holds version {}", write.version))
            }
        };
        let newest = writes().filter(allowed).map(|write| write.version).max().unwrap_or(0);
        let what = format!("page {page} of {} may be of version {oldest} to {newest}, but {found}", name(file));
        Err(Fault::new(Rule::Legal, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_an_fsync_promised_is_lost_beside_one_that_fails() {
        let outcome = torture(0..u64::MAX, 2000, "", 2, |_| true).expect("a volume");
        println!("{outcome:?}");
        assert!(outcome.wrong.is_empty());
        // 5.7 % of many fsyncs fail; how many of these few do changes with every schedule.
        assert!(outcome.refused * 30 > outcome.synced && outcome.synced > 10 * outcome.runs, "{outcome:?}");
    }

    #[test]
    fn only_versions_since_the_last_promise_are_legal() {
        let write = |version, tick, done| Written { file: 1, page: 20, version, tick, done };
        let written = vec![write(1, 0, 0), write(2, 3, 4), write(3, 9, 7), write(4, 12, Order::MAX)];
        let synced = vec![Synced { file: Some(1), asked: 5, tick: 8 }, Synced { file: Some(0), asked: 9, tick: 10 }];
        let deeds = Deeds { written: written.clone(), synced, refused: 0 };
        let holds = |version: usize, tick| {
            let bytes = contents(&written[version - 1]);
            deeds.check(1, 20, tick, Held::Bytes(&bytes), false).is_ok()
        };
        assert_eq!([1, 2, 3, 4].map(|version| holds(version, 7)), [true, true, false, false]);
        assert_eq!([1, 2, 3, 4].map(|version| holds(version, 11)), [false, true, true, false]);
        assert_eq!([1, 2, 3, 4].map(|version| holds(version, 12)), [false, true, true, true]);
        let fits = |tick, held| deeds.check(1, 20, tick, held, false).is_ok();
        assert!(fits(7, Held::NoFile) && !fits(8, Held::NoFile));
        assert!(!fits(8, Held::BeyondTheEnd) && !fits(8, Held::Zeros));
        // Torn between two versions, of which the older is too old from tick 8 on.
        let torn = |older: usize, newer: usize| -> Vec<u8> {
            let (older, newer) = (contents(&written[older - 1]), contents(&written[newer - 1]));
            [&older[..PIECE_SIZE], &newer[PIECE_SIZE..]].concat()
        };
        let in_place = |older, newer, tick| deeds.check(1, 20, tick, Held::Bytes(&torn(older, newer)), true);
        assert!(in_place(1, 2, 7).is_ok() && in_place(1, 2, 8).is_err() && in_place(2, 3, 11).is_ok());
        assert!(!fits(7, Held::Bytes(&torn(1, 2))));
    }
}
