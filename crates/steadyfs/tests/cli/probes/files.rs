//! Every operation on files of root and of another user, of three modes.

use super::calls::*;
use super::ground::{FILE_MODES, Ground, LEN, OWNERS};
use super::{Probe, Where};
use rustix::fs::{Access, Advice, FallocateFlags, FlockOperation, IFlags, OFlags, XattrFlags};
use rustix::io::Errno;
use std::path::Path;

const BADF: Answer = Err(Errno::BADF);
const INVAL: Answer = Err(Errno::INVAL);
const EXIST: Answer = Err(Errno::EXIST);
const NODATA: Answer = Err(Errno::NODATA);

/// What it is, how it is tried, and what comes of it at mode 0600, 0644 and 0666.
type Way = (&'static str, fn(&Ground, &Path) -> Answer, [Answer; 3]);

/// Opening, reading and writing.
const CONTENTS: &[Way] = &[
    ("open to read", |_, path| opens(path, READ), [ACCES, OK, OK]),
    ("open to write", |_, path| opens(path, WRITE), [ACCES, ACCES, OK]),
    ("open to read and write", |_, path| opens(path, OFlags::RDWR), [ACCES, ACCES, OK]),
    ("open to append", |_, path| opens(path, WRITE | OFlags::APPEND), [ACCES, ACCES, OK]),
    ("open past the cache", |_, path| opens(path, READ | OFlags::DIRECT), [ACCES, OK, OK]),
    ("open as a place", |_, path| opens(path, OFlags::PATH), [OK; 3]),
    (
        "open the place that is open",
        |_, path| opens(through(&file(path, OFlags::PATH)?).as_ref(), READ),
        [ACCES, OK, OK],
    ),
    (
        "open to write what is open to read",
        |_, path| opens(through(&file(path, READ)?).as_ref(), WRITE),
        [ACCES, ACCES, OK],
    ),
    (
        "read what is open as a place",
        |_, path| done(rustix::io::read(file(path, OFlags::PATH)?, &mut [0; 9])),
        [BADF; 3],
    ),
    ("read", |_, path| Ok(rustix::io::read(file(path, READ)?, &mut [0; LEN])? as u64), [ACCES, Ok(8192), Ok(8192)]),
    ("write", |_, path| done(rustix::io::pwrite(file(path, WRITE)?, b"y", 9)), [ACCES, ACCES, OK]),
    (
        "write where it is open to read",
        |_, path| done(rustix::io::pwrite(file(path, READ)?, b"y", 9)),
        [ACCES, BADF, BADF],
    ),
    (
        "copy from it",
        |ground, path| {
            let (from, to) = (file(path, READ)?, file(&ground.mine(), WRITE)?);
            Ok(rustix::fs::copy_file_range(from, None, to, None, 4096)? as u64)
        },
        [ACCES, Ok(4096), Ok(4096)],
    ),
    (
        "copy into it",
        |ground, path| {
            let (from, to) = (file(&ground.mine(), READ)?, file(path, WRITE)?);
            Ok(rustix::fs::copy_file_range(from, None, to, None, 4096)? as u64)
        },
        [ACCES, ACCES, Ok(4096)],
    ),
    (
        "copy into it where it is open to read",
        |ground, path| {
            let (from, to) = (file(&ground.mine(), READ)?, file(path, READ)?);
            done(rustix::fs::copy_file_range(from, None, to, None, 4096))
        },
        [ACCES, BADF, BADF],
    ),
    ("allocate", |_, path| allocates(path, WRITE, FallocateFlags::KEEP_SIZE), [ACCES, ACCES, OK]),
    (
        "punch",
        |_, path| allocates(path, WRITE, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE),
        [ACCES, ACCES, OK],
    ),
    (
        "allocate where it is open to read",
        |_, path| allocates(path, READ, FallocateFlags::KEEP_SIZE),
        [ACCES, BADF, BADF],
    ),
    (
        "ftruncate where it is open to read",
        |_, path| done(rustix::fs::ftruncate(file(path, READ)?, 10)),
        [ACCES, INVAL, INVAL],
    ),
    ("truncate", |ground, path| done(ground.ask(&["truncate", path.to_str().unwrap(), "5000"])), [ACCES, ACCES, OK]),
    ("open and truncate", |_, path| opens(path, WRITE | OFlags::TRUNC), [ACCES, ACCES, OK]),
    ("open to read and truncate", |_, path| opens(path, READ | OFlags::TRUNC), [ACCES, ACCES, OK]),
    ("sync what is open to read", |_, path| done(rustix::fs::fsync(file(path, READ)?)), [ACCES, OK, OK]),
    (
        "advise what is open to read",
        |_, path| done(rustix::fs::fadvise(file(path, READ)?, 0, None, Advice::DontNeed)),
        [ACCES, OK, OK],
    ),
    (
        "lock what is open to read",
        |_, path| done(rustix::fs::flock(file(path, READ)?, FlockOperation::NonBlockingLockExclusive)),
        [ACCES, OK, OK],
    ),
    ("may read", |_, path| may(path, Access::READ_OK), [ACCES, OK, OK]),
    ("may write", |_, path| may(path, Access::WRITE_OK), [ACCES, ACCES, OK]),
    ("may run", |_, path| may(path, Access::EXEC_OK), [ACCES; 3]),
];

/// Attributes, flags and names.
const ATTRIBUTES: &[Way] = &[
    ("stat", |_, path| done(rustix::fs::stat(path)), [OK; 3]),
    ("chmod", |_, path| chmods(path, 0o777), [PERM; 3]),
    ("chmod to set-id", |_, path| chmods(path, 0o6777), [PERM; 3]),
    ("fchmod", |_, path| done(rustix::fs::fchmod(file(path, READ)?, mode(0o666))), [ACCES, PERM, PERM]),
    ("fchmod of a place", |_, path| done(rustix::fs::fchmod(file(path, OFlags::PATH)?, mode(0o666))), [BADF; 3]),
    ("chown to oneself", |_, path| chowns(path, Some(NOBODY), None), [PERM; 3]),
    ("chown to another", |_, path| chowns(path, Some(OTHER + 1), None), [PERM; 3]),
    ("chgrp to one's own", |_, path| chowns(path, None, Some(NOBODY)), [PERM; 3]),
    ("touch", |_, path| touches(path), [ACCES, ACCES, OK]),
    ("touch one time", |_, path| half_touches(path), [PERM; 3]),
    ("set times", |_, path| sets_times(path, 1, 1), [PERM; 3]),
    ("open without a trace", |_, path| opens(path, READ | OFlags::NOATIME), [ACCES, PERM, PERM]),
    (
        "go on reading without a trace",
        |_, path| done(rustix::fs::fcntl_setfl(file(path, READ)?, OFlags::NOATIME)),
        [ACCES, PERM, PERM],
    ),
    ("list attributes", |_, path| lists_attributes(path), [Ok(2); 3]),
    ("get user.", |_, path| gets_attribute(path, "user.a"), [ACCES, Ok(5), Ok(5)]),
    ("set user.", |_, path| sets_attribute(path, "user.b", b"1"), [ACCES, ACCES, OK]),
    (
        "replace user.",
        |_, path| done(rustix::fs::setxattr(path, "user.a", b"2", XattrFlags::REPLACE)),
        [ACCES, ACCES, OK],
    ),
    ("remove user.", |_, path| removes_attribute(path, "user.a"), [ACCES, ACCES, OK]),
    ("get trusted.", |_, path| gets_attribute(path, "trusted.t"), [NODATA; 3]),
    ("set trusted.", |_, path| sets_attribute(path, "trusted.t", b"1"), [PERM; 3]),
    ("remove trusted.", |_, path| removes_attribute(path, "trusted.t"), [PERM; 3]),
    ("get security.", |_, path| gets_attribute(path, "security.t"), [Ok(5); 3]),
    ("set security.", |_, path| sets_attribute(path, "security.t", b"1"), [PERM; 3]),
    ("remove security.", |_, path| removes_attribute(path, "security.t"), [PERM; 3]),
    ("set security.capability", |_, path| sets_attribute(path, "security.capability", CAPABILITY), [PERM; 3]),
    ("remove security.capability", |_, path| removes_attribute(path, "security.capability"), [PERM; 3]),
    ("get its ACL", |_, path| gets_attribute(path, ACL), [NODATA; 3]),
    ("set a plain ACL", |_, path| sets_attribute(path, ACL, PLAIN_ACL), [PERM; 3]),
    ("set a greedy ACL", |_, path| sets_attribute(path, ACL, GREEDY_ACL), [PERM; 3]),
    ("remove its ACL", |_, path| removes_attribute(path, ACL), [PERM; 3]),
    ("ask for flags", |_, path| done(rustix::fs::ioctl_getflags(file(path, READ)?)), [ACCES, OK, OK]),
    ("set flags", |_, path| done(rustix::fs::ioctl_setflags(file(path, READ)?, IFlags::NODUMP)), [ACCES, PERM, PERM]),
    (
        "make immutable",
        |_, path| done(rustix::fs::ioctl_setflags(file(path, READ)?, IFlags::IMMUTABLE)),
        [ACCES, PERM, PERM],
    ),
    ("set the project", |ground, path| done(super::ioctls::sets_project(ground, path, 5)), [ACCES, PERM, PERM]),
    ("unlink", |_, path| unlinks(path), [ACCES; 3]),
    ("rmdir", |_, path| removes_dir(path), [ACCES; 3]),
    ("rename away", |ground, path| renames(path, &ground.fresh()), [ACCES; 3]),
    ("rename over it", |ground, path| renames(&ground.mine(), path), [ACCES; 3]),
    ("exchange", |ground, path| exchanges(&ground.mine(), path), [ACCES; 3]),
    ("create anew", |_, path| creates(path, 0o644), [EXIST; 3]),
    ("mkdir", |_, path| makes_dir(path), [EXIST; 3]),
    ("symlink", |_, path| done(rustix::fs::symlink("x", path)), [EXIST; 3]),
    ("link over it", |ground, path| links(&ground.mine(), path), [EXIST; 3]),
    ("look below it", |_, path| done(rustix::fs::stat(path.join("x"))), [Err(Errno::NOTDIR); 3]),
    ("read it as a link", |_, path| done(rustix::fs::readlink(path, Vec::new())), [INVAL; 3]),
];

/// Links: as fs.protected_hardlinks has it.
const LINKS: &[Way] = &[
    ("link", |ground, path| links(path, &ground.fresh()), [PERM, PERM, OK]),
    (
        "link what is open as a place",
        |ground, path| links_open(&file(path, OFlags::PATH)?, &ground.fresh()),
        [PERM, PERM, OK],
    ),
];

fn allocates(path: &Path, how: OFlags, what: FallocateFlags) -> Answer {
    done(rustix::fs::fallocate(file(path, how)?, what, 0, 4096))
}

pub(super) fn table() -> Vec<Probe> {
    let mut probes = Vec::new();
    for (ways, valid) in [(CONTENTS, Where::Everywhere), (ATTRIBUTES, Where::Everywhere), (LINKS, Where::GuardedLinks)]
    {
        for (what, run, expected) in ways {
            for (whose, _) in OWNERS {
                for (mode, expected) in FILE_MODES.into_iter().zip(*expected) {
                    let path = format!("files/{whose}-{mode:o}");
                    let name = format!("{what}: {path}");
                    probes.push(Probe::new(name, move |ground| run(ground, &ground.at(&path)), expected).valid(valid));
                }
            }
        }
    }
    probes
}
