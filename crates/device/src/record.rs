//! [`RecordingDevice`]: passes everything on and keeps a log of what changes the device: writes, flushes, discards,
//! zone operations.
//!
//! One clock orders the log: every submission and every completion takes the next tick. So the log says which writes
//! had completed when a flush was submitted, which is all that decides what a crash may lose (`crash` works that out).
//! Pages are kept as clones, which cost a reference each.
//!
//! Keeps true: a completion takes its tick before the submitter hears of it, so whatever the submitter does next has a
//! later tick.

use crate::{Device, DeviceInfo, IoError, Migrations, Op, Request, Zone, ZoneGeometry};
use std::ops::Range;
use std::sync::Arc;
use steadyfs_rt::{LockClass, Mutex};

/// Held for one push or one stamp.
static LOG: LockClass = LockClass::new("device.recording", u16::MAX - 3);

/// One operation that changes the device, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Tick of the submission.
    pub submitted: u64,
    /// Tick of the completion; `None` while in flight.
    pub completed: Option<u64>,
    /// It completed with an error, so its blocks are undefined.
    pub failed: bool,
    /// The operation, with the pages of a write.
    pub op: Op,
    /// Blocks it affects: first, and how many. For a zone operation the whole zone.
    pub extent: (u64, u64),
}

#[derive(Default)]
struct Log {
    tick: u64,
    records: Vec<Record>,
    /// How many records were taken out before the first of `records`.
    taken: usize,
}

impl Log {
    fn next_tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    fn submit(&mut self, op: &Op, extent: (u64, u64)) -> usize {
        let submitted = self.next_tick();
        self.records.push(Record { submitted, completed: None, failed: false, op: op.clone(), extent });
        self.taken + self.records.len() - 1
    }

    fn complete(&mut self, number: usize, failed: bool) {
        let tick = self.next_tick();
        // A record that was taken out meanwhile stays as it was then: in flight.
        if let Some(record) = number.checked_sub(self.taken).and_then(|at| self.records.get_mut(at)) {
            assert!(record.completed.is_none(), "a request completes once");
            (record.completed, record.failed) = (Some(tick), failed);
        }
    }
}

/// A device that logs what changes it. See the head of the module.
pub struct RecordingDevice<D> {
    inner: D,
    zone_size: u64,
    log: Arc<Mutex<Log>>,
}

impl<D: Device> RecordingDevice<D> {
    /// A log of nothing yet around `inner`.
    pub fn new(inner: D) -> Self {
        let zone_size = inner.zones().map_or(1, |zones| zones.size);
        RecordingDevice { inner, zone_size, log: Arc::new(Mutex::new(&LOG, Log::default())) }
    }

    /// The device inside.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// All records so far, in the order of submission.
    pub fn log(&self) -> Vec<Record> {
        self.log.lock().records.clone()
    }

    /// Like [`RecordingDevice::log`], and forgets them. Ticks go on.
    pub fn take_log(&self) -> Vec<Record> {
        let mut log = self.log.lock();
        let records = std::mem::take(&mut log.records);
        log.taken += records.len();
        records
    }

    /// The latest tick: everything that happened has a tick up to it, everything that happens later a higher one. Lets
    /// a test note when a promise was made ("fsync returned").
    pub fn tick(&self) -> u64 {
        self.log.lock().tick
    }
}

impl<D: Device> Device for RecordingDevice<D> {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn submit(&self, batch: Vec<Request>) {
        let mut passed = Vec::with_capacity(batch.len());
        for Request { op, done } in batch {
            if matches!(op, Op::Read { .. }) {
                passed.push(Request { op, done });
                continue;
            }
            let extent = match op {
                Op::ZoneReset { block } | Op::ZoneFinish { block } => (block, self.zone_size),
                _ => op.range(),
            };
            let number = self.log.lock().submit(&op, extent);
            let log = Arc::clone(&self.log);
            passed.push(Request::new(op, move |result| {
                log.lock().complete(number, result.is_err());
                done(result);
            }));
        }
        self.inner.submit(passed);
    }

    fn held_from(&self, block: u64) -> Result<Option<Range<u64>>, IoError> {
        self.inner.held_from(block)
    }

    fn zones(&self) -> Option<ZoneGeometry> {
        self.inner.zones()
    }

    fn zone_report(&self, first: u64, count: u64) -> Result<Vec<Zone>, IoError> {
        self.inner.zone_report(first, count)
    }

    fn migrations(&self) -> Option<&dyn Migrations> {
        self.inner.migrations()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, FaultyDevice, MemDevice, PageBuf, StreamHint, errno};

    #[test]
    fn changes_are_logged_in_order_and_reads_are_not() {
        let device = RecordingDevice::new(MemDevice::new(16));
        let page = PageBuf::from_slice(b"one");
        device.write(3, vec![page.clone()]).expect("in range");
        device.read(0, 16).expect("in range");
        device.flush().expect("flushes");
        let noted = device.tick();
        device.discard(0, 2).expect("in range");
        let log = device.take_log();
        let write = Op::Write { block: 3, pages: vec![page], hint: StreamHint::DataWarm, fua: false };
        let ops: Vec<_> = log.iter().map(|record| record.op.clone()).collect();
        assert_eq!(ops, [write, Op::Flush, Op::Discard { block: 0, count: 2 }]);
        let ticks: Vec<_> = log.iter().map(|record| (record.submitted, record.completed)).collect();
        assert_eq!(ticks, [(1, Some(2)), (3, Some(4)), (5, Some(6))]);
        assert_eq!(noted, 4);
        device.flush().expect("flushes");
        assert_eq!(device.log()[0].submitted, 7, "ticks go on after the log was taken");
        assert_eq!(device.inner().written_blocks(), [3]);
    }

    #[test]
    fn failures_and_requests_in_flight_show() {
        let faulty = FaultyDevice::new(MemDevice::new(16));
        faulty.add(Fault::fail(errno::EIO).on(crate::OpKind::Write).nth(1));
        let device = RecordingDevice::new(faulty);
        let write = |block| device.write(block, vec![PageBuf::zeroed()]);
        assert!(write(0).is_ok() && write(1).is_err());
        let log = device.log();
        assert_eq!([log[0].failed, log[1].failed], [false, true]);
        assert!(log.iter().all(|record| record.completed.is_some()));
    }
}
