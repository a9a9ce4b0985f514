//! The seam between the ways to the kernel and the threads that serve requests.
//!
//! A lane belongs to one thread: it waits for a request, hands out the bytes of it and an empty reply, and sends that
//! reply. [`device`](super::device) reads and writes `/dev/fuse`; [`ring`](super::ring) has an entry of a queue of the
//! kernel's, through io_uring. The handling of requests is the same for both.

use crate::server::Handled;
use crate::wire::{Notice, Reply};

/// One thread's way to the kernel and back.
pub(super) trait Lane {
    /// Waits for a request. `None`: the mount is gone.
    ///
    /// # Errors
    /// What broke the lane. It brings no further request.
    fn next(&mut self) -> rustix::io::Result<Option<(&[u8], &mut Reply)>>;

    /// Sends the reply to the request that was taken last, at once or with the next wait, if it wants one. What the
    /// kernel is to be told now, for it has the reply.
    fn answer(&mut self, handled: Handled) -> Vec<Notice>;
}
