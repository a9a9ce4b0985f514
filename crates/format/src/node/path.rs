//! The way from a file page to the slot that holds its address, and back.

use super::{NodeKind, NodeOfs, SLOTS_PER_NODE};
use crate::{PageIndex, Width};

const N: u64 = SLOTS_PER_NODE as u64;

/// How many file addresses the nodes of one file hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addressing {
    inode_slots: u16,
    node_slots: u16,
}

impl Addressing {
    /// The addressing of a file whose inode holds `inode_slots` addresses of 4 bytes (`InodeShape::addr_slots`).
    ///
    /// # Panics
    /// If that is more than 923.
    pub const fn new(inode_slots: u16) -> Self {
        Self::with_width(inode_slots, Width::Four)
    }

    /// The addressing of a file whose inode holds `inode_slots` addresses of this width.
    ///
    /// # Panics
    /// If that is more than 923, or 461 of 8 bytes.
    pub const fn with_width(inode_slots: u16, width: Width) -> Self {
        assert!(inode_slots as usize * width.words() <= 923, "an inode holds at most 923 words of addresses");
        Self { inode_slots, node_slots: width.slots_per_node() }
    }

    /// The addressing of a compressed file: a cluster of `1 << log_cluster` pages never straddles two nodes.
    ///
    /// # Panics
    /// If `inode_slots` is more than 923 or `log_cluster` more than 8.
    pub const fn clustered(inode_slots: u16, log_cluster: u8) -> Self {
        Self::new(inode_slots).in_clusters(log_cluster)
    }

    /// The same nodes with whole clusters of `1 << log_cluster` pages only.
    ///
    /// # Panics
    /// If `log_cluster` is more than 8.
    pub const fn in_clusters(self, log_cluster: u8) -> Self {
        assert!(log_cluster <= 8, "a cluster has at most 256 pages");
        let whole = !((1u16 << log_cluster) - 1);
        Self { inode_slots: self.inode_slots & whole, node_slots: self.node_slots & whole }
    }

    /// Addresses in the inode.
    pub const fn inode_slots(self) -> u16 {
        self.inode_slots
    }

    /// Addresses in a direct node.
    pub const fn node_slots(self) -> u16 {
        self.node_slots
    }

    /// Addresses in a node at this offset; 0 where the node holds none.
    pub const fn slots_at(self, ofs: NodeOfs) -> u16 {
        match ofs.kind() {
            NodeKind::Inode => self.inode_slots,
            NodeKind::Direct => self.node_slots,
            _ => 0,
        }
    }

    /// Pages that a file can have: those that its node tree reaches.
    pub const fn max_pages(self) -> u64 {
        self.inode_slots as u64 + self.node_slots as u64 * (2 + 2 * N + N * N)
    }

    /// The first page whose address lies in the node at `ofs` or below it; `None` for the xattr node and where no node
    /// can be.
    pub const fn first_page(self, ofs: NodeOfs) -> Option<PageIndex> {
        let n = ofs.get() as u64;
        let direct_before = match ofs.kind() {
            NodeKind::Inode => return Some(PageIndex(0)),
            NodeKind::Xattr | NodeKind::Invalid => return None,
            // Nodes between the inode and this one, less those that are not direct nodes.
            _ if n <= 3 => n - 1,
            _ if n <= 4 + N => n - 2,
            _ if n <= 5 + 2 * N => n - 3,
            _ => {
                let below = n - 6 - 2 * N;
                let (tree, place) = (below / (N + 1), below % (N + 1));
                2 + 2 * N + tree * N + place.saturating_sub(1)
            }
        };
        Some(PageIndex(self.inode_slots as u64 + direct_before * self.node_slots as u64))
    }

    /// How many pages the node at `ofs` and everything below it can hold; 0 for the xattr node and where no node can
    /// be.
    pub const fn pages_under(self, ofs: NodeOfs) -> u64 {
        match ofs.kind() {
            NodeKind::Inode => self.max_pages(),
            NodeKind::Direct => self.node_slots as u64,
            NodeKind::Indirect => self.node_slots as u64 * N,
            NodeKind::DoubleIndirect => self.node_slots as u64 * N * N,
            NodeKind::Xattr | NodeKind::Invalid => 0,
        }
    }
}

/// The nodes from the inode down to the one that holds a page's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePath {
    /// Nodes below the inode on the way: 0 to 3.
    depth: u8,
    ofs: [NodeOfs; 4],
    slot: [u16; 4],
}

