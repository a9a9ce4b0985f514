//! The volume that unit tests of this room use: in memory, with a journal, and nothing happens by time.

use crate::mkfs::{self, MkfsOptions};
use crate::{Fs, MountOptions};
use std::sync::Arc;
use steadyfs_device::{Device, MemDevice};

/// A new volume and its mount.
pub(crate) fn journaled() -> (Arc<MemDevice>, Arc<Fs>) {
    let device = MemDevice::new(64 << 8);
    mkfs::format(&device, &MkfsOptions::new([7; 16], 1_700_000_000)).unwrap();
    let device = Arc::new(device);
    let options = MountOptions::parse("journal=single,background_gc=off,commit=0,journal.commit=0").unwrap();
    let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
    (device, fs)
}
