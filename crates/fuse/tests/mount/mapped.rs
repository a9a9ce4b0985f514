//! Files that are mapped into memory and written there.

use crate::harness::{CACHES, Place};
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn a_file_opened_past_the_cache_can_be_mapped_shared() {
    let place = Place::new();
    for cache in CACHES {
        place.mounted(cache, |_| {
            let path = place.at(cache);
            let status = Command::new("fio")
                .args(["--name=mapped", "--ioengine=mmap", "--direct=1", "--rw=write", "--bs=4k", "--size=64k"])
                .args(["--buffer_pattern=0x5a", "--end_fsync=1"])
                .arg(format!("--filename={}", path.display()))
                .stdout(Stdio::null())
                .status();
            assert!(status.expect("fio is installed").success(), "{cache}");
            assert_eq!(fs::read(&path).unwrap(), [0x5a; 64 << 10], "{cache}");
        });
    }
    place.check();
}
