//! What controls the mount: attributes of the root directory that programs of ours use, and mounting.

use super::calls::*;
use super::ground::{Ground, SECRET};
use super::{Probe, Where};
use rustix::fs::{CWD, Mode};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::path::Path;

const UNKNOWN: Answer = Err(Errno::OPNOTSUPP);

/// Room for the longest value.
const ROOM: usize = 64 << 10;

/// What it is, how it is tried, and what comes of it where only root may write to the root directory, and where all
/// may.
type Row = (&'static str, fn(&Ground) -> Answer, [Answer; 2]);

const ATTRIBUTES: &[Row] = &[
    ("change the capacity", |ground| sets_attribute(ground.root(), "steadyfs.capacity", b"33554432"), [ACCES, PERM]),
    (
        "change the capacity to nonsense",
        |ground| sets_attribute(ground.root(), "steadyfs.capacity", b"x"),
        [ACCES, PERM],
    ),
    ("ask for the capacity", |ground| has(ground.root(), "steadyfs.capacity"), [UNKNOWN; 2]),
    ("remove the capacity", |ground| removes_attribute(ground.root(), "steadyfs.capacity"), [ACCES, UNKNOWN]),
    ("start a trace", |ground| sets_attribute(ground.root(), "steadyfs.trace", b"start"), [ACCES, PERM]),
    ("stop a trace", |ground| sets_attribute(ground.root(), "steadyfs.trace", b"stop"), [ACCES, PERM]),
    ("tell the trace nonsense", |ground| sets_attribute(ground.root(), "steadyfs.trace", b"x"), [ACCES, PERM]),
    ("take of the trace", |ground| has(ground.root(), "steadyfs.trace"), [PERM; 2]),
    ("size of the trace", |ground| has_size(ground.root(), "steadyfs.trace"), [PERM; 2]),
    ("remove the trace", |ground| removes_attribute(ground.root(), "steadyfs.trace"), [ACCES, UNKNOWN]),
    ("have it become writable", |ground| has(ground.root(), "steadyfs.become_writable"), [PERM; 2]),
    ("size of becoming writable", |ground| has_size(ground.root(), "steadyfs.become_writable"), [UNKNOWN; 2]),
    (
        "set becoming writable",
        |ground| sets_attribute(ground.root(), "steadyfs.become_writable", b"1"),
        [ACCES, UNKNOWN],
    ),
    ("hear of the end", |ground| has(ground.root(), "steadyfs.end.1"), [PERM; 2]),
    ("hear of the end by nothing", |ground| has(ground.root(), "steadyfs.end."), [PERM; 2]),
    ("hear of the end by nonsense", |ground| has(ground.root(), "steadyfs.end.-1"), [PERM; 2]),
    ("set the end", |ground| sets_attribute(ground.root(), "steadyfs.end.1", b"1"), [ACCES, UNKNOWN]),
    ("statistics", |ground| has(ground.root(), "steadyfs.stats"), [OK; 2]),
    ("size of statistics", |ground| has_size(ground.root(), "steadyfs.stats"), [OK; 2]),
    (
        "statistics in little room",
        |ground| done(rustix::fs::getxattr(ground.root(), "steadyfs.stats", &mut [0; 9])),
        [Err(Errno::RANGE); 2],
    ),
    ("names in statistics", |ground| names_in(ground, "steadyfs.stats"), [OK; 2]),
    ("set statistics", |ground| sets_attribute(ground.root(), "steadyfs.stats", b"1"), [ACCES, UNKNOWN]),
    ("remove statistics", |ground| removes_attribute(ground.root(), "steadyfs.stats"), [ACCES, UNKNOWN]),
    ("segments", |ground| has(ground.root(), "steadyfs.segments"), [OK; 2]),
    ("names in segments", |ground| names_in(ground, "steadyfs.segments"), [OK; 2]),
    ("set segments", |ground| sets_attribute(ground.root(), "steadyfs.segments", b"1"), [ACCES, UNKNOWN]),
    ("another name of ours", |ground| has(ground.root(), "steadyfs.other"), [UNKNOWN; 2]),
    ("attributes that the root directory lists", |ground| lists_attributes(ground.root()), [OK; 2]),
    (
        "change the capacity by one's own directory",
        |ground| sets_attribute(&ground.at("own"), "steadyfs.capacity", b"1"),
        [UNKNOWN; 2],
    ),
    (
        "start a trace by one's own file",
        |ground| sets_attribute(&ground.mine(), "steadyfs.trace", b"start"),
        [UNKNOWN; 2],
    ),
    ("become writable by one's own file", |ground| has(&ground.mine(), "steadyfs.become_writable"), [UNKNOWN; 2]),
    ("hear of the end by one's own file", |ground| has(&ground.mine(), "steadyfs.end.1"), [UNKNOWN; 2]),
    ("statistics by another's file", |ground| has(&ground.at("files/others-644"), "steadyfs.stats"), [UNKNOWN; 2]),
];

const MOUNTS: &[Row] = &[
    ("unmount", |ground| done(rustix::mount::unmount(ground.root(), UnmountFlags::empty())), [PERM; 2]),
    ("unmount at once", |ground| done(rustix::mount::unmount(ground.root(), UnmountFlags::DETACH)), [PERM; 2]),
    ("remount", |ground| done(rustix::mount::mount_remount(ground.root(), MountFlags::RDONLY, c"")), [PERM; 2]),
    ("bind", |ground| done(rustix::mount::mount_bind(ground.root(), ground.at("own"))), [PERM; 2]),
    ("move", |ground| done(rustix::mount::mount_move(ground.root(), ground.at("own"))), [PERM; 2]),
    ("size of the volume", |ground| done(rustix::fs::statfs(ground.root())), [OK; 2]),
    ("create in the root directory", |ground| creates_in_root(ground), [ACCES, OK]),
    ("chmod the root directory", |ground| chmods(ground.root(), 0o700), [PERM; 2]),
    ("chown the root directory", |ground| chowns(ground.root(), Some(NOBODY), None), [PERM; 2]),
    ("ACL of the root directory", |ground| sets_attribute(ground.root(), ACL, GREEDY_ACL), [PERM; 2]),
    ("trusted. of the root directory", |ground| sets_attribute(ground.root(), "trusted.t", b"1"), [PERM; 2]),
    ("a file system as an overlay", |ground| overlays(ground), [PERM; 2]),
];

fn has(path: &Path, name: &str) -> Answer {
    done(rustix::fs::getxattr(path, name, vec![0; ROOM].as_mut_slice()))
}

fn has_size(path: &Path, name: &str) -> Answer {
    done(rustix::fs::getxattr_query(path, name))
}

/// How many of the names that are on the volume, and of the mount, are in an attribute.
fn names_in(ground: &Ground, name: &str) -> Answer {
    let mut value = vec![0; ROOM];
    let len = rustix::fs::getxattr(ground.root(), name, value.as_mut_slice())?;
    let text = String::from_utf8_lossy(&value[..len]);
    require(len > 100)?;
    let place = ground.root().to_str().unwrap();
    Ok([SECRET, "roots", "own-sticky", place].into_iter().filter(|name| text.contains(name)).count() as u64)
}

fn creates_in_root(ground: &Ground) -> Answer {
    done(rustix::fs::mkdirat(CWD, ground.at("made-by-nobody"), Mode::from_raw_mode(0o755)))
}

fn overlays(ground: &Ground) -> Answer {
    let options = format!("lowerdir={}", ground.root().display());
    let options = std::ffi::CString::new(options).unwrap();
    done(rustix::mount::mount("overlay", ground.at("own"), "overlay", MountFlags::empty(), options.as_c_str()))
}

pub(super) fn table() -> Vec<Probe> {
    let mut probes = Vec::new();
    for (rows, valid) in [(ATTRIBUTES, Where::Here), (MOUNTS, Where::Everywhere)] {
        for (what, run, expected) in rows {
            for (open, expected) in [false, true].into_iter().zip(*expected) {
                let who = if open { "all" } else { "only root" };
                let name = format!("{what}, where {who} may write to the root directory");
                probes.push(Probe { open, ..Probe::new(name, run, expected).valid(valid) });
            }
        }
    }
    probes
}