impl NodePath {
    /// The path to a page of a file; `None` beyond the last page that the tree reaches.
    pub fn of_page(page: PageIndex, addressing: Addressing) -> Option<Self> {
        let (inode_slots, node_slots) = (u64::from(addressing.inode_slots), u64::from(addressing.node_slots));
        if page.0 < inode_slots {
            return Some(Self { depth: 0, ofs: [NodeOfs::INODE; 4], slot: [page.0 as u16, 0, 0, 0] });
        }
        if page.0 >= addressing.max_pages() {
            return None;
        }
        let (direct, last) = ((page.0 - inode_slots) / node_slots, ((page.0 - inode_slots) % node_slots) as u16);
        let ofs = match direct {
            0 | 1 => 1 + direct,
            _ if direct < 2 + N => 2 + direct,
            _ if direct < 2 + 2 * N => 3 + direct,
            _ => {
                let below = direct - 2 - 2 * N;
                u64::from(NodeOfs::DOUBLE_INDIRECT.get()) + 2 + below / N * (N + 1) + below % N
            }
        };
        Self::of_node(NodeOfs::new(ofs as u32)).map(|path| path.with_slot(last))
    }

    /// The path to a node of the tree; its last slot is 0. `None` for the xattr node and where no node can be.
    pub fn of_node(ofs: NodeOfs) -> Option<Self> {
        if matches!(ofs.kind(), NodeKind::Xattr | NodeKind::Invalid) {
            return None;
        }
        // Collected from the node upwards, then turned round.
        let (mut up_ofs, mut up_slot, mut depth) = ([NodeOfs::INODE; 4], [0; 4], 0);
        let mut at = ofs;
        while let Some((parent, slot)) = at.parent() {
            up_ofs[depth] = at;
            up_slot[depth] = slot;
            at = parent;
            depth += 1;
        }
        let mut path = Self { depth: depth as u8, ofs: [NodeOfs::INODE; 4], slot: [0; 4] };
        for level in 0..depth {
            path.ofs[level + 1] = up_ofs[depth - 1 - level];
            path.slot[level] = up_slot[depth - 1 - level];
        }
        Some(path)
    }

    /// Nodes below the inode on the way: 0 (the inode holds the address) to 3.
    pub fn depth(&self) -> usize {
        usize::from(self.depth)
    }

    /// Offset of the node at `level`; level 0 is the inode.
    ///
    /// # Panics
    /// If `level` is beyond the depth.
    pub fn ofs(&self, level: usize) -> NodeOfs {
        assert!(level <= self.depth(), "level {level} of a path of depth {}", self.depth);
        self.ofs[level]
    }

    /// The slot to follow in the node at `level`: in the inode one of its five ids, or a file address at depth 0; in
    /// indirect nodes a child; in the last node a file address.
    ///
    /// # Panics
    /// If `level` is beyond the depth.
    pub fn slot(&self, level: usize) -> u16 {
        assert!(level <= self.depth(), "level {level} of a path of depth {}", self.depth);
        self.slot[level]
    }

    /// Offset of the node that holds the address.
    pub fn leaf(&self) -> NodeOfs {
        self.ofs[self.depth()]
    }

    /// The address slot in that node.
    pub fn leaf_slot(&self) -> u16 {
        self.slot[self.depth()]
    }

