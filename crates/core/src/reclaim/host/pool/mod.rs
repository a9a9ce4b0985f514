//! Collectors with threads of their own ("dedicated garbage collectors", ScaleLFS section 3.1), and the gate between
//! them and writers.
//!
//! Writers do not collect: while room is short they wait until there is enough, and each looks for itself, so nobody
//! runs a round for nothing. Collectors begin before that, as many of them as sections are missing: writers may take a
//! quarter of the reserve while collectors work, and these begin when half of that quarter is gone. Sections kept free
//! beyond it would be missing where it makes collection cheap. They work side by side: each has its own victims,
//! buffers and stream. What they empty becomes free with a checkpoint; one of them makes it while the others go on,
//! unless so little is free that they could take the last of it.
//!
//! Kept true: collectors stop and say so when round after round gains nothing; then each writer who waits tries by
//! itself, as if there were no collectors (`Reclaim::collect_alone`), and that decides between going on and "no space".
//! An error of a collector ends the same way, so a writer that needs the room is told why there is none.
//!
//! This file has the state of the pool and what needs no volume; `work` has what collectors and writers do.

mod work;

#[cfg(test)]
mod tests;

use super::buffer::{Buffer, Memory};
use super::collector::{Collector, Sink};
use super::gaps::Gaps;
use super::victim::{ManyVictims, Minds, OneVictim, Reach, Select};
use crate::gate::admission::Announcer;
use crate::locks;
use crate::options::techniques::{GcOptions, GcSelect, GcStream};
use crate::reclaim::activity::{Activity, CollectorsNow};
use crate::volume::Volume;
use crate::volume::segments::streams::Streams;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;
use steadyfs_rt::{Condvar, Instant, JoinHandle, Mutex};

/// The collectors of a volume.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Pool {
    fn drop(&mut self) {
        // The threads own what they need to see this.
        self.dismiss();
    }
}

struct Shared {
    collectors: Vec<Collector>,
    /// What each of them does now.
    activities: Vec<Activity>,
    gate: Mutex<Gate>,
    /// Collectors wait here for work.
    work: Condvar,
    /// Writers wait here for room.
    room: Condvar,
    /// `Gate::wanted`, to be looked at without the lock.
    wanted: AtomicUsize,
    /// Collection ahead of need gained nothing: it rests until there is room again, or somebody waits for it.
    resting: AtomicBool,
    /// One checkpoint at a time, and no queue for it.
    checkpoint: Mutex<()>,
    /// Most free and emptied sections seen since collectors were called, and victims cleaned since that was.
    best: AtomicU64,
    dry: AtomicU64,
    /// Blocks that victims had free more than what was moved from them, since that was a section.
    gained: AtomicU64,
    /// Collection between requests, if that is wanted.
    gaps: Option<Gaps>,
}

impl Shared {
    fn announce_room(&self) {
        let gate = self.gate.lock();
        if gate.waiting > 0 {
            self.room.notify_all();
        }
    }
}

#[derive(Default)]
struct Gate {
    /// Collectors that exist.
    threads: usize,
    /// How many collectors shall work.
    wanted: usize,
    working: usize,
    waiting: usize,
    /// How often collectors stopped because they gained nothing.
    gave_up: u64,
    stop: bool,
    /// Since when somebody has been working.
    since: Option<Instant>,
}

/// How many segments may be open beside those of the format's logs.
pub(super) fn most_streams(reserved_sections: u64) -> usize {
    usize::try_from(reserved_sections / 3).unwrap_or(usize::MAX)
}

/// How many collectors a volume with this reserve can have: each may take a segment for each of its streams
/// before it has emptied one, and a checkpoint must fit beside them.
pub(super) fn bounded(threads: usize, generations: u8, reserved_sections: u64) -> usize {
    let most = most_streams(reserved_sections);
    (0..=threads.min(most)).rev().find(|count| Streams::count(*count, generations) <= most).unwrap_or(0)
}

