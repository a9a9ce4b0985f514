//! A lane over an entry of a queue: puts requests together, and replies into the entry.
//!
//! The kernel lays a request down in three pieces: its header, the structure of its operation, and the rest, the
//! payload. The first two are short, and are copied to right before the payload: so a request is one piece again, and
//! contents that are written stay where the kernel put them, on a page boundary. Where a request has no payload (a
//! read, say), its reply is made in the payload's memory, and is sent without a copy.
//!
//! Kept true: an entry that was taken is given back once, with a reply; a request that contradicts itself is answered
//! with EIO.

use super::raw::RingEntry;
use crate::server::{Handled, MAX_WRITE};
use crate::session::lane::Lane;
use crate::wire::abi::{InHeader, RingHeader};
use crate::wire::reply::AlignedBuf;
use crate::wire::{Notice, Reply};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

const HEADER: usize = size_of::<InHeader>();
/// Most bytes before a payload: header and operation.
const FRONT: usize = HEADER + RingHeader::OPERATION;
/// Bytes of a payload, and of a reply.
const PAYLOAD: usize = MAX_WRITE as usize + 4096;

/// One entry and the memory of its requests and replies.
pub(in crate::session) struct RingLane {
    entry: RingEntry,
    /// A request without payload.
    short: [u8; FRONT],
    reply: Reply,
    registered: bool,
}

/// How a request lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Bytes of header and operation.
    front: usize,
    payload: usize,
}

/// How the request with this header lies.
///
/// # Errors
/// `EIO` if its lengths contradict each other.
fn layout(header: &RingHeader) -> Result<Layout, Errno> {
    let (request, _) = InHeader::read_from_prefix(&header.in_out).map_err(|_| Errno::IO)?;
    let (len, payload) = (request.len as usize, header.payload_size as usize);
    let front = len.checked_sub(payload).filter(|front| (HEADER..=FRONT).contains(front)).ok_or(Errno::IO)?;
    if payload > PAYLOAD { Err(Errno::IO) } else { Ok(Layout { front, payload }) }
}

/// Puts header and operation together.
fn put_front(header: &RingHeader, front: &mut [u8]) {
    let (head, operation) = front.split_at_mut(HEADER);
    head.copy_from_slice(&header.in_out[..HEADER]);
    operation.copy_from_slice(&header.operation[..operation.len()]);
}

impl RingLane {
    /// A lane of a queue of the mount whose `/dev/fuse` this is.
    ///
    /// # Errors
    /// If the system has no such ring for this process.
    pub(super) fn new(fuse: Arc<OwnedFd>, queue: u16) -> io::Result<Self> {
        let entry = RingEntry::new(fuse, queue, AlignedBuf::behind(FRONT, PAYLOAD))?;
        Ok(RingLane { entry, short: [0; FRONT], reply: Reply::new(PAYLOAD), registered: false })
    }

    /// Waits for a request that makes sense.
    fn fetch(&mut self) -> rustix::io::Result<Layout> {
        loop {
            if !self.registered {
                self.registered = true;
                self.entry.register();
            }
            self.entry.wait()?;
            match layout(self.entry.header()) {
                Ok(layout) => return Ok(layout),
                Err(errno) => {
                    tracing::error!("a request of the kernel contradicts itself");
                    self.reply.start(self.entry.header().commit_id);
                    self.reply.fail(errno);
                    self.give_back();
                }
            }
        }
    }

    /// Puts the reply into the entry, for the kernel to take with the next wait.
    fn give_back(&mut self) {
        if !self.entry.take_back(&mut self.reply) {
            let body = self.reply.body();
            self.entry.parts_mut(0).1[..body.len()].copy_from_slice(body);
        }
        let (head, len) = (self.reply.head(), self.reply.len());
        let header = self.entry.header_mut();
        header.in_out[..head.as_bytes().len()].copy_from_slice(head.as_bytes());
        header.payload_size = u32::try_from(len).unwrap_or(0);
        self.entry.commit();
    }
}

