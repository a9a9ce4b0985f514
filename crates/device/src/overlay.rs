//! [`OverlayDevice`]: changes in memory over another device, which is only read.
//!
//! For looking at what a change would make of a volume without making it: a volume whose last files still have to be
//! recovered is recovered onto an overlay and read through it. Takes memory for what is written, a page per block.
//!
//! Keeps true: nothing but reads reaches the device below; what was written reads back; a completed write is never lost
//! while the overlay lives, and gone with it.

use crate::{Device, DeviceInfo, IoResult, Op, PageBuf, Request, errno};
use std::collections::HashMap;
use std::sync::Arc;
use steadyfs_rt::{LockClass, RwLock};

/// Held for looking up or replacing the pages of one request.
static PAGES: LockClass = LockClass::new("device.overlay", u16::MAX - 3);

type Pages = HashMap<u64, PageBuf>;

/// A device whose changes stay in memory. See the head of the module.
pub struct OverlayDevice<D> {
    below: D,
    info: DeviceInfo,
    pages: Arc<RwLock<Pages>>,
}

impl<D: Device> OverlayDevice<D> {
    /// No changes yet over `below`.
    pub fn new(below: D) -> Self {
        let info = DeviceInfo { read_only: false, discard: false, ..below.info() };
        OverlayDevice { below, info, pages: Arc::new(RwLock::new(&PAGES, Pages::new())) }
    }

    /// Blocks that differ, or may differ, from the device below.
    pub fn changed_blocks(&self) -> usize {
        self.pages.read().len()
    }

    fn change(&self, op: &Op) -> IoResult {
        match op {
            Op::Write { block, pages, .. } => {
                let mut held = self.pages.write();
                held.extend((*block..).zip(pages.iter().cloned()));
                Ok(Vec::new())
            }
            // Discarded blocks may keep what they held.
            Op::Flush | Op::Discard { .. } | Op::Read { .. } => Ok(Vec::new()),
            Op::ZoneReset { .. } | Op::ZoneFinish { .. } => Err(op.error(errno::EOPNOTSUPP)),
        }
    }

    /// The pages of a range, if all of them were written here.
    fn held(&self, block: u64, count: u64) -> Option<Vec<PageBuf>> {
        let held = self.pages.read();
        // A range of a checked request: no longer than the device.
        (block..block + count).map(|at| held.get(&at).cloned()).collect()
    }
}

/// Puts the pages that were written over those that the device below gave.
fn cover(pages: &mut [PageBuf], block: u64, held: &Pages) {
    for (page, at) in pages.iter_mut().zip(block..) {
        if let Some(newer) = held.get(&at) {
            *page = newer.clone();
        }
    }
}

impl<D: Device> Device for OverlayDevice<D> {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn submit(&self, batch: Vec<Request>) {
        let mut below = Vec::with_capacity(batch.len());
        for Request { op, done } in batch {
            if let Err(error) = self.info.check(&op) {
                done(Err(error));
                continue;
            }
            let Op::Read { block, count } = op else {
                done(self.change(&op));
                continue;
            };
            if let Some(pages) = self.held(block, count) {
                done(Ok(pages));
                continue;
            }
            let held = Arc::clone(&self.pages);
            below.push(Request::new(op, move |result| {
                done(result.map(|mut pages| {
                    cover(&mut pages, block, &held.read());
                    pages
                }));
            }));
        }
        if !below.is_empty() {
            self.below.submit(below);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemDevice;

    fn page(byte: u8) -> PageBuf {
        PageBuf::from_slice(&[byte; 4096])
    }

    #[test]
    fn changes_stay_above_and_read_back() {
        let below = MemDevice::new(8);
        below.write(2, vec![page(1), page(2)]).expect("in range");
        let below = Arc::new(below.into_read_only());
        let overlay = OverlayDevice::new(Arc::clone(&below));
        assert!(!overlay.info().read_only && overlay.info().blocks == 8);
        overlay.write(3, vec![page(7), page(8)]).expect("the overlay takes changes");
        overlay.flush().expect("nothing to flush");
        overlay.discard(3, 1).expect("nothing to discard");
        assert_eq!(overlay.read(2, 4).expect("in range"), [page(1), page(7), page(8), PageBuf::zeroed()]);
        assert_eq!(overlay.read(3, 2).expect("in range"), [page(7), page(8)]);
        assert_eq!(below.read(3, 2).expect("in range"), [page(2), PageBuf::zeroed()], "the device below is as it was");
        assert_eq!(overlay.changed_blocks(), 2);
    }

    #[test]
    fn what_the_device_below_would_refuse_is_refused() {
        let overlay = OverlayDevice::new(MemDevice::new(8));
        assert!(overlay.write(7, vec![page(1), page(2)]).is_err() && overlay.read(8, 1).is_err());
        assert!(overlay.run(Op::ZoneReset { block: 0 }).is_err());
        assert_eq!(overlay.changed_blocks(), 0);
    }
}
