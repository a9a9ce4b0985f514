//! Write amplification of greedy collection under uniform random overwrites, against the analytic curve.
//!
//! The curve: with T pages of flash and U logical ones, alpha = T / U, and x the root below 1 of x e^-x = alpha
//! e^-alpha, WAF = alpha / (alpha - x). It is the limit for large blocks, for oldest-first (Menon; Desnoyers,
//! SYSTOR 2012) and for greedy collection (Xiang and Kurkoski, 2012: the limit of Bux and Iliadis' model), which
//! coincide there. T are the pages that hold data: free lines take no part.

use crate::common::{MIB, Random, all, assert_clean, small, timed, write};
use steadyfs_device::Device;
use steadyfs_flash::{EmulatedSsd, Intervals, Layer, Parameters, Preset, Stats};

/// The curve.
fn analytic(alpha: f64) -> f64 {
    let target = alpha * (-alpha).exp();
    let (mut low, mut high) = (0.0f64, 1.0f64);
    for _ in 0..100 {
        let x = (low + high) / 2.0;
        if x * (-x).exp() < target { low = x } else { high = x }
    }
    alpha / (alpha - low)
}

/// Measured WAF, and that of the curve.
fn measure(over_provisioning: f64) -> (f64, f64) {
    timed(move || {
        let mut parameters = Preset::Samsung970Pro.parameters().with_smaller_blocks(32);
        parameters.policy.over_provisioning = over_provisioning;
        let line = u64::from(parameters.geometry.line_pages());
        let ssd = EmulatedSsd::new(parameters, 1024 * MIB).unwrap();
        let blocks = ssd.info().blocks;
        all(&ssd, (0..blocks / 64).map(|part| write(part * 64, 64, false)));
        let mut random = Random(1);
        let mut overwrite = |pages: u64| all(&ssd, (0..pages).map(|_| write(random.below(blocks), 1, false)));
        (0..2).for_each(|_| overwrite(blocks)); // what the first fill leaves is gone after the first
        let before = ssd.stats();
        let samples = 100;
        let mut free = 0;
        for _ in 0..samples {
            overwrite(blocks / 100);
            free += ssd.stats().space.free;
        }
        assert_clean(&ssd);
        let after = ssd.stats();
        let space = after.space;
        let all = space.mapped + space.invalid + space.free;
        // The victim is half empty, on average.
        let used = all as f64 - free as f64 / f64::from(samples) - line as f64 / 2.0;
        (after.waf_since(&before), analytic(used / blocks as f64))
    })
}

#[test]
fn greedy_collection_follows_the_curve() {
    assert!((analytic(1.07) - 7.8).abs() < 0.1 && (analytic(2.0) - 1.255).abs() < 0.01, "{}", analytic(1.07));
    for over_provisioning in [0.07, 0.15, 0.28] {
        let (measured, expected) = measure(over_provisioning);
        println!("over-provisioning {over_provisioning}: WAF {measured:.3}, analytic {expected:.3}");
        let off = measured / expected - 1.0;
        assert!(off.abs() < 0.03, "over-provisioning {over_provisioning}: WAF {measured:.3} instead of {expected:.3}");
    }
}

/// Which map it is makes no difference to collection: not by a page.
#[test]
fn both_maps_collect_the_same() {
    let of = |layer| collected(layer).waf();
    let (flat, intervals) = (of(Layer::PageMap), of(Layer::Interval(Intervals::paper())));
    assert!(flat > 2.0, "collection took part: {flat}");
    assert_eq!(flat, intervals);
}

/// A device that was overwritten three times.
fn collected(layer: Layer) -> Stats {
    timed(move || {
        let parameters = Parameters { layer, ..small() };
        let ssd = EmulatedSsd::new(parameters, 32 * MIB).unwrap();
        let blocks = ssd.info().blocks;
        let mut random = Random(1);
        all(&ssd, (0..blocks / 64).map(|part| write(part * 64, 64, false)));
        all(&ssd, (0..3 * blocks).map(|_| write(random.below(blocks), 1, false)));
        assert_clean(&ssd);
        ssd.stats()
    })
}
