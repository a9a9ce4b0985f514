//! Damaged volumes: whatever bytes a volume holds, every operation ends, in a result or a typed error.

use crate::names::support::{DIR, FILE, Volume, new};
use proptest::prelude::*;
use std::sync::{Arc, LazyLock};
use steadyfs_core::{Fs, InodeRef, MountOptions, RenameFlags, SetAttr, XattrFlags};
use steadyfs_device::{Device, MemDevice};
use steadyfs_format::dir::FileType;

/// A volume with something of everything, and its blocks behind the metadata areas.
static SOUND: LazyLock<(MemDevice, Vec<u64>)> = LazyLock::new(|| {
    let v = Volume::new(64, &[], "");
    let root = v.fs.root().unwrap();
    let any = XattrFlags::default();
    for n in 0..4 {
        let dir = v.fs.create(&root, format!("dir {n}").as_bytes(), &new(DIR)).unwrap();
        for m in 0..[3, 120, 300, 900][n] {
            let file = v.fs.create(&dir, format!("file {m}").as_bytes(), &new(FILE)).unwrap();
            if m < 3 {
                v.fs.setxattr(&file, b"user.a", &vec![1; 100 * n], any).unwrap();
                v.fs.setxattr(&file, b"security.b", &vec![2; 1000 * n], any).unwrap();
                v.fs.symlink(&dir, format!("link {m}").as_bytes(), &vec![b't'; 10 + 1300 * n], &new(0)).unwrap();
                let sub = v.fs.create(&dir, format!("sub {m}").as_bytes(), &new(DIR)).unwrap();
                v.fs.create(&sub, b"leaf", &new(0o020_600)).unwrap();
            }
        }
    }
    v.fs.unmount().unwrap();
    let main = 4096; // first block of the main area of a volume of 64 MiB
    let blocks = v.dev.written_blocks().into_iter().filter(|lba| *lba >= main).collect();
    (v.dev.fork(), blocks)
});

/// Visits everything that can be reached in so many steps.
fn walk(fs: &Fs) {
    let mut todo = Vec::from_iter(fs.root());
    let mut left = 3000;
    while let Some(inode) = todo.pop() {
        look_at(fs, &inode);
        if inode.kind() != FileType::Dir {
            continue;
        }
        let mut names = Vec::new();
        let _ = fs.readdir(&inode, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            names.len() < 2000
        });
        for name in names {
            assert!(name == b"." || name == b".." || !name.contains(&b'/'));
            left -= 1;
            if left > 0 && name != b"." && name != b".." {
                todo.extend(fs.lookup(&inode, &name));
            }
        }
    }
}

fn look_at(fs: &Fs, inode: &InodeRef) {
    let _ = fs.attr(inode);
    let _ = fs.readlink(inode);
    for name in fs.listxattr(inode).unwrap_or_default() {
        let _ = fs.getxattr(inode, &name);
    }
}

/// Changes a bit of everything.
fn meddle(fs: &Fs) {
    let Ok(root) = fs.root() else { return };
    for n in 0..4 {
        let dir_name = format!("dir {n}").into_bytes();
        let Ok(dir) = fs.lookup(&root, &dir_name) else { continue };
        let _ = fs.create(&dir, &[b'l'; 255], &new(FILE));
        let _ = fs.create(&dir, b"new", &new(DIR));
        for m in 0..4 {
            let [file, link, sub] = ["file", "link", "sub"].map(|kind| format!("{kind} {m}").into_bytes());
            if let Ok(file) = fs.lookup(&dir, &file) {
                let _ = fs.setxattr(&file, b"user.c", &[3; 700], XattrFlags::default());
                let _ = fs.removexattr(&file, b"security.b");
                let _ = fs.setattr(&file, &SetAttr { mode: Some(0), ..SetAttr::default() });
            }
            let _ = fs.rename(&dir, &sub, &root, &sub, RenameFlags::Replace);
            let _ = fs.rename(&dir, &file, &dir, &link, RenameFlags::Exchange);
            let _ = fs.unlink(&dir, &file);
            let _ = fs.unlink(&dir, &link);
            let _ = fs.rmdir(&dir, &sub);
        }
        let _ = fs.rename(&root, &dir_name, &root, b"moved", RenameFlags::Replace);
    }
    let _ = fs.sync();
}

fn cases() -> ProptestConfig {
    let default = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_some() { default } else { ProptestConfig { cases: 60, ..default } }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn damage_is_survived(bytes in prop::collection::vec((any::<prop::sample::Index>(), 0usize..4096, any::<u8>()), 1..400)) {
        let (device, blocks) = &*SOUND;
        let device = device.fork();
        for (which, at, value) in bytes {
            let lba = *which.get(blocks);
            let mut page = device.read_one(lba).unwrap();
            page.make_mut()[at] = value;
            device.write(lba, vec![page]).unwrap();
        }
        let device: Arc<dyn Device> = Arc::new(device);
        let read_only = MountOptions { read_only: true, ..MountOptions::default() };
        if let Ok(fs) = Fs::mount(Arc::clone(&device), read_only) {
            walk(&fs);
        }
        if let Ok(fs) = Fs::mount(device, MountOptions::default()) {
            meddle(&fs);
            walk(&fs);
            let _ = fs.unmount();
        }
    }
}
