//! The result of a check.

use super::issue::{Issue, Severity};
use std::time::Duration;
use steadyfs_format::Pack;
use steadyfs_format::checkpoint::CpFlags;
use steadyfs_format::dir::FileType;

/// Exit codes of fsck(8). A program exits with the sum of what applies.
pub mod exit {
    /// Nothing is wrong.
    pub const OK: u8 = 0;
    /// Errors were corrected.
    pub const CORRECTED: u8 = 1;
    /// The system should be rebooted.
    pub const REBOOT: u8 = 2;
    /// Errors were found and left as they are.
    pub const UNCORRECTED: u8 = 4;
    /// The check could not be done, or not to its end.
    pub const OPERATIONAL: u8 = 8;
    /// The command was not understood.
    pub const USAGE: u8 = 16;
    /// The user stopped it.
    pub const CANCELLED: u8 = 32;
    /// A shared library failed.
    pub const LIBRARY: u8 = 128;
}

/// What a volume holds, as the walk counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Regular files, quota files included.
    pub files: u64,
    /// Directories, the root included.
    pub dirs: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, FIFOs and sockets.
    pub specials: u64,
    /// Entries in directories, dots not counted.
    pub links: u64,
    /// Inodes that were deleted while open.
    pub orphans: u64,
    /// Node blocks, inodes included.
    pub nodes: u64,
    /// All blocks in use: nodes, data, and reserved slots.
    pub blocks: u64,
}

impl Counts {
    pub(super) fn add(&mut self, kind: Option<FileType>) {
        match kind {
            Some(FileType::Regular) => self.files += 1,
            Some(FileType::Dir) => self.dirs += 1,
            Some(FileType::Symlink) => self.symlinks += 1,
            Some(FileType::CharDevice | FileType::BlockDevice | FileType::Fifo | FileType::Socket) => {
                self.specials += 1
            }
            None => {}
        }
    }

    /// Inodes of every kind.
    pub fn inodes(&self) -> u64 {
        self.files + self.dirs + self.symlinks + self.specials
    }
}

/// Fsynced files that the next mount recovers (format section 12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollForward {
    /// Nodes in the chain.
    pub nodes: u64,
    /// Files with an fsync mark among them.
    pub files: u64,
}

/// Which state of the volume was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The checkpoint pack in force.
    pub pack: Pack,
    /// Its version.
    pub version: u64,
    /// Its flags.
    pub flags: CpFlags,
    /// The walk over all nodes and directories was done. It is not where the volume looks cleanly unmounted and nobody
    /// forced it.
    pub walked: bool,
}

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The issues found, in the order of the table of [`Issue`]; at most [`super::CheckOptions::max_issues`], and some
    /// fatal ones.
    pub issues: Vec<Issue>,
    /// Issues that were found beyond those.
    pub dropped: u64,
    /// Which state was checked; `None` if no volume was found.
    pub checked: Option<Checked>,
    /// What the volume holds; `None` if it was not walked.
    pub counts: Option<Counts>,
    /// Fsynced files that the next mount recovers, if there are some.
    pub roll_forward: Option<RollForward>,
    /// How long the check took.
    pub elapsed: Duration,
    pub(super) severities: [u64; 4],
}

impl Report {
    /// How many issues of this severity were found, dropped ones included.
    pub fn count(&self, severity: Severity) -> u64 {
        self.severities[severity as usize]
    }

    /// Whether nothing worse than a note was found.
    pub fn is_clean(&self) -> bool {
        self.worst() <= Some(Severity::Note)
    }

    /// The worst severity found.
    pub fn worst(&self) -> Option<Severity> {
        let all = [Severity::Note, Severity::Warning, Severity::Error, Severity::Fatal];
        all.into_iter().rev().find(|severity| self.count(*severity) > 0)
    }

    /// The exit code that fsck(8) wants of a checker that has corrected nothing: 4 for errors, 8 if something kept the
    /// check from its end, the sum of both, or 0. Of warnings two kinds count: a lost copy of a checkpoint, as a lost
    /// superblock does, which is an error; and blocks in use that lie in a hole, which most likely have lost their
    /// contents. Notes do not count.
    pub fn exit_code(&self) -> u8 {
        let is_lost = |issue: &Issue| {
            use Issue::{CheckpointHeaderDamaged, CheckpointPackLost, HoleInUse};
            matches!(issue, CheckpointPackLost { .. } | CheckpointHeaderDamaged { .. } | HoleInUse { .. })
        };
        let lost = self.issues.iter().any(is_lost);
        let errors = if lost || self.count(Severity::Error) > 0 { exit::UNCORRECTED } else { exit::OK };
        let fatal = if self.count(Severity::Fatal) > 0 { exit::OPERATIONAL } else { exit::OK };
        errors | fatal
    }
}
