//! A quota file. Input: one byte of choices, four bytes of size, then the tree blocks; those that are missing are
//! holes.

use super::BLOCK_MEMORY;
use crate::Target;
use crate::input::Input;
use std::convert::Infallible;
use steadyfs_format::quota::{self, ENTRIES_PER_BLOCK, Entry, TREE_BLOCK, TreeBlock, Usage};
use steadyfs_format::superblock::QuotaKind;

/// The target.
pub const TARGET: Target = Target { name: "quota", run, seeds, volume: false, memory: 4 * BLOCK_MEMORY };

/// Choice: make magic and version right.
const REPAIR: u8 = 4;

fn seeds() -> Vec<Vec<u8>> {
    let ids = [0, 1, 1000, 70_000, 4_000_000_000].into_iter().chain(300..340);
    let entry = |id| Entry { id, usage: Usage { space: u64::from(id) * 4096, inodes: 3 }, ..Entry::default() };
    let entries: Vec<Entry> = ids.map(entry).collect();
    let seed = |count: usize| {
        let bytes = quota::encode(QuotaKind::User, &entries[..count]);
        [&[REPAIR], &(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
    };
    vec![seed(1), seed(5), seed(entries.len())]
}

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (choices, size) = (input.u8(), u64::from(input.u32()));
    let kind = QuotaKind::ALL[usize::from(choices & 3).min(2)];
    let mut blocks: Vec<TreeBlock> = input.rest().as_chunks::<TREE_BLOCK>().0.to_vec();
    if choices & REPAIR != 0
        && let Some(first) = blocks.first_mut()
    {
        first[..4].copy_from_slice(&quota::magic(kind).to_le_bytes());
        first[4..8].copy_from_slice(&quota::VERSION.to_le_bytes());
    }
    let mut reads = 0;
    let found = quota::read(kind, size, |number| {
        reads += 1;
        Ok::<_, Infallible>(blocks.get(number as usize).copied())
    });
    assert!(reads <= 2 + blocks.len() * (2 + ENTRIES_PER_BLOCK) + 1, "{reads} reads of {} blocks", blocks.len());
    let Ok(found) = found else { return };
    assert!(found.is_sorted_by(|a, b| a.id < b.id), "in the order of the ids, each once");
    assert!(found.len() <= blocks.len() * ENTRIES_PER_BLOCK);
    let written = quota::encode(kind, &found);
    let again = written.as_chunks::<TREE_BLOCK>().0;
    let read =
        quota::read(kind, written.len() as u64, |number| Ok::<_, Infallible>(again.get(number as usize).copied()));
    assert_eq!(read, Ok(found));
}
