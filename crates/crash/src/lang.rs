//! The language of workloads: one operation per line.
//!
//! ```text
//! # a comment
//! volume 64 segs_per_sec=1        size in MiB; segments per section; `features=` as for mkfs; `kind=f2fs` or `iplfs`
//! late 7                          the device ends requests late, in an order that this seed decides
//! fail 7                          it refuses one write in forty; this seed decides which
//! schedule 4 7                    all this in virtual time, on so many cores, in the schedule that this seed decides
//! mount fsync_mode=strict         options, as for `steadyfs mount -o`
//! free 12                         a file `ballast` leaves so many blocks free; a step for which there is no room changes nothing
//! creat foo                       set-up, durable before the exploration begins
//! ---
//! write foo 0 4096                what is explored
//! 2: fsync w2/foo                 the same by writer 2, a thread of its own, in its directory `w2`
//! ```
//!
//! Paths are relative to the root, without blanks. After `open foo` or `tmpfile foo` the path `@foo` is that open file,
//! whatever becomes of its names; only the writer that opened it has it. In `wait 2` two seconds pass for the volume,
//! which does what it does by itself. Keeps true: what is printed parses to the same workload.

use std::fmt;
use std::str::FromStr;
use steadyfs_core::{JournalMode, MountOptions};
use thiserror::Error;

/// The kind of a volume, as `steadyfs mkfs --kind` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum VolumeKind {
    /// F2FS: segments, which are written again.
    #[default]
    F2fs,
    /// IPLFS: logs without end. Its size is its capacity.
    Iplfs,
}

impl VolumeKind {
    /// The kind of this name.
    ///
    /// # Errors
    /// A message, if there is none.
    pub fn parse(name: &str) -> Result<Self, String> {
        match name {
            "f2fs" => Ok(VolumeKind::F2fs),
            "iplfs" => Ok(VolumeKind::Iplfs),
            _ => Err(format!("'{name}' is no kind of volume: f2fs or iplfs")),
        }
    }
}

/// A whole workload.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Workload {
    /// What the volume is.
    pub kind: VolumeKind,
    /// Size of the volume in MiB.
    pub mib: u32,
    /// Segments per section.
    pub segs_per_sec: u32,
    /// Features of the volume, comma-separated.
    pub features: String,
    /// Seed of the order in which the device ends requests; none: at once.
    pub late: Option<u64>,
    /// Seed of which writes the device refuses; none: no write.
    pub fail: Option<u64>,
    /// Virtual cores and schedule; none: threads of the system, which no seed repeats.
    pub schedule: Option<Schedule>,
    /// Mount options, comma-separated.
    pub mount: String,
    /// Blocks that a file [`BALLAST`] leaves free once the set-up is done; none: there is no such file.
    pub free: Option<u32>,
    /// Done first, by one writer, and made durable.
    pub setup: Vec<Op>,
    /// The steps that are explored.
    pub steps: Vec<Step>,
}

/// When which writer runs, in virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// Virtual cores, at least one.
    pub cores: usize,
    /// See [`steadyfs_rt::sim::SimConfig::seed`].
    pub seed: u64,
}

/// One operation of one writer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step {
    /// Who does it: 0, or the number of a thread of its own.
    pub writer: u8,
    /// What.
    pub op: Op,
}

/// How `falloc` changes a range; see `fallocate(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Falloc {
    /// Reserve space.
    Allocate,
    /// Reserve space and leave the size.
    AllocateKeep,
    /// Make a hole.
    Punch,
    /// Make zeros.
    Zero,
    /// Make zeros and leave the size.
    ZeroKeep,
    /// Take the range out.
    Collapse,
    /// Put a hole in.
    Insert,
}

impl Falloc {
    const ALL: [(Falloc, &'static str); 7] = [
        (Falloc::Allocate, "allocate"),
        (Falloc::AllocateKeep, "allocate-keep"),
        (Falloc::Punch, "punch"),
        (Falloc::Zero, "zero"),
        (Falloc::ZeroKeep, "zero-keep"),
        (Falloc::Collapse, "collapse"),
        (Falloc::Insert, "insert"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(mode, _)| *mode == self).map_or("?", |(_, name)| name)
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(mode, _)| *mode)
    }
}

/// A file's path, relative to the root.
pub type Path = String;

