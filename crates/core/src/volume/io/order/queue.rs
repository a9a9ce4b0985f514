//! What waits for its turn in each zone, and what zones are doing.

use super::Limits;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use steadyfs_device::{IoError, Request, errno};

/// The work that is due in a zone.
pub(super) enum Due {
    Nothing,
    Writes(Vec<Request>),
    /// The zone takes no more writes, for this reason.
    Refused(Vec<Request>, IoError),
    /// The zone is to be finished.
    Finish,
    /// It is another one's turn to be opened.
    Others(u64),
}

/// Why a zone takes no more: also where the device lacked something for the moment only.
fn for_good(error: IoError) -> IoError {
    match error.is_passing() {
        true => IoError { errno: errno::EIO, cause: format!("its zone takes no more, since {}", error.cause), ..error },
        false => error,
    }
}

/// A write before the last of its zone.
pub(super) enum Late {
    /// The device has not taken these blocks, and does now.
    Owed(Request),
    Never(Request),
}

/// All zones.
pub(super) struct State {
    zone: u64,
    limits: Option<Limits>,
    queues: BTreeMap<u64, Queue>,
    /// Zones of a zoned device that are partly written.
    active: u32,
    /// Zones that wait until another one is not.
    starved: VecDeque<u64>,
    pub(super) most_active: u32,
    pub(super) finished: u64,
    /// Zones that have refused a write.
    pub(super) refused: u64,
}

/// Writes of a zone.
#[derive(Default)]
struct Queue {
    /// Blocks that were submitted.
    submitted: u64,
    waiting: BTreeMap<u64, Request>,
    /// Somebody submits what is next.
    busy: bool,
    /// Submitted to a zoned device and not ended.
    in_flight: u32,
    is_active: bool,
    /// Submitted offsets that the device has not taken, for no fault of theirs: each may come again.
    gaps: BTreeSet<u64>,
    /// Nothing comes from here on.
    end: Option<u64>,
    /// Why it takes no more writes.
    fault: Option<IoError>,
}

impl State {
    pub(super) fn new(zone: u64, limits: Option<Limits>) -> Self {
        let (queues, starved) = (BTreeMap::new(), VecDeque::new());
        State { zone, limits, queues, active: 0, starved, most_active: 0, finished: 0, refused: 0 }
    }

    /// Whether the zone had refused a write.
    pub(super) fn begin_anew(&mut self, start: u64) -> bool {
        let is_over = |queue: &&mut Queue| queue.submitted == self.zone || queue.fault.is_some();
        let Some(queue) = self.queues.get_mut(&start).filter(is_over) else { return false };
        assert!(queue.waiting.is_empty(), "a write behind the end of the zone at block {start}");
        queue.submitted = 0;
        queue.gaps.clear();
        queue.fault.take().is_some()
    }

    pub(super) fn resume(&mut self, start: u64, written: u64) {
        let is_active = written > 0 && written < self.zone;
        let earlier = self.queues.insert(start, Queue { submitted: written, is_active, ..Queue::default() });
        assert!(earlier.is_none(), "the zone at block {start} is written before it is known how far it was");
        self.active += u32::from(is_active);
        self.most_active = self.most_active.max(self.active);
    }

    pub(super) fn written(&self, start: u64) -> u64 {
        self.queues.get(&start).map_or(0, |queue| queue.submitted)
    }

    pub(super) fn finish(&mut self, start: u64, end: u64) {
        if let Some(queue) = self.queues.get_mut(&start).filter(|_| end > 0) {
            queue.end = Some(end);
        } else if end > 0 {
            self.queues.insert(start, Queue { end: Some(end), ..Queue::default() });
        }
    }

    /// Why a zone takes no more writes.
    pub(super) fn fault(&self, start: u64) -> Option<IoError> {
        self.queues.get(&start).and_then(|queue| queue.fault.clone())
    }

    pub(super) fn is_idle(&self, start: u64) -> bool {
        self.queues.get(&start).is_none_or(|queue| queue.in_flight == 0)
    }

    /// The zone is empty. The zone whose turn it is then, and whether this one had refused a write.
    pub(super) fn forget(&mut self, start: u64) -> (Option<u64>, bool) {
        let Some(queue) = self.queues.remove(&start) else { return (None, false) };
        assert!(queue.waiting.is_empty(), "a write waits in the zone at block {start}, which was reset");
        let next = if queue.is_active { self.leave_active() } else { None };
        (next, queue.fault.is_some())
    }

