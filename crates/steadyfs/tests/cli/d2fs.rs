//! What the command tells of an image of a D2FS volume, which only the library can make: over a device that moves
//! blocks.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use steadyfs_core::mkfs::{self, Migrating, MkfsOptions};
use steadyfs_core::{Fs, MountOptions, NewInode};
use steadyfs_device::{Adversary, AdversaryDevice, Device, MemDevice, Migrations};

use steadyfs_testkit::fsck_f2fs;

use crate::run::{finish, steadyfs};

/// A volume of 48 MiB with a file of one page that was written over and over; how many records its checkpoint contains.
fn make(path: &Path) -> u64 {
    let chosen = Migrating::new(24 * 512);
    let options = MkfsOptions { migrating: Some(chosen), ..MkfsOptions::new([0xd2; 16], 1_700_000_000) };
    let areas = chosen.geometry(&options).unwrap();
    let below = Arc::new(MemDevice::new(areas.gc.end));
    let device = Arc::new(AdversaryDevice::new(Arc::clone(&below), areas, Adversary::new(1)));
    mkfs::format(&*device, &options).unwrap();
    let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, MountOptions::parse("").unwrap()).unwrap();
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    let file = fs.create(&fs.root().unwrap(), b"file", &new).unwrap();
    for _ in 0..60 {
        fs.write(&file, 0, &[b'x'; 4096]).unwrap();
        fs.sync().unwrap();
    }
    drop(file);
    fs.unmount().unwrap();
    let image = File::create(path).unwrap();
    image.set_len(below.info().blocks * 4096).unwrap();
    for block in below.written_blocks() {
        image.write_all_at(&below.read_one(block).unwrap().to_array()[..], block * 4096).unwrap();
    }
    device.completed()
}

#[test]
fn an_image_is_read_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("a.img");
    let records = make(&image);
    assert!(records > 0, "the device was idle");
    let run = |args: &[&str]| finish(steadyfs().args(args).current_dir(dir.path()));
    let ok = |args: &[&str]| {
        let out = run(args);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{args:?}: {}", out.stdout);
        out.stdout
    };
    let info: serde_json::Value = serde_json::from_str(&ok(&["info", "--json", "a.img"])).unwrap();
    let wanted = serde_json::json!({
        "capacity": 24 * (2 << 20), "regular_sections": 34, "gc_sections": 28, "records": records
    });
    assert_eq!((&info["kind"], &info["d2fs"]), (&"d2fs".into(), &wanted), "{info}");
    let told = ok(&["info", "a.img"]);
    assert!(told.contains("34 regular sections, 28 of the device") && told.contains("48"), "{told}");
    ok(&["fsck", "a.img"]);
    assert_eq!(ok(&["cat", "a.img", "/file"]), "x".repeat(4096));
    let put = run(&["put", "a.img", "a.img", "/other"]);
    assert!(put.code != 0 && put.stderr.contains("does not move blocks by itself"), "{put:?}");
    let told = ok(&["export", "a.img", "b.img"]);
    assert!(told.starts_with("b.img: ") && told.contains("an F2FS volume"), "{told}");
    fsck_f2fs(dir.path().join("b.img")).unwrap();
    let info: serde_json::Value = serde_json::from_str(&ok(&["info", "--json", "b.img"])).unwrap();
    assert_eq!(info["kind"], "f2fs");
    assert_eq!(ok(&["cat", "b.img", "/file"]), "x".repeat(4096));
    for (from, to, why) in [("a.img", "b.img", "it is there already"), ("b.img", "c.img", "this is no D2FS volume")] {
        let refused = run(&["export", from, to]);
        assert!(refused.code != 0 && refused.stderr.contains(why), "{refused:?}");
    }
    assert!(!dir.path().join("c.img").exists());
}
