//! Attacks by names: deep chains of directories, a directory with very many names, names and attributes that come and
//! go.

use super::{Plan, Step};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, XattrFlags, fsetxattr, mkdirat, openat, renameat, unlinkat};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

/// Levels of the deepest chain.
const LEVELS: u64 = 30_000;
/// Levels that a directory may still be moved up: docs/SEMANTICS.md.
const MOVABLE: u64 = 250;
/// Levels of the chain that is made and removed.
const MADE: u64 = 2_000;
/// Names of the directory that everybody lists.
const LISTED: u64 = 60_000;
/// Names that are made before they are removed.
const NAMES: u64 = 1_000;
/// Bytes of each attribute.
const VALUE: usize = 200;

fn directory(path: &str) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Makes a directory, and goes into it.
fn down(name: &str) -> io::Result<()> {
    mkdirat(CWD, name, Mode::from_raw_mode(0o700))?;
    std::env::set_current_dir(name)
}

/// Makes a chain of directories, and stays at its lower end. Gives both ends.
fn chain(levels: u64) -> io::Result<(OwnedFd, OwnedFd)> {
    let top = directory(".")?;
    for _ in 0..levels {
        down("d")?;
    }
    Ok((top, directory(".")?))
}

/// By its number: moves a directory, or files and directories that it makes and removes, between the ends of a chain;
/// or makes and removes chains.
pub(super) fn deep(plan: &Plan) -> io::Result<Step> {
    down(&format!("deep-{}", plan.number))?;
    match plan.number % 4 {
        0 => moves_a_directory(plan.some(LEVELS)),
        1 => moves_a_directory(plan.some(MOVABLE)),
        2 => moves_a_file(plan.some(LEVELS)),
        _ => makes_chains(plan.some(MADE)),
    }
}

fn moves_a_directory(levels: u64) -> io::Result<Step> {
    let (top, bottom) = chain(levels)?;
    mkdirat(&bottom, "x", Mode::from_raw_mode(0o700))?;
    let mut below = true;
    Ok(Box::new(move || {
        let (from, to) = if below { (&bottom, &top) } else { (&top, &bottom) };
        renameat(from, "x", to, "x")?;
        below = !below;
        Ok(())
    }))
}

fn moves_a_file(levels: u64) -> io::Result<Step> {
    let (top, bottom) = chain(levels)?;
    Ok(Box::new(move || {
        drop(openat(&bottom, "f", OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o600))?);
        renameat(&bottom, "f", &top, "f")?;
        mkdirat(&bottom, "e", Mode::from_raw_mode(0o700))?;
        Ok(unlinkat(&bottom, "e", AtFlags::REMOVEDIR)?)
    }))
}

fn makes_chains(levels: u64) -> io::Result<Step> {
    let (mut depth, mut falling) = (0, true);
    Ok(Box::new(move || {
        if falling {
            down("d")?;
            depth += 1;
        } else {
            std::env::set_current_dir("..")?;
            depth -= 1;
            unlinkat(CWD, "d", AtFlags::REMOVEDIR)?;
        }
        falling = if falling { depth < levels } else { depth == 0 };
        Ok(())
    }))
}

/// All list one directory, which the first one fills.
pub(super) fn readdir(plan: &Plan) -> io::Result<Step> {
    if plan.number == 0 {
        std::fs::create_dir("many")?;
        for name in 0..plan.some(LISTED) {
            File::create_new(format!("many/a-name-of-some-length-{name}"))?;
        }
    }
    Ok(Box::new(|| std::fs::read_dir("many")?.try_for_each(|entry| entry.map(drop))))
}

/// Every second one gives a file attributes until no more are taken, lists and removes them. The others make and remove
/// names.
pub(super) fn names(plan: &Plan) -> io::Result<Step> {
    let number = plan.number;
    if number.is_multiple_of(2) {
        return fills_attributes(File::create_new(format!("attributes-{number}"))?);
    }
    let (names, mut at) = (plan.some(NAMES), 0);
    Ok(Box::new(move || {
        let name = format!("name-{number}-{}", at % names);
        let remove = at / names % 2 == 1;
        at += 1;
        if remove { std::fs::remove_file(name) } else { File::create_new(name).map(drop) }
    }))
}

fn fills_attributes(file: File) -> io::Result<Step> {
    let (mut held, mut list) = (0_u64, vec![0_u8; 1 << 16]);
    Ok(Box::new(move || {
        if fsetxattr(&file, format!("user.a{held}"), &[7; VALUE], XattrFlags::CREATE).is_ok() {
            held += 1;
            return Ok(());
        }
        rustix::fs::flistxattr(&file, list.as_mut_slice())?;
        // Also where nothing was taken at all, on a full volume.
        let full = held == 0;
        while held > 0 {
            held -= 1;
            rustix::fs::fremovexattr(&file, format!("user.a{held}"))?;
        }
        if full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }))
}
