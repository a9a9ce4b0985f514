//! The choice of victims alone, on a segment table of any size, without a volume: what searching costs on devices that
//! are too large to be filled here.
//!
//! Collectors take victims, clean each for a given time, and write it full anew, while blocks die at random places. How
//! they search is what the mount options say (`gc.select`, `gc.meta`), how far they look is `search`. The steps are in
//! `run::victims`.

use super::Options;
use crate::rng::Rng;
use serde::{Deserialize, Serialize};
use steadyfs_core::Reach;

/// Blocks of a segment.
pub(crate) const BLOCKS: u64 = 512;

/// How far a search goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Search {
    /// As on our volumes.
    #[default]
    Bounded,
    /// Through all of the volume; where several are kept, 0.1 % of the segments (ScaleLFS).
    Whole,
}

/// How valid blocks are spread over the segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shape {
    /// As after many random overwrites: all ages are equally likely, and the older a segment the fewer valid blocks,
    /// falling exponentially from `most` to `least`.
    #[default]
    Aged,
    /// All counts from `least` to `most` are equally likely.
    Uniform,
}

/// The options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Victims {
    /// Segments of the table, all in use.
    pub(crate) segments: u64,
    /// Those who collect.
    pub(crate) collectors: u32,
    /// Victims that each of them takes.
    pub(crate) victims: u32,
    #[serde(default)]
    pub(crate) search: Search,
    #[serde(default)]
    pub(crate) shape: Shape,
    /// Fewest and most valid blocks of a segment.
    pub(crate) least: u64,
    pub(crate) most: u64,
    /// Microseconds that cleaning takes, on no core.
    pub(crate) clean_us: u64,
    /// Tasks in which blocks die, and microseconds between two blocks of each.
    #[serde(default)]
    pub(crate) writers: u32,
    #[serde(default = "one")]
    pub(crate) write_us: u64,
}

fn one() -> u64 {
    1
}

impl Victims {
    /// The same on a smaller table.
    pub(crate) fn scaled(mut self, factor: f64) -> Self {
        self.segments = ((self.segments as f64 * factor) as u64).max(1);
        self
    }

    /// Victims in all.
    pub(crate) fn total(&self) -> u64 {
        u64::from(self.collectors) * u64::from(self.victims)
    }

    /// How far searches go.
    pub(crate) fn reach(&self) -> Reach {
        match self.search {
            Search::Bounded => Reach::of(self.segments as usize),
            Search::Whole => Reach::whole(self.segments as usize),
        }
    }

    /// Valid blocks of the next segment.
    pub(crate) fn valid(&self, rng: &mut Rng) -> u64 {
        let (least, most) = (self.least as f64, self.most as f64);
        match self.shape {
            Shape::Aged => (most * (least / most).powf(rng.unit())).round() as u64,
            Shape::Uniform => self.least + rng.below(self.most - self.least + 1),
        }
    }
}

impl Options for Victims {
    fn check(&self) -> Result<(), String> {
        if self.segments == 0 || self.segments > 1 << 23 {
            return Err(format!("workload.segments: {} is not between 1 and 8388608", self.segments));
        }
        if self.least == 0 || self.least > self.most || self.most > BLOCKS {
            return Err("workload.least, workload.most: say 1 <= least <= most <= 512".into());
        }
        if self.collectors == 0 || self.collectors > 4096 || self.writers > 4096 {
            return Err("workload: say 1 to 4096 collectors, and at most 4096 writers".into());
        }
        if self.victims == 0 || self.total() > self.segments {
            return Err(format!("workload.victims: {} of {} segments", self.total(), self.segments));
        }
        if self.write_us == 0 {
            return Err("workload.write_us: 0 leaves no time between two blocks".into());
        }
        Ok(())
    }

    fn file_bytes(&self) -> u64 {
        0
    }
}
