//! The ioctl that shuts a volume down (FS_IOC_SHUTDOWN, the same number as F2FS' and XFS'), and what a volume answers
//! that was.
//!
//! The number of the ioctl says that the kernel writes its argument, though all file systems read it. So the kernel
//! sends where it is, not what, and it is read from the memory of the caller. That memory may be a file of this very
//! mount, so other requests have to be served meanwhile, an end of the file system among them: it is read before the
//! gate.

use super::{Answer, Kernel, Server, State, caller};
use crate::options::Cache;
use crate::wire::abi::{InHeader, IoctlIn, IoctlOut};
use crate::wire::{Args, Opcode, Reply};
use rustix::io::Errno;
use steadyfs_core::ShutDown;

/// `_IOR('X', 125, __u32)`
const FS_IOC_SHUTDOWN: u32 = 0x8004_587d;

/// The arguments, as F2FS has them. XFS means the same by 0 and 2; its 1 writes back the log, which is where its names
/// are.
const FULL_SYNC: u32 = 0;
const META_SYNC: u32 = 1;
const NO_SYNC: u32 = 2;
const META_FLUSH: u32 = 3;
const NEED_FSCK: u32 = 4;

/// Whether a volume that was shut down answers this all the same: what gives something back, and what asks the file
/// system nothing.
pub(super) fn outlives(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Forget
            | Opcode::BatchForget
            | Opcode::Release
            | Opcode::Releasedir
            | Opcode::Flush
            | Opcode::Statfs
            | Opcode::Interrupt
            | Opcode::NotifyReply
    )
}

/// The ioctl, if this request is one that shuts down.
pub(super) fn asks_to_shut_down(opcode: Opcode, mut args: Args<'_>) -> Option<IoctlIn> {
    let ioctl: IoctlIn = if opcode == Opcode::Ioctl { args.take().ok()? } else { return None };
    (ioctl.cmd == FS_IOC_SHUTDOWN).then_some(ioctl)
}

/// What the caller of the ioctl asks for. Waits for the memory of the caller.
///
/// # Errors
/// `EPERM` to whoever is no administrator, or cannot be seen; `ENOTTY` where the caller's memory cannot be read.
fn asked(header: &InHeader, ioctl: &IoctlIn, kernel: &dyn Kernel) -> Answer<ShutDown> {
    if !caller::is_administrator(header) {
        return Err(Errno::PERM.into());
    }
    match kernel.memory_of(header, ioctl.arg).map(u32::from_ne_bytes).ok_or(Errno::NOTTY)? {
        FULL_SYNC => Ok(ShutDown::Synced),
        META_SYNC => Ok(ShutDown::Checkpointed),
        // What F2FS flushes here, we write with checkpoints only.
        NO_SYNC | META_FLUSH => Ok(ShutDown::AtOnce),
        NEED_FSCK => Err(Errno::OPNOTSUPP.into()),
        _ => Err(Errno::INVAL.into()),
    }
}

impl Server {
    pub(super) fn shut_down(
        &self,
        header: &InHeader,
        ioctl: &IoctlIn,
        kernel: &dyn Kernel,
        reply: &mut Reply,
    ) -> Answer {
        if !self.policy.admits(header.uid) {
            return Err(Errno::ACCESS.into());
        }
        let how = {
            let _fetch = self.fetches.begin().ok_or(Errno::NODEV)?;
            let how = asked(header, ioctl, kernel)?;
            if how == ShutDown::Synced && self.policy.cache == Cache::Writeback {
                // What the kernel has of all files is to be durable, too.
                self.nodes.all_with_writers().into_iter().for_each(|node| kernel.invalidate(node, 0..u64::MAX));
            }
            how
        };
        let state = self.state.read();
        let State::Live(fs) = &*state else {
            return Err(Errno::NODEV.into());
        };
        if fs.is_shut_down() {
            return Err(Errno::IO.into());
        }
        fs.shut_down(how)?;
        tracing::warn!(
            ?how,
            "the volume was shut down, as root asked: nothing is written to it until it is mounted again"
        );
        Ok(reply.put(&IoctlOut::default())?)
    }
}
