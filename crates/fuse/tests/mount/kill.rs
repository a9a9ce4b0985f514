//! The serving process is killed while fio and appenders write: what fsync had confirmed is there afterwards, byte for
//! byte.
//!
//! The programs that write live on, so what fsync told them is known here whatever becomes of the mount.

use crate::harness::{Place, comes_to_be};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_core::fsck::{CheckOptions, Severity, check};
use steadyfs_device::{FileDevice, OpenOptions as DeviceOptions};
use steadyfs_testkit::Rng;

const ROUNDS: u64 = 20;
const APPENDERS: usize = 3;
/// Bytes of a record: no divisor of a page, so that records lie across pages.
const RECORD: usize = 1000;

/// The record with this number of this appender: every byte can be told.
fn record(appender: usize, number: u64) -> Vec<u8> {
    let mut random = Rng(number.wrapping_mul(APPENDERS as u64 + 1).wrapping_add(appender as u64 + 1));
    std::iter::repeat_with(|| (random.bits() >> 56) as u8).take(RECORD).collect()
}

/// Appends records and syncs each until the mount is gone; counts in `confirmed` what fsync has returned for.
fn append(path: &Path, appender: usize, confirmed: &AtomicU64) {
    let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) else { return };
    loop {
        let number = confirmed.load(SeqCst);
        let synced = file.write_all(&record(appender, number)).and_then(|()| match number % 2 {
            0 => file.sync_all(),
            _ => file.sync_data(),
        });
        if synced.is_err() {
            return;
        }
        confirmed.fetch_add(1, SeqCst);
    }
}

/// Writes files with a new name, syncs them, and moves each over the last: one of both names is always whole.
fn replace(dir: &Path, confirmed: &AtomicU64) {
    loop {
        let number = confirmed.load(SeqCst) + 1;
        let write = || {
            let mut file = File::create(dir.join("new"))?;
            file.write_all(&record(APPENDERS, number))?;
            file.sync_all()?;
            std::fs::rename(dir.join("new"), dir.join("current"))?;
            file.sync_all()
        };
        if write().is_err() {
            return;
        }
        confirmed.store(number, SeqCst);
    }
}

fn fio(file: &Path, extra: &str) -> bool {
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    let status = Command::new("fio")
        .arg(format!("--name={name}"))
        .arg(format!("--filename={}", file.display()))
        .args(["--rw=randwrite", "--bs=4k", "--size=256k", "--ioengine=psync", "--verify=crc32c", "--verify_fatal=1"])
        .args(["--randrepeat=1", "--end_fsync=1", "--thread", "--verify_state_save=0", extra])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.expect("fio is installed").success()
}

/// Runs fio jobs, each on a file of its own, until the mount is gone; the files of those that fio and fsync say are
/// written.
fn write_with_fio(dir: &Path, round: u64, over: &AtomicBool, done: &AtomicU64) -> Vec<PathBuf> {
    let jobs = (0..).map(|n| dir.join(format!("fio.{round}.{n}")));
    let whole = jobs.take_while(|file| !over.load(SeqCst) && fio(file, "--do_verify=0"));
    whole.inspect(|_| done.store(done.load(SeqCst) + 1, SeqCst)).collect()
}

fn check_appended(path: &Path, appender: usize, confirmed: u64) {
    let mut data = Vec::new();
    if confirmed > 0 {
        File::open(path).and_then(|mut file| file.read_to_end(&mut data)).expect("a file that was synced");
    }
    let whole = data.chunks_exact(RECORD).take(confirmed as usize);
    assert_eq!(whole.len() as u64, confirmed, "appender {appender}: {} bytes", data.len());
    for (number, found) in whole.enumerate() {
        assert!(found == record(appender, number as u64), "appender {appender}: record {number} of {confirmed}");
    }
    // Behind the confirmed ones only what was written next may be, or zeros.
    for (number, found) in data.chunks(RECORD).enumerate().skip(confirmed as usize) {
        let expected = record(appender, number as u64);
        let same = found.iter().zip(&expected).all(|(a, b)| a == b || *a == 0);
        assert!(same, "appender {appender}: foreign bytes behind record {confirmed}");
    }
}

