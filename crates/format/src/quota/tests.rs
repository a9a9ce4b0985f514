//! Quota files: where the bytes lie, each fault by its name, the round trip, any bytes at all.

use super::*;
use crate::error::FormatError;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// Reads a file in memory; blocks beyond its end are holes.
fn read_bytes(kind: QuotaKind, bytes: &[u8]) -> Result<Vec<Entry>, ReadError<Infallible>> {
    let blocks = bytes.as_chunks::<TREE_BLOCK>().0;
    read(kind, bytes.len() as u64, |number| Ok(blocks.get(number as usize).copied()))
}

fn sample() -> Vec<u8> {
    let entries = [0, 1, 1000, 70_000, 4_000_000_000].map(|id| Entry {
        id,
        usage: Usage { space: u64::from(id) * 4096, inodes: 3 },
        ..Entry::default()
    });
    encode(QuotaKind::Group, &entries)
}

fn put(bytes: &mut [u8], block: usize, at: usize, value: u32) {
    bytes[block * TREE_BLOCK + at..][..4].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn fields_lie_where_the_format_says() {
    let usage = Usage { space: 0x1122_3344, inodes: 7 };
    let bytes = encode(QuotaKind::User, &[Entry { id: 0x0102_0304, usage, ..Entry::default() }]);
    assert_eq!(bytes.len(), 6 * TREE_BLOCK);
    assert_eq!(bytes[..8], [0x11, 0x1F, 0xC0, 0xD9, 1, 0, 0, 0]);
    assert_eq!(bytes[20..32], [6, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0]);
    for (level, byte) in [1, 2, 3, 4].into_iter().enumerate() {
        assert_eq!(bytes[(1 + level) * TREE_BLOCK + byte * 4], level as u8 + 2);
    }
    let leaf = &bytes[5 * TREE_BLOCK..];
    assert_eq!(
        (leaf[8], &leaf[16..20], leaf[40], &leaf[64..68]),
        (1, &[4, 3, 2, 1][..], 7, &[0x44, 0x33, 0x22, 0x11][..])
    );
}

#[test]
fn each_fault_is_named() {
    let sample = sample();
    let with = |block, at, value| {
        let mut bytes = sample.clone();
        put(&mut bytes, block, at, value);
        read_bytes(QuotaKind::Group, &bytes)
    };
    let tree = |block, reason| Err(ReadError::Tree { block, reason });
    assert_eq!(read_bytes(QuotaKind::Group, &sample).map(|found| found.len()), Ok(5));
    let no_magic = |found| matches!(found, Err(ReadError::Header(FormatError::Field { field: "magic", .. })));
    assert!(no_magic(read_bytes(QuotaKind::User, &sample)) && no_magic(read_bytes(QuotaKind::Group, &[])));
    for (at, value) in [(4, 0), (20, 1), (20, 100), (24, 1), (24, 50), (28, 50)] {
        assert!(matches!(with(0, at, value), Err(ReadError::Header(FormatError::Field { .. }))), "{at} {value}");
    }
    // The path of id 0 is blocks 1 to 5.
    assert_eq!(with(1, 4 * 9, 500), tree(500, "the file does not have so many blocks"));
    assert_eq!(with(1, 4 * 9, 1), tree(1, "the block is in the tree twice"));
    assert_eq!(with(3, 4 * 9, 4), tree(4, "the block is in the tree twice"));
    assert_eq!(with(4, 4 * 9, 5), tree(5, "an entry that the tree names is not there"));
    assert_eq!(with(4, 0, 0), tree(5, "an entry is not where the tree looks for it"));
    assert_eq!(with(5, 8, 4), tree(5, "its count of entries is wrong"));
    let mut cut = sample.clone();
    cut.truncate(5 * TREE_BLOCK);
    let blocks = cut.as_chunks::<TREE_BLOCK>().0;
    let hole = read(QuotaKind::Group, 1 << 20, |number| Ok::<_, Infallible>(blocks.get(number as usize).copied()));
    assert_eq!(hole, tree(5, "the block is a hole"));
    assert_eq!(read(QuotaKind::Group, 1 << 20, |_| Err("device")), Err(ReadError::Fetch("device")));
}

#[test]
fn an_entry_of_zeros_is_one_all_the_same() {
    let bytes = encode(QuotaKind::Project, &[Entry::default()]);
    assert_eq!(read_bytes(QuotaKind::Project, &bytes), Ok(vec![Entry::default()]));
}

fn limit() -> impl Strategy<Value = Limit> {
    (any::<u64>(), any::<u64>(), 2..u64::MAX).prop_map(|(hard, soft, expires)| Limit { hard, soft, expires })
}

fn entry() -> impl Strategy<Value = (u32, Usage, Limit, Limit)> {
    // Ids that lie near each other, so that blocks are shared, and any others.
    let id = prop_oneof![0u32..600, any::<u32>()];
    let usage = (any::<u64>(), any::<u64>()).prop_map(|(space, inodes)| Usage { space, inodes });
    (id, usage, limit(), limit())
}

proptest! {
    #[test]
    fn what_was_written_is_read(entries in prop::collection::vec(entry(), 0..120)) {
        let by_id: BTreeMap<u32, Entry> = entries
            .into_iter()
            .map(|(id, usage, space, inodes)| (id, Entry { id, usage, space, inodes }))
            .collect();
        // The order in which they are written is another one than that of the ids.
        let written: Vec<Entry> = by_id.values().rev().copied().collect();
        let found = read_bytes(QuotaKind::User, &encode(QuotaKind::User, &written));
        prop_assert_eq!(found, Ok(by_id.into_values().collect()));
    }

    #[test]
    fn whatever_the_bytes_reading_ends(
        changes in prop::collection::vec((0usize..20, 0usize..256, prop_oneof![0u32..24, any::<u32>()]), 1..12),
    ) {
        let mut bytes = sample();
        bytes.resize(20 * TREE_BLOCK, 0);
        put(&mut bytes, 0, 20, 20);
        for (block, word, value) in changes {
            put(&mut bytes, block, word * 4, value);
        }
        let mut reads = 0;
        let blocks = bytes.as_chunks::<TREE_BLOCK>().0;
        let result = read(QuotaKind::Group, bytes.len() as u64, |number| {
            reads += 1;
            Ok::<_, Infallible>(blocks.get(number as usize).copied())
        });
        prop_assert!(reads <= 2 + 20 * (2 + ENTRIES_PER_BLOCK), "{} reads", reads);
        if let Ok(found) = result {
            prop_assert!(found.is_sorted_by_key(|entry| entry.id));
        }
    }
}
