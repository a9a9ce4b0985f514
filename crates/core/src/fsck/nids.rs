//! The NAT in memory: every id in use, and which of them are inodes.
//!
//! Memory: 4.2 KiB per NAT block with ids in use (455 ids), 8 bytes per NAT block without.

use steadyfs_format::block::{Block, BlockView};
use steadyfs_format::nat::{ENTRIES_PER_BLOCK, NatBlock, NatEntry};
use steadyfs_format::{Ino, Nid};

const WORDS: usize = ENTRIES_PER_BLOCK.div_ceil(64);

/// One NAT block with ids in use, the journal applied.
pub(super) struct NatPage {
    block: Box<Block>,
    /// Which entries are inodes (their own owners, in use).
    inodes: [u64; WORDS],
    /// Inodes in the pages before this one.
    before: u32,
}

impl NatPage {
    /// Takes a block over; `None` if no id of it is in use.
    pub(super) fn new(number: u32, block: Box<Block>) -> Option<Self> {
        // Most blocks of most volumes.
        if super::is_zero(&block[..]) {
            return None;
        }
        let first = number * ENTRIES_PER_BLOCK as u32;
        let mut inodes = [0; WORDS];
        let mut used = false;
        for (index, entry) in NatBlock::view(&block).iter().enumerate() {
            used |= !entry.is_free();
            let nid = first + index as u32;
            if !entry.is_free() && entry.ino.get() == nid && nid >= steadyfs_format::ROOT_INO.get() {
                inodes[index / 64] |= 1 << (index % 64);
            }
        }
        used.then_some(NatPage { block, inodes, before: 0 })
    }

    fn rank(&self, index: usize) -> Option<u32> {
        let (word, bit) = (index / 64, index % 64);
        if self.inodes[word] >> bit & 1 == 0 {
            return None;
        }
        let earlier: u32 = self.inodes[..word].iter().map(|word| word.count_ones()).sum();
        let below = (self.inodes[word] & ((1 << bit) - 1)).count_ones();
        Some(self.before + earlier + below)
    }
}

/// All node ids.
pub(super) struct Nids {
    pages: Vec<Option<Box<NatPage>>>,
    inodes: u32,
    used: u64,
}

impl Nids {
    /// Puts the pages together, one per NAT block.
    pub(super) fn new(mut pages: Vec<Option<Box<NatPage>>>) -> Self {
        let mut inodes = 0;
        for page in pages.iter_mut().flatten() {
            page.before = inodes;
            inodes += page.inodes.iter().map(|word| word.count_ones()).sum::<u32>();
        }
        let mut nids = Nids { pages, inodes, used: 0 };
        nids.used = nids.iter_used().filter(|(nid, _)| nid.get() >= steadyfs_format::ROOT_INO.get()).count() as u64;
        nids
    }

    /// The entry of an id, if it is in use.
    pub(super) fn get(&self, nid: Nid) -> Option<NatEntry> {
        let page = self.pages.get(nid.index() / ENTRIES_PER_BLOCK)?.as_ref()?;
        let entry = NatBlock::view(&page.block).get(nid.index() % ENTRIES_PER_BLOCK);
        (!entry.is_free()).then_some(entry)
    }

    /// The number of an inode among the inodes, in the order of their ids; `None` if there is no such inode.
    pub(super) fn inode_index(&self, ino: Ino) -> Option<u32> {
        let page = self.pages.get(ino.index() / ENTRIES_PER_BLOCK)?.as_ref()?;
        page.rank(ino.index() % ENTRIES_PER_BLOCK)
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
        page.map_or(0, |page| NatBlock::view(&page.block).iter().filter(|entry| !entry.is_free()).count())
    }

    /// Every id in use with its entry, in order.
    pub(super) fn iter_used(&self) -> impl Iterator<Item = (Nid, NatEntry)> + '_ {
        self.pages.iter().enumerate().filter_map(|(number, page)| Some((number, page.as_ref()?))).flat_map(
            |(number, page)| {
                let first = (number * ENTRIES_PER_BLOCK) as u32;
                let entries = NatBlock::view(&page.block).iter().enumerate();
                entries.filter(|(_, entry)| !entry.is_free()).map(move |(i, entry)| (Nid(first + i as u32), entry))
            },
        )
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
                NatBlock::view_mut(&mut block).set((nid - number * 455) as usize, entry);
            }
            NatPage::new(number, block).map(Box::new)
        };
        let pages = vec![
            page(0, &[(1, 1), (3, 3), (4, 3), (64, 64), (454, 454)]),
            page(1, &[]),
            page(2, &[(910, 910), (911, 3)]),
        ];
        assert!(pages[1].is_none());
        let nids = Nids::new(pages);
        let indices: Vec<_> = [3, 64, 454, 910].map(|ino| nids.inode_index(Ino(ino))).to_vec();
        assert_eq!(indices, [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!([1, 4, 911, 500, 5000].map(|ino| nids.inode_index(Ino(ino))), [None; 5]);
        assert_eq!((nids.inodes(), nids.used()), (4, 6));
        assert_eq!(nids.get(Nid(911)).map(|entry| entry.ino), Some(Ino(3)));
        assert_eq!(nids.get(Nid(912)), None);
        assert_eq!(nids.iter_used().count(), 7);
    }
}
