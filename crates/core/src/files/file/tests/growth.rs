//! The size that the device is told while contents are missing: a checkpoint of somebody else's making cuts it,
//! write-back gives it back.

use super::*;
use crate::types::RenameFlags;
use crate::volume::nodes::disk_size::UNLIMITED;

/// What a crash now leaves of a file: its contents.
fn after_crash(device: &MemDevice, name: &str) -> Vec<u8> {
    let fs = mount(&Arc::new(device.fork()), "");
    let file = fs.lookup(&fs.root().unwrap(), name.as_bytes()).unwrap();
    read_all(&fs, &file)
}

#[test]
fn a_checkpoint_does_not_commit_the_size_of_what_is_not_written() {
    let device = fresh();
    let fs = mount(&device, "commit=0");
    let (old, fresh_file) = (create(&fs, "old"), create(&fs, "fresh"));
    let bytes = pattern(1, 80_000);
    fs.write(&old, 0, &bytes[..29_500]).unwrap();
    fs.fsync(&old, false).unwrap();
    fs.write(&old, 29_500, &bytes[29_500..29_600]).unwrap();
    fs.write(&fresh_file, 0, &bytes).unwrap();
    assert_eq!((old.inode.node.disk_size.limit(), fresh_file.inode.node.disk_size.limit()), (29_500, 0));
    fs.durable.sync_checkpoint().unwrap();
    assert_eq!((size(&old), size(&fresh_file)), (29_600, 80_000), "in memory nothing is cut");
    assert_eq!(after_crash(&device, "old"), &bytes[..29_500]);
    assert_eq!(after_crash(&device, "fresh"), b"");
    check(&device);
    // Written back, the next checkpoint knows the whole, though nobody touched the inode.
    fs.sync().unwrap();
    assert!([&old, &fresh_file].iter().all(|file| file.inode.node.disk_size.limit() == UNLIMITED));
    assert_eq!(after_crash(&device, "old"), &bytes[..29_600]);
    assert_eq!(after_crash(&device, "fresh"), bytes);
    drop((old, fresh_file));
    unmount_and_check(fs, &device);
}

#[test]
fn what_is_written_anew_past_the_cache_or_cut_off_leaves_no_limit() {
    let device = fresh();
    let fs = mount(&device, "commit=0");
    let (direct, cut, punched) = (create(&fs, "direct"), create(&fs, "cut"), create(&fs, "punched"));
    let bytes = pattern(2, 40_960);
    for file in [&direct, &cut, &punched] {
        fs.write(file, 0, &bytes).unwrap();
    }
    fs.durable.sync_checkpoint().unwrap();
    fs.write_direct(&direct, 0, &bytes).unwrap();
    fs.files.set_size(&cut.inode, 0).unwrap();
    fs.fallocate(&punched, crate::FallocMode::PunchHole, 0, 40_960).unwrap();
    fs.durable.sync_checkpoint().unwrap();
    assert_eq!(after_crash(&device, "direct"), bytes);
    assert_eq!(after_crash(&device, "cut"), b"");
    assert_eq!(after_crash(&device, "punched"), [0; 40_960]);
    drop((direct, cut, punched));
    unmount_and_check(fs, &device);
}

#[test]
fn a_file_that_is_cut_after_a_crash_can_be_written_again() {
    let device = fresh();
    let fs = mount(&device, "commit=0");
    let file = create(&fs, "file");
    let bytes = pattern(3, 60_000);
    fs.write(&file, 0, &bytes[..20_000]).unwrap();
    fs.fsync(&file, false).unwrap();
    fs.write(&file, 20_000, &bytes[20_000..]).unwrap();
    fs.durable.sync_checkpoint().unwrap();
    let left = Arc::new(device.fork());
    let again = mount(&left, "");
    let file = again.lookup(&again.root().unwrap(), b"file").unwrap();
    assert_eq!(size(&file), 20_000);
    again.write(&file, 50_000, b"end").unwrap();
    let mut expected = bytes[..20_000].to_vec();
    expected.resize(50_000, 0);
    expected.extend(b"end");
    assert_eq!(read_all(&again, &file), expected);
    again.sync().unwrap();
    assert_eq!(after_crash(&left, "file"), expected);
    drop(file);
    unmount_and_check(again, &left);
}

#[test]
fn contents_come_before_a_rename_over_another_file() {
    let device = fresh();
    let fs = mount(&device, "commit=0");
    let root = fs.root().unwrap();
    let (first, second) = (create(&fs, "f"), create(&fs, "f.new"));
    let (old, new) = (pattern(4, 5_000), pattern(5, 9_000));
    fs.write(&first, 0, &old).unwrap();
    fs.sync().unwrap();
    fs.write(&second, 0, &new).unwrap();
    fs.rename(&root, b"f.new", &root, b"f", RenameFlags::Replace).unwrap();
    fs.durable.sync_checkpoint().unwrap();
    assert_eq!(after_crash(&device, "f"), new);
    drop((root, first, second));
    unmount_and_check(fs, &device);
}
