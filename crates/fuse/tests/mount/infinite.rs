//! IPLFS volumes through a mount: contents, the room that the image takes, a full volume, more capacity while it is
//! mounted, and kills.

use crate::harness::{Place, make_infinite, until};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use steadyfs_core::fsck::{CheckOptions, Severity, check};
use steadyfs_core::stats::VolumeStats;
use steadyfs_device::{FileDevice, OpenOptions as DeviceOptions};
use steadyfs_fuse::{CAPACITY_ATTRIBUTE, STATS_ATTRIBUTE};

/// Set to kill so often, by hand.
const KILLS: &str = "STEADYFS_TEST_KILLS";

const MIB: usize = 1 << 20;

/// With a volume that may hold so many bytes.
fn infinite(bytes: usize) -> Place {
    let place = Place::empty();
    make_infinite(&place.source, bytes as u64);
    place
}

/// The checker finds nothing wrong, and nothing held in vain.
#[track_caller]
fn assert_whole(place: &Place) {
    let options = DeviceOptions { read_only: true, despite_writers: true, ..DeviceOptions::default() };
    let device = Arc::new(FileDevice::open(&place.source, options).unwrap());
    let report = check(device, &CheckOptions { leaks: true, ..CheckOptions::default() }).unwrap();
    // A volume that was not unmounted is told, too.
    assert!(report.worst() < Some(Severity::Warning), "{:#?}", report.issues);
}

fn stats(place: &Place) -> VolumeStats {
    let mut value = vec![0; 64 << 10];
    let length = rustix::fs::getxattr(place.dir(), STATS_ATTRIBUTE, &mut value[..]).unwrap();
    serde_json::from_slice(&value[..length]).unwrap()
}

/// Blocks of the image's host.
fn taken(place: &Place) -> u64 {
    fs::metadata(&place.source).unwrap().blocks() / 8
}

fn contents(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (seed + at / 4096 * 13 + at % 241) as u8).collect()
}

fn fsync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

fn sync(place: &Place) {
    rustix::fs::syncfs(File::open(place.dir()).unwrap()).unwrap();
}

#[test]
fn what_is_overwritten_takes_no_room_and_what_is_written_comes_back() {
    let place = infinite(128 * MIB);
    place.mounted("", |_| {
        let file = File::create(place.at("file")).unwrap();
        for round in 0..6 {
            // At 80 % of the capacity, in an order that is none.
            let bytes = contents(round, 100 * MIB);
            for part in (0..100).map(|n| n * 37 % 100 * MIB) {
                file.write_all_at(&bytes[part..part + MIB], part as u64).unwrap();
            }
            file.sync_all().unwrap();
        }
        fs::create_dir(place.at("dir")).unwrap();
        fs::write(place.at("dir/small"), "small").unwrap();
        rustix::fs::setxattr(place.at("dir"), "user.name", b"value", rustix::fs::XattrFlags::empty()).unwrap();
        sync(&place);
        until("what is dead is a hole", || {
            sync(&place);
            taken(&place) * 100 <= stats(&place).space.blocks_valid * 105
        });
        let stats = stats(&place);
        assert!(stats.space.blocks_valid > 25_600, "{:?}", stats.space);
        assert_eq!((stats.gc.done.data_moved, stats.gc.done.nodes_moved), (0, 0));
        assert!(stats.io.discarded > 5 * 25_600 / 2, "{:?}", stats.io);
    });
    assert_whole(&place);
    place.mounted("", |_| {
        assert!(fs::read(place.at("file")).unwrap() == contents(5, 100 * MIB));
        assert_eq!(fs::read_to_string(place.at("dir/small")).unwrap(), "small");
        fs::remove_file(place.at("file")).unwrap();
        until("the image is small", || {
            sync(&place);
            taken(&place) < 1024
        });
    });
    assert_whole(&place);
}

