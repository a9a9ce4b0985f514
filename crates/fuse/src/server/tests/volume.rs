//! A volume to test on.

use std::sync::Arc;
use steadyfs_core::mkfs::{MkfsOptions, format, parse_features};
use steadyfs_core::{Fs, MountOptions};
use steadyfs_device::MemDevice;

/// An empty volume in memory, with times of creation and project ids.
pub(crate) fn small() -> Arc<Fs> {
    Fs::mount(Arc::new(device()), MountOptions::default()).expect("mounts")
}

/// As [`small`], of so many bytes.
pub(crate) fn sized(bytes: u64) -> Arc<Fs> {
    Fs::mount(Arc::new(device_of(bytes)), MountOptions::default()).expect("mounts")
}

/// As [`small`], not mounted.
pub(crate) fn device() -> MemDevice {
    device_of(64 << 20)
}

fn device_of(bytes: u64) -> MemDevice {
    let device = MemDevice::new(bytes >> 12);
    let features = parse_features("extra_attr,inode_crtime,project_quota").expect("known features");
    format(&device, &MkfsOptions { features, ..MkfsOptions::new([7; 16], 1_700_000_000) }).expect("a volume");
    device
}
