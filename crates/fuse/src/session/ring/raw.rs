//! One entry of a queue of the kernel's: a ring of its own, and the memory that its one command shares with the kernel.
//!
//! An entry is registered once and from then on handed back and forth: a lane that waits gives it to the kernel, and
//! has it again with a request in it. Kept true:
//! - One command is under way at most.
//! - The kernel touches header and payload only between a command and the end of [`RingEntry::wait`]. Then both are the
//!   entry's own. They stay where they are until the ring is closed.
//! - The ring does not defer the kernel's work until somebody waits (`DEFER_TASKRUN`), for a killed process would leave
//!   its requests in there.
#![allow(unsafe_code)] // the kernel reads and writes our memory behind the compiler's back

use crate::wire::Reply;
use crate::wire::abi::{RingCommand, RingHeader};
use crate::wire::flags::{RING_COMMIT_AND_FETCH, RING_REGISTER};
use crate::wire::reply::AlignedBuf;
use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::from_mut;
use std::sync::Arc;
use zerocopy::{FromZeros, IntoBytes};

/// Bytes of the command area of a submission that the protocol uses here.
const COMMAND: usize = size_of::<RingCommand>();
/// Where the count of segments stands in a submission, in words of four bytes (`len` of `io_uring_sqe`).
const COUNT_AT: usize = 6;

/// A piece of memory, as `struct iovec`.
#[repr(C)]
struct Segment {
    base: *mut u8,
    len: usize,
}

/// One entry.
pub(super) struct RingEntry {
    /// Closed before the memory goes.
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    header: Box<RingHeader>,
    payload: AlignedBuf,
    /// The payload's memory is in a reply that is being made, and the reply's in its place.
    lent: bool,
    /// Header and payload, as the kernel is told at registration.
    segments: Box<[Segment; 2]>,
    fuse: Arc<OwnedFd>,
    queue: u16,
}

// SAFETY: the pointers lead to header and payload, which the entry owns; the kernel alone follows them.
unsafe impl Send for RingEntry {}

impl RingEntry {
    /// An entry for a queue of the mount whose `/dev/fuse` this is, with this memory for payloads; not yet registered.
    ///
    /// # Errors
    /// If the kernel has no io_uring, or not for this process, or not with commands.
    pub(super) fn new(fuse: Arc<OwnedFd>, queue: u16, payload: AlignedBuf) -> io::Result<Self> {
        let ring = IoUring::<squeue::Entry128, cqueue::Entry>::builder().setup_coop_taskrun().build(2)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::UringCmd80::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let none = || Segment { base: std::ptr::null_mut(), len: 0 };
        let header = Box::new(RingHeader::new_zeroed());
        Ok(RingEntry { ring, header, payload, lent: false, segments: Box::new([none(), none()]), fuse, queue })
    }

    /// Gives the entry to the kernel for the first time: the next wait brings a request.
    pub(super) fn register(&mut self) {
        let header = Segment { base: from_mut(&mut *self.header).cast(), len: size_of::<RingHeader>() };
        let payload = self.payload.bytes_mut();
        *self.segments = [header, Segment { base: payload.as_mut_ptr(), len: payload.len() }];
        let segments = from_mut(&mut *self.segments).addr() as u64;
        self.push(RING_REGISTER, 0, Some(segments));
    }

    /// Gives the entry back to the kernel, with the reply in it to the request that it came with.
    pub(super) fn commit(&mut self) {
        self.push(RING_COMMIT_AND_FETCH, self.header.commit_id, None);
    }

    fn push(&mut self, command: u32, commit_id: u64, segments: Option<u64>) {
        assert!(!self.lent, "the kernel gets an entry with all of its memory");
        let mut bytes = [0; 80];
        let arguments = RingCommand { flags: 0, commit_id, queue: self.queue, padding: [0; 6] };
        bytes[..COMMAND].copy_from_slice(arguments.as_bytes());
        let fuse = types::Fd(self.fuse.as_raw_fd());
        let mut entry = opcode::UringCmd80::new(fuse, command).cmd(bytes).addr(segments).build();
        if segments.is_some() {
            // SAFETY: an `Entry128` is an `io_uring_sqe` of 128 bytes, in which this word is `len`. The library has no
            // setter for commands, where it counts the segments.
            unsafe { from_mut(&mut entry).cast::<u32>().add(COUNT_AT).write(2) };
        }
        // SAFETY: the memory that the command names is the entry's, on the heap, and goes after the ring; nobody else
        // has it while the command is under way, for it is here (see above) and `wait` borrows the entry.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "one command at a time fits into the queue");
    }

    /// Has the kernel take what was given to it, without waiting for a request.
    pub(super) fn submit(&mut self) {
        // Who is interrupted here submits with the next wait.
        if let Err(error) = self.ring.submit() {
            tracing::debug!("a reply is sent later: {error}");
        }
    }

    /// Waits until the kernel gives the entry back, with a request in it.
    ///
    /// # Errors
    /// What became of the command otherwise: the mount has gone, or it was never taken.
    pub(super) fn wait(&mut self) -> rustix::io::Result<()> {
        loop {
            if let Some(done) = self.ring.completion().next() {
                return if done.result() < 0 { Err(Errno::from_raw_os_error(-done.result())) } else { Ok(()) };
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => {}
                    errno => return Err(errno.unwrap_or(Errno::IO)),
                },
            }
        }
    }

    pub(super) fn header(&self) -> &RingHeader {
        &self.header
    }

    pub(super) fn header_mut(&mut self) -> &mut RingHeader {
        &mut self.header
    }

    /// Header and payload, the payload with `front` bytes before it.
    pub(super) fn parts_mut(&mut self, front: usize) -> (&RingHeader, &mut [u8]) {
        (&self.header, self.payload.bytes_behind_mut(front))
    }

    /// Has `reply` made in the payload's memory. It is to be taken back.
    pub(super) fn lend(&mut self, reply: &mut Reply) {
        assert!(!self.lent, "the memory is lent once");
        reply.exchange(&mut self.payload);
        self.lent = true;
    }

    /// Takes the payload's memory back from the reply that it was lent to; false if it was not.
    pub(super) fn take_back(&mut self, reply: &mut Reply) -> bool {
        let lent = std::mem::replace(&mut self.lent, false);
        if lent {
            reply.exchange(&mut self.payload);
        }
        lent
    }
}
