//! Writes in the order of their blocks, zone by zone, for devices that take them no other way.
//!
//! Logs give blocks out in order, and threads submit them when they get to it: gathered, kept for the thread that will
//! wait, or at once. Here a write waits until all before it in its zone have been submitted.
//!
//! Kept true: writes of a zone reach the device in the order of their blocks, and none of them is of two zones. A block
//! that was taken is written without waiting for others ([`super::gather`]), so whoever waits here does not wait in a
//! circle.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::{Device, DeviceInfo, Done, IoError, IoResult, Migrations, Op, Request, Zone, ZoneGeometry};
use steadyfs_rt::Leaf;

/// A device that writes zones in order.
pub(crate) struct InOrder {
    inner: Arc<dyn Device>,
    /// Blocks of a zone, and where zones are.
    zone: u64,
    zones: Range<u64>,
    queues: Leaf<BTreeMap<u64, Queue>>,
}

/// Writes of a zone.
#[derive(Default)]
struct Queue {
    /// Blocks that were submitted.
    submitted: u64,
    waiting: BTreeMap<u64, Request>,
    /// Somebody submits what is next.
    busy: bool,
}

impl InOrder {
    /// Over a device whose `zones` are written in order, each from its first block on.
    pub(crate) fn new(inner: Arc<dyn Device>, zone: u64, zones: Range<u64>) -> Self {
        assert!(zone > 0 && zones.start.is_multiple_of(zone), "zones begin at a multiple of their length");
        InOrder { inner, zone, zones, queues: Leaf::new(BTreeMap::new()) }
    }

    /// The zone that begins at this block is empty, and will be written anew if it was written to its end.
    pub(crate) fn begin_anew(&self, start: u64) {
        self.queues.with(|queues| {
            if let Some(queue) = queues.get_mut(&start)
                && queue.submitted == self.zone
            {
                assert!(queue.waiting.is_empty(), "a write behind the end of the zone at block {start}");
                queue.submitted = 0;
            }
        });
    }

    fn write(&self, request: Request) {
        let (block, _) = request.op.range();
        let start = block - block % self.zone;
        match self.queues.with(|queues| queues.entry(start).or_default().add(block - start, request)) {
            Turn::Others => {}
            Turn::Again(request) => self.inner.submit(vec![request]),
            Turn::Own => loop {
                let ready = self.queues.with(|queues| queues.get_mut(&start).map_or_else(Vec::new, Queue::ready));
                if ready.is_empty() {
                    return;
                }
                self.inner.submit(ready);
            },
        }
    }
}

/// The end of a write that was taken apart.
struct Joint {
    left: usize,
    failed: Option<IoError>,
    done: Option<Done>,
}

/// A write in pieces of one zone each: neighbours are written together whatever zones they are of.
fn pieces(request: Request, zone: u64) -> Vec<Request> {
    let one_zone = |block: u64, count: u64| block / zone == (block + count - 1) / zone;
    let (op, done) = (request.op, request.done);
    let Op::Write { mut block, mut pages, hint, fua } = op else { return vec![Request { op, done }] };
    if one_zone(block, pages.len() as u64) {
        return vec![Request { op: Op::Write { block, pages, hint, fua }, done }];
    }
    let mut ops = Vec::new();
    while !pages.is_empty() {
        let count = (zone - block % zone).min(pages.len() as u64);
        let rest = pages.split_off(count as usize);
        ops.push(Op::Write { block, pages: std::mem::replace(&mut pages, rest), hint, fua });
        block += count;
    }
    let joint = Arc::new(Leaf::new(Joint { left: ops.len(), failed: None, done: Some(done) }));
    let told = |op| {
        let joint = Arc::clone(&joint);
        Request::new(op, move |result: IoResult| {
            let over = joint.with(|joint| {
                joint.left -= 1;
                joint.failed = joint.failed.take().or(result.err());
                (joint.left == 0).then(|| (joint.done.take(), joint.failed.take()))
            });
            if let Some((Some(done), failed)) = over {
                done(failed.map_or_else(|| Ok(Vec::new()), Err));
            }
        })
    };
    ops.into_iter().map(told).collect()
}

