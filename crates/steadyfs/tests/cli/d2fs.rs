//! D2FS volumes: in a directory whose device moves blocks, as `mkfs` makes it; and what the command tells of an image
//! without its device.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use rustix::process::Signal;

use steadyfs_core::mkfs::{self, Migrating, MkfsOptions};
use steadyfs_core::{Fs, MountOptions, NewInode};
use steadyfs_device::{Adversary, AdversaryDevice, Device, MemDevice, MigratingDevice, Migrations, OpenOptions};

use steadyfs_testkit::{Rng, fsck_f2fs};

use crate::mount::{Place, ends_well};
use crate::run::{Output, finish, steadyfs};

/// A volume of 48 MiB with a file of one page that was written over and over; how many records its checkpoint contains.
fn make(path: &Path) -> u64 {
    let chosen = Migrating::new(24 * 512);
    let options = MkfsOptions { migrating: Some(chosen), ..MkfsOptions::new([0xd2; 16], 1_700_000_000) };
    let areas = chosen.geometry(&options).unwrap();
    let below = Arc::new(MemDevice::new(areas.gc.end));
    let device = Arc::new(AdversaryDevice::new(Arc::clone(&below), areas, Adversary::new(1)));
    mkfs::format(&*device, &options).unwrap();
    let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, MountOptions::parse("").unwrap()).unwrap();
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    let file = fs.create(&fs.root().unwrap(), b"file", &new).unwrap();
    for _ in 0..60 {
        fs.write(&file, 0, &[b'x'; 4096]).unwrap();
        fs.sync().unwrap();
    }
    drop(file);
    fs.unmount().unwrap();
    let image = File::create(path).unwrap();
    image.set_len(below.info().blocks * 4096).unwrap();
    for block in below.written_blocks() {
        image.write_all_at(&below.read_one(block).unwrap().to_array()[..], block * 4096).unwrap();
    }
    device.completed()
}

#[test]
fn an_image_is_read_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("a.img");
    let records = make(&image);
    assert!(records > 0, "the device was idle");
    let run = |args: &[&str]| finish(steadyfs().args(args).current_dir(dir.path()));
    let ok = |args: &[&str]| {
        let out = run(args);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{args:?}: {}", out.stdout);
        out.stdout
    };
    let info: serde_json::Value = serde_json::from_str(&ok(&["info", "--json", "a.img"])).unwrap();
    let wanted = serde_json::json!({
        "capacity": 24 * (2 << 20), "regular_sections": 34, "gc_sections": 28, "records": records
    });
    assert_eq!((&info["kind"], &info["d2fs"]), (&"d2fs".into(), &wanted), "{info}");
    let told = ok(&["info", "a.img"]);
    assert!(told.contains("34 regular sections, 28 of the device") && told.contains("48"), "{told}");
    ok(&["fsck", "a.img"]);
    assert_eq!(ok(&["cat", "a.img", "/file"]), "x".repeat(4096));
    let put = run(&["put", "a.img", "a.img", "/other"]);
    assert!(put.code != 0 && put.stderr.contains("does not move blocks by itself"), "{put:?}");
    let told = ok(&["export", "a.img", "b.img"]);
    assert!(told.starts_with("b.img: ") && told.contains("an F2FS volume"), "{told}");
    fsck_f2fs(dir.path().join("b.img")).unwrap();
    let info: serde_json::Value = serde_json::from_str(&ok(&["info", "--json", "b.img"])).unwrap();
    assert_eq!(info["kind"], "f2fs");
    assert_eq!(ok(&["cat", "b.img", "/file"]), "x".repeat(4096));
    for (from, to, why) in [("a.img", "b.img", "it is there already"), ("b.img", "c.img", "this is no D2FS volume")] {
        let refused = run(&["export", from, to]);
        assert!(refused.code != 0 && refused.stderr.contains(why), "{refused:?}");
    }
    assert!(!dir.path().join("c.img").exists());
}

