//! Mount options that the file system itself understands. Names are F2FS' own where the meaning is the same.
//!
//! `MountOptions::set` takes one option at a time and says whether it knows it, so that a front end can offer each
//! option to the core and to itself, and name the one that nobody knows.

pub(crate) mod techniques;

use crate::error::{Error, Result};
use crate::options::techniques::GcOptions;

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

/// What to do when a checkpoint could not be written. A failed write of file contents never comes to this: it is
/// reported to whoever syncs the file, and the pages stay dirty.
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
    /// Tell the device about freed segments after each checkpoint.
    pub discard: bool,
    /// Collect while the volume is idle, and before writers have to wait for room.
    pub background_gc: bool,
    /// How room is made when it runs short.
    pub gc: GcOptions,
    /// How logs get segments, if it was said; see `MountOptions::allocation`.
    pub mode: Option<Allocation>,
    /// What is written in place.
    pub in_place: InPlace,
    /// Logs take the first free section there is, rather than the next; if not said, on small volumes with
    /// [`Allocation::Adaptive`], as in F2FS.
    pub first_free: Option<bool>,
    /// With [`Allocation::Adaptive`], logs fill holes wherever there are any, and change segments at every checkpoint:
    /// for tests.
    pub eager_reuse: bool,
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
    /// A fault planted for a test.
    #[cfg(feature = "canary")]
    pub canary: Option<crate::canary::Canary>,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            read_only: false,
            discard_unreplayed: false,
            discard: false,
            background_gc: true,
            gc: GcOptions::default(),
            mode: None,
            in_place: InPlace::Auto,
            first_free: None,
            eager_reuse: false,
            cache_bytes: DEFAULT_MEMORY.0,
            node_cache_bytes: DEFAULT_MEMORY.1,
            spare_bytes: DEFAULT_MEMORY.2,
            commit_seconds: None,
            fsync_mode: FsyncMode::Posix,
            on_error: OnError::Continue,
            access_times: AccessTimes::Relative,
            directory_access_times: true,
            inline_data: true,
            inline_dentry: true,
            inline_xattr: true,
            #[cfg(feature = "canary")]
            canary: None,
        }
    }
}

