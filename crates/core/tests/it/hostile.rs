//! Images that only an enemy makes: each was once a panic or worse.

use crate::common::{change, create, image};
use std::sync::Arc;
use steadyfs_core::mkfs::{MkfsOptions, format};
use steadyfs_core::raw::Image;
use steadyfs_core::{Error, Fs, InodeRef, MountOptions, NewInode, RenameFlags};
use steadyfs_device::{Device, MemDevice, PageBuf};
use steadyfs_format::block::BlockView;
use steadyfs_format::checkpoint::{CheckpointHeader, LogPosition};
use steadyfs_format::dir::{Dentries, DentriesMut, FileType, name_hash};
use steadyfs_format::inode::Inode;
use steadyfs_format::node::{DirectNode, NodeBlock, NodeOfs};
use steadyfs_format::sit::{SitBlock, SitEntry};
use steadyfs_format::summary::SummaryBlock;
use steadyfs_format::{Features, Ino, Log, Nid, ROOT_INO, SegNo, Slot};

/// A volume of 64 MiB with a file, sparse enough to have a direct node, unmounted.
fn sound() -> (Arc<MemDevice>, Ino) {
    let device = Arc::new(MemDevice::new(16 * 1024));
    format(&*device, &MkfsOptions::new([7; 16], 0)).unwrap();
    let fs = mount(&device, "").unwrap();
    let file = create(&fs, b"file");
    fs.write(&file, 0, &[1; 10_000]).unwrap();
    fs.write(&file, 1000 * 4096, &[2; 4096]).unwrap();
    fs.unmount().unwrap();
    (device, file.ino())
}

fn mount(device: &Arc<MemDevice>, options: &str) -> Result<Arc<Fs>, Error> {
    Fs::mount(Arc::clone(device) as Arc<dyn Device>, MountOptions::parse(options).unwrap())
}

/// Changes the header of the pack in force, at both ends of the pack.
fn change_header(device: &Arc<MemDevice>, f: impl FnOnce(&mut CheckpointHeader)) {
    let image = image(device.clone());
    let start = image.layout().pack(image.pack()).get();
    let last = start + u64::from(image.checkpoint().pack_map().last);
    change(device, start, |block| {
        let header = CheckpointHeader::view_mut(block);
        f(header);
        header.seal();
    });
    let header = device.read_one(start).unwrap();
    device.write(last, vec![header]).unwrap();
}

fn node_lba(device: &Arc<MemDevice>, nid: Nid) -> u64 {
    image(device.clone()).nat(nid).unwrap().lba.get()
}

fn assert_damaged<T>(result: Result<T, Error>, part: &str) {
    match result {
        Err(error) if matches!(error.cause(), Error::Corrupt(_) | Error::Format(_)) => {
            assert!(error.to_string().contains(part), "{error}");
        }
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("no error"),
    }
}

#[test]
fn counters_at_the_end_of_their_range_do_not_overflow() {
    let (device, ino) = sound();
    // The statistic in the hot-node summary, behind three summaries of data.
    let image_ = image(device.clone());
    let map = image_.checkpoint().pack_map();
    assert!(!map.node_summaries.is_empty());
    let hot_node = image_.layout().pack(image_.pack()).get() + u64::from(map.node_summaries.start);
    change(&device, hot_node, |block| {
        SummaryBlock::view_mut(block).journal = steadyfs_format::journal::Journal::from_kbytes_written(u64::MAX);
    });
    change_header(&device, |header| {
        header.set_version(u64::MAX);
        header.set_elapsed_time(u64::MAX);
    });
    // The other pack has a smaller number, so it would be the newer one.
    let other = image_.layout().pack(image_.pack().other()).get();
    (other..other + 511).for_each(|block| change(&device, block, |block| block.fill(0)));
    let fs = mount(&device, "").unwrap();
    let file = fs.inode(ino).unwrap();
    for _ in 0..3 {
        fs.write(&file, 0, &[3; 4096]).unwrap();
        fs.sync().unwrap();
        fs.gc(2, steadyfs_core::Urgency::Background).unwrap();
    }
    fs.unmount().unwrap();
    let header = image(device.clone());
    assert!(header.checkpoint().header().version() < 100, "versions go on from 0");
    assert_eq!(header.checkpoint().header().elapsed_time(), u64::MAX);
    mount(&device, "").unwrap().unmount().unwrap();
}

