//! What can go wrong with a mount as a whole. What goes wrong with a request is an errno, see [`errno`].

use rustix::io::Errno;
use std::path::PathBuf;

/// Result of mounting, serving and unmounting.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of mounting, serving or unmounting. The texts say what to do where there is something to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no FUSE, or this process may not use it.
    #[error(
        "cannot open /dev/fuse: {source}; load the kernel module (`modprobe fuse`), or in a container pass the device through"
    )]
    NoFuse {
        /// Why it cannot be opened.
        source: std::io::Error,
    },
    /// The place to mount at is not a directory that can be used.
    #[error("cannot mount at {}: {source}", dir.display())]
    MountPoint {
        /// The place.
        dir: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// `mount(2)` failed.
    #[error("mounting at {} failed: {source}", dir.display())]
    Mount {
        /// The place.
        dir: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// `fusermount3`, which mounts for users that are not root, is missing or failed.
    #[error("cannot mount as a user: {0}")]
    Helper(String),
    /// The kernel speaks a FUSE that is too old.
    #[error("the kernel speaks FUSE {major}.{minor}; 7.31 (Linux 5.4) or later is needed")]
    TooOld {
        /// Major version of the kernel's protocol.
        major: u32,
        /// Minor version.
        minor: u32,
    },
    /// The conversation with the kernel broke off.
    #[error("{what}: {source}")]
    Session {
        /// The step that failed.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The file of a trace cannot be written.
    #[error("cannot write the trace {}: {source}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Unmounting failed.
    #[error("cannot unmount {}: {source}", dir.display())]
    Unmount {
        /// The mount point.
        dir: PathBuf,
        /// Why; `EBUSY` while somebody uses it.
        source: std::io::Error,
    },
    /// It is unmounted, and the file system did not end as it should.
    #[error("{} is unmounted, but it did not end as it should: {why}", dir.display())]
    Ended {
        /// Where it was mounted.
        dir: PathBuf,
        /// What the serving process says of it, or that it is gone.
        why: String,
    },
    /// The file system failed.
    #[error(transparent)]
    Fs(#[from] steadyfs_core::Error),
}

impl Error {
    /// A [`Error::Session`] from what the system said.
    pub(crate) fn session(what: &'static str, errno: Errno) -> Self {
        Error::Session { what, source: errno.into() }
    }
}

/// The error number that a request is answered with: the core decides, here and nowhere else it becomes the kernel's.
pub(crate) fn errno(error: &steadyfs_core::Error) -> Errno {
    Errno::from_raw_os_error(error.errno())
}
