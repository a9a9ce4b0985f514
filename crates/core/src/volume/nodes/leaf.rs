//! A node as the holder of some pages of a file.

use crate::volume::nodes::cache::Node;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_format::PageIndex;

/// The node whose slots hold the addresses of some pages of a file: the inode or a direct node.
#[derive(Clone)]
pub(crate) struct Leaf {
    pub(crate) node: Arc<Node>,
    /// The page of slot 0.
    pub(crate) first: PageIndex,
    /// Slots that hold pages of the file.
    pub(crate) slots: u16,
}

impl Leaf {
    /// The pages whose addresses are here.
    pub(crate) fn pages(&self) -> Range<PageIndex> {
        self.first..self.first + u64::from(self.slots)
    }

    /// Part of a range that lies here.
    pub(crate) fn part(&self, range: &Range<PageIndex>) -> Range<PageIndex> {
        let pages = self.pages();
        range.start.max(pages.start)..range.end.min(pages.end)
    }

    /// The slot of one of the pages here.
    pub(crate) fn slot_of(&self, page: PageIndex) -> u16 {
        assert!(self.pages().contains(&page), "{page:?} has no slot in this node");
        (page - self.first) as u16
    }
}
