//! What a mounted volume does by itself: periodic checkpoints, batches of the journal between them, collection while
//! idle, deletion of unlinked inodes.
//!
//! The housekeeper holds the volume weakly between its ticks and ends with it.

use crate::counters::Cause;
use crate::error::Result;
use crate::fs::Fs;
use crate::reclaim::report::Urgency;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// Ticks without a change after which the volume counts as idle (F2FS: 5 seconds).
const IDLE_TICKS: u32 = 5;
/// Ticks between background collections on an idle volume (F2FS: at least 30 seconds).
const GC_TICKS: u32 = 30;
/// Ticks to wait when there was nothing to collect (F2FS: 300 seconds).
const GC_TICKS_WITHOUT_VICTIM: u32 = 300;

/// Ticks between looks at memory that no page uses.
const MEMORY_TICKS: u64 = 5;

/// Seconds between attempts to write what the device refused.
const RETRY_SECONDS: u64 = 5;

/// What the housekeeper remembers between ticks.
#[derive(Default)]
struct Rounds {
    seen_changes: u64,
    idle_ticks: u32,
    gc_wait: u32,
    since_checkpoint: u64,
    since_names: u64,
    ticks: u64,
}

/// Starts the housekeeper of a writable volume.
pub(super) fn start(fs: &Arc<Fs>) {
    let (weak, mut rounds) = (Arc::downgrade(fs), Rounds::default());
    fs.background.start(move || {
        let Some(fs) = weak.upgrade() else { return false };
        if let Err(e) = tick(&fs, &mut rounds) {
            tracing::warn!(error = %e, "housekeeping failed");
        }
        true
    });
}

impl Fs {
    /// Sets the seconds between checkpoints while there are changes, unless the options of the mount say how many. For
    /// who mounts this where `sync` does not reach it.
    pub fn set_usual_commit(&self, seconds: u64) {
        self.background.usual_commit.store(seconds, SeqCst);
    }
}

fn tick(fs: &Fs, rounds: &mut Rounds) -> Result<()> {
    rounds.ticks += 1;
    // Virtual seconds are short: memory would go and come all the time.
    if rounds.ticks.is_multiple_of(MEMORY_TICKS) && !steadyfs_rt::sim::is_active() {
        steadyfs_device::trim_page_memory();
    }
    if fs.vol.check_writable().is_err() {
        return Ok(());
    }
    fs.files.reap_quietly();
    fs.files.inodes.shrink(&fs.files.budget);
    fs.vol.nodes.shrink();
    let changes = fs.vol.changes();
    let idle = changes == rounds.seen_changes;
    rounds.seen_changes = changes;
    rounds.idle_ticks = if idle { rounds.idle_ticks + 1 } else { 0 };
    rounds.since_checkpoint += 1;
    let refused = fs.vol.io.failed.count() > 0 || fs.durable.checkpoints.has_undecided();
    let retry = refused && rounds.since_checkpoint >= RETRY_SECONDS;
    let commit = fs.files.options.commit_seconds.unwrap_or_else(|| fs.background.usual_commit.load(SeqCst));
    let due = retry || commit > 0 && rounds.since_checkpoint >= commit;
    if due || fs.durable.checkpoints.is_pressing(&fs.vol) || fs.files.journal.is_pressing() {
        rounds.since_checkpoint = 0;
        if due {
            fs.files.reap_again();
        }
        if fs.durable.checkpoints.has_changes(&fs.vol) {
            fs.durable.checkpoint(if due { Cause::Timer } else { Cause::Backlog })?;
        }
    }
    commit_names(fs, rounds)?;
    collect_when_idle(fs, rounds)
}

/// Makes names durable that nobody synced, and old contents, when it is time.
fn commit_names(fs: &Fs, rounds: &mut Rounds) -> Result<()> {
    rounds.since_names += 1;
    let seconds = fs.files.options.journal_commit_seconds;
    if seconds == 0 || rounds.since_names < seconds {
        return Ok(());
    }
    rounds.since_names = 0;
    // No batch says what they are.
    if fs.files.journal.has_old_contents() && !steadyfs_rt::mutated("old-contents-are-committed") {
        rounds.since_checkpoint = 0;
        return fs.durable.checkpoint(Cause::Timer);
    }
    fs.durable.commit_journal()
}

fn collect_when_idle(fs: &Fs, rounds: &mut Rounds) -> Result<()> {
    rounds.gc_wait = rounds.gc_wait.saturating_sub(1);
    if !fs.files.options.background_gc || rounds.idle_ticks < IDLE_TICKS || rounds.gc_wait > 0 {
        return Ok(());
    }
    let report = fs.gc(1, Urgency::Background)?;
    rounds.gc_wait = if report.victims == 0 { GC_TICKS_WITHOUT_VICTIM } else { GC_TICKS };
    // Its own changes do not count.
    rounds.seen_changes = fs.vol.changes();
    Ok(())
}
