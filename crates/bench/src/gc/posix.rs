//! A mounted file system as a peer, by system calls: our mount on the host, the real F2FS in the guest.

use super::write::{Counters, Peer};
use crate::measure::cpu_time;
use crate::posix::PosixTree;
use crate::tree::Tree;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use steadyfs_fuse::STATS_ATTRIBUTE;

/// Sectors of 512 bytes that make a block.
const SECTORS: u64 = 8;

/// Where a mounted file system's counters are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CountedBy {
    /// The attribute of our mount, and the process that serves it.
    Mount(u32),
    /// The block layer and sysfs of F2FS, for this disk.
    Kernel(&'static str),
}

/// A directory where a file system is mounted.
pub(crate) struct MountedPeer {
    tree: PosixTree,
    dir: PathBuf,
    counted: CountedBy,
}

impl MountedPeer {
    /// The file system there.
    pub(crate) fn new(dir: &Path, counted: CountedBy) -> Result<Self> {
        Ok(MountedPeer { tree: PosixTree::open(dir)?, dir: dir.to_owned(), counted })
    }
}

impl Peer for MountedPeer {
    fn tree(&self) -> &dyn Tree {
        &self.tree
    }

    fn free_bytes(&self) -> Result<u64> {
        let stat = rustix::fs::statvfs(&self.dir)?;
        Ok(stat.f_bfree * stat.f_frsize)
    }

    fn counters(&self) -> Result<Counters> {
        match self.counted {
            CountedBy::Mount(server) => from_mount(&self.dir, server),
            CountedBy::Kernel(disk) => Ok(from_kernel(disk)),
        }
    }
}

fn from_mount(dir: &Path, server: u32) -> Result<Counters> {
    let mut value = vec![0; 64 << 10];
    let length = rustix::fs::getxattr(dir, STATS_ATTRIBUTE, &mut value[..]).context("the mount has no counters")?;
    ensure!(length <= value.len(), "too many counters");
    let stats: Value = serde_json::from_slice(&value[..length])?;
    let number = |group: &str, name: &str| {
        let value = stats.get(group).and_then(|g| g.get(name)).and_then(Value::as_u64);
        value.with_context(|| format!("the mount does not count {group}.{name}"))
    };
    let (data, node, meta) =
        (number("io", "data_written")?, number("io", "node_written")?, number("io", "meta_written")?);
    let named = [
        ("written", data + node + meta),
        ("data", data),
        ("node", node),
        ("meta", meta),
        ("read", number("io", "read")?),
        ("moved", number("gc", "data_moved")? + number("gc", "nodes_moved")?),
        ("victims", number("gc", "victims")?),
        ("checkpoints", number("checkpoints", "committed")?),
        ("cpu_us", u64::try_from(cpu_time(Some(server))?.as_micros())?),
    ];
    Ok(named.map(|(name, value)| (name.to_owned(), value)).into())
}

/// What a kernel does not count is left out.
fn from_kernel(disk: &str) -> Counters {
    let mut counters = Counters::new();
    let stat = std::fs::read_to_string(format!("/sys/block/{disk}/stat")).unwrap_or_default();
    let stat: Vec<u64> = stat.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    for (name, field) in [("read", 2), ("written", 6)] {
        if let Some(sectors) = stat.get(field) {
            counters.insert(name.to_owned(), sectors / SECTORS);
        }
    }
    let number = |name: &str| -> Option<u64> {
        std::fs::read_to_string(format!("/sys/fs/f2fs/{disk}/{name}")).ok()?.trim().parse().ok()
    };
    let sum = |names: [&str; 2]| names.iter().filter_map(|name| number(name)).reduce(|a, b| a + b);
    for (name, from) in [
        ("moved", ["moved_blocks_foreground", "moved_blocks_background"]),
        ("victims", ["gc_foreground_calls", "gc_background_calls"]),
        ("checkpoints", ["cp_foreground_calls", "cp_background_calls"]),
    ] {
        if let Some(value) = sum(from) {
            counters.insert(name.to_owned(), value);
        }
    }
    counters
}
