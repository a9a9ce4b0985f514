//! Writes that ask to be durable when they return (`O_DSYNC`, `O_SYNC`, `RWF_DSYNC`), and a serving process that is killed right after.

use crate::harness::Place;
use rustix::io::ReadWriteFlags;
use std::fs::{File, OpenOptions};
use std::io::IoSlice;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::{Command, Stdio};

/// How a file is written.
#[derive(Clone, Copy, Debug)]
enum How {
    /// Opened with these flags.
    Open(rustix::fs::OFlags),
    /// Opened with these, and each write says so itself.
    Each(rustix::fs::OFlags),
    /// By asynchronous requests past the cache: the kernel returns before they are done, and syncs nothing afterwards.
    Queued,
}

const LEN: usize = 8192;

fn ways() -> Vec<How> {
    use rustix::fs::OFlags;
    let (none, direct) = (OFlags::empty(), OFlags::DIRECT);
    let open = [OFlags::DSYNC, OFlags::SYNC, direct | OFlags::DSYNC, direct | OFlags::SYNC].map(How::Open);
    [&open[..], &[How::Each(none), How::Each(direct), How::Queued]].concat()
}

fn write(path: &std::path::Path, how: How, data: &[u8]) -> Option<File> {
    let open = |flags: rustix::fs::OFlags| {
        OpenOptions::new().write(true).custom_flags(flags.bits().cast_signed()).open(path).expect("it opens")
    };
    match how {
        How::Open(flags) => {
            let file = open(flags);
            file.write_all_at(data, 0).expect("written");
            Some(file)
        }
        How::Each(flags) => {
            let file = open(flags);
            let wrote = rustix::io::pwritev2(&file, &[IoSlice::new(data)], 0, ReadWriteFlags::DSYNC);
            assert_eq!(wrote, Ok(data.len()));
            Some(file)
        }
        How::Queued => {
            let status = Command::new("fio")
                .args(["--name=queued", "--ioengine=libaio", "--direct=1", "--sync=dsync", "--rw=write", "--iodepth=2"])
                .args(["--bs=4k", "--buffer_pattern=0x5a", "--size=8k", "--overwrite=1", "--fallocate=none"])
                .arg(format!("--filename={}", path.display()))
                .stdout(Stdio::null())
                .status();
            assert!(status.expect("fio is installed").success());
            None
        }
    }
}

#[test]
fn writes_that_ask_to_be_durable_survive_a_kill() {
    let data = [0x5a; LEN];
    for cache in ["writeback_cache", "writethrough", "direct_io"] {
        let place = Place::sized(100 << 20);
        let files = || ways().into_iter().enumerate().map(|(n, how)| (place.at(&format!("file{n}")), how));
        // What is new needs more than its own nodes: here contents alone are looked at.
        place.mounted(cache, |_| files().for_each(|(path, _)| std::fs::write(path, [1; LEN]).expect("written")));
        let mut served = place.mount(cache);
        let open: Vec<_> = files().map(|(path, how)| write(&path, how, &data)).collect();
        served.kill();
        drop((open, served));
        place.mounted(cache, |_| {
            for (path, how) in files() {
                let found = std::fs::read(path).expect("it is there");
                assert!(found == data, "{cache}, {how:?}: it did not survive ({} bytes)", found.len());
            }
        });
    }
}
