//! [`CrashImage`]: the states in which a crash may leave a device, made from a log of [`Record`]s.
//!
//! At a moment in the log every record submitted before it is either *durable* or *volatile*. Durable is a write that
//! completed without error and that a later successful flush covered (completed before the flush was submitted, and the
//! flush completed before the moment), or that completed with `fua`. Everything else is volatile: a crash keeps any
//! subset of it, any 512-byte pieces of each write. Every such choice is a legal image; the caller makes the choice,
//! this module makes the image.
//!
//! Writes to one block take effect in the order of submission. Where two were in flight together the other order is
//! legal too: [`CrashImage::in_completion_order`].

use crate::record::Record;
use crate::{BLOCK_SIZE, Device, MemDevice, Op, PageBuf};
use std::collections::BTreeMap;

/// The part of a page that a disk writes as one: 512 bytes.
pub const PIECE_SIZE: usize = 512;
/// Pieces per block.
pub const PIECES: usize = BLOCK_SIZE / PIECE_SIZE;

/// Which pieces of a write, numbered through all its pages, are on the medium.
type Pieces = Box<dyn Fn(usize) -> bool>;

/// A builder for the image after a crash. Starts with everything that is durable and nothing that is volatile.
pub struct CrashImage<'a> {
    base: &'a MemDevice,
    records: &'a [Record],
    at: u64,
    kept: BTreeMap<usize, Option<Pieces>>,
    apply_discards: bool,
    completion_order: bool,
}

impl<'a> CrashImage<'a> {
    /// A crash after the last record. `base` is what was on the device, durably, before the first.
    pub fn new(base: &'a MemDevice, records: &'a [Record]) -> Self {
        let kept = BTreeMap::new();
        CrashImage { base, records, at: u64::MAX, kept, apply_discards: true, completion_order: false }
    }

    /// The crash comes after everything with a tick up to `tick` and before everything later.
    pub fn at(mut self, tick: u64) -> Self {
        self.at = tick;
        self
    }

    /// Indices of the records that the crash may lose, in the order of submission.
    pub fn volatile(&self) -> Vec<usize> {
        let covered = self.covered();
        self.submitted().filter(|(_, record)| !self.is_durable(record, covered)).map(|(index, _)| index).collect()
    }

    /// Keeps the volatile record with this index. Changes nothing for a durable one.
    pub fn keep(mut self, index: usize) -> Self {
        self.kept.insert(index, None);
        self
    }

    /// Keeps the volatile records that `choose` says.
    pub fn keep_if(mut self, choose: impl Fn(usize) -> bool) -> Self {
        for index in self.volatile().into_iter().filter(|&index| choose(index)) {
            self.kept.insert(index, None);
        }
        self
    }

    /// Keeps only the 512-byte pieces of the volatile write with this index that `choose` says, numbered from the
    /// write's first; the others stay as they were.
    pub fn tear(mut self, index: usize, choose: impl Fn(usize) -> bool + 'static) -> Self {
        self.kept.insert(index, Some(Box::new(choose)));
        self
    }

    /// Discarded blocks keep what they held, as they may on a device that forgets lazily.
    pub fn ignore_discards(mut self) -> Self {
        self.apply_discards = false;
        self
    }

    /// Writes take effect in the order of completion instead of submission.
    pub fn in_completion_order(mut self) -> Self {
        self.completion_order = true;
        self
    }

    /// The device after the crash.
    ///
    /// # Panics
    /// If a record does not fit the base device: the log belongs to another.
    pub fn build(&self) -> MemDevice {
        let image = self.base.fork();
        let covered = self.covered();
        let mut chosen: Vec<(usize, &Record)> = self
            .submitted()
            .filter(|(index, record)| self.is_durable(record, covered) || self.kept.contains_key(index))
            .collect();
        if self.completion_order {
            chosen.sort_by_key(|(_, record)| record.completed.unwrap_or(u64::MAX));
        }
        for (index, record) in chosen {
            let pieces = self.kept.get(&index).and_then(Option::as_ref).filter(|_| !self.is_durable(record, covered));
            let applied = match (&record.op, pieces) {
                (Op::Write { pages, .. }, Some(pieces)) => tear(&image, record.extent.0, pages, pieces),
                (Op::Discard { .. }, _) if !self.apply_discards => Ok(()),
                _ => apply(&image, record),
            };
            assert!(applied.is_ok(), "record {index} does not fit the device: {applied:?}");
        }
        image
    }

