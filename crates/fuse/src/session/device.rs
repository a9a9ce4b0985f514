//! The lane over `/dev/fuse`: a read for each request, a write for each reply.

use super::channel::Channel;
use super::lane::Lane;
use crate::server::{Handled, MAX_WRITE};
use crate::wire::reply::AlignedBuf;
use crate::wire::{Notice, Reply};
use std::sync::Arc;

/// The buffers of one thread. Whichever reads first gets the next request.
pub(super) struct DeviceLane {
    channel: Arc<Channel>,
    request: AlignedBuf,
    reply: Reply,
}

impl DeviceLane {
    pub(super) fn new(channel: Arc<Channel>) -> Self {
        DeviceLane { channel, request: Channel::buffer(), reply: Reply::new(MAX_WRITE as usize + 4096) }
    }
}

impl Lane for DeviceLane {
    fn next(&mut self) -> rustix::io::Result<Option<(&[u8], &mut Reply)>> {
        let received = self.channel.receive(&mut self.request)?;
        Ok(received.map(|len| (self.request.bytes(len), &mut self.reply)))
    }

    fn answer(&mut self, handled: Handled) -> Vec<Notice> {
        if handled == Handled::Reply {
            self.channel.send(&mut self.reply);
        }
        self.reply.take_notices()
    }
}
