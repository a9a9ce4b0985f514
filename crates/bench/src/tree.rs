//! What a workload needs of a file system, so that all of them run the same code.
//!
//! Two kinds of implementation: `posix`, by system calls, for everything that is mounted; `library`, by calls of the
//! core. Paths are relative to the root of the tree and have no leading slash.

use anyhow::Result;

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// An existing file, through the cache.
    Cached,
    /// An existing file, past the cache (`O_DIRECT`).
    Direct,
    /// A new file, through the cache; an error if there is one.
    New,
    /// A new file, past the cache.
    NewDirect,
}

impl Open {
    /// Whether the file is to be made.
    pub(crate) fn is_new(self) -> bool {
        matches!(self, Open::New | Open::NewDirect)
    }

    /// Whether the cache is to be passed by.
    pub(crate) fn is_direct(self) -> bool {
        matches!(self, Open::Direct | Open::NewDirect)
    }
}

/// A mounted file system.
pub(crate) trait Tree {
    /// Makes a directory.
    fn mkdir(&self, path: &str) -> Result<()>;
    /// Opens a file.
    fn open(&self, path: &str, how: Open) -> Result<Box<dyn Handle + '_>>;
    /// The size of a file.
    fn stat(&self, path: &str) -> Result<u64>;
    /// Removes a name.
    fn unlink(&self, path: &str) -> Result<()>;
    /// Makes everything durable.
    fn sync(&self) -> Result<()>;
}

/// An open file. Buffers for direct I/O come from `data::Buffer`.
pub(crate) trait Handle: Sync {
    /// Reads the whole buffer; the file's end is an error.
    fn read_at(&self, off: u64, buf: &mut [u8]) -> Result<()>;
    /// Writes the whole buffer.
    fn write_at(&self, off: u64, buf: &[u8]) -> Result<()>;
    /// `fdatasync`.
    fn datasync(&self) -> Result<()>;
    /// What `tar` does last: permissions and modification time.
    fn set_mode_and_time(&self, mode: u32, seconds: i64) -> Result<()>;
}
