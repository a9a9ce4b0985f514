//! Mounting bad volumes: read-only and reading everything, and read-write with some operations. Input: the number of a
//! base, then changes, a zero, and the operations.

use super::{VOLUME_MEMORY, Volume, image, operations, seeds};
use crate::Target;
use crate::input::Input;
use std::sync::Arc;
use steadyfs_core::{Fs, InodeRef, MountOptions, Whence};
use steadyfs_device::Device;
use steadyfs_format::dir::FileType;

/// The read-only target.
pub const READ: Target = Target { name: "mount_read", run: run_read, seeds, volume: true, memory: VOLUME_MEMORY };
/// The read-write target.
pub const WRITE: Target = Target { name: "mount_write", run: run_write, seeds, volume: true, memory: VOLUME_MEMORY };

/// Most inodes that a walk visits: in a bad volume directories may lead anywhere.
const MOST_INODES: usize = 300;

/// Mounts a volume; a sound one can be mounted.
pub(crate) fn mount(volume: &Volume, read_only: bool) -> Option<Arc<Fs>> {
    let device: Arc<dyn Device> = volume.device.clone();
    let options = MountOptions {
        read_only,
        background_gc: false,
        commit_seconds: Some(0),
        cache_bytes: 4 << 20,
        ..MountOptions::default()
    };
    let mounted = Fs::mount(device, options);
    assert!(!volume.changed.is_empty() || mounted.is_ok(), "a sound volume: {:?}", mounted.err());
    mounted.ok()
}

fn run_read(bytes: &[u8]) {
    let volume = Volume::read(&mut Input::new(bytes));
    let Some(fs) = mount(&volume, true) else { return };
    let _ = fs.statfs();
    // By number what was changed, whether a name leads there or not; by name everything.
    for inode in volume.owners().filter_map(|ino| fs.inode(ino).ok()) {
        read_inode(&fs, &inode);
    }
    let mut todo: Vec<_> = fs.root().into_iter().collect();
    let mut seen = 0;
    while let Some(inode) = todo.pop() {
        read_inode(&fs, &inode);
        seen += 1;
        if inode.kind() == FileType::Dir && seen + todo.len() < MOST_INODES {
            todo.extend(children(&fs, &inode));
        }
    }
    assert!(!volume.changed.is_empty() || seen > 4, "a sound tree has names");
    let _ = fs.unmount();
}

/// The inodes that a directory names, looked up one by one.
fn children(fs: &Fs, dir: &InodeRef) -> Vec<InodeRef> {
    let mut names = Vec::new();
    let _ = fs.readdir(dir, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        names.len() < MOST_INODES
    });
    assert!(names.iter().all(|name| !name.is_empty() && !name.contains(&b'/') && !name.contains(&0)));
    let _ = fs.lookup(dir, b"..");
    names.iter().filter(|name| !name.starts_with(b".")).filter_map(|name| fs.lookup(dir, name).ok()).collect()
}

/// Reads attributes and some contents of an inode.
pub(crate) fn read_inode(fs: &Fs, inode: &InodeRef) {
    let _ = fs.readlink(inode);
    for name in fs.listxattr(inode).unwrap_or_default() {
        let _ = fs.getxattr(inode, &name);
    }
    let Ok(attr) = fs.attr(inode) else { return };
    if inode.kind() == FileType::Dir {
        let _ = fs.readdir(inode, attr.size / 40, &mut |_| true);
    }
    let mut buffer = [0; 5000];
    for offset in [0, attr.size / 2, attr.size.saturating_sub(1)] {
        let _ = fs.read(inode, offset, &mut buffer);
    }
    let mut offset = 0;
    for _ in 0..16 {
        let Ok(data) = fs.seek(inode, offset, Whence::Data) else { break };
        let _ = fs.read_direct(inode, data, &mut buffer);
        let Ok(hole) = fs.seek(inode, data, Whence::Hole) else { break };
        assert!(data >= offset && hole > data, "seeking goes forward");
        offset = hole;
    }
}

fn run_write(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let volume = Volume::read_writable(&mut input);
    let Some(fs) = mount(&volume, false) else { return };
    operations::perform(&fs, &volume, &mut input);
    if fs.unmount().is_ok() {
        image::expect_readable(volume.device);
    }
}
