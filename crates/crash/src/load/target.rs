//! What the load works on: the library, or anything else that has files.

use std::error::Error;
use std::sync::Arc;
use steadyfs_core::{FallocMode, Fs, InodeRef, NewInode, RenameFlags, SetAttr};

/// What the target said instead of doing its work.
pub type Failure = Box<dyn Error + Send + Sync>;

/// A file system under load. Paths are relative to its root, with a directory at most.
pub trait Target: Send + Sync + 'static {
    /// An open file.
    type File: Send + Sync + 'static;

    /// Makes a directory.
    ///
    /// # Errors
    /// Any error ends the load; so with the others.
    fn mkdir(&self, path: &str) -> Result<(), Failure>;
    /// Makes a file that is not there.
    ///
    /// # Errors
    /// See [`Target::mkdir`].
    fn create(&self, path: &str) -> Result<Self::File, Failure>;
    /// Opens a file that is there.
    ///
    /// # Errors
    /// See [`Target::mkdir`].
    fn open(&self, path: &str) -> Result<Self::File, Failure>;
    /// Moves a file, over another if there is one.
    ///
    /// # Errors
    /// See [`Target::mkdir`].
    fn rename(&self, from: &str, to: &str) -> Result<(), Failure>;
    /// Reads, past the cache if `direct`; how many bytes there were.
    ///
    /// # Errors
    /// See [`Target::mkdir`].
    fn read(&self, file: &Self::File, direct: bool, off: u64, buf: &mut [u8]) -> Result<usize, Failure>;
    /// Writes, past the cache if `direct`; how many bytes it took.
    ///
    /// # Errors
    /// See [`Target::mkdir`].
    fn write(&self, file: &Self::File, direct: bool, off: u64, data: &[u8]) -> Result<usize, Failure>;
    /// Sets the size.
    ///
    /// # Errors
    /// See [`Target::mkdir`].
    fn set_size(&self, file: &Self::File, size: u64) -> Result<(), Failure>;
    /// Frees the space of a range.
    ///
    /// # Errors
    /// See [`Target::mkdir`].
    fn punch(&self, file: &Self::File, off: u64, len: u64) -> Result<(), Failure>;
    /// Makes a file durable; only what is needed to read it, if `data`.
    ///
    /// # Errors
    /// See [`Target::mkdir`].
    fn fsync(&self, file: &Self::File, data: bool) -> Result<(), Failure>;
    /// Makes everything durable.
    ///
    /// # Errors
    /// See [`Target::mkdir`].
    fn sync(&self) -> Result<(), Failure>;
    /// Blocks of 4 KiB in use, and all that there are.
    ///
    /// # Errors
    /// See [`Target::mkdir`].
    fn used(&self) -> Result<(u64, u64), Failure>;
}

/// A volume mounted by the library.
pub struct Library(pub Arc<Fs>);

impl Library {
    fn place<'p>(&self, path: &'p str) -> Result<(InodeRef, &'p [u8]), Failure> {
        let root = self.0.root()?;
        match path.split_once('/') {
            None => Ok((root, path.as_bytes())),
            Some((dir, name)) => Ok((self.0.lookup(&root, dir.as_bytes())?, name.as_bytes())),
        }
    }

    fn make(&self, path: &str, mode: u32) -> Result<InodeRef, Failure> {
        let (dir, name) = self.place(path)?;
        Ok(self.0.create(&dir, name, &NewInode { mode, ..NewInode::default() })?)
    }
}

impl Target for Library {
    type File = InodeRef;

    fn mkdir(&self, path: &str) -> Result<(), Failure> {
        self.make(path, 0o040_755).map(drop)
    }

    fn create(&self, path: &str) -> Result<InodeRef, Failure> {
        self.make(path, 0o100_644)
    }

    fn open(&self, path: &str) -> Result<InodeRef, Failure> {
        let (dir, name) = self.place(path)?;
        Ok(self.0.lookup(&dir, name)?)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Failure> {
        let ((old_dir, old), (new_dir, new)) = (self.place(from)?, self.place(to)?);
        Ok(self.0.rename(&old_dir, old, &new_dir, new, RenameFlags::Replace)?)
    }

    fn read(&self, file: &InodeRef, direct: bool, off: u64, buf: &mut [u8]) -> Result<usize, Failure> {
        Ok(if direct { self.0.read_direct(file, off, buf)? } else { self.0.read(file, off, buf)? })
    }

    fn write(&self, file: &InodeRef, direct: bool, off: u64, data: &[u8]) -> Result<usize, Failure> {
        Ok(if direct { self.0.write_direct(file, off, data)? } else { self.0.write(file, off, data)? })
    }

    fn set_size(&self, file: &InodeRef, size: u64) -> Result<(), Failure> {
        self.0.setattr(file, &SetAttr { size: Some(size), ..SetAttr::default() })?;
        Ok(())
    }

    fn punch(&self, file: &InodeRef, off: u64, len: u64) -> Result<(), Failure> {
        Ok(self.0.fallocate(file, FallocMode::PunchHole, off, len)?)
    }

    fn fsync(&self, file: &InodeRef, data: bool) -> Result<(), Failure> {
        Ok(self.0.fsync(file, data)?)
    }

    fn sync(&self) -> Result<(), Failure> {
        Ok(self.0.sync()?)
    }

    fn used(&self) -> Result<(u64, u64), Failure> {
        let now = self.0.statfs();
        Ok((now.blocks - now.blocks_free, now.blocks))
    }
}
