//! The file system: volumes, nodes, files, directories, checkpoints and collection.
//!
//! Two halves. The lower one, `volume`, knows blocks, segments, logs and nodes, and imports nothing from above it. The
//! upper one knows files and users, in floors: `gate` lets changes begin, `files` is what programs see, `durable` what
//! survives a power cut, `reclaim` the collection of garbage, `fs` the public operations; `mount` brings a volume up
//! and down. Both change the volume only under the checkpoint lock held shared, so that a checkpoint, which holds it
//! exclusively for a moment, always sees a whole state. The locks and their order are in `locks`. `crates/tidy` holds
//! the table of who may import whom.
//!
//! A newcomer reads, in this order: `volume::segments` (states of a segment), `volume::segments::logs` (where blocks
//! go), `volume::nodes` (metadata in memory), `durable::checkpoint` (what becomes durable when), `files::inode`,
//! `files::pages`, `files::file` and `files::dir` (what users do), `reclaim`.

mod bits;
mod canary;
mod counters;
mod durable;
mod error;
mod files;
mod fs;
pub mod fsck;
mod gate;
mod locks;
pub mod mkfs;
mod mount;
mod options;
#[doc(hidden)]
pub mod ranges;
pub mod raw;
mod reclaim;
pub mod stats;
mod types;
mod volume;
mod waits;

#[doc(hidden)]
pub use canary::Canary;
pub use durable::checkpoint::CheckpointStats;
pub use durable::recovery::Recovered;
pub use durable::sync::{Reason, SyncStats};
pub use error::{Error, Result};
pub use files::attr::Changer;
pub use files::errseq::ErrorCursor;
pub use files::file::{FallocMode, Whence};
pub use files::inode::InodeRef;
pub use files::noted::journal::JournalStats;
pub use files::orphans::OrphanStats;
pub use files::pages::CacheStats;
pub use fs::Fs;
pub use mount::shutdown::ShutDown;
pub use mount::why_read_only;
/// What tables of mount options are made of.
pub mod option_rows {
    #[doc(hidden)]
    pub use crate::options::proof::faults;
    pub use crate::options::row::{Entry, Get, Refusal, Row, Tier, Values, apply, differences, entries, split};
}
pub use options::policies::{CostBenefit, DataToPlace, Greedy, Own, PlacementPolicy, SectionState, VictimPolicy};
pub use options::techniques::{
    CpCounters, DataLogs, GcBuffer, GcCollectors, GcMeta, GcOptions, GcProtect, GcSearch, GcSelect, GcStream, System,
};
pub use options::{
    AccessTimes, Allocation, Discard, FsyncMode, InPlace, JournalMode, MountOptions, OPTIONS, OnError, WriteBack,
};
pub use reclaim::host::buffer::GcMemory;
pub use reclaim::host::plan::{GcCandidate, GcPlan};
#[doc(hidden)]
pub use reclaim::host::stand::{StandVictim, VictimStand};
#[doc(hidden)]
pub use reclaim::host::victim::{Effort, Reach};
pub use reclaim::report::{GcReport, GcTimes, SectionCounts, Urgency};
pub use types::{Attr, DirEntry, NewInode, RenameFlags, SetAttr, SetTime, StatFs, XattrFlags};
pub use volume::discard::DiscardStats;
pub use volume::io::IoStats;
pub use volume::segments::migrating::MigrationStats;
pub use volume::segments::zoned::ZoneStats;
pub use waits::WaitStats;
