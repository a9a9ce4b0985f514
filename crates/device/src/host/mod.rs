//! The seam to the host: the files of one directory, as devices in a directory use them.
//!
//! There are two hosts: the system, and a model in memory ([`HostModel`]) that knows what a power cut may take back.
//! A device that writes through this seam is explored over the model as it works on the system.

mod model;

pub use model::HostModel;

use crate::device::IoResult;
use crate::file::locked::Locked;
use crate::file::raw::{RawFile, is_in_memory};
use crate::private::PRIVATE;
use crate::{IoError, Op, PageBuf};
use model::ModelFile;
use rustix::fs::{AtFlags, Mode, OFlags, fdatasync, fstat, fsync, openat, renameat, statat, unlinkat};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// To be read.
    Read,
    /// To be changed.
    Write,
    /// To be changed, and made if it is not there.
    Make,
    /// To be changed, and empty.
    Anew,
}

/// What the host says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostStat {
    /// Tells it from all others.
    pub(crate) file: [u64; 2],
    /// In bytes.
    pub(crate) length: u64,
    /// It takes no room.
    pub(crate) is_hole: bool,
}

/// A directory.
#[derive(Clone)]
pub(crate) enum HostDir {
    System { path: PathBuf, dir: Arc<File> },
    Model(HostModel),
}

/// An open file.
pub(crate) enum HostFile {
    System(RawFile),
    Model(ModelFile),
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl HostDir {
    /// A directory of the system.
    pub(crate) fn open_at(path: &Path) -> std::io::Result<Self> {
        Ok(HostDir::System { path: path.to_owned(), dir: Arc::new(File::open(path)?) })
    }

    /// Opens a file, never through a symlink. Blocks behind its end read as zeros, unless it is to be whole. A new
    /// one is its owner's alone.
    pub(crate) fn open(&self, name: &str, access: Access) -> Result<HostFile, Errno> {
        match self {
            HostDir::System { dir, .. } => {
                let how = match access {
                    Access::Read => OFlags::RDONLY,
                    Access::Write => OFlags::RDWR,
                    Access::Make => OFlags::RDWR | OFlags::CREATE,
                    Access::Anew => OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC,
                };
                let flags = how | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let file = retry_on_intr(|| openat(dir, name, flags, Mode::from_raw_mode(PRIVATE)))?;
                Ok(HostFile::System(RawFile::new(Locked::unlocked(File::from(file)), 0, false, true)))
            }
            HostDir::Model(host) => host.open(name, access).map(HostFile::Model),
        }
    }

    /// Removes a name.
    pub(crate) fn unlink(&self, name: &str) -> Result<(), Errno> {
        match self {
            HostDir::System { dir, .. } => retry_on_intr(|| unlinkat(dir, name, AtFlags::empty())),
            HostDir::Model(host) => host.unlink(name),
        }
    }

    /// Has a file take another name, and the place of whatever has that.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        match self {
            HostDir::System { dir, .. } => retry_on_intr(|| renameat(dir, from, dir, to)),
            HostDir::Model(host) => host.rename(from, to),
        }
    }

    /// Makes names durable.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        match self {
            HostDir::System { dir, .. } => retry_on_intr(|| fsync(dir)),
            HostDir::Model(host) => {
                host.sync_names();
                Ok(())
            }
        }
    }

    /// All names.
    pub(crate) fn names(&self) -> Result<Vec<String>, Errno> {
        match self {
            HostDir::System { path, .. } => {
                let entries = std::fs::read_dir(path).map_err(|e| errno_of(&e))?;
                let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
                names.collect::<Result<_, _>>().map_err(|e| errno_of(&e))
            }
            HostDir::Model(host) => Ok(host.names()),
        }
    }

    /// The file of this name.
    pub(crate) fn stat(&self, name: &str) -> Result<HostStat, Errno> {
        match self {
            HostDir::System { dir, .. } => {
                let stat = retry_on_intr(|| statat(dir, name, AtFlags::SYMLINK_NOFOLLOW))?;
                let (file, length) = ([stat.st_dev, stat.st_ino], stat.st_size as u64);
                Ok(HostStat { file, length, is_hole: stat.st_blocks == 0 })
            }
            HostDir::Model(host) => host.stat(name),
        }
    }

    /// Whether the host keeps it in memory, where nothing waits.
    pub(crate) fn is_in_memory(&self) -> bool {
        match self {
            HostDir::System { dir, .. } => is_in_memory(dir),
            HostDir::Model(_) => false,
        }
    }
}

impl HostFile {
    /// The same file, of which nothing may be missing: a read behind its end is an error.
    pub(crate) fn whole(self) -> Self {
        match self {
            HostFile::System(raw) => HostFile::System(raw.whole()),
            model @ HostFile::Model(_) => model,
        }
    }

