//! How a volume collects: techniques that can be chosen one by one, and presets that name combinations of them.

use crate::options::Allocation;
use crate::options::policies::{Own, VictimPolicy};
use std::fmt;
use std::time::Duration;
use steadyfs_format::{BLOCK_SIZE, BLOCKS_PER_SEG};

/// Who collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcCollectors {
    /// Writers that need room, one at a time: F2FS.
    Writers,
    /// This number of threads of the volume's own.
    Threads(u32),
    /// One thread for each core.
    PerCore,
    /// Writers that need room, one at a time, with this number of threads that share a victim of which more than half
    /// is valid: P-GC.
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
    /// This number. One is the warm data log of the format.
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

/// What a collector keeps from direct I/O and from cuts and moves of contents, while it moves blocks of a file.
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
    /// In the page cache of their file, with a request of the kernel's for each block: F2FS.
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

/// How far a search for a victim goes while writers wait for room. At other times it stops after 4096 candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcSearch {
    /// No further than at other times.
    Bounded,
    /// Through all of the volume: F2FS.
    Whole,
}

/// A system whose techniques `as=` chooses, all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// ScaleLFS (FAST '25), the default.
    ScaleLfs,
    /// ScaleLFS with data apart by age, and collection while idle.
    Steady,
    /// F2FS by default.
    F2fs,
    /// F2FS in `mode=lfs`.
    F2fsLfs,
    /// F2FS by default, with a collector on each core and nothing changed for them.
    F2fsM,
    /// The same in `mode=lfs`: what ScaleLFS' Table 3 calls simply parallel.
    F2fsLm,
    /// P-GC.
    Pgc,
    /// MAX (ATC '21).
    Max,
}

impl System {
    /// How logs get segments in this system: what a mount does that does not say `mode=`.
    pub(crate) fn allocation(self) -> Allocation {
        match self {
            System::F2fs | System::F2fsM | System::Max => Allocation::Adaptive,
            System::ScaleLfs | System::Steady | System::F2fsLfs | System::F2fsLm | System::Pgc => Allocation::Lfs,
        }
    }
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
    /// The blocks that are kept from others while they are moved.
    pub protect: GcProtect,
    /// Where blocks are while they move.
    pub buffer: GcBuffer,
    /// How victims are chosen.
    pub select: GcSelect,
    /// How far a search for one goes while writers wait.
    pub search: GcSearch,
    /// Sections above the need at which a round of a writer ends. F2FS ends it at the need, so the next round is near.
    pub hysteresis: u8,
    /// Victims in the prefetch queue of a collector with a thread of its own: one is moved while the others are read.
    /// From 1.
    pub victims: u8,
    /// What a collector may have in memory, in bytes: what it has read, until it has been written. `None`: a share of
    /// `ALL_BUFFERS`.
    pub buffer_size: Option<u64>,
    /// Where data goes that users write, the files spread over several logs by their numbers.
    pub data_logs: DataLogs,
    /// How changes of the volume are counted.
    pub cp_lock: CpCounters,
    /// How sections are weighed, if not as F2FS does.
    pub victims_by: Option<Own<dyn VictimPolicy>>,
    /// The system that these are the techniques of, or differ from.
    pub system: System,
}

/// F2FS in `mode=lfs`: writers collect, one at a time.
const F2FS_LFS: GcOptions = GcOptions {
    collectors: GcCollectors::Writers,
    stream: GcStream::Shared,
    generations: 1,
    idle: None,
    meta: GcMeta::Locked,
    protect: GcProtect::File,
    buffer: GcBuffer::Cache,
    select: GcSelect::Locked,
    search: GcSearch::Whole,
    hysteresis: 0,
    victims: 1,
    buffer_size: None,
    data_logs: DataLogs::Count(1),
    cp_lock: CpCounters::Shared,
    victims_by: None,
    system: System::F2fsLfs,
};

/// F2FS with many collectors, and nothing changed for them.
const F2FS_LM: GcOptions = GcOptions { collectors: GcCollectors::PerCore, system: System::F2fsLm, ..F2FS_LFS };

/// P-GC: F2FS in `mode=lfs` with 32 threads at one victim, as in ScaleLFS' artifact.
const PGC: GcOptions = GcOptions { collectors: GcCollectors::Split(32), system: System::Pgc, ..F2FS_LFS };

