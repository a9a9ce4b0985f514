//! How a volume collects: techniques that can be chosen one by one, and presets that name combinations of them.

use crate::error::{Error, Result};
use crate::options::{Allocation, parse_size};
use std::time::Duration;
use steadyfs_format::{BLOCK_SIZE, BLOCKS_PER_SEG};

/// Who collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcCollectors {
    /// Whoever needs room, one at a time: F2FS.
    Writers,
    /// So many threads of the volume's own.
    Threads(u32),
    /// One thread for each core.
    PerCore,
    /// Whoever needs room, one at a time, with so many threads that share a victim of which more than half is valid:
    /// P-GC.
    Split(u32),
}

/// Where a collector puts the data that it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcStream {
    /// All into the cold data log, beside what is written there otherwise.
    Shared,
    /// Each into a segment of its own ("dedicated write stream").
    Dedicated,
}

/// How many logs take what users write to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataLogs {
    /// So many. One is the warm data log of the format.
    Count(u32),
    /// One for each core: MAX.
    PerCore,
}

/// How those are counted who change the volume, for whom a checkpoint waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpCounters {
    /// All together: F2FS.
    Shared,
    /// Each core by itself ("reader pass-through semaphore"): MAX.
    PerCore,
}

/// What keeps the state of segments together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcMeta {
    /// One lock for all, taken for each block: F2FS.
    Locked,
    /// None: the map and the count of a segment change one after the other ("loosely synchronised").
    Loose,
}

/// What a collector keeps from direct I/O and from whoever cuts or moves contents, while it moves blocks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcProtect {
    /// The whole file, also from other collectors: F2FS.
    File,
    /// The pages that it moves ("scalable victim protection").
    Page,
}

/// Where the contents of blocks are while they move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcBuffer {
    /// In the page cache of their file, read block by block: F2FS.
    Cache,
    /// In memory of the collector's own ("dedicated page buffer").
    Dedicated,
}

/// How collectors choose victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcSelect {
    /// One after the other, the best victim of a search each time.
    Locked,
    /// All at the same time, several victims in one search ("concurrent victim selection").
    Concurrent,
}

/// How a volume collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcOptions {
    /// Who collects.
    pub collectors: GcCollectors,
    /// Where moved data goes.
    pub stream: GcStream,
    /// Streams of each collector: data that has been moved once, twice and so on go to different ones. From 1.
    pub generations: u8,
    /// Collectors make room after nothing has been asked of the volume for so long; `None`: only when room gets short.
    pub idle: Option<Duration>,
    /// What keeps the state of segments together.
    pub meta: GcMeta,
    /// What is kept from others while it is moved.
    pub protect: GcProtect,
    /// Where blocks are while they move.
    pub buffer: GcBuffer,
    /// How victims are chosen.
    pub select: GcSelect,
    /// Victims that a collector with a thread of its own has in hand: one is moved while the others are read. From 1.
    pub victims: u8,
    /// What a collector may have in memory, in bytes: what it has read, until it has been written. `None`: a share of
    /// `ALL_BUFFERS`.
    pub buffer_size: Option<u64>,
    /// Where data goes that users write, the files spread over several logs by their numbers.
    pub data_logs: DataLogs,
    /// How changes of the volume are counted.
    pub cp_lock: CpCounters,
    /// How logs get segments in the system that the preset is named for: what a mount does that does not say `mode=`.
    pub allocation: Allocation,
}

/// The presets, with what they stand for. F2FS is what they differ from: the default of Linux, then `mode=lfs`.
pub(crate) const PRESETS: [(&str, GcOptions); 9] = [
    ("scalelfs", SCALELFS),
    ("steady", STEADY),
    ("f2fs", GcOptions { allocation: Allocation::Adaptive, ..F2FS_LFS }),
    ("f2fs-lfs", F2FS_LFS),
    ("f2fs-m", GcOptions { allocation: Allocation::Adaptive, ..F2FS_LM }),
    ("f2fs-lm", F2FS_LM),
    // ScaleLFS' Table 3 calls it "simply parallel".
    ("spgc", F2FS_LM),
    ("pgc", PGC),
    ("max", MAX),
];

