//! Writes in the order of their blocks, zone by zone, for devices that take them no other way.
//!
//! Logs give blocks out in order, and threads submit them when they get to it: gathered, kept for the thread that will
//! wait, or at once. Here a write waits until all before it in its zone have been submitted. A zone that has refused a
//! write takes no more until it begins again, unless the device lacked something for the moment: then the zone goes on,
//! and these blocks may come later. With [`Limits`] the zones are those of a zoned device: no more of them are
//! partly written at a time than it allows, and one that nobody goes on to fill is finished.
//!
//! Kept true: writes of a zone reach the device in the order of their blocks, and none of them is of two zones. A block
//! that was taken is written without waiting for others ([`super::gather`]). So a thread that waits here does not wait
//! in a circle: of zones that are partly written, all but those in which logs stand come to their end.

mod queue;

use queue::{Due, Late, State};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use steadyfs_device::{
    Device, DeviceInfo, Done, IoError, IoResult, Migrations, Op, Request, Zone, ZoneGeometry, errno,
};
use steadyfs_rt::{Completion, EventCount, Leaf};

/// What a zoned device allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Zones that are partly written, at a time; 0 for any number.
    pub(crate) active: u32,
}

/// A device that writes zones in order.
pub(crate) struct InOrder(Arc<Shared>);

struct Shared {
    inner: Arc<dyn Device>,
    /// Blocks of a zone, and where zones are.
    zone: u64,
    zones: Range<u64>,
    limits: Option<Limits>,
    state: Leaf<State>,
    /// Zones that have refused a write, and did not begin again since.
    broken: AtomicU32,
    /// Something has ended in a zone.
    ended: EventCount,
}

impl InOrder {
    /// Over a device whose `zones` are written in order, each from its first block on.
    pub(crate) fn new(inner: Arc<dyn Device>, zone: u64, zones: Range<u64>) -> Self {
        Self::with(inner, zone, zones, None)
    }

    /// Over a zoned device.
    pub(crate) fn zoned(inner: Arc<dyn Device>, zone: u64, zones: Range<u64>, limits: Limits) -> Self {
        Self::with(inner, zone, zones, Some(limits))
    }

    fn with(inner: Arc<dyn Device>, zone: u64, zones: Range<u64>, limits: Option<Limits>) -> Self {
        assert!(zone > 0 && zones.start.is_multiple_of(zone), "zones begin at a multiple of their length");
        let state = Leaf::new(State::new(zone, limits));
        let (broken, ended) = (AtomicU32::new(0), EventCount::new());
        InOrder(Arc::new(Shared { inner, zone, zones, limits, state, broken, ended }))
    }

    /// The zone that begins at this block is empty, and will be written again if it was written to its end, or has
    /// refused a write.
    pub(crate) fn begin_anew(&self, start: u64) {
        let was_broken = self.0.state.with(|state| state.begin_anew(start));
        self.0.broken.fetch_sub(u32::from(was_broken), SeqCst);
    }

    /// Where the next write of a zone goes that was written before this mount. No more than `size` of a zone that takes
    /// no more.
    pub(crate) fn resume(&self, start: u64, written: u64) {
        self.0.state.with(|state| state.resume(start, written));
    }

    /// Blocks of a zone that were submitted, or skipped.
    pub(crate) fn written(&self, start: u64) -> u64 {
        self.0.state.with(|state| state.written(start))
    }

    /// Nothing is taken from offset `end` of a zone on: it is finished when everything before has been written.
    pub(crate) fn finish(&self, start: u64, end: u64) {
        self.0.state.with(|state| state.finish(start, end));
        self.0.go_on(start);
    }

    /// What the zone of a block has refused a write with.
    pub(crate) fn fault(&self, block: u64) -> Option<IoError> {
        let shared = &self.0;
        let some = shared.broken.load(SeqCst) > 0;
        some.then(|| shared.state.with(|state| state.fault(block - block % shared.zone))).flatten()
    }

