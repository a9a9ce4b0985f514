//! Making and opening chunk directories.

use super::table::Table;
use super::{CHUNK_BLOCKS, Trouble};
use crate::file::locked::Locked;
use crate::file::open::open_locked;
use crate::host::{Access, HostDir, HostModel};
use crate::{OpKind, OpenError, OpenOptions};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The file that makes a directory a device, and what it is called before it is complete.
const MARKER: &str = "steadyfs-chunks";
const BEGUN: &str = "steadyfs-chunks.new";
/// Its first line. The second names the blocks of the device, the third those of a chunk.
const MAGIC: &str = "steadyfs chunks 1";
/// Files are not read beyond this.
const MARKER_BYTES: u64 = 4096;
/// Files that a process has to be allowed to have open: chunks in use, and what else a mount needs.
const LEAST_FILES: u64 = 32;
/// The longest device: its blocks are numbered as IPLFS volumes number theirs.
const MOST_BLOCKS: u64 = 1 << 61;

pub(super) struct OpenedChunks {
    pub(super) marker: Option<Locked>,
    pub(super) table: Table,
    pub(super) blocks: u64,
}

pub(super) fn is_at(path: &Path) -> bool {
    path.is_dir() && (path.join(MARKER).exists() || path.join(BEGUN).exists())
}

pub(super) fn is_complete(path: &Path) -> bool {
    path.join(MARKER).exists()
}

pub(super) fn locked_file(path: &Path) -> PathBuf {
    if is_complete(path) { path.join(MARKER) } else { path.to_owned() }
}

fn system(path: &Path) -> impl Fn(io::Error) -> OpenError {
    move |source| OpenError::System { path: path.to_owned(), source }
}

fn unsupported(path: &Path, reason: &str) -> OpenError {
    OpenError::Unsupported { path: path.to_owned(), reason: reason.to_owned() }
}

/// Makes the directory a device of `blocks` blocks. The last step, a name, makes it one.
pub(super) fn create(path: &Path, blocks: u64) -> Result<(), OpenError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(system(path)(error)),
        Ok(()) | Err(_) => {}
    }
    create_in(&HostDir::open_at(path).map_err(system(path))?, path, blocks, CHUNK_BLOCKS)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new("."))).and_then(|parent| parent.sync_all()).map_err(system(path))
}

/// The same in a directory that is there.
pub(super) fn create_in(dir: &HostDir, path: &Path, blocks: u64, chunk: u64) -> Result<(), OpenError> {
    if blocks == 0 || blocks > MOST_BLOCKS {
        return Err(unsupported(path, "a chunk directory has 1 to 2^61 blocks of 4096 bytes"));
    }
    let failed = |errno: Errno| system(path)(errno.into());
    // What a crash amid this left is replaced.
    if dir.names().map_err(failed)?.iter().any(|name| name != BEGUN) {
        return Err(unsupported(path, "the directory is not empty"));
    }
    let write = || {
        let file = dir.open(BEGUN, Access::Anew)?;
        file.write_all_at(format!("{MAGIC}\nblocks {blocks}\nchunk_blocks {chunk}\n").as_bytes(), 0)?;
        file.sync(true)?;
        dir.rename(BEGUN, MARKER)?;
        Ok(dir.sync()?)
    };
    write().map_err(system(path))
}

/// Opens the directory of a model.
pub(super) fn open_model(host: &HostModel, path: &Path) -> Result<OpenedChunks, OpenError> {
    let dir = HostDir::Model(host.clone());
    let failed = |errno: Errno| system(path)(errno.into());
    let text = dir.open(MARKER, Access::Read).map_err(failed)?.read_all().map_err(system(path))?;
    let Some((blocks, chunk)) = parse(&String::from_utf8_lossy(&text)) else { return Err(unknown(path)) };
    let table = Table::new(dir, chunk, false, u64::MAX).map_err(|trouble| not_opened(path, trouble))?;
    Ok(OpenedChunks { marker: None, table, blocks })
}

fn unknown(path: &Path) -> OpenError {
    unsupported(path, "steadyfs-chunks does not say what the device is")
}

fn not_opened(path: &Path, trouble: Trouble) -> OpenError {
    system(path)(match trouble {
        Trouble::System(errno) => errno.into(),
        trouble => io::Error::other(trouble.told(OpKind::Held, 0, 0).cause),
    })
}

/// Opens and locks the directory.
pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<OpenedChunks, OpenError> {
    if options.offset_bytes != 0 || options.size.is_some() {
        return Err(unsupported(path, "a chunk directory has neither offset nor size"));
    }
    let place = path.join(MARKER);
    if !place.exists() {
        let begun = path.join(BEGUN).exists();
        let what = if begun { "a chunk directory that was never completed; make it anew" } else { "a directory" };
        return Err(OpenError::NotADevice { path: path.to_owned(), what });
    }
    let only = OpenOptions { create: None, ..*options };
    let (marker, _) = open_locked(&place, &only).map_err(|error| match error {
        OpenError::InUse { .. } => OpenError::InUse { path: path.to_owned() },
        error => error,
    })?;
    let mut text = String::new();
    Read::take(&*marker, MARKER_BYTES).read_to_string(&mut text).map_err(system(&place))?;
    let (blocks, chunk) = parse(&text).ok_or_else(|| unknown(path))?;
    if !options.read_only {
        knows_holes(&marker).map_err(|_| unsupported(path, "its file system has no holes in files"))?;
    }
    let files = within(path, getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))?;
    let dir = HostDir::open_at(path).map_err(system(path))?;
    let table = Table::new(dir, chunk, options.read_only, files).map_err(|trouble| not_opened(path, trouble))?;
    Ok(OpenedChunks { marker: Some(marker), table, blocks })
}

/// How many files the process may have open, if that is enough.
pub(super) fn within(path: &Path, files: u64) -> Result<u64, OpenError> {
    if files >= LEAST_FILES {
        return Ok(files);
    }
    let needs = format!("a chunk directory needs {LEAST_FILES} open files, and this process may have {files}");
    Err(unsupported(path, &format!("{needs}; raise the limit with `ulimit -n`")))
}

/// The blocks of the device, and of a chunk.
fn parse(text: &str) -> Option<(u64, u64)> {
    let mut lines = text.lines();
    (lines.next()? == MAGIC).then_some(())?;
    let blocks: u64 = lines.next()?.strip_prefix("blocks ")?.parse().ok()?;
    let chunk: u64 = lines.next()?.strip_prefix("chunk_blocks ")?.parse().ok()?;
    let is_size = chunk.is_power_of_two() && (64..=CHUNK_BLOCKS).contains(&chunk);
    (lines.next().is_none() && is_size && (1..=MOST_BLOCKS).contains(&blocks)).then_some((blocks, chunk))
}

/// A hole beyond the end of the file changes nothing.
fn knows_holes(file: &File) -> Result<(), Errno> {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let end = file
        .metadata()
        .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?
        .len()
        .next_multiple_of(MARKER_BYTES);
    fallocate(file, mode, end, MARKER_BYTES)
}
