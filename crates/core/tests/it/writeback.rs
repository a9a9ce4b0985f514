//! Who writes back (`writeback=`): every writer above the limit, or one thread for the volume, which keeps no more
//! requests at the device than it is told to, while writers sleep.

use crate::common::{assert_sound, create, in_virtual_time, mount};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_core::{Error, Fs, InodeRef};
use steadyfs_device::{Device, DeviceInfo, Fault, FaultyDevice, MemDevice, Op, OpKind, Request, StreamHint, errno};
use steadyfs_rt::sim::{SimConfig, run};
use steadyfs_rt::{Cost, now, sleep, spawn};

const WRITERS: u64 = 6;
const PAGES: u64 = 128;
const ROUNDS: u64 = 250;
/// What a write of data takes.
const LATE: Duration = Duration::from_micros(200);

/// A device whose writes of data take their time, any number of them at once, and are counted.
struct Late {
    inner: Arc<MemDevice>,
    flying: Arc<AtomicU64>,
    most: Arc<AtomicU64>,
    writes: AtomicU64,
}

impl Late {
    fn new(base: &MemDevice) -> Arc<Self> {
        let inner = Arc::new(base.fork());
        Arc::new(Late { inner, flying: Arc::default(), most: Arc::default(), writes: AtomicU64::new(0) })
    }
}

impl Device for Late {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { synchronous: false, ..self.inner.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            if !matches!(request.op, Op::Write { hint: StreamHint::DataWarm, .. }) {
                self.inner.submit(vec![request]);
                continue;
            }
            self.writes.fetch_add(1, SeqCst);
            self.most.fetch_max(self.flying.fetch_add(1, SeqCst) + 1, SeqCst);
            let (inner, flying) = (Arc::clone(&self.inner), Arc::clone(&self.flying));
            drop(spawn("late", move || {
                sleep(LATE);
                flying.fetch_sub(1, SeqCst);
                inner.submit(vec![request]);
            }));
        }
    }
}

fn page(file: u64, at: u64, round: u64) -> Vec<u8> {
    (file << 48 | at << 24 | round).to_le_bytes().repeat(512)
}

/// Overwrites every second page of a file by turns, so that no two that are dirty lie side by side.
fn overwrite(fs: &Fs, file: &InodeRef, number: u64) {
    for round in 1..=ROUNDS {
        let at = round * 14 % PAGES;
        fs.write(file, at * 4096, &page(number, at, round)).unwrap();
    }
    let mut found = vec![0; 4096];
    for at in 0..PAGES {
        let last = (1..=ROUNDS).rev().find(|round| round * 14 % PAGES == at).unwrap_or(0);
        assert_eq!(fs.read(file, at * 4096, &mut found).unwrap(), 4096);
        assert!(found == page(number, at, last), "file {number}, page {at}");
    }
}