    /// Empties zones that nobody writes, and waits; what became of each.
    pub(crate) fn reset(&self, starts: &[u64]) -> Vec<Result<(), IoError>> {
        let shared = &self.0;
        for start in starts {
            loop {
                let key = shared.ended.listen();
                if shared.state.with(|state| state.is_idle(*start)) || steadyfs_rt::mutated("reset-after-writes") {
                    break;
                }
                shared.ended.wait(key);
            }
        }
        let ends: Vec<Completion<IoResult>> = starts.iter().map(|_| Completion::new()).collect();
        let requests = starts.iter().zip(&ends).map(|(start, end)| {
            let end = end.clone();
            Request::new(Op::ZoneReset { block: *start }, move |result| end.complete(result))
        });
        shared.inner.submit(requests.collect());
        let results = ends.into_iter().zip(starts).map(|(end, start)| {
            end.wait().map(drop).inspect(|()| {
                let (next, was_broken) = shared.state.with(|state| state.forget(*start));
                shared.broken.fetch_sub(u32::from(was_broken), SeqCst);
                next.into_iter().for_each(|next| shared.go_on(next));
            })
        });
        results.collect()
    }

    /// The most zones that were partly written at one time, how many were finished, and how many have refused a write.
    pub(crate) fn counts(&self) -> (u32, u64, u64) {
        self.0.state.with(|state| (state.most_active, state.finished, state.refused))
    }
}

impl Shared {
    fn write(self: &Arc<Self>, request: Request) {
        let (block, _) = request.op.range();
        let start = block - block % self.zone;
        match self.state.with(|state| state.add(start, block - start, request)) {
            None => self.go_on(start),
            Some(Late::Owed(request)) => self.inner.submit(vec![self.watch(start, request)]),
            // The device has refused it before, and what a zone has skipped can be written nowhere.
            Some(Late::Never(request)) => request.fail(errno::EIO),
        }
    }

    /// Submits what is due in a zone, unless somebody does.
    fn go_on(self: &Arc<Self>, start: u64) {
        if !self.state.with(|state| state.begin(start)) {
            return;
        }
        loop {
            match self.state.with(|state| state.due(start)) {
                Due::Nothing => return,
                Due::Writes(ready) => {
                    let watched = ready.into_iter().map(|request| self.watch(start, request));
                    self.inner.submit(watched.collect());
                }
                Due::Refused(requests, why) => {
                    for Request { op, done } in requests {
                        let (block, count) = op.range();
                        done(Err(IoError { block, count, ..why.clone() }));
                    }
                }
                Due::Finish => {
                    let shared = Arc::clone(self);
                    let end = move |result: IoResult| {
                        if let Err(error) = &result {
                            tracing::warn!(%error, "a zone stays open that takes no more writes");
                        }
                        let next = shared.state.with(|state| state.finish_ended(start));
                        shared.ended.notify_all();
                        next.into_iter().chain([start]).for_each(|zone| shared.go_on(zone));
                    };
                    self.inner.submit(vec![Request::new(Op::ZoneFinish { block: start }, end)]);
                }
                Due::Others(next) => self.go_on(next),
            }
        }
    }

    /// A write whose failure matters for its zone, and whose end where zones have limits.
    fn watch(self: &Arc<Self>, start: u64, request: Request) -> Request {
        let (shared, Request { op, done }) = (Arc::clone(self), request);
        let blocks = op.range();
        Request::new(op, move |result: IoResult| {
            if shared.limits.is_some() || result.is_err() {
                let first = shared.state.with(|state| state.write_ended(start, blocks, result.as_ref().err()));
                if first {
                    shared.broken.fetch_add(1, SeqCst);
                }
                shared.ended.notify_all();
                shared.go_on(start);
            }
            done(result);
        })
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

impl Device for InOrder {
    fn info(&self) -> DeviceInfo {
        let info = self.0.inner.info();
        // A write may end in the call that submits an earlier one. Zones are reset, and not discarded.
        DeviceInfo { synchronous: false, prefers_fua: false, discard: info.discard && self.0.limits.is_none(), ..info }
    }

    fn submit(&self, batch: Vec<Request>) {
        let shared = &self.0;
        let is_ordered = |op: &Op| matches!(op, Op::Write { block, .. } if shared.zones.contains(block));
        let (ordered, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(|request| is_ordered(&request.op));
        if !others.is_empty() {
            shared.inner.submit(others);
        }
        ordered.into_iter().flat_map(|request| pieces(request, shared.zone)).for_each(|request| shared.write(request));
    }

    fn zones(&self) -> Option<ZoneGeometry> {
        self.0.inner.zones()
    }

    fn zone_report(&self, first: u64, count: u64) -> Result<Vec<Zone>, IoError> {
        self.0.inner.zone_report(first, count)
    }

    fn held_from(&self, block: u64) -> Result<Option<Range<u64>>, IoError> {
        self.0.inner.held_from(block)
    }

    fn migrations(&self) -> Option<&dyn Migrations> {
        self.0.inner.migrations()
    }
}

#[cfg(test)]
mod tests;
