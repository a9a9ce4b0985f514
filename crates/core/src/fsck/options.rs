//! How to check, and how a check tells how far it is.

use std::sync::Arc;

/// A step of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Superblocks and checkpoint packs.
    Volume,
    /// The node address table, counted in its blocks.
    Nat,
    /// The segment information table, counted in segments.
    Sit,
    /// All nodes.
    Nodes,
    /// All directories.
    Directories,
    /// Links, counters, leaks.
    Totals,
}

impl Phase {
    /// What people read while it runs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Volume => "superblocks and checkpoint",
            Self::Nat => "node table",
            Self::Sit => "segment table",
            Self::Nodes => "nodes",
            Self::Directories => "directories",
            Self::Totals => "totals",
        }
    }
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The phase.
    pub phase: Phase,
    /// Units of it that are done.
    pub done: u64,
    /// Units that it has.
    pub total: u64,
}

/// Called from any of the threads, some hundred times per phase at most per million units.
pub type ProgressFn = Arc<dyn Fn(Progress) + Send + Sync>;

/// How to check.
#[derive(Clone)]
pub struct CheckOptions {
    /// Threads to use, at least 1.
    pub threads: usize,
    /// Walk the volume even if it looks cleanly unmounted.
    pub force: bool,
    /// Look on an IPLFS volume for what the device holds and nobody needs.
    pub leaks: bool,
    /// Where the walk finds no error, try in memory whether a mount for writing refuses the volume. Takes memory for
    /// what such a mount writes before it serves anybody.
    pub rehearse: bool,
    /// Issues to keep; more are only counted.
    pub max_issues: usize,
    /// Told how far the check is.
    pub progress: Option<ProgressFn>,
}

impl Default for CheckOptions {
    /// All CPUs, a whole walk, 10,000 issues.
    fn default() -> Self {
        CheckOptions {
            threads: steadyfs_rt::cpus(),
            force: true,
            leaks: false,
            rehearse: false,
            max_issues: 10_000,
            progress: None,
        }
    }
}
