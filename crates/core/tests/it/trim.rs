//! Trimming a mounted volume: what was deleted counts at once, and nothing that is written meanwhile is lost.

use crate::common::{assert_sound, create, mount};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::mkfs::{self, MkfsOptions};
use steadyfs_core::{Fs, InodeRef};
use steadyfs_device::{Device, Fault, FaultyDevice, MemDevice, OpKind};

const MIB: u64 = 1 << 20;

/// A volume of 512 MiB, and its device.
fn volume() -> (Arc<FaultyDevice<MemDevice>>, Arc<Fs>) {
    let device = Arc::new(FaultyDevice::new(MemDevice::new(512 * MIB / 4096)));
    mkfs::format(&*device, &MkfsOptions::new([0x5f; 16], 1_700_000_000)).unwrap();
    let fs = mount(Arc::clone(&device) as Arc<dyn Device>, "commit=0");
    (device, fs)
}

/// Makes and fsyncs a file of 3 MiB that is full of `byte`.
fn write(fs: &Fs, byte: u8) -> InodeRef {
    let inode = create(fs, [b'f', byte]);
    for mib in 0..3 {
        assert_eq!(fs.write(&inode, mib * MIB, &[byte; MIB as usize]).unwrap(), MIB as usize);
    }
    fs.fsync(&inode, false).unwrap();
    inode
}

#[test]
fn what_was_deleted_a_moment_ago_counts() {
    let (_, fs) = volume();
    let all = fs.trim(0..u64::MAX, 0).unwrap();
    drop(write(&fs, 1));
    let less = fs.trim(0..u64::MAX, 0).unwrap();
    assert!(less < all, "{less} of {all}");
    fs.unlink(&fs.root().unwrap(), b"f\x01").unwrap();
    let again = fs.trim(0..u64::MAX, 0).unwrap();
    assert!(again >= less + 2 * MIB, "{again} after {less}");
}

/// The device takes its time for each discard, and files are written meanwhile.
#[test]
fn what_is_written_meanwhile_stays() {
    let (device, fs) = volume();
    device.add(Fault::delay(Duration::from_millis(100)).on(OpKind::Discard).times(u64::MAX));
    let trimmer = {
        let fs = Arc::clone(&fs);
        steadyfs_rt::spawn("trimmer", move || fs.trim(0..u64::MAX, 0).unwrap())
    };
    let files = (b'a'..=b'z').inspect(|byte| drop(write(&fs, *byte))).count();
    assert!(trimmer.join().unwrap() > 256 * MIB);
    fs.unmount().unwrap();
    drop(fs);
    assert_sound(Arc::new(device.inner().fork()), "trimmed");
    let fs = mount(Arc::new(device.inner().fork()), "");
    for byte in (b'a'..=b'z').take(files) {
        let inode = fs.lookup(&fs.root().unwrap(), &[b'f', byte]).unwrap();
        let mut bytes = vec![0; 3 * MIB as usize];
        assert_eq!(fs.read(&inode, 0, &mut bytes).unwrap(), bytes.len());
        assert!(bytes.iter().all(|found| *found == byte), "file {}", char::from(byte));
    }
}
