//! Images for the tests of this crate: files as devices in memory.

use std::io::Read;
use std::path::Path;
use steadyfs_device::{Device, MemDevice, PageBuf};

/// The contents of a file as a device in memory. Blocks of zeros take no memory.
pub(crate) fn load(path: impl AsRef<Path>) -> MemDevice {
    let mut file = std::fs::File::open(path).expect("the image exists");
    let bytes = file.metadata().expect("the image has a size").len();
    let device = MemDevice::new(bytes / 4096);
    let mut buffer = vec![0; 1 << 20];
    let mut lba = 0;
    loop {
        let read = file.read(&mut buffer).expect("the image can be read");
        assert!(read.is_multiple_of(4096), "reads of a regular file end between blocks");
        if read == 0 {
            return device;
        }
        for block in buffer[..read].chunks_exact(4096) {
            if block != [0; 4096] {
                device.write(lba, vec![PageBuf::from_slice(block)]).expect("in range");
            }
            lba += 1;
        }
    }
}

/// A volume made by mkfs.f2fs, in memory.
pub(crate) fn mkfs(mib: u64, args: &[&str]) -> MemDevice {
    let dir = tempfile::tempdir().expect("a directory for the image");
    let path = dir.path().join("volume.img");
    steadyfs_testkit::mkfs_f2fs(&path, mib << 20, args).expect("mkfs.f2fs works");
    load(&path)
}
