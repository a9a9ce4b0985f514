//! Block devices: what a block device promises to the file system, and its implementations.
//!
//! - [`Device`], [`Request`], [`Op`]: the promise (see the head of `device`); [`PageBuf`]: a page on its way;
//! - [`FileDevice`]: a regular file or block device; [`MemDevice`]: memory.
//!
//! Knows nothing of files or file systems. Errors are values; nothing here panics on what a device or an image contains.

mod device;
mod error;
mod file;
mod mem;
mod page;
mod pool;

pub use device::{
    Device, DeviceInfo, Done, IoResult, Op, Request, StreamHint, Upcall, Upcalls, Zone, ZoneGeometry, ZoneState,
};
pub use error::{IoError, OpKind, OpenError, errno};
pub use file::{Direct, Engine, FileDevice, OpenOptions};
pub use mem::MemDevice;
pub use page::PageBuf;

/// Size of a block and of a page, in bytes.
pub const BLOCK_SIZE: usize = 4096;