/// MAX (ATC '21): F2FS with independent logs, one for each core, and a checkpoint lock that changes pass through;
/// collection is F2FS' own.
const MAX: GcOptions =
    GcOptions { data_logs: DataLogs::PerCore, cp_lock: CpCounters::PerCore, system: System::Max, ..F2FS_LFS };

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
    search: GcSearch::Bounded,
    hysteresis: 2,
    victims: 4,
    buffer_size: None,
    data_logs: DataLogs::Count(1),
    cp_lock: CpCounters::Shared,
    victims_by: None,
    system: System::ScaleLfs,
};

/// What goes beyond the paper: data apart by age, and collection in the gaps between requests.
const STEADY: GcOptions =
    GcOptions { generations: 2, idle: Some(Duration::from_millis(5)), system: System::Steady, ..SCALELFS };

impl Default for GcOptions {
    fn default() -> Self {
        SCALELFS
    }
}

impl GcCollectors {
    pub(crate) const ALLOWED: &str = "writers, cores, N or split:N, with N from 1 to 1024";

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let count = |text: &str| text.parse().ok().filter(|count| (1..=MOST_COLLECTORS).contains(count));
        match text {
            "writers" => Some(GcCollectors::Writers),
            "cores" => Some(GcCollectors::PerCore),
            _ => match text.strip_prefix("split:") {
                Some(threads) => count(threads).map(GcCollectors::Split),
                None => count(text).map(GcCollectors::Threads),
            },
        }
    }
}

impl fmt::Display for GcCollectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GcCollectors::Writers => f.write_str("writers"),
            GcCollectors::Threads(count) => write!(f, "{count}"),
            GcCollectors::PerCore => f.write_str("cores"),
            GcCollectors::Split(count) => write!(f, "split:{count}"),
        }
    }
}

impl DataLogs {
    pub(crate) const ALLOWED: &str = "cores, or a number from 1 to 1024";

    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "cores" => Some(DataLogs::PerCore),
            _ => text.parse().ok().filter(|count| (1..=MOST_DATA_LOGS).contains(count)).map(DataLogs::Count),
        }
    }
}

impl fmt::Display for DataLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataLogs::Count(count) => write!(f, "{count}"),
            DataLogs::PerCore => f.write_str("cores"),
        }
    }
}

/// [`GcOptions::idle`] from `off` or a number of milliseconds.
pub(crate) fn idle_from(text: &str) -> Option<Option<Duration>> {
    match text {
        "off" => Some(None),
        _ => {
            let ms = text.parse().ok().filter(|ms| (1..=LONGEST_IDLE_MS).contains(ms))?;
            Some(Some(Duration::from_millis(ms)))
        }
    }
}

/// The form that [`idle_from`] reads.
pub(crate) fn idle_text(idle: Option<Duration>) -> String {
    idle.map_or("off".to_owned(), |idle| idle.as_millis().to_string())
}

impl GcOptions {
    /// How this system makes room.
    pub fn of(system: System) -> Self {
        let techniques = match system {
            System::ScaleLfs => SCALELFS,
            System::Steady => STEADY,
            System::F2fs | System::F2fsLfs => F2FS_LFS,
            System::F2fsM | System::F2fsLm => F2FS_LM,
            System::Pgc => PGC,
            System::Max => MAX,
        };
        GcOptions { system, ..techniques }
    }

    /// How many logs users' data is spread over, on `cores` cores; 0 if it all goes to the one of the format.
    pub(crate) fn extra_logs(&self, cores: usize) -> usize {
        let wanted = match self.data_logs {
            DataLogs::Count(count) => count as usize,
            DataLogs::PerCore => cores.min(MOST_DATA_LOGS as usize),
        };
        if wanted > 1 { wanted } else { 0 }
    }

    /// The memory that each of `collectors` collectors may have, in bytes: a segment's worth at least, for less would
    /// hold no victim.
    pub(crate) fn buffer_bytes(&self, collectors: usize) -> u64 {
        let share = ALL_BUFFERS / collectors.max(1) as u64;
        self.buffer_size.unwrap_or_else(|| share.min(ENOUGH_BUFFER)).max(LEAST_BUFFER)
    }

