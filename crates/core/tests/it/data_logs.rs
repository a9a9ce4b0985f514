//! Several logs for users' data (`data_logs`, `gc=max`).
//!
//! Files are spread over them, and writers of different files do not meet. A checkpoint with all of them open is a
//! volume like any other for fsck.f2fs. Files that were fsynced into them survive power cuts.

use crate::common::{assert_sound, assert_stock, create, mount};
use std::sync::Arc;
use steadyfs_core::InodeRef;
use steadyfs_device::{Device, MemDevice, RecordingDevice, flush_ticks, image_at};
use steadyfs_rt::sim::{SimConfig, run};
use steadyfs_rt::{lock_stats, reset_lock_stats, spawn};

const PAGE: usize = 4096;
const WRITERS: u64 = 6;
const PAGES: u64 = 150;
const ROUNDS: u64 = 3;

/// A page that says whose it is.
fn page(file: u64, at: u64, round: u64) -> Vec<u8> {
    (file << 48 | at << 16 | round).to_le_bytes().repeat(PAGE / 8)
}

/// Both checkers agree that a device holds a sound volume.
fn sound(image: &MemDevice) {
    assert_sound(Arc::new(image.fork()), "unmounted");
    assert_stock(image);
}

/// What a run of [`write_files`] came to.
struct Written {
    device: Arc<RecordingDevice<MemDevice>>,
    /// Waits for the logs of the format, and for the further ones.
    waits: [u64; 2],
    /// Logs that had a segment in the end.
    open: usize,
    /// File, round and moment of each fsync that had returned.
    promised: Vec<(u64, u64, u64)>,
}

/// Writers of one file each, past the cache; an fsync after each round, and checkpoints of one of them, with what is
/// open then.
fn write_files(base: &MemDevice, options: &'static str, cores: usize, seed: u64) -> Written {
    let device = Arc::new(RecordingDevice::new(base.fork()));
    let dev = Arc::clone(&device);
    let report = run(SimConfig { cores, seed, ..SimConfig::default() }, move || {
        let fs = mount(Arc::clone(&dev) as Arc<dyn Device>, options);
        let files: Vec<InodeRef> = (0..WRITERS).map(|n| create(&fs, format!("file{n}"))).collect();
        fs.sync().unwrap();
        reset_lock_stats();
        let writers = (0..).zip(files).map(|(n, file)| {
            let (fs, dev) = (Arc::clone(&fs), Arc::clone(&dev));
            spawn("writer", move || {
                let mut promised = Vec::new();
                for round in 1..=ROUNDS {
                    for at in 0..PAGES {
                        fs.write_direct(&file, at * PAGE as u64, &page(n, at, round)).unwrap();
                    }
                    fs.fsync(&file, round == 2).unwrap();
                    promised.push((n, round, dev.tick()));
                    if n == 0 {
                        fs.sync().unwrap();
                    }
                }
                promised
            })
        });
        let writers: Vec<_> = writers.collect();
        let promised = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        let of = |name: &str| lock_stats().iter().filter(|stat| stat.name == name).map(|stat| stat.waits).sum::<u64>();
        let found = ([of("curseg_mutex"), of("gc_stream_mutex")], fs.open_data_logs(), promised);
        fs.unmount().unwrap();
        found
    });
    let (waits, open, promised) = report.unwrap_or_else(|failure| panic!("{options}, seed {seed}: {failure}")).value;
    Written { device, waits, open, promised }
}

#[test]
fn writers_of_different_files_do_not_meet_at_logs_of_their_own() {
    let base = crate::common::mkfs(256, &[]);
    let one = write_files(&base, "gc=f2fs-lfs", 8, 1);
    let several = write_files(&base, "gc=max,mode=lfs", 8, 1);
    println!("waits for the one log: {:?}; with {} logs: {:?}", one.waits, several.open, several.waits);
    assert_eq!((one.waits[1], one.open), (0, 0));
    // Two files may have a log in common.
    assert!((4..=8).contains(&several.open), "{} logs have a segment", several.open);
    // Nodes still meet at the logs of nodes.
    assert!(one.waits[0] > 100 && several.waits.iter().sum::<u64>() < one.waits[0] / 2);
    sound(&several.device.inner().fork());
}

/// Whatever a power cut leaves, also between checkpoints while every log is open: a sound volume with all that was
/// fsynced, each page one that was written there.
#[test]
fn power_cuts_leave_what_was_fsynced_into_every_log() {
    let base = Arc::new(crate::common::mkfs(256, &[]));
    let mut kept = 0;
    for (seed, options) in [(1, "gc=max,mode=lfs"), (2, "gc=max,data_logs=3,ssr=eager,ipu=never")] {
        let written = write_files(&base, options, 8, seed);
        let log = written.device.log();
        for (number, tick) in flush_ticks(&log).into_iter().enumerate() {
            let survived: Vec<_> = log.iter().filter(|record| record.submitted <= tick).cloned().collect();
            let image = image_at(&base, &survived);
            if number % 8 == 0 {
                sound(&image);
            }
            let fs = mount(Arc::new(image.fork()), "ro");
            for n in 0..WRITERS {
                let Ok(file) = fs.lookup(&fs.root().unwrap(), format!("file{n}").as_bytes()) else { continue };
                let least = written.promised.iter().filter(|p| p.0 == n && p.2 <= tick).map(|p| p.1).max().unwrap_or(0);
                let mut found = vec![0; PAGE];
                for at in 0..PAGES {
                    let read = fs.read(&file, at * PAGE as u64, &mut found).unwrap();
                    let right = |round: u64| read == PAGE && found == page(n, at, round);
                    let nothing = least == 0 && (read == 0 || found.iter().all(|byte| *byte == 0));
                    assert!(
                        nothing || (least.max(1)..=ROUNDS).any(right),
                        "{options}: file {n}, page {at}, cut at {tick}"
                    );
                    kept += usize::from(least > 0 && at == 0);
                }
            }
            drop(fs);
        }
    }
    assert!(kept > 100, "{kept} promises were looked at");
}
