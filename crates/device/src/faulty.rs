//! [`FaultyDevice`]: fails, tears, delays or disappears as a test says.
//!
//! A [`Fault`] says which operations it is about and what happens to them. Each fault counts the operations it is
//! about; of several active ones the first that was added takes effect. A request that a fault fails never reaches the
//! device inside; a torn write reaches it in part.
//!
//! Keeps true: every request is ended exactly once; what a fault does not touch passes unchanged.

use crate::crash::{PIECES, mix};
use crate::{Device, DeviceInfo, IoError, Migrations, Op, OpKind, PageBuf, Request, Zone, ZoneGeometry, errno};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use steadyfs_rt::{LockClass, Mutex, Pending, sleep};

/// Held while the faults are looked through.
static FAULTS: LockClass = LockClass::new("device.faults", u16::MAX - 3);

/// What happens to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Fail { errno: i32 },
    Torn { pieces: usize, reported: bool },
    Delay(Duration),
    Disappear,
}

/// A fault: what happens, and to which operations. Without further words it happens to every operation.
#[derive(Debug, Clone)]
pub struct Fault {
    effect: Effect,
    kind: Option<OpKind>,
    durable: bool,
    blocks: Option<Range<u64>>,
    from: u64,
    times: u64,
    seen: u64,
}

impl Fault {
    fn new(effect: Effect) -> Self {
        Fault { effect, kind: None, durable: false, blocks: None, from: 0, times: u64::MAX, seen: 0 }
    }

    /// The operation fails with this error number and does nothing.
    pub fn fail(errno: i32) -> Self {
        Self::new(Effect::Fail { errno })
    }

    /// A write stores its first `pieces` pieces of 512 bytes and fails with EIO.
    pub fn torn(pieces: usize) -> Self {
        Fault { kind: Some(OpKind::Write), ..Self::new(Effect::Torn { pieces, reported: true }) }
    }

    /// A write stores its first `pieces` pieces of 512 bytes and claims to have succeeded.
    pub fn torn_silently(pieces: usize) -> Self {
        Fault { kind: Some(OpKind::Write), ..Self::new(Effect::Torn { pieces, reported: false }) }
    }

    /// The submitter is held up for this long before the operation starts.
    pub fn delay(duration: Duration) -> Self {
        Self::new(Effect::Delay(duration))
    }

    /// The device is gone: this and every later operation fails with ENODEV.
    pub fn disappear() -> Self {
        Self::new(Effect::Disappear)
    }

    /// Only operations of this kind. A torn fault is about writes whatever is said here.
    pub fn on(mut self, kind: OpKind) -> Self {
        if !matches!(self.effect, Effect::Torn { .. }) {
            self.kind = Some(kind);
        }
        self
    }

    /// Only writes that are to be durable when they complete (`fua`).
    pub fn on_durable_writes(mut self) -> Self {
        self.durable = true;
        self
    }

    /// Only operations that touch one of these blocks. A flush touches none.
    pub fn in_blocks(mut self, blocks: Range<u64>) -> Self {
        self.blocks = Some(blocks);
        self
    }

    /// Only the `n`th operation it is about, counted from 0.
    pub fn nth(self, n: u64) -> Self {
        self.after(n).times(1)
    }

    /// Not the first `n` operations it is about.
    pub fn after(mut self, n: u64) -> Self {
        self.from = n;
        self
    }

    /// At most `times` operations.
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Counts the operation if the fault is about it; true if the fault happens to it.
    fn strikes(&mut self, op: &Op) -> bool {
        let (block, count) = op.range();
        let touches = |range: &Range<u64>| count > 0 && block < range.end && range.start < block.saturating_add(count);
        let durable = matches!(op, Op::Write { fua: true, .. });
        if self.durable && !durable
            || self.kind.is_some_and(|kind| kind != op.kind())
            || !self.blocks.as_ref().is_none_or(touches)
        {
            return false;
        }
        let number = self.seen;
        self.seen += 1;
        number.checked_sub(self.from).is_some_and(|past| past < self.times)
    }
}