    /// How many threads of its own a volume wants, on `cores` cores.
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
pub(crate) const MOST_COLLECTORS: u32 = 1024;

/// What more of them would wait for is the device, which has enough to do by then.
pub(crate) const MOST_VICTIMS: u8 = 64;

/// A segment's worth.
pub(crate) const LEAST_BUFFER: u64 = BLOCKS_PER_SEG as u64 * BLOCK_SIZE as u64;
pub(crate) const MOST_BUFFER: u64 = 1 << 30;
/// What collectors may have in memory together if nothing else is said and they are few enough: ScaleLFS' 32 buffers of
/// 2 MiB.
const ALL_BUFFERS: u64 = 64 << 20;
/// What a single collector makes use of, with [`GcOptions::victims`] in its prefetch queue.
const ENOUGH_BUFFER: u64 = 8 << 20;

/// Each keeps a segment open.
pub(crate) const MOST_DATA_LOGS: u32 = 1024;

/// A wait of more than a minute means `off`.
const LONGEST_IDLE_MS: u64 = 60_000;

/// Data that has been moved so often does not differ in its age any more.
pub(crate) const MOST_GENERATIONS: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::MountOptions;

    /// The techniques after these options.
    fn after(list: &str) -> GcOptions {
        MountOptions::parse(list).unwrap().gc
    }

    #[test]
    fn systems_have_their_threads_logs_and_modes() {
        let of = |list: &str| {
            let gc = after(list);
            (gc.threads(48), gc.crew(), gc.extra_logs(48), gc.system.allocation())
        };
        assert_eq!(GcOptions::default(), SCALELFS);
        assert_eq!(of(""), (48, None, 0, Allocation::Lfs));
        assert_eq!(of("as=f2fs-lfs"), (0, None, 0, Allocation::Lfs));
        assert_eq!(of("as=f2fs"), (0, None, 0, Allocation::Adaptive));
        assert_eq!(of("gc=f2fs-m"), (48, None, 0, Allocation::Adaptive));
        assert_eq!(of("as=pgc"), (0, Some(32), 0, Allocation::Lfs));
        assert_eq!(of("as=max"), (0, None, 48, Allocation::Adaptive));
        assert_eq!(after("as=spgc"), after("as=f2fs-lm"));
        assert_eq!(after("as=max,as=scalelfs"), SCALELFS);
    }

    #[test]
    fn who_searches_and_how_far_are_set_apart() {
        let of = |list: &str| (after(list).select, after(list).search);
        let (f2fs, scalelfs) = ((GcSelect::Locked, GcSearch::Whole), (GcSelect::Concurrent, GcSearch::Bounded));
        assert!(["", "as=steady"].iter().all(|list| of(list) == scalelfs));
        assert!(
            ["f2fs", "f2fs-lfs", "f2fs-m", "f2fs-lm", "pgc", "max"]
                .iter()
                .all(|name| of(&format!("as={name}")) == f2fs)
        );
        assert_eq!(of("as=spgc,gc.select=concurrent"), (GcSelect::Concurrent, GcSearch::Whole));
        assert_eq!(of("as=f2fs,gc.search=bounded"), (GcSelect::Locked, GcSearch::Bounded));
    }

    #[test]
    fn each_technique_differs_from_its_system_alone() {
        let steady = GcOptions { system: System::ScaleLfs, ..STEADY };
        assert_eq!(after("gc.generations=2,gc.idle=5"), steady);
        let streams = GcOptions { stream: GcStream::Dedicated, collectors: GcCollectors::Threads(32), ..F2FS_LFS };
        assert_eq!(after("as=f2fs-lfs,gc.collectors=32,gc.stream=dedicated"), streams);
        assert_eq!(after("as=max,cp_lock=shared"), GcOptions { cp_lock: CpCounters::Shared, ..MAX });
        assert_eq!((after("data_logs=4").extra_logs(48), MAX.extra_logs(1)), (4, 0));
    }

    #[test]
    fn collectors_share_the_memory_for_buffers() {
        assert_eq!(after("gc.buffer_size=6M").buffer_bytes(48), 6 << 20);
        assert_eq!([1, 8, 16, 32, 48].map(|count| SCALELFS.buffer_bytes(count) >> 20), [8, 8, 4, 2, 2]);
        let too_small = GcOptions { buffer_size: Some(1), ..SCALELFS };
        assert_eq!(too_small.buffer_bytes(1), LEAST_BUFFER, "no victim would ever fit");
    }
}
