//! Helpers of the flash tests: simulations, synthetic pages, random numbers, small devices.

use std::sync::Arc;
use std::time::Duration;
use steadyfs_device::{Device, Op, PageBuf, Request, StreamHint};
use steadyfs_flash::{Compaction, EmulatedSsd, Intervals, Layer, Parameters, Preset};
use steadyfs_rt::sim::{SimConfig, SimReport, run};
use steadyfs_rt::{Pending, now};

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

/// A simulation of one core in which only the device takes time.
pub(crate) fn simulate<T: 'static>(seed: u64, f: impl FnOnce() -> T + 'static) -> SimReport<T> {
    run(SimConfig { seed, ..SimConfig::timeless() }, f).unwrap_or_else(|failure| panic!("{failure}"))
}

/// The value of a simulation.
pub(crate) fn timed<T: 'static>(f: impl FnOnce() -> T + 'static) -> T {
    simulate(0, f).value
}

/// Nanoseconds that `f` takes.
pub(crate) fn nanos(f: impl FnOnce()) -> u64 {
    let start = now();
    f();
    start.elapsed().as_nanos() as u64
}

/// A page that differs from all others.
pub(crate) fn page(number: u64, version: u64) -> PageBuf {
    let mut seed = [0; 16];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    seed[8..].copy_from_slice(&version.to_le_bytes());
    PageBuf::synthetic(seed)
}

pub(crate) fn pages(first: u64, count: u64, version: u64) -> Vec<PageBuf> {
    (first..first + count).map(|number| page(number, version)).collect()
}

pub(crate) fn write(block: u64, count: u64, fua: bool) -> Op {
    Op::Write { block, pages: pages(block, count, 0), hint: StreamHint::DataWarm, fua }
}

/// Submits all at once and waits for all.
pub(crate) fn all(device: &EmulatedSsd, ops: impl IntoIterator<Item = Op>) {
    let pending = Arc::new(Pending::new());
    let request = |op| {
        let pending = Arc::clone(&pending);
        pending.add(1);
        Request::new(op, move |result| {
            result.unwrap_or_else(|error| panic!("{error}"));
            pending.done(1);
        })
    };
    let batch: Vec<_> = ops.into_iter().map(request).collect();
    device.submit(batch);
    pending.wait_zero();
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// A 970 Pro with lines of 512 KiB instead of 32 MiB.
pub(crate) fn small() -> Parameters {
    Preset::Samsung970Pro.parameters().with_smaller_blocks(64)
}

/// The same with an interval map of small nodes over 2^60 pages, in which passes stop the device for long.
pub(crate) fn small_intervals() -> Parameters {
    let compaction = Compaction { period: Duration::from_millis(50), slice_nodes: 0, ..Intervals::paper().compaction };
    let shape = Intervals { addresses: 1 << 60, node_pages: 256, zone_nodes: 8, compaction, ..Intervals::paper() };
    Parameters { layer: Layer::Interval(shape), ..small() }
}

pub(crate) fn assert_clean(ssd: &EmulatedSsd) {
    let report = ssd.check();
    assert!(report.is_clean(), "{report}");
}