/// Whose turn it is to submit.
enum Turn {
    /// Somebody else's, now or when an earlier write comes.
    Others,
    /// Nobody waits for this one: the device has refused it before.
    Again(Request),
    /// Whoever asked.
    Own,
}

impl Queue {
    /// Adds a write at this offset of the zone.
    fn add(&mut self, offset: u64, request: Request) -> Turn {
        if offset < self.submitted {
            return Turn::Again(request);
        }
        let earlier = self.waiting.insert(offset, request);
        assert!(earlier.is_none(), "offset {offset} of a zone is written twice");
        if std::mem::replace(&mut self.busy, true) { Turn::Others } else { Turn::Own }
    }

    /// The writes whose turn it is. If there are none, nobody submits any more.
    fn ready(&mut self) -> Vec<Request> {
        let mut ready = Vec::new();
        while let Some(request) = self.waiting.remove(&self.submitted) {
            self.submitted += request.op.range().1;
            ready.push(request);
        }
        assert!(self.busy, "somebody submits writes whose turn it is not");
        self.busy = !ready.is_empty();
        ready
    }
}

impl Device for InOrder {
    fn info(&self) -> DeviceInfo {
        // A write may end in the call that submits an earlier one.
        DeviceInfo { synchronous: false, ..self.inner.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        let is_ordered = |op: &Op| matches!(op, Op::Write { block, .. } if self.zones.contains(block));
        let (ordered, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(|request| is_ordered(&request.op));
        if !others.is_empty() {
            self.inner.submit(others);
        }
        ordered.into_iter().flat_map(|request| pieces(request, self.zone)).for_each(|request| self.write(request));
    }

    fn zones(&self) -> Option<ZoneGeometry> {
        self.inner.zones()
    }

    fn zone_report(&self, first: u64, count: u64) -> Result<Vec<Zone>, IoError> {
        self.inner.zone_report(first, count)
    }

    fn held_from(&self, block: u64) -> Result<Option<Range<u64>>, IoError> {
        self.inner.held_from(block)
    }

    fn migrations(&self) -> Option<&dyn Migrations> {
        self.inner.migrations()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use steadyfs_device::{MemDevice, PageBuf, RecordingDevice, StreamHint};

    #[test]
    fn writes_of_a_zone_wait_for_those_before_them() {
        let inner = Arc::new(RecordingDevice::new(MemDevice::new(64)));
        let device = InOrder::new(Arc::clone(&inner) as Arc<dyn Device>, 8, 16..64);
        let ended = Arc::new(AtomicUsize::new(0));
        let write = |block: u64, count: usize| {
            let counter = Arc::clone(&ended);
            let op = Op::Write { block, pages: vec![PageBuf::zeroed(); count], hint: StreamHint::DataWarm, fua: false };
            let end = move |_| {
                counter.fetch_add(1, SeqCst);
            };
            device.submit(vec![Request::new(op, end)]);
            (inner.log().len(), ended.load(SeqCst))
        };
        assert_eq!(write(3, 1).1, 1, "no zone");
        assert_eq!(write(18, 2).1, 1, "its turn has not come");
        assert_eq!(write(24, 1).1, 2, "another zone");
        assert_eq!(write(20, 4).1, 2);
        assert_eq!(write(16, 2).1, 5);
        assert_eq!(write(17, 1).1, 6, "again");
        device.begin_anew(16);
        assert_eq!(write(20, 4).1, 6, "the zone begins anew");
        assert_eq!(write(16, 4).1, 8);
        assert_eq!(write(38, 4).1, 8, "the end of a zone and the beginning of the next");
        assert_eq!(write(42, 2).1, 9, "which has come");
        assert_eq!(write(32, 6).1, 11);
    }
}
