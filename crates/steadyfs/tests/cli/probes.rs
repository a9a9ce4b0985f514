//! What a user without rights may do on a mount that root has made for all: a table of probes, each with the answer
//! that is expected, on every kind of volume. The server answers from within its sandbox, and the same without it.
//!
//! Answers that Linux' own file systems give, too, are asked of ext4 where it can be mounted.

mod attributes;
mod bits;
mod calls;
mod control;
mod dirs;
mod files;
mod ground;
mod ioctls;
mod names;
mod special;
mod stale;

use calls::{Answer, NOBODY};
use ground::{Ground, PATTERN};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use steadyfs_fuse::STATS_ATTRIBUTE;

use crate::mount::Place;
use crate::private::{is_running, server};
use crate::run::{finish, steadyfs, umount};
use crate::sandbox::{has_few_rights, keeps_all_rights};

/// Where an answer is expected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    /// On Linux' own file systems, too.
    Everywhere,
    /// The same where users may not link files of others, as they may if nobody has set fs.protected_hardlinks.
    GuardedLinks,
    /// On our mounts.
    Here,
}

/// Something that a user without rights tries.
struct Probe {
    name: String,
    run: Box<dyn Fn(&Ground) -> Answer + Send + Sync>,
    expected: Answer,
    valid: Where,
    /// Whether all may write to the root directory then.
    open: bool,
}

impl Probe {
    fn new(name: String, run: impl Fn(&Ground) -> Answer + Send + Sync + 'static, expected: Answer) -> Self {
        Probe { name, run: Box::new(run), expected, valid: Where::Everywhere, open: false }
    }

    fn row(&(name, run, expected): &(&str, fn(&Ground) -> Answer, Answer), valid: Where) -> Self {
        Self::new(name.to_owned(), run, expected).valid(valid)
    }

    fn valid(self, valid: Where) -> Self {
        Probe { valid, ..self }
    }
}

fn table() -> Vec<Probe> {
    let subjects = [
        ("stale data", stale::table()),
        ("files", files::table()),
        ("directories", dirs::table()),
        ("names", names::table()),
        ("attributes", attributes::table()),
        ("bits", bits::table()),
        ("special files", special::table()),
        ("ioctls", ioctls::table()),
        ("control", control::table()),
    ];
    let mut all = Vec::new();
    for (subject, probes) in subjects {
        all.extend(probes.into_iter().map(|probe| Probe { name: format!("{subject}: {}", probe.name), ..probe }));
    }
    all
}

/// Runs `work` with the rights of a user who owns nothing.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    std::thread::scope(|threads| {
        let thread = threads.spawn(move || {
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(group, group, group).unwrap();
            set_thread_res_uid(user, user, user).unwrap();
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn shown(answer: Answer) -> String {
    answer.map_or_else(|errno| errno.to_string(), |number| format!("success, {number}"))
}

/// What is answered otherwise than expected.
fn unexpected(ground: &Ground, table: &[Probe]) -> Vec<String> {
    let guarded = fs::read_to_string("/proc/sys/fs/protected_hardlinks").is_ok_and(|value| value.trim() == "1");
    let mut found = Vec::new();
    for open in [false, true] {
        let mode = if open { 0o777 } else { 0o755 };
        if let Err(error) = fs::set_permissions(ground.root(), Permissions::from_mode(mode)) {
            found.push(format!("permissions of the root directory: {error}"));
        }
        let asked = table.iter().filter(|probe| probe.open == open && (guarded || probe.valid != Where::GuardedLinks));
        found.extend(as_nobody(|| {
            let all = asked.map(|probe| (probe, (probe.run)(ground)));
            let others = all.filter(|(probe, answer)| *answer != probe.expected);
            let told = |(probe, answer): (&Probe, Answer)| {
                format!("{}: {}, expected: {}", probe.name, shown(answer), shown(probe.expected))
            };
            others.map(told).collect::<Vec<_>>()
        }));
    }
    found
}

/// A volume at a place in memory.
struct Volume {
    place: Place,
    path: PathBuf,
}

impl Volume {
    fn place() -> Place {
        let shm = Path::new("/dev/shm");
        let dir = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o711)).unwrap();
        Place { dir }
    }

    /// One of ext4, mounted through a loop device. None where that is refused.
    fn of_ext4() -> Option<Self> {
        let place = Self::place();
        let (path, mnt) = (place.image(), place.mnt());
        fs::File::create(&path).unwrap().set_len(96 << 20).unwrap();
        fs::create_dir_all(&mnt).unwrap();
        let made = finish(Command::new("mkfs.ext4").arg("-q").arg(&path)).code == 0
            && finish(Command::new("mount").args(["-o", "loop"]).args([&path, &mnt])).code == 0;
        made.then_some(Volume { place, path })
    }

    /// Free blocks of an image hold the pattern, which is not discarded.
    fn make(kind: &str) -> Self {
        let place = Self::place();
        let path = match kind {
            "f2fs" => place.image(),
            "iplfs" => place.dir.path().join("chunks/"),
            _ => place.dir.path().join("moving"),
        };
        let mut mkfs = steadyfs();
        mkfs.args(["mkfs", "-q", "--kind", kind]).arg(&path);
        let out = finish(if kind == "f2fs" {
            fs::write(&path, vec![PATTERN; 96 << 20]).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            mkfs.args(["-f", "-t", "0"])
        } else {
            mkfs.args(["--capacity", "40M"])
        });
        assert_eq!(out.code, 0, "{out:?}");
        let path = path.canonicalize().unwrap();
        Volume { place, path }
    }

    /// Mounts it; the process that serves.
    fn mount(&self, options: &str) -> PathBuf {
        let mut mount = steadyfs();
        mount.args(["mount", "--background", "-o", options]).arg(&self.path).arg(self.place.mnt());
        let out = finish(&mut mount);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""));
        server(&self.path)
    }

    fn unmount_and_check(&self, process: &Path) {
        umount(&self.place.mnt());
        let start = Instant::now();
        while is_running(process) {
            assert!(start.elapsed() < Duration::from_secs(30), "it goes on serving");
            std::thread::sleep(Duration::from_millis(2));
        }
        let out = finish(steadyfs().args(["fsck", "-f"]).arg(&self.path));
        assert_eq!(out.code, 0, "{out:?}");
    }

    /// How many blocks of the image hold the pattern.
    fn traces(&self) -> u64 {
        let (mut image, mut piece) = (fs::File::open(&self.path).unwrap(), vec![0; 1 << 20]);
        let mut found = 0;
        loop {
            match image.read(&mut piece).unwrap() {
                0 => return found,
                len => found += piece[..len].chunks(4096).filter(|block| **block == [PATTERN; 4096]).count() as u64,
            }
        }
    }
}

