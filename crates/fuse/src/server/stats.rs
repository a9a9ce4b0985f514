//! The counters of a mounted volume, as the value of an attribute that the root directory does not list: any user may read it, and no
//! other channel into the process is needed.

use serde_json::{Value, json};
use std::time::Duration;
use steadyfs_core::{Fs, Reason, WaitStats};

/// The name of the attribute. Its value is JSON; times are in microseconds, sizes in blocks of 4096 bytes.
pub const STATS_ATTRIBUTE: &str = "steadyfs.stats";

/// The counters since the mount.
pub(super) fn stats(fs: &Fs) -> Vec<u8> {
    let (io, gc, cache) = (fs.io_stats(), fs.gc_totals(), fs.cache_stats());
    let (checkpoints, syncs, space) = (fs.checkpoint_stats(), fs.sync_stats(), fs.statfs());
    let orphans = fs.orphan_stats();
    let reasons = Reason::ALL.map(|reason| (reason.name().to_owned(), json!(syncs.checkpoints[reason as usize])));
    let stats = json!({
        "io": {
            "read": io.read, "data_written": io.data_written, "node_written": io.node_written,
            "meta_written": io.meta_written, "flushes": io.flushes, "discarded": io.discarded,
        },
        "checkpoints": {
            "committed": checkpoints.committed, "longest_freeze_us": micros(checkpoints.longest_freeze),
            "freeze_waits": waits(checkpoints.freeze_waits), "commit_waits": waits(checkpoints.commit_waits),
        },
        "fsyncs": {
            "chained": syncs.chained, "covered": syncs.covered,
            "checkpoints": Value::Object(reasons.into_iter().collect()),
        },
        "gc": {
            "victims": gc.victims, "sections_freed": gc.sections_freed, "data_moved": gc.data_moved,
            "nodes_moved": gc.nodes_moved, "skipped": gc.skipped,
        },
        "orphans": {"listed": orphans.listed, "kept": orphans.kept},
        "cache": {"limit": cache.limit, "cached": cache.cached, "dirty": cache.dirty, "flying": cache.flying},
        "space": {
            "blocks": space.blocks, "blocks_free": space.blocks_free,
            "files": space.files, "files_free": space.files_free,
        },
        "read_only": fs.is_read_only(),
    });
    stats.to_string().into_bytes()
}

fn waits(stats: WaitStats) -> Value {
    json!({"count": stats.waits, "longest_us": micros(stats.longest), "p99_us": micros(stats.p99)})
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
