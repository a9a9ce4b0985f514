//! The host on a device in files. A kill comes at any change of these files: what its directory holds then is what
//! there is. A power cut takes back any part of what was not synced.

use super::host::{Host, Rng, Tried};
use super::{ZONE, geometry};
use crate::migrating::files::Volatile;
use crate::migrating::files::tests::scratch;
use crate::migrating::{Ledger, MigrationGeometry, Migrations, Upcall};
use crate::{BLOCK_SIZE, Device, MigratingDevice, OpenOptions, PageBuf};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_rt::{LockClass, Mutex};

static PROMISED: LockClass = LockClass::new("device.migrating.cuts.promised", u16::MAX - 10);

impl Tried for MigratingDevice {
    fn try_next(&self) -> Option<Upcall> {
        MigratingDevice::try_next(self)
    }
    fn outstanding(&self) -> usize {
        MigratingDevice::outstanding(self)
    }
    fn tick(&self) -> u64 {
        self.flushes()
    }
}

fn open(path: &Path) -> MigratingDevice {
    MigratingDevice::open(path, OpenOptions::default()).unwrap()
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
fn cut(from: &Path, to: &Path, volatile: &Volatile, rng: &mut Rng) {
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
    let lost = if rng.below(2) == 0 { 0 } else { rng.below(len - volatile.journal + 1) };
    file.set_len(len - lost).unwrap();
}

/// What ends a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The system keeps all that was written.
    Kill,
    PowerCut,
}

/// What such an end leaves.
fn leave(from: &Path, to: &Path, end: End, volatile: &Volatile, rng: &mut Rng) {
    match end {
        End::Kill => copy(from, to),
        End::PowerCut => cut(from, to, volatile, rng),
    }
}

/// Has the device leave at `to` what such an end at one of its moments would, all of them with the same chance, and
/// tell how many flushes had ended by then; `u64::MAX` before the first.
fn cut_sometime(device: &MigratingDevice, from: &Path, to: &Path, end: End, seed: u64) -> Arc<AtomicU64> {
    let (from, to, mut rng) = (from.to_owned(), to.to_owned(), Rng(seed));
    let mut moments = 0;
    let chosen = rng.below(MOMENTS);
    let cut_at = Arc::new(AtomicU64::new(u64::MAX));
    let told = Arc::clone(&cut_at);
    device.at_moments(move |volatile| {
        moments += 1;
        if moments == chosen {
            leave(&from, &to, end, volatile, &mut rng);
            told.store(volatile.flushes, SeqCst);
        }
    });
    cut_at
}

/// A session has about so many moments.
const MOMENTS: u64 = 400;

/// What sessions came to.
#[derive(Default, Debug)]
struct Sum {
    served: u64,
    again: u64,
    with_outstanding: u64,
    cuts: u64,
}

