//! Looking at a volume that is mounted for writing: what only reads shows the last checkpoint and says so, what writes
//! is refused.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::inspect::fails;
use crate::mount::{Place, ends_well};
use crate::run::{Output, finish, steadyfs, umount};

fn on(place: &Place, args: &[&str]) -> Output {
    let image = place.image();
    let image = image.to_str().unwrap();
    finish(steadyfs().args(args.iter().map(|arg| if *arg == "@" { image } else { *arg })).current_dir(place.dir.path()))
}

/// Writes a file; a checkpoint alone commits only contents that were written back.
fn write(place: &Place, name: &str, contents: &[u8]) {
    let mut file = File::create(place.mnt().join(name)).unwrap();
    file.write_all(contents).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn what_only_reads_shows_the_last_checkpoint() {
    let place = Place::new();
    let child = place.serve(&["--create", "128M"]);
    fs::create_dir(place.mnt().join("dir")).unwrap();
    write(&place, "dir/file", b"contents\n");
    // A checkpoint.
    File::open(place.mnt()).unwrap().sync_all().unwrap();
    for (args, shown) in [
        (&["ls", "-l", "@", "/dir"][..], "file"),
        (&["find", "@"], "/dir/file"),
        (&["stat", "@", "/dir/file"], "regular file"),
        (&["cat", "@", "/dir/file"], "contents\n"),
        (&["get", "@", "/dir", "copy"], ""),
        (&["info", "@"], "features"),
        (&["dump", "sb", "@"], "block_count"),
        (&["dump", "inode", "3", "@"], "i_mode"),
        (&["gc", "--plan", "@"], ""),
        (&["fsck", "-n", "@"], "no errors"),
    ] {
        let out = on(&place, args);
        assert_eq!(out.code, 0, "{args:?}: {out:?}");
        assert!(out.stdout.contains(shown), "{args:?}: {out:?}");
        let (said, dir) = (&out.stderr, place.mnt());
        let wanted = format!("in use, mounted on {}; this is its last checkpoint", dir.display());
        assert!(said.contains(&wanted) && said.lines().count() == 1, "{args:?}: {said}");
    }
    assert_eq!(fs::read_to_string(place.dir.path().join("copy/file")).unwrap(), "contents\n");
    let dir = place.mnt();
    for args in [&["rm", "@", "/dir/file"][..], &["gc", "@"], &["trim", "@"], &["mkdir", "@", "/new"]] {
        fails(&on(&place, args), 1, &["in use, mounted on", dir.to_str().unwrap()]);
    }
    fails(&on(&place, &["fsck", "@"]), 8, &["in use, mounted on"]);
    place.umount();
    ends_well(child, None);
    place.judge();
}

/// The reader stands still in the middle, as nobody takes what it prints; then there is a checkpoint.
#[test]
fn a_checkpoint_while_it_is_read_is_told() {
    let place = Place::new();
    let child = place.serve(&["--create", "128M"]);
    write(&place, "big", &vec![7; 4 << 20]);
    let checkpoint = || File::open(place.mnt()).unwrap().sync_all().unwrap();
    checkpoint();
    let mut cat = steadyfs();
    cat.arg("cat").arg(place.image()).arg("/big").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut reader = cat.spawn().unwrap();
    reader.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    fs::write(place.mnt().join("more"), "more").unwrap();
    checkpoint();
    let out = reader.wait_with_output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success() && said.contains("there was a checkpoint while it was read"), "{said}");
    assert!(out.stdout.len() == (4 << 20) - 1 && out.stdout.iter().all(|byte| *byte == 7));
    place.umount();
    ends_well(child, None);
}

struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// However the reads fall between the writes: what a checkpoint has made durable is shown whole, or the command says
/// that it moved.
#[test]
fn a_volume_that_moves_is_read_again_or_said_to_move() {
    let place = Place::new();
    let child = place.serve(&["--create", "128M"]);
    fs::create_dir(place.mnt().join("dir")).unwrap();
    File::open(place.mnt()).unwrap().sync_all().unwrap();
    let (mnt, done) = (place.mnt(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if done.load(SeqCst) {
                    break;
                }
                let mut file = File::create(mnt.join(format!("dir/{}", n % 50))).unwrap();
                file.write_all(&vec![n as u8; 100_000]).unwrap();
                File::open(&mnt).unwrap().sync_all().unwrap();
            }
        });
        // Also after a panic: the scope waits for its threads.
        let _end = SetAtEnd(&done);
        let mut whole = 0;
        for _ in 0..30 {
            let out = on(&place, &["ls", "-lR", "@"]);
            let moved = out.stderr.contains("there was a checkpoint while it was read");
            assert!(out.code == 0 || moved, "{out:?}");
            whole += u32::from(out.code == 0);
            let out = on(&place, &["fsck", "-n", "@"]);
            assert!([0, 4, 8].contains(&out.code), "{out:?}");
        }
        assert!(whole > 0, "not one of thirty was read");
    });
    place.umount();
    ends_well(child, None);
    place.judge();
}

/// A loop device of the image, taken away when it goes.
struct Loop(PathBuf);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

/// By whatever name: one process serves a volume, and who asks for it again is told where.
#[test]
fn a_second_mount_is_refused_and_told_of_the_first() {
    let place = Place::formatted();
    let device = finish(Command::new("losetup").args(["-f", "--show"]).arg(place.image())).stdout;
    let device = Loop(device.trim().into());
    let second = place.dir.path().join("second");
    let mount = |source: &Path, options: &str| {
        let mut mount = steadyfs();
        finish(mount.args(["mount", "--background", "-o", options]).arg(source).arg(&second))
    };
    let table_names = || {
        let table = fs::read_to_string("/proc/self/mounts").unwrap();
        let line = table.lines().find(|line| line.contains(place.mnt().to_str().unwrap())).unwrap();
        PathBuf::from(line.split(' ').next().unwrap())
    };
    // By the image's path, first with the name of a loop device, then without; and by a loop device.
    for (first, options) in [(place.image(), "noatime"), (place.image(), "noblkdev"), (device.0.clone(), "noatime")] {
        let mut mounted = steadyfs();
        let out = finish(mounted.args(["mount", "--background", "-o", options]).arg(&first).arg(place.mnt()));
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{out:?}");
        for source in [place.image(), device.0.clone(), table_names()] {
            for options in ["noatime", "ro"] {
                let out = mount(&source, options);
                let dir = format!("it is in use, mounted on {}", place.mnt().display());
                fails(&out, 32, &["cannot open", source.to_str().unwrap(), &dir, "unmount it"]);
            }
        }
        umount(&place.mnt());
        place.wait_until_closed();
    }
    // Those that only read share it.
    assert_eq!(place.mount(&["--background", "-o", "ro"]).code, 0);
    assert_eq!(mount(&place.image(), "ro").code, 0);
    assert!(fs::read_dir(&second).is_ok() && place.is_mounted());
    umount(&second);
    place.umount();
    place.judge();
}
