//! `mount`: in the foreground, in the background and as the helper of mount(8), with its exit codes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::mount::MountFlags;
use rustix::process::{Pid, Signal, kill_process};
use steadyfs_testkit::fsck_f2fs;

use crate::inspect::fails;
use crate::run::{Output, finish, in_a_mount_namespace, run, run_as, steadyfs, umount, unless_busy};

/// A directory for an image and a mount point; unmounts when it goes.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Place { dir: tempfile::tempdir().unwrap() }
    }

    /// With a volume of mkfs.
    pub(crate) fn formatted() -> Self {
        let place = Place::new();
        place.mkfs();
        place
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.dir.path().join("a.img")
    }

    pub(crate) fn mnt(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    pub(crate) fn mkfs(&self) {
        let out = finish(steadyfs().arg("mkfs").arg("-q").arg(self.image()).arg("128M"));
        assert_eq!(out.code, 0, "{}", out.stderr);
    }

    pub(crate) fn mount(&self, args: &[&str]) -> Output {
        finish(steadyfs().arg("mount").args(args).arg(self.image()).arg(self.mnt()))
    }

    /// Mounts in the foreground and waits for the line that says so.
    pub(crate) fn serve(&self, args: &[&str]) -> Child {
        self.serve_and_tell(args).0
    }

    /// As [`Place::serve`]; with the line after that one, if metrics are served.
    pub(crate) fn serve_and_tell(&self, args: &[&str]) -> (Child, String) {
        // With no signal ignored, as they are where tests run in the background: a mount leaves those ignored.
        let mut child = Command::new("env")
            .arg("--default-signal")
            .arg(steadyfs().get_program())
            .arg("mount")
            .args(args)
            .arg(self.image())
            .arg(self.mnt())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let line = lines.find(|line| !line.starts_with("recovered ")).expect("a line");
        assert!(line.starts_with("mounted ") && line.contains("unmounts it"), "{line}");
        let told = if args.contains(&"--metrics") { lines.next().expect("where metrics are") } else { String::new() };
        // Behind what this mount does not do, if there is something.
        assert!(lines.any(|line| line.starts_with("requests come through /dev/fuse")), "how requests come");
        (child, told)
    }

    #[track_caller]
    pub(crate) fn umount(&self) {
        umount(&self.mnt());
        self.wait_until_closed();
    }

    /// umount(8) returns before the serving process has closed the image.
    #[track_caller]
    pub(crate) fn wait_until_closed(&self) {
        let (file, start) = (File::open(self.image()).unwrap(), Instant::now());
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            assert!(start.elapsed() < Duration::from_secs(30), "the image is still in use");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn is_mounted(&self) -> bool {
        let table = fs::read_to_string("/proc/self/mounts").unwrap();
        table.lines().any(|line| line.split(' ').nth(1) == self.mnt().to_str())
    }

    #[track_caller]
    pub(crate) fn judge(&self) {
        fsck_f2fs(self.image()).unwrap();
        assert_eq!(finish(steadyfs().arg("fsck").arg("-f").arg(self.image())).code, 0);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_mounted() {
            let _ = Command::new("umount").arg("-l").arg(self.mnt()).status();
        }
    }
}

#[track_caller]
pub(crate) fn ends_well(mut child: Child, signal: Option<Signal>) {
    if let Some(signal) = signal {
        kill_process(Pid::from_child(&child), signal).unwrap();
    }
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn info_of_a_mount_shows_what_it_has_done() {
    let place = Place::new();
    let child = place.serve(&["--create", "256M"]);
    let file = File::create(place.mnt().join("file")).unwrap();
    let info = || {
        let out = finish(steadyfs().args(["info", "--json"]).arg(place.mnt()));
        assert_eq!(out.code, 0, "{}", out.stderr);
        serde_json::from_str::<serde_json::Value>(&out.stdout).unwrap()
    };
    let before = info();
    file.sync_all().unwrap();
    let after = info();
    assert_eq!(after["fsyncs"]["chained"].as_u64(), before["fsyncs"]["chained"].as_u64().map(|n| n + 1));
    assert!(after["io"]["flushes"].as_u64() > before["io"]["flushes"].as_u64());
    File::open(place.mnt()).unwrap().sync_all().unwrap();
    assert!(info()["checkpoints"]["committed"].as_u64() > after["checkpoints"]["committed"].as_u64());
    let text = finish(steadyfs().arg("info").arg(place.mnt())).stdout;
    assert!(text.lines().any(|line| line.starts_with("checkpoints.freeze_waits.p99_us ")), "{text}");
    drop(file);
    ends_well(child, Some(Signal::INT));
    let elsewhere = finish(steadyfs().arg("info").arg(place.dir.path()));
    assert_eq!(elsewhere.code, 1);
    assert!(elsewhere.stderr.contains("no SteadyFS volume is mounted"), "{}", elsewhere.stderr);
}

/// Lines `name  value` of the first part of what `info` prints.
fn head(out: Output) -> BTreeMap<String, String> {
    assert_eq!(out.code, 0, "{out:?}");
    let lines = out.stdout.lines().take_while(|line| !line.is_empty());
    lines.map(|line| line.split_at(14)).map(|(name, value)| (name.trim().to_owned(), value.to_owned())).collect()
}

#[test]
fn info_of_a_mount_says_first_what_the_volume_is() {
    for (kind, options) in [("f2fs", &["64M"][..]), ("d2fs", &["--capacity", "40M"]), ("iplfs", &["--capacity", "40M"])]
    {
        let place = Place::new();
        let device = place.dir.path().join(if kind == "iplfs" { "chunks/" } else { "device" });
        let (extra, size) = if kind == "f2fs" { (&[][..], options) } else { (options, &[][..]) };
        let made =
            finish(steadyfs().args(["mkfs", "-q", "-l", "näme", "--kind", kind]).args(extra).arg(&device).args(size));
        assert_eq!(made.code, 0, "{made:?}");
        let image = head(finish(steadyfs().arg("info").arg(&device)));
        let out = finish(steadyfs().args(["mount", "--background", "-q"]).arg(&device).arg(place.mnt()));
        assert_eq!((out.code, out.stdout.as_str(), out.stderr.as_str()), (0, "", ""));
        let mounted = head(finish(steadyfs().arg("info").arg(place.mnt())));
        for name in ["kind", "label", "uuid", "features"] {
            assert_eq!(mounted[name], image[name], "{kind}: {name}");
        }
        assert_eq!((mounted["kind"].as_str(), mounted["label"].as_str()), (kind, "näme"));
        assert_eq!(mounted.get("size").map(|size| &size[..6]), image.get("size").map(|size| &size[..6]), "{kind}");
        assert!(mounted["space"].contains(" used (") && mounted["mounted"].starts_with("takes changes, for 0d 00:00:"));
        umount(&place.mnt());
    }
}

#[test]
fn mount_and_umount_tell_scripts_what_they_did() {
    let place = Place::new();
    let mount = |args: &[&str]| place.mount(&[&["--background", "--json"], args].concat());
    let object = |out: Output| {
        assert_eq!(out.code, 0, "{out:?}");
        serde_json::from_str::<serde_json::Value>(&out.stdout).unwrap()
    };
    let told = object(mount(&["--create", "64M", "--metrics", "127.0.0.1:0"]));
    assert_eq!(told["device"], place.image().to_str().unwrap());
    assert_eq!(told["dir"], place.mnt().to_str().unwrap());
    assert_eq!((&told["read_only"], &told["recovered"]), (&false.into(), &serde_json::Value::Null));
    assert!(told["metrics"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{told}");
    assert!(!told["transport"].as_str().unwrap().is_empty());
    // A file that is fsynced before the mount is killed.
    let file = File::create(place.mnt().join("file")).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let server = crate::private::server(&place.image());
    let pid: i32 = server.file_name().unwrap().to_str().unwrap().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let told = object(mount(&["-o", "ro"]));
    assert_eq!((&told["read_only"], &told["recovered"]["files"]), (&true.into(), &1.into()), "{told}");
    let end = object(unless_busy(|| finish(steadyfs().args(["umount", "--json"]).arg(place.mnt()))));
    assert_eq!((&end["dir"], &end["complete"]), (&place.mnt().to_str().unwrap().into(), &true.into()));
}

/// On slow storage an fsync takes as long as the programs it waits for; the image is a volume like any other.
#[test]
fn an_image_can_take_the_time_of_an_ssd() {
    let place = Place::new();
    let child = place.serve(&["--device", "emu:slow-emmc,size=128M"]);
    let mut file = File::create(place.mnt().join("file")).unwrap();
    let start = Instant::now();
    for _ in 0..10 {
        file.write_all(&[7; 4096]).unwrap();
        file.sync_all().unwrap();
    }
    assert!(start.elapsed() > Duration::from_millis(10), "a program takes a millisecond: {:?}", start.elapsed());
    drop(file);
    ends_well(child, Some(Signal::INT));
    place.judge();
    assert_eq!(place.mount(&["--background", "--device", "emu:970pro"]).code, 0);
    assert_eq!(fs::read(place.mnt().join("file")).unwrap(), vec![7; 40960]);
    place.umount();
    let wrong = place.mount(&["--device", "emu:floppy"]);
    assert!(wrong.code != 0 && wrong.stderr.contains("no preset is called floppy"), "{wrong:?}");
}

#[test]
fn the_first_command_of_the_readme() {
    let place = Place::new();
    let child = place.serve(&["--create", "256M"]);
    assert_eq!(fs::metadata(place.image()).unwrap().len(), 256 << 20);
    fs::write(place.mnt().join("hello"), "world").unwrap();
    ends_well(child, Some(Signal::INT));
    assert!(!place.is_mounted());
    place.judge();
    // Once more with what is there; and SIGTERM, as a service manager sends it.
    let child = place.serve(&["--create", "256M"]);
    assert_eq!(fs::read_to_string(place.mnt().join("hello")).unwrap(), "world");
    fs::create_dir(place.mnt().join("d")).unwrap();
    ends_well(child, Some(Signal::TERM));
    // And umount.
    let child = place.serve(&[]);
    assert!(place.mnt().join("d").is_dir());
    fs::remove_dir(place.mnt().join("d")).unwrap();
    umount(&place.mnt());
    ends_well(child, None);
    place.judge();
}

#[test]
fn in_the_background_and_as_the_helper_of_mount() {
    let place = Place::formatted();
    for start in [
        &|place: &Place| place.mount(&["--background"]) as Output,
        &|place: &Place| as_helper("mount.steadyfs", place, &["-o", "rw,nofail,x-systemd.automount", "-n", "-v"]),
        &|place: &Place| as_helper("mount.fuse.steadyfs", place, &["-s", "-o", "rw,no_such_option"]),
    ] as [&dyn Fn(&Place) -> Output; 3]
    {
        let out = start(&place);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""));
        assert!(place.is_mounted());
        fs::write(place.mnt().join("file"), "text").unwrap();
        place.umount();
        place.judge();
    }
}

pub(crate) fn as_helper(name: &str, place: &Place, options: &[&str]) -> Output {
    let (image, mnt) = (place.image(), place.mnt());
    run_as(name, &[&[image.to_str().unwrap(), mnt.to_str().unwrap()], options].concat())
}

/// Lines of `/etc/fstab` that were written for F2FS, and what mount(8) knows of every file system.
#[test]
fn options_of_other_file_systems() {
    let place = Place::formatted();
    let moved = "rw,lazytime,background_gc=sync,discard,no_heap,user_xattr,inline_xattr,acl,inline_data,inline_dentry,flush_merge,barrier,\
                 extent_cache,mode=adaptive,active_logs=6,alloc_mode=default,checkpoint_merge,fsync_mode=posix,discard_unit=block";
    let out = as_helper("mount.f2fs", &place, &["-o", moved]);
    assert_eq!(out.code, 0, "{out:?}");
    let told = |option: &str| out.stderr.contains(&format!("the option `{option}` changes nothing here: "));
    assert!(told("lazytime") && told("no_heap") && told("discard_unit=block") && !told("discard"), "{}", out.stderr);
    place.umount();
    let out = as_helper("mount.steadyfs", &place, &["-o", "dirsync,nodiratime,nosymfollow"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""));
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = table.lines().find(|line| line.contains(place.mnt().to_str().unwrap())).unwrap();
    assert!(["dirsync", "nodiratime", "nosymfollow"].iter().all(|flag| line.contains(flag)), "{line}");
    place.umount();
    for (option, why) in [("checkpoint=disable", "held back"), ("noacl", "always"), ("usrquota", "quotas")] {
        fails(&as_helper("mount.steadyfs", &place, &["-o", option]), 1, &[option, why]);
    }
    place.judge();
}

#[test]
fn a_mount_becomes_read_only_and_writable_again() {
    // The kernel's `sync` does not reach the second.
    for options in ["noatime", "noatime,noblkdev"] {
        let place = Place::formatted();
        assert_eq!(as_helper("mount.steadyfs", &place, &["-o", options]).code, 0);
        let (kept, later) = (place.mnt().join("kept"), place.mnt().join("later"));
        fs::write(&kept, "text").unwrap();
        let writer = File::options().append(true).open(&kept).unwrap();
        fails(&as_helper("mount.steadyfs", &place, &["-o", "remount,ro"]), 32, &["cannot remount", "busy"]);
        drop(writer);
        let out = unless_busy(|| as_helper("mount.steadyfs", &place, &["-o", "remount,ro,cache=64M"]));
        assert_eq!((out.code, out.stderr.as_str()), (0, ""));
        assert_eq!(fs::write(&later, "text").unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        // What was there is in the image, with nothing else to make it so.
        let copy = place.dir.path().join("copy");
        fs::copy(place.image(), &copy).unwrap();
        let listed = run(&["cat", copy.to_str().unwrap(), "/kept"]);
        assert_eq!((listed.code, listed.stdout.as_str()), (0, "text"), "{listed:?}");
        // As mount(8) calls mount.fuse(8): with what the mount table shows.
        let shown = "rw,relatime,user_id=0,group_id=0,default_permissions,allow_other,remount";
        let out = run(&[place.image().to_str().unwrap(), place.mnt().to_str().unwrap(), "-o", shown]);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""));
        fs::write(&later, "text").unwrap();
        place.umount();
        place.judge();
    }
    let place = Place::formatted();
    fs::create_dir(place.mnt()).unwrap();
    fails(&as_helper("mount.steadyfs", &place, &["-o", "remount,ro"]), 32, &["no SteadyFS volume"]);
}

/// As mount.fuse(8) calls the command for a mount of type `fuse.steadyfs`.
#[test]
fn as_the_program_of_mount_fuse() {
    let place = Place::formatted();
    let (image, mnt) = (place.image(), place.mnt());
    let out = run(&[image.to_str().unwrap(), mnt.to_str().unwrap(), "-o", "rw,dev,suid"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{out:?}");
    assert!(place.is_mounted());
    place.umount();
    place.judge();
}

#[test]
fn read_only() {
    let place = Place::formatted();
    let before = fs::read(place.image()).unwrap();
    let child = place.serve(&["-o", "ro"]);
    let e = fs::write(place.mnt().join("file"), "text").unwrap_err();
    assert_eq!(e.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    ends_well(child, Some(Signal::INT));
    assert!(fs::read(place.image()).unwrap() == before, "the image has changed");
}

#[test]
fn what_cannot_be_mounted() {
    let place = Place::new();
    fails(&place.mount(&[]), 32, &["no such file"]);
    fails(&place.mount(&["--background"]), 32, &["cannot open", "no such file", "check the name"]);
    let image = File::create(place.image()).unwrap();
    image.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
    image.set_len(64 << 20).unwrap();
    fails(&place.mount(&[]), 32, &["no F2FS volume", "mkfs"]);
    place.mkfs();
    fails(&place.mount(&["-o", "rw,frobnicate"]), 1, &["frobnicate", "--help"]);
    fails(&place.mount(&["-o", "mode=sideways"]), 1, &["mode=sideways"]);
    fails(&place.mount(&["-o", "umask=9"]), 1, &["umask=9"]);
    let allowed = "scalelfs, steady, f2fs, f2fs-lfs, f2fs-m, f2fs-lm, spgc, pgc or max";
    let whole = format!("cannot use the option `gc=nonsense`: want {allowed}; see `steadyfs mount --help`");
    fails(&place.mount(&["-o", "gc=nonsense"]), 1, &[&whole]);
    fails(&place.mount(&["-o", "remount,ro"]), 1, &["remount", "only mount(8)"]);
    fails(&as_helper("mount.steadyfs", &place, &["-o", "frobnicate"]), 1, &["frobnicate"]);
    let lock = File::open(place.image()).unwrap();
    flock(&lock, FlockOperation::LockShared).unwrap();
    for args in [&[][..], &["--background"]] {
        fails(&place.mount(args), 32, &["in use"]);
    }
    drop(lock);
    fs::remove_dir(place.mnt()).unwrap();
    fs::write(place.mnt(), "a file").unwrap();
    assert_eq!(place.mount(&[]).code, 32);
    assert_eq!(finish(steadyfs().arg("mount").arg(place.image())).code, 1);
    assert_eq!(finish(steadyfs().args(["mount", "-f"]).arg(place.image()).arg(place.mnt())).code, 1);
}

#[test]
fn a_fake_mount_only_looks_at_the_options() {
    let place = Place::formatted();
    assert_eq!(as_helper("mount.steadyfs", &place, &["-f", "-o", "ro"]).code, 0);
    assert!(!place.mnt().exists());
    assert_eq!(as_helper("mount.steadyfs", &place, &["-f", "-o", "frobnicate"]).code, 1);
}

#[test]
fn help_lists_the_options() {
    let text = crate::run::run(&["mount", "--help"]).stdout;
    for option in ["cache=SIZE", "allow_other", "--create"] {
        assert!(text.contains(option), "{option} is missing in:\n{text}");
    }
    for option in ["background_gc=", "gc.collectors="] {
        assert!(!text.contains(option), "{option} is not for every day:\n{text}");
    }
    assert!(!text.contains("--helper") && !text.contains("--serve"), "{text}");
}

#[test]
fn a_mount_whose_process_was_killed_is_replaced() {
    let place = Place::formatted();
    for round in 0..3 {
        let mut child = place.serve(&[]);
        assert!(!place.mnt().join("unsynced").exists());
        let file = File::create(place.mnt().join(format!("synced{round}"))).unwrap();
        file.sync_all().unwrap();
        fs::write(place.mnt().join("unsynced"), "text").unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        drop(file);
        assert!(fs::read_dir(place.mnt()).is_err(), "somebody serves the mount");
    }
    let child = place.serve(&[]);
    assert_eq!(fs::read_dir(place.mnt()).unwrap().count(), 3);
    ends_well(child, Some(Signal::TERM));
    place.judge();
}

/// A mount in the background has no standard error: what it has to say goes to the system log, also its last words.
#[test]
fn a_mount_in_the_background_speaks_to_the_system_log() {
    let place = Place::new();
    let store = place.dir.path().join("store");
    fs::create_dir(&store).unwrap();
    let tmpfs = |args: &[&str]| assert!(Command::new("mount").args(args).arg(&store).status().unwrap().success());
    tmpfs(&["-t", "tmpfs", "-o", "size=40m", "tmpfs"]);
    let (image, socket) = (store.join("image"), place.dir.path().join("log"));
    let log = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    let mut mount = steadyfs();
    mount.args(["mount", "--background", "--create", "256M", "-o", "errors=panic"]).arg(&image).arg(place.mnt());
    let out = finish(mount.env("STEADYFS_SYSLOG", &socket));
    assert_eq!(out.code, 0, "{}", out.stderr);
    log.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The file system under the image is full before the volume is: the checkpoint of the unmount fails.
    let write = |n: u32| fs::write(place.mnt().join(format!("file{n}")), vec![7; 1 << 20]);
    let sync = || File::open(place.mnt()).and_then(|dir| dir.sync_all());
    assert!((0..100).any(|n| write(n).and_then(|()| sync()).is_err()), "100 MiB do not fit into 40 MiB");
    // It waits for the end; what is said until then has to be read meanwhile, a logger that takes nothing is not waited
    // for.
    let mut unmounting = Command::new("umount").arg("-l").arg(place.mnt()).spawn().unwrap();
    let mut message = [0; 4096];
    let last = loop {
        let length = log.recv(&mut message).expect("the last words");
        let text = String::from_utf8_lossy(&message[..length]).into_owned();
        // Errors and warnings of the facility `daemon`.
        assert!(text.starts_with("<27>steadyfs[") || text.starts_with("<28>steadyfs["), "{text}");
        if text.contains("errors=panic") {
            break text;
        }
    };
    assert!(unmounting.wait().unwrap().success());
    assert!(last.contains("the volume is as of its last checkpoint") && !last.contains('\u{1b}'), "{last}");
    assert!(Command::new("umount").arg("-l").arg(&store).status().unwrap().success());
}

/// Where there are no loop devices a mount is what it was, and says what to do about it. `steadyfs umount` and the
/// helper of umount(8) wait.
#[test]
fn without_loop_devices_a_mount_says_how_to_sync_and_unmount() {
    let place = Place::formatted();
    // A loop-control that is none, seen by this mount namespace alone.
    let script = r#"
set -e
mount --bind /dev/null /dev/loop-control
"$STEADYFS" mount --background -o uring=off "$IMAGE" "$MNT"
grep " $MNT " /proc/self/mounts
mkdir "$MNT/made"
"$STEADYFS" umount "$IMAGE"
"$STEADYFS" ls "$IMAGE"
"$STEADYFS" mount --background -o uring=off "$IMAGE" "$MNT" >/dev/null
mkdir "$MNT/later"
(exec -a umount.fuse.steadyfs "$STEADYFS" "$MNT" -n -t fuse.steadyfs)
"$STEADYFS" ls "$IMAGE"
"#;
    let mut run = in_a_mount_namespace(script);
    run.env("IMAGE", place.image()).env("STEADYFS", steadyfs().get_program());
    fs::create_dir(place.mnt()).unwrap();
    let out = finish(run.env("MNT", place.mnt()));
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{}", out.stdout);
    let lines: Vec<&str> = out.stdout.lines().collect();
    let [note, mount, ..] = lines[..] else { panic!("{}", out.stdout) };
    assert!(note.contains("`sync FILE` and fsync do") && note.contains("`steadyfs umount "), "{note}");
    assert!(mount.contains(" fuse.steadyfs rw,"), "{mount}");
    assert!(lines[2..].contains(&"made") && lines[2..].contains(&"later"), "{lines:?}");
    place.judge();
}

#[test]
fn umount_says_what_it_cannot_do() {
    let place = Place::formatted();
    let umount = |args: &[&str], target: &std::path::Path| finish(steadyfs().arg("umount").args(args).arg(target));
    fails(&umount(&[], &place.image()), 32, &["it is not mounted"]);
    fails(&umount(&[], place.dir.path()), 32, &["nothing is mounted there"]);
    let child = place.serve(&[]);
    let open = File::create(place.mnt().join("open")).unwrap();
    fails(&umount(&[], &place.mnt()), 32, &["in use", "--lazy"]);
    assert_eq!(umount(&["--lazy"], &place.mnt()).code, 0);
    assert!(!place.is_mounted());
    drop(open);
    ends_well(child, None);
}

/// A device that refuses everything is told of in a few lines, with the number of those that are not shown.
#[test]
fn a_full_host_does_not_fill_the_log() {
    let place = Place::new();
    let dir = place.dir.path().to_owned();
    rustix::mount::mount("tmpfs", &dir, "tmpfs", MountFlags::empty(), Some(c"size=40m")).unwrap();
    place.mkfs();
    let elsewhere = tempfile::tempdir().unwrap();
    let log = File::create(elsewhere.path().join("log")).unwrap();
    let mut child = Command::new(steadyfs().get_program())
        .arg("mount")
        .args([place.image(), place.mnt()])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    while !place.is_mounted() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let full = |result: std::io::Result<()>| result.is_err_and(|e| e.kind() == std::io::ErrorKind::StorageFull);
    let refused = (0..2000).filter(|n| {
        let written = File::create(place.mnt().join(n.to_string())).and_then(|mut file| {
            file.write_all(&[5; 1 << 16])?;
            file.sync_all()
        });
        full(written)
    });
    assert!(refused.count() > 100, "the host is full");
    umount(&place.mnt());
    child.wait().unwrap();
    let log = fs::read_to_string(elsewhere.path().join("log")).unwrap();
    assert!(log.lines().count() < 100 && log.contains("a write failed"), "{} lines: {log:.2000}", log.lines().count());
    rustix::mount::unmount(&dir, rustix::mount::UnmountFlags::DETACH).unwrap();
}

/// Where there is little memory a mount goes on with little, under load: many files, and writers that sync, in files
/// that are larger than its caches.
#[test]
fn a_mount_with_little_memory_stays_small() {
    let place = Place::new();
    assert_eq!(finish(steadyfs().arg("mkfs").arg("-q").arg(place.image()).arg("512M")).code, 0);
    let mut served = place.serve(&["-o", "memory=low"]);
    for n in 0..10_000 {
        File::create(place.mnt().join(format!("file{n}"))).unwrap();
    }
    std::thread::scope(|threads| {
        for n in 0..4u64 {
            let path = place.mnt().join(n.to_string());
            threads.spawn(move || {
                let file = File::create(path).unwrap();
                for i in 0..800u64 {
                    let at = (i * 7919 + n) % 1000 * (1 << 16);
                    file.write_all_at(&[n as u8; 1 << 16], at).unwrap();
                    if i % 8 == 0 {
                        file.sync_data().unwrap();
                    }
                }
            });
        }
    });
    let status = fs::read_to_string(format!("/proc/{}/status", served.id())).unwrap();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB")?.trim().parse::<u64>().ok());
    assert!(peak.is_some_and(|kib| kib * 1024 < 128_000_000), "{peak:?} KiB");
    place.umount();
    assert!(served.wait().unwrap().success());
    place.judge();
    fails(&place.mount(&["-o", "memory=much"]), 1, &["memory=much", "want normal or low"]);
}