/// Makes a small volume in the directory `a.d` there.
fn made() -> (tempfile::TempDir, impl Fn(&[&str]) -> Output) {
    let dir = scratch();
    let place = dir.path().to_owned();
    let run = move |args: &[&str]| finish(steadyfs().args(args).current_dir(&place));
    let out = run(&["mkfs", "--kind", "d2fs", "--capacity", "64M", "--regular-ratio", "1.5", "a.d"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{}", out.stdout);
    assert!(out.stdout.contains("48 sections") && out.stdout.contains("64.0 MiB"), "{}", out.stdout);
    (dir, run)
}

#[test]
fn commands_make_and_change_a_volume_whose_device_is_a_directory() {
    let (dir, run) = made();
    let ok = |args: &[&str]| {
        let out = run(args);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{args:?}: {}", out.stdout);
        out.stdout
    };
    // Written anew so often that the device has to collect: five times the capacity, with files between that stay.
    let bytes: Vec<u8> = (0..5_usize << 20).map(|at| (at / 4096 + at) as u8).collect();
    std::fs::write(dir.path().join("new"), &bytes).unwrap();
    std::fs::write(dir.path().join("small"), &bytes[..1 << 20]).unwrap();
    let mut records = 0;
    for round in 0..10 {
        for file in 0..6 {
            ok(&["put", "new", "a.d", &format!("/file{file}")]);
        }
        ok(&["put", "small", "a.d", &format!("/kept{round}")]);
        let info: serde_json::Value = serde_json::from_str(&ok(&["info", "--json", "a.d"])).unwrap();
        records = info["d2fs"]["records"].as_u64().unwrap();
    }
    assert!(records > 100, "the device collected {records} pages only");
    ok(&["fsck", "a.d"]);
    for (name, wanted) in [("file5", &bytes[..]), ("kept0", &bytes[..1 << 20]), ("kept9", &bytes[..1 << 20])] {
        ok(&["get", "a.d", &format!("/{name}"), "back"]);
        assert!(std::fs::read(dir.path().join("back")).unwrap() == wanted, "{name}");
        std::fs::remove_file(dir.path().join("back")).unwrap();
    }
    assert!(ok(&["export", "a.d", "b.img"]).contains("an F2FS volume"));
    fsck_f2fs(dir.path().join("b.img")).unwrap();
    assert!(ok(&["top", "--once", "a.d"]).contains("a.d"));
    // What is left in the file of blocks is what the volume needs.
    let taken = std::fs::metadata(dir.path().join("a.d/blocks")).unwrap().blocks() * 512;
    assert!(taken < 64 << 20, "{taken} bytes are taken");
}

#[test]
fn a_directory_is_all_that_a_d2fs_volume_is_made_on() {
    let (dir, run) = made();
    let mkfs = |args: &[&str]| run(&[&["mkfs", "--kind", "d2fs"], args].concat());
    std::fs::write(dir.path().join("file"), "x").unwrap();
    std::fs::create_dir(dir.path().join("full")).unwrap();
    std::fs::write(dir.path().join("full/x"), "x").unwrap();
    for (args, code, why) in [
        (&["b.d"][..], 16, "needs a --capacity"),
        (&["--capacity", "64M", "file"], 8, "no disk or file does"),
        (&["--capacity", "64M", "full"], 8, "the directory is not empty"),
        (&["--capacity", "64M", "a.d"], 8, "it holds something already (d2fs)"),
        (&["--capacity", "64M", "b.d", "1G"], 16, "has no SIZE"),
        (&["--capacity", "64M", "-o", "5", "b.d"], 16, "has no over-provisioning (-o)"),
        (&["--capacity", "64M", "--leap", "1G", "b.d"], 16, "only an IPLFS volume has a --leap"),
        (&["--capacity", "64M", "--regular-ratio", "0.5", "b.d"], 16, "1 to 16 times"),
        (&["--capacity", "1M", "b.d"], 16, "can hold too little"),
    ] {
        let out = mkfs(args);
        assert!(out.code == code && out.stderr.contains(why), "{args:?}: {out:?}");
    }
    let out = run(&["mkfs", "--kind", "iplfs", "--capacity", "64M", "--regular-ratio", "2", "b.d/"]);
    assert!(out.code == 16 && out.stderr.contains("only a D2FS volume has a --regular-ratio"), "{out:?}");
    assert!(!dir.path().join("b.d").exists(), "a refused volume leaves something");
    let dry: serde_json::Value =
        serde_json::from_str(&mkfs(&["-n", "--json", "--capacity", "1G", "b.d"]).stdout).unwrap();
    assert_eq!((&dry["capacity"], &dry["regular_sections"]), (&(1u64 << 30).into(), &717.into()), "{dry}");
    assert!(!dir.path().join("b.d").exists(), "nothing was to be written");
    std::fs::write(dir.path().join("a.d/journal"), "damaged").unwrap();
    let damaged = run(&["info", "a.d"]);
    assert!(damaged.code != 0 && damaged.stderr.contains("its journal is damaged"), "{damaged:?}");
    assert_eq!(mkfs(&["-q", "-f", "--capacity", "128M", "a.d"]).code, 0);
    let info: serde_json::Value = serde_json::from_str(&run(&["info", "--json", "a.d"]).stdout).unwrap();
    assert_eq!(info["d2fs"]["capacity"], 128 << 20, "{info}");
}

/// A directory in memory, if there is memory for files: each flush syncs two of them.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Overwrites 64 pages of 36 MiB at random and syncs them, until nobody serves the mount any more. Returns the pages
/// that were synced.
fn overwrite(path: &Path, seed: u64, batches: &AtomicU64) -> BTreeSet<u64> {
    let (mut random, mut synced) = (Rng(seed), BTreeSet::new());
    let Ok(file) = File::options().create(true).truncate(false).write(true).open(path) else { return synced };
    loop {
        let mut batch = Vec::new();
        for _ in 0..64 {
            let page = random.below(36 << 8);
            batch.push(page);
            if file.write_all_at(&[page as u8; 4096], page * 4096).is_err() {
                return synced;
            }
        }
        if file.sync_data().is_err() {
            return synced;
        }
        synced.extend(batch);
        batches.fetch_add(1, SeqCst);
    }
}

#[test]
fn what_was_synced_before_a_kill_is_there() {
    let place = Place { dir: scratch() };
    let make = ["mkfs", "-q", "--kind", "d2fs", "--capacity", "64M"];
    assert_eq!(finish(steadyfs().args(make).arg(place.image())).code, 0);
    let (log, other) = (place.mnt().join("log"), place.mnt().join("other"));
    let (mut lines, mut outstanding, mut synced) = (0_u64, 0, BTreeSet::new());
    for round in 0..4 {
        let mut child = place.serve(&[]);
        let batches = AtomicU64::new(0);
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| overwrite(&other, round, &batches));
            let mut file = File::options().create(true).append(true).open(&log).unwrap();
            while batches.load(SeqCst) < 150 {
                file.write_all(format!("{lines:015}\n").as_bytes()).unwrap();
                file.sync_data().unwrap();
                lines += 1;
            }
            child.kill().unwrap();
            child.wait().unwrap();
            synced.extend(writer.join().unwrap());
        });
        outstanding += MigratingDevice::open(place.image(), OpenOptions::default()).unwrap().outstanding();
        let child = place.serve(&[]);
        let text = std::fs::read_to_string(&log).unwrap();
        let numbers: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert!(numbers.iter().copied().eq(0..lines), "round {round}: {} of {lines} lines", numbers.len());
        let bytes = std::fs::read(&other).unwrap();
        for (at, page) in (0..).zip(bytes.chunks(4096)) {
            let wanted = page.iter().all(|byte| *byte == at as u8);
            let unsynced = !synced.contains(&at) && page.iter().all(|byte| *byte == 0);
            assert!(wanted || unsynced, "round {round}: page {at} holds {} and not {}", page[0], at as u8);
        }
        ends_well(child, Some(Signal::TERM));
        let out = finish(steadyfs().args(["fsck"]).arg(place.image()));
        assert_eq!(out.code, 0, "round {round}: {}", out.stdout);
    }
    let info = finish(steadyfs().args(["info", "--json"]).arg(place.image()));
    let info: serde_json::Value = serde_json::from_str(&info.stdout).unwrap();
    let records = info["d2fs"]["records"].as_u64().unwrap();
    println!("{lines} lines; {records} records, {outstanding} outstanding at kills");
    assert!(records > 1000, "the device collected {records} pages only");
    let image = place.mnt().with_file_name("b.img");
    assert_eq!(finish(steadyfs().arg("export").arg(place.image()).arg(&image)).code, 0);
    fsck_f2fs(&image).unwrap();
}

