//! A device that is strict with a volume whose addresses are never used twice, for tests.
//!
//! From one block on it panics on a second write of a block, whatever happened in between, and on reads of what was
//! discarded or never written. It knows nothing of any format: this is a second opinion of what a writer promises. A
//! test names the blocks where somebody may look for what was perhaps never written. A write that failed may be tried
//! again. After a crash the same history goes on over what the crash has left: what it lost reads as never written.

use crate::device::{Device, DeviceInfo, Op, Request, Zone, ZoneGeometry};
use crate::error::IoError;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;
use steadyfs_rt::{LockClass, Mutex};

static ONCE: LockClass = LockClass::new("device.once", u16::MAX - 6);

/// Which blocks were written, and which of them are held.
#[derive(Clone, Default)]
struct Blocks {
    written: HashSet<u64>,
    held: BTreeSet<u64>,
    /// Written, and lost by a crash.
    lost: HashSet<u64>,
}

impl Blocks {
    fn forget(&mut self, range: Range<u64>) {
        let gone: Vec<u64> = self.held.range(range.start..range.end.max(range.start)).copied().collect();
        gone.iter().for_each(|block| {
            self.held.remove(block);
        });
    }
}

/// A device that panics on a second write of a block.
pub struct WriteOnceDevice {
    below: Arc<dyn Device>,
    first: u64,
    probes: Range<u64>,
    blocks: Arc<Mutex<Blocks>>,
}

impl WriteOnceDevice {
    /// Strict from block `first` on. Reads in `probes` may hit what was never written.
    pub fn new(below: Arc<dyn Device>, first: u64, probes: Range<u64>) -> Self {
        Self::with(below, first, probes, Blocks::default())
    }

    fn with(below: Arc<dyn Device>, first: u64, probes: Range<u64>, blocks: Blocks) -> Self {
        WriteOnceDevice { below, first, probes, blocks: Arc::new(Mutex::new(&ONCE, blocks)) }
    }

    /// The same, where these blocks were written before.
    pub fn holding(self, blocks: impl IntoIterator<Item = u64>) -> Self {
        {
            let (mut known, first) = (self.blocks.lock(), self.first);
            for block in blocks.into_iter().filter(|block| *block >= first) {
                known.written.insert(block);
                known.held.insert(block);
            }
        }
        self
    }

    /// The same history over another device: what a crash has left of the first.
    pub fn continue_on(&self, below: Arc<dyn Device>) -> Self {
        let blocks = self.blocks.lock().clone();
        Self::with(below, self.first, self.probes.clone(), blocks)
    }

    /// The same history, and what was asked since: `survived` says of each operation whether the device below has it.
    pub fn continue_after<'a>(&self, below: Arc<dyn Device>, since: impl IntoIterator<Item = (&'a Op, bool)>) -> Self {
        let mut blocks = self.blocks.lock().clone();
        for (op, survived) in since {
            let strict = self.strict_part(op);
            match op {
                Op::Write { .. } if survived => blocks.held.extend(strict.clone()),
                Op::Discard { .. } if survived => blocks.forget(strict.clone()),
                _ => {}
            }
            if matches!(op, Op::Write { .. }) {
                blocks.written.extend(strict.clone());
            }
            if matches!(op, Op::Write { .. }) && !survived {
                blocks.lost.extend(strict);
            }
        }
        Self::with(below, self.first, self.probes.clone(), blocks)
    }

    /// The blocks from the first strict one on that were written and not discarded, in rising order.
    pub fn held(&self) -> Vec<u64> {
        self.blocks.lock().held.iter().copied().collect()
    }

    /// The blocks of an operation that it is strict about.
    fn strict_part(&self, op: &Op) -> Range<u64> {
        let (start, count) = op.range();
        start.max(self.first)..start.saturating_add(count)
    }

    /// # Panics
    /// If the operation breaks the promise.
    fn look_at(&self, op: &Op) {
        let strict = self.strict_part(op);
        let mut blocks = self.blocks.lock();
        match op {
            Op::Write { .. } => {
                for block in strict {
                    assert!(blocks.written.insert(block), "block {block} is written a second time");
                    blocks.held.insert(block);
                }
            }
            Op::Read { .. } => {
                for block in strict {
                    let known = blocks.written.contains(&block) && !blocks.lost.contains(&block);
                    assert!(known || self.probes.contains(&block), "block {block} is read and was never written");
                    assert!(!known || blocks.held.contains(&block), "block {block} is read and was discarded");
                }
            }
            Op::Discard { .. } => blocks.forget(strict),
            Op::Flush | Op::ZoneReset { .. } | Op::ZoneFinish { .. } => {}
        }
    }
}

