//! What a serving process keeps of its rights, and that all it has to do works with that.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::metrics::scrape;
use crate::mount::{Place, as_helper, ends_well};
use crate::private::{is_running, server};
use crate::protected::system;
use crate::remount::mount;
use crate::run::{finish, steadyfs, unless_busy};

/// The capabilities that are kept: to override permissions of files, to look at processes, to unmount.
const KEPT: u64 = 1 << 1 | 1 << 19 | 1 << 21;

/// What the kernel says of each thread of a process.
fn threads(process: &Path) -> Vec<String> {
    let tasks = fs::read_dir(process.join("task")).unwrap().map(|entry| entry.unwrap().path().join("status"));
    // A thread may end meanwhile.
    let all: Vec<String> = tasks.filter_map(|status| fs::read_to_string(status).ok()).collect();
    assert!(all.len() > 3, "{} threads", all.len());
    all
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in {status}")).trim()
}

pub(crate) fn has_few_rights(process: &Path) {
    for status in threads(process) {
        assert_eq!((field(&status, "NoNewPrivs:"), field(&status, "Seccomp:")), ("1", "2"), "{status}");
        for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
            let has = u64::from_str_radix(field(&status, set), 16).unwrap();
            assert!(has & !KEPT == 0 && has & 1 << 21 != 0, "{set} {status}");
        }
        assert_eq!(field(&status, "CapInh:"), "0000000000000000");
    }
    let limits = fs::read_to_string(process.join("limits")).unwrap();
    let core: Vec<&str> = limits.lines().find(|line| line.contains("core file")).unwrap().split_whitespace().collect();
    assert_eq!(core[4..6], ["0", "0"], "{limits}");
}

/// As this process, which has started it.
pub(crate) fn keeps_all_rights(process: &Path) {
    let own = fs::read_to_string("/proc/self/status").unwrap();
    for status in threads(process) {
        for name in ["NoNewPrivs:", "Seccomp:", "CapEff:", "CapPrm:", "CapBnd:"] {
            assert_eq!(field(&status, name), field(&own, name), "{name}");
        }
    }
}

#[test]
fn a_server_keeps_few_rights_on_every_thread_however_it_is_started() {
    let place = Place::formatted();
    let child = place.serve(&["-o", "journal=percore"]);
    fs::write(place.mnt().join("file"), "text").unwrap();
    has_few_rights(&PathBuf::from(format!("/proc/{}", child.id())));
    ends_well(child, Some(Signal::TERM));
    for by_helper in [false, true] {
        let out = if by_helper { as_helper("mount.steadyfs", &place, &[]) } else { place.mount(&["--background"]) };
        assert_eq!((out.code, out.stderr.as_str()), (0, ""));
        assert_eq!(fs::read_to_string(place.mnt().join("file")).unwrap(), "text");
        has_few_rights(&server(&place.image().canonicalize().unwrap()));
        place.umount();
    }
    place.judge();
}

#[test]
fn a_mount_without_a_sandbox_keeps_all() {
    let place = Place::formatted();
    let child = place.serve(&["-o", "nosandbox"]);
    keeps_all_rights(&PathBuf::from(format!("/proc/{}", child.id())));
    ends_well(child, Some(Signal::INT));
}

/// Everything that one can ask of a mount.
fn work(mnt: &Path) {
    fs::create_dir(mnt.join("d")).unwrap();
    let mut file = File::create(mnt.join("d/file")).unwrap();
    for n in 0..24 {
        file.write_all(&vec![n; 1 << 20]).unwrap();
    }
    file.sync_all().unwrap();
    file.write_all_at(&[9; 4096], 8192).unwrap();
    file.sync_data().unwrap();
    fs::copy(mnt.join("d/file"), mnt.join("copy")).unwrap();
    fs::rename(mnt.join("d/file"), mnt.join("renamed")).unwrap();
    fs::remove_file(mnt.join("copy")).unwrap();
    let path = mnt.join("renamed");
    system("fallocate", &["-p", "-o", "0", "-l", "4096", path.to_str().unwrap()]);
    system("setfattr", &["-n", "user.a", "-v", "b", path.to_str().unwrap()]);
    system("sync", &["-f", mnt.to_str().unwrap()]);
    assert_eq!(fs::read(&path).unwrap().len(), 24 << 20);
}

/// Each kind of place that a volume can be in, in a mount that begins read-only where that can become writable.
#[test]
fn everything_works_inside() {
    for (kind, target) in [("f2fs", "image"), ("iplfs", "chunks/"), ("d2fs", "moving")] {
        let place = Place::new();
        let volume = place.dir.path().join(target);
        let mut mkfs = steadyfs();
        mkfs.args(["mkfs", "-q", "--kind", kind]).arg(&volume);
        let sized = if kind == "f2fs" { mkfs.arg("128M") } else { mkfs.args(["--capacity", "128M"]) };
        assert_eq!(finish(sized).code, 0);
        let volume = volume.canonicalize().unwrap();
        let (metrics, trace) = (place.dir.path().join("metrics"), place.dir.path().join("trace"));
        let mut serve = steadyfs();
        serve.args(["mount", "--background", "-o", "ro", "--metrics"]).arg(&metrics).arg("--trace").arg(&trace);
        let out = finish(serve.arg(&volume).arg(place.mnt()));
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{kind}");
        let remount = |options: &str| {
            let helper = || mount(&volume, &place, options);
            let out = unless_busy(helper);
            assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{kind} {options}");
        };
        remount("remount,rw");
        work(&place.mnt());
        has_few_rights(&server(&volume));
        system("fstrim", &[place.mnt().to_str().unwrap()]);
        assert!(scrape(&mut UnixStream::connect(&metrics).unwrap()).len() > 80);
        remount("remount,ro");
        remount("remount,rw");
        let busy = File::create(place.mnt().join("busy")).unwrap();
        // Told to stop, it looks who uses the mount, and unmounts it when nobody does.
        let process = server(&volume);
        let pid = process.file_name().unwrap().to_str().unwrap();
        assert!(Command::new("kill").args(["-TERM", pid]).status().unwrap().success());
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(place.is_mounted());
        drop(busy);
        while is_running(&process) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(!place.is_mounted() && !metrics.exists());
        assert!(fs::metadata(&trace).unwrap().len() > 1000);
        assert_eq!(finish(steadyfs().arg("fsck").arg("-f").arg(&volume)).code, 0, "{kind}");
    }
}
