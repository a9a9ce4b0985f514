//! Commits to the metadata journal alone, without a volume: what the lists of `crates/journal` cost as tasks and items
//! become many.
//!
//! Tasks commit to items of their own or to shared ones, one after the other; a pusher seals the list now and then, as
//! fsyncs do. Which lists there are is what the mount options say (`journal`, `journal.stride`). The steps are in
//! `run::committing`.

use super::Options;
use serde::{Deserialize, Serialize};

/// The options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Committing {
    /// Those who commit.
    pub(crate) tasks: u32,
    /// Commits of each of them.
    pub(crate) commits: u32,
    /// Items that a task commits to in turn; or all tasks together, with `shared`.
    pub(crate) items: u32,
    #[serde(default)]
    pub(crate) shared: bool,
    /// Bytes of an item's vector, which a later commit replaces.
    pub(crate) bytes: u32,
    /// Bytes by which each commit makes the vector longer, as a name of a directory does.
    #[serde(default)]
    pub(crate) name_bytes: u32,
    /// Nanoseconds of a task's other work between two commits.
    pub(crate) work_ns: u64,
    /// Microseconds between two seals of a pusher; 0 for none.
    #[serde(default)]
    pub(crate) push_us: u64,
    /// A task seals after so many commits of its own; 0 for never.
    #[serde(default)]
    pub(crate) push_every: u32,
}

impl Committing {
    /// The same with fewer commits.
    pub(crate) fn scaled(mut self, factor: f64) -> Self {
        self.commits = ((f64::from(self.commits) * factor) as u32).max(1);
        self
    }

    /// Commits in all.
    pub(crate) fn total(&self) -> u64 {
        u64::from(self.tasks) * u64::from(self.commits)
    }
}

impl Options for Committing {
    fn check(&self) -> Result<(), String> {
        if self.tasks == 0 || self.tasks > 4096 || self.commits == 0 {
            return Err("workload: say 1 to 4096 tasks, and 1 commit or more".into());
        }
        if self.items == 0 || self.items > 1 << 20 {
            return Err(format!("workload.items: {} is not between 1 and 1048576", self.items));
        }
        if self.bytes == 0 || self.bytes > 1 << 20 || self.name_bytes > 1 << 20 {
            return Err("workload.bytes, workload.name_bytes: say 1 to 1048576, and at most that".into());
        }
        if self.push_us > 0 && self.push_every > 0 {
            return Err("workload.push_every: there is a pusher".into());
        }
        Ok(())
    }

    fn file_bytes(&self) -> u64 {
        0
    }
}
