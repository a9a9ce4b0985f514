//! A writer who collects by itself beside collectors that have queued all victims.

use super::*;
use crate::error::Result;
use crate::fs::Fs;
use crate::gate::admission::Admission;
use crate::mkfs::{self, MkfsOptions};
use crate::{Error, InodeRef, MountOptions, NewInode};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use steadyfs_device::{Device, MemDevice};
use steadyfs_format::{Log, SegNo};
use steadyfs_rt::sim::{SimConfig, run};
use steadyfs_rt::{now, sleep, spawn};

/// How long the collector works that has them.
const WORK: Duration = Duration::from_millis(5);

/// A volume without a free section, and what makes it so: open segments, and victims that somebody has claimed.
struct Exhausted {
    fs: Arc<Fs>,
    _file: InodeRef,
    opened: Vec<SegNo>,
    claimed: Vec<SegNo>,
}

impl Exhausted {
    fn new() -> Self {
        let device = MemDevice::new(96 << 8);
        mkfs::format(&device, &MkfsOptions::new([7; 16], 1_700_000_000)).unwrap();
        let options = MountOptions::parse("gc=scalelfs,gc.collectors=1,background_gc=off").unwrap();
        let fs = Fs::mount(Arc::new(device) as Arc<dyn Device>, options).unwrap();
        let file =
            fs.create(&fs.root().unwrap(), b"file", &NewInode { mode: 0o100_644, ..NewInode::default() }).unwrap();
        fs.write(&file, 0, &vec![1; 20 << 20]).unwrap();
        fs.sync().unwrap();
        let opened = std::iter::from_fn(|| fs.vol.segments().table.open(None, Log::WarmData.number())).collect();
        let claimed: Vec<_> = (0..fs.vol.segments().table.len())
            .map(SegNo::new)
            .filter(|seg| fs.vol.segments().table.claim(*seg))
            .collect();
        assert!(claimed.len() >= 8, "{} victims", claimed.len());
        Exhausted { fs, _file: file, opened, claimed }
    }

    /// The collector is at work now.
    fn begin(&self) {
        self.gate().lock().working += 1;
    }

    /// It is done; it has made room if it was to.
    fn end(&self, made_room: bool) {
        self.claimed.iter().for_each(|seg| self.fs.vol.segments().table.unclaim(*seg));
        if made_room {
            self.opened.iter().for_each(|seg| self.fs.vol.segments().table.close(*seg));
        }
        self.gate().lock().working -= 1;
        self.fs.files.gate.announce_room();
    }

    fn gate(&self) -> &Mutex<Gate> {
        &self.fs.reclaim.host().pool.as_ref().unwrap().shared.gate
    }
}

/// What a writer gets that collects by itself while a collector has every victim, and after how long.
fn beside_a_collector(makes_room: bool) -> (Result<()>, Duration) {
    let report = run(SimConfig::default(), move || {
        let volume = Arc::new(Exhausted::new());
        volume.begin();
        let others = Arc::clone(&volume);
        let collector = spawn("collector", move || {
            sleep(WORK);
            others.end(makes_room);
        });
        let began = now();
        let outcome = volume.fs.reclaim.collect_patiently();
        let took = began.elapsed();
        collector.join().unwrap();
        (outcome, took)
    });
    report.unwrap().value
}

#[test]
fn a_writer_without_a_victim_waits_for_collectors_that_have_one() {
    let (outcome, took) = beside_a_collector(true);
    outcome.unwrap();
    assert!(took >= WORK, "{took:?}");
}

/// One who asked in vain was counted for a moment; it goes to wait for the writer that collects, so that this must not
/// wait for it.
#[test]
fn a_writer_does_not_wait_for_one_that_was_not_admitted() {
    let report = run(SimConfig::default(), || {
        let volume = Arc::new(Exhausted::new());
        let other = Arc::clone(&volume);
        let asking = spawn("asking", move || {
            let refuse = || {
                sleep(WORK);
                false
            };
            assert!(Admission::if_room(&other.fs.reclaim.host().admissions, 256, refuse).is_none());
        });
        sleep(WORK / 100);
        let (other, waited) = (Arc::clone(&volume), Arc::new(OnceLock::new()));
        let told = Arc::clone(&waited);
        let alone = spawn("alone", move || {
            let began = now();
            let outcome = other.fs.reclaim.collect_patiently();
            let _ = told.set((outcome, began.elapsed()));
        });
        // It would wait for ever, and the volume's housekeeper beside it does not let the simulation end.
        sleep(WORK * 100);
        assert!(waited.get().is_some(), "it still waits");
        asking.join().unwrap();
        alone.join().unwrap();
        Arc::into_inner(waited).and_then(OnceLock::into_inner).unwrap()
    });
    let (outcome, took) = report.unwrap().value;
    assert!(matches!(outcome, Err(Error::NoSpace)), "{outcome:?}");
    assert!(took >= WORK / 2, "it did not wait at all: {took:?}");
}

#[test]
fn a_volume_is_full_when_nobody_is_at_work() {
    let report = run(SimConfig::default(), || {
        let volume = Exhausted::new();
        let began = now();
        (volume.fs.reclaim.collect_patiently(), began.elapsed())
    });
    let (outcome, took) = report.unwrap().value;
    assert!(matches!(outcome, Err(Error::NoSpace)), "{outcome:?}");
    assert!(took < WORK, "{took:?}");
}

/// Threads of a mount to which a page cache above ours gives back all at once, and how much each is given.
const WRITERS: u64 = 64;
const PIECE: u64 = 1 << 20;

/// They overwrite a file that fills the volume, three times. The fewest free sections that any of them saw, and the
/// reserve.
fn overwritten_by_many() -> (u64, u64) {
    let device = Arc::new(MemDevice::new(512 << 8));
    mkfs::format(&*device, &MkfsOptions::new([7; 16], 1_700_000_000)).unwrap();
    let options = MountOptions::parse("gc=scalelfs,gc.collectors=2").unwrap();
    let fs = Fs::mount(device as Arc<dyn Device>, options).unwrap();
    let file = fs.create(&fs.root().unwrap(), b"file", &NewInode { mode: 0o100_644, ..NewInode::default() }).unwrap();
    let pieces = fs.statfs().blocks_free * 93 / 100 * 4096 / PIECE;
    let least = Arc::new(AtomicU64::new(u64::MAX));
    let write = {
        let (fs, file, least) = (Arc::clone(&fs), file.clone(), Arc::clone(&least));
        move |piece: u64| {
            let data = vec![1; PIECE as usize];
            assert_eq!(fs.write_back(&file, piece % pieces * PIECE, &data, true).unwrap() as u64, PIECE);
            least.fetch_min(fs.vol.segments().table.free_sections(), SeqCst);
        }
    };
    (0..pieces).for_each(&write);
    let writer = |number| {
        let write = write.clone();
        spawn("writer", move || (number..3 * pieces).step_by(WRITERS as usize).for_each(write))
    };
    let writers: Vec<_> = (0..WRITERS).map(writer).collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    fs.unmount().unwrap();
    (least.load(SeqCst), fs.reclaim.host().reserved_sections)
}

/// Free sections say nothing of who has passed the gate already: all who waited see the same ones.
#[test]
fn writers_who_pass_together_leave_what_a_checkpoint_needs() {
    for seed in 0..3 {
        let report = run(SimConfig { cores: 2, seed, ..SimConfig::default() }, overwritten_by_many);
        let (least, reserve) = report.unwrap_or_else(|failure| panic!("seed {seed}: {failure}")).value;
        assert!(least >= reserve / 2, "seed {seed}: {least} sections were free, {reserve} are reserved");
    }
}
