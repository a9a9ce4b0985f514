//! The discarder: the thread that tells the device of a mounted volume what holds nothing any more.
//!
//! It wakes when a checkpoint has committed and sends what waits, batch after batch (`volume/discard`). After each
//! batch it rests for as long as the device took for it, so discards get half of the device's time at most. It holds
//! the volume weakly between batches and ends with it.

use crate::fs::Fs;
use crate::volume::Volume;
use crate::volume::discard::Signal;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use steadyfs_rt::spawn;

/// Longest rest between two batches.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// How long the end of a mount goes on discarding (Linux F2FS: `umount_discard_timeout`).
const LAST_DISCARDS: Duration = Duration::from_secs(5);

/// Starts the discarder of a writable volume, if there is something for it to do.
pub(super) fn start(fs: &Arc<Fs>) {
    let Some(discarder) = &fs.discarder else { return };
    let (weak, signal) = (Arc::downgrade(fs), discarder.signal());
    discarder.began(spawn("steadyfs-discarder", move || {
        run(&signal, || weak.upgrade().map_or(0, |fs| fs.vol.discard_some()));
    }));
}

fn run(signal: &Signal, some: impl Fn() -> usize) {
    loop {
        let key = signal.wake.listen();
        if signal.stop.load(SeqCst) {
            return;
        }
        let began = steadyfs_rt::now();
        if some() == 0 {
            signal.wake.wait(key);
            continue;
        }
        let rest = signal.wake.listen();
        if !signal.stop.load(SeqCst) {
            signal.wake.wait_timeout(rest, began.elapsed().min(LONGEST_REST));
        }
    }
}

impl Volume {
    /// Discards some of what waits; how many requests that took.
    fn discard_some(&self) -> usize {
        self.placement.discard_some(|| self.check_writable().is_ok())
    }

    /// The last checkpoint has committed: discards what waits, for a few seconds at most.
    pub(super) fn discard_the_rest(&self) {
        let began = steadyfs_rt::now();
        while began.elapsed() < LAST_DISCARDS && self.discard_some() > 0 {}
        let left = self.placement.discard_stats().waiting_blocks;
        if left > 0 {
            tracing::info!(blocks = left, "not discarded at the end of the mount");
        }
    }
}
