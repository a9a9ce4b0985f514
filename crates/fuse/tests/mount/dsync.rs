//! Writes that ask to be durable when they return (`O_DSYNC`, `O_SYNC`, `RWF_DSYNC`), files and directories that ask
//! for it (`chattr +S`, `+D`), mounts that do (`sync`, `dirsync`), and a serving process that is killed right after.

use crate::harness::Place;
use rustix::fs::{IFlags, XattrFlags, getxattr, ioctl_getflags, ioctl_setflags, setxattr};
use rustix::io::ReadWriteFlags;
use std::fs::{self, File, OpenOptions};
use std::io::IoSlice;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
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

fn write(path: &Path, how: How, data: &[u8]) -> Option<File> {
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
        place.mounted(cache, |_| files().for_each(|(path, _)| fs::write(path, [1; LEN]).expect("written")));
        let mut served = place.mount(cache);
        let open: Vec<_> = files().map(|(path, how)| write(&path, how, &data)).collect();
        served.kill();
        drop((open, served));
        place.mounted(cache, |_| {
            for (path, how) in files() {
                let found = fs::read(path).expect("it is there");
                assert!(found == data, "{cache}, {how:?}: it did not survive ({} bytes)", found.len());
            }
        });
    }
}

/// Sets flags of chattr(1) beside those that are there.
fn mark(path: &Path, flags: IFlags) -> rustix::io::Result<()> {
    let file = File::open(path).expect("it opens");
    ioctl_setflags(&file, ioctl_getflags(&file)? | flags)
}

/// A change, and whether it is there.
type Change = (&'static str, fn(&Path), fn(&Path) -> bool);

/// Does each change in a mount of its own, whose server is killed as soon as it returns, and looks for it in the next.
fn survive_kills(place: &Place, cache: &str, top: &str, changes: &[Change]) {
    for (name, act, done) in changes {
        let mut served = place.mount(cache);
        act(&place.at(top));
        served.kill();
        drop(served);
        place.mounted(cache, |_| assert!(done(&place.at(top)), "{cache}, {name}: it did not survive"));
    }
    place.check();
}

#[test]
fn names_in_directories_that_ask_for_it_survive_a_kill() {
    let changes: [Change; 9] = [
        ("create", |d| drop(File::create(d.join("made")).expect("made")), |d| d.join("made").exists()),
        ("mkdir", |d| fs::create_dir(d.join("sub")).expect("made"), |d| d.join("sub").is_dir()),
        // New directories ask for the same.
        ("below", |d| drop(File::create(d.join("sub/file")).expect("made")), |d| d.join("sub/file").exists()),
        ("symlink", |d| symlink("made", d.join("link")).expect("made"), |d| d.join("link").is_symlink()),
        ("link", |d| fs::hard_link(d.join("made"), d.join("hard")).expect("made"), |d| d.join("hard").exists()),
        ("rename", |d| fs::rename(d.join("made"), d.join("new")).expect("renamed"), |d| d.join("new").exists()),
        (
            "rename into it",
            |d| fs::rename(d.join("../plain/file"), d.join("came")).expect("renamed"),
            |d| d.join("came").exists() && !d.join("../plain/file").exists(),
        ),
        ("unlink", |d| fs::remove_file(d.join("new")).expect("removed"), |d| !d.join("new").exists()),
        (
            "rmdir",
            |d| {
                fs::remove_file(d.join("sub/file")).expect("removed");
                fs::remove_dir(d.join("sub")).expect("removed");
            },
            |d| !d.join("sub").exists(),
        ),
    ];
    for (options, marked) in [("", true), ("dirsync", false)] {
        let place = Place::sized(100 << 20);
        place.mounted("", |_| {
            ["dir", "plain"].iter().for_each(|name| fs::create_dir(place.at(name)).expect("made"));
            drop(File::create(place.at("plain/file")).expect("made"));
            if marked {
                mark(&place.at("dir"), IFlags::DIRSYNC).expect("the flag is taken");
            }
        });
        survive_kills(&place, options, "dir", &changes);
    }
}

#[test]
fn changes_of_files_that_ask_for_it_survive_a_kill() {
    let changes: [Change; 7] = [
        (
            "write",
            |d| fs::write(d.join("old"), [0x5a; LEN]).expect("written"),
            |d| fs::read(d.join("old")).is_ok_and(|found| found == [0x5a; LEN]),
        ),
        ("truncate", |d| truncate(&d.join("old"), 100), |d| size(&d.join("old")) == 100),
        ("open", |d| drop(File::create(d.join("old")).expect("it opens")), |d| size(&d.join("old")) == 0),
        (
            "chmod",
            |d| fs::set_permissions(d.join("old"), fs::Permissions::from_mode(0o640)).expect("changed"),
            |d| fs::metadata(d.join("old")).is_ok_and(|meta| meta.mode() & 0o777 == 0o640),
        ),
        (
            "setxattr",
            |d| setxattr(d.join("old"), "user.a", b"value", XattrFlags::empty()).expect("set"),
            |d| getxattr(d.join("old"), "user.a", &mut [0; 16][..]).is_ok(),
        ),
        (
            "fallocate",
            |d| {
                let file = OpenOptions::new().write(true).open(d.join("old")).expect("it opens");
                rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 50_000).expect("room");
            },
            |d| size(&d.join("old")) == 50_000,
        ),
        // New files in such a directory ask for the same.
        (
            "write below",
            |d| fs::write(d.join("new"), [0x5a; LEN]).expect("written"),
            |d| fs::read(d.join("new")).is_ok_and(|found| found == [0x5a; LEN]),
        ),
    ];
    for (options, marked) in [("writethrough", true), ("direct_io", true), ("sync", false)] {
        let place = Place::sized(100 << 20);
        place.mounted(options, |_| {
            fs::create_dir(place.at("dir")).expect("made");
            fs::write(place.at("dir/old"), [1; 100]).expect("written");
            if marked {
                ["dir", "dir/old"]
                    .iter()
                    .for_each(|name| mark(&place.at(name), IFlags::SYNC).expect("the flag is taken"));
            }
        });
        survive_kills(&place, options, "dir", &changes);
    }
}

#[test]
fn the_write_back_cache_cannot_wait_for_one_file_and_says_so() {
    let place = Place::sized(100 << 20);
    place.mounted("writeback_cache", |_| {
        fs::write(place.at("file"), "x").expect("written");
        assert_eq!(mark(&place.at("file"), IFlags::SYNC), Err(rustix::io::Errno::OPNOTSUPP));
        mark(&place.at("file"), IFlags::NODUMP).expect("others are taken");
        let flags = ioctl_getflags(File::open(place.at("file")).expect("it opens")).expect("flags");
        assert!(!flags.contains(IFlags::SYNC) && flags.contains(IFlags::NODUMP));
    });
    // Where it was set elsewhere it stays, and the others can be changed.
    place.mounted("writethrough", |_| mark(&place.at("file"), IFlags::SYNC).expect("the flag is taken"));
    place.mounted("writeback_cache", |_| mark(&place.at("file"), IFlags::NOATIME).expect("others are taken"));
}

fn truncate(path: &Path, size: u64) {
    OpenOptions::new().write(true).open(path).expect("it opens").set_len(size).expect("cut");
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).expect("it is there").len()
}