/// Unmounts the host when it goes.
struct Host(std::path::PathBuf);

impl Drop for Host {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// The host is full for a while, and as many fsyncs fail as would have used up all zones.
#[test]
fn a_full_host_is_enospc_and_the_volume_goes_on_when_there_is_room() {
    let place = Place { dir: scratch() };
    std::fs::create_dir(place.image()).unwrap();
    mount("tmpfs", place.image(), "tmpfs", MountFlags::empty(), Some(c"size=24m")).unwrap();
    let _host = Host(place.image());
    let make = ["mkfs", "-q", "--kind", "d2fs", "--capacity", "64M"];
    assert_eq!(finish(steadyfs().args(make).arg(place.image())).code, 0);
    let child = place.serve(&[]);
    let write = |name: &str, byte: u8| -> std::io::Result<()> {
        let mut file = File::create(place.mnt().join(name))?;
        file.write_all(&vec![byte; 1 << 20])?;
        file.sync_all()
    };
    let is_full = |error: &std::io::Error| error.kind() == std::io::ErrorKind::StorageFull;
    let failed = (0..40).map(|n| write(&format!("file{n}"), n)).position(|result| result.is_err_and(|e| is_full(&e)));
    let synced = failed.expect("40 MiB do not fit into 24 MiB") as u8;
    let late = File::create(place.mnt().join("late")).unwrap();
    let again = || late.write_all_at(&[7; 1 << 20], 0).and_then(|()| late.sync_all());
    for _ in 0..60 {
        assert!(is_full(&again().unwrap_err()), "the host is full");
    }
    mount_remount(place.image(), MountFlags::empty(), "size=400m").unwrap();
    let began = std::time::Instant::now();
    while let Err(error) = again() {
        assert!(began.elapsed().as_secs() < 20, "there is room, and an fsync finds none: {error}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(late);
    write("more", 9).unwrap();
    ends_well(child, Some(Signal::TERM));
    assert_eq!(finish(steadyfs().arg("fsck").arg(place.image())).code, 0);
    let child = place.serve(&[]);
    for n in 0..synced {
        assert!(std::fs::read(place.mnt().join(format!("file{n}"))).unwrap() == vec![n; 1 << 20], "file {n}");
    }
    assert_eq!(std::fs::read(place.mnt().join("late")).unwrap(), vec![7; 1 << 20]);
    ends_well(child, Some(Signal::TERM));
}
