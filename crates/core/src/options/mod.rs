//! Mount options that the file system itself understands. Names are F2FS' own where the meaning is the same.
//!
//! `MountOptions::set` takes one option at a time and says whether it knows it, so that a front end can offer each
//! option to the core and to itself, and name the one that nobody knows. [`OPTIONS`] declares them all.

pub(crate) mod policies;
pub(crate) mod proof;
#[macro_use]
pub(crate) mod row;
mod table;
pub(crate) mod techniques;

use crate::error::{Error, Result};
use crate::options::policies::{Own, PlacementPolicy};
use crate::options::row::Refusal;
pub use crate::options::table::OPTIONS;
use crate::options::techniques::GcOptions;
use std::fmt;
use steadyfs_format::BLOCKS_PER_SEG;

/// How access times are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AccessTimes {
    /// Update when older than the modification, or than a day.
    #[default]
    Relative,
    /// Never update.
    Never,
    /// Update on every read.
    Strict,
}

/// How far fsync goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FsyncMode {
    /// What POSIX asks for.
    #[default]
    Posix,
    /// Also every earlier removal of a name in the directory of a new file.
    Strict,
    /// Without flushing the device's cache: for devices that lose nothing in a power cut.
    NoBarrier,
}

/// How changes of names and attributes become durable between checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum JournalMode {
    /// Those that the chain of fsynced nodes cannot repeat, by a checkpoint: Linux recovers the volume after a crash.
    #[default]
    Off,
    /// By a journal with one list of what is to be written, as in XFS. Until the volume is unmounted, or recovered
    /// after a crash, no other program opens it.
    Single,
    /// The same with two lists in turn (ScaleXFS' double committed item list): operations do not wait for a batch.
    Double,
    /// The same with two lists in turn, each a list a core (ScaleXFS' per-core in-memory logging).
    PerCore,
}

/// What of a volume is discarded after checkpoints, in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Discard {
    /// Nothing.
    #[default]
    Off,
    /// Sections that have become free: 2 MiB, unless mkfs was told otherwise.
    Segments,
    /// Also runs of this many blocks and more that have become free within a segment; from 1 to 512.
    Runs(u32),
}

impl Discard {
    /// What F2FS on Linux does: runs of 16 blocks (64 KiB) and more.
    pub const LINUX: Discard = Discard::Runs(16);

    /// What `discard=` says.
    fn parse(text: &str) -> Option<Self> {
        match text {
            "off" => Some(Discard::Off),
            "segments" => Some(Discard::Segments),
            "blocks" => Some(Discard::Runs(1)),
            other => {
                let blocks = other.strip_prefix("runs:")?.parse().ok()?;
                (1..=BLOCKS_PER_SEG).contains(&blocks).then_some(Discard::Runs(blocks))
            }
        }
    }
}

impl fmt::Display for Discard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Discard::Off => f.write_str("off"),
            Discard::Segments => f.write_str("segments"),
            Discard::Runs(1) => f.write_str("blocks"),
            Discard::Runs(blocks) => write!(f, "runs:{blocks}"),
        }
    }
}

/// Who writes dirty pages of files to the device when there are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WriteBack {
    /// The flusher, and above the limit every writer, before it makes more.
    #[default]
    Together,
    /// The flusher alone, as on Linux since 3.2, where one thread writes back for a volume: writers above the limit
    /// sleep. It goes on only while fewer than this many requests of write-back are at the device.
    Flusher(u32),
}

impl WriteBack {
    /// What Linux does: its block layer begins with 16 requests of buffered write-back (`RWB_DEF_DEPTH` of blk-wbt).
    pub const LINUX: WriteBack = WriteBack::Flusher(16);

    /// What `writeback=` says.
    fn parse(text: &str) -> Option<Self> {
        match text {
            "together" => Some(WriteBack::Together),
            "linux" => Some(WriteBack::LINUX),
            other => {
                let depth = other.strip_prefix("linux:")?.parse().ok()?;
                (1..=MOST_REQUESTS).contains(&depth).then_some(WriteBack::Flusher(depth))
            }
        }
    }
}

impl fmt::Display for WriteBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteBack::Together => f.write_str("together"),
            &WriteBack::LINUX => f.write_str("linux"),
            WriteBack::Flusher(depth) => write!(f, "linux:{depth}"),
        }
    }
}

/// What to do when a checkpoint could not be written. A failed write of file contents never comes to this: it is
/// reported to the caller that syncs the file, and the pages stay dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnError {
    /// Go on, and try again with the next checkpoint: everything changed since the last one stays in memory until it is
    /// written. The default, as in F2FS, and what loses least: where the device recovers (a full backing file, a path
    /// that comes back) nothing is lost.
    #[default]
    Continue,
    /// Take no more changes; what was changed since the last checkpoint can still be read.
    RemountRo,
    /// End the process with a line on standard error; the volume is what the last checkpoint says.
    Panic,
}

/// How logs get segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Always free ones, filled in order; nothing is ever written in place.
    Lfs,
    /// F2FS' default: free ones while there are enough, else the holes of used ones; some writes go in place.
    Adaptive,
}

