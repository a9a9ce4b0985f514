//! What serves a volume to programs tells of itself: a mount counts requests, and knows the way they take.
//!
//! The core knows no mount: whoever serves a volume leaves a function here, which a snapshot calls. The library leaves
//! none, and its snapshots hold nothing of it.

use crate::waits::Latency;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

/// Tells of what serves a volume.
pub type Serving = Box<dyn Fn() -> ServingStats + Send + Sync>;