/// A device with faults. See the head of the module.
pub struct FaultyDevice<D> {
    inner: Arc<D>,
    faults: Mutex<Vec<Fault>>,
    gone: AtomicBool,
    /// Calls that pass requests on.
    passing: Pending,
}

impl<D: Device + 'static> FaultyDevice<D> {
    /// No faults yet.
    pub fn new(inner: D) -> Self {
        let faults = Mutex::new(&FAULTS, Vec::new());
        FaultyDevice { inner: Arc::new(inner), faults, gone: AtomicBool::new(false), passing: Pending::new() }
    }

    /// The device inside.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// One more fault; it counts operations from now on.
    pub fn add(&self, fault: Fault) {
        self.faults.lock().push(fault);
    }

    /// No more faults; a device that disappeared is back.
    pub fn heal(&self) {
        self.faults.lock().clear();
        self.gone.store(false, Ordering::SeqCst);
    }

    /// The device disappears now. Nothing reaches the device inside after this returns; what does not end in the call
    /// that submits it may still end there.
    pub fn disappear(&self) {
        self.gone.store(true, Ordering::SeqCst);
        self.passing.wait_zero();
    }

    /// True after the device has disappeared.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// What happens to `op`. Every fault counts it, the first that strikes decides.
    fn effect(&self, op: &Op) -> Option<Effect> {
        let mut first = None;
        for fault in self.faults.lock().iter_mut() {
            if fault.strikes(op) {
                first = first.or(Some(fault.effect));
            }
        }
        first
    }

    /// Writes the first `pieces` pieces, then ends the request.
    fn tear(&self, request: Request, pieces: usize, reported: bool) {
        let Request { op: Op::Write { block, mut pages, hint, fua }, done } = request else {
            return self.inner.submit(vec![request]);
        };
        let count = pages.len() as u64;
        let (whole, rest) = (pieces / PIECES, pieces % PIECES);
        let torn = pages.get(whole).filter(|_| rest > 0).cloned();
        pages.truncate(whole);
        let end = move |result: Result<(), IoError>| {
            let torn = IoError::new(OpKind::Write, block, count, errno::EIO, "torn write");
            done(match result {
                Ok(()) if !reported => Ok(Vec::new()),
                Ok(()) => Err(torn),
                Err(error) => Err(error),
            });
        };
        let inner = Arc::clone(&self.inner);
        let write = move |pages: Vec<PageBuf>| {
            let op = Op::Write { block, pages, hint, fua };
            inner.submit(vec![Request::new(op, move |result| end(result.map(drop)))]);
        };
        let Some(torn) = torn else { return write(pages) };
        // The pieces that are not written keep what the block held.
        let old = Op::Read { block: block + whole as u64, count: 1 };
        let merge = move |result: crate::IoResult| {
            let mut last = result.ok().and_then(|pages| pages.into_iter().next()).unwrap_or_default();
            mix(&mut last, &torn, |piece| piece < rest);
            pages.push(last);
            write(pages);
        };
        self.inner.submit(vec![Request::new(old, merge)]);
    }
}

