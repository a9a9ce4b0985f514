//! How much is written for what is written: collectors work ahead of writers, and each section that they have empty
//! before it is needed, or have open, is one in which no block can become invalid by itself. On a small volume few
//! sections more show.

use crate::common::{create, in_virtual_time, mount};
use std::sync::Arc;
use steadyfs_device::{Device, MemDevice};
use steadyfs_testkit::Rng;

/// Blocks that the device is given for each page that is overwritten, 32 at random between any two fsyncs, on two
/// cores; the file takes 93 % of the volume, and was overwritten as a whole before.
fn amplification(base: &MemDevice, gc: &'static str) -> f64 {
    let device = Arc::new(base.fork());
    in_virtual_time(2, move || {
        let fs = mount(device as Arc<dyn Device>, gc);
        let file = create(&fs, "file");
        let pages = fs.statfs().blocks_free * 93 / 100;
        (0..pages).for_each(|page| assert_eq!(fs.write(&file, page * 4096, &[1; 4096]).unwrap(), 4096));
        let mut random = Rng(1);
        let mut overwrite = |count: u64| {
            for number in 0..count {
                fs.write(&file, random.below(pages) * 4096, &[2; 4096]).unwrap();
                if number % 32 == 31 {
                    fs.fsync(&file, true).unwrap();
                }
            }
        };
        overwrite(pages);
        let before = fs.io_stats().written_blocks();
        overwrite(pages);
        let written = fs.io_stats().written_blocks() - before;
        fs.unmount().unwrap();
        written as f64 / pages as f64
    })
}

#[test]
fn collectors_write_no_more_than_one_who_collects_when_it_must() {
    let base = crate::common::mkfs(256, &[]);
    // As many sections are kept free as collectors keep.
    let one = amplification(&base, "gc=f2fs-lfs,gc.hysteresis=2");
    let two = amplification(&base, "gc=scalelfs");
    println!("{one:.2} blocks a page with gc=f2fs-lfs, {two:.2} with two collectors");
    assert!(two < one * 1.03, "{one:.2} blocks a page with gc=f2fs-lfs, {two:.2} with two collectors");
}
