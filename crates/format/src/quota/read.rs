//! Reading a quota file of any writer.

use super::{Entry, LEVELS, LeafHeader, QuotaHeader, ROOT, RawEntry, TREE_BLOCK, TreeBlock, VERSION, entries, magic};
use crate::error::{FormatError, require};
use crate::superblock::QuotaKind;
use std::collections::{BTreeMap, HashSet};
use zerocopy::FromBytes;

/// Why a quota file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError<E> {
    /// The header is wrong: Linux does not switch the quota on.
    Header(FormatError),
    /// The tree is broken at this tree block.
    Tree {
        /// Its number in the file.
        block: u32,
        /// The fault there.
        reason: &'static str,
    },
    /// The caller could not read a block.
    Fetch(E),
}

/// Reads all entries of a quota file of `size` bytes, in the order of their ids. `fetch` reads a tree block by its
/// number; `None` is one that the file does not have.
///
/// Memory: 72 bytes per entry, and 16 per tree block that exists.
///
/// # Errors
/// The first thing that is wrong.
pub fn read<E>(
    kind: QuotaKind,
    size: u64,
    fetch: impl FnMut(u32) -> Result<Option<TreeBlock>, E>,
) -> Result<Vec<Entry>, ReadError<E>> {
    let mut reader = Reader { fetch, blocks: 0, entered: HashSet::new(), leaves: BTreeMap::new(), found: Vec::new() };
    let first = (reader.fetch)(0).map_err(ReadError::Fetch)?.unwrap_or([0; TREE_BLOCK]);
    reader.blocks = check_header(kind, size, &first).map_err(ReadError::Header)?;
    reader.walk()?;
    reader.check_leaves()?;
    Ok(reader.found)
}

/// Makes the checks that Linux makes before it switches a quota on; returns the number of tree blocks.
fn check_header(kind: QuotaKind, size: u64, block: &TreeBlock) -> Result<u32, FormatError> {
    const WHAT: &str = "quota file";
    let Ok((header, _)) = QuotaHeader::ref_from_prefix(block) else {
        unreachable!("a tree block is longer than its header")
    };
    require(header.magic.get() == magic(kind), WHAT, "magic", header.magic.get(), "is that of its kind of quota")?;
    require(header.version.get() == VERSION, WHAT, "version", header.version.get(), "is 1")?;
    let blocks = header.blocks.get();
    require(blocks > ROOT, WHAT, "blocks", blocks, "is at least 2")?;
    require(u64::from(blocks) * TREE_BLOCK as u64 <= size, WHAT, "blocks", blocks, "is within the size of the file")?;
    for (field, value) in [("free_block", header.free_block.get()), ("free_entry", header.free_entry.get())] {
        require(value == 0 || value > ROOT && value < blocks, WHAT, field, value, "is 0 or a block behind the root")?;
    }
    Ok(blocks)
}

/// Which entries of a block are in use, and which of them were found by their ids: a bit each.
#[derive(Clone, Copy)]
struct Leaf {
    used: u16,
    found: u16,
}

struct Reader<F> {
    fetch: F,
    blocks: u32,
    /// Blocks of numbers that were entered.
    entered: HashSet<u32>,
    leaves: BTreeMap<u32, Leaf>,
    found: Vec<Entry>,
}

impl<E, F: FnMut(u32) -> Result<Option<TreeBlock>, E>> Reader<F> {
    /// Goes down the tree, in the order of the ids. The path is four blocks at most.
    fn walk(&mut self) -> Result<(), ReadError<E>> {
        let mut path = vec![(self.enter(ROOT)?, 0)];
        while let Some((block, slot)) = path.last_mut() {
            let Some(number) = block.as_chunks::<4>().0.get(*slot).map(|bytes| u32::from_le_bytes(*bytes)) else {
                path.pop();
                continue;
            };
            *slot += 1;
            if number == 0 {
                continue;
            }
            if path.len() < LEVELS {
                let next = self.enter(number)?;
                path.push((next, 0));
            } else {
                let id = path.iter().fold(0, |id, (_, slot)| id << 8 | (*slot as u32 - 1));
                self.take(id, number)?;
            }
        }
        Ok(())
    }

    /// A block of the tree behind the header.
    fn block(&mut self, block: u32) -> Result<TreeBlock, ReadError<E>> {
        let tree = |reason| ReadError::Tree { block, reason };
        if block < ROOT || block >= self.blocks {
            return Err(tree("the file does not have so many blocks"));
        }
        (self.fetch)(block).map_err(ReadError::Fetch)?.ok_or_else(|| tree("the block is a hole"))
    }

    /// Reads a block of numbers, for the first and only time.
    fn enter(&mut self, block: u32) -> Result<TreeBlock, ReadError<E>> {
        if !self.entered.insert(block) {
            return Err(ReadError::Tree { block, reason: "the block is in the tree twice" });
        }
        self.block(block)
    }

    /// Takes the entry of an id from the block that the tree names for it.
    fn take(&mut self, id: u32, block: u32) -> Result<(), ReadError<E>> {
        let bytes = self.block(block)?;
        let is_it = |entry: &RawEntry| entry.is_used() && entry.decode().id == id;
        let Some((slot, entry)) = entries(&bytes).enumerate().find(|(_, entry)| is_it(entry)) else {
            return Err(ReadError::Tree { block, reason: "an entry that the tree names is not there" });
        };
        let used = || entries(&bytes).enumerate().fold(0, |bits, (at, entry)| bits | u16::from(entry.is_used()) << at);
        let leaf = self.leaves.entry(block).or_insert_with(|| Leaf { used: used(), found: 0 });
        assert!(leaf.found >> slot & 1 == 0, "every way down the tree gives another id");
        leaf.found |= 1 << slot;
        self.found.push(entry.decode());
        Ok(())
    }

    /// Every entry of a block was named by the tree, and the block counts them right.
    fn check_leaves(&mut self) -> Result<(), ReadError<E>> {
        for (block, leaf) in std::mem::take(&mut self.leaves) {
            let bytes = self.block(block)?;
            let count = LeafHeader::ref_from_prefix(&bytes).map_or(0, |(header, _)| header.entries.get());
            let reason = match leaf {
                Leaf { used, found } if used != found => "an entry is not where the tree looks for it",
                Leaf { used, .. } if used.count_ones() != u32::from(count) => "its count of entries is wrong",
                _ => continue,
            };
            return Err(ReadError::Tree { block, reason });
        }
        Ok(())
    }
}