/// Four sessions, each of which ends within what it does, or behind it. In every second life the host is slow to hear.
fn live(seed: u64, end: End, sum: &mut Sum) {
    let mut rng = Rng(seed);
    let dir = scratch();
    let place = |session: u64| dir.path().join(session.to_string());
    MigratingDevice::create(place(0), &geometry()).unwrap();
    let mut device = open(&place(0));
    let mut host = Host::format(&device, None);
    let is_slow = seed % 2 == 1;
    for session in 1..5 {
        let (here, next) = (place(session - 1), place(session));
        host.is_slow = is_slow;
        let cut_at = cut_sometime(&device, &here, &next, end, rng.next());
        for _ in 0..60 + rng.below(60) * (1 + 3 * u64::from(is_slow)) {
            host.act(&device, &mut rng);
        }
        // A cut before the first checkpoint of the session is one of the last session, which has been tried.
        let cut_at = Some(cut_at.load(SeqCst)).filter(|at| (host.first_promise()..u64::MAX).contains(at));
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
    (0..40).for_each(|seed| live(seed, End::Kill, &mut sum));
    println!("{sum:?} of 160 ends");
    assert!(sum.served > 3500 && sum.with_outstanding > 45 && sum.cuts > 90, "the device was idle: {sum:?}");
}

#[test]
fn a_host_on_a_device_in_files_loses_and_leaks_nothing_when_the_power_is_cut() {
    let mut sum = Sum::default();
    (100..140).for_each(|seed| live(seed, End::PowerCut, &mut sum));
    println!("{sum:?} of 160 ends");
    assert!(sum.served > 3500 && sum.with_outstanding > 45 && sum.cuts > 90, "the device was idle: {sum:?}");
}

/// The contents of a block that is written once.
fn own(block: u64) -> PageBuf {
    PageBuf::from_slice(&block.to_le_bytes().repeat(BLOCK_SIZE / 8))
}

/// What a kill must leave: the ledger of the last flush, and pages that have been flushed and are not discarded since.
struct Promised {
    ledger: Ledger,
    /// Bytes of the journal that say so.
    journal: u64,
    pages: BTreeSet<u64>,
}

/// A host that never listens, so that all records wait and become one with the next. It writes each zone once, keeps
/// some of its pages, discards older ones, and flushes now and then. A kill at any moment leads back to the journal of
/// the last flush, and to blocks as they are then; how many moments were looked at.
fn deaf(seed: u64) -> u64 {
    let mut rng = Rng(seed);
    let (dir, wide) = (scratch(), geometry());
    let (regular, gc) = (wide.regular.start + 40 * ZONE, wide.regular.start + 54 * ZONE);
    let areas = MigrationGeometry { regular: wide.regular.start..regular, gc: regular..gc, ..wide };
    MigratingDevice::create(dir.path(), &areas).unwrap();
    let device = open(dir.path());
    device.resume(0);
    device.complete(0);
    let promised = Promised { ledger: Ledger::new(areas.clone()), journal: 0, pages: BTreeSet::new() };
    let promised = Arc::new(Mutex::new(&PROMISED, promised));
    let looked = look_at_moments(&device, dir.path(), &promised, seed);
    let (mut held, most) = (BTreeSet::new(), 60 + rng.below(40) as usize);
    for zone in areas.regular.step_by(ZONE as usize) {
        for block in zone..zone + ZONE {
            device.write(block, vec![own(block)]).unwrap();
            held.insert(block);
        }
        // Many zones hold a few pages, so that the device has much to empty. Of old ones, which it has moved to one
        // place, fewest are left.
        let fresh: Vec<u64> = (zone..zone + ZONE).skip(2 + rng.below(6) as usize).collect();
        let surplus = (held.len() - fresh.len()).saturating_sub(most);
        let old: Vec<usize> = (0..surplus).map(|_| rng.below(10) as usize).collect();
        let old: BTreeSet<u64> = old.into_iter().filter_map(|at| held.iter().nth(at).copied()).collect();
        for block in fresh.into_iter().chain(old) {
            promised.lock().pages.remove(&block);
            device.discard(block, 1).unwrap();
            held.remove(&block);
        }
        if rng.below(4) == 0 {
            device.flush().unwrap();
            let journal = std::fs::metadata(dir.path().join("journal")).unwrap().len();
            *promised.lock() = Promised { ledger: device.ledger(), journal, pages: held.clone() };
        }
    }
    looked.load(SeqCst)
}

/// Has each moment of the device find what is promised.
fn look_at_moments(device: &MigratingDevice, dir: &Path, promised: &Arc<Mutex<Promised>>, seed: u64) -> Arc<AtomicU64> {
    let (promised, looked) = (Arc::clone(promised), Arc::new(AtomicU64::new(0)));
    let (told, blocks) = (Arc::clone(&looked), File::open(dir.join("blocks")).unwrap());
    device.at_moments(move |volatile| {
        let Promised { ledger, journal, pages } = &*promised.lock();
        // The end of a flush, which the host has not heard of.
        if volatile.journal != *journal {
            return;
        }
        for page in pages {
            let at = ledger.resolve(*page).expect("it was flushed");
            let mut found = [0; 8];
            blocks.read_exact_at(&mut found, at * BLOCK_SIZE as u64).unwrap();
            let found = u64::from_le_bytes(found);
            assert_eq!(found, *page, "seed {seed}: the journal finds block {page} at {at}, where another one is");
        }
        told.fetch_add(1, SeqCst);
    });
    looked
}

#[test]
fn what_was_flushed_survives_a_kill_at_each_moment_though_nobody_listens_to_the_device() {
    let looked: u64 = (0..40).map(deaf).sum();
    println!("{looked} moments");
    assert!(looked > 20_000, "the device was idle at {looked} moments");
}