/// Names and meanings, for help texts.
pub const OPTION_HELP: &[(&str, &str)] = &[
    ("ro, rw", "take no changes, or take them"),
    ("cache=SIZE", "most memory for cached file pages (default 256M)"),
    ("node_cache=SIZE", "most memory for cached nodes: inodes and the addresses of files' blocks (default 64M)"),
    ("memory=low|normal", "low: cache=32M, node_cache=8M, few threads, no spare memory; what is said behind it counts"),
    (
        "commit=SECONDS",
        "seconds between checkpoints while there are changes (default 60, or 5 for a mount that `sync` does not reach; 0 = never by time)",
    ),
    (
        "fsync_mode=posix|strict|nobarrier",
        "fsync makes durable what POSIX asks for (default), earlier removals of names beside a new file too, or leaves out the flush",
    ),
    ("discard, nodiscard", "tell the device about freed segments after each checkpoint, or not (default)"),
    (
        "errors=continue|remount-ro|panic",
        "if metadata cannot be written: try again later (default), take no more changes, end the process",
    ),
    ("background_gc=on|off", "collect while the volume is idle, and before room is short (default on)"),
    (
        "gc=scalelfs|steady|f2fs|f2fs-lfs|f2fs-m|f2fs-lm|pgc|max",
        "make room with a collector on each core (default), the same with gc.generations=2 and gc.idle=5 (steady), or as another system does: F2FS, one writer at a time (by default, in mode=lfs), the same with a thread on each core, P-GC, MAX (f2fs with data_logs=cores and cp_lock=cores); f2fs, f2fs-m and max are mode=adaptive unless mode= is given",
    ),
    (
        "gc.collectors=N|cores|writers|split:N",
        "threads that collect: so many, one for each core, or none: whoever needs room does, with N threads at one victim or alone",
    ),
    ("gc.stream=dedicated|shared", "moved data goes to a segment of each collector's own, or all to the cold data log"),
    (
        "gc.generations=N",
        "keep data apart by its age, in so many kinds of streams for what was moved once, twice and so on; from 2 also where it is written (default 1: not)",
    ),
    (
        "gc.idle=MS|off",
        "collectors make room when nothing has been asked for so long, as much as the last bursts used (default off)",
    ),
    ("gc.meta=loose|locked", "the state of segments is changed without a lock, or under one for all"),
    ("gc.protect=page|file", "direct I/O and a collector keep out of each other's pages, or of each other's files"),
    ("gc.buffer=dedicated|cache", "blocks are moved through memory of the collector's own, or through the page cache"),
    ("gc.select=concurrent|locked", "collectors choose victims at the same time, or one after the other"),
    (
        "gc.victims=N",
        "victims that each collector has in hand: one is moved while the others are read (default 4; 1 where gc= names another system)",
    ),
    (
        "gc.buffer_size=SIZE",
        "most memory of each collector for what it has read and not yet written (default: 64M for all, but 2M to 8M for each)",
    ),
    (
        "data_logs=N|cores",
        "files' data goes to so many logs, or one for each core, by the files' numbers (default 1); the reserve of small volumes bears fewer",
    ),
    (
        "cp_lock=shared|cores",
        "count changes, for which a checkpoint waits, all together (default) or each core by itself",
    ),
    ("relatime, noatime, strictatime, nodiratime", "when reads update access times (nodiratime: of files only)"),
    ("inline_data, noinline_data", "keep small files in their inodes (default), or not"),
    ("inline_dentry, noinline_dentry", "keep small directories in their inodes (default), or not"),
    ("inline_xattr, noinline_xattr", "keep small attributes in inodes (default), or not"),
    (
        "mode=lfs|adaptive",
        "logs take free segments only (default), or F2FS' default: also fill the holes of used ones when few are free, and write some data in place",
    ),
    (
        "ipu=auto|never|fsync|always",
        "with mode=adaptive, write in place: as F2FS by the volume's size (default: always up to 16 GiB, else fsync), nothing, what a small fsync, an fdatasync or a direct write replaces, or everything",
    ),
    (
        "alloc_mode=default|reuse",
        "take the next free section, or the first there is (mode=adaptive up to 16 GiB: reuse)",
    ),
    (
        "ssr=auto|eager",
        "with mode=adaptive, fill holes when few sections are free (default), or whenever there are any (for tests)",
    ),
    ("disable_roll_forward, norecovery", "leave out what was fsynced after the last checkpoint (rw: for good)"),
];

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

    /// Applies one option (`name` or `name=value`); false if it is none of the core's.
    pub fn set(&mut self, option: &str) -> Result<bool> {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        match (name, value) {
            ("ro", None) => self.read_only = true,
            ("rw", None) => self.read_only = false,
            ("disable_roll_forward" | "norecovery", None) => self.discard_unreplayed = true,
            ("discard", None) => self.discard = true,
            ("nodiscard", None) => self.discard = false,
            // F2FS' threads collect with the writers' waiting (sync) or without (on); here who waits is what gc= says.
            ("background_gc", Some("on" | "sync")) => self.background_gc = true,
            ("background_gc", Some("off")) => self.background_gc = false,
            ("cache", Some(size)) => self.cache_bytes = parse_size(option, size)?,
            ("memory", Some("normal")) => self.use_memory(DEFAULT_MEMORY),
            ("memory", Some("low")) => self.use_memory(LOW_MEMORY),
            ("node_cache", Some(size)) => self.node_cache_bytes = parse_size(option, size)?,
            ("commit", Some(seconds)) => self.commit_seconds = Some(parse_number(option, seconds)?),
            ("fsync_mode", Some("posix")) => self.fsync_mode = FsyncMode::Posix,
            ("fsync_mode", Some("strict")) => self.fsync_mode = FsyncMode::Strict,
            ("fsync_mode", Some("nobarrier")) => self.fsync_mode = FsyncMode::NoBarrier,
            ("errors", Some("continue")) => self.on_error = OnError::Continue,
            ("errors", Some("remount-ro")) => self.on_error = OnError::RemountRo,
            ("errors", Some("panic")) => self.on_error = OnError::Panic,
            ("errors", _) => {
                return Err(Error::Usage(format!(
                    "'{option}': say errors=continue, errors=remount-ro or errors=panic"
                )));
            }
            ("relatime", None) => self.access_times = AccessTimes::Relative,
            ("noatime", None) => self.access_times = AccessTimes::Never,
            ("nodiratime", None) => self.directory_access_times = false,
            ("strictatime" | "atime", None) => self.access_times = AccessTimes::Strict,
            ("inline_data", None) => self.inline_data = true,
            ("noinline_data", None) => self.inline_data = false,
            ("inline_dentry", None) => self.inline_dentry = true,
            ("noinline_dentry", None) => self.inline_dentry = false,
            ("inline_xattr", None) => self.inline_xattr = true,
            ("noinline_xattr", None) => self.inline_xattr = false,
            ("mode", Some("lfs")) => self.mode = Some(Allocation::Lfs),
            ("mode", Some("adaptive")) => self.mode = Some(Allocation::Adaptive),
            ("mode", _) => return Err(Error::Usage(format!("'{option}': say mode=lfs or mode=adaptive"))),
            ("ipu", Some("auto")) => self.in_place = InPlace::Auto,
            ("ipu", Some("never")) => self.in_place = InPlace::Never,
            ("ipu", Some("fsync")) => self.in_place = InPlace::Fsync,
            ("ipu", Some("always")) => self.in_place = InPlace::Always,
            ("ipu", _) => return Err(Error::Usage(format!("'{option}': say ipu=auto, never, fsync or always"))),
            ("alloc_mode", Some("default")) => self.first_free = Some(false),
            ("alloc_mode", Some("reuse")) => self.first_free = Some(true),
            ("alloc_mode", _) => return Err(Error::Usage(format!("'{option}': say alloc_mode=default or reuse"))),
            ("ssr", Some("auto")) => self.eager_reuse = false,
            ("ssr", Some("eager")) => self.eager_reuse = true,
            ("ssr", _) => return Err(Error::Usage(format!("'{option}': say ssr=auto or ssr=eager"))),
            #[cfg(feature = "canary")]
            ("canary", Some(name)) => {
                let canary = crate::canary::Canary::parse(name);
                self.canary = Some(canary.ok_or_else(|| Error::Usage(format!("'{option}': no such fault")))?);
            }
            ("fsync_mode", _) => {
                return Err(Error::Usage(format!("'{option}': say fsync_mode=posix, strict or nobarrier")));
            }
            ("background_gc", _) => return Err(Error::Usage(format!("'{option}': say background_gc=on or =off"))),
            _ => return self.gc.set(name, value),
        }
        Ok(true)
    }
}

