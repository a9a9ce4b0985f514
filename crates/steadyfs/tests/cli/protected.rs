//! Mounts of what cannot be written: read-only with one line that says why, unless the user said `rw`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, mount_bind, mount_remount};

use crate::inspect::fails;
use crate::mount::{Place, ends_well};
use crate::run::{Output, finish, in_a_mount_namespace, run_as, steadyfs, umount};

pub(crate) fn system(program: &str, args: &[&str]) -> Output {
    let out = finish(Command::new(program).args(args));
    assert_eq!(out.code, 0, "{program} {args:?}: {out:?}");
    out
}

/// What protects an image, and the path under which it is protected; taken away when it goes.
enum Protection {
    Device(PathBuf),
    Immutable(PathBuf),
    ReadOnlyHost(PathBuf),
}

impl Protection {
    /// A loop device that is set read-only.
    fn device(place: &Place) -> Self {
        let path = system("losetup", &["-f", "--show", place.image().to_str().unwrap()]).stdout;
        let path = path.trim();
        system("blockdev", &["--setro", path]);
        Protection::Device(path.into())
    }

    fn immutable(place: &Place) -> Self {
        system("chattr", &["+i", place.image().to_str().unwrap()]);
        Protection::Immutable(place.image())
    }

    /// The directory of the image, seen read-only elsewhere.
    fn read_only_host(place: &Place) -> Self {
        let dir = place.dir.path().join("host");
        fs::create_dir(&dir).unwrap();
        mount_bind(place.dir.path(), &dir).unwrap();
        mount_remount(&dir, MountFlags::BIND | MountFlags::RDONLY, c"").unwrap();
        Protection::ReadOnlyHost(dir)
    }

    fn path(&self) -> PathBuf {
        match self {
            Protection::Device(path) | Protection::Immutable(path) => path.clone(),
            Protection::ReadOnlyHost(dir) => dir.join("a.img"),
        }
    }

    fn why(&self) -> &'static str {
        match self {
            Protection::Device(_) => "the device is set read-only",
            Protection::Immutable(_) => "it is marked immutable or append-only",
            Protection::ReadOnlyHost(_) => "the file system that it is on is read-only",
        }
    }
}

impl Drop for Protection {
    fn drop(&mut self) {
        let done = |program: &str, arg: &str, path: &Path| Command::new(program).arg(arg).arg(path).status().is_ok();
        match self {
            // Else it would be read-only for the next file as well.
            Protection::Device(path) => done("blockdev", "--setrw", path) && done("losetup", "-d", path),
            Protection::Immutable(path) => done("chattr", "-i", path),
            Protection::ReadOnlyHost(dir) => done("umount", "-l", dir),
        };
    }
}

/// A volume with a file that was fsynced and is in no checkpoint.
pub(crate) fn crashed() -> Place {
    let place = Place::formatted();
    let mut child = place.serve(&[]);
    let file = fs::File::create(place.mnt().join("file")).unwrap();
    file.sync_all().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    drop(file);
    umount(&place.mnt());
    place
}

fn try_mount(device: &Path, place: &Place, args: &[&str]) -> Output {
    finish(steadyfs().arg("mount").args(args).arg(device).arg(place.mnt()))
}

#[test]
fn what_cannot_be_written_is_mounted_read_only() {
    for protect in [Protection::device, Protection::immutable, Protection::read_only_host] {
        let place = crashed();
        let before = fs::read(place.image()).unwrap();
        let protection = protect(&place);
        let (device, why) = (protection.path(), protection.why());
        let named = device.to_str().unwrap();
        let by_mount = |options: &str| run_as("mount.steadyfs", &[named, place.mnt().to_str().unwrap(), "-o", options]);
        // mount(8) says `rw` whenever nobody said `ro`.
        for out in [&|| try_mount(&device, &place, &["--background"]) as Output, &|| by_mount("rw,nofail")]
            as [&dyn Fn() -> Output; 2]
        {
            let out = out();
            assert_eq!(out.code, 0, "{out:?}");
            let said = format!("steadyfs: {named} is write-protected ({why}); mounting it read-only\n");
            assert_eq!(out.stderr, said, "{out:?}");
            let table = fs::read_to_string("/proc/self/mounts").unwrap();
            let at = format!(" {} ", place.mnt().display());
            let line = table.lines().find(|line| line.contains(&at)).unwrap();
            assert!(line.contains(" fuseblk.steadyfs ro,"), "{line}");
            // Recovered in memory.
            assert!(place.mnt().join("file").exists());
            let refused = fs::write(place.mnt().join("more"), "text").unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
            place.umount();
        }
        for args in [&["-o", "rw"][..], &["--background", "-o", "ro,noatime,rw"]] {
            fails(&try_mount(&device, &place, args), 32, &["for writing", why, "without `rw`"]);
            assert!(!place.is_mounted());
        }
        let out = try_mount(&device, &place, &["--background", "-o", "rw,ro"]);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""));
        place.umount();
        fails(&finish(steadyfs().args(["rm"]).arg(&device).arg("/file")), 1, &[why, "make it writable"]);
        drop(protection);
        assert!(fs::read(place.image()).unwrap() == before, "the image has changed");
        // Writable again, and `rw` is honoured.
        let child = place.serve(&["-o", "rw"]);
        assert!(place.mnt().join("file").exists());
        ends_well(child, Some(rustix::process::Signal::TERM));
        place.judge();
    }
}

/// Root may write whatever the mode says, so the command runs as nobody, from a place that nobody can reach.
#[test]
fn who_may_only_read_is_told_so() {
    let place = Place::formatted();
    let program = place.dir.path().join("steadyfs");
    fs::copy(env!("CARGO_BIN_EXE_steadyfs"), &program).unwrap();
    fs::set_permissions(place.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place.image(), fs::Permissions::from_mode(0o444)).unwrap();
    fs::create_dir(place.mnt()).unwrap();
    let script = r#"
set -e
mknod -m 666 "$DIR/fuse" c 10 229; mount --bind "$DIR/fuse" /dev/fuse
chown 65534:65534 "$DIR/mnt"
as_user="setpriv --reuid=65534 --regid=65534 --clear-groups"
$as_user "$DIR/steadyfs" mount --background "$DIR/a.img" "$DIR/mnt" >/dev/null
grep " $DIR/mnt " /proc/self/mounts
$as_user "$DIR/steadyfs" umount "$DIR/mnt"
$as_user "$DIR/steadyfs" mount -o rw "$DIR/a.img" "$DIR/mnt"
"#;
    let out = finish(in_a_mount_namespace(script).env("DIR", place.dir.path()));
    assert!(out.code == 32 && out.stdout.contains(" fuse.steadyfs ro,"), "{out:?}");
    let lines: Vec<&str> = out.stderr.lines().collect();
    let [protected, refused] = lines[..] else { panic!("{out:?}") };
    let why = "you may read it, but not write it";
    assert!(protected.contains(why) && protected.ends_with("mounting it read-only"), "{out:?}");
    assert!(refused.contains(why) && refused.contains("without `rw`"), "{out:?}");
}