/// Which data is written in place with [`Allocation::Adaptive`]: only of regular files, and only where a page has a
/// block already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum InPlace {
    /// As F2FS decides by the size of the volume: `Always` up to 8192 segments (16 GiB), else `Fsync`.
    #[default]
    Auto,
    /// None.
    Never,
    /// What fdatasync writes, and fsync of a file with no more than `FSYNC_PAGES` dirty pages; direct writes; files
    /// marked as cold.
    Fsync,
    /// All.
    Always,
}

/// Most requests of write-back that can be asked for: more than queues of devices hold.
const MOST_REQUESTS: u32 = 65_536;

/// Sizes of the journal.
pub(crate) const LEAST_JOURNAL: u64 = 8 << 20;
const MOST_JOURNAL: u64 = 1 << 30;
/// Largest stride of the journal.
const MOST_STRIDE: u64 = 1 << 20;

/// Seconds between checkpoints of a volume that is told of `sync`.
pub(crate) const COMMIT_SECONDS: u64 = 60;

/// Most dirty pages that an fsync writes in place (F2FS: `min_fsync_blocks`).
pub(crate) const FSYNC_PAGES: u64 = 8;
/// Segments of a volume that counts as small (F2FS: `SMALL_VOLUME_SEGMENTS`).
const SMALL_VOLUME: u32 = 16 * 512;

/// Options of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Take no changes; nothing is written to the device, not even a checkpoint.
    pub read_only: bool,
    /// Leave out what was fsynced after the last checkpoint: a mount for changes drops it, a read-only one shows the
    /// checkpoint.
    pub discard_unreplayed: bool,
    /// What the device is told to hold nothing any more, after each checkpoint.
    pub discard: Discard,
    /// Collect while the volume is idle, and before writers have to wait for room.
    pub background_gc: bool,
    /// How room is made when it runs short.
    pub gc: GcOptions,
    /// How logs get segments, if it was said; see `MountOptions::allocation`.
    pub mode: Option<Allocation>,
    /// The writes that go in place.
    pub in_place: InPlace,
    /// Logs take the first free section there is, rather than the next; if not said, on small volumes with
    /// [`Allocation::Adaptive`], as in F2FS.
    pub first_free: Option<bool>,
    /// With [`Allocation::Adaptive`], logs fill holes wherever there are any, and change segments at every checkpoint:
    /// for tests.
    pub eager_reuse: bool,
    /// Who writes dirty pages of files when there are many.
    pub write_back: WriteBack,
    /// Most memory for cached file pages, in bytes.
    pub cache_bytes: u64,
    /// Most memory for cached nodes that are clean, in bytes; half of it in dirty ones makes a checkpoint.
    pub node_cache_bytes: u64,
    /// Memory that is kept for the next pages when nothing uses it, in bytes. Of the whole process.
    pub spare_bytes: u64,
    /// Seconds between checkpoints while there are changes, if it was said; 0 = never by time. Else 60, or what
    /// [`Fs::set_usual_commit`](crate::Fs::set_usual_commit) says.
    pub commit_seconds: Option<u64>,
    /// How far fsync goes.
    pub fsync_mode: FsyncMode,
    /// How names and attributes become durable between checkpoints.
    pub journal: JournalMode,
    /// With [`JournalMode::PerCore`], bytes that a core notes before all cores learn of them: a power of two.
    pub journal_stride: u64,
    /// Most bytes of the journal, in memory and behind the last checkpoint; a checkpoint empties it.
    pub journal_bytes: u64,
    /// Seconds between batches of what operations note in the journal, if nobody syncs; 0 = never by time.
    pub journal_commit_seconds: u64,
    /// What to do when a checkpoint could not be written.
    pub on_error: OnError,
    /// Access times.
    pub access_times: AccessTimes,
    /// Those of directories are updated, too.
    pub directory_access_times: bool,
    /// Keep small files in their inodes.
    pub inline_data: bool,
    /// Keep small directories in their inodes.
    pub inline_dentry: bool,
    /// Keep small attributes in inodes.
    pub inline_xattr: bool,
    /// Where data of files goes, if not as F2FS does.
    pub placed_by: Option<Own<dyn PlacementPolicy>>,
    /// A fault planted for a test.
    #[cfg(feature = "canary")]
    pub canary: Option<crate::canary::Canary>,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            read_only: false,
            discard_unreplayed: false,
            discard: Discard::Off,
            background_gc: true,
            gc: GcOptions::default(),
            mode: None,
            in_place: InPlace::Auto,
            first_free: None,
            eager_reuse: false,
            write_back: WriteBack::Together,
            cache_bytes: DEFAULT_MEMORY.0,
            node_cache_bytes: DEFAULT_MEMORY.1,
            spare_bytes: DEFAULT_MEMORY.2,
            commit_seconds: None,
            fsync_mode: FsyncMode::Posix,
            journal: JournalMode::Off,
            journal_stride: 8 << 10,
            journal_bytes: 64 << 20,
            journal_commit_seconds: 5,
            on_error: OnError::Continue,
            access_times: AccessTimes::Relative,
            directory_access_times: true,
            inline_data: true,
            inline_dentry: true,
            inline_xattr: true,
            placed_by: None,
            #[cfg(feature = "canary")]
            canary: None,
        }
    }
}

