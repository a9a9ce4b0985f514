//! The test beds: each does its work on a small volume in virtual time, with a mount option more, and says what was
//! wrong.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use steadyfs_core::fsck::{CheckOptions, check};
use steadyfs_core::mkfs::{self, MkfsOptions};
use steadyfs_core::{Error, Fs, InodeRef, MountOptions, NewInode};
use steadyfs_crash::load::{FillPlan, Library, Until, prepare, run, verify};
use steadyfs_device::{Device, DeviceInfo, MemDevice, Op, Request};
use steadyfs_rt::sim::{self, SimConfig};
use steadyfs_rt::{sleep, spawn};
use steadyfs_testkit::Rng;

const PAGE: usize = 4096;

type Outcome = Result<(), String>;

fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}

/// A volume, and the blocks of its SSA.
fn volume(mib: u64) -> (MemDevice, Range<u64>) {
    let device = MemDevice::new(mib << 8);
    let made = mkfs::format(&device, &MkfsOptions::new([0x5f; 16], 1_700_000_000)).expect("a volume");
    let layout = made.plan.layout;
    (device, layout.ssa.get()..layout.main.get())
}

fn simulate(cores: usize, seed: u64, f: impl FnOnce() -> Outcome + 'static) -> Outcome {
    let report = sim::run(SimConfig { cores, seed, ..SimConfig::default() }, f).map_err(text)?;
    report.value
}

fn mount(device: Arc<dyn Device>, options: &str) -> Result<Arc<Fs>, String> {
    Fs::mount(device, MountOptions::parse(options).map_err(text)?).map_err(text)
}

/// A file whose pages say which version they are.
struct Paged {
    file: InodeRef,
    versions: Vec<u32>,
    random: Rng,
}

fn page(number: usize, version: u32) -> Vec<u8> {
    let word = (number as u64) << 32 | u64::from(version);
    word.to_le_bytes().repeat(PAGE / 8)
}

impl Paged {
    fn new(fs: &Fs, pages: u64) -> Result<Self, Error> {
        let new = NewInode { mode: 0o100_644, ..NewInode::default() };
        let file = fs.create(&fs.root()?, b"paged", &new)?;
        let mut paged = Paged { file, versions: vec![0; pages as usize], random: Rng(77) };
        (0..pages as usize).try_for_each(|number| paged.write(fs, number))?;
        Ok(paged)
    }

    fn write(&mut self, fs: &Fs, number: usize) -> Result<(), Error> {
        self.versions[number] += 1;
        let written = fs.write(&self.file, (number * PAGE) as u64, &page(number, self.versions[number]))?;
        if written == PAGE { Ok(()) } else { Err(Error::NoSpace) }
    }

    fn overwrite(&mut self, fs: &Fs, times: usize) -> Result<(), Error> {
        for _ in 0..times {
            let number = self.random.below(self.versions.len() as u64);
            self.write(fs, number as usize)?;
        }
        Ok(())
    }

    fn verify(&self, fs: &Fs) -> Outcome {
        let mut seen = vec![0; PAGE];
        for (number, version) in self.versions.iter().enumerate() {
            fs.read(&self.file, (number * PAGE) as u64, &mut seen).map_err(text)?;
            if seen != page(number, *version) {
                return Err(format!("page {number} is not of version {version}: {:?}", &seen[..8]));
            }
        }
        Ok(())
    }
}

/// 48 writers on 48 cores, all at the same moment, on a volume that has to collect for them: one round serves all.
pub(crate) fn a_herd(gc: &str) -> Outcome {
    const WRITERS: usize = 48;
    const BURSTS: usize = 12;
    let gc = gc.to_owned();
    simulate(WRITERS, 3, move || {
        let (device, _) = volume(96);
        let fs = mount(Arc::new(device), &format!("cache=1M,{gc}"))?;
        let mut paged = Paged::new(&fs, fs.statfs().blocks_free * 60 / 100).map_err(text)?;
        while fs.gc_totals().victims < 3 {
            paged.overwrite(&fs, 256).map_err(text)?;
        }
        let new = NewInode { mode: 0o100_644, ..NewInode::default() };
        let root = fs.root().map_err(text)?;
        let files: Result<Vec<_>, _> =
            (0..WRITERS).map(|n| fs.create(&root, format!("w{n}").as_bytes(), &new)).collect();
        let files = files.map_err(text)?;
        let mut worst = 0;
        for burst in 0..BURSTS {
            // Up to where the next change has to wait.
            while fs.sections().free > fs.sections().needed {
                paged.overwrite(&fs, 16).map_err(text)?;
            }
            let before = fs.gc_times().rounds;
            let writers: Vec<_> = files
                .iter()
                .map(|file| {
                    let (fs, file) = (Arc::clone(&fs), file.clone());
                    spawn("writer", move || {
                        fs.write_direct(&file, (burst * PAGE) as u64, &[7; PAGE]).map(drop).map_err(text)
                    })
                })
                .collect();
            for writer in writers {
                writer.join().map_err(text)??;
            }
            // A round counts when it has ended, which may be after the last of those that it made room for.
            sleep(Duration::from_millis(50));
            worst = worst.max(fs.gc_times().rounds - before);
        }
        fs.unmount().map_err(text)?;
        match worst {
            0 => Err("no burst had to wait".into()),
            1..=3 => Ok(()),
            rounds => Err(format!("{rounds} rounds for one burst of {WRITERS} writes")),
        }
    })
}

