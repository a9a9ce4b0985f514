//! What can go wrong in the file system, as one type.
//!
//! Variants are what a caller can act on; the mapping to an errno is made once, in [`Error::errno`], for every front
//! end.

use steadyfs_device::IoError;
use steadyfs_format::FormatError;

/// Result of file-system operations.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a file-system operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A structure on the device is not what the format allows.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The volume contradicts itself.
    #[error("the volume is damaged: {0}; run fsck on it")]
    Corrupt(String),
    /// Files that were fsynced after the last checkpoint cannot be recovered.
    #[error(
        "what was fsynced after the last checkpoint cannot be recovered: {0}; the mount option disable_roll_forward goes without it"
    )]
    Recovery(String),
    /// A step of a mount failed.
    #[error("{cause} (mount step: {step})")]
    Mount {
        /// The name of the step.
        step: &'static str,
        /// What went wrong.
        cause: Box<Error>,
    },
    /// A mount option, flag or argument that cannot be honoured.
    #[error("{0}")]
    Usage(String),
    /// The volume uses something that this version does not support for the attempted access.
    #[error("{0}")]
    Unsupported(String),
    /// No block is left for this operation.
    #[error("no space left on the volume")]
    NoSpace,
    /// No such name or inode.
    #[error("no such file or directory")]
    NotFound,
    /// The name exists.
    #[error("file exists")]
    Exists,
    /// A component is not a directory.
    #[error("not a directory")]
    NotDirectory,
    /// The operation is not for directories.
    #[error("is a directory")]
    IsDirectory,
    /// The directory has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// The name is longer than 255 bytes, or a symlink target than 4095.
    #[error("file name too long")]
    NameTooLong,
    /// An argument is out of its domain.
    #[error("invalid argument")]
    Invalid,
    /// The volume, or this inode, may not be changed.
    #[error("read-only: {0}")]
    ReadOnly(String),
    /// Past the largest file size.
    #[error("file too large")]
    TooBig,
    /// The buffer given is too small for the value.
    #[error("result too large for the buffer")]
    Range,
    /// No such attribute.
    #[error("no such attribute")]
    NoAttribute,
    /// Not permitted on this inode (immutable, append-only).
    #[error("operation not permitted")]
    NotPermitted,
    /// Too many links to this inode.
    #[error("too many links")]
    TooManyLinks,
    /// The directory keeps another project's inodes only; a copy would be in order.
    #[error("the directory belongs to another project")]
    CrossProject,
    /// A directory would move farther than a path reaches, up to what is above both places and down. A copy would be
    /// in order.
    #[error("the places are too far from each other in the tree to move a directory")]
    TooFar,
    /// The extended attributes of one inode would exceed what it can hold.
    #[error("attribute too large")]
    TooMuch,
    /// A seek beyond the last data, or outside the file.
    #[error("no such offset")]
    NoSuchOffset,
    /// The operation has no meaning for this kind of inode.
    #[error("operation not supported")]
    NotSupported,
    /// The volume stopped accepting changes after an earlier error.
    #[error("the volume stopped after an error: {0}")]
    Stopped(String),
    /// The volume was shut down, as somebody asked.
    #[error("the volume was shut down; it takes requests again when it is mounted again")]
    ShutDown,
    /// The file system itself has gone wrong.
    #[error("a defect of the file system: {0}; please report it, with what was printed before")]
    Defect(String),
}

impl Error {
    /// A [`Error::Corrupt`] with a formatted reason.
    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Error::Corrupt(what.into())
    }

    /// What went wrong, without the step of the mount in which it did.
    pub fn cause(&self) -> &Error {
        match self {
            Error::Mount { cause, .. } => cause.cause(),
            cause => cause,
        }
    }

    /// The Linux error number that stands for this error.
    pub fn errno(&self) -> i32 {
        // Numbers of asm-generic/errno-base.h and errno.h; the core links no libc for 20 constants.
        match self {
            // A backing file without room is full; anything else that a device may say is one thing to a program.
            Error::Io(e) if e.errno() == 28 => 28,
            Error::Io(_) | Error::Defect(_) | Error::ShutDown => 5,
            Error::Format(FormatError::BlockSize { .. } | FormatError::Devices { .. }) => 95, // EOPNOTSUPP
            Error::Format(_) | Error::Corrupt(_) | Error::Recovery(_) => 117,                 // EUCLEAN
            Error::Usage(_) | Error::Invalid => 22,
            Error::Unsupported(_) | Error::NotSupported => 95,
            Error::NoSpace => 28,
            Error::NotFound => 2,
            Error::Exists => 17,
            Error::NotDirectory => 20,
            Error::IsDirectory => 21,
            Error::NotEmpty => 39,
            Error::NameTooLong => 36,
            Error::ReadOnly(_) => 30,
            Error::TooBig => 27,
            Error::Range => 34,
            Error::NoAttribute => 61,
            Error::NotPermitted => 1,
            Error::TooManyLinks => 31,
            Error::CrossProject | Error::TooFar => 18, // EXDEV: mv(1) makes a copy
            Error::TooMuch => 7,
            Error::NoSuchOffset => 6,
            Error::Stopped(_) => 5,
            Error::Mount { cause, .. } => cause.errno(),
        }
    }
}
