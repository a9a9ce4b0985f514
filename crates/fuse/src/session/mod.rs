//! The conversation with the kernel: the ways there, and the threads that serve requests.
//!
//! [`lane::Lane`] is the seam: a way for one thread. `device` has the one over `/dev/fuse`, whose messages [`Channel`]
//! moves, `ring` the one over io_uring. `crew` has the threads that take requests from lanes, have them handled by a
//! [`Server`](crate::server::Server) and send the replies; `herald` those that tell the kernel what lanes must not.

mod channel;
mod crew;
mod device;
mod herald;
mod lane;
mod ring;

pub(crate) use channel::Channel;
pub(crate) use crew::Crew;
pub(crate) use ring::Rings;
pub use ring::{Transport, WhyDevice};
