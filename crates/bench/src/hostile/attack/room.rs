//! Attacks on room: files without names that are held open, all that is free taken and given back, by fallocate and by
//! writing.

use super::{Plan, Step};
use crate::data::{Buffer, MIB};
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, copy_file_range, fallocate, openat};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// Files that one process holds.
const HELD: u64 = 4_000;
/// The least that is asked for at once.
const LEAST: u64 = MIB as u64;
/// MiB of the file that copies are made of.
const SOURCE: u64 = 16;

/// Opens files without names, as many as a process and a user may, holds them, and exchanges the oldest for another.
pub(super) fn nameless(plan: &Plan) -> io::Result<Step> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    // Some descriptors are taken already.
    let most = limit.maximum.map_or(u64::MAX, |most| most.saturating_sub(16));
    let most = plan.some(HELD).min(most) as usize;
    let mut held = VecDeque::new();
    while held.len() < most {
        match without_a_name() {
            Ok(file) => held.push_back(file),
            Err(error) if error.raw_os_error() == Some(Errno::NFILE.raw_os_error()) => break,
            Err(error) => return Err(error),
        }
    }
    let most = held.len();
    Ok(Box::new(move || {
        if held.len() == most {
            held.pop_front();
        }
        held.push_back(without_a_name()?);
        Ok(())
    }))
}

fn without_a_name() -> io::Result<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(CWD, ".", flags, Mode::from_raw_mode(0o600))?;
    rustix::io::write(&file, b"held")?;
    Ok(file)
}

/// Takes all that is free for a file, and punches it out again.
pub(super) fn allocated(plan: &Plan) -> io::Result<Step> {
    let file = File::create_new(format!("taken-{}", plan.number))?;
    let mut taken = 0;
    Ok(Box::new(move || {
        if taken > 0 {
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&file, mode, 0, std::mem::take(&mut taken))?;
        }
        taken = takes_all(&file)?;
        Ok(())
    }))
}

/// Asks for all that is free, then for half of it, and so on. Returns what it got.
fn takes_all(file: &File) -> io::Result<u64> {
    let free = rustix::fs::fstatvfs(file)?;
    let mut len = (free.f_bavail * free.f_frsize).max(LEAST);
    loop {
        match fallocate(file, FallocateFlags::empty(), 0, len) {
            Ok(()) => return Ok(len),
            Err(error) if len / 2 < LEAST => return Err(error.into()),
            Err(_) => len /= 2,
        }
    }
}

/// Every second one writes a file past the cache until the volume is full, and removes it. The others have another file
/// copied there by the server.
pub(super) fn fill(plan: &Plan) -> io::Result<Step> {
    let name = format!("filled-{}", plan.number);
    if plan.number.is_multiple_of(2) { writes_directly(name) } else { copies(name, plan.number) }
}

fn writes_directly(name: String) -> io::Result<Step> {
    let make = move || {
        let mut options = File::options();
        options.write(true).create(true).truncate(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(&name)
    };
    let (data, mut file, mut at) = (Buffer::random(MIB, 9), make()?, 0);
    Ok(Box::new(move || match file.write_all_at(data.bytes(), at) {
        Ok(()) => {
            at += MIB as u64;
            Ok(())
        }
        // Made again, it is empty: everything is given back.
        Err(error) => {
            at = 0;
            file = make()?;
            Err(error)
        }
    }))
}

fn copies(name: String, number: u64) -> io::Result<Step> {
    let source = format!("source-{number}");
    let mut file = File::create_new(&source)?;
    for seed in 0..SOURCE {
        file.write_all(Buffer::random(MIB, seed).bytes())?;
    }
    file.sync_all()?;
    let source = File::open(source)?;
    let mut target = File::create(&name)?;
    Ok(Box::new(move || {
        let mut from = 0;
        match copy_file_range(&source, Some(&mut from), &target, None, SOURCE as usize * MIB) {
            Ok(some) if some > 0 => Ok(()),
            outcome => {
                target = File::create(&name)?;
                outcome?;
                Err(io::ErrorKind::WriteZero.into())
            }
        }
    }))
}
