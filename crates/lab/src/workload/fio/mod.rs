//! Jobs as fio has them: the same names, the same meaning, the same defaults.
//!
//! Each job has a file of its own before the measured phase, one after the other, as with fio's `create_serialize`.
//! What is in it is fio's choice too, unless `layout` says otherwise: jobs that read find it written and synced
//! (`create_fsync`), jobs that only write find its space preallocated (`fallocate=native`) and nothing in it. Then
//! every job does I/O until its amount or its time is over. An I/O depth above one is that many tasks on the job's
//! file. What differs: blocks are whole pages of 4 KiB, and what is written is not random bytes but says what it is
//! (`content`).
//!
//! A job that moves more than its file does so in passes, and with `randrepeat`, fio's default, every pass is as the
//! first: the same blocks in the same order, the same mix. Jobs that time ends go on with new random numbers.
//! `against_fio` compares all this with fio itself.

#[cfg(test)]
mod against_fio;
mod jobs;

use super::offsets::{Lfsr, Map, Offsets, Zipf};
use super::{Act, Options, Plan};
use crate::rng::Rng;
use crate::spec::Size;
use crate::stage::{Content, Stage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const PAGE: u64 = 4096;

/// The options, by fio's names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fio {
    pub(crate) rw: JobKind,
    /// Reads in a hundred of a mixed workload.
    #[serde(default = "fifty")]
    pub(crate) rwmixread: u32,
    /// Bytes of one I/O.
    #[serde(default = "four_kib")]
    pub(crate) bs: Size,
    /// Bytes of each job's file.
    pub(crate) size: Size,
    /// Instead of `size`: hundredths of the users' space that the files of all jobs take together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fill: Option<u32>,
    /// Bytes that each job reads and writes; the size of its file if not given.
    #[serde(default)]
    pub(crate) io_size: Option<Size>,
    /// Seconds after which the jobs end in any case.
    #[serde(default)]
    pub(crate) runtime: Option<f64>,
    /// Whether the jobs go on until `runtime`, whatever the amount.
    #[serde(default)]
    pub(crate) time_based: bool,
    #[serde(default = "one")]
    pub(crate) numjobs: u32,
    #[serde(default = "one")]
    pub(crate) iodepth: u32,
    /// Past the page cache.
    #[serde(default)]
    pub(crate) direct: bool,
    /// An fsync after so many writes; 0 for none.
    #[serde(default)]
    pub(crate) fsync: u32,
    #[serde(default)]
    pub(crate) fdatasync: u32,
    /// Microseconds that a job pauses after each `thinktime_blocks` blocks.
    #[serde(default)]
    pub(crate) thinktime: u64,
    #[serde(default = "one")]
    pub(crate) thinktime_blocks: u32,
    /// An fsync when a pass over the file ends.
    #[serde(default)]
    pub(crate) end_fsync: bool,
    /// Blocks may come again before all have come.
    #[serde(default)]
    pub(crate) norandommap: bool,
    #[serde(default)]
    pub(crate) random_generator: Generator,
    /// Every pass over the file draws the same random numbers.
    #[serde(default = "yes")]
    pub(crate) randrepeat: bool,
    /// `random`, or `zipf:THETA`.
    #[serde(default)]
    pub(crate) random_distribution: RandomDistribution,
    /// What the jobs' files are before they begin; fio's own choice if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) layout: Option<FileLayout>,
}

/// What a job's file is before the job begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileLayout {
    /// Written in full and synced: fio's way for jobs that read, or with its `overwrite=1`.
    Written,
    /// Of full size, with its space reserved and nothing written: fio's way for jobs that only write.
    Fallocate,
    /// Empty, as with fio's `fallocate=none`.
    None,
}

/// What the jobs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JobKind {
    Read,
    Write,
    Randread,
    Randwrite,
    Rw,
    Randrw,
}

/// Where random numbers come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Generator {
    #[default]
    Tausworthe,
    Lfsr,
}

/// How likely each block is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum RandomDistribution {
    #[default]
    Random,
    Zipf(f64),
}

impl TryFrom<String> for RandomDistribution {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let zipf = || text.strip_prefix("zipf:")?.parse().ok().filter(|theta| *theta > 0.0 && *theta < 100.0);
        match text.as_str() {
            "random" => Ok(RandomDistribution::Random),
            _ => match zipf() {
                Some(theta) if theta != 1.0 => Ok(RandomDistribution::Zipf(theta)),
                _ => Err(format!("'{text}': say random, or zipf:THETA with a THETA above 0 that is not 1")),
            },
        }
    }
}

impl From<RandomDistribution> for String {
    fn from(distribution: RandomDistribution) -> String {
        match distribution {
            RandomDistribution::Random => "random".into(),
            RandomDistribution::Zipf(theta) => format!("zipf:{theta}"),
        }
    }
}

fn fifty() -> u32 {
    50
}