impl Device for WriteOnceDevice {
    fn info(&self) -> DeviceInfo {
        self.below.info()
    }

    fn submit(&self, batch: Vec<Request>) {
        let watched = batch.into_iter().map(|request| {
            self.look_at(&request.op);
            let strict = self.strict_part(&request.op);
            if !matches!(request.op, Op::Write { .. }) || strict.is_empty() {
                return request;
            }
            let (blocks, Request { op, done }) = (Arc::clone(&self.blocks), request);
            Request::new(op, move |result| {
                if result.is_err() {
                    let mut blocks = blocks.lock();
                    blocks.written.retain(|block| !strict.contains(block));
                }
                done(result);
            })
        });
        self.below.submit(watched.collect());
    }

    fn held_from(&self, block: u64) -> Result<Option<Range<u64>>, IoError> {
        self.below.held_from(block)
    }

    fn zones(&self) -> Option<ZoneGeometry> {
        self.below.zones()
    }

    fn zone_report(&self, first: u64, count: u64) -> Result<Vec<Zone>, IoError> {
        self.below.zone_report(first, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemDevice, PageBuf};

    #[test]
    fn it_panics_on_what_an_infinite_log_never_does() {
        let strict = || WriteOnceDevice::new(Arc::new(MemDevice::new(1 << 40)), 100, 300..400);
        let page = || vec![PageBuf::from_slice(&[1])];
        let breaks = |what: &dyn Fn(&WriteOnceDevice)| {
            let device = strict();
            device.write(5, page()).unwrap();
            device.write(5, page()).unwrap();
            device.write(200, page()).unwrap();
            device.read(300, 9).unwrap();
            assert_eq!(device.held(), [200]);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| what(&device))).is_err()
        };
        assert!(breaks(&|device| device.write(200, page()).unwrap()));
        assert!(breaks(&|device| drop(device.read(201, 1).unwrap())));
        assert!(breaks(&|device| {
            device.discard(0, 1 << 40).unwrap();
            assert!(device.held().is_empty());
            drop(device.read(200, 1).unwrap());
        }));
        assert!(breaks(&|device| {
            device.discard(200, 1).unwrap();
            device.continue_on(Arc::new(MemDevice::new(1 << 40))).write(200, page()).unwrap();
        }));
        assert!(!breaks(&|device| drop(device.read(200, 1).unwrap())));
    }

    #[test]
    fn a_crash_loses_contents_and_no_history() {
        let page = || vec![PageBuf::from_slice(&[1])];
        let write = |block| Op::Write { block, pages: page(), hint: crate::StreamHint::DataWarm, fua: false };
        let mem = || Arc::new(MemDevice::new(1 << 40));
        let before = WriteOnceDevice::new(mem(), 100, 0..0).holding([5, 150, 151]);
        let since = [(write(200), true), (write(201), false), (Op::Discard { block: 150, count: 1 }, true)];
        let after = || before.continue_after(mem(), since.iter().map(|(op, survived)| (op, *survived)));
        assert_eq!(after().held(), [151, 200]);
        let breaks = |what: &dyn Fn(&WriteOnceDevice)| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| what(&after()))).is_err()
        };
        for block in [150, 151, 200, 201] {
            assert!(breaks(&|device| device.write(block, page()).unwrap()), "{block}");
        }
        assert!(breaks(&|device| drop(device.read(201, 1).unwrap())), "it did not survive");
        assert!(!breaks(&|device| device.write(202, page()).unwrap()));
    }

    #[test]
    fn a_write_that_failed_may_be_tried_again() {
        let faulty = crate::FaultyDevice::new(MemDevice::new(1 << 20));
        faulty.add(crate::Fault::fail(crate::errno::EIO).on(crate::OpKind::Write).nth(0));
        let device = WriteOnceDevice::new(Arc::new(faulty), 100, 0..0);
        assert!(device.write(200, vec![PageBuf::zeroed()]).is_err());
        device.write(200, vec![PageBuf::zeroed()]).unwrap();
    }
}
