//! A volume to test on.

use std::sync::Arc;
use steadyfs_core::mkfs::{MkfsOptions, format, parse_features};
use steadyfs_core::{Fs, MountOptions};
use steadyfs_device::MemDevice;

/// An empty volume in memory, with times of creation and project ids.
pub(crate) fn small() -> Arc<Fs> {
    Fs::mount(Arc::new(device()), MountOptions::default()).expect("mounts")
}

/// The same, not mounted.
pub(crate) fn device() -> MemDevice {
    let device = MemDevice::new(64 << 20 >> 12);
    let features = parse_features("extra_attr,inode_crtime,project_quota").expect("known features");
    format(&device, &MkfsOptions { features, ..MkfsOptions::new([7; 16], 1_700_000_000) }).expect("a volume");
    device
}
