//! What the mount options change about replies, decided once.

use super::caller::is_in_group;
use crate::options::{Allow, Cache, Durable, FuseOptions};
use crate::wire::abi::InHeader;
use crate::wire::flags::linux::S_IFMT;
use crate::wire::flags::{FS_DIRSYNC_FL, FS_SYNC_FL};
use std::time::Duration;
use steadyfs_core::{Attr, Fs};
use steadyfs_format::BLOCK_SIZE;

/// The options that the handlers look at.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// How long the kernel may trust a reply.
    pub(crate) ttl: Duration,
    /// What it keeps of contents.
    pub(crate) cache: Cache,
    /// Flags of chattr(1) that all inodes count as having.
    pub(crate) marks: u32,
    /// If only the owner and root may come in: the owner.
    pub(crate) only: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    umask: Option<u32>,
    /// Most open files of a user who may not control the mount.
    pub(super) open_files: u32,
    /// Blocks for those who are entitled.
    reserve: u64,
    /// Who is, besides root.
    reserve_user: Option<u32>,
    reserve_group: Option<u32>,
}

impl Policy {
    /// What `options` say, for a mount by user `owner`.
    pub(crate) fn new(options: &FuseOptions, owner: u32) -> Self {
        Policy {
            ttl: options.ttl,
            cache: options.cache(),
            marks: match options.durable {
                Durable::Asked => 0,
                Durable::Names => FS_DIRSYNC_FL,
                Durable::All => FS_SYNC_FL | FS_DIRSYNC_FL,
            },
            only: (options.allow == Some(Allow::OwnerAndRoot)).then_some(owner),
            uid: options.uid,
            gid: options.gid,
            umask: options.umask,
            open_files: options.open_files,
            reserve: options.reserve_root,
            reserve_user: options.reserve_user,
            reserve_group: options.reserve_group,
        }
    }

    /// Sets blocks of a volume aside that is served from now on.
    pub(super) fn set_aside(&self, fs: &Fs) {
        if self.reserve == 0 {
            return;
        }
        let blocks = fs.set_aside(self.reserve);
        if blocks < self.reserve {
            let mebibytes = (blocks * BLOCK_SIZE as u64) >> 20;
            tracing::warn!(
                "{blocks} blocks ({mebibytes} MiB) are set aside for root, and no more: an eighth of the volume"
            );
        }
    }

    /// Whether a caller may take the blocks that are set aside.
    pub(super) fn is_entitled(&self, caller: &InHeader) -> bool {
        self.reserve > 0
            && (caller.uid == 0
                || self.reserve_user == Some(caller.uid)
                || self.reserve_group.is_some_and(|group| is_in_group(caller, group)))
    }

    /// Whether a user may come in. The kernel itself keeps out whoever may not, except when it has to let everyone in
    /// so that root can.
    pub(crate) fn admits(&self, uid: u32) -> bool {
        self.only.is_none_or(|owner| uid == owner || uid == 0 || steadyfs_rt::mutated("others-stay-out"))
    }

    /// Attributes as the mount shows them.
    pub(crate) fn shown(&self, mut attr: Attr) -> Attr {
        attr.uid = self.uid.unwrap_or(attr.uid);
        attr.gid = self.gid.unwrap_or(attr.gid);
        if let Some(umask) = self.umask {
            attr.mode = attr.mode & S_IFMT | 0o777 & !umask;
        }
        attr
    }
}
