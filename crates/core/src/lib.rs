//! The file system: volumes, nodes, files, directories, checkpoints and collection.
//!
//! Two halves. The lower one, [`volume`], knows blocks, segments, logs and nodes, and nothing of files. The upper one, [`fs`],
//! knows files, directories and users. Both change the volume only under the checkpoint lock held shared, so that a checkpoint,
//! which holds it exclusively for a moment, always sees a whole state. The locks and their order are in [`locks`].
//!
//! A newcomer reads, in this order: [`segments`] (states of a segment), [`logs`] (where blocks go), [`nat`] and [`node`] (metadata
//! in memory), [`checkpoint`] (what becomes durable when), [`inode`], [`pages`], [`file`] and [`dir`] (what users do), [`reclaim`].

mod acl;
mod attr;
mod background;
mod barrier;
mod bits;
mod canary;
mod checkpoint;
mod cp_lock;
mod dir;
mod dirt;
mod disk_size;
mod error;
mod errseq;
mod file;
mod flush;
mod fs;
pub mod fsck;
mod gather;
mod held;
mod inode;
mod io;
mod locks;
mod logs;
mod mapping;
pub mod mkfs;
mod mount;
mod namei;
mod nat;
mod nids;
mod node;
mod node_write;
mod options;
mod orphans;
mod pages;
#[doc(hidden)]
pub mod ranges;
pub mod raw;
mod reclaim;
mod recovery;
mod reuse;
mod seg_locks;
mod segments;
mod shutdown;
mod sit;
mod slots;
mod space;
pub mod stats;
mod streams;
mod sync;
mod trim;
mod types;
mod unwritten;
mod volume;
mod waits;
mod xattr;

pub use attr::Changer;
#[doc(hidden)]
pub use canary::Canary;
pub use checkpoint::CheckpointStats;
pub use error::{Error, Result};
pub use errseq::ErrorCursor;
pub use file::{FallocMode, MAX_FILE_SIZE, Whence};
pub use fs::{Fs, StatFs};
pub use inode::InodeRef;
pub use io::IoStats;
pub use mount::why_read_only;
pub use options::{AccessTimes, Allocation, FsyncMode, InPlace, MountOptions, OPTION_HELP, OnError};
pub use orphans::OrphanStats;
pub use pages::CacheStats;
pub use reclaim::{
    CpCounters, DataLogs, GcBuffer, GcCandidate, GcCollectors, GcMemory, GcMeta, GcOptions, GcPlan, GcProtect,
    GcReport, GcSelect, GcStream, GcTimes, SectionCounts, Urgency,
};
#[doc(hidden)]
pub use reclaim::{Effort, Reach, StandVictim, VictimStand};
pub use recovery::Recovered;
pub use shutdown::ShutDown;
pub use sync::{Reason, SyncStats};
pub use types::{Attr, DirEntry, NewInode, RenameFlags, SetAttr, SetTime, XattrFlags};
pub use waits::WaitStats;
