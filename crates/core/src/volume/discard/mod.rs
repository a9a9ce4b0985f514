//! Discards: telling the device of a mounted volume which blocks hold nothing any more.
//!
//! A block that is given up is *dead* with the next freeze. The commit of that checkpoint queues it here, the discarder
//! (`mount/discarding.rs`) sends it in the background, a few requests at a time. The queue holds sections that have
//! become free and, where runs are discarded too, dead blocks of segments in use. It is made of bitmaps, so its memory
//! does not depend on how much waits. It takes one bit for a section, and 64 bytes for a segment where runs are
//! discarded ([`Dead`]). As much again says which blocks are pinned (`segments/pinned.rs`).
//!
//! Kept true: a block is queued only after a checkpoint without it has committed. The sender takes the place for as
//! long as the device works on it: a free section out of the map of free ones, a segment in use as a collector would
//! claim it. So a place that is taken again first is no longer discarded, and one that is being discarded is not taken.
//! No lock is held while the device works. A discard is advice: one that fails is counted, and changes nothing.

mod dead;

pub(crate) use dead::Dead;

use crate::bits::AtomicBitmap;
use crate::options::Discard;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use steadyfs_device::{IoError, errno};
use steadyfs_format::Layout;
use steadyfs_rt::{EventCount, Pending};

/// Most requests that are at the device at a time (Linux F2FS: `max_discard_request`).
pub(crate) const MOST_REQUESTS: usize = 8;

/// What became of discards since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscardStats {
    /// Requests that the device has done.
    pub requests: u64,
    /// Of those, whole sections that were free.
    pub sections: u64,
    /// Requests that the device refused.
    pub failed: u64,
    /// Blocks that were in use again before their turn came, so that they were not discarded.
    pub reused_blocks: u64,
    /// Blocks that wait for their turn, now: those of runs that are too short wait until the run grows.
    pub waiting_blocks: u64,
}

/// What of a volume waits to be discarded.
pub(crate) struct Discards {
    /// Free sections that wait.
    pub(crate) sections: AtomicBitmap,
    /// Dead blocks of segments in use, where runs are discarded.
    pub(crate) dead: Option<Dead>,
    blocks_per_section: u64,
    /// Batches that are being put together, or are at the device.
    pub(crate) under_way: Pending,
    /// The device has no such operation after all.
    refused: AtomicBool,
    pub(crate) signal: Arc<Signal>,
    requests: AtomicU64,
    sections_done: AtomicU64,
    failed: AtomicU64,
    reused_blocks: AtomicU64,
}

/// Wakes the discarder.
#[derive(Default)]
pub(crate) struct Signal {
    pub(crate) wake: EventCount,
    pub(crate) stop: AtomicBool,
}

impl Signal {
    /// Ends the discarder.
    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.wake.notify_all();
    }
}

impl Discards {
    /// An empty queue for a volume; `None` where nothing is discarded.
    pub(crate) fn new(layout: &Layout, what: Discard) -> Option<Self> {
        let dead = match what {
            Discard::Off => return None,
            Discard::Segments => None,
            Discard::Runs(smallest) => Some(Dead::new(layout.main_segments as usize, smallest)),
        };
        Some(Discards {
            sections: AtomicBitmap::new(layout.sections as usize),
            dead,
            blocks_per_section: layout.blocks_per_sec(),
            under_way: Pending::new(),
            refused: AtomicBool::new(false),
            signal: Arc::default(),
            requests: AtomicU64::new(0),
            sections_done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            reused_blocks: AtomicU64::new(0),
        })
    }

    /// Whether there is a point in queueing anything.
    pub(crate) fn is_on(&self) -> bool {
        !self.refused.load(SeqCst)
    }

    /// Blocks were taken again before they could be discarded.
    pub(crate) fn note_reused(&self, blocks: u64) {
        self.reused_blocks.fetch_add(blocks, Relaxed);
    }

    /// Counts how a request ended.
    pub(crate) fn note(&self, result: Result<(), IoError>, is_section: bool) {
        let Err(error) = result else {
            self.requests.fetch_add(1, Relaxed);
            self.sections_done.fetch_add(u64::from(is_section), Relaxed);
            return;
        };
        self.failed.fetch_add(1, Relaxed);
        if error.errno() != errno::EOPNOTSUPP {
            tracing::debug!(%error, "discard failed");
        } else if !self.refused.swap(true, SeqCst) {
            tracing::warn!(%error, "nothing is discarded any more");
            self.clear();
        }
    }

    fn clear(&self) {
        for section in self.sections.iter() {
            self.sections.clear(section);
        }
        self.dead.iter().for_each(Dead::clear);
    }

    /// What became of discards so far.
    pub(crate) fn stats(&self) -> DiscardStats {
        let waiting = self.sections.count() as u64 * self.blocks_per_section;
        DiscardStats {
            requests: self.requests.load(Relaxed),
            sections: self.sections_done.load(Relaxed),
            failed: self.failed.load(Relaxed),
            reused_blocks: self.reused_blocks.load(Relaxed),
            waiting_blocks: waiting + self.dead.as_ref().map_or(0, Dead::count),
        }
    }
}
