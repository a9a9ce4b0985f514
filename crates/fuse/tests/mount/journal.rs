//! A mount with a metadata journal whose process is killed while clients save files as editors do: what an fsync of a
//! directory had confirmed is there afterwards, with its contents; meanwhile no other program opens the volume.

use crate::harness::{Place, comes_to_be, until};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_core::{Fs, InodeRef, MountOptions};
use steadyfs_device::{FileDevice, OpenOptions as DeviceOptions};

const CLIENTS: usize = 3;
/// Bytes of a saved file: no divisor of a page.
const LENGTH: usize = 5000;
/// Rounds for each form of the journal, unless `STEADYFS_TEST_KILLS` says how many.
const ROUNDS: u64 = 2;

/// What save number `number` of a client holds.
fn contents(client: usize, number: u64) -> Vec<u8> {
    format!("save {number} of client {client}. ").into_bytes().into_iter().cycle().take(LENGTH).collect()
}

/// Saves the same file again and again: a temporary file, fsync, rename over the last one, fsync of the directory.
/// Every second client uses one temporary name for all, as a lock file. Before that each replaces an index that it does
/// not sync, as git does. `confirmed` counts what was acknowledged.
fn save(dir: &Path, client: usize, confirmed: &AtomicU64) {
    loop {
        let number = confirmed.load(SeqCst) + 1;
        let temporary = if client.is_multiple_of(2) { format!("tmp.{number}") } else { "saved.lock".to_owned() };
        let save = || {
            std::fs::write(dir.join("index.lock"), contents(client, number))?;
            std::fs::rename(dir.join("index.lock"), dir.join("index"))?;
            let mut file = File::create(dir.join(&temporary))?;
            file.write_all(&contents(client, number))?;
            file.sync_all()?;
            std::fs::rename(dir.join(&temporary), dir.join("saved"))?;
            File::open(dir)?.sync_all()
        };
        if save().is_err() {
            return;
        }
        confirmed.store(number, SeqCst);
    }
}

/// The save that is there is the last one confirmed, or the one that was under way; so is the index.
fn check_saved(dir: &Path, client: usize, confirmed: u64) {
    if confirmed == 0 {
        return;
    }
    let known = [confirmed, confirmed + 1].map(|number| contents(client, number));
    for name in ["saved", "index"] {
        let found = std::fs::read(dir.join(name));
        let found = found.unwrap_or_else(|e| panic!("client {client}, save {confirmed}, '{name}': {e}"));
        let head = String::from_utf8_lossy(&found[..found.len().min(40)]).into_owned();
        let bytes = found.len();
        assert!(
            known.contains(&found),
            "client {client}: '{name}' has {bytes} bytes, '{head}', after save {confirmed}"
        );
    }
}

/// fsck.f2fs with none of these options opens the volume, or writes to it.
fn others_refuse(image: &Path) {
    let superblocks = |file: &File| {
        let mut bytes = vec![0; 8192];
        file.read_exact_at(&mut bytes, 0).expect("the first two blocks");
        bytes
    };
    let file = OpenOptions::new().read(true).open(image).expect("the image");
    let before = superblocks(&file);
    for options in [&["-a"][..], &["-p"], &["-f"], &["-f", "-y"]] {
        let output = Command::new("fsck.f2fs").args(options).arg(image).stdin(Stdio::null()).output();
        let output = output.expect("f2fs-tools are installed");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success() && text.contains("find a valid F2FS superblock"), "{options:?}: {text}");
        assert_eq!(superblocks(&file), before, "fsck.f2fs {options:?} wrote");
    }
}

/// What `steadyfs recover` does; whether the journal had something. Behind a checkpoint it has not, for a moment.
fn recover(image: &Path) -> bool {
    let device = FileDevice::open(image, DeviceOptions::default()).expect("the image opens");
    let fs = Fs::mount(Arc::new(device), MountOptions::default()).expect("recovers");
    let had_some = fs.recovered().is_some_and(|recovered| recovered.batches > 0);
    fs.unmount().expect("unmounts");
    had_some
}

