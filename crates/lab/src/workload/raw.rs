//! Writes to the device itself, without a file system: what a drive does by itself under a workload.
//!
//! A region at the start of the device is overwritten, 4 KiB or more at a time; a cold part at its end is written once,
//! in order, before anything is measured, as files that lie beside it would be. `rate_iops` is the most that the host
//! can ask for in a second, as a thread that copies into a page cache has a limit of its own: what a slow device makes
//! it miss is not made up for.

use super::Options;
use super::fio::{Generator, JobKind};
use super::offsets::{Lfsr, Map, Offsets};
use crate::rng::Rng;
use crate::spec::Size;
use serde::{Deserialize, Serialize};

const PAGE: u64 = 4096;

/// The options; those that fio has too mean the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Raw {
    /// `write` or `randwrite`.
    pub(crate) rw: JobKind,
    /// Bytes of one write.
    #[serde(default = "page")]
    pub(crate) bs: Size,
    /// Bytes of the region, from the first of the device.
    pub(crate) size: Size,
    /// Bytes that are written in the measured phase.
    pub(crate) io_size: Size,
    /// Bytes at the end of the device that are written once before that; none if not given.
    #[serde(default)]
    pub(crate) cold: Option<Size>,
    /// Whether the region is written once before that, too.
    #[serde(default)]
    pub(crate) laid_out: bool,
    /// Writes that are under way at a time.
    #[serde(default = "one")]
    pub(crate) iodepth: u32,
    /// Most writes in a second; 0 for no limit.
    #[serde(default)]
    pub(crate) rate_iops: u64,
    /// Blocks may come again before all have come.
    #[serde(default)]
    pub(crate) norandommap: bool,
    #[serde(default)]
    pub(crate) random_generator: Generator,
}

fn page() -> Size {
    Size::of(PAGE)
}

fn one() -> u32 {
    1
}

impl Raw {
    /// The same on a device that is smaller by a factor.
    pub(crate) fn scaled(mut self, factor: f64) -> Self {
        let unit = self.bs.bytes();
        self.size = self.size.times(factor, unit);
        self.io_size = self.io_size.times(factor, unit);
        self.cold = self.cold.map(|size| size.times(factor, PAGE));
        self
    }

    /// Pages of the region.
    pub(crate) fn pages(&self) -> u64 {
        self.blocks() * self.bs.bytes() / PAGE
    }

    /// Pages of the cold part.
    pub(crate) fn cold_pages(&self) -> u64 {
        self.cold.map_or(0, |size| size.bytes() / PAGE)
    }

    /// Writes of the measured phase.
    pub(crate) fn writes(&self) -> u64 {
        (self.io_size.bytes() / self.bs.bytes()).max(1)
    }

    fn blocks(&self) -> u64 {
        self.size.bytes() / self.bs.bytes()
    }

    /// The blocks that are written, one after the other.
    pub(crate) fn offsets(&self, seed: u64) -> Offsets {
        let (rng, blocks) = (Rng::new(seed, 1), self.blocks());
        match self.rw {
            JobKind::Write => Offsets::Sequential { next: [0; 2], blocks },
            _ if self.random_generator == Generator::Lfsr => Offsets::Lfsr(Lfsr::new(rng, blocks)),
            _ if self.norandommap => Offsets::Uniform { rng, blocks },
            _ => Offsets::Mapped(Map::new(rng, blocks)),
        }
    }
}

impl Options for Raw {
    fn check(&self) -> Result<(), String> {
        let bs = self.bs.bytes();
        if !matches!(self.rw, JobKind::Write | JobKind::Randwrite) {
            return Err("workload.rw: a device is written: say write or randwrite".into());
        }
        if bs == 0 || !bs.is_multiple_of(PAGE) || bs > 64 << 20 {
            return Err(format!("workload.bs: {bs} is no multiple of 4096 up to 64M"));
        }
        if self.blocks() == 0 || self.blocks() >= 1 << 32 {
            return Err(format!("workload.size: {} bytes hold no block of {bs}, or too many", self.size.bytes()));
        }
        if self.iodepth == 0 || self.iodepth > 4096 {
            return Err("workload.iodepth is between 1 and 4096".into());
        }
        Ok(())
    }

    fn file_bytes(&self) -> u64 {
        (self.pages() + self.cold_pages()) * PAGE
    }
}
