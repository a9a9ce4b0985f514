//! Where the way to a page of a file ends, and how the file's addresses are spread over its nodes.

use crate::error::Result;
use crate::volume::nodes::leaf::Leaf;
use steadyfs_format::inode::{Inode as RawInode, flags};
use steadyfs_format::node::Addressing;
use steadyfs_format::{Features, PageIndex};

/// What a walk to a page finds.
pub(crate) enum LeafOrGap {
    Leaf(Leaf),
    /// There is no node.
    Gap {
        /// All pages up to this one, which is further on, are holes.
        until: PageIndex,
        /// Nodes below the inode that the way to the page lacks begin at this level: 1 to the way's depth.
        level: usize,
    },
}

/// How the addresses of a file are spread over its nodes.
pub(crate) fn addressing(raw: &RawInode, features: Features) -> Result<Addressing> {
    let shape = raw.shape(features)?;
    if raw.flags() & flags::COMPR != 0
        && !raw.is_dir()
        && let Some(info) = raw.compress_info(features)?
    {
        return Ok(shape.addressing().in_clusters(info.log_cluster));
    }
    Ok(shape.addressing())
}