fn four_kib() -> Size {
    Size::of(PAGE)
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

impl Fio {
    /// The same with smaller files and amounts; times stay.
    pub(crate) fn scaled(mut self, factor: f64) -> Self {
        self.size = self.size.times(factor, self.bs.bytes());
        self.io_size = self.io_size.map(|amount| amount.times(factor, self.bs.bytes()));
        self
    }

    /// Whole blocks of each file.
    pub(crate) fn blocks(&self) -> u64 {
        self.size.bytes() / self.bs.bytes()
    }

    /// What the files are before the jobs begin.
    pub(crate) fn layout(&self) -> FileLayout {
        self.layout.unwrap_or(if self.reads() { FileLayout::Written } else { FileLayout::Fallocate })
    }

    fn reads(&self) -> bool {
        !matches!(self.rw, JobKind::Write | JobKind::Randwrite)
    }

    /// Pages of an I/O.
    pub(crate) fn pages_per_io(&self) -> u64 {
        self.bs.bytes() / PAGE
    }

    /// I/Os of each job, unless time ends them.
    pub(crate) fn ios(&self) -> u64 {
        match self.io_size {
            _ if self.time_based => u64::MAX,
            Some(amount) => amount.bytes().div_ceil(self.bs.bytes()).max(1),
            None => self.blocks(),
        }
    }

    fn offsets(&self, rng: Rng) -> Offsets {
        let blocks = self.blocks();
        match (self.rw, self.random_distribution) {
            (JobKind::Read | JobKind::Write | JobKind::Rw, _) => Offsets::Sequential { next: [0; 2], blocks },
            (_, RandomDistribution::Zipf(theta)) => Offsets::Zipf(Box::new(Zipf::new(rng, blocks, theta))),
            _ if self.random_generator == Generator::Lfsr => Offsets::Lfsr(Lfsr::new(rng, blocks)),
            _ if self.norandommap => Offsets::Uniform { rng, blocks },
            _ => Offsets::Mapped(Map::new(rng, blocks)),
        }
    }
}

impl Options for Fio {
    fn check(&self) -> Result<(), String> {
        let bs = self.bs.bytes();
        if bs == 0 || !bs.is_multiple_of(PAGE) || bs > 64 << 20 {
            return Err(format!("workload.bs: {bs} is no multiple of 4096 up to 64M"));
        }
        if self.size.bytes() < bs || self.size.bytes() / bs >= 1 << 32 {
            return Err(format!("workload.size: {} bytes hold no block of {bs}, or too many", self.size.bytes()));
        }
        if self.numjobs == 0 || self.numjobs > 4096 || self.iodepth == 0 || self.iodepth > 4096 {
            return Err("workload.numjobs and workload.iodepth are between 1 and 4096".into());
        }
        if self.fill.is_some_and(|percent| percent == 0 || percent > 100) {
            return Err("workload.fill is a share in hundredths, from 1 to 100".into());
        }
        if self.rwmixread > 100 {
            return Err(format!("workload.rwmixread: {} of a hundred", self.rwmixread));
        }
        if self.runtime.is_some_and(|seconds| !(seconds > 0.0 && seconds < 1e7)) {
            return Err("workload.runtime is a number of seconds above 0".into());
        }
        if self.thinktime_blocks == 0 || self.thinktime > 0 && self.iodepth > 1 {
            return Err("workload.thinktime needs iodepth=1 and thinktime_blocks above 0".into());
        }
        if self.layout.is_some_and(|layout| layout != FileLayout::Written) && self.reads() {
            return Err("workload.layout: jobs that read need files that are written".into());
        }
        if self.time_based && self.runtime.is_none() {
            return Err("workload.time_based needs workload.runtime".into());
        }
        Ok(())
    }

    fn file_bytes(&self) -> u64 {
        (self.blocks() * self.bs.bytes()).saturating_mul(u64::from(self.numjobs))
    }
}

impl Plan for Fio {
    fn act(&self, stage: &Arc<Stage>) -> Box<dyn Act> {
        Box::new(jobs::Jobs::new(self, stage))
    }
}

/// Reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

impl Kind {
    /// The word for it in figures.
    fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
        }
    }
}

/// What a job does next.
pub(crate) struct Io {
    pub(crate) kind: Kind,
    /// First page.
    pub(crate) page: u64,
    /// Of a write.
    pub(crate) pages: Vec<steadyfs_device::PageBuf>,
    /// An fsync comes before: the pass over the file has ended.
    pub(crate) sync_first: bool,
    /// An fsync follows; true for one of data alone.
    pub(crate) sync: Option<bool>,
}

/// The choices of one job, and what its file holds.
pub(crate) struct Job {
    options: Fio,
    offsets: Offsets,
    mix: Rng,
    /// The random numbers of the mix as they were in the beginning.
    mix_first: Rng,
    /// What the file holds.
    pub(crate) content: Content,
    left: u64,
    writes: u64,
}

