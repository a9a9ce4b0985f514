//! Mounting volumes that mkfs.f2fs made: what a mount and an unmount leave behind is what fsck.f2fs accepts.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_core::fsck::{CheckOptions, check};
use steadyfs_core::mkfs::{MkfsOptions, format};
use steadyfs_core::raw::Image;
use steadyfs_core::{Fs, MountOptions, NewInode};
use steadyfs_device::{Device, DeviceInfo, FileDevice, IoError, MemDevice, Op, OpenOptions, PageBuf, Request};
use steadyfs_testkit::{fsck_f2fs, mkfs_f2fs};

fn mount(path: &Path, options: &str) -> Arc<Fs> {
    let dev = FileDevice::open(path, OpenOptions::default()).unwrap();
    Fs::mount(Arc::new(dev), MountOptions::parse(options).unwrap()).unwrap()
}

const LAYOUTS: &[(u64, &[&str])] = &[
    (64, &[]),
    (300, &["-O", "extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr,lost_found"]),
    (256, &["-s", "4"]),
    (512, &["-s", "2", "-z", "3"]),
    (128, &["-i"]),
];

#[test]
fn empty_volumes_survive_mounts_and_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    for (i, &(mib, args)) in LAYOUTS.iter().enumerate() {
        let path = dir.path().join(format!("{i}.img"));
        mkfs_f2fs(&path, mib << 20, args).unwrap();
        let fs = mount(&path, "");
        let free = fs.statfs().blocks_free;
        for _ in 0..5 {
            fs.sync().unwrap();
        }
        assert_eq!(fs.statfs().blocks_free, free);
        fs.unmount().unwrap();
        drop(fs);
        fsck_f2fs(&path).unwrap_or_else(|e| panic!("{mib} MiB {args:?}: {e}"));
        let again = mount(&path, "");
        assert_eq!(again.statfs().blocks_free, free);
        assert_eq!(again.root().unwrap().ino(), steadyfs_format::ROOT_INO);
        // No unmount: what the mount's own checkpoint left must be a whole volume.
        drop(again);
        fsck_f2fs(&path).unwrap_or_else(|e| panic!("{mib} MiB {args:?}, not unmounted: {e}"));
    }
}

#[test]
fn a_read_only_mount_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ro.img");
    mkfs_f2fs(&path, 64 << 20, &["-f"]).unwrap();
    let before = std::fs::read(&path).unwrap();
    let fs = mount(&path, "ro");
    fs.sync().unwrap();
    fs.unmount().unwrap();
    drop(fs);
    assert!(std::fs::read(&path).unwrap() == before);
}

/// Counts blocks that are read and written. Tells what it holds, or does not, as a block device of the system.
struct Counting {
    inner: Arc<MemDevice>,
    tells: bool,
    read: AtomicU64,
    written: AtomicU64,
}

impl Counting {
    fn new(inner: &Arc<MemDevice>, tells: bool) -> Arc<Self> {
        Arc::new(Counting { inner: Arc::clone(inner), tells, read: AtomicU64::new(0), written: AtomicU64::new(0) })
    }
}

impl Device for Counting {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in &batch {
            match &request.op {
                Op::Read { count, .. } => drop(self.read.fetch_add(*count, SeqCst)),
                Op::Write { pages, .. } => drop(self.written.fetch_add(pages.len() as u64, SeqCst)),
                _ => {}
            }
        }
        self.inner.submit(batch);
    }

    fn held_from(&self, block: u64) -> Result<Option<Range<u64>>, IoError> {
        if self.tells {
            return self.inner.held_from(block);
        }
        Err(IoError::from_errno(steadyfs_device::OpKind::Held, block, 0, 95))
    }
}

/// A table of segments takes 42 MiB for each TiB; of a volume that holds little it is one hole, which nobody writes and
/// nobody reads. What was there before is not taken for the table.
#[test]
fn the_tables_of_a_large_volume_are_written_and_read_as_far_as_there_is_something() {
    const TIB: u64 = 1 << 28;
    let sit_blocks = TIB / 512 / 55;
    let found = [true, false].map(|tells| {
        let memory = Arc::new(MemDevice::new(TIB));
        let options = MkfsOptions { discard: false, ..MkfsOptions::new([7; 16], 1_700_000_000) };
        let scratch = Arc::new(MemDevice::new(TIB));
        format(&*scratch, &options).unwrap();
        let sit = Image::open(scratch).unwrap().layout().sit;
        // Of a volume that was there before.
        for block in [0, 300, 5000] {
            memory.write(sit.get() + block, vec![PageBuf::from_slice(&[0xa5; 4096]); 3]).unwrap();
        }
        let device = Counting::new(&memory, tells);
        format(&*device, &options).unwrap();
        let written = device.written.load(SeqCst);
        assert_eq!(written < sit_blocks, tells, "{written} blocks written");
        for _ in 0..2 {
            let device = Counting::new(&memory, tells);
            let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, MountOptions::default()).unwrap();
            let read = device.read.load(SeqCst);
            assert_eq!(read < sit_blocks / 4, tells, "{read} blocks read");
            let root = fs.root().unwrap();
            let file = fs.create(&root, b"file", &NewInode { mode: 0o100_644, ..NewInode::default() });
            let file = file.or_else(|_| fs.lookup(&root, b"file")).unwrap();
            fs.write(&file, 0, &vec![7; 3 << 20]).unwrap();
            drop((root, file));
            fs.unmount().unwrap();
        }
        let report = check(Arc::clone(&memory) as Arc<dyn Device>, &CheckOptions::default()).unwrap();
        assert!(report.issues.is_empty(), "{:?}", report.issues);
        memory.written_blocks().len()
    });
    assert!(found[0] == found[1], "the volume holds the same: {found:?}");
}
