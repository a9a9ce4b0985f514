//! Renames across directories in virtual time: files beside each other, and a directory that moves between them. No two
//! wait for each other, no file is lost or there twice, and no directory comes to lie below itself.

use crate::common::{assert_sound, make};
use std::sync::Arc;
use steadyfs_core::{Error, Fs, InodeRef, MountOptions, RenameFlags};
use steadyfs_device::{Device, MemDevice};
use steadyfs_rt::sim::{SimConfig, run};
use steadyfs_rt::{lock_stats, spawn};
use steadyfs_testkit::Rng;

const MOVERS: usize = 12;
const MOVES: usize = 40;
/// Paths of directories: chains, so that an ancestor has a smaller or a larger number than what is below it.
const DIRS: [&str; 6] = ["a", "b", "c", "a/x", "b/y", "a/x/z"];

fn at(fs: &Fs, path: &str) -> InodeRef {
    path.split('/').fold(fs.root().expect("a root"), |dir, name| fs.lookup(&dir, name.as_bytes()).expect("a directory"))
}

/// Moves a file from directory to directory.
fn move_file(fs: &Fs, dirs: &[InodeRef], mover: usize, seed: u64) {
    let (mut random, mut here) = (Rng(seed ^ mover as u64), mover % dirs.len());
    let name = format!("file {mover}");
    for _ in 0..MOVES {
        let there = random.below(dirs.len() as u64) as usize;
        fs.rename(&dirs[here], name.as_bytes(), &dirs[there], name.as_bytes(), RenameFlags::Replace).expect("a move");
        here = there;
    }
}

/// Moves a directory below others and back, which is refused where it would come to lie below itself.
fn move_directory(fs: &Fs, dirs: &[InodeRef]) {
    let moved = at(fs, "moved");
    let mut parent = fs.root().expect("a root");
    for round in 0..MOVES {
        let to = if round % 3 == 2 { fs.root().expect("a root") } else { dirs[round % dirs.len()].clone() };
        fs.rename(&parent, b"moved", &to, b"moved", RenameFlags::Replace).expect("a move");
        parent = to;
        let below = fs.rename(&parent, b"moved", &moved, b"moved", RenameFlags::Replace);
        assert!(matches!(below, Err(Error::Invalid)), "a directory below itself: {below:?}");
    }
}

fn simulate(base: &MemDevice, seed: u64, moves_directory: bool) {
    let device = Arc::new(base.fork());
    let dev = Arc::clone(&device) as Arc<dyn Device>;
    let config = SimConfig { cores: MOVERS + 2, seed, ..SimConfig::default() };
    let report = run(config, move || {
        let fs = Fs::mount(dev, MountOptions::parse("background_gc=off,commit=0,cp_lock=cores").expect("options"));
        let fs = fs.expect("mounts");
        for path in DIRS {
            let (parent, name) = path.rsplit_once('/').map_or(("", path), |split| split);
            let parent = if parent.is_empty() { fs.root().expect("a root") } else { at(&fs, parent) };
            make(&fs, &parent, name, 0o040_755);
        }
        let dirs: Arc<Vec<InodeRef>> = Arc::new(DIRS.iter().map(|path| at(&fs, path)).collect());
        make(&fs, &fs.root().expect("a root"), "moved", 0o040_755);
        (0..MOVERS).for_each(|n| drop(make(&fs, &dirs[n % dirs.len()], format!("file {n}"), 0o100_644)));
        let mover = |n: usize| {
            let (fs, dirs) = (Arc::clone(&fs), Arc::clone(&dirs));
            spawn("mover", move || move_file(&fs, &dirs, n, seed))
        };
        let mut movers: Vec<_> = (0..MOVERS).map(mover).collect();
        if moves_directory {
            let (fs, dirs) = (Arc::clone(&fs), Arc::clone(&dirs));
            movers.push(spawn("directory mover", move || move_directory(&fs, &dirs)));
        }
        movers.into_iter().for_each(|mover| mover.join().unwrap_or_else(|panicked| panic!("{panicked}")));
        for n in 0..MOVERS {
            let name = format!("file {n}");
            let there = dirs.iter().filter(|dir| fs.lookup(dir, name.as_bytes()).is_ok()).count();
            assert_eq!(there, 1, "{name}");
        }
        let waits = lock_stats().iter().find(|stat| stat.name == "rename_lock").map_or(0, |stat| stat.waits);
        assert!(moves_directory || waits == 0, "moves of files waited {waits} times for the shape of the tree");
        fs.unmount().expect("unmounts");
    });
    report.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    assert_sound(device, &format!("seed {seed}"));
}

#[test]
fn renames_of_files_and_of_a_directory_wait_for_no_circle() {
    let base = crate::common::mkfs(64, &[]);
    for seed in 0..30 {
        simulate(&base, seed, true);
    }
}

#[test]
fn renames_of_files_do_not_wait_for_the_shape_of_the_tree() {
    let base = crate::common::mkfs(64, &[]);
    (0..10).for_each(|seed| simulate(&base, seed, false));
}