    fn leave_active(&mut self) -> Option<u64> {
        assert!(self.active > 0, "more zones are full than were open");
        self.active -= 1;
        self.starved.pop_front()
    }

    /// Adds a write at this offset of a zone; gives one back that goes before the last.
    pub(super) fn add(&mut self, start: u64, offset: u64, request: Request) -> Option<Late> {
        let queue = self.queues.entry(start).or_default();
        if offset < queue.submitted && queue.fault.is_none() {
            let mut offsets = offset..offset + request.op.range().1;
            let is_owed = offsets.clone().all(|offset| queue.gaps.contains(&offset));
            if is_owed {
                offsets.all(|offset| queue.gaps.remove(&offset));
            }
            return Some(if is_owed { Late::Owed(request) } else { Late::Never(request) });
        }
        let earlier = queue.waiting.insert(offset, request);
        assert!(earlier.is_none(), "offset {offset} of a zone is written twice");
        None
    }

    /// Whether nobody submits what is next in a zone; the caller does then.
    pub(super) fn begin(&mut self, start: u64) -> bool {
        self.queues.get_mut(&start).is_some_and(|queue| !std::mem::replace(&mut queue.busy, true))
    }

    /// The work that is due now. If it is nothing, nobody submits any more.
    pub(super) fn due(&mut self, start: u64) -> Due {
        let Some(queue) = self.queues.get_mut(&start) else { return Due::Nothing };
        assert!(queue.busy, "somebody submits writes whose turn it is not");
        if let Some(why) = queue.fault.clone().filter(|_| !queue.waiting.is_empty()) {
            return Due::Refused(std::mem::take(&mut queue.waiting).into_values().collect(), why);
        }
        if queue.waiting.contains_key(&queue.submitted) {
            if let Some(Limits { active }) = self.limits.filter(|_| !queue.is_active) {
                if active > 0 && self.active >= active && !steadyfs_rt::mutated("zones-open-are-limited") {
                    if !self.starved.contains(&start) {
                        self.starved.push_back(start);
                    }
                    queue.busy = false;
                    return Due::Nothing;
                }
                queue.is_active = true;
                self.active += 1;
                self.most_active = self.most_active.max(self.active);
            }
            let mut ready = Vec::new();
            while let Some(request) = queue.waiting.remove(&queue.submitted) {
                queue.submitted += request.op.range().1;
                ready.push(request);
            }
            queue.in_flight += if self.limits.is_some() { ready.len() as u32 } else { 0 };
            return Due::Writes(ready);
        }
        if queue.is_active && queue.in_flight == 0 {
            let is_over = queue.end.is_some_and(|end| queue.fault.is_some() || end == queue.submitted);
            if queue.submitted == self.zone && queue.fault.is_none() {
                queue.is_active = false;
                if let Some(next) = self.leave_active() {
                    return Due::Others(next);
                }
            } else if is_over {
                queue.in_flight += 1;
                return Due::Finish;
            }
        }
        if let Some(queue) = self.queues.get_mut(&start) {
            queue.busy = false;
        }
        Due::Nothing
    }

    /// A write of these blocks has ended; whether it is the first of its zone that failed for good.
    pub(super) fn write_ended(&mut self, start: u64, blocks: (u64, u64), error: Option<&IoError>) -> bool {
        let Some(queue) = self.queues.get_mut(&start) else { return false };
        if self.limits.is_some() {
            assert!(queue.in_flight > 0, "a write of the zone at block {start} ends twice");
            queue.in_flight -= 1;
        }
        // A zoned device goes on nowhere but at its write pointer.
        if self.limits.is_none() && error.is_some_and(IoError::is_passing) {
            queue.gaps.extend(blocks.0 - start..blocks.0 - start + blocks.1);
            return false;
        }
        let first = error.is_some() && queue.fault.is_none();
        if first {
            queue.fault = error.cloned().map(for_good);
            self.refused += 1;
        }
        first
    }

    /// The zone takes no more writes. The zone whose turn it is then.
    pub(super) fn finish_ended(&mut self, start: u64) -> Option<u64> {
        let queue = self.queues.get_mut(&start)?;
        assert!(queue.in_flight == 1 && queue.is_active, "a zone is finished while it is written");
        (queue.in_flight, queue.end, queue.submitted, queue.is_active) = (0, None, self.zone, false);
        self.finished += 1;
        self.leave_active()
    }
}
