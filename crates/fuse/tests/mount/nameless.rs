//! Open files without a name: they live as long as they are open, and pin no memory of the server.

use crate::harness::{Place, until};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{pread, pwrite};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;
use steadyfs_core::stats::{ServingStats, VolumeStats};
use steadyfs_fuse::STATS_ATTRIBUTE;

fn serving(dir: &Path) -> ServingStats {
    let mut value = vec![0; 64 << 10];
    let len = rustix::fs::getxattr(dir, STATS_ATTRIBUTE, &mut value[..]).expect("statistics");
    serde_json::from_slice::<VolumeStats>(&value[..len]).expect("statistics").serving
}

/// Makes so many nameless files. Now and then all is written, as dirty nodes may not leave memory.
fn nameless(dir: &Path, many: usize) -> Vec<OwnedFd> {
    let root = open(dir, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).expect("the root");
    let make = |n: usize| {
        if n.is_multiple_of(1000) {
            rustix::fs::syncfs(&root).expect("all is written");
        }
        open(dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::from_raw_mode(0o600)).expect("a file")
    };
    (0..many).map(make).collect()
}

/// Has this process open so many files more than it may need otherwise, or as many as it can; how many.
fn may_open(many: usize) -> usize {
    let (limit, spare) = (getrlimit(Resource::Nofile), 2048);
    let most = limit.maximum.unwrap_or(u64::MAX).min(many as u64 + spare);
    let current = limit.current.map(|current| current.max(most));
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).expect("not beyond the hard limit");
    (most - spare) as usize
}

#[test]
fn nameless_open_files_take_no_node_of_memory_each() {
    let many = may_open(16_000);
    let place = Place::new();
    place.mounted("memory=low", |served| {
        let dir = place.dir();
        // These fill the caches.
        let mut files = nameless(&dir, many / 3);
        let before = served.resident();
        files.extend(nameless(&dir, many - many / 3));
        for at in [0, many / 2, many - 1] {
            pwrite(&files[at], &at.to_le_bytes(), 0).unwrap();
        }
        let (grown, more) = (served.resident().saturating_sub(before), many - many / 3);
        println!("{} bytes for each of {more} more nameless files", grown / more as u64);
        assert!(grown < 1600 * more as u64, "{grown} bytes for {more} more nameless files");
        let held = serving(&dir);
        assert_eq!((held.held_inodes, held.open_files), (many as u64, many as u64));
        for at in [0, many / 2, many - 1] {
            let mut bytes = [0; 8];
            assert_eq!(pread(&files[at], &mut bytes, 0).unwrap(), 8);
            assert_eq!(usize::from_le_bytes(bytes), at);
            assert_eq!(rustix::fs::fstat(&files[at]).unwrap().st_nlink, 0);
        }
        drop(files);
        until("all forgotten", || serving(&dir).held_inodes == 0 && serving(&dir).open_files == 0);
    });
    place.check();
}
