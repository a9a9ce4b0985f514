//! What the patterns do with a file system, from several threads at once: by system calls where something is mounted,
//! by calls of the core in this process.

use crate::bed::Mounted;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use steadyfs_core::{Fs, InodeRef, NewInode, RenameFlags, SetAttr};

/// How a write ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// With `fsync`.
    Synced,
    /// With `fdatasync`.
    DataSynced,
    /// With neither.
    Cached,
}

/// How often fsyncs made checkpoints, and the device was flushed, since the mount.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costs {
    /// Checkpoints that fsyncs asked for.
    pub(super) checkpoints: u64,
    /// Flushes of the device.
    pub(super) flushes: u64,
    /// Requests that were durable without one.
    pub(super) through: u64,
}

/// A mounted file system. Paths are relative to its root and have no leading slash; `""` is the root.
pub(super) trait Names: Sync {
    /// Makes a directory.
    fn mkdir(&self, path: &str) -> Result<()>;
    /// Makes a file with these contents, or gives them to the one that is there.
    fn write(&self, path: &str, bytes: &[u8], ends: Ends) -> Result<()>;
    /// Writes into a file that is there, or behind its end.
    fn overwrite(&self, path: &str, off: u64, bytes: &[u8], ends: Ends) -> Result<()>;
    /// Renames, over what has the new name.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Makes another name.
    fn link(&self, from: &str, to: &str) -> Result<()>;
    /// Removes a name.
    fn unlink(&self, path: &str) -> Result<()>;
    /// Removes an empty directory.
    fn rmdir(&self, path: &str) -> Result<()>;
    /// `fsync` of a file or a directory.
    fn sync(&self, path: &str) -> Result<()>;
    /// Makes everything durable.
    fn sync_all(&self) -> Result<()>;
    /// Its costs, where they can be told.
    fn costs(&self) -> Option<Costs>;
}

/// The names of what is mounted; `dir` is where, if it is mounted by the kernel.
pub(super) fn names_of(mounted: &Mounted<'_>, dir: &Path) -> Box<dyn Names> {
    match mounted {
        Mounted::Library(tree) => Box::new(InProcess(Arc::clone(tree.fs()))),
        _ => Box::new(ByCalls(dir.to_owned())),
    }
}

struct ByCalls(PathBuf);

impl ByCalls {
    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }
}

fn end(file: &File, ends: Ends) -> Result<()> {
    match ends {
        Ends::Synced => Ok(file.sync_all()?),
        Ends::DataSynced => Ok(file.sync_data()?),
        Ends::Cached => Ok(()),
    }
}

impl Names for ByCalls {
    fn mkdir(&self, path: &str) -> Result<()> {
        Ok(fs::create_dir(self.at(path))?)
    }

    fn write(&self, path: &str, bytes: &[u8], ends: Ends) -> Result<()> {
        let mut file = File::create(self.at(path))?;
        file.write_all(bytes)?;
        end(&file, ends)
    }

    fn overwrite(&self, path: &str, off: u64, bytes: &[u8], ends: Ends) -> Result<()> {
        let file = File::options().write(true).open(self.at(path))?;
        file.write_all_at(bytes, off)?;
        end(&file, ends)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        Ok(fs::rename(self.at(from), self.at(to))?)
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        Ok(fs::hard_link(self.at(from), self.at(to))?)
    }

    fn unlink(&self, path: &str) -> Result<()> {
        Ok(fs::remove_file(self.at(path))?)
    }

    fn rmdir(&self, path: &str) -> Result<()> {
        Ok(fs::remove_dir(self.at(path))?)
    }

    fn sync(&self, path: &str) -> Result<()> {
        Ok(File::open(self.at(path))?.sync_all()?)
    }

    fn sync_all(&self) -> Result<()> {
        Ok(rustix::fs::syncfs(File::open(&self.0)?)?)
    }

    fn costs(&self) -> Option<Costs> {
        None
    }
}

struct InProcess(Arc<Fs>);

impl InProcess {
    fn find(&self, path: &str) -> Result<InodeRef> {
        let mut at = self.0.root()?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = self.0.lookup(&at, name.as_bytes()).with_context(|| format!("no '{name}' of '{path}'"))?;
        }
        Ok(at)
    }

    /// The directory that a path names something in, and the name.
    fn place<'p>(&self, path: &'p str) -> Result<(InodeRef, &'p [u8])> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.find(dir)?, name.as_bytes()))
    }

    fn fill(&self, file: &InodeRef, off: u64, bytes: &[u8], ends: Ends) -> Result<()> {
        let written = self.0.write(file, off, bytes)?;
        anyhow::ensure!(written == bytes.len(), "only {written} bytes were written");
        match ends {
            Ends::Synced => Ok(self.0.fsync(file, false)?),
            Ends::DataSynced => Ok(self.0.fsync(file, true)?),
            Ends::Cached => Ok(()),
        }
    }
}

impl Names for InProcess {
    fn mkdir(&self, path: &str) -> Result<()> {
        let (dir, name) = self.place(path)?;
        self.0.create(&dir, name, &NewInode { mode: 0o040_755, ..NewInode::default() })?;
        Ok(())
    }

    fn write(&self, path: &str, bytes: &[u8], ends: Ends) -> Result<()> {
        let (dir, name) = self.place(path)?;
        let file = match self.0.lookup(&dir, name) {
            Ok(file) => {
                self.0.setattr(&file, &SetAttr { size: Some(0), ..SetAttr::default() })?;
                file
            }
            Err(steadyfs_core::Error::NotFound) => {
                self.0.create(&dir, name, &NewInode { mode: 0o100_644, ..NewInode::default() })?
            }
            Err(other) => return Err(other.into()),
        };
        self.fill(&file, 0, bytes, ends)
    }

    fn overwrite(&self, path: &str, off: u64, bytes: &[u8], ends: Ends) -> Result<()> {
        self.fill(&self.find(path)?, off, bytes, ends)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let ((old_dir, old), (new_dir, new)) = (self.place(from)?, self.place(to)?);
        self.0.rename(&old_dir, old, &new_dir, new, RenameFlags::Replace)?;
        Ok(())
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        let (dir, name) = self.place(to)?;
        self.0.link(&self.find(from)?, &dir, name)?;
        Ok(())
    }

    fn unlink(&self, path: &str) -> Result<()> {
        let (dir, name) = self.place(path)?;
        Ok(self.0.unlink(&dir, name)?)
    }

    fn rmdir(&self, path: &str) -> Result<()> {
        let (dir, name) = self.place(path)?;
        Ok(self.0.rmdir(&dir, name)?)
    }

    fn sync(&self, path: &str) -> Result<()> {
        Ok(self.0.fsync(&self.find(path)?, false)?)
    }

    fn sync_all(&self) -> Result<()> {
        Ok(self.0.sync()?)
    }

    fn costs(&self) -> Option<Costs> {
        let checkpoints = self.0.sync_stats().checkpoints.values().sum();
        let io = self.0.io_stats();
        Some(Costs { checkpoints, flushes: io.flushes, through: io.through })
    }
}