/// One operation. What `write` and its like write follows from the step's number, see [`crate`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the system calls and of their arguments")]
pub enum Op {
    Creat {
        path: Path,
    },
    Mkdir {
        path: Path,
    },
    Mkfifo {
        path: Path,
    },
    /// A file without a name, open until the end as `@path`; the path says in which directory it is made.
    Tmpfile {
        path: Path,
    },
    /// Through the page cache.
    Write {
        path: Path,
        off: u64,
        len: u64,
    },
    /// Past the page cache.
    DirectWrite {
        path: Path,
        off: u64,
        len: u64,
    },
    Append {
        path: Path,
        len: u64,
    },
    Fsync {
        path: Path,
    },
    Fdatasync {
        path: Path,
    },
    Rename {
        from: Path,
        to: Path,
    },
    Exchange {
        from: Path,
        to: Path,
    },
    /// A rename that leaves a whiteout.
    Whiteout {
        from: Path,
        to: Path,
    },
    Link {
        from: Path,
        to: Path,
    },
    Symlink {
        target: String,
        path: Path,
    },
    Unlink {
        path: Path,
    },
    Rmdir {
        path: Path,
    },
    Truncate {
        path: Path,
        size: u64,
    },
    Falloc {
        path: Path,
        mode: Falloc,
        off: u64,
        len: u64,
    },
    /// The value is `len` bytes.
    SetXattr {
        path: Path,
        name: String,
        len: u64,
    },
    RemoveXattr {
        path: Path,
        name: String,
    },
    Chmod {
        path: Path,
        mode: u32,
    },
    Chown {
        path: Path,
        uid: u32,
        gid: u32,
    },
    /// Sets the times of access and of the last change, in seconds.
    Utimes {
        path: Path,
        seconds: u32,
    },
    /// Keep the file open until the end, as `@path`: unlinked, it becomes an orphan.
    Open {
        path: Path,
    },
    /// Everything: contents and names.
    Sync,
    /// A checkpoint alone: names and attributes, not contents that were not written back.
    Checkpoint,
    /// Collect one section, which ends with a checkpoint.
    Gc,
    /// Seconds in which the writer does nothing: with `journal.commit=` names become durable.
    Wait {
        seconds: u32,
    },
    /// Nothing: what is left of a step that could not be done on a full volume.
    Skip,
}

impl Op {
    /// Whether it changes nothing that a tree shows, and promises that what was changed is durable.
    pub(crate) fn is_promise(&self) -> bool {
        matches!(self, Op::Fsync { .. } | Op::Fdatasync { .. } | Op::Sync | Op::Checkpoint | Op::Gc)
    }

    /// A write of which only `written` bytes were written.
    pub(crate) fn cut(&self, written: u64) -> Op {
        let mut cut = self.clone();
        if let Op::Write { len, .. } | Op::DirectWrite { len, .. } | Op::Append { len, .. } = &mut cut {
            *len = written;
        }
        cut
    }
}

/// Why a text is no workload.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// Line number, from 1.
    pub line: usize,
    /// The fault of the line.
    pub what: String,
}

/// The file in the root that takes the space of a volume that is to be nearly full. It has no size and no contents.
pub const BALLAST: &str = "ballast";

/// Size of a volume on which nothing needs collecting; the smallest is 52.
pub const DEFAULT_MIB: u32 = 64;

impl Default for Workload {
    fn default() -> Self {
        Workload {
            kind: VolumeKind::F2fs,
            mib: DEFAULT_MIB,
            segs_per_sec: 1,
            features: String::new(),
            late: None,
            fail: None,
            schedule: None,
            mount: String::new(),
            free: None,
            setup: Vec::new(),
            steps: Vec::new(),
        }
    }
}

impl Workload {
    /// A workload of one writer on the default volume.
    pub fn new(setup: Vec<Op>, steps: impl IntoIterator<Item = Op>) -> Self {
        let steps = steps.into_iter().map(|op| Step { writer: 0, op }).collect();
        Workload { setup, steps, ..Workload::default() }
    }

    /// The writers that have steps, ascending.
    pub fn writers(&self) -> Vec<u8> {
        let mut writers: Vec<u8> = self.steps.iter().map(|step| step.writer).collect();
        writers.sort_unstable();
        writers.dedup();
        writers
    }