/// A device that takes long to write summaries, and notes whether two writes of one are under way together.
struct SlowSummaries {
    inner: Arc<MemDevice>,
    ssa: Range<u64>,
    flying: Arc<Mutex<BTreeMap<u64, u32>>>,
    overlaps: AtomicU64,
    saves: AtomicU64,
}

impl Device for SlowSummaries {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { synchronous: false, ..self.inner.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            let inner = Arc::clone(&self.inner);
            let block = match &request.op {
                Op::Write { block, .. } if self.ssa.contains(block) => *block,
                _ => {
                    sim::call_after(Duration::from_micros(5), move || inner.submit(vec![request]));
                    continue;
                }
            };
            self.saves.fetch_add(1, SeqCst);
            let mut flying = self.flying.lock().expect("not poisoned");
            let now = flying.entry(block).or_default();
            self.overlaps.fetch_add(u64::from(*now > 0), SeqCst);
            *now += 1;
            let (all, done) = (Arc::clone(&self.flying), request.done);
            let request = Request::new(request.op, move |result| {
                *all.lock().expect("not poisoned").get_mut(&block).expect("it flies") -= 1;
                done(result);
            });
            sim::call_after(Duration::from_millis(20), move || inner.submit(vec![request]));
        }
    }
}

/// Load on a device that takes long to write summaries.
pub(crate) fn slow_summaries(more: &str) -> Outcome {
    let options = format!("gc=scalelfs,gc.collectors=5,cache=1M,{more}");
    simulate(16, 5, move || {
        let (device, ssa) = volume(88);
        let inner = Arc::new(device);
        let (overlaps, saves) = (AtomicU64::new(0), AtomicU64::new(0));
        let device =
            Arc::new(SlowSummaries { inner: Arc::clone(&inner), ssa, flying: Arc::default(), overlaps, saves });
        let fs = mount(Arc::clone(&device) as _, &options)?;
        let target = Arc::new(Library(Arc::clone(&fs)));
        let contents = prepare(&target, &FillPlan { writers: 8, files: 3, full: 900 }).map_err(text)?;
        let (contents, _) = run(&target, contents, 5, Until::Operations(150)).map_err(text)?;
        verify(&target, &contents).map_err(text)?;
        fs.unmount().map_err(text)?;
        if device.saves.load(SeqCst) < 100 {
            return Err(format!("few summaries were written: {}", device.saves.load(SeqCst)));
        }
        match device.overlaps.load(SeqCst) {
            0 => clean(inner),
            count => Err(format!("{count} writes of summaries while another one was under way")),
        }
    })
}

fn clean(device: Arc<dyn Device>) -> Outcome {
    let found = check(device, &CheckOptions { threads: 1, force: true, ..CheckOptions::default() }).map_err(text)?;
    if found.is_clean() { Ok(()) } else { Err(format!("the checker finds {:?}", found.issues)) }
}

/// Filled to the last block, with a stream for each of as many collectors as there can be: nearly all space was given
/// out, and overwriting goes on.
pub(crate) fn a_full_volume(more: &str) -> Outcome {
    let options = format!("gc=scalelfs,gc.collectors=64,cache=1M,{more}");
    simulate(8, 7, move || {
        let (device, _) = volume(96);
        let device = Arc::new(device);
        let fs = mount(Arc::clone(&device) as _, &options)?;
        let pages = fs.statfs().blocks_free * 90 / 100;
        let mut paged = Paged::new(&fs, pages).map_err(text)?;
        paged.overwrite(&fs, pages as usize / 2).map_err(|e| format!("overwriting: {e}"))?;
        let new = NewInode { mode: 0o100_644, ..NewInode::default() };
        let last = fs.create(&fs.root().map_err(text)?, b"last", &new).map_err(text)?;
        let mut off = 0;
        let full = loop {
            match fs.write(&last, off, &[9; 8 * PAGE]) {
                Ok(written) => off += written as u64,
                Err(e) => break e,
            }
        };
        let left = fs.statfs().blocks_free;
        if !matches!(full, Error::NoSpace) || left > 16 {
            return Err(format!("'{full}' with {left} blocks free"));
        }
        paged.overwrite(&fs, 1000).map_err(|e| format!("overwriting the full volume: {e}"))?;
        paged.verify(&fs)?;
        fs.unmount().map_err(text)?;
        clean(device)
    })
}