/// F2FS in `mode=lfs`: writers collect, one at a time.
const F2FS_LFS: GcOptions = GcOptions {
    collectors: GcCollectors::Writers,
    stream: GcStream::Shared,
    generations: 1,
    idle: None,
    meta: GcMeta::Locked,
    protect: GcProtect::File,
    buffer: GcBuffer::Dedicated,
    select: GcSelect::Locked,
    victims: 1,
    buffer_size: None,
    data_logs: DataLogs::Count(1),
    cp_lock: CpCounters::Shared,
    allocation: Allocation::Lfs,
};

/// F2FS with many collectors, and nothing changed for them.
const F2FS_LM: GcOptions = GcOptions { collectors: GcCollectors::PerCore, ..F2FS_LFS };

/// P-GC: F2FS in `mode=lfs` with 32 threads at one victim, as in ScaleLFS' artifact.
const PGC: GcOptions = GcOptions { collectors: GcCollectors::Split(32), ..F2FS_LFS };

/// MAX (ATC '21): F2FS with independent logs, one for each core, and a checkpoint lock that changes pass through;
/// collection is F2FS' own.
const MAX: GcOptions = GcOptions {
    data_logs: DataLogs::PerCore,
    cp_lock: CpCounters::PerCore,
    allocation: Allocation::Adaptive,
    ..F2FS_LFS
};

/// ScaleLFS: a collector on each core, with a stream of its own.
const SCALELFS: GcOptions = GcOptions {
    collectors: GcCollectors::PerCore,
    stream: GcStream::Dedicated,
    generations: 1,
    idle: None,
    meta: GcMeta::Loose,
    protect: GcProtect::Page,
    buffer: GcBuffer::Dedicated,
    select: GcSelect::Concurrent,
    victims: 4,
    buffer_size: None,
    data_logs: DataLogs::Count(1),
    cp_lock: CpCounters::Shared,
    allocation: Allocation::Lfs,
};

/// What goes beyond the paper: data apart by age, and collection in the gaps between requests.
const STEADY: GcOptions = GcOptions { generations: 2, idle: Some(Duration::from_millis(5)), ..SCALELFS };

impl Default for GcOptions {
    fn default() -> Self {
        SCALELFS
    }
}