    /// The same workload on a volume of another kind, as far as that has the same features.
    pub fn on(self, kind: VolumeKind) -> Self {
        match kind {
            VolumeKind::F2fs => Workload { kind, ..self },
            VolumeKind::Iplfs => {
                let features = self.features.split(',').filter(|feature| *feature != "inode_checksum");
                let features = features.collect::<Vec<_>>().join(",");
                Workload { kind, features, segs_per_sec: 1, ..self }
            }
        }
    }

    /// Whether a torn node shows: an inode, or on an IPLFS volume any node.
    pub(crate) fn has_checksums(&self) -> bool {
        self.kind == VolumeKind::Iplfs || self.features.split(',').any(|feature| feature == "inode_checksum")
    }

    /// Whether the notes in the journal are durable after a wait of `seconds` seconds. In virtual time only, where a
    /// second is enough for what is done in one; and not where the batch may fail.
    pub(crate) fn commits_within(&self, seconds: u32) -> bool {
        let is_virtual = self.schedule.is_some() || self.writers().len() <= 1;
        let every = MountOptions::parse(&self.mount).ok().filter(|o| o.journal != JournalMode::Off);
        let every = every.map_or(0, |options| options.journal_commit_seconds);
        is_virtual && self.fail.is_none() && self.free.is_none() && every > 0 && u64::from(seconds) > every
    }

    /// Number of a step, as what it writes carries it: set-up steps count first.
    pub(crate) fn number(&self, step: usize) -> u32 {
        (self.setup.len() + step) as u32
    }
}

impl FromStr for Workload {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut workload = Workload::default();
        let mut setting_up = text.lines().any(|line| line.trim() == "---");
        for (at, line) in text.lines().enumerate() {
            let fail = |what: String| ParseError { line: at + 1, what };
            let line = line.split('#').next().unwrap_or_default().trim();
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [] => {}
                ["---"] => setting_up = false,
                ["volume", size, rest @ ..] => {
                    workload.mib = size.parse().map_err(|_| fail(format!("'{size}' is no size in MiB")))?;
                    for option in rest {
                        if let Some(kind) = option.strip_prefix("kind=") {
                            workload.kind = VolumeKind::parse(kind).map_err(fail)?;
                            continue;
                        }
                        match (option.strip_prefix("features="), option.strip_prefix("segs_per_sec=").map(str::parse)) {
                            (Some(features), _) => workload.features = features.to_owned(),
                            (_, Some(Ok(segments))) => workload.segs_per_sec = segments,
                            _ => return Err(fail(format!("'{option}' is not known"))),
                        }
                    }
                }
                ["late", number] => workload.late = Some(seed(number).map_err(fail)?),
                ["fail", number] => workload.fail = Some(seed(number).map_err(fail)?),
                ["schedule", cores, number] => {
                    let count: Option<usize> = cores.parse().ok().filter(|cores| *cores > 0);
                    let cores = count.ok_or_else(|| fail(format!("'{cores}' is no number of cores")))?;
                    workload.schedule = Some(Schedule { cores, seed: seed(number).map_err(fail)? });
                }
                ["mount", options] => workload.mount = (*options).to_owned(),
                ["free", blocks] => {
                    let blocks = blocks.parse().map_err(|_| fail(format!("'{blocks}' is no number of blocks")))?;
                    workload.free = Some(blocks);
                }
                words if setting_up => workload.setup.push(op(words).map_err(fail)?),
                words => workload.steps.push(step(words).map_err(fail)?),
            }
        }
        Ok(workload)
    }
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is no seed"))
}

fn step(words: &[&str]) -> Result<Step, String> {
    match words.split_first() {
        Some((first, rest)) if first.ends_with(':') => {
            let writer = first.trim_end_matches(':').parse().map_err(|_| format!("'{first}' is no writer's number"))?;
            Ok(Step { writer, op: op(rest)? })
        }
        _ => Ok(Step { writer: 0, op: op(words)? }),
    }
}

