//! The checker keeps to the memory that its head promises, measured as the system sees it (`VmHWM`), in a process of
//! its own.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use steadyfs_core::fsck::{CheckOptions, check};
use steadyfs_core::mkfs::{MkfsOptions, format};
use steadyfs_core::raw::Image;
use steadyfs_core::{Fs, MountOptions, NewInode};
use steadyfs_device::{Device, FileDevice, OpenOptions};

/// Set for the process that checks: the image.
const IMAGE: &str = "STEADYFS_TEST_FSCK_IMAGE";
const THREADS: u64 = 2;

fn open(path: &Path) -> Arc<dyn Device> {
    Arc::new(
        FileDevice::open(path, OpenOptions { read_only: true, ..OpenOptions::default() }).expect("the image opens"),
    )
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    kib * 1024
}

/// What the checking process runs; in the test run itself it does nothing.
#[test]
fn check_in_this_process() {
    let Ok(image) = std::env::var(IMAGE) else { return };
    let before = peak();
    let report = check(open(image.as_ref()), &CheckOptions { threads: THREADS as usize, ..CheckOptions::default() })
        .expect("readable");
    assert!(report.is_clean(), "{:?}", report.issues);
    println!("PEAK {}", peak() - before);
}

/// A volume with one large directory and many small files.
fn make(path: &Path, files: u64) {
    let create =
        OpenOptions { create: Some((files * 6144).max(128 << 20).next_multiple_of(2 << 20)), ..OpenOptions::default() };
    let device = FileDevice::open(path, create).expect("room");
    format(&device, &MkfsOptions::new([3; 16], 1_700_000_000)).expect("a volume");
    let fs = Fs::mount(Arc::new(device), MountOptions::parse("background_gc=off").expect("an option")).expect("mounts");
    let new = |mode| NewInode { mode, ..NewInode::default() };
    let root = fs.root().expect("a root");
    let dir = fs.create(&root, b"dir", &new(0o040_755)).expect("room");
    for n in 0..files {
        fs.create(&dir, format!("f{n}").as_bytes(), &new(0o100_644)).expect("room");
    }
    drop((root, dir));
    fs.unmount().expect("a good device");
}

/// The promise in the head of `fsck`, in bytes, but for the summaries.
fn promised(path: &Path, files: u64) -> u64 {
    let image = Image::open(open(path)).expect("a volume");
    let inodes = files + 3;
    let ids = inodes.div_ceil(455) + 1;
    let directory_blocks = files / 100;
    138 * u64::from(image.layout().main_segments)
        + 4300 * ids
        + 130 * inodes
        + 24 * (inodes + directory_blocks)
        + 16 * files * THREADS
}

#[test]
fn memory_is_bounded_as_promised() {
    let shm = Path::new("/dev/shm");
    let dir = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.expect("a directory");
    let path = dir.path().join("image");
    let mut found = Vec::new();
    for files in [5_000, 60_000] {
        make(&path, files);
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["memory::check_in_this_process", "--exact", "--nocapture", "--test-threads=1"])
            .env(IMAGE, &path)
            .output()
            .expect("a process");
        let text = String::from_utf8_lossy(&child.stdout).into_owned();
        let used: u64 = text
            .lines()
            .find_map(|line| line.split("PEAK ").nth(1))
            .and_then(|number| number.trim().parse().ok())
            .unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&child.stderr)));
        let promised = promised(&path, files);
        println!("{files} files: {used} bytes used, {promised} promised besides summaries");
        // Summaries are cached up to 64 MiB; stacks, buffers of reads and the allocator get 8.
        assert!(used <= promised + (72 << 20), "{files} files: {used} bytes, {promised} and 72 MiB promised");
        found.push((used, promised));
        std::fs::remove_file(&path).expect("it is there");
    }
    // What grows with the volume grows no faster than promised; summaries grow with its segments, 8 KiB each decoded.
    let (grown, allowed) = (found[1].0.saturating_sub(found[0].0), found[1].1 - found[0].1);
    assert!(grown <= allowed + (4 << 20), "{grown} bytes more for 55,000 more files, {allowed} promised");
}
