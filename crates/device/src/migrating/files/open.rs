//! Making and opening the directory of a [`MigratingDevice`](super::MigratingDevice).

use super::journal::{self, Journal};
use crate::file::locked::Locked;
use crate::file::open::open_locked;
use crate::host::{Access, HostDir, HostFile, HostModel};
use crate::migrating::MigrationGeometry;
use crate::{BLOCK_SIZE, Ledger, OpenError, OpenOptions};
use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The file that makes a directory a device, and what it is called before it is complete.
const MARKER: &str = "steadyfs-coupled";
const BEGUN: &str = "steadyfs-coupled.new";
/// Its first line. Five more name the geometry in blocks.
const MAGIC: &str = "steadyfs coupled 1";
const NAMES: [&str; 5] = ["zone", "meta", "regular", "gc", "capacity"];
/// Files are not read beyond this.
const MARKER_BYTES: u64 = 4096;
/// The file of the blocks.
const BLOCKS: &str = "blocks";
/// F2FS numbers blocks by 32 bits.
const MOST_BLOCKS: u64 = 1 << 32;

pub(super) struct OpenedCoupled {
    pub(super) marker: Option<Locked>,
    pub(super) blocks: HostFile,
    pub(super) journal: Journal,
    pub(super) ledger: Ledger,
}

pub(super) fn is_at(path: &Path) -> bool {
    path.join(MARKER).is_file()
}

pub(super) fn locked_file(path: &Path) -> PathBuf {
    path.join(MARKER)
}

fn system(path: &Path) -> impl Fn(io::Error) -> OpenError {
    move |source| OpenError::System { path: path.to_owned(), source }
}

fn unsupported(path: &Path, reason: &str) -> OpenError {
    OpenError::Unsupported { path: path.to_owned(), reason: reason.to_owned() }
}

/// The bytes of all addresses, if a file can be that long.
fn bytes_of(geometry: &MigrationGeometry) -> Option<u64> {
    (geometry.fault().is_none() && geometry.gc.end <= MOST_BLOCKS).then(|| geometry.gc.end * BLOCK_SIZE as u64)
}

/// Makes the directory a device. The last step, a name, makes it one.
pub(super) fn create(path: &Path, geometry: &MigrationGeometry) -> Result<(), OpenError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(system(path)(error)),
        Ok(()) | Err(_) => {}
    }
    create_in(&HostDir::open_at(path).map_err(system(path))?, path, geometry)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new("."))).and_then(|parent| parent.sync_all()).map_err(system(path))
}

/// The same in a directory that is there.
pub(super) fn create_in(dir: &HostDir, path: &Path, geometry: &MigrationGeometry) -> Result<(), OpenError> {
    let bytes = bytes_of(geometry).ok_or_else(|| unsupported(path, "these are no areas of a device"))?;
    if !dir.names().map_err(|errno| system(path)(errno.into()))?.is_empty() {
        return Err(unsupported(path, "the directory is not empty"));
    }
    let MigrationGeometry { zone, meta, regular, gc, capacity } = geometry;
    let numbers = [*zone, meta.end, regular.end, gc.end, *capacity];
    let write = || {
        let blocks = dir.open(BLOCKS, Access::Anew)?;
        blocks.set_len(bytes)?;
        // Its length is as durable as the name that makes this a device.
        blocks.sync(true)?;
        Journal::create(dir, geometry)?;
        let lines: String = NAMES.iter().zip(numbers).map(|(name, number)| format!("{name} {number}\n")).collect();
        let file = dir.open(BEGUN, Access::Anew)?;
        file.write_all_at(format!("{MAGIC}\n{lines}").as_bytes(), 0)?;
        file.sync(true)?;
        dir.rename(BEGUN, MARKER)?;
        Ok(dir.sync()?)
    };
    write().map_err(system(path))
}

/// Opens the directory of a model.
pub(super) fn open_model(host: &HostModel, path: &Path) -> Result<OpenedCoupled, OpenError> {
    let dir = HostDir::Model(host.clone());
    let text = dir.open(MARKER, Access::Read).map_err(|errno| system(path)(errno.into()))?;
    let text = text.read_all().map_err(system(path))?;
    open_in(&dir, path, None, &String::from_utf8_lossy(&text), false)
}

/// Removes its files, first the one that makes it a device.
pub(super) fn remove(path: &Path) -> Result<(), OpenError> {
    for name in [MARKER, BLOCKS].into_iter().chain(journal::NAMES) {
        let place = path.join(name);
        match std::fs::remove_file(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(system(&place)(error)),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Opens and locks the directory.
pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<OpenedCoupled, OpenError> {
    if options.offset_bytes != 0 || options.size.is_some() {
        return Err(unsupported(path, "a directory of a device that collects has neither offset nor size"));
    }
    let place = path.join(MARKER);
    let only = OpenOptions { create: None, ..*options };
    let (marker, _) = open_locked(&place, &only).map_err(|error| match error {
        OpenError::InUse { .. } => OpenError::InUse { path: path.to_owned() },
        error => error,
    })?;
    let mut text = String::new();
    Read::take(&*marker, MARKER_BYTES).read_to_string(&mut text).map_err(system(&place))?;
    let dir = HostDir::open_at(path).map_err(system(path))?;
    open_in(&dir, path, Some(marker), &text, options.read_only)
}

/// Opens the files beside the marker, which says `text`.
fn open_in(
    dir: &HostDir,
    path: &Path,
    marker: Option<Locked>,
    text: &str,
    read_only: bool,
) -> Result<OpenedCoupled, OpenError> {
    let unknown = || unsupported(path, "steadyfs-coupled does not say what the device is");
    let geometry = parse(text).ok_or_else(unknown)?;
    let bytes = bytes_of(&geometry).ok_or_else(unknown)?;
    let access = if read_only { Access::Read } else { Access::Write };
    let place = path.join(BLOCKS);
    let blocks = dir.open(BLOCKS, access).map_err(|errno| system(&place)(errno.into()))?.whole();
    if blocks.stat().map_err(|errno| system(&place)(errno.into()))?.length != bytes {
        return Err(unsupported(path, "its file of blocks is not as long as the device"));
    }
    let read = Journal::open(dir, path, geometry, read_only)?;
    let (journal, ledger) = read.ok_or_else(|| unsupported(path, "its journal is damaged"))?;
    Ok(OpenedCoupled { marker, blocks, journal, ledger })
}

fn parse(text: &str) -> Option<MigrationGeometry> {
    let mut lines = text.lines();
    (lines.next()? == MAGIC).then_some(())?;
    let mut numbers = [0; NAMES.len()];
    for (name, number) in NAMES.iter().zip(&mut numbers) {
        *number = lines.next()?.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()?;
    }
    let [zone, meta, regular, gc, capacity] = numbers;
    lines.next().is_none().then_some(())?;
    Some(MigrationGeometry { zone, meta: 0..meta, regular: meta..regular, gc: regular..gc, capacity })
}
