//! A device that holds requests up, if it is told to.

use crate::rng::Rng;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_device::{Device, DeviceInfo, IoError, Request, Zone, ZoneGeometry};
use steadyfs_rt::{LockClass, Mutex, sleep};

/// How long a device holds a request up at most.
const DELAY_NS: u64 = 60_000;

/// Held to draw a number.
static LATE: LockClass = LockClass::new("crash.held_up", u16::MAX - 3);

/// The device. See the head of the module.
pub(crate) struct HeldUp<D> {
    inner: Arc<D>,
    late: Mutex<Option<Rng>>,
}

impl<D: Device> HeldUp<D> {
    /// One that does not yet.
    pub(crate) fn new(inner: &Arc<D>) -> Self {
        HeldUp { inner: Arc::clone(inner), late: Mutex::new(&LATE, None) }
    }

    /// From now on each request for as long as numbers of this seed say, or not at all.
    pub(crate) fn hold_up(&self, seed: Option<u64>) {
        *self.late.lock() = seed.map(Rng::new);
    }

    pub(crate) fn inner(&self) -> &Arc<D> {
        &self.inner
    }
}

impl<D: Device> Device for HeldUp<D> {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            let wait = self.late.lock().as_mut().map(|random| random.below(DELAY_NS));
            wait.into_iter().for_each(|wait| sleep(Duration::from_nanos(wait)));
            self.inner.submit(vec![request]);
        }
    }

    fn zones(&self) -> Option<ZoneGeometry> {
        self.inner.zones()
    }

    fn zone_report(&self, first: u64, count: u64) -> Result<Vec<Zone>, IoError> {
        self.inner.zone_report(first, count)
    }
}
