//! Cached readers beside direct writers: what was written is what is read, though the kernel does not drop what it
//! caches after a write that was queued.

use crate::harness::Place;
use rustix::fs::OFlags;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Numbers of io_setup, io_submit and io_getevents.
const CALLS: [&str; 3] = if cfg!(target_arch = "x86_64") { ["206", "209", "208"] } else { ["0", "2", "4"] };

#[test]
fn cached_reads_show_what_was_written_past_the_cache() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mount/aio-writer.pl");
    for cache in ["writeback_cache", "writethrough"] {
        let place = Place::new();
        place.mounted(cache, |_| {
            let path = place.at("file");
            fs::write(&path, vec![0; 655_360]).unwrap();
            let over = AtomicBool::new(false);
            std::thread::scope(|threads| {
                for _ in 0..3 {
                    threads.spawn(|| {
                        while !over.load(SeqCst) {
                            assert_eq!(fs::read(&path).unwrap().len(), 655_360);
                        }
                    });
                }
                let mut writer = Command::new("perl");
                writer.arg(script).arg(&path).arg("300").args(CALLS).arg(OFlags::DIRECT.bits().to_string());
                let output = writer.output();
                over.store(true, SeqCst);
                let output = output.expect("perl");
                assert!(output.status.success(), "{output:?}");
                assert_eq!(String::from_utf8_lossy(&output.stdout), "0", "{cache}: reads that stayed old, of 300");
            });
        });
    }
}
