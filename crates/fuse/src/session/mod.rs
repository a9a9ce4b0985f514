//! The conversation with the kernel: `/dev/fuse` and the threads that serve it.
//!
//! [`Channel`] moves messages, `crew` has the threads that read requests, have them handled by a
//! [`Server`](crate::server::Server) and send the replies. Another way to the kernel, such as io_uring, is another file
//! here and changes nothing elsewhere.

mod channel;
mod crew;

pub(crate) use channel::Channel;
pub(crate) use crew::Crew;
