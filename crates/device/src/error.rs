//! Errors as values: [`IoError`] for a request that failed, [`OpenError`] for a device that could not be opened.
//!
//! An I/O error says which operation on which blocks failed and carries the errno that a caller passes on.

use std::path::PathBuf;

/// `errno` values that devices of this crate report themselves.
pub mod errno {
    use rustix::io::Errno;
    /// A quota of the host's file system is used up.
    pub const EDQUOT: i32 = Errno::DQUOT.raw_os_error();
    /// The system has no memory for it now.
    pub const ENOMEM: i32 = Errno::NOMEM.raw_os_error();
    /// The system cannot do it now.
    pub const EAGAIN: i32 = Errno::AGAIN.raw_os_error();
    /// The call was interrupted.
    pub const EINTR: i32 = Errno::INTR.raw_os_error();
    /// Input/output error.
    pub const EIO: i32 = Errno::IO.raw_os_error();
    /// No such device: it has disappeared.
    pub const ENODEV: i32 = Errno::NODEV.raw_os_error();
    /// No space left on the device.
    pub const ENOSPC: i32 = Errno::NOSPC.raw_os_error();
    /// The device is read-only.
    pub const EROFS: i32 = Errno::ROFS.raw_os_error();
    /// A block range outside the device, or a malformed request.
    pub const EINVAL: i32 = Errno::INVAL.raw_os_error();
    /// The device does not have this operation.
    pub const EOPNOTSUPP: i32 = Errno::OPNOTSUPP.raw_os_error();
    /// As many zones are open as the device allows.
    pub const ETOOMANYREFS: i32 = Errno::TOOMANYREFS.raw_os_error();
    /// As many zones are partly written as the device allows.
    pub const EOVERFLOW: i32 = Errno::OVERFLOW.raw_os_error();
    /// The device is in use.
    pub const EBUSY: i32 = Errno::BUSY.raw_os_error();
}

/// The kind of an operation, without its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Reading blocks.
    Read,
    /// Writing blocks.
    Write,
    /// Making completed writes durable.
    Flush,
    /// Telling the device that blocks are no longer needed.
    Discard,
    /// Asking which blocks hold something.
    Held,
    /// Adding blocks at a zone's write pointer.
    ZoneAppend,
    /// Opening a zone for writing.
    ZoneOpen,
    /// Ending that.
    ZoneClose,
    /// Emptying a zone.
    ZoneReset,
    /// Making a zone full.
    ZoneFinish,
    /// Asking for the state of zones.
    ZoneReport,
}

impl std::fmt::Display for OpKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Flush => "flush",
            OpKind::Discard => "discard",
            OpKind::Held => "search for contents",
            OpKind::ZoneAppend => "zone append",
            OpKind::ZoneOpen => "zone open",
            OpKind::ZoneClose => "zone close",
            OpKind::ZoneReset => "zone reset",
            OpKind::ZoneFinish => "zone finish",
            OpKind::ZoneReport => "zone report",
        })
    }
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{op} of {count} blocks at block {block} failed: {cause}")]
pub struct IoError {
    /// The operation that was asked for.
    pub op: OpKind,
    /// First block (0 for a flush).
    pub block: u64,
    /// Number of blocks (0 for a flush).
    pub count: u64,
    /// The system's error number; see [`errno`].
    pub errno: i32,
    /// What went wrong, for people.
    pub cause: String,
}

impl IoError {
    /// An error with a reason of its own.
    pub fn new(op: OpKind, block: u64, count: u64, errno: i32, cause: impl Into<String>) -> Self {
        IoError { op, block, count, errno, cause: cause.into() }
    }

    /// An error that says what the system says for `errno`.
    pub fn from_errno(op: OpKind, block: u64, count: u64, errno: i32) -> Self {
        Self::new(op, block, count, errno, std::io::Error::from_raw_os_error(errno).to_string())
    }

    /// The error number to pass on to a program.
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// Whether the system lacked something for the moment: room, a quota, memory. That says nothing of the blocks, and
    /// the same request may succeed later. Any other error may be a bad place.
    pub fn is_passing(&self) -> bool {
        !steadyfs_rt::mutated("want-of-room-is-no-bad-place")
            && [errno::ENOSPC, errno::EDQUOT, errno::ENOMEM, errno::EAGAIN, errno::EINTR].contains(&self.errno)
    }
}

/// A device that could not be opened. The texts say what to do where there is something to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system refused.
    #[error("cannot open {}: {source}", path.display())]
    System {
        /// The path that was to be opened.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It can be read, but not written.
    #[error("{} is write-protected: {why}", path.display())]
    WriteProtected {
        /// The path that was to be opened.
        path: PathBuf,
        /// What protects it, as a clause.
        why: &'static str,
    },
    /// Somebody else has the device open for writing, or has it mounted.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// The path that was to be opened.
        path: PathBuf,
    },
    /// A directory, a socket: nothing that holds blocks.
    #[error("{} is {what}, not a file or block device", path.display())]
    NotADevice {
        /// The path that was to be opened.
        path: PathBuf,
        /// Its kind, with the article.
        what: &'static str,
    },
    /// The file or block device ends before the size that was asked for.
    #[error("{} has {have} bytes after the offset, {want} were expected", path.display())]
    TooSmall {
        /// The path that was to be opened.
        path: PathBuf,
        /// Bytes there are.
        have: u64,
        /// Bytes that were asked for.
        want: u64,
    },
    /// The options contradict each other or the device.
    #[error("cannot open {}: {reason}", path.display())]
    Unsupported {
        /// The path that was to be opened.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The file claims to be an Android sparse image and is not a valid one.
    #[error("{} is not a valid sparse image: {reason}", path.display())]
    Sparse {
        /// The path that was to be opened.
        path: PathBuf,
        /// Which rule of the format it breaks.
        reason: String,
    },
}

impl OpenError {
    /// The error number to pass on to a program.
    pub fn errno(&self) -> i32 {
        match self {
            OpenError::System { source, .. } => source.raw_os_error().unwrap_or(errno::EIO),
            OpenError::WriteProtected { .. } => errno::EROFS,
            OpenError::InUse { .. } => errno::EBUSY,
            OpenError::NotADevice { .. } | OpenError::TooSmall { .. } | OpenError::Unsupported { .. } => errno::EINVAL,
            OpenError::Sparse { .. } => errno::EINVAL,
        }
    }
}
