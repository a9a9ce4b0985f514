//! What a mount refuses, the checker names: bad volumes are mounted for reading and read to the last attribute, and
//! mounted for writing. Where one of that fails, the checker has to find an error. Input: as that of the checker.

use super::{VOLUME_MEMORY, Volume, infinite, seeds};
use crate::Target;
use crate::input::Input;
use std::sync::Arc;
use steadyfs_core::fsck::{CheckOptions, Severity, check};
use steadyfs_core::{Error, Fs, InodeRef, MountOptions, Whence};
use steadyfs_device::{Device, MemDevice};
use steadyfs_format::dir::FileType;

/// The target for F2FS volumes.
pub const TARGET: Target = Target { name: "verdict", run, seeds, volume: true, memory: VOLUME_MEMORY };
/// The target for IPLFS volumes.
pub const INFINITE: Target =
    Target { name: "iplfs_verdict", run: run_infinite, seeds: infinite::seeds, volume: true, memory: VOLUME_MEMORY };

/// Most inodes that a walk visits, and most pieces of data that are read of each.
const MOST_INODES: usize = 300;
const MOST_DATA: usize = 200;

fn run(bytes: &[u8]) {
    judge(&Volume::read(&mut Input::new(bytes)).device);
}

fn run_infinite(bytes: &[u8]) {
    judge(&infinite::damaged(&mut Input::new(bytes)));
}

/// Compares the two. The volume stays as it is.
///
/// # Panics
/// The volume is refused, and the checker finds no error.
pub fn judge(device: &MemDevice) {
    let Some(refusal) = read_all(device).err().or_else(|| mount(device, false).err()).filter(is_damage) else { return };
    let options = CheckOptions { threads: 1, max_issues: 1000, rehearse: true, ..CheckOptions::default() };
    let report = check(Arc::new(device.fork()), &options).expect("memory can be read");
    // Without its numbers, so that one fault is one line of a report.
    let what: String = refusal.to_string().chars().filter(|char| !char.is_ascii_digit()).collect();
    assert!(report.worst() >= Some(Severity::Error), "{what}: refused, and not named");
}

/// Whether the volume is at fault.
fn is_damage(error: &Error) -> bool {
    !matches!(error, Error::Unsupported(_) | Error::NotSupported | Error::NoAttribute | Error::NotPermitted)
}

fn mount(device: &MemDevice, read_only: bool) -> Result<Arc<Fs>, Error> {
    let options = MountOptions {
        read_only,
        background_gc: false,
        commit_seconds: Some(0),
        cache_bytes: 4 << 20,
        ..MountOptions::default()
    };
    Fs::mount(Arc::new(device.fork()) as Arc<dyn Device>, options)
}

/// Everything that names lead to.
fn read_all(device: &MemDevice) -> Result<(), Error> {
    let fs = mount(device, true)?;
    let (mut todo, mut seen) = (vec![fs.root()?], 0);
    while let Some(inode) = todo.pop() {
        read(&fs, &inode)?;
        seen += 1;
        if inode.kind() == FileType::Dir && seen < MOST_INODES {
            todo.extend(children(&fs, &inode)?);
        }
    }
    Ok(())
}

fn children(fs: &Fs, dir: &InodeRef) -> Result<Vec<InodeRef>, Error> {
    let mut names = Vec::new();
    fs.readdir(dir, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        names.len() < MOST_INODES
    })?;
    let names = names.iter().filter(|name| !matches!(&name[..], b"." | b".."));
    names.map(|name| fs.lookup(dir, name)).collect()
}

fn read(fs: &Fs, inode: &InodeRef) -> Result<(), Error> {
    let size = fs.attr(inode)?.size;
    for name in fs.listxattr(inode)? {
        fs.getxattr(inode, &name).map(drop).or_else(|error| if is_damage(&error) { Err(error) } else { Ok(()) })?;
    }
    match inode.kind() {
        FileType::Symlink => fs.readlink(inode).map(drop),
        FileType::Regular => read_data(fs, inode, size).or_else(|e| if is_damage(&e) { Err(e) } else { Ok(()) }),
        _ => Ok(()),
    }
}

fn read_data(fs: &Fs, file: &InodeRef, size: u64) -> Result<(), Error> {
    let mut buffer = vec![0; 64 << 10];
    let mut offset = 0;
    for _ in 0..MOST_DATA {
        offset = match fs.seek(file, offset, Whence::Data) {
            Ok(data) => data,
            Err(Error::NoSuchOffset) => break,
            Err(error) => return Err(error),
        };
        offset += fs.read(file, offset, &mut buffer)? as u64;
    }
    fs.read(file, size.saturating_sub(1), &mut buffer[..1]).map(drop)
}
