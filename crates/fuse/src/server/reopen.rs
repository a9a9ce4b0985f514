//! A mount that was made read-only becomes writable (`mount -o remount,rw`): the volume is opened anew, for changes.
//!
//! The kernel says nothing of a remount to the server. Whoever remounts asks for this first, by an attribute of the
//! root directory, as for the counters.
//!
//! Kept true: no request sees two volumes, for all wait. The kernel's knowledge stays valid, since a volume that was
//! read-only has not changed. An inode number is the same inode before and after, and no open file has met an error of
//! writing. If the volume cannot be opened for changes, it is served as it was.

use super::caller::is_administrator;
use super::{Answer, Server, State, tell_counts};
use crate::wire::abi::{GetxattrIn, InHeader};
use crate::wire::{Args, Opcode, ROOT_NODE};
use rustix::io::Errno;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use steadyfs_core::Fs;

/// The name of the attribute. Reading it as an administrator makes the volume writable; its value is a JSON string that
/// says why that was refused, or `null`.
pub const WRITABLE_ATTRIBUTE: &str = "steadyfs.become_writable";

/// What the volume is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading only.
    Read,
    /// For changes.
    Write,
}

/// Opens the volume anew, or says why not. It is called when nobody has it open here.
pub type Reopen = Box<dyn Fn(Access) -> Result<Arc<Fs>, String> + Send + Sync>;

impl Server {
    /// Lets the volume, which is open for reading only, become writable. Once only.
    pub(crate) fn reopen_by(&self, reopen: Reopen) {
        let set = self.reopen.set(reopen);
        assert!(set.is_ok(), "a mount is opened anew in one way");
    }

    /// The room for the answer, if this request asks for the volume to become writable.
    pub(super) fn asks_to_write(header: &InHeader, opcode: Opcode, mut args: Args<'_>) -> Option<u32> {
        if opcode != Opcode::Getxattr || header.nodeid != ROOT_NODE {
            return None;
        }
        let GetxattrIn { size, .. } = args.take().ok()?;
        (args.name().ok()? == WRITABLE_ATTRIBUTE.as_bytes() && size > 0).then_some(size)
    }

    /// Makes the volume writable if it is not; why that was refused.
    pub(super) fn become_writable(&self, header: &InHeader) -> Answer<Option<String>> {
        if !is_administrator(header) {
            return Err(Errno::PERM.into());
        }
        let mut state = self.state.write();
        let State::Live(fs) = &*state else {
            return Err(Errno::NODEV.into());
        };
        if !fs.is_read_only() {
            return Ok(None);
        }
        let Some(reopen) = self.reopen.get().filter(|_| !self.reopened.load(SeqCst) && !fs.is_shut_down()) else {
            return Ok(Some("it takes no more changes since an error, or was shut down".to_owned()));
        };
        // Whoever panics leaves a mount without a volume, and an image that is whole.
        if let State::Live(fs) = mem::replace(&mut *state, State::Ended(Ok(())))
            && let Err(error) = fs.unmount()
        {
            tracing::warn!("{error}");
        }
        let refused = match reopen(Access::Write) {
            Ok(fs) => {
                tracing::debug!("the volume is writable now");
                self.policy.set_aside(&fs);
                self.reopened.store(true, SeqCst);
                tell_counts(&fs, &self.counts, &self.nodes, &self.handles);
                *state = State::Live(fs);
                return Ok(None);
            }
            Err(why) => why,
        };
        *state = match reopen(Access::Read) {
            Ok(fs) => {
                tell_counts(&fs, &self.counts, &self.nodes, &self.handles);
                State::Live(fs)
            }
            Err(why) => {
                tracing::error!("the volume cannot be opened any more: {why}");
                State::Ended(Err(steadyfs_core::Error::Unsupported(why)))
            }
        };
        Ok(Some(refused))
    }
}
