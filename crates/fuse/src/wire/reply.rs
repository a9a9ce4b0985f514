//! Writing replies: one buffer per thread, reused from request to request.
//!
//! Kept true: the body starts on a page boundary, so that data for the kernel (and for direct I/O on the way to it) is
//! aligned; a reply with an error has no body.

use super::abi::OutHeader;
use rustix::io::Errno;
use std::io::IoSlice;
use std::ops::Range;
use zerocopy::{Immutable, IntoBytes};

const PAGE: usize = 4096;

/// A buffer of which one byte is at the start of a page.
pub(crate) struct AlignedBuf {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuf {
    /// `len` zero bytes such that the byte at `offset` is at the start of a page.
    pub(crate) fn new(len: usize, offset: usize) -> Self {
        let bytes = vec![0; len + PAGE];
        let misaligned = (bytes.as_ptr().addr() + offset) % PAGE;
        AlignedBuf { start: (PAGE - misaligned) % PAGE, len, bytes }
    }

    /// `len` zero bytes at the start of a page, with room for `front` bytes before them.
    pub(crate) fn behind(front: usize, len: usize) -> Self {
        let whole = Self::new(front + len, front);
        AlignedBuf { start: whole.start + front, len, bytes: whole.bytes }
    }

    /// The bytes.
    pub(crate) fn bytes(&self, len: usize) -> &[u8] {
        &self.bytes[self.start..self.start + len]
    }

    /// The bytes, to change; all that were asked for.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }

    /// The bytes, to change, behind `front` of those that there is room for before them.
    pub(crate) fn bytes_behind_mut(&mut self, front: usize) -> &mut [u8] {
        &mut self.bytes[self.start - front..self.start + self.len]
    }
}

/// What the kernel is told when it has a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// To ask for a node's attributes before it next goes by them.
    ForgetAttributes { node: u64 },
    /// To drop these bytes of a node from its cache.
    DropContents { node: u64, range: Range<u64> },
    /// To drop a name, and the inode that it stands for if nobody uses it.
    ForgetName { parent: u64, name: Vec<u8> },
}

/// The reply to one request.
pub(crate) struct Reply {
    header: OutHeader,
    body: AlignedBuf,
    capacity: usize,
    len: usize,
    notices: Vec<Notice>,
}

