//! Set-id bits: which of them fall when somebody else changes a program, and which nobody gets who is no member of a
//! group.

use super::calls::*;
use super::ground::{BITS, Ground};
use super::{Probe, Where};
use rustix::fs::{FallocateFlags, FileType, OFlags};
use rustix::io::Errno;
use std::path::Path;

/// How a program of another user's that all may write is changed.
type Change = fn(&Ground, &Path) -> Answer;
type Row = (&'static str, fn(&Ground) -> Answer, Answer);

/// In the order of [`BITS`].
const CHANGES: [Change; BITS.len()] = [
    |_, path| done(rustix::io::pwrite(file(path, WRITE)?, b"y", 9)),
    |_, path| done(rustix::io::write(file(path, WRITE | OFlags::APPEND)?, b"y")),
    |_, path| done(super::stale::writes_past_the_cache(path, 4096, 512)),
    |_, path| done(rustix::fs::ftruncate(file(path, WRITE)?, 5000)),
    |ground, path| done(ground.ask(&["truncate", path.to_str().unwrap(), "5000"])),
    |_, path| opens(path, WRITE | OFlags::TRUNC),
    |ground, path| {
        let from = file(&ground.mine(), READ)?;
        done(rustix::fs::copy_file_range(from, None, file(path, WRITE)?, None, 4096))
    },
    |_, path| allocates(path, FallocateFlags::empty()),
    |_, path| allocates(path, FallocateFlags::KEEP_SIZE),
    |_, path| allocates(path, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE),
    |_, path| allocates(path, FallocateFlags::ZERO_RANGE),
];

const GROUPS: &[Row] = &[
    ("create a set-group-id program", |ground| makes(ground, |path| creates(path, 0o2755)), Ok(0o0)),
    ("create one that its group may not run", |ground| makes(ground, |path| creates(path, 0o2645)), Ok(0o2000)),
    ("create one with both bits", |ground| makes(ground, |path| creates(path, 0o6755)), Ok(0o4000)),
    ("make one by mknod", |ground| makes(ground, |path| makes_device(path, FileType::RegularFile, 0o2755, 0)), Ok(0)),
    ("make a pipe", |ground| makes(ground, |path| makes_device(path, FileType::Fifo, 0o2755, 0)), Ok(0)),
    ("make one without a name", |ground| makes(ground, |path| nameless(ground, path)), Ok(0)),
    ("make a directory", |ground| makes(ground, makes_dir), Ok(0o2000)),
    ("rename one there", renamed, Ok(0o6755)),
    ("chmod g+s by who is no member", |ground| changes(ground, "bit", |path| chmods(path, 0o2755)), Ok(0o755)),
    ("chmod ug+s by who is no member", |ground| changes(ground, "bit", |path| chmods(path, 0o6755)), Ok(0o4755)),
    (
        "an ACL by who is no member",
        |ground| changes(ground, "acl", |path| sets_attribute(path, ACL, PLAIN_ACL)),
        Ok(0o755),
    ),
    ("an ACL by a member", |ground| changes(ground, "own", |path| sets_attribute(path, ACL, PLAIN_ACL)), Ok(0o2755)),
    ("chmod g+s by a member", |ground| changes(ground, "own", |path| chmods(path, 0o2755)), Ok(0o2755)),
    (
        "chown to oneself",
        |ground| with_bits(ground).and_then(|path| chowns(&path, Some(NOBODY), Some(NOBODY)).and(mode_of(&path))),
        Ok(0o755),
    ),
    (
        "write to one's own program",
        |ground| with_bits(ground).and_then(|path| CHANGES[0](ground, &path).and(mode_of(&path))),
        Ok(0o755),
    ),
    ("chmod of another's program", |ground| chmods(&ground.at("bits/link-user"), 0o4777), PERM),
    ("chmod g+s of the directory", |ground| chmods(&ground.at("group"), 0o2777), PERM),
    ("chgrp to the group of the directory", |ground| chowns(&ground.mine(), None, Some(GROUP)), PERM),
    (
        "write to a program with capabilities",
        |ground| {
            let path = ground.at("bits/capable");
            require(gets_attribute(&path, "security.capability")? == 20)?;
            CHANGES[0](ground, &path)?;
            gets_attribute(&path, "security.capability")
        },
        Err(Errno::NODATA),
    ),
];

fn allocates(path: &Path, how: FallocateFlags) -> Answer {
    done(rustix::fs::fallocate(file(path, WRITE)?, how, 1000, 9000))
}

/// Makes something in the directory of the group; its bits above permissions. It has to have that group.
fn makes(ground: &Ground, make: impl Fn(&Path) -> Answer) -> Answer {
    let path = ground.at("group").join(ground.fresh().file_name().unwrap());
    make(&path)?;
    let stat = rustix::fs::stat(&path)?;
    require(stat.st_gid == GROUP && stat.st_uid == NOBODY)?;
    Ok((stat.st_mode & 0o7000).into())
}

fn nameless(ground: &Ground, path: &Path) -> Answer {
    let how = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let open = rustix::fs::open(ground.at("group"), how, mode(0o2755))?;
    links_open(&open.into(), path)
}

/// What is made elsewhere keeps its own group, and its bits.
fn renamed(ground: &Ground) -> Answer {
    let path = ground.at("group/renamed");
    renames(&with_bits(ground)?, &path)?;
    require(rustix::fs::stat(&path)?.st_gid == NOBODY)?;
    mode_of(&path)
}

/// Changes a file of one's own in the directory of the group; its mode.
fn changes(ground: &Ground, name: &str, change: impl Fn(&Path) -> Answer) -> Answer {
    let path = ground.at("group").join(name);
    change(&path)?;
    mode_of(&path)
}

/// A program of one's own with both bits.
fn with_bits(ground: &Ground) -> Result<std::path::PathBuf, Errno> {
    let path = ground.mine();
    chmods(&path, 0o6755)?;
    require(mode_of(&path)? == 0o6755)?;
    Ok(path)
}

pub(super) fn table() -> Vec<Probe> {
    let mut probes: Vec<Probe> = GROUPS.iter().map(|row| Probe::row(row, Where::Everywhere)).collect();
    for (name, change) in BITS.into_iter().zip(CHANGES) {
        for (kind, left) in [("both", 0o777), ("group", 0o767)] {
            let run = move |ground: &Ground| {
                let path = ground.at(&format!("bits/{kind}-{name}"));
                require(mode_of(&path)? > 0o1000)?;
                change(ground, &path)?;
                mode_of(&path)
            };
            probes.push(Probe::new(format!("bits after a change: {kind}, {name}"), run, Ok(left)));
        }
    }
    probes
}