impl<D: Device + 'static> Device for FaultyDevice<D> {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn submit(&self, batch: Vec<Request>) {
        // Counted before it is asked whether the device is gone, which is noted before it is asked who is counted.
        self.passing.add(1);
        let mut passed = Vec::with_capacity(batch.len());
        for request in batch {
            match self.effect(&request.op) {
                _ if self.is_gone() => request.fail(errno::ENODEV),
                None => passed.push(request),
                Some(Effect::Fail { errno }) => request.fail(errno),
                Some(Effect::Torn { pieces, reported }) => self.tear(request, pieces, reported),
                Some(Effect::Delay(duration)) => {
                    sleep(duration);
                    passed.push(request);
                }
                Some(Effect::Disappear) => {
                    self.gone.store(true, Ordering::SeqCst);
                    request.fail(errno::ENODEV);
                }
            }
        }
        self.inner.submit(passed);
        self.passing.done(1);
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
    use crate::{BLOCK_SIZE, MemDevice};
    use steadyfs_rt::now;

    fn page(byte: u8) -> PageBuf {
        PageBuf::from_slice(&[byte; BLOCK_SIZE])
    }

    fn device(fault: Fault) -> FaultyDevice<MemDevice> {
        let device = FaultyDevice::new(MemDevice::new(100));
        device.add(fault);
        device
    }

    #[test]
    fn faults_choose_by_kind_number_and_block() {
        let faulty = device(Fault::fail(errno::ENOSPC).on(OpKind::Write).nth(1));
        let write = |device: &FaultyDevice<MemDevice>, block| device.write(block, vec![page(1)]);
        assert!(write(&faulty, 0).is_ok() && faulty.flush().is_ok());
        let error = write(&faulty, 5).expect_err("the second write");
        assert_eq!((error.errno(), error.op, error.block, error.count), (errno::ENOSPC, OpKind::Write, 5, 1));
        assert!(write(&faulty, 5).is_ok());
        assert_eq!(faulty.inner().written_blocks(), [0, 5]);

        let faulty = device(Fault::fail(errno::EIO).in_blocks(10..20));
        assert!(faulty.read(0, 10).is_ok() && faulty.read(20, 5).is_ok() && faulty.flush().is_ok());
        assert!(faulty.read(9, 2).is_err() && faulty.read(19, 5).is_err() && faulty.read(0, 100).is_err());

        let faulty = device(Fault::fail(errno::EIO).after(2).times(2));
        let results: Vec<bool> = (0..6).map(|_| faulty.read_one(0).is_ok()).collect();
        assert_eq!(results, [true, true, false, false, true, true]);
        faulty.add(Fault::fail(errno::EIO).on(OpKind::Flush));
        assert!(faulty.flush().is_err());
        faulty.heal();
        assert!(faulty.flush().is_ok());
    }

    #[test]
    fn torn_writes_leave_the_rest_as_it_was() {
        for (fault, fails) in [(Fault::torn(11), true), (Fault::torn_silently(11), false)] {
            let faulty = device(fault.after(1));
            faulty.write(4, vec![page(7), page(7), page(7)]).expect("the first write is whole");
            assert_eq!(faulty.write(4, vec![page(1), page(2), page(3)]).is_err(), fails);
            let read = faulty.read(4, 3).expect("in range");
            assert!(read[0] == page(1) && read[2] == page(7));
            let torn = read[1].to_array();
            assert_eq!([torn[0], torn[3 * 512 - 1], torn[3 * 512], torn[4095]], [2, 2, 7, 7]);
        }
        let faulty = device(Fault::torn(8));
        assert!(faulty.write(0, vec![page(1), page(2)]).is_err());
        assert_eq!(faulty.read(0, 2).expect("in range"), [page(1), PageBuf::zeroed()]);
    }

    #[test]
    fn devices_disappear_and_come_back() {
        let faulty = device(Fault::disappear().nth(1));
        assert!(faulty.write(0, vec![page(1)]).is_ok());
        for _ in 0..3 {
            assert_eq!(faulty.read_one(0).expect_err("gone").errno(), errno::ENODEV);
        }
        assert!(faulty.is_gone());
        faulty.heal();
        assert_eq!(faulty.read_one(0).expect("back"), page(1));
    }

    #[test]
    fn nothing_arrives_after_a_device_has_disappeared() {
        for _ in 0..50 {
            let device = Arc::new(FaultyDevice::new(MemDevice::new(256)));
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    let device = Arc::clone(&device);
                    // Long writes, so that one is likely to be under way.
                    let write = move |round: u8| device.write(0, vec![page(round); 256]).is_ok();
                    steadyfs_rt::spawn("writer", move || assert!(!(1..=u8::MAX).cycle().all(&write)))
                })
                .collect();
            while device.inner().written_blocks().is_empty() {
                sleep(Duration::from_micros(50));
            }
            device.disappear();
            let left = device.inner().read(0, 256).expect("in range");
            writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
            assert!(device.inner().read(0, 256).expect("in range") == left, "a write has arrived since");
        }
    }

    #[test]
    fn delays_delay() {
        let faulty = device(Fault::delay(Duration::from_millis(10)).on(OpKind::Flush));
        let start = now();
        faulty.flush().expect("flushes");
        assert!(start.elapsed() >= Duration::from_millis(10));
    }
}