/// Mount options for each way in which the kernel can send requests here, and what statistics call it.
fn transports() -> Vec<(&'static str, &'static str)> {
    let switch = fs::read_to_string("/sys/module/fuse/parameters/enable_uring");
    let both = switch.is_ok_and(|value| value.trim() == "Y");
    let device = ("uring=off", "/dev/fuse");
    if both { vec![("uring=auto", "io_uring"), device] } else { vec![device] }
}

/// Probes a volume, mounted with these options.
fn probe(kind: &str, options: &str, sandboxed: bool) {
    let table = table();
    for (way, transport) in transports() {
        let volume = Volume::make(kind);
        let process = volume.mount(&[options, way].join(","));
        if sandboxed {
            has_few_rights(&process);
        } else {
            keeps_all_rights(&process);
        }
        let ground = Ground::prepare(&volume.place.mnt());
        let is_image = kind == "f2fs";
        let traces = if is_image { volume.traces() } else { 0 };
        assert!(!is_image || traces > ground.left, "{traces} blocks of what was deleted, and of what was there before");
        let others = unexpected(&ground, &table);
        assert!(others.is_empty(), "{kind} {options} {way}, {} others:\n{}", others.len(), others.join("\n"));
        assert!(!is_image || volume.traces() + 2000 < traces, "hardly any block of these has been used");
        assert_eq!(way_of(&volume.place.mnt()), transport);
        drop(ground);
        volume.unmount_and_check(&process);
    }
}

/// How requests come, as statistics say.
fn way_of(dir: &Path) -> String {
    let mut value = vec![0; 64 << 10];
    let len = rustix::fs::getxattr(dir, STATS_ATTRIBUTE, &mut value[..]).unwrap();
    let stats: serde_json::Value = serde_json::from_slice(&value[..len]).unwrap();
    stats["serving"]["transport"].as_str().unwrap().to_owned()
}

#[test]
fn there_are_as_many_probes_as_were_made_by_hand_and_each_has_a_name() {
    let table = table();
    let names: BTreeSet<&str> = table.iter().map(|probe| probe.name.as_str()).collect();
    assert!(names.len() == table.len() && table.len() >= 213, "{} of {}", names.len(), table.len());
}

#[test]
fn nobody_gains_anything_on_an_image() {
    probe("f2fs", "rw", true);
}

#[test]
fn nobody_gains_anything_with_a_journal() {
    probe("f2fs", "journal=percore", true);
}

#[test]
fn nobody_gains_anything_on_a_chunk_directory() {
    probe("iplfs", "rw", true);
}

#[test]
fn nobody_gains_anything_on_a_d2fs_device() {
    probe("d2fs", "rw", true);
}

#[test]
fn the_same_is_answered_without_a_sandbox() {
    probe("f2fs", "nosandbox", false);
}

#[test]
fn ext4_answers_the_same() {
    let Some(volume) = Volume::of_ext4() else {
        eprintln!("not tested: this user or machine cannot mount ext4 through a loop device");
        return;
    };
    let mut table = table();
    table.retain(|probe| probe.valid != Where::Here);
    let ground = Ground::prepare(&volume.place.mnt());
    let others = unexpected(&ground, &table);
    drop(ground);
    umount(&volume.place.mnt());
    assert!(others.is_empty(), "{} of {}:\n{}", others.len(), table.len(), others.join("\n"));
}
