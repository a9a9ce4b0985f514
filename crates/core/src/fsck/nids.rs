//! The NAT in memory: every id in use, and which of them are inodes.
//!
//! Memory: 4.2 KiB per NAT block with ids in use (455 ids, or 315 with addresses of 8 bytes), 8 bytes per NAT block
//! without.

use std::ops::Range;
use steadyfs_format::block::Block;
use steadyfs_format::nat::{self, NatEntry};
use steadyfs_format::{Ino, Nid, Width};

const WORDS: usize = nat::ENTRIES_PER_BLOCK.div_ceil(64);

/// One NAT block with ids in use, the journal applied.
pub(super) struct NatPage {
    block: Box<Block>,
    /// Which entries are inodes (their own owners, in use).
    inodes: [u64; WORDS],
    /// Inodes in the pages before this one.
    before: u32,
    /// Ids in use.
    used: u16,
}

impl NatPage {
    /// Takes a block over; `None` if no id of it is in use.
    pub(super) fn new(number: u32, block: Box<Block>, width: Width) -> Option<Self> {
        let first = number * width.nat_entries() as u32;
        let mut inodes = [0; WORDS];
        let mut used = 0;
        for (index, entry) in nat::entries(&block, width).enumerate() {
            used += u16::from(!entry.is_free());
            let nid = first + index as u32;
            if !entry.is_free() && entry.ino.get() == nid && nid >= steadyfs_format::ROOT_INO.get() {
                inodes[index / 64] |= 1 << (index % 64);
            }
        }
        (used > 0).then_some(NatPage { block, inodes, before: 0, used })
    }

    fn is_inode(&self, index: usize) -> bool {
        self.inodes[index / 64] >> (index % 64) & 1 != 0
    }

    fn rank(&self, index: usize) -> Option<u32> {
        let (word, bit) = (index / 64, index % 64);
        if !self.is_inode(index) {
            return None;
        }
        let earlier: u32 = self.inodes[..word].iter().map(|word| word.count_ones()).sum();
        let below = (self.inodes[word] & ((1 << bit) - 1)).count_ones();
        Some(self.before + earlier + below)
    }
}

/// All node ids.
pub(super) struct Nids {
    width: Width,
    pages: Vec<Option<Box<NatPage>>>,
    inodes: u32,
    used: u64,
}

impl Nids {
    /// Puts the pages together, one per NAT block.
    pub(super) fn new(mut pages: Vec<Option<Box<NatPage>>>, width: Width) -> Self {
        let (mut inodes, mut used) = (0, 0);
        for page in pages.iter_mut().flatten() {
            page.before = inodes;
            inodes += page.inodes.iter().map(|word| word.count_ones()).sum::<u32>();
            used += u64::from(page.used);
        }
        let mut nids = Nids { width, pages, inodes, used };
        let reserved = (0..steadyfs_format::ROOT_INO.get()).filter(|nid| nids.get(Nid(*nid)).is_some()).count();
        nids.used -= reserved as u64;
        nids
    }

    /// The entry of an id, if it is in use.
    pub(super) fn get(&self, nid: Nid) -> Option<NatEntry> {
        let (page, index) = self.place(nid)?;
        let entry = nat::entry(&page.block, self.width, index);
        (!entry.is_free()).then_some(entry)
    }

    /// The number of an inode among the inodes, in the order of their ids; `None` if there is no such inode.
    pub(super) fn inode_index(&self, ino: Ino) -> Option<u32> {
        let (page, index) = self.place(ino.nid())?;
        page.rank(index)
    }

    /// The page that holds an id's entry, and the entry's place in it; `None` where no id of the block is in use.
    fn place(&self, nid: Nid) -> Option<(&NatPage, usize)> {
        let per_block = self.width.nat_entries();
        let page = self.pages.get(nid.index() / per_block)?.as_deref()?;
        Some((page, nid.index() % per_block))
    }

    /// Number of inodes.
    pub(super) fn inodes(&self) -> u32 {
        self.inodes
    }

    /// Ids in use, the reserved ones not counted.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Ids in use in a NAT block.
    pub(super) fn used_in(&self, block: u32) -> usize {
        let page = self.pages.get(block as usize).and_then(Option::as_ref);
        page.map_or(0, |page| usize::from(page.used))
    }

