//! Writing a whole quota file.

use super::{
    ENTRIES_PER_BLOCK, Entry, GRACE, LEVELS, LeafHeader, QuotaHeader, ROOT, RawEntry, TREE_BLOCK, TreeBlock, VERSION,
};
use crate::superblock::QuotaKind;
use zerocopy::{FromBytes, IntoBytes};

/// The bytes of a quota file with these entries, in tree blocks as Linux allocates them when the entries come in this
/// order.
///
/// # Panics
/// If an id is there twice.
pub fn encode(kind: QuotaKind, entries: &[Entry]) -> Vec<u8> {
    let mut blocks: Vec<TreeBlock> = vec![[0; TREE_BLOCK]; ROOT as usize + 1];
    let mut leaf = 0;
    for entry in entries {
        let mut at = ROOT as usize;
        for (level, byte) in entry.id.to_be_bytes().into_iter().enumerate() {
            let slot = usize::from(byte) * 4..usize::from(byte) * 4 + 4;
            let mut next = u32::from_le_bytes([0, 1, 2, 3].map(|at_byte| blocks[at][slot.start + at_byte])) as usize;
            assert!(level + 1 < LEVELS || next == 0, "id {} is there twice", entry.id);
            if next == 0 {
                let has_room = leaf != 0 && used(&blocks[leaf]) < ENTRIES_PER_BLOCK;
                next = if level + 1 == LEVELS && has_room { leaf } else { blocks.len() };
                blocks[at][slot].copy_from_slice(&(next as u32).to_le_bytes());
                if next == blocks.len() {
                    blocks.push([0; TREE_BLOCK]);
                }
            }
            at = next;
        }
        leaf = at;
        add(&mut blocks[leaf], entry);
    }
    let free_entry = if leaf != 0 && used(&blocks[leaf]) < ENTRIES_PER_BLOCK { leaf as u32 } else { 0 };
    let header = QuotaHeader {
        magic: super::magic(kind).into(),
        version: VERSION.into(),
        block_grace: GRACE.into(),
        inode_grace: GRACE.into(),
        flags: 0.into(),
        blocks: (blocks.len() as u32).into(),
        free_block: 0.into(),
        free_entry: free_entry.into(),
    };
    blocks[0][..size_of::<QuotaHeader>()].copy_from_slice(header.as_bytes());
    blocks.concat()
}

/// Entries in use of a block of them.
fn used(block: &TreeBlock) -> usize {
    LeafHeader::ref_from_prefix(block).map_or(0, |(header, _)| usize::from(header.entries.get()))
}

fn add(block: &mut TreeBlock, entry: &Entry) {
    let count = used(block);
    assert!(count < ENTRIES_PER_BLOCK, "the block has room");
    let at = size_of::<LeafHeader>() + count * size_of::<RawEntry>();
    block[at..at + size_of::<RawEntry>()].copy_from_slice(RawEntry::encode(entry).as_bytes());
    if let Ok((header, _)) = LeafHeader::mut_from_prefix(block) {
        header.entries = (count as u16 + 1).into();
    }
    assert_eq!(used(block), count + 1);
}
