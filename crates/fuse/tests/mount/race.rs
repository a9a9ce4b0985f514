//! Mounts that end while the kernel hands out requests: whichever error a thread that reads gets, the end is an orderly
//! one.
//!
//! The kernel marks a connection as gone in two steps. A thread that takes a request between them is told
//! `ECONNABORTED`, not `ENODEV`; so this is repeated until that happens. The rounds run in a process of their own, so
//! that no other test's child holds their files open.

use crate::harness::{Place, SERVE};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use steadyfs_core::{Fs, MountOptions};
use steadyfs_device::{FileDevice, OpenOptions};
use steadyfs_fuse::{FuseOptions, Mounted};

/// Runs one of the tests below in a process of its own: `test` is its name.
fn in_own_process(test: &str) {
    let place = Place::sized(64 << 20);
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args([&format!("race::{test}"), "--exact", "--nocapture", "--test-threads=1"])
        .env(SERVE, format!("{}\n{}", place.source.display(), place.dir().display()))
        .output()
        .expect("a process");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("ERROR"), "{said}");
    place.check();
}

/// In that process: image and mount point.
fn in_process() -> Option<(PathBuf, PathBuf)> {
    let what = std::env::var(SERVE).ok()?;
    let (source, dir) = what.split_once('\n').expect("two lines");
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    Some((source.into(), dir.into()))
}

fn serve(source: &Path, dir: &Path) -> Mounted {
    let device = FileDevice::open(source, OpenOptions::default()).expect("the image opens");
    let fs = Fs::mount(Arc::new(device), MountOptions::default()).expect("mounts");
    steadyfs_fuse::mount(fs, dir, &FuseOptions::new(source)).expect("mounts")
}

/// Whether the rounds of a test that has begun at `start` go on: enough of them on a machine that has time, some on one
/// that has not.
fn goes_on(start: Instant, rounds: u32) -> bool {
    rounds < 300 && start.elapsed() < Duration::from_secs(10)
}

#[test]
fn the_last_close_after_a_lazy_umount() {
    let Some((source, dir)) = in_process() else {
        return in_own_process("the_last_close_after_a_lazy_umount");
    };
    let (start, mut rounds) = (Instant::now(), 0);
    while goes_on(start, rounds) {
        rounds += 1;
        let mounted = serve(&source, &dir);
        let files: Vec<File> = (0..8).map(|name| File::create(dir.join(name.to_string())).expect("a file")).collect();
        unmount(&dir, UnmountFlags::DETACH).expect("out of sight");
        drop(files);
        mounted.wait().unwrap_or_else(|error| panic!("round {rounds}: {error}"));
    }
}

#[test]
fn an_abort_amid_requests() {
    let Some((source, dir)) = in_process() else {
        return in_own_process("an_abort_amid_requests");
    };
    let control = source.with_file_name("control");
    fs::create_dir(&control).expect("a directory");
    let options: Option<&std::ffi::CStr> = None;
    mount("fusectl", &control, "fusectl", MountFlags::empty(), options).expect("the control directory");
    let (start, mut rounds) = (Instant::now(), 0);
    while goes_on(start, rounds) {
        rounds += 1;
        let mounted = serve(&source, &dir);
        let device = fs::metadata(&dir).expect("attributes").dev();
        // The kernel's own form of the number.
        let connection = rustix::fs::major(device) << 20 | rustix::fs::minor(device);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for user in 0..4 {
                let (dir, stop) = (&dir, &stop);
                scope.spawn(move || use_until(&dir.join(format!("user{user}")), stop));
            }
            std::thread::sleep(Duration::from_millis(3));
            let aborted = fs::write(control.join(connection.to_string()).join("abort"), "1");
            stop.store(true, SeqCst);
            aborted.expect("the abort");
        });
        mounted.wait().unwrap_or_else(|error| panic!("round {rounds}: {error}"));
        assert!(fs::write(dir.join("later"), "").is_err(), "somebody serves an aborted mount");
        unmount(&dir, UnmountFlags::DETACH).expect("the dead mount goes");
    }
    unmount(&control, UnmountFlags::DETACH).expect("unmounted");
}

/// Makes requests of many kinds, some of which the abort will fail.
fn use_until(path: &Path, stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        let _ = fs::write(path, [1; 10_000]);
        let _ = fs::read_dir(path.parent().unwrap_or(path)).map(Iterator::count);
        let _ = fs::rename(path, path.with_extension("renamed"));
        let _ = fs::remove_file(path.with_extension("renamed"));
    }
}
