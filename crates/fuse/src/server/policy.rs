//! What the mount options change about replies, decided once.

use crate::options::{Allow, Cache, Durable, FuseOptions};
use crate::wire::flags::linux::S_IFMT;
use crate::wire::flags::{FS_DIRSYNC_FL, FS_SYNC_FL};
use std::time::Duration;
use steadyfs_core::Attr;

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
        }
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
