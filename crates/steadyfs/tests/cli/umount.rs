//! `steadyfs umount`, and the helper of umount(8): they say how the mount ended.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::inspect::fails;
use crate::mount::{Place, as_helper};
use crate::run::{Output, finish, in_a_mount_namespace, run_as, steadyfs, unless_busy};

/// A way to unmount, and what it is called.
type Way<'a> = (&'a str, &'a dyn Fn(&Place) -> Output);

/// A place whose image is on a small disk of its own.
struct Small {
    place: Place,
}

impl Small {
    fn new(bytes: &str) -> Self {
        let place = Place::new();
        let size = format!("size={bytes}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(place.dir.path()).status();
        assert!(mounted.unwrap().success());
        Small { place }
    }

    /// Fills the disk below the mount, and changes something after that.
    fn fill(&self) {
        let full = self.place.mnt().join("full");
        let file = File::create(&full).unwrap();
        let written = (0..64).try_for_each(|_| (&file).write_all(&[7; 1 << 20]).and_then(|()| file.sync_all()));
        assert!(written.is_err(), "64 MiB do not fit");
        drop(file);
        fs::write(self.place.mnt().join("late"), "x").unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let detach = |dir: &Path| Command::new("umount").arg("-l").arg(dir).output();
        let _ = (detach(&self.place.mnt()), detach(self.place.dir.path()));
    }
}

fn umount(target: &Path) -> Output {
    unless_busy(|| finish(steadyfs().arg("umount").arg(target)))
}

/// What a mount is on, and how it is unmounted.
#[test]
fn an_unmount_whose_last_checkpoint_fails_says_so() {
    let helper = |name: &'static str| move |place: &Place| run_as(name, &[place.mnt(), PathBuf::from("-n")]);
    let ways: [Way<'_>; 5] = [
        ("", &|place| umount(&place.mnt())),
        ("noblkdev", &|place| umount(&place.image())),
        ("fsname=other", &|place| umount(&place.mnt())),
        ("", &helper("umount.fuseblk.steadyfs")),
        ("noblkdev", &helper("umount.fuse.steadyfs")),
    ];
    for (options, unmount) in ways {
        let small = Small::new("24m");
        let place = &small.place;
        let out = place.mount(&["--background", "--create", "256M", "-o", options]);
        assert_eq!(out.code, 0, "{out:?}");
        small.fill();
        let out = unmount(place);
        fails(&out, 32, &["is unmounted, but did not end as it should", "No space left on device", "steadyfs fsck"]);
        assert!(!place.is_mounted());
    }
}

/// In the foreground the server says the same, and ends with the same code.
#[test]
fn a_server_whose_last_checkpoint_fails_says_so_too() {
    let small = Small::new("24m");
    let mut server = small.place.serve(&["--create", "256M"]);
    small.fill();
    fails(&umount(&small.place.mnt()), 32, &["No space left on device"]);
    assert_eq!(server.wait().unwrap().code(), Some(32));
}

/// What becomes read-only is to be complete: if it cannot, that is said.
#[test]
fn a_remount_whose_checkpoint_fails_says_so() {
    let small = Small::new("24m");
    assert_eq!(small.place.mount(&["--background", "--create", "256M"]).code, 0);
    small.fill();
    let out = unless_busy(|| as_helper("mount.steadyfs", &small.place, &["-o", "remount,ro"]));
    fails(&out, 32, &["cannot remount", "No space left on device"]);
}

#[test]
fn an_unmount_says_that_the_server_was_killed() {
    let place = Place::formatted();
    let mut server = place.serve(&[]);
    server.kill().unwrap();
    server.wait().unwrap();
    fails(
        &umount(&place.mnt()),
        32,
        &["is unmounted, but", "the process that served it is gone", "not synced is lost"],
    );
    assert!(!place.is_mounted());
    fails(&umount(&place.mnt()), 32, &["nothing is mounted there"]);
}

/// Each kind of place that a volume can be in, with a good end.
#[test]
fn an_unmount_that_went_well_says_nothing() {
    for (kind, create) in [("iplfs", "a.d/"), ("d2fs", "b")] {
        let place = Place::new();
        let store = place.dir.path().join(create);
        let out = finish(steadyfs().args(["mkfs", "-q", "--kind", kind, "--capacity", "128M"]).arg(&store));
        assert_eq!(out.code, 0, "{out:?}");
        for target in [&place.mnt(), &store] {
            let out = finish(steadyfs().args(["mount", "--background"]).arg(&store).arg(place.mnt()));
            assert_eq!(out.code, 0, "{out:?}");
            fs::write(place.mnt().join("file"), "text").unwrap();
            let out = umount(target);
            assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{kind} {target:?}");
        }
    }
    let place = Place::formatted();
    for options in ["", "ro", "noblkdev", "fsname=other"] {
        assert_eq!(place.mount(&["--background", "-o", options]).code, 0);
        let out = umount(&place.mnt());
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{options}");
    }
    place.judge();
}

/// Whatever the mount table names: a FIFO would keep whoever opens it waiting for a writer.
#[test]
fn an_unmount_opens_no_fifo_that_stands_in_the_table() {
    let place = Place::formatted();
    let fifo = place.dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let out = place.mount(&["--background", "-o", &format!("fsname={}", fifo.display())]);
    assert_eq!(out.code, 0, "{out:?}");
    let program = steadyfs().get_program().to_owned();
    let out = unless_busy(|| finish(Command::new("timeout").arg("20").arg(&program).arg("umount").arg(place.mnt())));
    assert_eq!((out.code, out.stderr.as_str()), (0, ""));
    place.wait_until_closed();
    place.judge();
}

/// Root takes a user's mount away: neither what the user named, nor a lock that the user holds, nor the server, which
/// the user has stopped, keeps root waiting.
#[test]
fn root_waits_for_nothing_of_a_users_mount() {
    let place = Place::formatted();
    fs::create_dir(place.mnt()).unwrap();
    for path in [place.image(), place.mnt(), place.dir.path().to_owned()] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    let script = r#"
set -e
dev=$BASE/fuse; mknod -m 666 "$dev" c 10 229; mount --bind "$dev" /dev/fuse
as_user="setpriv --reuid=65534 --regid=65534 --clear-groups"
$as_user "$STEADYFS" mount --background -o fsname="$BASE/locked" "$IMAGE" "$MNT" >/dev/null
$as_user sh -c 'exec 9>"$BASE/locked"; flock -x 9; echo locked >"$BASE/ready"; exec sleep 60' &
while ! test -s "$BASE/ready"; do sleep 0.02; done
timeout 20 "$STEADYFS" umount "$MNT"; echo "ended $?"
kill $!
$as_user "$STEADYFS" mount --background "$IMAGE" "$MNT" >/dev/null
server=$(pgrep -f -- "--serve.*$IMAGE")
kill -STOP $server
timeout 20 "$STEADYFS" umount "$MNT"; echo "ended $?"
kill -CONT $server
"#;
    let mut run = in_a_mount_namespace(script);
    run.env("BASE", place.dir.path()).env("IMAGE", place.image()).env("MNT", place.mnt());
    let out = finish(run.env("STEADYFS", steadyfs().get_program()));
    assert_eq!((out.code, out.stdout.as_str()), (0, "ended 0\nended 0\n"), "{out:?}");
    assert_eq!(out.stderr.matches("was mounted by user 65534: its last checkpoint is not waited for").count(), 2);
    place.wait_until_closed();
    place.judge();
}
