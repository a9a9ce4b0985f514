//! The mount options of the file system, one row each: name, values, tier, help, setter.
//!
//! Names are F2FS' own where the meaning is the same. Rows that stand for several settings (`memory=`, `as=`) come
//! before the rows of those settings.

#[cfg(feature = "canary")]
use crate::canary::Canary;
use crate::options::row::Tier::{Everyday, F2fs, Research};
use crate::options::row::{Row, Size, Values, parse_size};
use crate::options::techniques::{
    CpCounters, DataLogs, GcBuffer, GcCollectors, GcMeta, GcOptions, GcProtect, GcSearch, GcSelect, GcStream,
    LEAST_BUFFER, MOST_BUFFER, MOST_GENERATIONS, MOST_VICTIMS, System, idle_from, idle_text,
};
use crate::options::{
    AccessTimes, Allocation, DEFAULT_MEMORY, Discard, FsyncMode, InPlace, JournalMode, LEAST_JOURNAL, LOW_MEMORY,
    MOST_JOURNAL, MOST_STRIDE, MountOptions, OnError, WriteBack,
};

#[cfg(feature = "canary")]
use steadyfs_journal::Fault;

/// The mount options that the file system itself understands.
pub static OPTIONS: &[Row<MountOptions>] = &[
    // For every user.
    Row {
        name: "ro",
        aliases: &[],
        values: option_words!(Flags, read_only, { "ro" => true, "rw" => false }),
        tier: Everyday,
        help: "take no changes, or take them",
    },
    Row {
        name: "memory",
        aliases: &[],
        values: Values::Words {
            words: &["normal", "low"],
            set: |options, at| options.use_memory([DEFAULT_MEMORY, LOW_MEMORY][at]),
            get: |options| [DEFAULT_MEMORY, LOW_MEMORY].iter().position(|memory| memory.2 == options.spare_bytes),
        },
        tier: Everyday,
        help: "low: cache=32M, node_cache=8M, few threads and open files, no spare memory; a later cache= or node_cache= \
               counts",
    },
    Row {
        name: "cache",
        aliases: &[],
        values: Values::Size {
            least: 0,
            most: u64::MAX,
            set: |options, bytes| options.cache_bytes = bytes,
            get: |options| Some(options.cache_bytes),
        },
        tier: Everyday,
        help: "most memory for cached file pages",
    },
    Row {
        name: "node_cache",
        aliases: &[],
        values: Values::Size {
            least: 0,
            most: u64::MAX,
            set: |options, bytes| options.node_cache_bytes = bytes,
            get: |options| Some(options.node_cache_bytes),
        },
        tier: Everyday,
        help: "most memory for cached nodes: inodes and the addresses of files' blocks; as much again for the table of \
               where nodes are",
    },
    Row {
        name: "commit",
        aliases: &[],
        values: Values::Number {
            unit: "SECONDS",
            least: 0,
            most: u64::MAX,
            set: |options, seconds| options.commit_seconds = Some(seconds),
            get: |options| options.commit_seconds,
        },
        tier: Everyday,
        help: "seconds between checkpoints while there are changes, 0 for never by time (default: 60, or 5 for a mount \
               that `sync` does not reach)",
    },
    Row {
        name: "fsync_mode",
        aliases: &[],
        values: option_words!(Words, fsync_mode, {
            "posix" => FsyncMode::Posix,
            "strict" => FsyncMode::Strict,
            "nobarrier" => FsyncMode::NoBarrier,
        }),
        tier: Everyday,
        help: "fsync makes durable what POSIX asks for (posix), also earlier removals of names beside a new file \
               (strict), or does not flush the device's cache (nobarrier)",
    },
    Row {
        name: "journal",
        aliases: &[],
        values: option_words!(Words, journal, {
            "off" => JournalMode::Off,
            "single" => JournalMode::Single,
            "double" => JournalMode::Double,
            "percore" => JournalMode::PerCore,
        }),
        tier: Everyday,
        help: "fsync of directories, renamed, linked and new files writes a journal, not a checkpoint; until the volume \
               is unmounted no other program opens it, and after a crash 'steadyfs recover' comes first. Operations \
               note what they do in one list as XFS (single), in two in turn (double), or in one on each core (percore). Not \
               on zones, nor on IPLFS and D2FS volumes",
    },
    Row {
        name: "journal.size",
        aliases: &[],
        values: Values::Size {
            least: LEAST_JOURNAL,
            most: MOST_JOURNAL,
            set: |options, bytes| options.journal_bytes = bytes,
            get: |options| Some(options.journal_bytes),
        },
        tier: Everyday,
        help: "with a journal, how large it grows before a checkpoint has to empty it",
    },
    Row {
        name: "journal.commit",
        aliases: &[],
        values: Values::Number {
            unit: "SECONDS",
            least: 0,
            most: u64::MAX,
            set: |options, seconds| options.journal_commit_seconds = seconds,
            get: |options| Some(options.journal_commit_seconds),
        },
        tier: Everyday,
        help: "with a journal, seconds after which names, attributes and small new files are durable that nobody synced, \
               and other contents 30 seconds later; 0 for never by time",
    },
    Row {
        name: "discard",
        aliases: &[],
        values: option_words!(Flags, discard, { "discard" => Discard::LINUX, "nodiscard" => Discard::Off }),
        tier: Everyday,
        help: "after checkpoints, tell the device of free runs of 64 KiB and more, or of nothing",
    },
    Row {
        name: "discard",
        aliases: &[],
        values: Values::Text {
            form: "off|segments|runs:N|blocks",
            allowed: "off, segments, blocks or runs:N with N from 1 to 512",
            set: |o, text| Discard::parse(text).map(|what| o.discard = what),
            get: |o| Some(o.discard.to_string()),
        },
        tier: Everyday,
        help: "the same for nothing, free sections, also free runs of N blocks and more, or every free block",
    },
    Row {
        name: "errors",
        aliases: &[],
        values: option_words!(Words, on_error, {
            "continue" => OnError::Continue,
            "remount-ro" => OnError::RemountRo,
            "panic" => OnError::Panic,
        }),
        tier: Everyday,
        help: "if metadata cannot be written: try again later, take no more changes, or end the process",
    },
    Row {
        name: "relatime",
        aliases: &[],
        values: option_words!(Flags, access_times, {
            "relatime" => AccessTimes::Relative,
            "noatime" => AccessTimes::Never,
            "strictatime" => AccessTimes::Strict,
            "atime" => AccessTimes::Strict,
        }),
        tier: Everyday,
        help: "when reads update access times: once a day and after changes, never, or always",
    },
    Row {
        name: "nodiratime",
        aliases: &[],
        values: option_words!(Flags, directory_access_times, { "nodiratime" => false }),
        tier: Everyday,
        help: "reads update no access times of directories",
    },
    // What F2FS has.
    Row {
        name: "background_gc",
        aliases: &[],
        // Of F2FS' three words two differ in whether writers wait for its thread; here `as=` says who waits.
        values: option_words!(Words, background_gc, { "on" => true, "sync" => true, "off" => false }),
        tier: F2fs,
        help: "collect while the volume is idle, and before room is short",
    },
    Row {
        name: "mode",
        aliases: &[],
        values: option_words!(Words, mode, {
            "lfs" => Some(Allocation::Lfs),
            "adaptive" => Some(Allocation::Adaptive),
        }),
        tier: F2fs,
        help: "logs take free segments only (lfs), or as F2FS by default: they also fill the holes of used segments when \
               few are free, and some data is written in place (default: lfs, or as the system of as= does)",
    },
    Row {
        name: "ipu",
        aliases: &[],
        values: option_words!(Words, in_place, {
            "auto" => InPlace::Auto,
            "never" => InPlace::Never,
            "fsync" => InPlace::Fsync,
            "always" => InPlace::Always,
        }),
        tier: F2fs,
        help: "with mode=adaptive, write in place: always up to 16 GiB and else as fsync (auto), nothing, what a small \
               fsync, an fdatasync or a direct write replaces (fsync), or everything",
    },
    Row {
        name: "alloc_mode",
        aliases: &[],
        values: option_words!(Words, first_free, { "default" => Some(false), "reuse" => Some(true) }),
        tier: F2fs,
        help: "logs take the next free section, or the first there is (default: reuse with mode=adaptive up to 16 GiB, \
               else default)",
    },
    Row {
        name: "inline_data",
        aliases: &[],
        values: option_words!(Flags, inline_data, { "inline_data" => true, "noinline_data" => false }),
        tier: F2fs,
        help: "keep small files in their inodes, or not",
    },
    Row {
        name: "inline_dentry",
        aliases: &[],
        values: option_words!(Flags, inline_dentry, { "inline_dentry" => true, "noinline_dentry" => false }),
        tier: F2fs,
        help: "keep small directories in their inodes, or not",
    },
    Row {
        name: "inline_xattr",
        aliases: &[],
        values: option_words!(Flags, inline_xattr, { "inline_xattr" => true, "noinline_xattr" => false }),
        tier: F2fs,
        help: "keep small attributes in inodes, or not",
    },
    Row {
        name: "disable_roll_forward",
        aliases: &[],
        values: option_words!(Flags, discard_unreplayed, { "disable_roll_forward" => true, "norecovery" => true }),
        tier: F2fs,
        help: "leave out what was fsynced after the last checkpoint (with rw for good)",
    },
    // Techniques.
    Row {
        name: "as",
        aliases: &["gc"],
        values: Values::Words {
            words: &["scalelfs", "steady", "f2fs", "f2fs-lfs", "f2fs-m", "f2fs-lm", "spgc", "pgc", "max"],
            set: |options, at| options.gc = GcOptions::of(SYSTEMS[at]),
            get: |options| SYSTEMS.iter().position(|system| *system == options.gc.system),
        },
        tier: Research,
        help: "make room as a system does: ScaleLFS (a collector on each core); the same with gc.generations=2 and \
               gc.idle=5 (steady); F2FS, one writer at a time (f2fs, and f2fs-lfs in mode=lfs); the same with a thread on \
               each core (f2fs-m, f2fs-lm, also called spgc); P-GC; MAX (f2fs with data_logs=cores and cp_lock=cores). \
               f2fs, f2fs-m and max are mode=adaptive unless mode= is given",
    },
    Row {
        name: "gc.collectors",
        aliases: &[],
        values: Values::Text {
            form: "N|cores|writers|split:N",
            allowed: GcCollectors::ALLOWED,
            set: |options, text| {
                options.gc.collectors = GcCollectors::parse(text)?;
                Some(())
            },
            get: |options| Some(options.gc.collectors.to_string()),
        },
        tier: Research,
        help: "who collects: N threads, one for each core, or the writer that needs room, alone (writers) or with N \
               threads at its victim (split:N)",
    },
    Row {
        name: "gc.stream",
        aliases: &[],
        values: option_words!(Words, gc.stream, { "dedicated" => GcStream::Dedicated, "shared" => GcStream::Shared }),
        tier: Research,
        help: "moved data goes to a segment of each collector's own, or all to the cold data log",
    },
    Row {
        name: "gc.generations",
        aliases: &[],
        values: Values::Number {
            unit: "N",
            least: 1,
            most: MOST_GENERATIONS as u64,
            set: |options, count| options.gc.generations = count as u8,
            get: |options| Some(options.gc.generations.into()),
        },
        tier: Research,
        help: "keep data apart by its age, in N kinds of streams for what was moved once, twice and so on; from 2 also \
               where users write it",
    },
    Row {
        name: "gc.idle",
        aliases: &[],
        values: Values::Text {
            form: "MS|off",
            allowed: "off, or milliseconds from 1 to 60000",
            set: |options, text| {
                options.gc.idle = idle_from(text)?;
                Some(())
            },
            get: |options| Some(idle_text(options.gc.idle)),
        },
        tier: Research,
        help: "collectors make room when nothing has been asked for MS milliseconds, as much as the last bursts used",
    },
    Row {
        name: "gc.meta",
        aliases: &[],
        values: option_words!(Words, gc.meta, { "loose" => GcMeta::Loose, "locked" => GcMeta::Locked }),
        tier: Research,
        help: "the state of segments is changed without a lock, or under one lock for all",
    },
    Row {
        name: "gc.protect",
        aliases: &[],
        values: option_words!(Words, gc.protect, { "page" => GcProtect::Page, "file" => GcProtect::File }),
        tier: Research,
        help: "direct I/O and a collector keep out of each other's pages, or of each other's files",
    },
    Row {
        name: "gc.buffer",
        aliases: &[],
        values: option_words!(Words, gc.buffer, { "dedicated" => GcBuffer::Dedicated, "cache" => GcBuffer::Cache }),
        tier: Research,
        help: "blocks are moved through memory of the collector's own (scalelfs and steady), or through the page cache \
               (the other systems of as=)",
    },
    Row {
        name: "gc.select",
        aliases: &[],
        values: option_words!(Words, gc.select, {
            "concurrent" => GcSelect::Concurrent,
            "locked" => GcSelect::Locked,
        }),
        tier: Research,
        help: "collectors choose victims at the same time, or one after the other",
    },
    Row {
        name: "gc.search",
        aliases: &[],
        values: option_words!(Words, gc.search, { "bounded" => GcSearch::Bounded, "whole" => GcSearch::Whole }),
        tier: Research,
        help: "while writers wait, a search for a victim stops after 4096 candidates, or goes through the whole volume",
    },
    Row {
        name: "gc.hysteresis",
        aliases: &[],
        values: Values::Number {
            unit: "N",
            least: 0,
            most: 64,
            set: |options, count| options.gc.hysteresis = count as u8,
            get: |options| Some(options.gc.hysteresis.into()),
        },
        tier: Research,
        help: "free sections above the need at which a writer who collects stops; a checkpoint frees what it emptied",
    },
    Row {
        name: "gc.victims",
        aliases: &[],
        values: Values::Number {
            unit: "N",
            least: 1,
            most: MOST_VICTIMS as u64,
            set: |options, count| options.gc.victims = count as u8,
            get: |options| Some(options.gc.victims.into()),
        },
        tier: Research,
        help: "victims in the prefetch queue of a collector: one is moved while the others are read",
    },
    Row {
        name: "gc.buffer_size",
        aliases: &[],
        values: Values::Size {
            least: LEAST_BUFFER,
            most: MOST_BUFFER,
            set: |options, bytes| options.gc.buffer_size = Some(bytes),
            get: |options| options.gc.buffer_size,
        },
        tier: Research,
        help: "most memory of each collector for what it has read and not yet written (default: 64M for all together, \
               but 2M to 8M for each)",
    },
    Row {
        name: "data_logs",
        aliases: &[],
        values: Values::Text {
            form: "N|cores",
            allowed: DataLogs::ALLOWED,
            set: |options, text| {
                options.gc.data_logs = DataLogs::parse(text)?;
                Some(())
            },
            get: |options| Some(options.gc.data_logs.to_string()),
        },
        tier: Research,
        help: "files' data goes to N logs, or one for each core, by the files' numbers; the reserve of small volumes \
               bears fewer",
    },
    Row {
        name: "journal.stride",
        aliases: &[],
        values: Values::Text {
            form: "SIZE",
            allowed: "a power of two from 1 to 1M",
            set: |options, text| {
                options.journal_stride = parse_size(text).filter(|n| n.is_power_of_two() && *n <= MOST_STRIDE)?;
                Some(())
            },
            get: |options| Some(Size(options.journal_stride).to_string()),
        },
        tier: Research,
        help: "with journal=percore, the bytes that a core notes before it adds them to the count that all cores share \
               (ScaleXFS' strided space counting; with 1 each operation adds its own)",
    },
    Row {
        name: "cp_lock",
        aliases: &[],
        values: option_words!(Words, gc.cp_lock, {
            "shared" => CpCounters::Shared,
            "cores" => CpCounters::PerCore,
        }),
        tier: Research,
        help: "the counters of changes that a checkpoint waits for: one for all cores, or one for each",
    },
    Row {
        name: "ssr",
        aliases: &[],
        values: option_words!(Words, eager_reuse, { "auto" => false, "eager" => true }),
        tier: Research,
        help: "with mode=adaptive, fill holes when few sections are free, or whenever there are any",
    },
    Row {
        name: "writeback",
        aliases: &[],
        values: Values::Text {
            form: "together|linux|linux:N",
            allowed: "together, linux or linux:N with N from 1 to 65536",
            set: |options, text| WriteBack::parse(text).map(|who| options.write_back = who),
            get: |options| Some(options.write_back.to_string()),
        },
        tier: Research,
        help: "above two fifths of the cache in dirty pages writers write some of them; or, as in Linux, above 17.5 % they \
               only sleep until one thread has, which stops at N requests at the device (16 if not said)",
    },
    #[cfg(feature = "canary")]
    Row {
        name: "canary",
        aliases: &[],
        values: option_words!(Words, canary, {
            "skip-flush" => Some(Canary::SkipFlush),
            "early-reuse" => Some(Canary::EarlyReuse),
            "early-discard" => Some(Canary::EarlyDiscard),
            "no-mark" => Some(Canary::NoMark),
            "blind-move" => Some(Canary::BlindMove),
            "move-unseen" => Some(Canary::MoveUnseen),
            "stream-summary" => Some(Canary::StreamSummary),
            "herd" => Some(Canary::Herd),
            "skip-log" => Some(Canary::SkipLog),
            "forget-in-flight" => Some(Canary::ForgetInFlight),
            "past-limit" => Some(Canary::PastLimit),
            "complete-early" => Some(Canary::CompleteEarly),
            "stale-discards-new" => Some(Canary::StaleDiscardsNew),
            "reuse-early" => Some(Canary::ReuseEarly),
            "skip-record" => Some(Canary::SkipRecord),
            "trust-ssa" => Some(Canary::TrustSsa),
            "half-record" => Some(Canary::HalfRecord),
            "reuse" => Some(Canary::Reuse),
            "drop-record" => Some(Canary::DropRecord),
            "names-first" => Some(Canary::NamesFirst),
            "early-ack" => Some(Canary::EarlyAck),
            "skip-absorb" => Some(Canary::SkipAbsorb),
            "absorb-early" => Some(Canary::AbsorbEarly),
            "split-batch" => Some(Canary::SplitBatch),
            "mark-forgotten" => Some(Canary::MarkForgotten),
            "nameless-skip" => Some(Canary::NamelessSkip),
            "unchecked-contents" => Some(Canary::UncheckedContents),
            "stale-sequence" => Some(Canary::Lists(Fault::StaleSequence)),
            "no-drain" => Some(Canary::Lists(Fault::NoDrain)),
            "zero-delta" => Some(Canary::Lists(Fault::ZeroDelta)),
            "lost-relog" => Some(Canary::Lists(Fault::LostRelog)),
            "reversed-order" => Some(Canary::Lists(Fault::ReversedOrder)),
            "late-estimate" => Some(Canary::Lists(Fault::LateEstimate)),
        }),
        tier: crate::options::row::Tier::Planted,
        help: "plant a fault",
    },
];

