//! The first contents of a hidden quota file: Linux' VFS v1 quota tree with one entry. Format section 14.
//!
//! A file of 1024-byte tree blocks: block 0 holds the header, block 1 the root of a tree with four levels, one per byte of the id from
//! the highest; a tree block holds 256 block numbers; the last level points at a block of entries.

use steadyfs_format::superblock::QuotaKind;
use steadyfs_format::{BLOCK_SIZE, Block, zeroed_block};

const TREE_BLOCK: usize = 1024;
/// Header, four levels, one block of entries.
const TREE_BLOCKS: usize = 6;
const VERSION: u32 = 1;
/// A week, in seconds: for how long a soft limit may be exceeded.
const GRACE: u32 = 7 * 24 * 3600;
/// Bytes before the entries of their block.
const LEAF_HEADER: usize = 16;
/// Where in an entry the number of inodes and the space in bytes are.
const ENTRY_INODES: usize = 24;
const ENTRY_SPACE: usize = 48;

fn magic(kind: QuotaKind) -> u32 {
    match kind {
        QuotaKind::User => 0xD9C0_1F11,
        QuotaKind::Group => 0xD9C0_1927,
        QuotaKind::Project => 0xD9C0_3F14,
    }
}

/// The size and the blocks of a quota file in which `id` owns `directories` directories of one block each.
pub(super) fn file(kind: QuotaKind, id: u32, directories: u64) -> (u64, Vec<Block>) {
    let mut bytes = vec![0u8; TREE_BLOCKS * TREE_BLOCK];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    let leaf = TREE_BLOCKS - 1;
    // Magic, version, grace times of blocks and inodes, flags, blocks, first free block, first block with a free entry.
    let header = [magic(kind), VERSION, GRACE, GRACE, 0, TREE_BLOCKS as u32, 0, leaf as u32];
    for (index, word) in header.into_iter().enumerate() {
        put(index * 4, &word.to_le_bytes());
    }
    for (level, byte) in id.to_be_bytes().into_iter().enumerate() {
        let block = 1 + level;
        put(block * TREE_BLOCK + usize::from(byte) * 4, &(block as u32 + 1).to_le_bytes());
    }
    let entries = leaf * TREE_BLOCK;
    // The leaf's header: links to other blocks with free entries (none), then the number of entries.
    put(entries + 8, &1u16.to_le_bytes());
    let entry = entries + LEAF_HEADER;
    put(entry, &id.to_le_bytes());
    put(entry + ENTRY_INODES, &directories.to_le_bytes());
    put(entry + ENTRY_SPACE, &(directories * BLOCK_SIZE as u64).to_le_bytes());
    let blocks = bytes.chunks(BLOCK_SIZE).map(|chunk| {
        let mut block = zeroed_block();
        block[..chunk.len()].copy_from_slice(chunk);
        block
    });
    (bytes.len() as u64, blocks.collect())
}
