//! The ioctl that shuts a volume down (FS_IOC_SHUTDOWN, the same number as F2FS' and XFS'), and what a volume answers
//! that was.
//!
//! The number of the ioctl says that the kernel writes its argument, though all file systems read it. So the kernel
//! sends where it is, not what, and it is read from the memory of the caller.

use super::{Answer, Call, caller};
use crate::wire::abi::{InHeader, IoctlIn};
use crate::wire::{Args, Opcode};
use rustix::io::Errno;
use steadyfs_core::ShutDown;

/// `_IOR('X', 125, __u32)`
pub(super) const FS_IOC_SHUTDOWN: u32 = 0x8004_587d;

/// The arguments, as F2FS has them. XFS means the same by 0 and 2; its 1 writes back the log, which is where its names
/// are.
const FULL_SYNC: u32 = 0;
const META_SYNC: u32 = 1;
const NO_SYNC: u32 = 2;
const META_FLUSH: u32 = 3;
const NEED_FSCK: u32 = 4;

/// What the caller of the ioctl asks for.
///
/// # Errors
/// `EPERM` to whoever is no administrator, or cannot be seen; `ENOTTY` where the caller's memory cannot be read.
pub(super) fn asked(header: &InHeader, ioctl: &IoctlIn) -> Answer<ShutDown> {
    if !caller::is_administrator(header) {
        return Err(Errno::PERM.into());
    }
    match caller::memory(header, ioctl.arg).map(u32::from_ne_bytes).ok_or(Errno::NOTTY)? {
        FULL_SYNC => Ok(ShutDown::Synced),
        META_SYNC => Ok(ShutDown::Checkpointed),
        // What F2FS flushes here, we write with checkpoints only.
        NO_SYNC | META_FLUSH => Ok(ShutDown::AtOnce),
        NEED_FSCK => Err(Errno::OPNOTSUPP.into()),
        _ => Err(Errno::INVAL.into()),
    }
}

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

impl Call<'_> {
    /// What the kernel has to write back first: what it has of all files, if all is to be durable.
    pub(super) fn behind_shutdown(&self, mut args: Args<'_>) -> Answer<Vec<u64>> {
        let ioctl: IoctlIn = args.take()?;
        let all = ioctl.cmd == FS_IOC_SHUTDOWN && asked(&self.header, &ioctl)? == ShutDown::Synced;
        Ok(if all { self.server.nodes.all_with_writers() } else { Vec::new() })
    }

    pub(super) fn shut_down(&mut self, ioctl: &IoctlIn) -> Answer {
        let how = asked(&self.header, ioctl)?;
        self.fs.shut_down(how)?;
        tracing::warn!(
            ?how,
            "the volume was shut down, as root asked: nothing is written to it until it is mounted again"
        );
        Ok(())
    }
}