#[test]
fn a_volume_that_counts_less_than_its_segments_is_not_changed() {
    for damage in [
        |header: &mut CheckpointHeader| header.set_valid_blocks(3),
        |header: &mut CheckpointHeader| header.set_valid_nodes(header.valid_nodes() - 1),
    ] {
        let (device, ino) = sound();
        change_header(&device, damage);
        assert_damaged(mount(&device, ""), "the segments hold");
        let fs = mount(&device, "ro").unwrap();
        assert_eq!(fs.read(&fs.inode(ino).unwrap(), 0, &mut [0; 4096]).unwrap(), 4096);
    }
}

#[test]
fn giving_back_slots_that_were_never_counted_makes_no_checkpoint() {
    let (device, ino) = sound();
    let version = image(device.clone()).checkpoint().header().version();
    let lba = node_lba(&device, ino.nid());
    change(&device, lba, |block| {
        let shape = Inode::view(block).shape(Features::NONE).unwrap();
        for slot in 100..800 {
            Inode::view_mut(block).set_slot(shape, slot, Slot::New);
        }
        Inode::view_mut(block).set_blocks(10_000);
    });
    let fs = mount(&device, "").unwrap();
    fs.unlink(&fs.root().unwrap(), b"file").unwrap();
    assert_damaged(fs.sync(), "gave back more blocks");
    assert!(matches!(fs.sync(), Err(Error::Stopped(_))), "the volume has stopped");
    drop(fs);
    // What the mount itself committed is the last checkpoint.
    assert_eq!(image(device.clone()).checkpoint().header().version(), version + 1);
}

#[test]
fn a_node_at_an_impossible_place_is_refused() {
    let (device, ino) = sound();
    let mut direct = Nid(0);
    device.read_one(node_lba(&device, ino.nid())).unwrap().with(|block| direct = Inode::view(block).child(0));
    assert!(!direct.is_null());
    {
        let fs = mount(&device, "ro").unwrap();
        // A part of a file is no inode, whatever its bytes say.
        assert_damaged(fs.inode(direct.as_ino()), "is not an inode");
        assert_eq!(fs.read(&fs.inode(ino).unwrap(), 1000 * 4096, &mut [0; 4096]).unwrap(), 4096);
    }
    change(&device, node_lba(&device, direct), |block| NodeBlock::view_mut(block).footer.set_ofs(NodeOfs::INODE));
    let fs = mount(&device, "ro").unwrap();
    assert_damaged(fs.read(&fs.inode(ino).unwrap(), 1000 * 4096, &mut [0; 4096]), "its place in the file");
}

#[test]
fn an_address_outside_the_main_area_stops_the_volume_in_the_middle_of_a_change() {
    let (device, ino) = sound();
    let mut direct = Nid(0);
    device.read_one(node_lba(&device, ino.nid())).unwrap().with(|block| direct = Inode::view(block).child(0));
    change(&device, node_lba(&device, direct), |block| {
        DirectNode::view_mut(block).set_slot(500, Slot::At(steadyfs_format::Lba(77)));
    });
    let fs = mount(&device, "").unwrap();
    fs.unlink(&fs.root().unwrap(), b"file").unwrap();
    assert!(fs.is_read_only(), "half of the file is gone and cannot be brought back");
    assert!(matches!(fs.unmount(), Err(Error::Stopped(_))));
    drop(fs);
    image(device.clone());
}

/// Fills every free segment with blocks that nobody owns, and counts them.
fn leave_no_free_segment(device: &Arc<MemDevice>) {
    let opened = image(device.clone());
    let current = Log::ALL.map(|log| opened.log_position(log).segment);
    let mut added = 0;
    for (number, entry) in opened.load_sit().unwrap().into_iter().enumerate() {
        let segment = SegNo(number as u32);
        if entry.valid_blocks() == 0 && !current.contains(&segment) {
            let (block, index) = opened.layout().sit_place(segment);
            change(device, opened.sit_lba(block).get(), |bytes| {
                SitBlock::view_mut(bytes).set(index, SitEntry::new(Log::WarmData, [0xFF; 64], 0));
            });
            added += 512;
        }
    }
    change_header(device, |header| {
        header.set_user_blocks(opened.layout().main_blocks() - 1);
        header.set_valid_blocks(header.valid_blocks() + added);
    });
}

