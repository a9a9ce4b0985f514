//! Collection in the gaps between bursts of requests, in virtual time.

use crate::common::{assert_sound, create, mount};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::{Fs, InodeRef};
use steadyfs_device::{Device, MemDevice};
use steadyfs_rt::sim::{SimConfig, events, run};
use steadyfs_rt::sleep;
use steadyfs_testkit::Rng;

const BURST: u64 = 4096;

/// Overwrites pages at random, and notes for each what it holds now.
fn burst(fs: &Fs, file: &InodeRef, held: &mut [u8], random: &mut Rng) {
    for _ in 0..BURST {
        let page = random.below(held.len() as u64) as usize;
        held[page] = held[page].wrapping_add(1);
        fs.write_direct(file, page as u64 * 4096, &[held[page]; 4096]).unwrap();
    }
}

/// What a run came to.
#[derive(Debug)]
struct Came {
    /// Sections that were emptied while bursts went on, and between them.
    in_bursts: u64,
    in_gaps: u64,
    /// Scheduling events of ten quiet seconds at the end.
    quiet_events: u64,
}

/// Bursts on a volume that is 90 % full, with gaps between them.
fn bursts(options: &'static str) -> Came {
    let device = Arc::new(crate::common::mkfs(256, &[]));
    let dev = Arc::clone(&device) as Arc<dyn Device>;
    let report = run(SimConfig { cores: 4, ..SimConfig::default() }, move || {
        let fs = mount(dev, options);
        let file = create(&fs, "file");
        let pages = fs.statfs().blocks_free * 9 / 10;
        for page in 0..pages {
            fs.write_direct(&file, page * 4096, &[0; 4096]).unwrap();
        }
        let (mut held, mut random) = (vec![0u8; pages as usize], Rng(1));
        let emptied = || fs.gc_totals().sections_freed;
        let mut came = Came { in_bursts: 0, in_gaps: 0, quiet_events: 0 };
        for round in 0..20 {
            let before = emptied();
            burst(&fs, &file, &mut held, &mut random);
            let between = emptied();
            sleep(Duration::from_millis(500));
            // The volume must be used up once, and one burst be seen, before what is usual shows.
            if round >= 10 {
                came.in_bursts += between - before;
                came.in_gaps += emptied() - between;
            }
        }
        let before = events();
        sleep(Duration::from_secs(10));
        came.quiet_events = events() - before;
        let mut page = [0; 4096];
        for (at, byte) in held.iter().enumerate() {
            fs.read(&file, at as u64 * 4096, &mut page).unwrap();
            assert!(page.iter().all(|found| found == byte), "page {at}");
        }
        fs.unmount().unwrap();
        came
    });
    assert_sound(Arc::new(device.fork()) as Arc<MemDevice>, options);
    report.unwrap().value
}

#[test]
fn collectors_work_in_the_gaps_and_sleep_when_all_is_done() {
    let usual = bursts("gc=scalelfs,commit=0");
    let gaps = bursts("gc=scalelfs,commit=0,gc.idle=5");
    assert!(usual.in_bursts > 20 && usual.in_gaps < usual.in_bursts / 4, "without: {usual:?}");
    assert!(gaps.in_gaps > 20 && gaps.in_bursts < gaps.in_gaps / 10, "with: {gaps:?}");
    assert!(gaps.quiet_events < usual.quiet_events + 20, "nobody wakes up for nothing: {gaps:?}, {usual:?}");
}

#[test]
fn what_was_moved_before_is_kept_apart_and_stays_right() {
    let came = bursts("gc=scalelfs,commit=0,gc.generations=3,gc.idle=5");
    assert!(came.in_gaps > 20, "{came:?}");
}