impl Job {
    /// The job with this number in a run with this seed.
    pub(crate) fn new(options: &Fio, number: u32, seed: u64) -> Self {
        let stream = |purpose: u64| Rng::new(seed, u64::from(number) << 8 | purpose);
        Job {
            offsets: options.offsets(stream(1)),
            mix: stream(2),
            mix_first: stream(2),
            content: Content::new(number, seed, options.blocks() * options.pages_per_io()),
            left: options.ios(),
            writes: 0,
            options: options.clone(),
        }
    }

    /// The next I/O; `None` when the amount is done.
    pub(crate) fn next(&mut self) -> Option<Io> {
        self.left = self.left.checked_sub(1)?;
        let (kind, block, again) = self.place();
        let sync_first = again && self.options.end_fsync;
        let count = self.options.pages_per_io();
        let page = block * count;
        if kind == Kind::Read {
            return Some(Io { kind, page, pages: Vec::new(), sync_first, sync: None });
        }
        self.writes += 1;
        // fio looks whether a sync is due before the next I/O, so none follows the last one.
        let due = |every: u32| self.left > 0 && every > 0 && self.writes.is_multiple_of(u64::from(every));
        let sync = if due(self.options.fsync) { Some(false) } else { due(self.options.fdatasync).then_some(true) };
        Some(Io { kind, page, pages: self.content.next(page, count), sync_first, sync })
    }

    /// Whether to read or to write, which block, and whether it is the first of another pass.
    fn place(&mut self) -> (Kind, u64, bool) {
        let mut again = false;
        loop {
            let kind = match self.options.rw {
                JobKind::Read | JobKind::Randread => Kind::Read,
                JobKind::Write | JobKind::Randwrite => Kind::Write,
                JobKind::Rw | JobKind::Randrw if self.mix.below(100) < u64::from(self.options.rwmixread) => Kind::Read,
                JobKind::Rw | JobKind::Randrw => Kind::Write,
            };
            let lane = kind as usize;
            if let Some(block) = self.offsets.next(lane) {
                return (kind, block, again);
            }
            if self.options.time_based {
                self.offsets.wrap(lane);
                if let Some(block) = self.offsets.next(lane) {
                    return (kind, block, false);
                }
            }
            self.offsets.rewind(self.options.randrepeat);
            if self.options.randrepeat {
                self.mix = self.mix_first.clone();
            }
            again = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fio(text: &str) -> Fio {
        let fio: Fio = toml::from_str(text).unwrap();
        fio.check().unwrap();
        fio
    }

    fn all(options: &Fio) -> Vec<Io> {
        let mut job = Job::new(options, 0, 1);
        std::iter::from_fn(|| job.next()).collect()
    }

    #[test]
    fn amounts_mixes_and_syncs_are_those_that_were_asked_for() {
        let ios = all(&fio("rw = 'randrw'\nrwmixread = 70\nsize = '4M'\nio_size = '40M'\nfsync = 8\nfdatasync = 3"));
        assert_eq!(ios.len(), 10240);
        let reads = ios.iter().filter(|io| io.kind == Kind::Read).count();
        assert!((7000..7340).contains(&reads), "{reads} reads");
        let writes: Vec<&Io> = ios.iter().filter(|io| io.kind == Kind::Write).collect();
        for (number, io) in (1u64..).zip(&writes) {
            let last = number == writes.len() as u64 && ios.last().is_some_and(|io| io.kind == Kind::Write);
            let due = if last {
                None
            } else if number % 8 == 0 {
                Some(false)
            } else {
                (number % 3 == 0).then_some(true)
            };
            assert_eq!(io.sync, due, "write {number}");
        }
        assert_eq!(all(&fio("rw = 'write'\nsize = '10000'")).len(), 2, "whole blocks of the file");
    }

    #[test]
    fn blocks_of_several_pages_are_aligned_and_cover_the_file() {
        let ios = all(&fio("rw = 'randwrite'\nbs = '16K'\nsize = '4M'"));
        let mut pages: Vec<u64> = ios.iter().map(|io| io.page).collect();
        pages.sort_unstable();
        assert!(pages.into_iter().eq((0..256).map(|block| block * 4)));
        assert!(ios.iter().all(|io| io.pages.len() == 4));
    }

    #[test]
    fn jobs_differ_and_the_same_job_is_the_same() {
        let options = fio("rw = 'randread'\nsize = '4M'");
        let pages = |number, seed| {
            let mut job = Job::new(&options, number, seed);
            std::iter::from_fn(|| job.next()).map(|io| io.page).collect::<Vec<_>>()
        };
        assert_eq!(pages(0, 1), pages(0, 1));
        assert!(pages(0, 1) != pages(1, 1) && pages(0, 1) != pages(0, 2));
    }

    #[test]
    fn distributions_are_read_and_written() {
        for text in ["random", "zipf:1.2", "zipf:0.9"] {
            assert_eq!(String::from(RandomDistribution::try_from(text.to_owned()).unwrap()), text);
        }
        for text in ["zipf", "zipf:1", "zipf:-1", "zipf:nan", "pareto:0.2"] {
            assert!(RandomDistribution::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
