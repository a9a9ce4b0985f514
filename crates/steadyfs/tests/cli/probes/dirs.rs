//! Every operation on directories of root and of another user, and on what is in them, of three modes.

use super::calls::*;
use super::ground::{DIR_MODES, Ground, OWNERS};
use super::{Probe, Where};
use rustix::fs::{Access, FileType, IFlags, OFlags, RenameFlags};
use rustix::io::Errno;
use std::path::Path;

const NOENT: Answer = Err(Errno::NOENT);

/// What it is, how it is tried, and what comes of it at mode 0700, 0755 and 0777.
type Way = (&'static str, fn(&Ground, &Path) -> Answer, [Answer; 3]);

/// The directory itself, and looking into it.
const LOOKING: &[Way] = &[
    ("list", |_, dir| lists(dir), [ACCES, Ok(9), Ok(9)]),
    ("open", |_, dir| opens(dir, READ | OFlags::DIRECTORY), [ACCES, OK, OK]),
    ("open as a place", |_, dir| opens(dir, OFlags::PATH), [OK; 3]),
    ("open to write", |_, dir| opens(dir, WRITE), [Err(Errno::ISDIR), Err(Errno::ISDIR), Err(Errno::ISDIR)]),
    (
        "open below a place",
        |_, dir| done(rustix::fs::openat(file(dir, OFlags::PATH)?, "file", READ | OFlags::CLOEXEC, mode(0))),
        [ACCES, OK, OK],
    ),
    ("stat", |_, dir| done(rustix::fs::stat(dir)), [OK; 3]),
    ("stat below", |_, dir| done(rustix::fs::stat(dir.join("file"))), [ACCES, OK, OK]),
    ("stat a directory below", |_, dir| done(rustix::fs::stat(dir.join("dir"))), [ACCES, OK, OK]),
    ("stat two below", |_, dir| done(rustix::fs::stat(dir.join("dir/x"))), [ACCES, NOENT, NOENT]),
    ("stat through it and back", |_, dir| done(rustix::fs::stat(dir.join(".."))), [ACCES, OK, OK]),
    ("stat what is not there", |_, dir| done(rustix::fs::stat(dir.join("none"))), [ACCES, NOENT, NOENT]),
    ("open what is not there", |_, dir| opens(&dir.join("none"), READ), [ACCES, NOENT, NOENT]),
    ("read below", |_, dir| opens(&dir.join("file"), READ), [ACCES, OK, OK]),
    ("write below", |_, dir| opens(&dir.join("file"), WRITE), [ACCES; 3]),
    ("chmod below", |_, dir| chmods(&dir.join("file"), 0o777), [ACCES, PERM, PERM]),
    ("chown below", |_, dir| chowns(&dir.join("file"), Some(NOBODY), None), [ACCES, PERM, PERM]),
    (
        "get an attribute below",
        |_, dir| gets_attribute(&dir.join("file"), "user.a"),
        [ACCES, Err(Errno::NODATA), Err(Errno::NODATA)],
    ),
    (
        "a handle below",
        |ground, dir| done(ground.ask(&["handle", dir.join("file").to_str().unwrap()])),
        [ACCES, OK, OK],
    ),
    ("may read", |_, dir| may(dir, Access::READ_OK), [ACCES, OK, OK]),
    ("may write", |_, dir| may(dir, Access::WRITE_OK), [ACCES, ACCES, OK]),
    ("may pass", |_, dir| may(dir, Access::EXEC_OK), [ACCES, OK, OK]),
    ("sync", |_, dir| done(rustix::fs::fsync(file(dir, READ)?)), [ACCES, OK, OK]),
    ("open without a trace", |_, dir| opens(dir, READ | OFlags::NOATIME), [ACCES, PERM, PERM]),
    ("chmod", |_, dir| chmods(dir, 0o777), [PERM; 3]),
    ("chown", |_, dir| chowns(dir, Some(NOBODY), Some(NOBODY)), [PERM; 3]),
    ("touch", |_, dir| touches(dir), [ACCES, ACCES, OK]),
    ("set times", |_, dir| sets_times(dir, 1, 1), [PERM; 3]),
    ("get user.", |_, dir| gets_attribute(dir, "user.a"), [ACCES, Ok(5), Ok(5)]),
    ("set user.", |_, dir| sets_attribute(dir, "user.b", b"1"), [ACCES, ACCES, OK]),
    ("set trusted.", |_, dir| sets_attribute(dir, "trusted.t", b"1"), [PERM; 3]),
    ("set security.", |_, dir| sets_attribute(dir, "security.t", b"1"), [PERM; 3]),
    ("set an ACL", |_, dir| sets_attribute(dir, ACL, GREEDY_ACL), [PERM; 3]),
    ("set an ACL for what is made there", |_, dir| sets_attribute(dir, DEFAULT_ACL, GREEDY_ACL), [PERM; 3]),
    ("remove the ACL for what is made there", |_, dir| removes_attribute(dir, DEFAULT_ACL), [PERM; 3]),
    ("set flags", |_, dir| done(rustix::fs::ioctl_setflags(file(dir, READ)?, IFlags::NODUMP)), [ACCES, PERM, PERM]),
    ("set the project", |ground, dir| done(super::ioctls::sets_project(ground, dir, 5)), [ACCES, PERM, PERM]),
    ("rmdir", |_, dir| removes_dir(dir), [ACCES; 3]),
    ("rename", |ground, dir| renames(dir, &ground.fresh()), [ACCES; 3]),
];

/// Names in it.
const NAMES: &[Way] = &[
    ("create", |_, dir| creates(&dir.join("new"), 0o644), [ACCES, ACCES, OK]),
    ("create without a name", |_, dir| opens(dir, OFlags::TMPFILE | WRITE), [ACCES, ACCES, OK]),
    ("mkdir", |_, dir| makes_dir(&dir.join("new-dir")), [ACCES, ACCES, OK]),
    ("mkfifo", |_, dir| makes_device(&dir.join("new-pipe"), FileType::Fifo, 0o644, 0), [ACCES, ACCES, OK]),
    ("symlink", |_, dir| done(rustix::fs::symlink("file", dir.join("new-symlink"))), [ACCES, ACCES, OK]),
    ("link into it", |ground, dir| links(&ground.mine(), &dir.join("new-link")), [ACCES, ACCES, OK]),
    ("rename into it", |ground, dir| renames(&ground.mine(), &dir.join("came")), [ACCES, ACCES, OK]),
    ("rename over what is in it", |ground, dir| renames(&ground.mine(), &dir.join("going")), [ACCES, ACCES, OK]),
    ("rename out of it", |ground, dir| renames(&dir.join("leaving"), &ground.fresh()), [ACCES, ACCES, OK]),
    ("exchange with what is in it", |ground, dir| exchanges(&ground.mine(), &dir.join("swapped")), [ACCES, ACCES, OK]),
    (
        "leave a whiteout",
        |_, dir| renames_so(&dir.join("whited"), &dir.join("white"), RenameFlags::WHITEOUT),
        [ACCES, ACCES, OK],
    ),
    ("rename a directory in it", |_, dir| renames(&dir.join("dir"), &dir.join("dir2")), [ACCES, ACCES, OK]),
    ("rename a directory out of it", |ground, dir| renames(&dir.join("moving"), &ground.fresh()), [ACCES; 3]),
    ("unlink", |_, dir| unlinks(&dir.join("file")), [ACCES, ACCES, OK]),
    ("rmdir in it", |_, dir| removes_dir(&dir.join("empty")), [ACCES, ACCES, OK]),
    ("unlink what is not there", |_, dir| unlinks(&dir.join("none")), [ACCES, NOENT, NOENT]),
];

pub(super) fn table() -> Vec<Probe> {
    let mut probes = Vec::new();
    for (what, run, expected) in LOOKING.iter().chain(NAMES) {
        for (whose, _) in OWNERS {
            for (mode, expected) in DIR_MODES.into_iter().zip(*expected) {
                let path = format!("dirs/{whose}-{mode:o}");
                let name = format!("{what}: {path}");
                let probe = Probe::new(name, move |ground| run(ground, &ground.at(&path)), expected);
                probes.push(probe.valid(Where::Everywhere));
            }
        }
    }
    probes
}