    /// The steps from the inode down, without the last one: (node offset, slot that leads to the next node).
    pub fn steps(&self) -> impl ExactSizeIterator<Item = (NodeOfs, u16)> + '_ {
        (0..self.depth()).map(|level| (self.ofs[level], self.slot[level]))
    }

    fn with_slot(mut self, slot: u16) -> Self {
        self.slot[self.depth()] = slot;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: Addressing = Addressing::new(923 - 50);

    fn path(page: u64) -> (Vec<u32>, Vec<u16>) {
        let path = NodePath::of_page(PageIndex(page), PLAIN).unwrap();
        ((0..=path.depth()).map(|l| path.ofs(l).get()).collect(), (0..=path.depth()).map(|l| path.slot(l)).collect())
    }

    #[test]
    fn paths_at_the_borders_of_the_regions() {
        let n = 1018;
        assert_eq!(path(872), (vec![0], vec![872]));
        assert_eq!(path(873), (vec![0, 1], vec![0, 0]));
        assert_eq!(path(873 + n), (vec![0, 2], vec![1, 0]));
        assert_eq!(path(873 + 2 * n), (vec![0, 3, 4], vec![2, 0, 0]));
        assert_eq!(path(873 + 2 * n + n * n - 1), (vec![0, 3, 3 + 1018], vec![2, 1017, 1017]));
        assert_eq!(path(873 + 2 * n + n * n), (vec![0, 4 + 1018, 5 + 1018], vec![3, 0, 0]));
        assert_eq!(path(873 + 2 * n + 2 * n * n), (vec![0, 5 + 2036, 6 + 2036, 7 + 2036], vec![4, 0, 0, 0]));
        let second = 873 + 2 * n + 2 * n * n + n * n;
        assert_eq!(path(second + 5), (vec![0, 2041, 2042 + 1019, 2043 + 1019], vec![4, 1, 0, 5]));
        assert_eq!(PLAIN.max_pages(), 1_057_053_389);
        assert_eq!(NodePath::of_page(PageIndex(PLAIN.max_pages()), PLAIN), None);
        let last = NodePath::of_page(PageIndex(PLAIN.max_pages() - 1), PLAIN).unwrap();
        assert_eq!((last.leaf().get() + 1, last.leaf_slot()), (NodeOfs::END.get(), 1017));
    }

    #[test]
    fn kinds_along_the_tree() {
        use NodeKind::*;
        let expected =
            [(0, Inode), (1, Direct), (2, Direct), (3, Indirect), (4, Direct), (1021, Direct), (1022, Indirect)];
        let more = [
            (1023, Direct),
            (2040, Direct),
            (2041, DoubleIndirect),
            (2042, Indirect),
            (2043, Direct),
            (3060, Direct),
            (3061, Indirect),
        ];
        for (ofs, kind) in expected.into_iter().chain(more) {
            assert_eq!(NodeOfs::new(ofs).kind(), kind, "offset {ofs}");
        }
        assert_eq!((NodeOfs::END.kind(), NodeOfs::XATTR.kind()), (Invalid, Xattr));
    }

    #[test]
    fn clusters_do_not_straddle_nodes() {
        let addressing = Addressing::clustered(873, 2);
        assert_eq!((addressing.inode_slots(), addressing.node_slots()), (872, 1016));
        assert_eq!(NodePath::of_page(PageIndex(872), addressing).unwrap().leaf().get(), 1);
    }

    #[test]
    fn wide_addresses_halve_what_nodes_hold_and_keep_the_tree() {
        let wide = Addressing::with_width(461, Width::Eight);
        assert_eq!((wide.inode_slots(), wide.node_slots()), (461, 509));
        assert_eq!((wide.max_pages() - 461) * 4096, Width::Eight.max_file_size());
        let last = NodePath::of_page(PageIndex(wide.max_pages() - 1), wide).unwrap();
        assert_eq!((last.leaf().get() + 1, last.leaf_slot()), (NodeOfs::END.get(), 508));
        assert_eq!(NodePath::of_page(PageIndex(wide.max_pages()), wide), None);
        assert_eq!(NodePath::of_page(PageIndex(461 + 2 * 509), wide).unwrap().leaf().get(), 4);
    }

    proptest! {
        #[test]
        fn a_page_and_its_leaf_agree(
            page in 0u64..1_057_053_389,
            slots in 1u16..=923,
            log_cluster in 0u8..=3,
            wide: bool,
        ) {
            let addressing = if wide {
                Addressing::with_width(slots / 2, Width::Eight)
            } else {
                Addressing::clustered(slots, log_cluster)
            };
            prop_assume!(page < addressing.max_pages());
            let path = NodePath::of_page(PageIndex(page), addressing).unwrap();
            let first = addressing.first_page(path.leaf()).unwrap();
            prop_assert_eq!(first.0 + u64::from(path.leaf_slot()), page);
            prop_assert!(path.leaf_slot() < addressing.slots_at(path.leaf()));
            for level in 0..path.depth() {
                prop_assert_eq!(path.ofs(level + 1).parent(), Some((path.ofs(level), path.slot(level))));
                let (ofs, child) = (path.ofs(level), path.ofs(level + 1));
                prop_assert!(addressing.first_page(ofs).unwrap() <= addressing.first_page(child).unwrap());
                prop_assert!(page < addressing.first_page(ofs).unwrap().0 + addressing.pages_under(ofs));
            }
        }

        #[test]
        fn every_node_offset_has_its_way_from_the_inode(ofs in 0u32..=0x1FFF_FFFF) {
            let ofs = NodeOfs::new(ofs);
            match NodePath::of_node(ofs) {
                Some(path) => {
                    prop_assert_eq!(path.leaf(), ofs);
                    prop_assert_eq!(path.ofs(0), NodeOfs::INODE);
                }
                None => prop_assert!(matches!(ofs.kind(), NodeKind::Xattr | NodeKind::Invalid)),
            }
        }

        #[test]
        fn any_number_inside_the_tree_has_a_path(ofs in 0u32..1_040_000) {
            let ofs = NodeOfs::new(ofs);
            prop_assert_eq!(NodePath::of_node(ofs).is_some(), ofs < NodeOfs::END);
        }
    }
}