#[test]
fn a_full_log_without_a_free_segment_makes_no_unreadable_checkpoint() {
    let (device, ino) = sound();
    let fs = mount(&device, "").unwrap();
    let file = fs.inode(ino).unwrap();
    fs.write(&file, 0, &vec![5; 700 * 4096]).unwrap();
    fs.fsync(&file, false).unwrap();
    fs.fallocate(&file, steadyfs_core::FallocMode::PunchHole, 0, 100 * 4096).unwrap();
    // The log that takes what is moved is nearly at the end of its segment.
    let cold = create(&fs, b"film.mp4");
    fs.write(&cold, 0, &vec![6; 450 * 4096]).unwrap();
    drop((file, cold));
    fs.unmount().unwrap();
    drop(fs);
    let position = image(device.clone()).log_position(Log::ColdData);
    assert!((400..512).contains(&position.next), "{position:?}");
    leave_no_free_segment(&device);
    let fs = mount(&device, "").unwrap();
    let moved = fs.gc(1, steadyfs_core::Urgency::Foreground);
    assert!(matches!(moved, Err(Error::NoSpace)), "the log had room for what was to be moved: {moved:?}");
    assert!(matches!(fs.unmount(), Err(Error::NoSpace)), "a checkpoint of a log behind its segment");
    drop(fs);
    assert!(image(device.clone()).load_sit().is_ok());
    mount(&device, "ro").unwrap();
}

#[test]
fn logs_that_a_read_only_volume_has_not_may_stand_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ro.img");
    steadyfs_testkit::mkfs_f2fs(&path, 64 << 20, &["-O", "ro"]).unwrap();
    let device = Arc::new(MemDevice::new(16 * 1024));
    for (lba, block) in (0..).zip(std::fs::read(&path).unwrap().chunks(4096)) {
        device.write(lba, vec![PageBuf::from_slice(block)]).unwrap();
    }
    change_header(&device, |header| {
        for log in [Log::WarmData, Log::ColdData, Log::WarmNode, Log::ColdNode] {
            let position = header.log(log);
            header.set_log(log, LogPosition { segment: SegNo(u32::MAX), ..position });
        }
    });
    let fs = mount(&device, "ro").unwrap();
    assert!(fs.readdir(&fs.root().unwrap(), 0, &mut |_| true).is_ok());
    assert!(mount(&device, "").is_err());
}

/// Makes the count of a segment's valid blocks contradict its map, in the SIT.
fn damage_sit(device: &MemDevice) {
    let image = Image::open(Arc::new(device.fork())).unwrap();
    let in_table = |seg: &SegNo| image.sit_journal().iter().all(|(other, _)| other != seg);
    let (block, index) = image.layout().sit_place(image.layout().segments().find(in_table).unwrap());
    let lba = image.sit_lba(block).get();
    drop(image);
    change(device, lba, |bytes| {
        bytes[index * size_of::<SitEntry>()] ^= 1;
    });
}

#[test]
fn reading_needs_no_segment_information() {
    let (device, file) = sound();
    damage_sit(&device);
    let refused = mount(&device, "").err().expect("changes need it");
    assert!(matches!(refused.cause(), Error::Format(_) | Error::Corrupt(_)), "{refused}");
    let fs = mount(&device, "ro").unwrap();
    let found = fs.lookup(&fs.root().unwrap(), b"file").unwrap();
    assert_eq!(found.ino(), file);
    let mut bytes = [0; 8192];
    assert_eq!(fs.read(&found, 0, &mut bytes).unwrap(), 8192);
    assert_eq!(bytes, [1; 8192]);
    let mut bytes = [0; 4096];
    assert_eq!((fs.read(&found, 1000 * 4096, &mut bytes).unwrap(), bytes), (4096, [2; 4096]));
}