/// The systems in the order of the words of `as=`.
const SYSTEMS: [System; 9] = [
    System::ScaleLfs,
    System::Steady,
    System::F2fs,
    System::F2fsLfs,
    System::F2fsM,
    System::F2fsLm,
    System::F2fsLm,
    System::Pgc,
    System::Max,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::proof;
    use crate::options::row::{Tier, apply, split};

    const SAMPLES: &[(&str, &[&str])] = &[
        ("gc.collectors", &["writers", "cores", "1", "1024", "split:1", "split:1024"]),
        ("gc.idle", &["off", "1", "60000"]),
        ("data_logs", &["cores", "1", "1024"]),
        ("writeback", &["together", "linux", "linux:1", "linux:65536"]),
        ("journal.stride", &["1", "8K", "1M"]),
        ("discard", &["off", "segments", "runs:2", "runs:16", "runs:512", "blocks"]),
    ];

    #[test]
    fn each_row_parses_and_prints_each_of_its_values_and_refuses_others() {
        assert_eq!(proof::faults(OPTIONS, MountOptions::default, SAMPLES), [""; 0]);
        let out_of_range = "gc.collectors=0,gc.collectors=1025,gc.collectors=split:0,gc.collectors=split:x,gc.idle=0,\
                            gc.idle=60001,data_logs=0,data_logs=1025,gc.generations=9,gc.victims=65,gc.buffer_size=2G,writeback=linux:0,\
                            journal.stride=0,journal.stride=3K,journal.stride=2M,journal.size=7M";
        for option in out_of_range.split(',') {
            let mut options = MountOptions::default();
            let refusal = apply(OPTIONS, &mut options, option).unwrap_err();
            let row = OPTIONS.iter().find(|row| row.has_name(split(option).0)).unwrap();
            assert_eq!(refusal.to_string(), format!("mount option {option}: want {}", row.allowed()));
            assert_eq!(options, MountOptions::default());
        }
    }

    #[test]
    fn a_list_of_options_is_printed_as_one_that_makes_the_same() {
        for (given, printed) in [
            ("", ""),
            ("rw,memory=normal,as=scalelfs,gc=scalelfs", ""),
            ("norecovery,ro,atime", "ro,strictatime,disable_roll_forward"),
            ("cache=1M,memory=low,node_cache=9M", "memory=low,node_cache=9M"),
            ("gc.victims=4,gc=f2fs", "as=f2fs"),
            ("gc=f2fs,gc.victims=4,mode=lfs", "mode=lfs,as=f2fs,gc.victims=4"),
            (
                "gc=spgc,gc.collectors=split:3,gc.buffer=dedicated",
                "as=f2fs-lm,gc.collectors=split:3,gc.buffer=dedicated",
            ),
            ("alloc_mode=default,commit=60", "commit=60,alloc_mode=default"),
        ] {
            let options = MountOptions::parse(given).unwrap();
            assert_eq!(options.to_string(), printed, "{given}");
            assert_eq!(MountOptions::parse(printed).unwrap(), options, "{given}");
        }
    }

    #[test]
    fn what_memory_low_stands_for_is_what_its_help_says() {
        let row = OPTIONS.iter().find(|row| row.name == "memory").unwrap();
        let low = MountOptions::parse("memory=low").unwrap();
        let said =
            MountOptions { spare_bytes: low.spare_bytes, ..MountOptions::parse("cache=32M,node_cache=8M").unwrap() };
        assert!(row.help.contains("cache=32M, node_cache=8M") && low == said);
    }

    #[test]
    fn only_planted_faults_are_on_no_page() {
        let planted = OPTIONS.iter().filter(|row| row.tier == Tier::Planted).map(|row| row.name);
        assert!(planted.eq(cfg!(feature = "canary").then_some("canary")));
        assert!(OPTIONS.iter().all(|row| !row.help.is_empty() && !row.help.ends_with('.')));
    }
}
