//! A set of blocks, kept as runs.

use std::collections::BTreeMap;
use std::ops::Range;
use steadyfs_format::Lba;

/// Blocks as runs that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// First block of a run -> the block behind it.
    runs: BTreeMap<u64, u64>,
    blocks: u64,
}

impl Ranges {
    /// Blocks in the set.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The runs, in rising order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<Lba>> + '_ {
        self.runs.iter().map(|(start, end)| Lba::new(*start)..Lba::new(*end))
    }

    /// Whether a block is in the set.
    pub(crate) fn contains(&self, lba: Lba) -> bool {
        self.runs.range(..=lba.get()).next_back().is_some_and(|(_, end)| lba.get() < *end)
    }

    /// Whether any block of a run is.
    pub(crate) fn touches(&self, run: &Range<Lba>) -> bool {
        self.runs.range(..run.end.get()).next_back().is_some_and(|(_, end)| run.start.get() < *end)
    }

    /// Adds a run; false, and nothing happens, if one of its blocks is in the set already.
    pub(crate) fn insert(&mut self, run: Range<Lba>) -> bool {
        if run.start >= run.end || self.touches(&run) {
            return run.start >= run.end;
        }
        let (mut start, mut end) = (run.start.get(), run.end.get());
        self.blocks += end - start;
        if let Some((before, stop)) = self.runs.range(..start).next_back().map(|(s, e)| (*s, *e))
            && stop == start
        {
            start = before;
        }
        if let Some(after) = self.runs.remove(&end) {
            end = after;
        }
        self.runs.insert(start, end);
        true
    }

    /// Adds all runs of another set that has none of these blocks.
    pub(crate) fn absorb(&mut self, other: Ranges) {
        if self.is_empty() {
            *self = other;
            return;
        }
        for run in other.iter() {
            let fresh = self.insert(run);
            assert!(fresh, "a block is in two sets of dead ones");
        }
    }

    /// Takes a run out, as far as it is in the set.
    pub(crate) fn remove(&mut self, run: &Range<Lba>) {
        let (start, end) = (run.start.get(), run.end.get());
        while let Some((s, e)) = self.runs.range(..end).next_back().map(|(s, e)| (*s, *e)).filter(|(_, e)| *e > start) {
            self.runs.remove(&s);
            self.blocks -= e.min(end) - s.max(start);
            if s < start {
                self.runs.insert(s, start);
            }
            if e > end {
                self.runs.insert(end, e);
            }
        }
    }

    /// Takes the first runs out, at most `most`, and none longer than `longest`: of a longer one its parts count, and
    /// stay apart.
    pub(crate) fn take_first(&mut self, most: usize, longest: u64) -> Ranges {
        let mut taken = Ranges::default();
        while taken.runs.len() < most
            && let Some((start, whole)) = self.runs.pop_first()
        {
            let end = whole.min(start.saturating_add(longest));
            if end < whole {
                self.runs.insert(end, whole);
            }
            self.blocks -= end - start;
            taken.blocks += end - start;
            taken.runs.insert(start, end);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn run(start: u64, end: u64) -> Range<Lba> {
        Lba::new(start)..Lba::new(end)
    }

    #[test]
    fn neighbours_become_one_run_and_a_second_death_is_seen() {
        let mut set = Ranges::default();
        assert!(set.insert(run(10, 12)) && set.insert(run(14, 15)) && set.insert(run(12, 14)));
        assert_eq!(set.iter().collect::<Vec<_>>(), [run(10, 15)]);
        assert!(!set.insert(run(14, 20)) && !set.insert(run(5, 11)));
        assert_eq!(set.blocks(), 5);
    }

    #[test]
    fn what_is_taken_is_short_and_the_rest_stays() {
        let mut set = Ranges::default();
        assert!(set.insert(run(0, 5)) && set.insert(run(10, 1 << 60)));
        let taken = set.take_first(3, 4);
        assert_eq!(taken.iter().collect::<Vec<_>>(), [run(0, 4), run(4, 5), run(10, 14)]);
        assert_eq!((taken.blocks(), set.blocks()), (9, (1 << 60) - 14));
        assert_eq!(set.iter().collect::<Vec<_>>(), [run(14, 1 << 60)]);
    }

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((any::<bool>(), 0u64..60, 1u64..9), 1..60)) {
            let (mut set, mut model) = (Ranges::default(), BTreeSet::new());
            for (adds, start, count) in steps {
                let blocks = start..start + count;
                if adds {
                    let fresh = blocks.clone().all(|block| !model.contains(&block));
                    prop_assert_eq!(set.insert(run(start, start + count)), fresh);
                    if fresh {
                        model.extend(blocks);
                    }
                } else {
                    set.remove(&run(start, start + count));
                    blocks.for_each(|block| {
                        model.remove(&block);
                    });
                }
                let found: Vec<u64> = set.iter().flat_map(|run| run.start.get()..run.end.get()).collect();
                prop_assert_eq!(&found, &model.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(set.blocks(), model.len() as u64);
                prop_assert!((0..70).all(|block| set.contains(Lba::new(block)) == model.contains(&block)));
            }
        }
    }
}
