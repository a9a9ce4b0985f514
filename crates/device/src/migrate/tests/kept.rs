//! The host on a device in files. A kill comes at any moment: what its directory holds then is what there is. A power
//! cut takes back any part of what was not synced, also within flushes.

use super::geometry;
use super::host::{Host, Rng, Tried};
use crate::coupled::Volatile;
use crate::coupled::tests::scratch;
use crate::migrate::Upcall;
use crate::{BLOCK_SIZE, CoupledDevice, OpenOptions};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

impl Tried for CoupledDevice {
    fn try_next(&self) -> Option<Upcall> {
        CoupledDevice::try_next(self)
    }
    fn outstanding(&self) -> usize {
        CoupledDevice::outstanding(self)
    }
    fn tick(&self) -> u64 {
        self.flushes()
    }
}

fn open(path: &Path) -> CoupledDevice {
    CoupledDevice::open(path, OpenOptions::default()).unwrap()
}

/// What another process would find there now.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// What a power cut leaves: of each block that was not synced any version since, or pieces of several; of what was
/// appended to the journal since the last flush, all or the beginning.
fn cut(from: &Path, to: &Path, volatile: &Volatile, journal: u64, rng: &mut Rng) {
    copy(from, to);
    let blocks = File::options().write(true).open(to.join("blocks")).unwrap();
    let mut kept = BTreeSet::new();
    for (block, before) in volatile.undo.iter().rev() {
        // What is kept keeps what came before it.
        if kept.contains(block) || rng.below(3) == 0 && kept.insert(*block) {
            continue;
        }
        let is_torn = rng.below(4) == 0;
        for (at, piece) in (block * BLOCK_SIZE as u64..).step_by(512).zip(before.to_array().chunks(512)) {
            if !is_torn || rng.below(2) == 0 {
                blocks.write_all_at(piece, at).unwrap();
            }
        }
    }
    let file = File::options().write(true).open(to.join("journal")).unwrap();
    let len = file.metadata().unwrap().len();
    // One that began anew is shorter, and took its place durably.
    let lost = if rng.below(2) == 0 { 0 } else { rng.below(len.saturating_sub(journal) + 1) };
    file.set_len(len - lost).unwrap();
}

/// Has the device leave at `to` what a power cut at one of its moments would, all of them with the same chance, and
/// tell how many flushes had ended by then; `u64::MAX` before the first.
fn cut_sometime(device: &CoupledDevice, from: &Path, to: &Path, seed: u64) -> Arc<AtomicU64> {
    let length = |place: &Path| std::fs::metadata(place.join("journal")).unwrap().len();
    let (from, to, mut rng) = (from.to_owned(), to.to_owned(), Rng(seed));
    let (mut moments, mut flushes, mut journal) = (0, 0, length(&from));
    let cut_at = Arc::new(AtomicU64::new(u64::MAX));
    let told = Arc::clone(&cut_at);
    device.at_moments(move |volatile| {
        if volatile.flushes > flushes {
            (flushes, journal) = (volatile.flushes, length(&from));
        }
        moments += 1;
        if rng.below(moments) == 0 {
            let _ = std::fs::remove_dir_all(&to);
            cut(&from, &to, volatile, journal, &mut rng);
            told.store(flushes, SeqCst);
        }
    });
    cut_at
}

/// What sessions came to.
#[derive(Default, Debug)]
struct Sum {
    served: u64,
    again: u64,
    with_outstanding: u64,
    cuts: u64,
}

/// Four sessions, each of which ends by a kill, or by a power cut within what it did.
fn live(seed: u64, cuts: bool, sum: &mut Sum) {
    let mut rng = Rng(seed);
    let dir = scratch();
    let place = |session: u64| dir.path().join(session.to_string());
    CoupledDevice::create(place(0), &geometry()).unwrap();
    let mut device = open(&place(0));
    let mut host = Host::format(&device, None);
    for session in 1..5 {
        let (here, next) = (place(session - 1), place(session));
        let cut_at = cuts.then(|| cut_sometime(&device, &here, &next, rng.next()));
        for _ in 0..60 + rng.below(60) {
            host.act(&device, &mut rng);
        }
        // A cut before the first checkpoint of the session is one of the last session, which has been tried.
        let cut_at = cut_at.map(|at| at.load(SeqCst)).filter(|at| (host.first_promise()..u64::MAX).contains(at));
        if cut_at.is_none() {
            let _ = std::fs::remove_dir_all(&next);
            copy(&here, &next);
        }
        sum.cuts += u64::from(cut_at.is_some());
        let promised = host.promised_at(cut_at.unwrap_or(device.flushes()));
        (sum.served, sum.again) = (sum.served + host.served_now, sum.again + host.again);
        device = open(&next);
        sum.with_outstanding += u64::from(device.outstanding() > 0);
        host = Host::recover(&device, None, &promised);
    }
    host.settle(&device);
    assert_eq!(device.outstanding(), 0, "seed {seed}");
    host.compare(&device);
    assert_eq!(device.held().len(), host.needs(), "seed {seed} leaks");
    sum.again += host.again;
}

#[test]
fn a_host_on_a_device_in_files_loses_and_leaks_nothing_when_it_is_killed() {
    let mut sum = Sum::default();
    (0..40).for_each(|seed| live(seed, false, &mut sum));
    println!("{sum:?} of 160 kills");
    assert!(sum.served > 5000 && sum.with_outstanding > 80, "the device was idle: {sum:?}");
}

#[test]
fn a_host_on_a_device_in_files_loses_and_leaks_nothing_when_the_power_is_cut() {
    let mut sum = Sum::default();
    (100..140).for_each(|seed| live(seed, true, &mut sum));
    println!("{sum:?} of 160 ends");
    assert!(sum.served > 5000 && sum.with_outstanding > 60 && sum.cuts > 120, "the device was idle: {sum:?}");
}