impl GcOptions {
    /// Applies `gc=PRESET` or `gc.TECHNIQUE=CHOICE`; false if the option is neither.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) -> Result<bool> {
        let refuse = |choices: &str| {
            let given = value.map_or(String::new(), |v| format!("={v}"));
            Err(Error::Usage(format!("'{name}{given}': say {name}={choices}")))
        };
        match (name, value) {
            ("gc", Some(preset)) => match PRESETS.iter().find(|(known, _)| *known == preset) {
                Some((_, options)) => *self = *options,
                None => return refuse(&PRESETS.map(|(known, _)| known).join(" or ")),
            },
            ("gc.collectors", Some("writers")) => self.collectors = GcCollectors::Writers,
            ("gc.collectors", Some("cores")) => self.collectors = GcCollectors::PerCore,
            ("gc.collectors", Some(choice)) => {
                let (split, count) = choice.strip_prefix("split:").map_or((false, choice), |count| (true, count));
                self.collectors = match count.parse() {
                    Ok(count @ 1..=MOST_COLLECTORS) if split => GcCollectors::Split(count),
                    Ok(count @ 1..=MOST_COLLECTORS) => GcCollectors::Threads(count),
                    _ => return refuse(&format!("writers, cores, N or split:N, with N from 1 to {MOST_COLLECTORS}")),
                }
            }
            ("gc.stream", Some("shared")) => self.stream = GcStream::Shared,
            ("gc.stream", Some("dedicated")) => self.stream = GcStream::Dedicated,
            ("gc.stream", _) => return refuse("shared or dedicated"),
            ("gc.generations", Some(count)) => match count.parse() {
                Ok(count @ 1..=MOST_GENERATIONS) => self.generations = count,
                _ => return refuse(&format!("a number from 1 to {MOST_GENERATIONS}")),
            },
            ("gc.idle", Some("off")) => self.idle = None,
            ("gc.idle", Some(ms)) => match ms.parse() {
                Ok(ms @ 1..=LONGEST_IDLE_MS) => self.idle = Some(Duration::from_millis(ms)),
                _ => return refuse(&format!("off, or milliseconds from 1 to {LONGEST_IDLE_MS}")),
            },
            ("gc.meta", Some("locked")) => self.meta = GcMeta::Locked,
            ("gc.meta", Some("loose")) => self.meta = GcMeta::Loose,
            ("gc.meta", _) => return refuse("locked or loose"),
            ("gc.protect", Some("file")) => self.protect = GcProtect::File,
            ("gc.protect", Some("page")) => self.protect = GcProtect::Page,
            ("gc.protect", _) => return refuse("file or page"),
            ("gc.buffer", Some("cache")) => self.buffer = GcBuffer::Cache,
            ("gc.buffer", Some("dedicated")) => self.buffer = GcBuffer::Dedicated,
            ("gc.buffer", _) => return refuse("cache or dedicated"),
            ("gc.select", Some("locked")) => self.select = GcSelect::Locked,
            ("gc.select", Some("concurrent")) => self.select = GcSelect::Concurrent,
            ("gc.select", _) => return refuse("locked or concurrent"),
            ("gc.victims", Some(count)) => match count.parse() {
                Ok(count @ 1..=MOST_VICTIMS) => self.victims = count,
                _ => return refuse(&format!("a number from 1 to {MOST_VICTIMS}")),
            },
            ("gc.buffer_size", Some(size)) => match parse_size(name, size)? {
                bytes @ LEAST_BUFFER..=MOST_BUFFER => self.buffer_size = Some(bytes),
                _ => return refuse("a size from 2M to 1G"),
            },
            ("data_logs", Some("cores")) => self.data_logs = DataLogs::PerCore,
            ("data_logs", Some(count)) => match count.parse() {
                Ok(count @ 1..=MOST_DATA_LOGS) => self.data_logs = DataLogs::Count(count),
                _ => return refuse(&format!("cores, or N from 1 to {MOST_DATA_LOGS}")),
            },
            ("cp_lock", Some("shared")) => self.cp_lock = CpCounters::Shared,
            ("cp_lock", Some("cores")) => self.cp_lock = CpCounters::PerCore,
            ("cp_lock", _) => return refuse("shared or cores"),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// How many logs users' data is spread over, on so many cores; 0 if it all goes to the one of the format.
    pub(crate) fn extra_logs(&self, cores: usize) -> usize {
        let wanted = match self.data_logs {
            DataLogs::Count(count) => count as usize,
            DataLogs::PerCore => cores.min(MOST_DATA_LOGS as usize),
        };
        if wanted > 1 { wanted } else { 0 }
    }

    /// What each of so many collectors may have in memory, in bytes: a segment's worth at least, for less would hold no
    /// victim.
    pub(crate) fn buffer_bytes(&self, collectors: usize) -> u64 {
        let share = ALL_BUFFERS / collectors.max(1) as u64;
        self.buffer_size.unwrap_or_else(|| share.min(ENOUGH_BUFFER)).max(LEAST_BUFFER)
    }

    /// How many threads of its own a volume wants, on so many cores.
    pub(crate) fn threads(&self, cores: usize) -> usize {
        match self.collectors {
            GcCollectors::Writers | GcCollectors::Split(_) => 0,
            GcCollectors::Threads(count) => count as usize,
            GcCollectors::PerCore => cores.clamp(1, MOST_COLLECTORS as usize),
        }
    }
}

impl GcOptions {
    /// How many threads share a victim, if any do.
    pub(crate) fn crew(&self) -> Option<usize> {
        match self.collectors {
            GcCollectors::Split(count) => Some(count as usize),
            _ => None,
        }
    }
}

/// More collectors than this are an error in the option rather than a wish.
const MOST_COLLECTORS: u32 = 1024;

/// What more of them would wait for is the device, which has enough to do by then.
const MOST_VICTIMS: u8 = 64;

/// A segment's worth.
const LEAST_BUFFER: u64 = BLOCKS_PER_SEG as u64 * BLOCK_SIZE as u64;
const MOST_BUFFER: u64 = 1 << 30;
/// What collectors may have in memory together if nothing else is said and they are few enough: ScaleLFS' 32 buffers of
/// 2 MiB.
const ALL_BUFFERS: u64 = 64 << 20;
/// What a single collector makes use of, with [`GcOptions::victims`] in hand.
const ENOUGH_BUFFER: u64 = 8 << 20;

/// Each keeps a segment open.
const MOST_DATA_LOGS: u32 = 1024;

/// Whoever waits longer than a minute wants `off`.
const LONGEST_IDLE_MS: u64 = 60_000;

/// Data that has been moved so often does not differ in its age any more.
const MOST_GENERATIONS: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_and_techniques_are_chosen_by_name_and_others_refused() {
        let mut gc = GcOptions::default();
        assert_eq!(gc, SCALELFS);
        assert!(gc.set("gc", Some("f2fs-lfs")).unwrap());
        assert_eq!((gc, gc.threads(48)), (F2FS_LFS, 0));
        assert!(gc.set("gc", Some("scalelfs")).unwrap() && gc.set("gc.generations", Some("2")).unwrap());
        assert!(gc.set("gc.idle", Some("5")).unwrap());
        assert_eq!(gc, STEADY);
        assert!(
            gc.set("gc.idle", Some("off")).unwrap() && gc.idle.is_none() && gc.set("gc", Some("f2fs-lfs")).unwrap()
        );
        assert!(gc.set("gc.collectors", Some("32")).unwrap() && gc.set("gc.stream", Some("dedicated")).unwrap());
        assert_eq!((gc.threads(2), gc.stream, gc.select), (32, GcStream::Dedicated, GcSelect::Locked));
        assert!(gc.set("gc.collectors", Some("cores")).unwrap());
        assert_eq!(gc.threads(48), 48);
        assert!(gc.set("gc.victims", Some("3")).unwrap() && gc.set("gc.buffer_size", Some("6M")).unwrap());
        assert_eq!((gc.victims, gc.buffer_bytes(48)), (3, 6 << 20));
        assert_eq!([1, 8, 16, 32, 48].map(|count| SCALELFS.buffer_bytes(count) >> 20), [8, 8, 4, 2, 2]);
        assert_eq!(
            GcOptions { buffer_size: Some(1), ..SCALELFS }.buffer_bytes(1),
            LEAST_BUFFER,
            "no victim would ever fit"
        );
        assert!(gc.set("gc", Some("pgc")).unwrap());
        assert_eq!((gc.threads(48), gc.crew(), gc.allocation), (0, Some(32), Allocation::Lfs));
        assert!(gc.set("gc", Some("f2fs-m")).unwrap());
        assert_eq!((gc.threads(48), gc.crew(), gc.allocation), (48, None, Allocation::Adaptive));
        assert!(gc.set("gc", Some("max")).unwrap());
        assert_eq!((gc.threads(48), gc.extra_logs(48), gc.allocation), (0, 48, Allocation::Adaptive));
        assert!(gc.cp_lock == CpCounters::PerCore && gc.set("cp_lock", Some("shared")).unwrap());
        assert_eq!(gc, GcOptions { cp_lock: CpCounters::Shared, ..MAX });
        assert!(gc.set("data_logs", Some("4")).unwrap());
        assert_eq!((gc.extra_logs(48), F2FS_LFS.extra_logs(48), MAX.extra_logs(1)), (4, 0, 0));
        assert!(!gc.set("gcc", Some("x")).unwrap());
        for (name, value, part) in [
            ("gc", Some("best"), "scalelfs"),
            ("gc.collectors", Some("0"), "writers"),
            ("gc.collectors", Some("split:0"), "split:N"),
            ("gc.stream", None, "dedicated"),
            ("gc.generations", Some("0"), "from 1 to"),
            ("gc.idle", Some("0"), "milliseconds"),
            ("gc.meta", Some("tight"), "locked or loose"),
            ("gc.protect", Some("inode"), "file or page"),
            ("gc.buffer", Some("none"), "cache or dedicated"),
            ("gc.select", Some("any"), "gc.select=any"),
            ("gc.victims", Some("0"), "from 1 to"),
            ("gc.buffer_size", Some("1M"), "from 2M"),
            ("gc.buffer_size", Some("x"), "gc.buffer_size"),
            ("data_logs", Some("0"), "data_logs=cores, or N from 1"),
            ("data_logs", Some("many"), "'data_logs=many'"),
            ("cp_lock", Some("none"), "shared or cores"),
        ] {
            let error = gc.set(name, value).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