    /// What this file is.
    pub(crate) fn stat(&self) -> Result<HostStat, Errno> {
        match self {
            HostFile::System(raw) => {
                let stat = fstat(raw.file())?;
                let (file, length) = ([stat.st_dev, stat.st_ino], stat.st_size as u64);
                Ok(HostStat { file, length, is_hole: stat.st_blocks == 0 })
            }
            HostFile::Model(file) => Ok(file.stat()),
        }
    }

    /// Whether its last name was removed.
    pub(crate) fn is_nameless(&self) -> bool {
        match self {
            HostFile::System(raw) => fstat(raw.file()).is_ok_and(|stat| stat.st_nlink == 0),
            HostFile::Model(_) => false,
        }
    }

    /// Makes contents durable; with `holes` all that was punched out, too.
    pub(crate) fn sync(&self, holes: bool) -> Result<(), Errno> {
        match self {
            // Holes are the file's metadata alone, of which fdatasync promises little.
            HostFile::System(raw) if holes => retry_on_intr(|| fsync(raw.file())),
            HostFile::System(raw) => retry_on_intr(|| fdatasync(raw.file())),
            HostFile::Model(file) => {
                file.sync(holes);
                Ok(())
            }
        }
    }

    /// Does one operation whose range was checked.
    pub(crate) fn perform(&self, op: Op) -> IoResult {
        match self {
            HostFile::System(raw) => raw.perform(op),
            HostFile::Model(file) => {
                let (block, count) = op.range();
                match op {
                    Op::Read { .. } => Ok(file.read(block, count)),
                    Op::Write { pages, fua, .. } => {
                        file.write(block, &pages);
                        if fua {
                            file.sync(false);
                        }
                        Ok(Vec::new())
                    }
                    Op::Flush => {
                        file.sync(false);
                        Ok(Vec::new())
                    }
                    Op::Discard { .. } => {
                        file.punch(block..block + count);
                        Ok(Vec::new())
                    }
                    Op::ZoneReset { .. } | Op::ZoneFinish { .. } => Err(op.error(crate::errno::EOPNOTSUPP)),
                }
            }
        }
    }

    /// Fills pages, read from `block` on.
    pub(crate) fn read_pages(&self, block: u64, pages: &mut [PageBuf]) -> Result<(), IoError> {
        match self {
            HostFile::System(raw) => raw.read_rest(block, pages, 0),
            HostFile::Model(file) => {
                let read = file.read(block, pages.len() as u64);
                pages.iter_mut().zip(read).for_each(|(page, read)| *page = read);
                Ok(())
            }
        }
    }

    /// Fills memory of whole blocks, read from `block` on.
    pub(crate) fn read_bytes(&self, block: u64, bytes: &mut [u8]) -> Result<(), IoError> {
        match self {
            HostFile::System(raw) => raw.read_bytes(block, bytes),
            HostFile::Model(file) => {
                let read = file.read(block, (bytes.len() / crate::BLOCK_SIZE) as u64);
                for (part, page) in bytes.chunks_mut(crate::BLOCK_SIZE).zip(read) {
                    page.with(|bytes| part.copy_from_slice(&bytes[..]));
                }
                Ok(())
            }
        }
    }

    /// Writes pages, none of them synthetic.
    pub(crate) fn write_pages(&self, block: u64, pages: &[PageBuf]) -> Result<(), IoError> {
        match self {
            HostFile::System(raw) => raw.write_rest(block, pages, 0, false),
            HostFile::Model(file) => {
                file.write(block, pages);
                Ok(())
            }
        }
    }

    /// The first run of blocks from `block` on, of `blocks`, that the host keeps something for.
    pub(crate) fn held_from(&self, block: u64, blocks: u64) -> Result<Option<Range<u64>>, IoError> {
        match self {
            HostFile::System(raw) => raw.held_from(block, blocks),
            HostFile::Model(file) => Ok(file.held_from(block, blocks)),
        }
    }

    /// All bytes of a short file.
    pub(crate) fn read_all(&self) -> std::io::Result<Vec<u8>> {
        match self {
            HostFile::System(raw) => {
                let mut bytes = Vec::new();
                let mut file = raw.file();
                file.read_to_end(&mut bytes)?;
                Ok(bytes)
            }
            HostFile::Model(file) => Ok(file.read_all()),
        }
    }

    /// Writes bytes anywhere.
    pub(crate) fn write_all_at(&self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        match self {
            HostFile::System(raw) => raw.file().write_all_at(bytes, offset),
            HostFile::Model(file) => {
                file.write_bytes(bytes, offset);
                Ok(())
            }
        }
    }

    /// Cuts the file, or makes it longer by a hole.
    pub(crate) fn set_len(&self, bytes: u64) -> std::io::Result<()> {
        match self {
            HostFile::System(raw) => raw.file().set_len(bytes),
            HostFile::Model(file) => {
                file.set_len(bytes);
                Ok(())
            }
        }
    }

    /// A planted fault: what is written is marked as not durable before it is.
    #[cfg(feature = "canary")]
    pub(crate) fn marks_early(&self) -> bool {
        matches!(self, HostFile::Model(file) if file.marks_early())
    }
}