#[test]
fn what_an_fsync_of_a_directory_confirmed_survives_kills() {
    let rounds = std::env::var("STEADYFS_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let place = Place::sized(256 << 20);
    let confirmed: [AtomicU64; CLIENTS] = [const { AtomicU64::new(0) }; CLIENTS];
    let dir = |client: usize| place.at(&format!("client{client}"));
    let check = || (0..CLIENTS).for_each(|n| check_saved(&dir(n), n, confirmed[n].load(SeqCst)));
    // Half of the rounds replay by themselves; a kill right behind a checkpoint is made up for by another.
    let (mut round, mut replayed, wanted) = (0, 0, rounds * 3 / 2);
    while round < rounds * 3 || replayed < wanted {
        assert!(round < rounds * 6 + 6, "{replayed} journals of {round} kills had something");
        let form = ["single", "double", "percore"][round as usize % 3];
        let mut served = place.mount(&format!("journal={form},commit=1000"));
        check();
        (0..CLIENTS).for_each(|client| {
            std::fs::create_dir_all(dir(client)).expect("a directory");
        });
        let before = confirmed.each_ref().map(|confirmed| confirmed.load(SeqCst));
        std::thread::scope(|threads| {
            for (client, confirmed) in confirmed.iter().enumerate() {
                let dir = dir(client);
                threads.spawn(move || save(&dir, client, confirmed));
            }
            let all_saved =
                comes_to_be(|| confirmed.iter().zip(&before).all(|(now, before)| now.load(SeqCst) > *before));
            // Every round at another moment of what goes on.
            std::thread::sleep(Duration::from_millis(200 + round * 67 % 300));
            served.kill();
            assert!(all_saved, "too little was saved to show anything: {confirmed:?}");
        });
        drop(served);
        others_refuse(&place.source);
        if round % 2 == 0 {
            replayed += u64::from(recover(&place.source));
            place.check();
        }
        round += 1;
    }
    place.mounted("ro", |_| check());
    let saves: u64 = confirmed.iter().map(|confirmed| confirmed.load(SeqCst)).sum();
    println!("{round} kills, {saves} saves confirmed, {replayed} journals replayed by themselves");
}

/// What a power cut would leave of an image now: `look` at a copy of it, once it can be mounted.
fn would_leave(place: &Place, look: impl Fn(&Fs, &InodeRef) -> bool) -> bool {
    let copy = steadyfs_testkit::TempImage::copy_of(&place.source).expect("a copy");
    let device = FileDevice::open(copy.path(), DeviceOptions::default()).expect("the copy opens");
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    // A copy that was made while a checkpoint was written may be none of a volume.
    Fs::mount(Arc::new(device), options).is_ok_and(|fs| fs.root().is_ok_and(|root| look(&fs, &root)))
}

/// Names that nobody syncs: as they were, once the time of `journal.commit=` is over, without a checkpoint; and then
/// contents that took the place of others, which are whole.
#[test]
fn names_that_nobody_syncs_survive_a_kill_after_their_time() {
    let place = Place::new();
    let mut served = place.mount("journal=percore,journal.commit=1,commit=1000");
    let put = |name: &str, byte: u8, len: usize| {
        let mut file = File::create(place.at(name)).expect("a file");
        file.write_all(&vec![byte; len]).expect("room");
        file
    };
    for name in ["old", "gone", "saved"] {
        put(name, b'A', 5_000).sync_all().expect("synced");
    }
    // No batch has a later one without the ones before it, so the last tells of all.
    std::fs::create_dir(place.at("dir")).expect("made");
    drop(put("dir/made", b'B', 0));
    std::fs::rename(place.at("old"), place.at("dir/moved")).expect("renamed");
    std::fs::remove_file(place.at("gone")).expect("removed");
    std::os::unix::fs::symlink("dir/moved", place.at("link")).expect("linked");
    until("names are durable", || would_leave(&place, |fs, root| fs.lookup(root, b"link").is_ok()));
    served.kill();
    drop(served);
    others_refuse(&place.source);
    let device = FileDevice::open(&place.source, DeviceOptions::default()).expect("the image opens");
    let fs = Fs::mount(Arc::new(device), MountOptions::default()).expect("recovers");
    assert!(fs.recovered().is_some_and(|recovered| recovered.batches > 0), "a checkpoint made them durable");
    fs.unmount().expect("unmounts");
    drop(fs);
    let mut served = place.mount("journal=percore,journal.commit=1,commit=1000");
    let names = |dir: &str| {
        let entries = std::fs::read_dir(place.at(dir)).expect("a directory");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(""), ["dir", "link", "saved"]);
    assert_eq!(names("dir"), ["made", "moved"]);
    assert_eq!(std::fs::read(place.at("link")).expect("readable"), vec![b'A'; 5_000]);
    // A save without a sync: the kernel has handed the contents over, or does when the rename asks for them.
    drop(put("saved.new", b'B', 9_000));
    std::fs::rename(place.at("saved.new"), place.at("saved")).expect("renamed");
    let has_the_new_size = |fs: &Fs, root: &InodeRef| {
        fs.lookup(root, b"saved").is_ok_and(|saved| fs.attr(&saved).is_ok_and(|attr| attr.size == 9_000))
    };
    until("the save is durable", || would_leave(&place, has_the_new_size));
    served.kill();
    drop(served);
    place.mounted("ro", |_| {
        assert_eq!(std::fs::read(place.at("saved")).expect("readable"), vec![b'B'; 9_000]);
        assert_eq!(names(""), ["dir", "link", "saved"]);
    });
}

/// Runs git in a directory of the mount; what it says.
fn git(dir: &Path, arguments: &[&str]) -> Result<String, String> {
    let settings = ["user.name=x", "user.email=x@example.org", "core.fsync=all", "gc.auto=0", "commit.gpgsign=false"];
    let mut git = Command::new("git");
    git.args(settings.iter().flat_map(|setting| ["-c", setting]));
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").stdin(Stdio::null());
    let output = git.arg("-C").arg(dir).args(arguments).output().expect("git is installed");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// What a small file of this number holds: 20 to 3,000 bytes.
fn small(number: usize) -> Vec<u8> {
    format!("file {number} of a tree. ").into_bytes().into_iter().cycle().take(20 + number * 149 % 2981).collect()
}

/// Makes small files as an unpacker, a package manager, a project template and an editor do, without a sync. The names
/// that they have in the end.
fn write_trees(root: &Path) -> std::io::Result<Vec<(String, usize)>> {
    let mut made = Vec::new();
    for (number, name) in (0..24).map(|n| (n, format!("usr/file{n}"))) {
        std::fs::create_dir_all(root.join("usr"))?;
        let unpacked = root.join(format!("{name}.new"));
        std::fs::write(&unpacked, small(number))?;
        std::fs::set_permissions(&unpacked, std::fs::Permissions::from_mode(0o644))?;
        std::fs::rename(&unpacked, root.join(&name))?;
        made.push((name, number));
    }
    for (number, name) in (30..60).map(|n| (n, format!("modules/package{n}/lib/index{n}"))) {
        std::fs::create_dir_all(root.join(&name).parent().expect("a directory"))?;
        std::fs::write(root.join(&name), small(number))?;
        made.push((name, number));
    }
    std::fs::create_dir_all(root.join("project/src"))?;
    for (number, name) in [(70, "project/manifest"), (71, "project/src/main"), (72, "project/.ignore")] {
        let mut file = File::create_new(root.join(name))?;
        small(number).chunks(7).try_for_each(|piece| file.write_all(piece))?;
        made.push((name.to_owned(), number));
    }
    // The old version stays beside the new one.
    std::fs::write(root.join("text"), small(80))?;
    std::fs::rename(root.join("text"), root.join("text~"))?;
    std::fs::write(root.join("text"), small(81))?;
    made.extend([("text~".to_owned(), 80), ("text".to_owned(), 81)]);
    Ok(made)
}

/// No small file has its name without its contents, though nobody synced either: killed at once, behind an fsync of
/// something else, and after the time of `journal.commit=`.
#[test]
fn small_files_that_nobody_synced_are_whole() {
    for wait in [0, 7] {
        let place = Place::new();
        let mut served = place.mount("journal=percore,commit=1000,background_gc=off");
        let repository = place.at("repository");
        std::fs::create_dir(&repository).expect("made");
        let run = |arguments: &[&str]| git(&repository, arguments).unwrap_or_else(|e| panic!("{arguments:?}: {e}"));
        run(&["init", "-q"]);
        for number in 0..6 {
            std::fs::write(repository.join("file"), small(number)).expect("written");
            run(&["add", "file"]);
            run(&["commit", "-q", "-m", &format!("commit {number}")]);
        }
        let made = write_trees(&place.dir()).expect("room");
        File::open(place.dir()).and_then(|root| root.sync_all()).expect("synced");
        std::thread::sleep(Duration::from_secs(wait));
        served.kill();
        drop(served);
        let replayed = recover(&place.source);
        println!("killed after {wait} s: {}", if replayed { "a journal was replayed" } else { "a checkpoint has all" });
        place.check();
        place.mounted("", |_| {
            let commits = run(&["rev-list", "--count", "HEAD"]);
            assert_eq!(commits, "6", "the fsync of the root is behind them");
            run(&["fsck", "--full", "--strict"]);
            run(&["status"]);
            for (name, number) in &made {
                let found = std::fs::read(place.at(name)).unwrap_or_else(|e| panic!("'{name}': {e}"));
                assert!(found == small(*number), "'{name}' has {} bytes after {wait} s", found.len());
            }
        });
    }
}
