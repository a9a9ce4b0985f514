//! [`Error`]: what could not be done, where, and why.

use std::io;
use std::path::Path;

use steadyfs_device::{OpenError, errno};

/// Result of the library's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// What could not be done, and with what. Why not is its [`source`](std::error::Error::source) and [`Error::cause`].
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {place}")]
pub struct Error {
    what: &'static str,
    place: String,
    #[source]
    cause: Cause,
}

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The image or device does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file system refuses.
    #[error(transparent)]
    Volume(#[from] steadyfs_core::Error),
    /// The system around the volume refuses.
    #[error(transparent)]
    System(io::Error),
}

impl From<io::Error> for Cause {
    /// What came through the traits of [`std::io`] may be a refusal of the file system all the same.
    fn from(e: io::Error) -> Self {
        e.downcast().map_or_else(Cause::System, Cause::Volume)
    }
}

impl Error {
    /// `what` is a verb, `place` a path on the host or in the volume.
    pub(super) fn new(what: &'static str, place: &Path, cause: impl Into<Cause>) -> Self {
        Error { what, place: place.display().to_string(), cause: cause.into() }
    }

    /// Why not, for those who want to act on it.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The Linux error number that stands for the cause.
    pub fn errno(&self) -> i32 {
        match &self.cause {
            Cause::Open(e) => e.errno(),
            Cause::Volume(e) => e.errno(),
            Cause::System(e) => e.raw_os_error().unwrap_or(errno::EIO),
        }
    }
}