fn op(words: &[&str]) -> Result<Op, String> {
    let path = |text: &&str| (*text).to_owned();
    let number = |text: &&str| text.parse::<u64>().map_err(|_| format!("'{text}' is not a number"));
    let id = |text: &&str| text.parse::<u32>().map_err(|_| format!("'{text}' is not a number"));
    Ok(match words {
        ["creat", p] => Op::Creat { path: path(p) },
        ["mkdir", p] => Op::Mkdir { path: path(p) },
        ["mkfifo", p] => Op::Mkfifo { path: path(p) },
        ["tmpfile", p] => Op::Tmpfile { path: path(p) },
        ["write", p, off, len] => Op::Write { path: path(p), off: number(off)?, len: number(len)? },
        ["dwrite", p, off, len] => Op::DirectWrite { path: path(p), off: number(off)?, len: number(len)? },
        ["append", p, len] => Op::Append { path: path(p), len: number(len)? },
        ["fsync", p] => Op::Fsync { path: path(p) },
        ["fdatasync", p] => Op::Fdatasync { path: path(p) },
        ["rename", a, b] => Op::Rename { from: path(a), to: path(b) },
        ["exchange", a, b] => Op::Exchange { from: path(a), to: path(b) },
        ["whiteout", a, b] => Op::Whiteout { from: path(a), to: path(b) },
        ["link", a, b] => Op::Link { from: path(a), to: path(b) },
        ["symlink", target, p] => Op::Symlink { target: path(target), path: path(p) },
        ["unlink", p] => Op::Unlink { path: path(p) },
        ["rmdir", p] => Op::Rmdir { path: path(p) },
        ["truncate", p, size] => Op::Truncate { path: path(p), size: number(size)? },
        ["falloc", p, mode, off, len] => {
            let mode = Falloc::parse(mode).ok_or_else(|| format!("'{mode}' is no mode of falloc"))?;
            Op::Falloc { path: path(p), mode, off: number(off)?, len: number(len)? }
        }
        ["setxattr", p, name, len] => Op::SetXattr { path: path(p), name: path(name), len: number(len)? },
        ["removexattr", p, name] => Op::RemoveXattr { path: path(p), name: path(name) },
        ["chmod", p, mode] => {
            let mode = u32::from_str_radix(mode, 8).map_err(|_| format!("'{mode}' is no mode"))?;
            Op::Chmod { path: path(p), mode }
        }
        ["chown", p, uid, gid] => Op::Chown { path: path(p), uid: id(uid)?, gid: id(gid)? },
        ["utimes", p, seconds] => Op::Utimes { path: path(p), seconds: id(seconds)? },
        ["open", p] => Op::Open { path: path(p) },
        ["sync"] => Op::Sync,
        ["checkpoint"] => Op::Checkpoint,
        ["gc"] => Op::Gc,
        ["wait", seconds] => Op::Wait { seconds: id(seconds)? },
        ["skip"] => Op::Skip,
        _ => return Err(format!("'{}' is no operation", words.join(" "))),
    })
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "volume {}", self.mib)?;
        if self.kind == VolumeKind::Iplfs {
            write!(f, " kind=iplfs")?;
        }
        if self.segs_per_sec != 1 {
            write!(f, " segs_per_sec={}", self.segs_per_sec)?;
        }
        if !self.features.is_empty() {
            write!(f, " features={}", self.features)?;
        }
        writeln!(f)?;
        if let Some(seed) = self.late {
            writeln!(f, "late {seed}")?;
        }
        if let Some(seed) = self.fail {
            writeln!(f, "fail {seed}")?;
        }
        if let Some(Schedule { cores, seed }) = self.schedule {
            writeln!(f, "schedule {cores} {seed}")?;
        }
        if !self.mount.is_empty() {
            writeln!(f, "mount {}", self.mount)?;
        }
        if let Some(blocks) = self.free {
            writeln!(f, "free {blocks}")?;
        }
        self.setup.iter().try_for_each(|op| writeln!(f, "{op}"))?;
        writeln!(f, "---")?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.writer != 0 {
            write!(f, "{}: ", self.writer)?;
        }
        write!(f, "{}", self.op)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Creat { path } => write!(f, "creat {path}"),
            Op::Mkdir { path } => write!(f, "mkdir {path}"),
            Op::Mkfifo { path } => write!(f, "mkfifo {path}"),
            Op::Tmpfile { path } => write!(f, "tmpfile {path}"),
            Op::Write { path, off, len } => write!(f, "write {path} {off} {len}"),
            Op::DirectWrite { path, off, len } => write!(f, "dwrite {path} {off} {len}"),
            Op::Append { path, len } => write!(f, "append {path} {len}"),
            Op::Fsync { path } => write!(f, "fsync {path}"),
            Op::Fdatasync { path } => write!(f, "fdatasync {path}"),
            Op::Rename { from, to } => write!(f, "rename {from} {to}"),
            Op::Exchange { from, to } => write!(f, "exchange {from} {to}"),
            Op::Whiteout { from, to } => write!(f, "whiteout {from} {to}"),
            Op::Link { from, to } => write!(f, "link {from} {to}"),
            Op::Symlink { target, path } => write!(f, "symlink {target} {path}"),
            Op::Unlink { path } => write!(f, "unlink {path}"),
            Op::Rmdir { path } => write!(f, "rmdir {path}"),
            Op::Truncate { path, size } => write!(f, "truncate {path} {size}"),
            Op::Falloc { path, mode, off, len } => write!(f, "falloc {path} {} {off} {len}", mode.name()),
            Op::SetXattr { path, name, len } => write!(f, "setxattr {path} {name} {len}"),
            Op::RemoveXattr { path, name } => write!(f, "removexattr {path} {name}"),
            Op::Chmod { path, mode } => write!(f, "chmod {path} {mode:o}"),
            Op::Chown { path, uid, gid } => write!(f, "chown {path} {uid} {gid}"),
            Op::Utimes { path, seconds } => write!(f, "utimes {path} {seconds}"),
            Op::Open { path } => write!(f, "open {path}"),
            Op::Sync => write!(f, "sync"),
            Op::Checkpoint => write!(f, "checkpoint"),
            Op::Gc => write!(f, "gc"),
            Op::Wait { seconds } => write!(f, "wait {seconds}"),
            Op::Skip => write!(f, "skip"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYTHING: &str = "volume 64 segs_per_sec=2 features=extra_attr,inode_checksum
late 7
fail 8
schedule 4 9
mount fsync_mode=strict,noinline_data
free 12
mkdir A
creat A/foo
---
write A/foo 0 4096
dwrite A/foo 4096 8192
append A/foo 100
1: fsync w1/foo
fdatasync A/foo
rename A/foo bar
exchange bar baz
link bar A/bar
symlink some/target s
unlink bar
rmdir A
truncate A/bar 17
falloc A/bar zero-keep 0 4096
falloc A/bar collapse 0 4096
setxattr A/bar user.one 40
removexattr A/bar user.one
chmod A/bar 640
chown A/bar 7 8
utimes A/bar 1000000
mkfifo A/fifo
tmpfile A/new
write @A/new 0 100
open A/bar
sync
checkpoint
gc
skip
";

    #[test]
    fn what_is_printed_is_what_was_parsed() {
        let workload: Workload = EVERYTHING.parse().expect("parses");
        assert_eq!(workload.to_string(), EVERYTHING);
        assert_eq!(workload.writers(), [0, 1]);
        assert_eq!((workload.setup.len(), workload.steps.len(), workload.number(3)), (2, 27, 5));
    }

    #[test]
    fn comments_blanks_and_defaults() {
        let workload: Workload = "# all\n\ncreat foo # a file\n  fsync foo".parse().expect("parses");
        assert_eq!((workload.mib, workload.setup.len(), workload.steps.len()), (DEFAULT_MIB, 0, 2));
    }

    #[test]
    fn a_workload_on_another_kind_of_volume_is_printed_and_parsed() {
        let workload: Workload = EVERYTHING.parse().expect("parses");
        let other = workload.on(VolumeKind::Iplfs);
        assert_eq!((other.segs_per_sec, other.features.as_str(), other.has_checksums()), (1, "extra_attr", true));
        assert!(other.to_string().starts_with("volume 64 kind=iplfs features=extra_attr\n"), "{other}");
        assert_eq!(other.to_string().parse(), Ok(other));
    }

    #[test]
    fn errors_name_the_line() {
        for (text, part) in [
            ("creat", "line 1: 'creat' is no operation"),
            ("\nwrite a 0 many", "line 2: 'many' is not a number"),
            ("falloc a twist 0 1", "'twist' is no mode"),
            ("x: sync", "'x:' is no writer"),
            ("volume big", "'big' is no size"),
            ("volume 64 kind=zfs", "'zfs' is no kind"),
            ("late noon", "'noon' is no seed"),
            ("free some", "'some' is no number of blocks"),
            ("schedule 0 1", "'0' is no number of cores"),
        ] {
            let error = text.parse::<Workload>().expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