    /// Number of NAT blocks.
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Every id in use in some NAT blocks with its entry, in order.
    pub(super) fn iter_used(&self, blocks: Range<usize>) -> impl Iterator<Item = (Nid, NatEntry)> + '_ {
        self.iter(blocks, |_, _| true)
    }

    /// Every inode in some NAT blocks, in order: its number, its id and its entry.
    pub(super) fn iter_inodes(&self, blocks: Range<usize>) -> impl Iterator<Item = (u32, Nid, NatEntry)> + '_ {
        let first = self.pages[blocks.clone()].iter().flatten().next().map_or(0, |page| page.before);
        (first..).zip(self.iter(blocks, NatPage::is_inode)).map(|(number, (nid, entry))| (number, nid, entry))
    }

    /// Every id in use in some NAT blocks that is no inode, with its entry, in order.
    pub(super) fn iter_nodes(&self, blocks: Range<usize>) -> impl Iterator<Item = (Nid, NatEntry)> + '_ {
        self.iter(blocks, |page, index| !page.is_inode(index))
    }

    fn iter(
        &self,
        blocks: Range<usize>,
        wanted: impl Fn(&NatPage, usize) -> bool + Copy,
    ) -> impl Iterator<Item = (Nid, NatEntry)> {
        let pages = blocks.clone().zip(&self.pages[blocks]);
        pages.filter_map(|(number, page)| Some((number, page.as_ref()?))).flat_map(move |(number, page)| {
            let width = self.width;
            let first = (number * width.nat_entries()) as u32;
            let entries = (0..width.nat_entries()).filter(move |index| wanted(page, *index));
            let entries = entries.map(move |index| (index, nat::entry(&page.block, width, index)));
            entries.filter(|(_, entry)| !entry.is_free()).map(move |(i, entry)| (Nid(first + i as u32), entry))
        })
    }
}

/// A set of node ids: one bit each.
pub(super) struct NidSet {
    words: Vec<u64>,
}

impl NidSet {
    pub(super) fn new(max_nid: Nid) -> Self {
        NidSet { words: vec![0; max_nid.index().div_ceil(64)] }
    }

    /// Adds an id; false if it was there.
    pub(super) fn insert(&mut self, nid: Nid) -> bool {
        let (word, mask) = (nid.index() / 64, 1 << (nid.index() % 64));
        let fresh = self.words[word] & mask == 0;
        self.words[word] |= mask;
        fresh
    }

    /// Whether an id is there.
    pub(super) fn contains(&self, nid: Nid) -> bool {
        self.words[nid.index() / 64] >> (nid.index() % 64) & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadyfs_format::{Lba, zeroed_block};

    #[test]
    fn inodes_are_numbered_in_order_across_pages() {
        let page = |number: u32, nids: &[(u32, u32)]| {
            let mut block = Box::new(zeroed_block());
            for &(nid, ino) in nids {
                let entry = NatEntry { version: 0, ino: Ino(ino), lba: Lba(u64::from(nid) + 1000) };
                nat::set_entry(&mut block, Width::Four, (nid - number * 455) as usize, entry);
            }
            NatPage::new(number, block, Width::Four).map(Box::new)
        };
        let pages = vec![
            page(0, &[(1, 1), (3, 3), (4, 3), (64, 64), (454, 454)]),
            page(1, &[]),
            page(2, &[(910, 910), (911, 3)]),
        ];
        assert!(pages[1].is_none());
        let nids = Nids::new(pages, Width::Four);
        let indices: Vec<_> = [3, 64, 454, 910].map(|ino| nids.inode_index(Ino(ino))).to_vec();
        assert_eq!(indices, [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!([1, 4, 911, 500, 5000].map(|ino| nids.inode_index(Ino(ino))), [None; 5]);
        assert_eq!((nids.inodes(), nids.used()), (4, 6));
        assert_eq!(nids.get(Nid(911)).map(|entry| entry.ino), Some(Ino(3)));
        assert_eq!(nids.get(Nid(912)), None);
        assert_eq!(nids.iter_used(0..3).count(), 7);
        let inodes = |blocks| nids.iter_inodes(blocks).map(|(number, nid, _)| (number, nid.get())).collect::<Vec<_>>();
        assert_eq!(inodes(0..3), [(0, 3), (1, 64), (2, 454), (3, 910)]);
        assert_eq!((inodes(1..3), inodes(1..2)), (vec![(3, 910)], vec![]));
        assert!(nids.iter_nodes(0..3).map(|(nid, _)| nid.get()).eq([1, 4, 911]));
        assert_eq!([0, 1, 2].map(|block| nids.used_in(block)), [5, 0, 2]);
    }
}
