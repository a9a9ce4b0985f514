//! How many requests of somebody are at the device: those of the changes that he has watched.
//!
//! Kept true: every request that set off is counted until it has ended, in whatever way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_device::{IoResult, Request};
use steadyfs_rt::{EventCount, WaitCause, waiting_for};

/// See the head of the module.
#[derive(Default)]
pub(crate) struct Depth {
    flying: AtomicU64,
    set_off: AtomicU64,
    landed: EventCount,
}

impl Depth {
    /// Requests that have set off so far.
    pub(crate) fn set_off(&self) -> u64 {
        self.set_off.load(SeqCst)
    }

    /// Waits until fewer requests than this are at the device; returns how many more may be. Hold no change, and owe no
    /// write.
    pub(crate) fn wait(&self, most: u32) -> u64 {
        loop {
            let key = self.landed.listen();
            let room = u64::from(most).saturating_sub(self.flying.load(SeqCst));
            if room > 0 {
                return room;
            }
            let _waiting = waiting_for(WaitCause::Device);
            self.landed.wait(key);
        }
    }

    /// The same request, which counts from now on.
    pub(crate) fn watch(self: &Arc<Self>, request: Request) -> Request {
        let Request { op, done } = request;
        let depth = self.begin();
        Request::new(op, move |result: IoResult| {
            drop(depth);
            done(result);
        })
    }

    /// A request sets off; it has ended when what this returns is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> AtDevice {
        self.set_off.fetch_add(1, SeqCst);
        self.flying.fetch_add(1, SeqCst);
        AtDevice(Arc::clone(self))
    }
}

/// A request at the device.
pub(crate) struct AtDevice(Arc<Depth>);

impl Drop for AtDevice {
    fn drop(&mut self) {
        let old = self.0.flying.fetch_sub(1, SeqCst);
        assert!(old > 0, "more requests ended than had set off");
        self.0.landed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadyfs_device::{Op, PageBuf, StreamHint};

    #[test]
    fn a_request_counts_until_it_has_ended_or_is_dropped() {
        let depth = Arc::new(Depth::default());
        let op = || Op::Write { block: 1, pages: vec![PageBuf::zeroed()], hint: StreamHint::DataWarm, fua: false };
        let told = Arc::new(AtomicU64::new(0));
        let request = |told: &Arc<AtomicU64>| {
            let told = Arc::clone(told);
            depth.watch(Request::new(op(), move |_| _ = told.fetch_add(1, SeqCst)))
        };
        let (first, second) = (request(&told), request(&told));
        assert_eq!((depth.wait(3), depth.wait(4), depth.set_off()), (1, 2, 2));
        (first.done)(Ok(Vec::new()));
        drop(second);
        let third = depth.begin();
        assert_eq!((depth.wait(3), told.load(SeqCst), depth.set_off()), (2, 1, 3));
        drop(third);
        assert_eq!(depth.wait(3), 3);
    }
}