#[test]
fn what_was_fsynced_is_not_shown_where_recovery_lacks_segment_information() {
    let (device, _) = sound();
    let fs = mount(&device, "").unwrap();
    let new = create(&fs, b"new");
    fs.write(&new, 0, b"x").unwrap();
    fs.fsync(&new, false).unwrap();
    let crashed = Arc::new(device.fork());
    drop(fs);
    let names = |fs: &Fs| fs.lookup(&fs.root().unwrap(), b"new").is_ok();
    assert!(names(&mount(&crashed, "ro").unwrap()), "it is recovered in memory");
    damage_sit(&crashed);
    assert!(!names(&mount(&crashed, "ro").unwrap()), "the last checkpoint");
}

#[test]
fn a_directory_below_itself_is_not_changed() {
    let (device, _) = sound();
    let fs = mount(&device, "").unwrap();
    let dir = |parent: &InodeRef, name: &[u8]| {
        fs.create(parent, name, &NewInode { mode: 0o040_755, ..NewInode::default() }).unwrap()
    };
    let above = dir(&fs.root().unwrap(), b"above");
    let below = dir(&above, b"below");
    let [above, below] = [above, below].map(|dir| dir.ino());
    fs.unmount().unwrap();
    drop(fs);
    // Two threads that remove or rename what is in each of the two would wait for each other.
    change(&device, node_lba(&device, above.nid()), |block| Inode::view_mut(block).set_pino(below));
    let fs = mount(&device, "").unwrap();
    let root = fs.root().unwrap();
    let above = fs.lookup(&root, b"above").unwrap();
    assert_damaged(fs.rmdir(&above, b"below"), "below itself");
    assert_damaged(fs.rename(&above, b"below", &above, b"x", RenameFlags::Replace), "below itself");
    assert_damaged(fs.rmdir(&root, b"above"), "whose parent is");
    fs.unmount().unwrap();
}

#[test]
fn an_inode_with_more_names_than_links_loses_them_one_by_one() {
    let (device, ino) = sound();
    let fs = mount(&device, "").unwrap();
    let root = fs.root().unwrap();
    for name in [b"a", b"b", b"c"] {
        fs.link(&fs.inode(ino).unwrap(), &root, name).unwrap();
    }
    fs.unmount().unwrap();
    drop((root, fs));
    change(&device, node_lba(&device, ino.nid()), |block| Inode::view_mut(block).set_links(1));
    for hold in [true, false] {
        let device = Arc::new(device.fork());
        let fs = mount(&device, "").unwrap();
        let root = fs.root().unwrap();
        let held = hold.then(|| fs.inode(ino).unwrap());
        fs.unlink(&root, b"a").unwrap();
        // The inode is on its way out, or gone; its other names lead to damage or go too, and nothing goes twice.
        let _ = (fs.unlink(&root, b"b"), fs.sync(), fs.link(&root, &root, b"d"));
        let _ = fs.lookup(&root, b"c").and_then(|file| fs.link(&file, &root, b"e"));
        drop(held);
        let _ = (fs.reap(), fs.unlink(&root, b"c"), fs.sync(), fs.unmount());
        drop((root, fs));
        image(device.clone());
    }
}

/// Makes a directory; its entries are in a block if the mount keeps none inline.
fn make_dir(fs: &Fs, parent: &InodeRef, name: &[u8]) -> InodeRef {
    fs.create(parent, name, &NewInode { mode: 0o040_755, ..NewInode::default() }).unwrap()
}

