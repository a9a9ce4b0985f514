//! Disk images are mostly holes; these functions keep them so.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use tempfile::TempDir;

use crate::error::{Result, io, os};

const STEP: usize = 1 << 20;

/// A disk image in a directory of its own that goes away with it. A test may do to it what it likes.
#[derive(Debug)]
pub struct TempImage {
    dir: TempDir,
}

impl TempImage {
    /// A place for an image; nothing is there yet. In `STEADYFS_TEST_DIR` if that is set, else where temporary files
    /// go.
    pub fn new() -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("steadyfs-image-");
        let dir = match std::env::var_os("STEADYFS_TEST_DIR") {
            Some(parent) => builder.tempdir_in(parent),
            None => builder.tempdir(),
        };
        Ok(Self { dir: dir.map_err(io("create a directory for an image"))? })
    }

    /// A copy of an image.
    pub fn copy_of(image: &Path) -> Result<Self> {
        let copy = Self::new()?;
        copy_sparse(image, &copy.path())?;
        Ok(copy)
    }

    /// Where the image is.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("volume.img")
    }
}

/// Makes a file of `size` zeros that takes no room.
pub fn create_sparse(path: &Path, size: u64) -> Result<()> {
    let what = || format!("create {}", path.display());
    File::create(path).map_err(io(what()))?.set_len(size).map_err(io(what()))
}

/// Copies a file so that holes stay holes.
pub fn copy_sparse(from: &Path, to: &Path) -> Result<()> {
    let what = |p: &Path| format!("copy {}", p.display());
    let source = File::open(from).map_err(io(what(from)))?;
    let target = File::create(to).map_err(io(what(to)))?;
    let size = source.metadata().map_err(io(what(from)))?.len();
    target.set_len(size).map_err(io(what(to)))?;
    let mut buffer = vec![0; STEP];
    for (start, len) in data_ranges(&source, size).map_err(os(what(from)))? {
        let mut at = start;
        while at < start + len {
            let n = STEP.min((start + len - at) as usize);
            source.read_exact_at(&mut buffer[..n], at).map_err(io(what(from)))?;
            target.write_all_at(&buffer[..n], at).map_err(io(what(to)))?;
            at += n as u64;
        }
    }
    Ok(())
}

/// Writes an image from a stream: blocks of zeros become holes.
pub fn write_sparse(mut from: impl std::io::Read, to: &Path) -> Result<()> {
    const BLOCK: usize = 4096;
    let what = || format!("write {}", to.display());
    let target = File::create(to).map_err(io(what()))?;
    let mut buffer = vec![0; STEP];
    let mut at = 0;
    loop {
        let mut filled = 0;
        while filled < STEP {
            match from.read(&mut buffer[filled..]).map_err(io(what()))? {
                0 => break,
                n => filled += n,
            }
        }
        for (k, block) in buffer[..filled].chunks(BLOCK).enumerate().filter(|(_, b)| b.iter().any(|&b| b != 0)) {
            target.write_all_at(block, at + (k * BLOCK) as u64).map_err(io(what()))?;
        }
        at += filled as u64;
        if filled < STEP {
            return target.set_len(at).map_err(io(what()));
        }
    }
}

/// The parts (offset, length) of a file that are not holes, below `size`; the whole file where SEEK_DATA is not known.
pub(crate) fn data_ranges(file: impl rustix::fd::AsFd, size: u64) -> std::result::Result<Vec<(u64, u64)>, Errno> {
    let mut ranges = Vec::new();
    let mut position = 0;
    while position < size {
        let start = match rustix::fs::seek(&file, SeekFrom::Data(position)) {
            // Linux 6.1's F2FS also finds data behind the end: a punched range that ends there leaves a zeroed block in
            // it.
            Ok(start) if start >= size => break,
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(vec![(0, size)]),
            Err(errno) => return Err(errno),
        };
        let end = rustix::fs::seek(&file, SeekFrom::Hole(start))?.min(size);
        if end <= start {
            return Err(Errno::IO);
        }
        ranges.push((start, end - start));
        position = end;
    }
    Ok(ranges)
}
