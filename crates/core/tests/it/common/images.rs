//! Images as devices in memory.

use rustix::fs::{SeekFrom, seek};
use std::os::unix::fs::FileExt;
use std::path::Path;
use steadyfs_device::{Device, MemDevice, PageBuf, is_zero};

/// The contents of a file as a device in memory. Blocks of zeros take no memory, and holes are not read.
pub(crate) fn load(path: impl AsRef<Path>) -> MemDevice {
    let file = std::fs::File::open(path).expect("the image exists");
    let bytes = file.metadata().expect("the image has a size").len();
    let device = MemDevice::new(bytes / 4096);
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while let Ok(data) = seek(&file, SeekFrom::Data(at)) {
        at = data / 4096 * 4096;
        let end = seek(&file, SeekFrom::Hole(at)).expect("data ends").next_multiple_of(4096).min(bytes);
        while at < end {
            let length = buffer.len().min((end - at) as usize);
            file.read_exact_at(&mut buffer[..length], at).expect("the image can be read");
            for (lba, block) in (at / 4096..).zip(buffer[..length].chunks_exact(4096)) {
                if !is_zero(block) {
                    device.write(lba, vec![PageBuf::from_slice(block)]).expect("in range");
                }
            }
            at += length as u64;
        }
    }
    device
}

/// A volume made by mkfs.f2fs, in memory.
pub(crate) fn mkfs(mib: u64, args: &[&str]) -> MemDevice {
    let dir = tempfile::tempdir().expect("a directory for the image");
    let path = dir.path().join("volume.img");
    steadyfs_testkit::mkfs_f2fs(&path, mib << 20, args).expect("mkfs.f2fs works");
    load(&path)
}
