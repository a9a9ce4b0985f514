//! Orphans that cannot be deleted, or not even read when the volume is mounted: they are counted and kept, and tried
//! again, by this mount or one that can.

use crate::common::create;
use crate::faults::bed::{Bed, Ends, fresh, fsck};
use std::sync::Arc;
use steadyfs_core::OrphanStats;
use steadyfs_core::raw::Image;
use steadyfs_device::{Device, Fault, MemDevice, OpKind, errno};
use steadyfs_format::block::BlockView;
use steadyfs_format::inode::Inode;
use steadyfs_format::{Ino, Lba};

fn open(device: &MemDevice) -> Image {
    Image::open(Arc::new(device.fork()) as Arc<dyn Device>).expect("a volume")
}

/// A volume that was unmounted while a file without a name was open; the file has a node of its own for its last page.
/// (After a crash a mount reads the segments of its node logs anyway.)
fn left() -> (MemDevice, Ino) {
    let bed = Bed::new(fresh(), Ends::AtOnce);
    let fs = bed.mount("").expect("mounts");
    let root = fs.root().expect("a root");
    let file = create(&fs, "file");
    fs.write(&file, 0, &[1; 8192]).expect("room");
    fs.write(&file, 1500 * 4096, &[2; 8192]).expect("room");
    fs.sync().expect("a good device");
    fs.unlink(&root, b"file").expect("there");
    fs.unmount().expect("a good device");
    let device = bed.after_crash();
    (device, file.ino())
}

/// The blocks of the inode and of the node below it.
fn places(device: &MemDevice, ino: Ino) -> [Lba; 2] {
    let image = open(device);
    let lba = image.nat(ino.nid()).expect("in the NAT").lba;
    let page = image.read_block(lba).expect("in memory");
    let children = page.with(|block| Inode::view(block).children());
    let child = children.into_iter().find(|nid| !nid.is_null()).expect("a node below");
    [lba, image.nat(child).expect("in the NAT").lba]
}

#[test]
fn what_cannot_be_read_stays_an_orphan() {
    let (device, ino) = left();
    assert_eq!(open(&device).orphans().expect("readable"), [ino]);
    for place in places(&device, ino) {
        let bed = Bed::new(device.fork(), Ends::AtOnce);
        bed.faulty.add(Fault::fail(errno::EIO).on(OpKind::Read).in_blocks(place.get()..place.get() + 1));
        let fs = bed.mount("").expect("one bad block is no reason not to mount");
        assert_eq!(fs.orphan_stats(), OrphanStats { listed: 1, kept: 1 }, "block {place}");
        // Work goes on, and checkpoints list it.
        let root = fs.root().expect("a root");
        create(&fs, "later");
        fs.sync().expect("writes work");
        assert_eq!(open(bed.faulty.inner()).orphans().expect("readable"), [ino]);
        fs.unmount().expect("writes work");
        drop((root, fs));
        bed.faulty.heal();
        let after = bed.after_crash();
        assert_eq!(open(&after).orphans().expect("readable"), [ino], "block {place}");
        fsck(&after, "with the orphan");

        let bed = Bed::new(after, Ends::AtOnce);
        let fs = bed.mount("").expect("mounts");
        assert_eq!(fs.orphan_stats(), OrphanStats::default());
        fs.unmount().expect("a good device");
        drop(fs);
        let after = bed.after_crash();
        assert_eq!(open(&after).orphans().expect("readable"), []);
        assert!(open(&after).nat(ino.nid()).expect("in the NAT").is_free());
        fsck(&after, "without the orphan");
    }
}

/// Who tries a deletion again that has failed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Again {
    Sync,
    Timer,
    Unmount,
}

#[test]
fn a_deletion_that_failed_is_tried_again() {
    for again in [Again::Sync, Again::Timer, Again::Unmount] {
        let bed = Bed::new(fresh(), Ends::AtOnce);
        let fs = bed.mount("").expect("mounts");
        let root = fs.root().expect("a root");
        let file = create(&fs, "file");
        let ino = file.ino();
        fs.write(&file, 0, &[1; 8192]).expect("room");
        fs.write(&file, 1500 * 4096, &[2; 8192]).expect("room");
        drop(file);
        fs.unmount().expect("a good device");
        drop((root, fs));
        let device = bed.after_crash();
        let [_, child] = places(&device, ino);

        let bed = Bed::new(device, Ends::AtOnce);
        let fs = bed.mount(if again == Again::Timer { "commit=1" } else { "" }).expect("mounts");
        let root = fs.root().expect("a root");
        let free = fs.statfs().blocks_free;
        bed.faulty.add(Fault::fail(errno::EIO).on(OpKind::Read).in_blocks(child.get()..child.get() + 1));
        fs.unlink(&root, b"file").expect("the name can go");
        fs.sync().expect("writes work");
        let stats = fs.orphan_stats();
        assert_eq!(stats.listed, 1, "{again:?}");
        // The timer may be trying at this moment.
        assert!(stats.kept == 1 || again == Again::Timer, "{again:?}");
        assert!(fs.inode(ino).is_err(), "nobody gets what is half gone");
        bed.faulty.heal();
        match again {
            Again::Sync => fs.sync().expect("a good device"),
            Again::Timer => {
                let gone = || fs.orphan_stats().listed == 0;
                assert!((0..300).any(|_| gone() || {
                    steadyfs_rt::sleep(std::time::Duration::from_millis(50));
                    false
                }));
            }
            Again::Unmount => {}
        }
        fs.unmount().expect("a good device");
        // Two pages, one more with a node, and the inode.
        assert_eq!((fs.orphan_stats(), fs.statfs().blocks_free), (OrphanStats::default(), free + 6), "{again:?}");
        drop((root, fs));
        let after = bed.after_crash();
        assert_eq!(open(&after).orphans().expect("readable"), []);
        assert!(open(&after).nat(ino.nid()).expect("in the NAT").is_free());
        fsck(&after, "after the second attempt");
    }
}

#[test]
fn an_orphan_that_could_not_be_read_is_tried_again() {
    let (device, ino) = left();
    let [place, _] = places(&device, ino);
    let bed = Bed::new(device, Ends::AtOnce);
    bed.faulty.add(Fault::fail(errno::EIO).on(OpKind::Read).in_blocks(place.get()..place.get() + 1));
    let fs = bed.mount("").expect("one bad block is no reason not to mount");
    fs.sync().expect("writes work");
    assert_eq!(fs.orphan_stats(), OrphanStats { listed: 1, kept: 1 });
    bed.faulty.heal();
    fs.sync().expect("a good device");
    assert_eq!(fs.orphan_stats(), OrphanStats::default());
    fs.unmount().expect("a good device");
    drop(fs);
    let after = bed.after_crash();
    assert!(open(&after).nat(ino.nid()).expect("in the NAT").is_free());
    fsck(&after, "without the orphan");
}