/// Changes the first block of entries of a directory that has them in blocks; `f` gets the slot of `name`, too.
fn change_entry(device: &Arc<MemDevice>, dir: Ino, name: &[u8], f: impl FnOnce(&mut DentriesMut<'_>, u16)) {
    let mut at = Slot::Hole;
    device.read_one(node_lba(device, dir.nid())).unwrap().with(|block| {
        let inode = Inode::view(block);
        at = inode.slot(inode.shape(Features::NONE).unwrap(), 0);
    });
    let Slot::At(lba) = at else { panic!("directory {dir} has its entries elsewhere: {at:?}") };
    change(device, lba.get(), |block| {
        let slot = Dentries::block(block).find(name_hash(name), name).unwrap().slot;
        f(&mut DentriesMut::block(block), slot);
    });
}

#[test]
fn a_directory_with_two_names_is_removed_once() {
    let (device, _) = sound();
    let fs = mount(&device, "").unwrap();
    let one = make_dir(&fs, &fs.root().unwrap(), b"one").ino();
    make_dir(&fs, &fs.root().unwrap(), b"two");
    fs.unmount().unwrap();
    drop(fs);
    change_entry(&device, ROOT_INO, b"two", |entries, slot| assert!(entries.set_target(slot, one, FileType::Dir)));
    for hold in [true, false] {
        let device = Arc::new(device.fork());
        let fs = mount(&device, "").unwrap();
        let root = fs.root().unwrap();
        let held = hold.then(|| fs.inode(one).unwrap());
        fs.rmdir(&root, b"one").unwrap();
        let why = if hold { "no links left" } else { "does not exist" };
        assert_damaged(fs.rmdir(&root, b"two"), why);
        assert_damaged(fs.rename(&root, b"two", &root, b"three", RenameFlags::Replace), why);
        make_dir(&fs, &root, b"four");
        assert_damaged(fs.rename(&root, b"four", &root, b"two", RenameFlags::Replace), why);
        drop(held);
        fs.sync().unwrap();
        fs.unmount().unwrap();
        drop((root, fs));
        let fs = mount(&device, "").unwrap();
        fs.lookup(&fs.root().unwrap(), b"four").unwrap();
    }
}

#[test]
fn a_file_with_more_names_than_links_is_replaced_once() {
    let (device, ino) = sound();
    let fs = mount(&device, "").unwrap();
    let (root, dir) = (fs.root().unwrap(), make_dir(&fs, &fs.root().unwrap(), b"dir"));
    fs.link(&fs.inode(ino).unwrap(), &dir, b"other").unwrap();
    let taker = [create(&fs, b"first"), create(&fs, b"second")].map(|file| file.ino());
    fs.unmount().unwrap();
    drop((root, dir, fs));
    change(&device, node_lba(&device, ino.nid()), |block| Inode::view_mut(block).set_links(1));
    let fs = mount(&device, "").unwrap();
    let root = fs.root().unwrap();
    let dir = fs.lookup(&root, b"dir").unwrap();
    let held = fs.inode(ino).unwrap();
    fs.rename(&root, b"first", &root, b"file", RenameFlags::Replace).unwrap();
    assert_damaged(fs.rename(&root, b"second", &dir, b"other", RenameFlags::Replace), "no links left");
    assert_damaged(fs.unlink(&dir, b"other"), "no links left");
    // The one that was to take the name has kept its own.
    assert_eq!(fs.lookup(&root, b"file").unwrap().ino(), taker[0]);
    assert_eq!(fs.lookup(&root, b"second").unwrap().ino(), taker[1]);
    drop(held);
    fs.reap().unwrap();
    fs.unmount().unwrap();
}

#[test]
fn a_directory_that_names_no_parent_is_not_moved() {
    let (device, _) = sound();
    let fs = mount(&device, "noinline_dentry").unwrap();
    let root = fs.root().unwrap();
    let [left, right] = [&b"left"[..], b"right"].map(|name| make_dir(&fs, &root, name));
    let (x, y) = (make_dir(&fs, &left, b"x").ino(), make_dir(&fs, &right, b"y").ino());
    fs.unmount().unwrap();
    drop((root, left, right, fs));
    // The parent of one is to be set first, and back when that of the other cannot be: it names none.
    change_entry(&device, x, b"..", |entries, slot| assert!(entries.set_target(slot, Ino(0), FileType::Dir)));
    change_entry(&device, y, b"..", |entries, slot| assert!(entries.remove(slot)));
    let fs = mount(&device, "").unwrap();
    let root = fs.root().unwrap();
    let [left, right] = [&b"left"[..], b"right"].map(|name| fs.lookup(&root, name).unwrap());
    for (how, to) in [(RenameFlags::Exchange, &b"y"[..]), (RenameFlags::Replace, b"z"), (RenameFlags::Replace, b"y")] {
        assert_damaged(fs.rename(&left, b"x", &right, to, how), "no '..' entry");
        assert_eq!(fs.lookup(&left, b"x").unwrap().ino(), x);
        assert_eq!(fs.lookup(&right, b"y").unwrap().ino(), y);
    }
    fs.sync().unwrap();
    fs.unmount().unwrap();
}
