//! Who is told of a failed write, and how often; what the mount's options do.

use crate::common::create;
use crate::faults::bed::{Bed, Ends, fresh, fsck};
use crate::faults::model::find;
use std::sync::Arc;
use steadyfs_core::{Error, ErrorCursor, Fs, SetAttr};
use steadyfs_device::{Fault, OpKind, errno};

const EIO: i32 = 5;
const EROFS: i32 = 30;

fn mount(options: &str) -> (Arc<Bed>, Arc<Fs>) {
    let bed = Bed::new(fresh(), Ends::Later);
    let fs = bed.mount(options).expect("a whole volume");
    (bed, fs)
}

fn code<T>(result: Result<T, Error>) -> i32 {
    result.map_or_else(|e| e.errno(), |_| 0)
}

fn writes_fail() -> Fault {
    Fault::fail(errno::EIO).on(OpKind::Write)
}

#[test]
fn each_open_file_is_told_once() {
    let (bed, fs) = mount("");
    let (file, other) = (create(&fs, "file"), create(&fs, "other"));
    let cursors: [ErrorCursor; 2] = [file.error_cursor(), file.error_cursor()];
    fs.write(&file, 0, &[1; 50_000]).expect("into memory");
    fs.write(&other, 0, &[1; 50_000]).expect("into memory");
    bed.faulty.add(writes_fail());
    // Of both files: what cannot be written stays dirty.
    assert_eq!(code(fs.sync()), EIO);
    bed.faulty.heal();
    assert_eq!([0, 1].map(|i| code(fs.fsync_open(&file, false, &cursors[i]))), [EIO, EIO]);
    assert_eq!([0, 1].map(|i| code(fs.fsync_open(&file, false, &cursors[i]))), [0, 0]);
    assert_eq!(code(file.take_write_error(&cursors[0])), 0);
    // Nobody who has this one open has been told; who opens it now is.
    let late = other.error_cursor();
    assert_eq!([0, 1].map(|_| code(other.take_write_error(&late))), [EIO, 0]);
    assert_eq!(code(file.take_write_error(&file.error_cursor())), 0, "told before it was opened");
    fs.unmount().expect("a device that works again");
}

#[test]
fn what_was_reported_is_not_lost() {
    let (bed, fs) = mount("");
    let file = create(&fs, "file");
    fs.write(&file, 0, &[1; 50_000]).expect("into memory");
    fs.sync().expect("a good device");
    fs.write(&file, 4096, &[2; 8192]).expect("into memory");
    bed.faulty.add(writes_fail());
    assert_eq!(code(fs.fsync(&file, false)), EIO);
    assert_eq!(code(fs.fsync(&file, false)), EIO, "it fails again, so it is told again");
    let mut found = vec![0; 50_000];
    fs.read(&file, 0, &mut found).expect("in memory");
    assert_eq!((found[4095], found[4096], found[12_287], found[12_288]), (1, 2, 2, 1));
    // A crash now: the old contents are all there.
    let crashed = bed.faulty.inner().fork();
    let old = Bed::new(crashed, Ends::AtOnce);
    let again = old.mount("").expect("mounts");
    again.read(&find(&again, "file").expect("there"), 0, &mut found).expect("readable");
    assert_eq!(found, [1; 50_000]);
    bed.faulty.heal();
    fs.fsync(&file, false).expect("a device that works again");
    drop((file, fs));
    let device = bed.after_crash();
    fsck(&device, "after fsync");
    let after = Bed::new(device, Ends::AtOnce).mount("").expect("mounts");
    after.read(&find(&after, "file").expect("there"), 0, &mut found).expect("readable");
    assert_eq!((found[4096], found[12_287]), (2, 2));
}

/// Lets a checkpoint fail for good and returns what a change and a sync say then, while the device fails and after it
/// was repaired.
fn failed_checkpoint(options: &str) -> ([i32; 4], Arc<Bed>, Arc<Fs>) {
    let (bed, fs) = mount(options);
    let file = create(&fs, "file");
    fs.write(&file, 0, b"durable").expect("into memory");
    fs.sync().expect("a good device");
    create(&fs, "new");
    bed.faulty.add(writes_fail());
    assert_eq!(code(fs.sync()), EIO);
    let chmod = || fs.setattr(&file, &SetAttr { mode: Some(0o600), ..SetAttr::default() });
    let failing = [code(chmod()), code(fs.sync())];
    // Everything can be read, also what is only in memory.
    let mut found = [0; 7];
    fs.read(&file, 0, &mut found).expect("readable");
    assert_eq!(&found, b"durable");
    assert!(find(&fs, "new").is_ok());
    bed.faulty.heal();
    let repaired = [code(chmod()), code(fs.sync())];
    ([failing[0], failing[1], repaired[0], repaired[1]], bed, fs)
}

#[test]
fn errors_continue_tries_again() {
    let (codes, bed, fs) = failed_checkpoint("errors=continue");
    assert_eq!(codes, [0, EIO, 0, 0]);
    drop(fs);
    let again = Bed::new(bed.after_crash(), Ends::AtOnce).mount("").expect("mounts");
    assert_eq!(again.attr(&find(&again, "file").expect("there")).expect("readable").mode, 0o100_600);
    assert!(find(&again, "new").is_ok());
}

#[test]
fn errors_remount_ro_takes_no_more_changes() {
    let (codes, bed, fs) = failed_checkpoint("errors=remount-ro");
    assert_eq!(codes, [EROFS, EIO, EROFS, EIO]);
    assert!(fs.is_read_only());
    assert!(matches!(fs.unmount(), Err(Error::Stopped(_))), "what is lost is not lost silently");
    drop(fs);
    let device = bed.after_crash();
    fsck(&device, "after it stopped");
    let again = Bed::new(device, Ends::AtOnce).mount("").expect("mounts");
    assert!(find(&again, "file").is_ok() && find(&again, "new").is_err(), "the last good checkpoint");
}

#[test]
fn a_failed_flush_stops_the_volume_whatever_the_options_say() {
    let (bed, fs) = mount("errors=continue");
    let file = create(&fs, "file");
    // More than an inode has room for: what it points at is flushed before it.
    fs.write(&file, 0, &[b'x'; 8192]).expect("into memory");
    bed.faulty.add(Fault::fail(errno::EIO).on(OpKind::Flush).times(1));
    assert_eq!(code(fs.fsync(&file, false)), EIO);
    // The device claims to be well again, but what it dropped nobody knows.
    assert_eq!(code(fs.fsync(&file, false)), EIO);
    assert_eq!(code(fs.write(&file, 0, b"y")), EROFS);
    let mut found = [0];
    fs.read(&file, 0, &mut found).expect("readable");
    assert_eq!(&found, b"x");
    assert!(fs.unmount().is_err());
    drop((file, fs));
    fsck(&bed.after_crash(), "after a failed flush");
}