impl MountOptions {
    /// How logs get segments: as `mode=` says, wherever it stands among the options; else as the preset's system does.
    pub(crate) fn allocation(&self) -> Allocation {
        self.mode.unwrap_or(self.gc.allocation)
    }

    /// What is written in place, on a volume of so many segments.
    pub fn writes_in_place(&self, segments: u32) -> InPlace {
        match (self.allocation(), self.in_place) {
            (Allocation::Lfs, _) => InPlace::Never,
            (Allocation::Adaptive, InPlace::Auto) if segments <= SMALL_VOLUME => InPlace::Always,
            (Allocation::Adaptive, InPlace::Auto) => InPlace::Fsync,
            (Allocation::Adaptive, said) => said,
        }
    }

    /// Whether logs take the first free section, on a volume of so many segments.
    pub(crate) fn takes_first_free(&self, segments: u32) -> bool {
        self.first_free.unwrap_or(self.allocation() == Allocation::Adaptive && segments <= SMALL_VOLUME)
    }
}

fn parse_number(option: &str, text: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::Usage(format!("'{option}': '{text}' is not a number")))
}

/// A size in bytes with an optional suffix K, M, G or T (powers of 1024).
pub(crate) fn parse_size(option: &str, text: &str) -> Result<u64> {
    let bad = || Error::Usage(format!("'{option}': '{text}' is not a size such as 64M"));
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        Some((at, 't' | 'T')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    number.checked_mul(1 << shift).ok_or_else(bad)
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
        for (list, part) in [
            ("rw,frobnicate", "frobnicate"),
            ("cache=lots", "lots"),
            ("mode=fragment:block", "mode=adaptive"),
            ("ipu=force", "ipu=auto"),
            ("alloc_mode=first", "alloc_mode=default"),
            ("ssr", "ssr=auto"),
            ("ro=1", "ro=1"),
            ("errors=ignore", "ignore"),
        ] {
            let e = MountOptions::parse(list).unwrap_err();
            assert!(e.to_string().contains(part), "{e}");
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