/// Most writes of data at the device at a time, how many there were in all, and how long the writers took.
fn overwritten(base: &MemDevice, options: &str) -> (u64, u64, Duration) {
    let device = Late::new(base);
    let (dev, options) = (Arc::clone(&device), format!("mode=adaptive,ipu=always,cache=1M,commit=0,{options}"));
    let came = in_virtual_time(8, move || {
        let fs = mount(dev.clone() as Arc<dyn Device>, &options);
        let files: Vec<InodeRef> = (0..WRITERS).map(|n| create(&fs, format!("file{n}"))).collect();
        for (n, file) in (0..).zip(&files) {
            (0..PAGES).for_each(|at| assert_eq!(fs.write(file, at * 4096, &page(n, at, 0)).unwrap(), 4096));
            fs.fsync(file, false).unwrap();
        }
        fs.sync().unwrap();
        dev.most.store(0, SeqCst);
        dev.writes.store(0, SeqCst);
        let began = now();
        let writers: Vec<_> = (0..)
            .zip(files)
            .map(|(n, file)| {
                let fs = Arc::clone(&fs);
                spawn("writer", move || overwrite(&fs, &file, n))
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let came = (dev.most.load(SeqCst), dev.writes.load(SeqCst), began.elapsed());
        fs.unmount().unwrap();
        came
    });
    assert_sound(Arc::new(device.inner.fork()), "written");
    came
}

#[test]
fn with_linux_one_thread_writes_back_and_writers_only_sleep() {
    let base = crate::common::mkfs(64, &[]);
    let (most, _, together) = overwritten(&base, "writeback=together");
    assert!(most > 40, "writers write, too: {most} requests at the device");
    let mut before = Duration::MAX;
    for depth in [1, 4, 16] {
        let (most, writes, took) = overwritten(&base, &format!("writeback=linux:{depth}"));
        println!("depth {depth}: {most} at the device, {writes} in all, {took:?}; together {together:?}");
        assert_eq!(most, depth, "no more than allowed, and as many as that");
        // While the writers write, all but what the cache may hold of it has to land, so many at a time.
        let waves = u32::try_from((writes - 45) / depth).unwrap();
        assert!(took >= LATE * waves * 9 / 10, "{writes} writes in {took:?}");
        assert!(took * 2 < before && took > together, "depth {depth}: {took:?}, before {before:?}");
        before = took;
    }
}

/// A writer sleeps for a thread that cannot work no longer than it takes to learn that.
#[test]
fn who_sleeps_for_the_flusher_is_told_when_the_device_refuses() {
    let base = Arc::new(crate::common::mkfs(64, &[]));
    in_virtual_time(2, move || {
        let device = Arc::new(FaultyDevice::new(base.fork()));
        let fs = mount(Arc::clone(&device) as Arc<dyn Device>, "cache=1M,commit=0,writeback=linux");
        let file = create(&fs, "file");
        fs.sync().unwrap();
        device.add(Fault::fail(errno::EIO).on(OpKind::Write));
        let began = now();
        let refused = (0..4 * PAGES).find_map(|at| fs.write(&file, at * 4096, &page(0, at, 0)).err());
        assert!(matches!(refused, Some(Error::Io(_))), "{refused:?}");
        assert!(began.elapsed() < Duration::from_secs(60), "told after {:?}", began.elapsed());
    });
}

/// Linux' writers set a timer, so what lands wakes nobody; here it wakes one of them for what he may write then. With
/// all of them woken for each page that lands, their waking up takes the flusher's time.
#[test]
fn what_lands_wakes_one_writer_and_not_all() {
    let base = Arc::new(crate::common::mkfs(256, &[]));
    let took = |wake_up: u32| {
        let base = Arc::clone(&base);
        let mut config = SimConfig { cores: 48, ..SimConfig::default() };
        config.costs.set(Cost::WakeUp, wake_up);
        let report = run(config, move || {
            let fs = mount(
                Arc::new(base.fork()) as Arc<dyn Device>,
                "mode=adaptive,ipu=always,cache=16M,commit=0,writeback=linux",
            );
            let files: Vec<InodeRef> = (0..32).map(|n| create(&fs, format!("file{n}"))).collect();
            for file in &files {
                fs.write(file, 0, &[7; 128 * 4096]).unwrap();
            }
            fs.sync().unwrap();
            let began = now();
            let writers = files.into_iter().map(|file| {
                let fs = Arc::clone(&fs);
                spawn("writer", move || {
                    (0..1000).for_each(|n| assert_eq!(fs.write(&file, n * 14 % 128 * 4096, &[8; 4096]).unwrap(), 4096));
                })
            });
            writers.collect::<Vec<_>>().into_iter().for_each(|writer| writer.join().unwrap());
            let took = began.elapsed();
            fs.unmount().unwrap();
            took
        });
        report.unwrap_or_else(|failure| panic!("{failure}")).value
    };
    let (free, dear) = (took(0), took(10_000));
    println!("{free:?}, and {dear:?} if each wake-up takes 10 us");
    assert!(dear < free * 4, "{free:?}, and {dear:?} if each wake-up takes 10 us");
}