impl Reply {
    /// A reply whose body takes up to `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        let body = AlignedBuf::new(capacity, 0);
        Reply { header: OutHeader::default(), body, capacity, len: 0, notices: Vec::new() }
    }

    /// Starts the reply to the request with this number.
    pub(crate) fn start(&mut self, unique: u64) {
        self.header = OutHeader { len: 0, error: 0, unique };
        self.clear();
        self.notices.clear();
    }

    /// Has the kernel told something when it has the reply, also if the request fails. Before, it could wait for just
    /// this reply.
    pub(crate) fn then(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// What the kernel is to be told now.
    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Bytes of body that still fit.
    pub(crate) fn room(&self) -> usize {
        self.capacity - self.len
    }

    /// Bytes of body so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The body so far.
    pub(crate) fn body(&self) -> &[u8] {
        self.body.bytes(self.len)
    }

    /// The body so far, to change.
    pub(crate) fn body_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.body.bytes_mut()[..len]
    }

    /// Adds a structure. Every structure of the protocol fits into an empty reply.
    ///
    /// # Errors
    /// `EIO` if it does not fit.
    pub(crate) fn put<T: IntoBytes + Immutable>(&mut self, value: &T) -> Result<(), Errno> {
        self.put_bytes(value.as_bytes())
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// `EIO` if they do not fit.
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let end = self.len + bytes.len();
        if end > self.capacity {
            return Err(Errno::IO);
        }
        self.body.bytes_mut()[self.len..end].copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    /// Adds what `fill` puts into the next `want` bytes, or as many as fit; it returns how many it filled.
    pub(crate) fn fill<E>(
        &mut self,
        want: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let end = self.len + want.min(self.room());
        let filled = fill(&mut self.body.bytes_mut()[self.len..end])?;
        assert!(filled <= end - self.len, "{filled} bytes in a buffer of {}", end - self.len);
        self.len += filled;
        Ok(filled)
    }

    /// Cuts the body back to `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        assert!(len <= self.len, "cannot cut {} bytes to {len}", self.len);
        self.len = len;
    }

    /// Puts the body's memory into `other`, and makes the body in that of `other` from now on.
    ///
    /// # Panics
    /// If they are not of one size.
    pub(crate) fn exchange(&mut self, other: &mut AlignedBuf) {
        assert_eq!(self.body.len, other.len, "a body has the memory that it was made with");
        std::mem::swap(&mut self.body, other);
    }

    /// The header that stands before the body.
    pub(crate) fn head(&self) -> OutHeader {
        let len = size_of::<OutHeader>() + self.len;
        OutHeader { len: u32::try_from(len).unwrap_or(u32::MAX), ..self.header }
    }

    fn clear(&mut self) {
        self.len = 0;
    }

    /// Makes it the reply that reports `error`.
    pub(crate) fn fail(&mut self, error: Errno) {
        self.clear();
        self.header.error = -error.raw_os_error();
    }

    /// Makes it a notification: a message to the kernel that answers nothing.
    pub(crate) fn notify(&mut self, code: i32) {
        self.header = OutHeader { len: 0, error: code, unique: 0 };
        self.clear();
    }

    /// The error it reports, if it does.
    pub(crate) fn error(&self) -> Option<Errno> {
        (self.header.error < 0).then(|| Errno::from_raw_os_error(-self.header.error))
    }

    /// Hands header and body to `send`, as one message in pieces.
    pub(crate) fn send<T>(&mut self, send: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        self.header = self.head();
        let pieces = [IoSlice::new(self.header.as_bytes()), IoSlice::new(self.body.bytes(self.len))];
        send(if self.len == 0 { &pieces[..1] } else { &pieces })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::abi::WriteOut;

    fn sent(reply: &mut Reply) -> Vec<u8> {
        reply.send(|pieces| pieces.iter().flat_map(|p| p.to_vec()).collect())
    }

    #[test]
    fn header_counts_the_body() {
        let mut reply = Reply::new(64);
        reply.start(9);
        reply.put(&WriteOut { size: 5, padding: 0 }).unwrap();
        assert_eq!(
            sent(&mut reply),
            [[24, 0, 0, 0, 0, 0, 0, 0], [9, 0, 0, 0, 0, 0, 0, 0], [5, 0, 0, 0, 0, 0, 0, 0]].concat()
        );
        reply.fail(Errno::NOENT);
        assert_eq!(sent(&mut reply)[..8], [16, 0, 0, 0, 254, 255, 255, 255]);
        assert_eq!(reply.error(), Some(Errno::NOENT));
        reply.start(10);
        assert_eq!((reply.error(), reply.len()), (None, 0));
    }

    #[test]
    fn a_reply_can_be_made_in_memory_that_was_lent() {
        let (mut reply, mut lent) = (Reply::new(PAGE), AlignedBuf::behind(168, PAGE));
        lent.bytes_mut().fill(5);
        reply.start(1);
        reply.exchange(&mut lent);
        reply.put_bytes(&[1, 2]).unwrap();
        reply.exchange(&mut lent);
        assert_eq!(lent.bytes(3), [1, 2, 5]);
        assert_eq!(lent.bytes_behind_mut(168).len(), 168 + PAGE);
        assert_eq!(lent.bytes(PAGE).as_ptr().addr() % PAGE, 0);
        let exchange = std::panic::AssertUnwindSafe(|| reply.exchange(&mut AlignedBuf::new(PAGE - 1, 0)));
        assert!(std::panic::catch_unwind(exchange).is_err(), "memory of another size");
    }

    #[test]
    fn the_body_is_bounded_and_aligned() {
        let mut reply = Reply::new(10);
        reply.start(1);
        assert_eq!(reply.body().as_ptr().addr() % PAGE, 0);
        reply.put_bytes(&[1; 8]).unwrap();
        assert_eq!(reply.put_bytes(&[2; 3]), Err(Errno::IO));
        assert_eq!(reply.fill(100, |buf| Ok::<_, Errno>(buf.len())), Ok(2));
        assert_eq!((reply.len(), reply.room()), (10, 0));
        reply.truncate(3);
        assert_eq!(reply.body(), [1; 3]);
        for offset in [0, 80, 4095] {
            let mut buf = AlignedBuf::new(8192, offset);
            assert_eq!(buf.bytes_mut().len(), 8192);
            assert_eq!((buf.bytes(8192).as_ptr().addr() + offset) % PAGE, 0);
        }
    }
}
