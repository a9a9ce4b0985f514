//! How fsyncs are served: counted, and why some need a checkpoint.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steadyfs_rt::SharedLine;

/// Why an fsync made a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Only regular files are in the chain.
    Kind,
    /// Hard links: an inode brings just one name along.
    Links,
    /// The file was renamed or linked since the last checkpoint: recovery would not take the old name away.
    Renamed,
    /// The file is new, and so is its directory.
    NewDirectory,
    /// The file is new, and its directory's extended attributes changed.
    DirectoryAttributes,
    /// The file is new and has a name that stood for something else that recovery must not lose.
    NameReused,
    /// `fsync_mode=strict`, the file is new, and its directory lost a name.
    Strict,
    /// Nodes of the file were freed: recovery would find them, with what they held.
    NodesFreed,
    /// Recovery repeats no deletion, so it might find no room.
    Space,
    /// With a journal: something happened that it cannot say, or too much.
    Journal,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 10] = [
        Reason::Kind,
        Reason::Links,
        Reason::Renamed,
        Reason::NewDirectory,
        Reason::DirectoryAttributes,
        Reason::NameReused,
        Reason::Strict,
        Reason::NodesFreed,
        Reason::Space,
        Reason::Journal,
    ];

    /// A short name, for statistics.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Kind => "no_regular_file",
            Reason::Links => "hard_links",
            Reason::Renamed => "renamed",
            Reason::NewDirectory => "new_directory",
            Reason::DirectoryAttributes => "directory_attributes",
            Reason::NameReused => "name_reused",
            Reason::Strict => "strict",
            Reason::NodesFreed => "nodes_freed",
            Reason::Space => "space",
            Reason::Journal => "journal",
        }
    }
}

/// How fsyncs were served since the mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncStats {
    /// By marked nodes and a flush.
    pub chained: u64,
    /// By the journal, and marked nodes behind it where there were contents.
    #[serde(default)]
    pub journaled: u64,
    /// Of those, the ones that would have been checkpoints without it.
    #[serde(default)]
    pub avoided: u64,
    /// By a checkpoint that was under way anyway.
    pub covered: u64,
    /// By a checkpoint of their own: how many for each reason, by its name.
    pub checkpoints: BTreeMap<String, u64>,
}

/// The counters behind [`SyncStats`].
#[derive(Default)]
pub(crate) struct SyncCounters {
    chained: AtomicU64,
    journaled: AtomicU64,
    avoided: AtomicU64,
    covered: AtomicU64,
    checkpoints: [AtomicU64; Reason::ALL.len()],
    /// Of all of them: an fsync writes one or two, which lie side by side.
    line: SharedLine,
}

impl SyncCounters {
    /// An fsync was served by the chain.
    pub(super) fn note_chained(&self) {
        self.line.write();
        self.chained.fetch_add(1, Relaxed);
    }

    /// An fsync was served by the journal; another one, by a checkpoint, if there was a reason.
    pub(super) fn note_journaled(&self, reason: Option<Reason>) {
        self.line.write();
        self.journaled.fetch_add(1, Relaxed);
        self.avoided.fetch_add(u64::from(reason.is_some()), Relaxed);
    }

    /// An fsync was served by a checkpoint that was under way.
    pub(super) fn note_covered(&self) {
        self.line.write();
        self.covered.fetch_add(1, Relaxed);
    }

    /// An fsync needs a checkpoint of its own.
    pub(super) fn note_checkpoint(&self, reason: Reason) {
        self.line.write();
        self.checkpoints[reason as usize].fetch_add(1, Relaxed);
    }

    /// The numbers now.
    pub(super) fn read(&self) -> SyncStats {
        SyncStats {
            chained: self.chained.load(Relaxed),
            journaled: self.journaled.load(Relaxed),
            avoided: self.avoided.load(Relaxed),
            covered: self.covered.load(Relaxed),
            checkpoints: Reason::ALL
                .into_iter()
                .map(|reason| (reason.name().to_owned(), self.checkpoints[reason as usize].load(Relaxed)))
                .collect(),
        }
    }
}
