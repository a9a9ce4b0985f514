//! What `top` shows of an IPLFS volume where others have segments: how much it may hold, holds and has to discard, and
//! how far its logs can run.

use steadyfs_core::stats::VolumeStats;

use super::plain::size;
use super::source::Snapshot;

/// Whether this is an IPLFS volume.
pub(super) fn are_in(stats: &VolumeStats) -> bool {
    stats.logs.capacity > 0
}

/// The lines, each of a name and words, without colours.
pub(super) fn lines(now: &Snapshot) -> [(&'static str, String); 2] {
    let stats = &now.stats;
    let (logs, valid) = (&stats.logs, stats.space.blocks_valid);
    let part = |blocks: u64| (blocks.saturating_mul(100)).checked_div(logs.capacity).unwrap_or(0);
    let held = format!(
        "{} valid ({} %) and {} dead of {} that it may hold",
        size(valid),
        part(valid),
        size(logs.dead),
        size(logs.capacity)
    );
    let all = size(logs.before_end);
    let room = match now.mounted {
        true => format!("{} before the next checkpoint, {all} before one is used up", size(logs.before_checkpoint)),
        false => format!("{all} before one is used up"),
    };
    [("held", held), ("logs", room)]
}