#[test]
fn a_full_volume_says_so_and_takes_more_when_it_may_hold_more() {
    let place = infinite(32 * MIB);
    place.mounted("", |_| {
        let file = File::create(place.at("file")).unwrap();
        let part = contents(1, MIB);
        let mut parts = 0;
        let refused = loop {
            match file.write_all_at(&part, parts * MIB as u64).and_then(|()| file.sync_data()) {
                Ok(()) => parts += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::NOSPC.raw_os_error()), "{refused}");
        assert!((26..=30).contains(&parts), "{parts} MiB of 30");
        let attempt = |value: &str| {
            rustix::fs::setxattr(place.dir(), CAPACITY_ATTRIBUTE, value.as_bytes(), rustix::fs::XattrFlags::empty())
        };
        assert_eq!(attempt("16777216"), Err(rustix::io::Errno::NOSPC), "it holds more");
        for wrong in ["", "many", "-1", "4096", "99999999999999999999"] {
            assert_eq!(attempt(wrong), Err(rustix::io::Errno::INVAL), "{wrong}");
        }
        attempt(&(64 * MIB).to_string()).unwrap();
        (parts..50).for_each(|at| file.write_all_at(&part, at * MIB as u64).unwrap());
        file.sync_all().unwrap();
        let room = rustix::fs::statvfs(place.dir()).unwrap();
        assert_eq!(room.f_blocks * room.f_frsize, 60 * MIB as u64);
        // And what goes makes room.
        fs::remove_file(place.at("file")).unwrap();
        drop(file);
        until("there is room again", || fs::write(place.at("second"), contents(2, 50 * MIB)).is_ok());
        fsync(&place.at("second"));
    });
    assert_whole(&place);
    place.mounted("", |_| assert!(fs::read(place.at("second")).unwrap() == contents(2, 50 * MIB)));
}

/// Appends numbered lines and syncs each until the mount is gone; counts those that fsync has returned for.
fn append(path: &Path, confirmed: &AtomicU64) {
    let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) else { return };
    loop {
        let line = format!("{:015}\n", confirmed.load(SeqCst));
        if file.write_all(line.as_bytes()).and_then(|()| file.sync_data()).is_err() {
            return;
        }
        confirmed.fetch_add(1, SeqCst);
    }
}

#[test]
fn what_was_synced_before_a_kill_is_there_and_nothing_leaks() {
    let place = infinite(64 * MIB);
    let confirmed = AtomicU64::new(0);
    // By hand a round takes longer, too.
    let (rounds, lines) = std::env::var(KILLS).map_or((3, 40), |kills| (kills.parse().expect("a number"), 2000));
    let mut longest = Duration::ZERO;
    for round in 1..=rounds {
        let mut served = place.mount("");
        std::thread::scope(|threads| {
            threads.spawn(|| append(&place.at("log"), &confirmed));
            // Something that is overwritten meanwhile, so that there is something dead.
            threads.spawn(|| {
                let Ok(file) = File::create(place.at("other")) else { return };
                let all = contents(round, 8 * MIB);
                while file.write_all_at(&all, 0).and_then(|()| file.sync_data()).is_ok() {}
            });
            until("enough was synced", || confirmed.load(SeqCst) >= lines * round as u64);
            served.kill();
            drop(served);
        });
        // Nothing is lost, and what the device holds is known, before the recovery and after it.
        assert_whole(&place);
        let began = Instant::now();
        place.mounted("", |_| {
            longest = longest.max(began.elapsed());
            let log = fs::read_to_string(place.at("log")).unwrap();
            let numbers: Vec<u64> = log.lines().map(|line| line.parse().unwrap()).collect();
            assert!(numbers.len() as u64 >= confirmed.load(SeqCst), "{} of {confirmed:?}", numbers.len());
            assert!(numbers.iter().zip(0..).all(|(number, at)| *number == at), "{numbers:?}");
            // A line may have arrived whose fsync had not returned.
            confirmed.store(numbers.len() as u64, SeqCst);
        });
        assert_whole(&place);
    }
    println!("{rounds} kills; {confirmed:?} synced and there; the longest mount after one took {longest:?}");
}
