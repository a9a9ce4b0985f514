//! `/dev/fuse`: one message per read, one per write; and what the kernel is told unasked.
//!
//! The end of a mount, by `umount` or by `abort` in the kernel's control directory, is not one moment: the kernel first
//! stops each queue of requests that are being handed out, then the one of those that wait. So a read ends with
//! `ENODEV` (nothing more to come), or with `ECONNABORTED` (a request was taken in between; the kernel has failed it
//! already). With `FUSE_ABORT_ERROR`, which is not asked for here, `ECONNABORTED` would also tell an abort from an
//! `umount`. A reply to a request that is gone is refused with `ENOENT`.

use crate::error::{Error, Result};
use crate::server::{Greeting, MAX_WRITE, Server};
use crate::wire::abi::{InHeader, NotifyInvalEntryOut, NotifyInvalInodeOut, WriteIn};
use crate::wire::flags::{NOTIFY_INVAL_ENTRY, NOTIFY_INVAL_INODE};
use crate::wire::reply::AlignedBuf;
use crate::wire::{Notice, OLDEST_MINOR, Reply};
use rustix::io::{Errno, read, writev};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What the kernel is to drop of an inode.
#[derive(Clone, Debug)]
enum Dropped {
    /// Its attributes.
    Attributes,
    /// These bytes of its contents, too, which it writes back before. Needs another thread to serve what it writes.
    Contents(Range<u64>),
}

impl Dropped {
    /// As the protocol says it: from where on contents are dropped, negative for none, and how many bytes, 0 for all.
    fn range(&self) -> (i64, i64) {
        match self {
            Dropped::Attributes => (-1, 0),
            Dropped::Contents(range) => match (range.start.try_into(), (range.end - range.start).try_into()) {
                (Ok(start), Ok(len)) => (start, len),
                _ => (0, 0),
            },
        }
    }
}

/// The connection to the kernel of one mount.
pub(crate) struct Channel {
    fd: Arc<OwnedFd>,
}

impl Channel {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Channel { fd: Arc::new(fd) }
    }

    /// The open `/dev/fuse`.
    pub(crate) fn fuse(&self) -> &Arc<OwnedFd> {
        &self.fd
    }

    /// Tells the kernel what a reply left to be told.
    pub(crate) fn tell(&self, notice: Notice) {
        match notice {
            Notice::ForgetAttributes { node } => self.invalidate(node, Dropped::Attributes),
            Notice::DropContents { node, range } => self.invalidate(node, Dropped::Contents(range)),
            Notice::ForgetName { parent, name } => self.forget_name(parent, &name),
        }
    }

    /// A buffer that takes every request, in which the data of a WRITE start on a page boundary.
    pub(crate) fn buffer() -> AlignedBuf {
        let head = size_of::<InHeader>() + size_of::<WriteIn>();
        AlignedBuf::new(head.next_multiple_of(4096) + MAX_WRITE as usize, head)
    }

    /// Waits for the next request; its length in `buf`. `None`: the mount is gone.
    pub(crate) fn receive(&self, buf: &mut AlignedBuf) -> rustix::io::Result<Option<usize>> {
        loop {
            match read(&self.fd, buf.bytes_mut()) {
                Ok(0) => return Ok(None),
                Ok(len) => return Ok(Some(len)),
                // Interrupted, or the requester was killed before the request got here.
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(None),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Sends a reply. A reply that the kernel does not take is replaced by an error, so that the requester does not
    /// wait for ever.
    pub(crate) fn send(&self, reply: &mut Reply) {
        match reply.send(|pieces| writev(&self.fd, pieces)) {
            // Gone is gone: the requester, or the mount.
            Ok(_) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(errno) => {
                tracing::error!("the kernel refuses a reply: {errno}");
                reply.fail(Errno::IO);
                let _ = reply.send(|pieces| writev(&self.fd, pieces));
            }
        }
    }

    /// Makes the kernel drop what it caches of a node.
    fn invalidate(&self, node: u64, what: Dropped) {
        let mut message = Reply::new(size_of::<NotifyInvalInodeOut>());
        message.notify(NOTIFY_INVAL_INODE);
        let (off, len) = what.range();
        let put = message.put(&NotifyInvalInodeOut { ino: node, off, len });
        assert!(put.is_ok(), "the message was made for this structure");
        match message.send(|pieces| writev(&self.fd, pieces)) {
            Ok(_) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(errno) => tracing::warn!(node, ?what, "the kernel does not drop what it caches: {errno}"),
        }
    }

    /// Makes the kernel drop a name that it caches. Waits for a request that changes the directory, so another thread
    /// has to serve that.
    fn forget_name(&self, parent: u64, name: &[u8]) {
        let mut message = Reply::new(size_of::<NotifyInvalEntryOut>() + name.len() + 1);
        message.notify(NOTIFY_INVAL_ENTRY);
        let head = NotifyInvalEntryOut { parent, namelen: name.len() as u32, flags: 0 };
        let put = message.put(&head).and_then(|()| message.put_bytes(name)).and_then(|()| message.put_bytes(&[0]));
        assert!(put.is_ok(), "the message was made for this name");
        match message.send(|pieces| writev(&self.fd, pieces)) {
            Ok(_) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(errno) => tracing::warn!(parent, "the kernel does not drop a name: {errno}"),
        }
    }

    /// Receives the kernel's greeting and answers it.
    ///
    /// # Errors
    /// [`Error::TooOld`] if there is no protocol that both speak, [`Error::Session`] if the conversation breaks off.
    pub(crate) fn greet(&self, server: &Server) -> Result<()> {
        const WHAT: &str = "greeting the kernel";
        let (mut buf, mut reply) = (Self::buffer(), Reply::new(4096));
        loop {
            let received = self.receive(&mut buf).map_err(|errno| Error::session(WHAT, errno))?;
            let len = received.ok_or(Error::session(WHAT, Errno::NODEV))?;
            let greeting = server.greet(buf.bytes(len), &mut reply).map_err(|fail| Error::session(WHAT, fail.0))?;
            self.send(&mut reply);
            match greeting {
                Greeting::Agreed => return Ok(()),
                Greeting::Again => {}
                Greeting::TooOld(major, minor) => {
                    tracing::debug!(major, minor, OLDEST_MINOR, "too old");
                    return Err(Error::TooOld { major, minor });
                }
            }
        }
    }
}
