//! The FUSE mount: kernel requests in, `steadyfs-core` calls out.
//!
//! Four layers, each knowing only the ones below it:
//! - [`mount()`] gets a directory to be the file system and back (`mount`, `signals`);
//! - `session` has the threads that talk to `/dev/fuse`;
//! - `server` is what each request means, testable without a kernel;
//! - `wire` is the protocol as bytes.
//!
//! To follow a request: `session/crew.rs` reads it, `server/dispatch.rs` chooses the handler, `server/files.rs` (for
//! one) calls the core.
//!
//! Kept true:
//! - An inode lives as long as the kernel knows it. Nothing else is kept per inode or open file, so memory stays
//!   bounded by the core's caches.
//! - A request that panics fails alone.
//! - Whichever way a mount ends, a checkpoint is the last thing that is written.
//!
//! What the kernel decides and this crate cannot change:
//! - With the write-back cache (the default) the kernel takes writes without asking whether there is space. So ENOSPC
//!   may come at `fsync` or `close`.
//! - `sync` reaches, and `umount` waits for, only a mount that has the name of a block device. An image file gets one
//!   where there are loop devices; elsewhere [`unmount`] waits.
//! - `fallocate` with COLLAPSE and INSERT is refused for every FUSE mount.

mod error;
mod mount;
mod options;
mod server;
mod session;
mod signals;
mod wire;

pub use error::{Error, Result};
pub use mount::{Mounted, become_io_flusher, clear_dead, mount, mounted_at, remount, unmount, unmount_lazily};
pub use options::{Allow, Cache, Durable, Foreign, FuseOptions, OPTIONS, Uring};
pub use server::{
    Access, CAPACITY_ATTRIBUTE, Reopen, SEGMENTS_ATTRIBUTE, STATS_ATTRIBUTE, TRACE_ATTRIBUTE, WRITABLE_ATTRIBUTE,
};
pub use session::{Transport, WhyDevice};