fn check_replaced(dir: &Path, confirmed: u64) {
    if confirmed > 0 {
        let found = std::fs::read(dir.join("current")).expect("a name that was synced");
        let known = [confirmed, confirmed + 1].map(|number| record(APPENDERS, number));
        assert!(known.contains(&found), "the replaced file is not as of replacement {confirmed}");
    }
}

/// Our own checker: fsck.f2fs 1.15 gives up on a chain of fsynced nodes that leads into the last segments of a volume,
/// which it takes to be smaller than it is. It sees the volume at the end.
fn check_crashed(image: &Path) {
    let device = FileDevice::open(image, DeviceOptions { read_only: true, ..DeviceOptions::default() });
    let report = check(Arc::new(device.expect("the image opens")), &CheckOptions::default()).expect("readable");
    let bad: Vec<_> = report.issues.iter().filter(|issue| issue.severity() > Severity::Note).collect();
    assert!(bad.is_empty(), "after a kill: {bad:#?}");
}

/// Cuts what was appended behind the confirmed records, so that the next round goes on there.
fn cut(path: &Path, confirmed: u64) {
    if let Ok(file) = OpenOptions::new().write(true).open(path) {
        file.set_len(confirmed * RECORD as u64).and_then(|()| file.sync_all()).expect("the file can be cut");
    }
}

#[test]
fn what_was_fsynced_survives_twenty_kills() {
    let place = Place::sized(512 << 20);
    let appended: [AtomicU64; APPENDERS] = [const { AtomicU64::new(0) }; APPENDERS];
    let replaced = AtomicU64::new(0);
    let mut written: Vec<PathBuf> = Vec::new();
    let log = |appender: usize| place.at(&format!("log{appender}"));
    let jobs = AtomicU64::new(0);
    let progress = || {
        let appended = appended.iter().map(|confirmed| confirmed.load(SeqCst)).sum::<u64>();
        [appended, replaced.load(SeqCst), jobs.load(SeqCst)]
    };
    for round in 0..ROUNDS {
        let mut served = place.mount("commit=1");
        written.drain(..).for_each(|file| {
            assert!(fio(&file, "--verify_only=1"), "{} is not as fio wrote it", file.display());
            std::fs::remove_file(file).expect("it can go");
        });
        for (appender, confirmed) in appended.iter().enumerate() {
            check_appended(&log(appender), appender, confirmed.load(SeqCst));
            cut(&log(appender), confirmed.load(SeqCst));
        }
        check_replaced(&place.dir(), replaced.load(SeqCst));
        let (over, before) = (AtomicBool::new(false), progress());
        std::thread::scope(|threads| {
            for (appender, confirmed) in appended.iter().enumerate() {
                let path = log(appender);
                threads.spawn(move || append(&path, appender, confirmed));
            }
            threads.spawn(|| replace(&place.dir(), &replaced));
            let fios = threads.spawn(|| write_with_fio(&place.dir(), round, &over, &jobs));
            let all_wrote = comes_to_be(|| progress().iter().zip(before).all(|(now, before)| *now > before));
            // Every round at another moment of what goes on: checkpoints come every second.
            std::thread::sleep(Duration::from_millis(400 + round * 67 % 900));
            served.kill();
            over.store(true, SeqCst);
            written = fios.join().expect("fio ran");
            assert!(all_wrote, "too little was written to show anything: {before:?}, then {:?}", progress());
        });
        check_crashed(&place.source);
    }
    let [synced, replaced, jobs] = progress();
    println!(
        "{ROUNDS} kills: {synced} appended records, {replaced} replaced files, {jobs} fio jobs had been confirmed"
    );
    let served = place.mount("");
    (0..APPENDERS).for_each(|appender| check_appended(&log(appender), appender, appended[appender].load(SeqCst)));
    served.stop();
    place.check();
}