/// Most memory for pages, for nodes, and to spare, in bytes.
type Memory = (u64, u64, u64);
const DEFAULT_MEMORY: Memory = (256 << 20, 64 << 20, 256 << 20);
const LOW_MEMORY: Memory = (32 << 20, 8 << 20, 4 << 20);

impl MountOptions {
    fn use_memory(&mut self, memory: Memory) {
        (self.cache_bytes, self.node_cache_bytes, self.spare_bytes) = memory;
    }

    /// Options from a comma-separated list; an unknown one is an error that names it.
    pub fn parse(list: &str) -> Result<Self> {
        let mut out = MountOptions::default();
        for option in list.split(',').filter(|o| !o.is_empty()) {
            if !out.set(option)? {
                return Err(Error::Usage(format!("unknown mount option '{option}'")));
            }
        }
        Ok(out)
    }

    /// Applies one option (`name` or `name=value`) by its row in [`OPTIONS`]; false if it has none.
    ///
    /// # Errors
    /// A value that the row does not allow.
    pub fn set(&mut self, option: &str) -> std::result::Result<bool, Refusal> {
        row::apply(OPTIONS, self, option)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Error::Usage(refusal.to_string())
    }
}

/// The options that differ from the defaults, as a list that [`MountOptions::parse`] reads back.
impl fmt::Display for MountOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&row::differences(OPTIONS, self, MountOptions::default()).join(","))
    }
}

impl MountOptions {
    /// How logs get segments: as `mode=` says, wherever it stands among the options; else as the preset's system does.
    pub(crate) fn allocation(&self) -> Allocation {
        self.mode.unwrap_or(self.gc.system.allocation())
    }

    /// The writes that go in place, on a volume of `segments` segments.
    pub fn writes_in_place(&self, segments: u32) -> InPlace {
        match (self.allocation(), self.in_place) {
            (Allocation::Lfs, _) => InPlace::Never,
            (Allocation::Adaptive, InPlace::Auto) if segments <= SMALL_VOLUME => InPlace::Always,
            (Allocation::Adaptive, InPlace::Auto) => InPlace::Fsync,
            (Allocation::Adaptive, said) => said,
        }
    }

    /// Whether logs take the first free section, on a volume of `segments` segments.
    pub(crate) fn takes_first_free(&self, segments: u32) -> bool {
        self.first_free.unwrap_or(self.allocation() == Allocation::Adaptive && segments <= SMALL_VOLUME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed_and_unknown_ones_named() {
        let o =
            MountOptions::parse("ro,noatime,cache=64M,commit=5,background_gc=off,errors=remount-ro,mode=lfs").unwrap();
        assert!(o.read_only && !o.background_gc && o.on_error == OnError::RemountRo);
        assert_eq!((o.cache_bytes, o.commit_seconds, o.access_times), (64 << 20, Some(5), AccessTimes::Never));
        assert_eq!(MountOptions::parse("").unwrap(), MountOptions::default());
        for (list, error) in [
            ("rw,frobnicate", "unknown mount option 'frobnicate'"),
            ("cache=lots", "mount option cache=lots: want a size such as 64M"),
            ("mode=fragment:block", "mount option mode=fragment:block: want lfs or adaptive"),
            ("ssr", "mount option ssr: want auto or eager"),
            ("ro=1", "mount option ro=1: want no value"),
            ("commit=-1", "mount option commit=-1: want a number, 0 or more"),
            ("gc.victims=0", "mount option gc.victims=0: want a number from 1 to 64"),
            ("gc.buffer_size=1M", "mount option gc.buffer_size=1M: want a size from 2M to 1G"),
        ] {
            assert_eq!(MountOptions::parse(list).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn what_goes_in_place_depends_on_the_mode_and_the_size() {
        let of = |list: &str, segments| {
            let o = MountOptions::parse(list).unwrap();
            (o.writes_in_place(segments), o.takes_first_free(segments))
        };
        assert_eq!(of("", 100), (InPlace::Never, false));
        assert_eq!(of("mode=lfs,ipu=always,alloc_mode=reuse", 100), (InPlace::Never, true));
        assert_eq!(of("mode=adaptive", 8192), (InPlace::Always, true));
        assert_eq!(of("mode=adaptive", 8193), (InPlace::Fsync, false));
        assert_eq!(of("mode=adaptive,ipu=fsync,alloc_mode=default", 100), (InPlace::Fsync, false));
        assert_eq!(of("mode=adaptive,ipu=never", 9000), (InPlace::Never, false));
        assert_eq!(of("gc=f2fs", 9000), (InPlace::Fsync, false), "the preset's mode");
        for lfs in ["mode=lfs,gc=f2fs", "gc=f2fs,mode=lfs", "gc=f2fs,gc=f2fs-lm"] {
            assert_eq!(of(lfs, 9000), (InPlace::Never, false), "{lfs}");
        }
        assert_eq!(of("gc=scalelfs,mode=adaptive", 9000), (InPlace::Fsync, false));
    }
}
