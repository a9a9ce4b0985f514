//! Device nodes, pipes, symlinks, handles of files, and O_NOATIME of one's own.

use super::calls::*;
use super::ground::Ground;
use super::{Probe, Where};
use rustix::fs::{FileType, OFlags, makedev};
use rustix::io::Errno;

type Row = (&'static str, fn(&Ground) -> Answer, Answer);

const NODES: &[Row] = &[
    (
        "make a character device",
        |ground| makes_device(&ground.fresh(), FileType::CharacterDevice, 0o666, makedev(1, 3)),
        PERM,
    ),
    ("make /dev/mem", |ground| makes_device(&ground.fresh(), FileType::CharacterDevice, 0o666, makedev(1, 1)), PERM),
    ("make a block device", |ground| makes_device(&ground.fresh(), FileType::BlockDevice, 0o666, makedev(7, 0)), PERM),
    ("make a block device 0:0", |ground| makes_device(&ground.fresh(), FileType::BlockDevice, 0o666, 0), PERM),
    ("make a pipe", |ground| makes_device(&ground.fresh(), FileType::Fifo, 0o644, 0), OK),
    ("make a socket", |ground| makes_device(&ground.fresh(), FileType::Socket, 0o644, 0), OK),
    ("make a file by mknod", |ground| makes_device(&ground.fresh(), FileType::RegularFile, 0o644, 0), OK),
    ("make a directory by mknod", |ground| makes_device(&ground.fresh(), FileType::Directory, 0o755, 0), PERM),
    (
        "make a device in root's directory",
        |ground| makes_device(&ground.at("files/n"), FileType::CharacterDevice, 0o666, makedev(1, 3)),
        ACCES,
    ),
    ("make a pipe in root's directory", |ground| makes_device(&ground.at("files/n"), FileType::Fifo, 0o666, 0), ACCES),
    ("open root's device", |ground| opens(&ground.at("special/null-600"), READ), ACCES),
    ("open a device that all may", |ground| opens(&ground.at("special/null-666"), OFlags::RDWR), OK),
    ("open a block device", |ground| opens(&ground.at("special/block-600"), READ), ACCES),
    ("chmod a device", |ground| chmods(&ground.at("special/null-600"), 0o666), PERM),
    ("unlink a device", |ground| unlinks(&ground.at("special/null-666")), ACCES),
    ("open root's pipe", |ground| opens(&ground.at("special/pipe-600"), READ | OFlags::NONBLOCK), ACCES),
    ("open a pipe to read", |ground| opens(&ground.at("special/pipe-644"), READ | OFlags::NONBLOCK), OK),
    ("open a pipe to write", |ground| opens(&ground.at("special/pipe-644"), WRITE | OFlags::NONBLOCK), ACCES),
    (
        "open a pipe that nobody reads",
        |ground| opens(&ground.at("special/pipe-666"), WRITE | OFlags::NONBLOCK),
        Err(Errno::NXIO),
    ),
    ("open a socket", |ground| opens(&ground.at("special/socket-666"), READ), Err(Errno::NXIO)),
    (
        "truncate a pipe",
        |ground| done(ground.ask(&["truncate", ground.at("special/pipe-666").to_str().unwrap(), "0"])),
        Err(Errno::INVAL),
    ),
];

const SYMLINKS: &[Row] = &[
    ("read through a symlink to a secret", |ground| opens(&ground.at("special/to-secret"), READ), ACCES),
    ("write through a symlink", |ground| opens(&ground.at("special/to-open"), WRITE), ACCES),
    ("read through a symlink", |ground| opens(&ground.at("special/to-open"), READ), OK),
    (
        "read a symlink",
        |ground| Ok(rustix::fs::readlink(ground.at("special/to-open"), Vec::new())?.count_bytes() as u64),
        Ok(18),
    ),
    ("open a symlink itself", |ground| opens(&ground.at("special/to-open"), READ | OFlags::NOFOLLOW), Err(Errno::LOOP)),
    ("chown a symlink", |ground| chowns(&ground.at("special/to-open"), Some(NOBODY), None), PERM),
    ("set times of a symlink", |ground| sets_times(&ground.at("special/to-open"), 1, 1), PERM),
    ("unlink a symlink", |ground| unlinks(&ground.at("special/to-open")), ACCES),
    ("a symlink of one's own to a secret", |ground| opens(&own_symlink(ground)?, READ), ACCES),
    ("chown one's own symlink", |ground| chowns(&own_symlink(ground)?, Some(0), None), PERM),
];

const HANDLES: &[Row] = &[
    ("a handle of root's file", |ground| done(handle(ground, "files/roots-600")), OK),
    ("open root's file by its handle", |ground| by_handle(ground, &handle(ground, "files/roots-600")?), PERM),
    ("open another's file by its handle", |ground| by_handle(ground, &handle(ground, "files/others-666")?), PERM),
    ("open the root directory by its handle", |ground| by_handle(ground, &handle(ground, ".")?), PERM),
    ("open one's own file by its handle", opens_own, PERM),
    (
        "open a handle that was made up",
        |ground| by_handle(ground, &made_up(0x81, &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        PERM,
    ),
    ("open a made up handle of another kind", |ground| by_handle(ground, &made_up(1, &[3, 0, 0, 0, 0, 0, 0, 0])), PERM),
    ("a handle of what is not there", |ground| done(handle(ground, "files/none")), Err(Errno::NOENT)),
];

const TIMES: &[Row] = &[
    ("open one's own without a trace", |ground| opens(&ground.mine(), READ | OFlags::NOATIME), OK),
    ("set times of one's own", |ground| sets_times(&ground.mine(), 1, 1), OK),
    ("touch one time of one's own", |ground| half_touches(&ground.mine()), OK),
    ("set times that are none", |ground| sets_times(&ground.mine(), 1_000_000_000, 1), Err(Errno::INVAL)),
    ("chown one's own to root", |ground| chowns(&ground.mine(), Some(0), None), PERM),
    ("chown one's own to another", |ground| chowns(&ground.mine(), Some(OTHER), None), PERM),
    ("chgrp one's own to root's group", |ground| chowns(&ground.mine(), None, Some(0)), PERM),
    ("chgrp one's own to another group", |ground| chowns(&ground.mine(), None, Some(GROUP)), PERM),
    ("chown one's own to oneself", |ground| chowns(&ground.mine(), Some(NOBODY), Some(NOBODY)), OK),
];

fn own_symlink(ground: &Ground) -> Result<std::path::PathBuf, Errno> {
    let path = ground.fresh();
    rustix::fs::symlink(ground.at("files/roots-600"), &path)?;
    Ok(path)
}

/// The handle of a file: its length, its kind and what identifies the file.
fn handle(ground: &Ground, name: &str) -> Result<Vec<u8>, Errno> {
    ground.ask(&["handle", ground.at(name).to_str().unwrap()])
}

fn made_up(kind: i32, bytes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).unwrap();
    [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), bytes].concat()
}

fn by_handle(ground: &Ground, handle: &[u8]) -> Answer {
    let hex: String = handle.iter().map(|byte| format!("{byte:02x}")).collect();
    done(ground.ask(&["open", ground.root().to_str().unwrap(), &hex]))
}

fn opens_own(ground: &Ground) -> Answer {
    let path = ground.mine();
    by_handle(ground, &ground.ask(&["handle", path.to_str().unwrap()])?)
}

pub(super) fn table() -> Vec<Probe> {
    let rows = [NODES, SYMLINKS, HANDLES, TIMES].into_iter().flatten();
    rows.map(|row| Probe::row(row, Where::Everywhere)).collect()
}