    fn submitted(&self) -> impl Iterator<Item = (usize, &'a Record)> + use<'a> {
        let at = self.at;
        self.records.iter().enumerate().filter(move |(_, record)| record.submitted <= at)
    }

    /// Tick of the latest submission of a flush that had succeeded by the time of the crash: what had completed before
    /// it is durable.
    fn covered(&self) -> u64 {
        let flushes = self.submitted().filter(|(_, record)| record.op == Op::Flush && self.succeeded(record));
        flushes.map(|(_, record)| record.submitted).max().unwrap_or(0)
    }

    fn succeeded(&self, record: &Record) -> bool {
        !record.failed && record.completed.is_some_and(|tick| tick <= self.at)
    }

    fn is_durable(&self, record: &Record, covered: u64) -> bool {
        let flushed = record.completed.is_some_and(|tick| tick < covered);
        let fua = matches!(record.op, Op::Write { fua: true, .. });
        record.op == Op::Flush || (self.succeeded(record) && (flushed || fua))
    }
}

/// The device after all of `records` have taken effect on a copy of `base`, in the order of submission, crash or not.
///
/// # Panics
/// If a record does not fit the base device: the log belongs to another.
pub fn image_at(base: &MemDevice, records: &[Record]) -> MemDevice {
    let image = base.fork();
    for (index, record) in records.iter().enumerate() {
        let applied = apply(&image, record);
        assert!(applied.is_ok(), "record {index} does not fit the device: {applied:?}");
    }
    image
}

/// Ticks at which a flush completed: the moments from which everything the flush covered must be found.
pub fn flush_ticks(records: &[Record]) -> Vec<u64> {
    let flushes = records.iter().filter(|record| record.op == Op::Flush && !record.failed);
    let mut ticks: Vec<u64> = flushes.filter_map(|record| record.completed).collect();
    ticks.sort_unstable();
    ticks
}

fn apply(image: &MemDevice, record: &Record) -> Result<(), crate::IoError> {
    let (block, count) = record.extent;
    match &record.op {
        Op::Write { pages, .. } => image.write(block, pages.clone()),
        Op::Discard { .. } | Op::ZoneReset { .. } => image.discard(block, count),
        Op::Flush | Op::Read { .. } | Op::ZoneFinish { .. } => Ok(()),
    }
}

/// Writes the chosen pieces of `pages` over what the image holds.
fn tear(
    image: &MemDevice,
    block: u64,
    pages: &[PageBuf],
    choose: &dyn Fn(usize) -> bool,
) -> Result<(), crate::IoError> {
    let mut mixed = image.read(block, pages.len() as u64)?;
    for (at, (old, new)) in mixed.iter_mut().zip(pages).enumerate() {
        mix(old, new, |piece| choose(at * PIECES + piece));
    }
    image.write(block, mixed)
}

/// Replaces the pieces of `old` that `choose` names by those of `new`.
pub(crate) fn mix(old: &mut PageBuf, new: &PageBuf, choose: impl Fn(usize) -> bool) {
    new.with(|new| {
        for piece in (0..PIECES).filter(|&piece| choose(piece)) {
            let range = piece * PIECE_SIZE..(piece + 1) * PIECE_SIZE;
            old.make_mut()[range.clone()].copy_from_slice(&new[range]);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IoResult, RecordingDevice, Request, StreamHint};
    use std::sync::Arc;
    use steadyfs_rt::{LockClass, Mutex};

    fn page(byte: u8) -> PageBuf {
        PageBuf::from_slice(&[byte; BLOCK_SIZE])
    }

    fn write(block: u64, byte: u8, fua: bool) -> Op {
        Op::Write { block, pages: vec![page(byte)], hint: StreamHint::DataWarm, fua }
    }

    /// First bytes of the first `count` blocks.
    fn bytes(image: &MemDevice, count: u64) -> Vec<u8> {
        image.read(0, count).expect("in range").iter().map(|page| page.to_array()[0]).collect()
    }

    /// A device that ends requests only when told, in the order it is told.
    #[derive(Default)]
    struct Manual {
        held: Option<Arc<Mutex<Vec<Option<Request>>>>>,
    }

    static HELD: LockClass = LockClass::new("test.held", 0);

    impl Manual {
        fn new() -> Self {
            Manual { held: Some(Arc::new(Mutex::new(&HELD, Vec::new()))) }
        }
        fn end(&self, index: usize, result: IoResult) {
            let held = self.held.as_ref().and_then(|held| held.lock()[index].take());
            (held.expect("in flight").done)(result);
        }
    }

    impl Device for Manual {
        fn info(&self) -> crate::DeviceInfo {
            MemDevice::new(8).info()
        }
        fn submit(&self, batch: Vec<Request>) {
            if let Some(held) = &self.held {
                held.lock().extend(batch.into_iter().map(Some));
            }
        }
    }

    fn start(device: &RecordingDevice<Manual>, op: Op) {
        device.submit(vec![Request::new(op, |_| {})]);
    }

    #[test]
    fn a_flush_covers_what_completed_before_its_submission_only() {
        let device = RecordingDevice::new(Manual::new());
        start(&device, write(0, 10, false)); // completes before the flush is submitted
        start(&device, write(1, 11, false)); // completes while the flush is in flight
        start(&device, write(2, 12, false)); // never completes
        device.inner().end(0, Ok(vec![]));
        start(&device, Op::Flush);
        device.inner().end(1, Ok(vec![]));
        let before_flush_ended = device.tick();
        device.inner().end(3, Ok(vec![]));
        start(&device, write(3, 13, true)); // fua, completes
        start(&device, write(4, 14, true)); // fua, in flight
        device.inner().end(4, Ok(vec![]));
        let log = device.log();
        let base = MemDevice::new(8);

        let crash = CrashImage::new(&base, &log);
        assert_eq!(crash.volatile(), [1, 2, 5]);
        assert_eq!(bytes(&crash.build(), 5), [10, 0, 0, 13, 0]);
        assert_eq!(bytes(&crash.keep(2).build(), 5), [10, 0, 12, 13, 0]);
        let all = CrashImage::new(&base, &log).keep_if(|_| true);
        assert_eq!(bytes(&all.build(), 5), [10, 11, 12, 13, 14]);
        let earlier = CrashImage::new(&base, &log).at(before_flush_ended);
        assert_eq!(earlier.volatile(), [0, 1, 2]);
        assert_eq!(bytes(&earlier.build(), 5), [0; 5]);
        assert_eq!(flush_ticks(&log), [before_flush_ended + 1]);
        assert_eq!(bytes(&image_at(&base, &log[..2]), 5), [10, 11, 0, 0, 0]);
    }

    #[test]
    fn failed_writes_and_failed_flushes_promise_nothing() {
        let device = RecordingDevice::new(Manual::new());
        let error = || Err(Op::Flush.error(crate::errno::EIO));
        start(&device, write(0, 1, false));
        start(&device, write(1, 2, false));
        device.inner().end(0, Ok(vec![]));
        device.inner().end(1, error());
        start(&device, Op::Flush);
        device.inner().end(2, error());
        let log = device.log();
        let base = MemDevice::new(8);
        assert_eq!(CrashImage::new(&base, &log).volatile(), [0, 1]);
        start(&device, Op::Flush);
        device.inner().end(3, Ok(vec![]));
        assert_eq!(CrashImage::new(&base, &device.log()).volatile(), [1], "the failed write stays in doubt");
    }

    #[test]
    fn writes_tear_at_pieces() {
        let device = RecordingDevice::new(MemDevice::new(8));
        device.write(0, vec![page(1), page(2)]).expect("in range");
        let (base, log) = (MemDevice::new(8), device.log());
        base.write(0, vec![page(8), page(9)]).expect("in range");
        let torn = CrashImage::new(&base, &log).tear(0, |piece| piece == 7 || piece == 8).build();
        let read = torn.read(0, 2).expect("in range");
        let (first, second) = (read[0].to_array(), read[1].to_array());
        assert_eq!([first[0], first[3583], first[3584], first[4095]], [8, 8, 1, 1]);
        assert_eq!([second[0], second[511], second[512], second[4095]], [2, 2, 9, 9]);
    }

    #[test]
    fn discards_and_orders_are_choices() {
        let device = RecordingDevice::new(Manual::new());
        start(&device, write(0, 1, false));
        start(&device, write(0, 2, false));
        start(&device, Op::Discard { block: 1, count: 1 });
        device.inner().end(1, Ok(vec![]));
        device.inner().end(0, Ok(vec![]));
        device.inner().end(2, Ok(vec![]));
        start(&device, Op::Flush);
        device.inner().end(3, Ok(vec![]));
        let (base, log) = (MemDevice::new(8), device.log());
        base.write(1, vec![page(7)]).expect("in range");
        let crash = CrashImage::new(&base, &log);
        assert_eq!(bytes(&crash.build(), 2), [2, 0]);
        assert_eq!(bytes(&crash.ignore_discards().in_completion_order().build(), 2), [1, 7]);
    }
}
