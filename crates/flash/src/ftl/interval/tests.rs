//! Against a plain map, with compaction at any moment; sizes in closed form.

use super::*;
use crate::parameters::Compaction;
use proptest::prelude::*;
use std::time::Duration;

const MS: u64 = 1_000_000;

/// Small nodes, so that few operations fill and empty them: 64 pages, zones of 4 nodes.
fn small(smallest_hole: u32) -> Intervals {
    let compaction = Compaction {
        period: Duration::from_millis(10),
        slice_nodes: 2,
        adopt_percent: 90,
        most_valid_percent: 100,
        scan: Duration::from_millis(1 << 10),
    };
    Intervals { addresses: 1 << 60, node_pages: 64, zone_nodes: 4, smallest_hole, compaction }
}

/// Maps pages, each to the flash page of its number.
fn fill(map: &mut IntervalMap, pages: impl Iterator<Item = u64>) {
    for page in pages {
        map.set(page, page as u32);
    }
}

fn discard(map: &mut IntervalMap, pages: impl Iterator<Item = u64>) {
    for page in pages {
        map.unset(page);
    }
}

/// Everything that the map says, and its rules.
fn assert_same(map: &IntervalMap, model: &BTreeMap<u64, u32>) {
    let mut from = 0;
    let mut found = Vec::new();
    while let Some(page) = map.next(from..u64::MAX) {
        found.push((page, map.get(page)));
        from = page + 1;
    }
    assert!(found.iter().copied().eq(model.iter().map(|(&page, &at)| (page, at))), "{found:?} instead of {model:?}");
    let mut wrong = Vec::new();
    map.check(&mut wrong);
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// What happens to a map. Stretches begin at far places of the address space.
#[derive(Debug, Clone)]
enum Step {
    Append(usize, u64),
    Set(usize, u64),
    Discard(usize, u64, u64),
    Pass,
}

/// The second crosses from one tree to the next.
const FAR: [u64; 4] = [1 << 33, (3 << 29) - 300, 1 << 45, (1 << 60) - 1000];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = || (0..FAR.len(), 0u64..900);
    let step = prop_oneof![
        4 => (0..FAR.len(), 1u64..200).prop_map(|(log, count)| Step::Append(log, count)),
        1 => at().prop_map(|(log, page)| Step::Set(log, page)),
        6 => (at(), prop_oneof![Just(1u64), 1u64..40, 1u64..400]).prop_map(|((l, p), n)| Step::Discard(l, p, n)),
        2 => Just(Step::Pass),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn contents_are_those_of_a_plain_map(steps in steps(), hole in prop_oneof![Just(1u32), Just(4), Just(16)]) {
        let (mut map, mut model) = (IntervalMap::new(small(hole)), BTreeMap::new());
        let (mut heads, mut time, mut next) = (FAR, 0, 0u32);
        for step in steps {
            let mut set = |map: &mut IntervalMap, page: u64| {
                next += 1;
                let old = map.set(page, next);
                prop_assert_eq!(old, model.insert(page, next).unwrap_or(UNMAPPED));
                Ok(())
            };
            match step {
                Step::Append(log, count) => {
                    for page in heads[log]..(heads[log] + count).min(FAR[log] + 1000) {
                        set(&mut map, page)?;
                    }
                    heads[log] = (heads[log] + count).min(FAR[log] + 1000);
                }
                Step::Set(log, page) => set(&mut map, FAR[log] + page)?,
                Step::Discard(log, page, count) => {
                    for page in FAR[log] + page..FAR[log] + (page + count).min(1000) {
                        prop_assert_eq!(map.unset(page), model.remove(&page).unwrap_or(UNMAPPED));
                    }
                }
                Step::Pass => {
                    time += 1000 * MS;
                    map.advance(time);
                    assert_same(&map, &model);
                }
            }
        }
        assert_same(&map, &model);
        for page in model.keys().copied().collect::<Vec<_>>() {
            map.unset(page);
        }
        let live: u64 = map.trees.values().map(|tree| tree.next(0).map_or(0, |_| 1)).sum();
        prop_assert_eq!(live, 0, "an empty map has no map nodes");
    }
}

/// A node of 4096 pages of which 1 in 32 is left: header, bitmap, directory and array, as the paper has them.
#[test]
fn a_compacted_node_takes_what_the_paper_says() {
    let mut map = IntervalMap::new(Intervals { addresses: 1 << 60, ..Intervals::paper() });
    fill(&mut map, 0..4096);
    let (full, upper) = (40 + 512 + 2 + 4 * 4097, 40 + 2 * 4 + 8 + 4096);
    assert_eq!((map.stats.bytes, MapNode::full_bytes(4096)), (full + upper, full));
    discard(&mut map, (0..4096).filter(|page| page % 32 != 5));
    assert_eq!(map.stats.bytes, full + upper, "not compacted yet");
    map.advance(30_000 * MS);
    // 128 runs of one page, 31 apart; the span is what lies between the first and the last.
    let span: u64 = 127 * 32 + 1;
    let compacted = 40 + span.div_ceil(8) + 2 * span.div_ceil(31) + 4 * 2 * 128;
    assert_eq!(map.stats.bytes, compacted + upper);
    assert_eq!((map.stats.uncompacted_bytes, map.stats.peak_bytes), (full + upper, full + upper));
    assert_eq!((map.get(5), map.get(6), map.get(4096 - 27)), (5, UNMAPPED, 4069));
    // Holes below 16 pages keep their words.
    let mut joined = IntervalMap::new(Intervals { addresses: 1 << 60, ..Intervals::paper() });
    fill(&mut joined, 0..4096);
    discard(&mut joined, (0..4096).filter(|page| page % 8 != 0 || *page >= 1024));
    joined.advance(30_000 * MS);
    let span: u64 = 127 * 8 + 1;
    assert_eq!(joined.stats.bytes, 40 + span.div_ceil(8) + 2 + 4 * (1 + span) + upper);
    assert_eq!((joined.get(1016), joined.get(1017)), (1016, UNMAPPED));
}

/// A log that moves on leaves nothing behind but its root.
#[test]
fn a_log_that_moves_on_takes_constant_memory() {
    let mut map = IntervalMap::new(Intervals { zone_nodes: 16, ..Intervals::paper() });
    let (start, window) = (1u64 << 45, 3 * 4096);
    let mut peak_early = 0;
    for page in 0..40 * 16 * 4096u64 {
        map.set(start + page, page as u32);
        if page >= window {
            map.unset(start + page - window);
        }
        if page == 16 * 4096 * 4 {
            peak_early = map.stats.peak_bytes;
        }
    }
    assert!(map.stats.peak_bytes < peak_early + 4096, "{} after {peak_early}", map.stats.peak_bytes);
    let mut found = Vec::new();
    map.check(&mut found);
    assert!(found.is_empty(), "{found:?}");
}

/// Slices of one node let the host in between; a pass at a stop does not.
#[test]
fn a_pass_takes_the_firmwares_time() {
    for (slice_nodes, longest, until) in [(0, 8, 18), (1, 1, 11), (3, 3, 13)] {
        let mut shape = small(1);
        (shape.compaction.slice_nodes, shape.compaction.scan) = (slice_nodes, Duration::from_millis((1 << 20) / 64));
        let mut map = IntervalMap::new(shape);
        fill(&mut map, 0..64 * 8);
        discard(&mut map, (0..64 * 8).step_by(2));
        map.advance(10 * MS - 1);
        assert_eq!((map.busy_until(), map.stats.nodes_scanned), (0, 0));
        map.advance(10 * MS);
        assert_eq!(map.busy_until(), until * MS, "{slice_nodes} nodes a slice");
        map.advance(100 * MS);
        let stats = map.stats();
        assert_eq!((stats.stall_ns, stats.longest_stall_ns), (8 * MS, longest * MS));
        assert_eq!((stats.passes, stats.nodes_scanned), (1, 8));
        map.unset(1);
        map.restart();
        assert_eq!(map.busy_until(), 0);
        map.advance(10 * MS);
        assert_eq!(map.stats().passes, 2);
    }
}
