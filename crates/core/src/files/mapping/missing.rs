//! Which nodes a file would need that it does not have.

use super::{LeafOrGap, addressing};
use crate::error::{Error, Result};
use crate::files::inode::Inode;
use crate::volume::Volume;
use std::collections::HashSet;
use std::ops::Range;
use steadyfs_format::PageIndex;
use steadyfs_format::node::{NodeOfs, NodePath};

impl Volume {
    /// Adds to a set the nodes that [`Volume::reserve`] would make for a range. The file's `i_rwsem` is held alone.
    pub(crate) fn missing_nodes(
        &self,
        inode: &Inode,
        range: Range<PageIndex>,
        missing: &mut HashSet<NodeOfs>,
    ) -> Result<()> {
        let features = self.sb.features();
        let addressing = inode.read(|raw| addressing(raw, features))??;
        let mut at = range.start;
        while at < range.end {
            let (until, level) = match self.leaf(inode, at)? {
                LeafOrGap::Leaf(leaf) => {
                    at = leaf.pages().end;
                    continue;
                }
                LeafOrGap::Gap { until, level } => (until.min(range.end), level),
            };
            // The subtrees of a gap are siblings: what the way to its first page lacks, the ways to the others lack
            // too.
            while at < until {
                let path = NodePath::of_page(at, addressing).ok_or(Error::TooBig)?;
                missing.extend((level..=path.depth()).map(|level| path.ofs(level)));
                let first = addressing.first_page(path.leaf()).ok_or_else(|| Error::corrupt("a leaf without pages"))?;
                let next = first + u64::from(addressing.node_slots());
                assert!(next > at, "the leaf of page {at:?} ends before it");
                at = next;
            }
        }
        Ok(())
    }
}
