//! Choosing victims without a volume: a segment table of any size and collectors that search it, for experiments with
//! volumes that are too large to be made.
//!
//! Of a volume there is only what a search sees: segments with maps and counts of valid blocks, which lose blocks
//! while others search. A segment that was cleaned is written full again at once. Searches are those of the collectors
//! of a volume (`victim`), and so is the table.

use super::victim::{Effort, ManyVictims, Minds, OneVictim, Reach, Select, Victim};
use crate::options::techniques::{GcOptions, GcSelect};
use crate::reclaim::report::Urgency;
use crate::volume::segments::locks::SegLocks;
use crate::volume::segments::table::{BLOCKS, SegTable, SitRecord};
use std::sync::Arc;
use steadyfs_format::{Layout, Lba, Log, SegNo};

/// A segment table with collectors. Sections have one segment.
pub struct VictimStand {
    segs: SegTable,
    layout: Layout,
    collectors: Vec<Box<dyn Select>>,
}

/// A victim that a collector has claimed; it has to go back to [`VictimStand::clean`].
#[derive(Debug)]
pub struct StandVictim {
    victim: Victim,
    /// Blocks that were valid when it was taken.
    pub valid: u32,
}

impl StandVictim {
    /// Its number.
    pub fn segment(&self) -> u32 {
        self.victim.sec.get()
    }

    /// What finding it took.
    pub fn effort(&self) -> Effort {
        self.victim.effort
    }

    /// Whether it had another number of valid blocks when it was found.
    pub fn is_stale(&self) -> bool {
        self.victim.stale
    }
}

impl VictimStand {
    /// A table of `segments` segments, all free, with the locks of these options, and collectors that search it as
    /// these options say.
    pub fn new(segments: u32, options: &GcOptions, reach: Reach, collectors: usize) -> Self {
        let layout = layout(segments);
        let minds = Arc::new(Minds::new(&layout, collectors, reach, options.victims_by));
        let collectors = (0..collectors).map(|number| -> Box<dyn Select> {
            match options.select {
                GcSelect::Locked => Box::new(OneVictim::new(reach, options.victims_by)),
                GcSelect::Concurrent => Box::new(ManyVictims::new(&minds, number, segments as usize)),
            }
        });
        VictimStand { segs: SegTable::new(&layout, SegLocks::new(options)), collectors: collectors.collect(), layout }
    }

    /// Gives a free segment `valid` valid blocks, its first ones.
    ///
    /// # Panics
    /// The segment is in use, or has fewer blocks.
    pub fn fill(&self, segment: u32, valid: u32) {
        assert!(valid <= BLOCKS);
        let mut map = [0; 64];
        (0..valid as usize).for_each(|off| map[off / 8] |= 0x80 >> (off % 8));
        self.segs.load(SegNo::new(segment), &SitRecord { kind: Log::WarmData.number(), map, mtime: 0 }, false);
    }

    /// A block dies. False if it is dead already, or if the segment is being written.
    pub fn lose(&self, segment: u32, off: u32) -> bool {
        let seg = SegNo::new(segment);
        !self.segs.state(seg).is_open() && self.segs.invalidate(seg, off, 0)
    }

    /// The next victim of a collector.
    pub fn take(&self, collector: usize) -> Option<StandVictim> {
        let victim = self.collectors[collector].next(&self.segs, &self.layout, Urgency::Foreground, 0)?;
        let valid = victim.segs.iter().map(|&seg| self.segs.state(seg).count()).sum();
        Some(StandVictim { victim, valid })
    }

    /// A victim has been cleaned: its blocks are elsewhere, and the space has been written again.
    pub fn clean(&self, collector: usize, victim: StandVictim) {
        for &seg in &victim.victim.segs {
            for off in self.segs.valid_offsets(seg) {
                // Somebody else may have been first.
                let _ = self.segs.invalidate(seg, off, 0);
            }
            self.segs.unclaim(seg);
        }
        self.collectors[collector].done(victim.victim.sec);
        for &seg in &victim.victim.segs {
            // The thread that took the last block may not have got as far as to say so; then it stays as it is.
            if self.segs.state(seg).is_prefree() && self.segs.release(seg) {
                self.write_one();
            }
        }
    }

    /// Fills a free segment.
    fn write_one(&self) {
        if let Some(seg) = self.segs.open(None, Log::WarmData.number()) {
            (0..BLOCKS).for_each(|off| self.segs.mark_valid(seg, off, 0));
            self.segs.close(seg);
        }
    }
}

/// Of a volume that has nothing but a main area.
fn layout(segments: u32) -> Layout {
    let start = Lba(u64::from(BLOCKS));
    Layout {
        block_count: (u64::from(segments) + 1) * u64::from(BLOCKS),
        segment_count: segments,
        segment0: start,
        cp: start,
        sit: start,
        nat: start,
        ssa: start,
        main: start,
        sit_segments: 0,
        nat_segments: 0,
        ssa_segments: 0,
        main_segments: segments,
        sections: segments,
        segs_per_sec: 1,
        secs_per_zone: 1,
        cp_payload: 0,
        width: steadyfs_format::Width::Four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    fn stand(segments: u32, reach: Reach, collectors: usize) -> VictimStand {
        let stand = VictimStand::new(segments, &GcOptions::default(), reach, collectors);
        // All counts from 1 to 511 equally often, in no order.
        (0..segments).for_each(|seg| stand.fill(seg, 1 + (seg.wrapping_mul(0x9E37_79B1) >> 8) % 511));
        stand
    }

    #[test]
    fn a_search_of_a_huge_volume_still_selects_and_is_no_longer_than_one_of_a_large_volume() {
        for segments in [70_000, 300_000] {
            let stand = stand(segments, Reach::of(segments as usize), 16);
            let (mut looked, mut valid) = (0, 0);
            for round in 0..128 {
                let victim = stand.take(round % 16).unwrap();
                looked += victim.effort().looked;
                valid += victim.valid;
                stand.clean(round % 16, victim);
            }
            // The best 64 of 4096 have 4 valid blocks on average, the cheapest 8 of those fewer.
            assert!(valid <= 128 * 4, "{valid} valid blocks in 128 victims");
            assert!(looked <= 16 * 4096 + 128 * 64, "{looked} candidates looked at for 128 victims");
        }
        assert_eq!(Reach::of(3_660_000).kept, 64, "one of 64");
        assert_eq!(Reach::of(15_360).kept, 16, "0.1 %, rounded up");
    }

    #[test]
    fn of_threads_that_search_and_clean_side_by_side_each_has_its_victims_alone() {
        const SEGMENTS: u32 = 4000;
        let stand = Arc::new(stand(SEGMENTS, Reach::of(SEGMENTS as usize), 4));
        let busy: Arc<Vec<AtomicBool>> = Arc::new((0..SEGMENTS).map(|_| AtomicBool::new(false)).collect());
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let (stand, busy) = (Arc::clone(&stand), Arc::clone(&busy));
                steadyfs_rt::spawn("collector", move || {
                    for round in 0..400u32 {
                        let victim = stand.take(number).unwrap();
                        let mine = &busy[victim.segment() as usize];
                        assert!(!mine.swap(true, SeqCst), "two have segment {}", victim.segment());
                        (0..50).for_each(|n| {
                            let place = (round * 50 + n).wrapping_mul(0x9E37_79B1) >> 4;
                            stand.lose(place / 512 % SEGMENTS, place % 512);
                        });
                        mine.store(false, SeqCst);
                        stand.clean(number, victim);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