impl Lane for RingLane {
    fn next(&mut self) -> rustix::io::Result<Option<(&[u8], &mut Reply)>> {
        let layout = match self.fetch() {
            Ok(layout) => layout,
            // The mount is gone, or this process is about to be.
            Err(Errno::NOTCONN | Errno::CONNABORTED | Errno::NODEV | Errno::CANCELED) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let Layout { front, payload } = layout;
        if payload > 0 {
            let (header, request) = self.entry.parts_mut(front);
            put_front(header, &mut request[..front]);
            return Ok(Some((&request[..front + payload], &mut self.reply)));
        }
        put_front(self.entry.header(), &mut self.short[..front]);
        self.entry.lend(&mut self.reply);
        Ok(Some((&self.short[..front], &mut self.reply)))
    }

    fn answer(&mut self, handled: Handled) -> Vec<Notice> {
        let notices = self.reply.take_notices();
        if handled == Handled::Silent {
            // Each request of a ring has an answer: it is how the entry gets back.
            self.reply.start(self.entry.header().commit_id);
        }
        self.give_back();
        if !notices.is_empty() {
            // They come after the reply.
            self.entry.submit();
        }
        notices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::abi::WriteIn;
    use zerocopy::FromZeros;

    /// An entry with a request of these parts in it.
    fn entry(operation: &[u8], payload: usize) -> RingHeader {
        let mut header = RingHeader::new_zeroed();
        let len = (HEADER + operation.len() + payload) as u32;
        let head =
            InHeader { len, opcode: 16, unique: 7, nodeid: 1, uid: 2, gid: 3, pid: 4, total_extlen: 0, padding: 0 };
        header.in_out[..HEADER].copy_from_slice(head.as_bytes());
        header.operation[..operation.len()].copy_from_slice(operation);
        header.payload_size = payload as u32;
        header
    }

    #[test]
    fn a_request_is_put_together_right_before_its_payload() {
        let mut memory = AlignedBuf::behind(FRONT, PAYLOAD);
        memory.bytes_mut()[..5].copy_from_slice(b"bytes");
        let operation = WriteIn { fh: 1, offset: 2, size: 5, write_flags: 0, lock_owner: 3, flags: 4, padding: 0 };
        let header = entry(operation.as_bytes(), 5);
        let Layout { front, payload } = layout(&header).unwrap();
        assert_eq!((front, payload), (HEADER + size_of::<WriteIn>(), 5));
        let request = memory.bytes_behind_mut(front);
        put_front(&header, &mut request[..front]);
        let mut parsed = crate::wire::Request::parse(&request[..front + payload]).unwrap();
        assert_eq!((parsed.header.unique, parsed.opcode), (7, Some(crate::wire::Opcode::Write)));
        assert_eq!(parsed.args.take::<WriteIn>().unwrap().size, 5);
        assert_eq!(parsed.args.bytes(5).unwrap(), b"bytes");
        assert_eq!(request[front..].as_ptr().addr() % 4096, 0, "contents lie as the kernel put them");
    }

    #[test]
    fn the_longest_operation_fits_before_the_payload_and_no_longer_one() {
        let longest = entry(&[1; RingHeader::OPERATION], PAYLOAD);
        assert_eq!(layout(&longest), Ok(Layout { front: FRONT, payload: PAYLOAD }));
        let with = |change: &dyn Fn(&mut RingHeader)| {
            let mut header = longest;
            change(&mut header);
            layout(&header)
        };
        assert_eq!(with(&|header| header.payload_size -= 1), Err(Errno::IO), "an operation that is too long");
        assert_eq!(with(&|header| header.payload_size += 129), Err(Errno::IO), "less than a header");
        assert_eq!(with(&|header| header.payload_size = u32::MAX), Err(Errno::IO), "more than there is");
        assert_eq!(with(&|header| header.in_out = [0xff; 128]), Err(Errno::IO), "lengths that differ");
        let mut large = longest;
        large.in_out[..4].copy_from_slice(&((HEADER + PAYLOAD + 1) as u32).to_ne_bytes());
        large.payload_size += 1;
        assert_eq!(layout(&large), Err(Errno::IO), "a payload that is too large");
    }
}
