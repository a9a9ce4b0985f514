//! A device that is strict with a volume whose addresses are never used twice, for tests.
//!
//! From one block on it panics on a second write of a block, whatever happened in between, and on reads of what was
//! discarded or never written. It knows nothing of any format: this is a second opinion of what a writer promises. A
//! test names the blocks where somebody may look for what was perhaps never written.

use crate::device::{Device, DeviceInfo, Op, Request, Zone, ZoneGeometry};
use crate::error::IoError;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;
use steadyfs_rt::{LockClass, Mutex};

static ONCE: LockClass = LockClass::new("write_once_lock", 95);

/// Which blocks were written, and which of them are held.
#[derive(Clone, Default)]
struct Blocks {
    written: HashSet<u64>,
    held: BTreeSet<u64>,
}

/// A device that panics on a second write of a block.
pub struct WriteOnceDevice {
    below: Arc<dyn Device>,
    first: u64,
    probes: Range<u64>,
    blocks: Mutex<Blocks>,
}

impl WriteOnceDevice {
    /// Strict from block `first` on. Reads in `probes` may hit what was never written.
    pub fn new(below: Arc<dyn Device>, first: u64, probes: Range<u64>) -> Self {
        WriteOnceDevice { below, first, probes, blocks: Mutex::new(&ONCE, Blocks::default()) }
    }

    /// The same history over another device: what a crash has left of the first.
    pub fn continue_on(&self, below: Arc<dyn Device>) -> Self {
        let blocks = self.blocks.lock().clone();
        WriteOnceDevice { below, first: self.first, probes: self.probes.clone(), blocks: Mutex::new(&ONCE, blocks) }
    }

    /// The blocks from the first strict one on that were written and not discarded, in rising order.
    pub fn held(&self) -> Vec<u64> {
        self.blocks.lock().held.iter().copied().collect()
    }

    /// # Panics
    /// If the operation breaks the promise.
    fn look_at(&self, op: &Op) {
        let (start, count) = op.range();
        let strict = start.max(self.first)..start.saturating_add(count);
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
                    let known = blocks.written.contains(&block);
                    assert!(known || self.probes.contains(&block), "block {block} is read and was never written");
                    assert!(!known || blocks.held.contains(&block), "block {block} is read and was discarded");
                }
            }
            Op::Discard { .. } => {
                let gone: Vec<u64> = blocks.held.range(strict.start..strict.end.max(strict.start)).copied().collect();
                gone.iter().for_each(|block| {
                    blocks.held.remove(block);
                });
            }
            Op::Flush | Op::ZoneReset { .. } | Op::ZoneFinish { .. } => {}
        }
    }
}

impl Device for WriteOnceDevice {
    fn info(&self) -> DeviceInfo {
        self.below.info()
    }

    fn submit(&self, batch: Vec<Request>) {
        batch.iter().for_each(|request| self.look_at(&request.op));
        self.below.submit(batch);
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
    fn it_panics_on_what_an_endless_log_never_does() {
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
}
