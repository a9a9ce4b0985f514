//! Getting a directory to be the file system, and back.
//!
//! As root by `mount(2)`, as a user through `fusermount3`. [`Mounted`] is what comes out.

mod busy;
mod helper;
mod mounted;
mod point;
mod scribe;
mod system;
mod table;
mod tune;

pub(crate) use mounted::Event;
pub use mounted::{Mounted, mount};
pub use point::{clear_dead, remount, unmount, unmount_lazily};
use std::os::fd::OwnedFd;
pub use table::mounted_at;

/// A directory that is the file system now.
struct Attached {
    /// The connection to the kernel.
    fd: OwnedFd,
    /// The kernel passes on `sync`, and has `umount` wait for the last answer.
    is_block_device: bool,
    /// fusermount3 mounted it, and has to unmount it.
    by_helper: bool,
}

/// Tells the kernel that the calling thread, and threads it starts, write for others: then it does not make them wait
/// for memory or for writers that wait for them. Takes effect only for root; without it a mount works, but can stall
/// when memory is short.
pub fn become_io_flusher() {
    // Not allowed or not known: then it stays as it was.
    let _ = rustix::process::configure_io_flusher_behavior(true);
}
