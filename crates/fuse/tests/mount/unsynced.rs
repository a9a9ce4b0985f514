//! What was not fsynced when the serving process is killed: no zeros in place of contents, and never neither the old
//! file nor the new one.

use crate::harness::Place;
use std::fs::{File, OpenOptions, rename};
use std::io::Write;

#[test]
fn a_killed_mount_leaves_no_zeros_behind_an_append_and_no_empty_replacement() {
    let place = Place::new();
    let mut served = place.mount("");
    let put = |name: &str, byte: u8, len: usize| {
        let mut file = File::create(place.at(name)).unwrap();
        file.write_all(&vec![byte; len]).unwrap();
        file
    };
    for (name, len) in [("log", 29_500), ("replaced", 5_000), ("open", 5_000)] {
        put(name, b'A', len).sync_all().unwrap();
    }
    let mut log = OpenOptions::new().append(true).open(place.at("log")).unwrap();
    log.write_all(&[b'B'; 100]).unwrap();
    drop(log);
    drop(put("replaced.new", b'B', 9_000));
    rename(place.at("replaced.new"), place.at("replaced")).unwrap();
    // Its contents are still in the kernel's cache alone.
    let open = put("open.new", b'B', 9_000);
    rename(place.at("open.new"), place.at("open")).unwrap();
    // Somebody else's checkpoint.
    File::open(place.dir()).unwrap().sync_all().unwrap();
    served.kill();
    drop(open);
    let served = place.mount("");
    let log = std::fs::read(place.at("log")).unwrap();
    assert!(log.len() >= 29_500 && log[..29_500].iter().all(|byte| *byte == b'A'), "what was fsynced is there");
    assert!(log[29_500..].iter().all(|byte| *byte == b'B'), "zeros that nobody wrote");
    for name in ["replaced", "open"] {
        assert_eq!(std::fs::read(place.at(name)).unwrap(), vec![b'B'; 9_000], "{name}");
    }
    served.stop();
    place.check();
}
