//! What serves a volume to programs tells of itself: a mount counts requests, and knows the way they take.
//!
//! The core knows no mount: whoever serves a volume leaves a function here, which a snapshot calls. The library leaves
//! none, and its snapshots hold nothing of it.

use crate::waits::Latency;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// What serves a volume, and how much it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServingStats {
    /// The way of requests, such as `/dev/fuse`; empty if nobody serves the volume.
    pub transport: String,
    /// Requests since the mount, by operation. An operation that nobody asked for is not listed.
    pub requests: BTreeMap<String, u64>,
    /// How long those took that have ended, by operation: from a request's arrival in this process to its reply.
    #[serde(default)]
    pub latency: BTreeMap<String, Latency>,
    /// Requests in service now, by operation; the one that asks is left out.
    #[serde(default)]
    pub in_service: BTreeMap<String, u64>,
    /// Of these, those that wait for something known, by its name: see [`steadyfs_rt::WaitCause`].
    #[serde(default)]
    pub waiting: BTreeMap<String, u64>,
    /// How long the oldest request has been in service, in microseconds; 0 if there is none.
    #[serde(default)]
    pub oldest_us: u64,
    /// Requests that have been in service for longer than [`SLOW`], the oldest first: at most [`MOST_SLOW`].
    #[serde(default)]
    pub slow: Vec<SlowRequest>,
    /// Inodes that the kernel may ask for by number.
    #[serde(default)]
    pub known_inodes: u64,
    /// Of these, those that have no name, and are held for it.
    #[serde(default)]
    pub held_inodes: u64,
    /// Open files.
    #[serde(default)]
    pub open_files: u64,
}

/// From so long on a request in service is listed by itself.
pub const SLOW: Duration = Duration::from_millis(100);

/// Slow requests that are listed one by one.
pub const MOST_SLOW: usize = 32;

/// A request that has been in service for long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowRequest {
    /// The operation, as FUSE calls it.
    pub operation: String,
    /// The user who asks.
    pub user: u32,
    /// The process that asks: the number of its thread. 0: the kernel by itself, or one that cannot be seen from here.
    pub process: u32,
    /// The inode that it is about; of a name, its directory. 0: none.
    pub inode: u64,
    /// How long it has been in service, in microseconds.
    pub lasted_us: u64,
    /// The cause of its wait, as far as that is known.
    pub waits_for: Option<String>,
}

/// Tells of what serves a volume.
pub type Serving = Box<dyn Fn() -> ServingStats + Send + Sync>;
