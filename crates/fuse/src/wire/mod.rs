//! The FUSE protocol as bytes, version 7: what the kernel sends and what it wants to hear.
//!
//! Why our own and not a library: a volume needs messages and bits that libraries for Rust leave out or answer by
//! themselves.
//! - DESTROY has to be answered after the last checkpoint, or `umount` returns while the image is still being written.
//! - TMPFILE, STATX (creation time) and SYNCFS have to be there.
//! - Set-id bits are only right with the kill flags of OPEN, SETATTR and WRITE.
//!
//! [`request`] reads, [`reply`] writes, [`abi`] names the structures, [`flags`] the bits. Numbers are in the byte order
//! of the machine. Source: `include/uapi/linux/fuse.h` of Linux (offered under the BSD-2-Clause licence). Nothing here
//! knows a file system or a device.

pub(crate) mod abi;
pub(crate) mod flags;
pub(crate) mod reply;
pub(crate) mod request;

pub(crate) use reply::{Notice, Reply};
pub(crate) use request::{Args, Opcode, Request};

/// Major version of the protocol.
pub(crate) const MAJOR: u32 = 7;

/// Newest minor version whose messages are known here.
pub(crate) const MINOR: u32 = 45;

/// Oldest minor version that is spoken: its structures have today's sizes, and it takes every reply that is given here.
pub(crate) const OLDEST_MINOR: u32 = 31;

/// The node id of the root directory.
pub(crate) const ROOT_NODE: u64 = 1;