impl Pool {
    /// `count` collectors, at least one; none of them runs yet.
    pub(super) fn new(vol: &Volume, options: &GcOptions, count: usize, memory: &Arc<Memory>) -> Self {
        let layout = vol.layout();
        let reach = Reach::of(layout.sections as usize).urgently(options.search);
        let minds = Arc::new(Minds::new(layout, count, reach, options.victims_by));
        let buffer = || Buffer::new(options, count, memory);
        let collectors = (0..count)
            .map(|number| Collector {
                select: match options.select {
                    GcSelect::Locked => Box::new(OneVictim::new(reach, options.victims_by)) as Box<dyn Select>,
                    GcSelect::Concurrent => {
                        Box::new(ManyVictims::new(&minds, number, vol.segments().table.len() as usize))
                    }
                },
                sink: match options.stream {
                    GcStream::Shared => Sink::cold_log(buffer()),
                    GcStream::Dedicated => Sink::streams(number, buffer()),
                },
                crew: None,
            })
            .collect();
        let shared = Shared {
            collectors,
            activities: (0..count).map(|_| Activity::default()).collect(),
            gate: Mutex::new(&locks::GC_GATE, Gate::default()),
            work: Condvar::new(),
            room: Condvar::new(),
            wanted: AtomicUsize::new(0),
            resting: AtomicBool::new(false),
            checkpoint: Mutex::new(&locks::GC_CHECKPOINT, ()),
            best: AtomicU64::new(0),
            dry: AtomicU64::new(0),
            gained: AtomicU64::new(0),
            gaps: options.idle.map(Gaps::new),
        };
        Pool { shared: Arc::new(shared), threads: Mutex::new(&locks::STATE, Vec::new()) }
    }

    /// How many collectors there are.
    pub(super) fn len(&self) -> usize {
        self.shared.collectors.len()
    }

    /// Somebody asks something of the volume.
    pub(super) fn note_request(&self) {
        if let Some(gaps) = &self.shared.gaps {
            gaps.note_request();
        }
    }

    /// Tells the threads to end. They may be at work still.
    fn dismiss(&self) {
        if let Some(gaps) = &self.shared.gaps {
            gaps.stop();
        }
        let mut gate = self.shared.gate.lock();
        gate.stop = true;
        gate.threads = 0;
        drop(gate);
        self.shared.work.notify_all();
        self.shared.room.notify_all();
    }

    /// Ends the threads and waits for them.
    pub(crate) fn stop(&self) {
        self.dismiss();
        let handles = std::mem::take(&mut *self.threads.lock());
        // A collector may hold the last reference to the volume; it must not wait for itself.
        for handle in handles.into_iter().filter(|handle| !handle.is_current()) {
            if let Err(panicked) = handle.join() {
                tracing::error!(%panicked, "a collector panicked");
            }
        }
    }

    /// Waits until no collector works; true if one did.
    pub(super) fn wait_for_pause(&self) -> bool {
        let shared = &self.shared;
        let mut gate = shared.gate.lock();
        let worked = gate.working > 0;
        while gate.working > 0 {
            gate.waiting += 1;
            shared.room.wait(&mut gate);
            gate.waiting -= 1;
        }
        worked
    }

    /// For how long somebody has been working without a pause.
    pub(super) fn busy_now(&self) -> Duration {
        self.shared.gate.lock().since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Who works now, and on what.
    pub(super) fn now(&self) -> CollectorsNow {
        let shared = &self.shared;
        let gate = shared.gate.lock();
        let (number, working, writers_waiting) = (gate.threads as u64, gate.working as u64, gate.waiting as u64);
        drop(gate);
        let each = shared.activities.iter().map(Activity::stats).filter(|c| number > 0 || c.victims > 0).collect();
        CollectorsNow { number, working, writers_waiting, each, ..CollectorsNow::default() }
    }

    /// Sections have become free: threads that wait for them may look.
    pub(crate) fn announce_room(&self) {
        self.shared.announce_room();
    }

    /// What does so for others.
    pub(super) fn announcer(&self) -> Announcer {
        let shared = Arc::clone(&self.shared);
        Box::new(move || shared.announce_room())
    }
}
