//! Directories so deep that no cache holds the way up: what users do there holds nobody up.

use crate::harness::{Place, as_nobody};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, chmod, mkdirat, open, openat, renameat, unlinkat};
use std::path::Path;
use steadyfs_core::stats::VolumeStats;
use steadyfs_fuse::STATS_ATTRIBUTE;

const DEPTH: usize = 3000;
const DIR: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Blocks that were read from the device so far.
fn reads(dir: &Path) -> u64 {
    let mut value = vec![0; 64 << 10];
    let len = rustix::fs::getxattr(dir, STATS_ATTRIBUTE, &mut value[..]).expect("statistics");
    let stats: VolumeStats = serde_json::from_slice(&value[..len]).expect("statistics");
    stats.io.read
}

/// Goes down, and back up with the name of each directory's only entry removed.
fn remove_chain(top: OwnedFd) {
    let mut open = vec![top];
    while let Ok(next) = openat(open.last().expect("the top"), "d", DIR, Mode::empty()) {
        open.push(next);
        // No more descriptors than a process may have.
        if open.len() > 100 {
            open.remove(0);
        }
    }
    while let Some(dir) = open.pop() {
        let _ = unlinkat(&dir, "d", AtFlags::REMOVEDIR);
        if open.is_empty()
            && let Ok(up) = openat(&dir, "..", DIR, Mode::empty())
            && openat(&up, "d", DIR, Mode::empty()).is_ok()
        {
            open.push(up);
        }
    }
}

#[test]
fn names_change_in_deep_directories_for_a_few_reads() {
    let place = Place::new();
    place.open_to_all();
    place.mounted("node_cache=4M,allow_other,commit=0", |_| {
        chmod(place.dir(), Mode::from_raw_mode(0o777)).unwrap();
        as_nobody(|| {
            let mode = Mode::from_raw_mode(0o755);
            let mut at = open(place.dir(), DIR, Mode::empty()).unwrap();
            for _ in 0..DEPTH {
                mkdirat(&at, "d", mode).unwrap();
                at = openat(&at, "d", DIR, Mode::empty()).unwrap();
            }
            mkdirat(&at, "x", mode).unwrap();
            mkdirat(&at, "y", mode).unwrap();
            let y = openat(&at, "y", DIR, Mode::empty()).unwrap();
            rustix::fs::fsync(&y).unwrap();
            let before = reads(&place.dir());
            for _ in 0..20 {
                renameat(&at, "x", &y, "x").unwrap();
                renameat(&y, "x", &at, "x").unwrap();
            }
            unlinkat(&at, "x", AtFlags::REMOVEDIR).unwrap();
            unlinkat(&at, "y", AtFlags::REMOVEDIR).unwrap();
            let read = reads(&place.dir()) - before;
            assert!(read < 200, "{read} blocks were read at a depth of {DEPTH}");
            drop((at, y));
            let before = reads(&place.dir());
            remove_chain(open(place.dir(), DIR, Mode::empty()).unwrap());
            let read = reads(&place.dir()) - before;
            assert_eq!(std::fs::read_dir(place.dir()).unwrap().count(), 0);
            assert!(read < 20 * DEPTH as u64, "{read} blocks were read to remove {DEPTH} directories");
        });
    });
    place.check();
}
