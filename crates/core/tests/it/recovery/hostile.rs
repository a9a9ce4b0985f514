//! Chains that nobody should write: each is refused with a reason and nothing written, or comes to something without
//! contradictions.

use crate::recovery::support::{
    DIR, FEATURES, FILE, Volume, assert_same, at, chain, complaints, edit, mount, read, recovered, refused, seen,
};
use std::sync::Arc;
use steadyfs_core::Error;
use steadyfs_core::raw::Image;
use steadyfs_device::{Device, MemDevice, PageBuf};
use steadyfs_format::block::{Block, BlockView};
use steadyfs_format::inode::{Inode, inline};
use steadyfs_format::node::{NodeBlock, NodeFooter, NodeOfs};
use steadyfs_format::{Ino, Lba, Log, Nid, Slot};
use steadyfs_testkit::XorShift;

/// A file of the checkpoint and a new file, both fsynced, without inline data; and a file that only the checkpoint has.
fn base(features: &[&str]) -> MemDevice {
    let v = Volume::new(features);
    v.make("dir", DIR);
    v.make("dir/sub", DIR);
    v.file("old", 8);
    v.file("other", 8);
    v.fs.sync().unwrap();
    let old = at(&v.fs, "old");
    v.fill(&old, 2, 3, b'O');
    v.fsync(&old);
    v.fsync(&v.file("dir/new", 5));
    v.crash()
}

/// Where the chain's inode of this kind lies: the new file's has the dentry mark.
fn inode_at(dev: &MemDevice, new: bool) -> Lba {
    let found = chain(dev).into_iter().find(|(_, block)| NodeBlock::view(block).footer.is_dentry() == new);
    found.expect("both are in the chain").0
}

fn footer(dev: &MemDevice, lba: Lba, f: impl FnOnce(&mut NodeFooter)) {
    edit(dev, lba, |block| f(&mut NodeBlock::view_mut(block).footer));
}

fn image(dev: &MemDevice) -> Image {
    Image::open(Arc::new(dev.fork())).unwrap()
}

/// Points a slot of the inode at a chain address somewhere else.
fn point(dev: &MemDevice, new: bool, index: u16, slot: Slot) {
    let features = image(dev).superblock().features();
    edit(dev, inode_at(dev, new), |block| {
        let raw = Inode::view_mut(block);
        let shape = raw.shape(features).unwrap();
        raw.set_slot(shape, index, slot);
    });
}

/// The address in a slot of an inode, as the checkpoint knows it.
fn slot_of(dev: &MemDevice, path: &str, index: u16) -> Lba {
    let ino = at(&mount(Arc::new(dev.fork()), "disable_roll_forward").unwrap(), path).ino();
    let image = image(dev);
    let block = *image.read_block(image.nat(ino.nid()).unwrap().lba).unwrap().to_array();
    let raw = Inode::view(&block);
    raw.slot(raw.shape(image.superblock().features()).unwrap(), index).lba().unwrap()
}

#[track_caller]
fn assert_refused(dev: &MemDevice, part: &str) {
    let why = refused(dev.fork());
    assert!(why.contains(part), "{why}");
}

/// The volume comes up whole.
#[track_caller]
fn assert_whole(dev: &MemDevice) -> crate::recovery::support::Tree {
    let seen = seen(dev.fork());
    let (tree, whole) = recovered(dev.fork());
    assert_same(&seen, &tree, "what a reader sees");
    assert_eq!(complaints(&whole), [""; 0]);
    tree
}

#[test]
fn chains_that_come_back_are_refused() {
    let dev = base(&[]);
    let nodes = chain(&dev);
    let stamp = NodeBlock::view(&nodes[0].1).footer.cp_ver();
    for (from, to) in [(1, 1), (1, 0), (0, 0)] {
        let dev = dev.fork();
        footer(&dev, nodes[from].0, |f| f.set_chain(stamp, nodes[to].0));
        assert_refused(&dev, "comes back");
    }
}

#[test]
fn chains_end_where_they_leave_the_main_area() {
    let dev = base(&[]);
    let nodes = chain(&dev);
    let stamp = NodeBlock::view(&nodes[0].1).footer.cp_ver();
    let expected = assert_whole(&dev);
    for to in [0, 1, 512, u64::from(u32::MAX) - 2] {
        let dev = dev.fork();
        footer(&dev, nodes.last().unwrap().0, |f| f.set_chain(stamp, Lba(to)));
        assert_same(&expected, &assert_whole(&dev), "the end is the end");
        footer(&dev, nodes[0].0, |f| f.set_chain(stamp, Lba(to)));
        assert!(!assert_whole(&dev).contains_key("/dir/new"));
    }
}

#[test]
fn nodes_with_impossible_places_are_refused() {
    let dev = base(FEATURES);
    let [old, new] = [inode_at(&dev, false), inode_at(&dev, true)];
    let fresh = NodeBlock::view(&chain(&dev)[1].1).footer.ino();
    type Case<'a> = (Lba, &'a str, &'a dyn Fn(&mut NodeFooter));
    let cases: [Case<'_>; 7] = [
        (old, "its place in the file", &|f| f.set_nid(Nid(0))),
        (old, "its place in the file", &|f| f.set_ofs(NodeOfs::new(1))),
        (old, "that fsync never writes", &|f| (f.set_nid(Nid(77)), f.set_ofs(NodeOfs::INDIRECT_1)).0),
        (old, "that fsync never writes", &|f| (f.set_nid(Nid(77)), f.set_ofs(NodeOfs::new(0x1FFF_FFF0))).0),
        (new, "outside the NAT", &|f| (f.set_nid(Nid(u32::MAX)), f.set_ino(Ino(u32::MAX))).0),
        (new, "", &|f| (f.set_nid(Nid(1)), f.set_ino(Ino(1))).0),
        (old, "", &|f| (f.set_nid(Nid(3)), f.set_ino(Ino(3))).0),
    ];
    assert!(fresh.get() > 3);
    for (n, (lba, part, change)) in cases.into_iter().enumerate() {
        println!("case {n}");
        let dev = dev.fork();
        footer(&dev, lba, change);
        assert_refused(&dev, part);
    }
}

/// Contents in an inode that says it has none: who reads the volume elsewhere sees zeros.
#[test]
fn contents_that_do_not_exist_are_refused() {
    let v = Volume::new(&[]);
    v.fs.sync().unwrap();
    let file = v.make("new", FILE);
    v.fs.write(&file, 0, b"contents").unwrap();
    v.fsync(&file);
    let dev = v.crash();
    let lba = inode_at(&dev, true);
    assert!(assert_whole(&dev).contains_key("/new"));
    edit(&dev, lba, |block| {
        let raw = Inode::view_mut(block);
        assert!(raw.has_inline(inline::DATA_EXIST));
        raw.set_inline_flags(raw.inline_flags() & !inline::DATA_EXIST);
    });
    assert_refused(&dev, "says that it has none");
}

#[test]
fn inodes_that_nobody_introduced_are_ignored() {
    let dev = base(&[]);
    footer(&dev, inode_at(&dev, true), |f| f.set_dentry(false));
    let tree = assert_whole(&dev);
    assert!(!tree.contains_key("/dir/new") && tree.contains_key("/old"));
}

#[test]
fn a_torn_inode_ends_the_chain() {
    let dev = base(FEATURES);
    let new = inode_at(&dev, true);
    let mut block = *dev.read_one(new.get()).unwrap().to_array();
    block[512..1024].fill(0xA5);
    dev.write(new.get(), vec![PageBuf::from_slice(&block)]).unwrap();
    let tree = assert_whole(&dev);
    assert!(!tree.contains_key("/dir/new") && tree.contains_key("/old"));
}

#[test]
fn addresses_of_what_is_no_file_data_are_refused() {
    let dev = base(&[]);
    let image = image(&dev);
    let layout = *image.layout();
    let nodes = chain(&dev);
    let root = image.nat(steadyfs_format::ROOT_INO.nid()).unwrap().lba;
    let outside = "outside the main area";
    let cases = [
        (Lba(1), outside),
        (layout.sit, outside),
        (Lba(layout.block_count + 5), outside),
        (nodes[0].0, "in a segment of nodes"),
        (nodes[1].0, "in a segment of nodes"),
        (root, ""),
    ];
    for (lba, part) in cases {
        for new in [false, true] {
            let dev = dev.fork();
            point(&dev, new, 3, Slot::At(lba));
            assert_refused(&dev, part);
        }
    }
    let dev = dev.fork();
    point(&dev, true, 3, Slot::Compress);
    assert_refused(&dev, "not compressed");
}

#[test]
fn a_block_of_a_directory_is_not_given_to_a_file() {
    let dev = Arc::new(crate::recovery::support::fresh(&[]));
    let fs = mount(Arc::clone(&dev) as Arc<dyn Device>, "noinline_dentry").unwrap();
    let v = Volume { dev, fs };
    v.make("dir", DIR);
    v.file("old", 4);
    v.fs.sync().unwrap();
    let old = at(&v.fs, "old");
    v.fill(&old, 1, 1, b'O');
    v.fsync(&old);
    let dev = v.crash();
    let dentries = slot_of(&dev, "dir", 0);
    point(&dev, false, 2, Slot::At(dentries));
    assert_refused(&dev, "no regular file");
}

#[test]
fn one_block_has_one_owner() {
    for new in [false, true] {
        let dev = base(&[]);
        let before = assert_whole(&dev);
        // Twice in one inode: the later slot has it.
        let own = {
            let features = image(&dev).superblock().features();
            let block = *dev.read_one(inode_at(&dev, new).get()).unwrap().to_array();
            let raw = Inode::view(&block);
            raw.slot(raw.shape(features).unwrap(), 2)
        };
        point(&dev, new, 4, own);
        let after = assert_whole(&dev);
        let path = if new { "/dir/new" } else { "/old" };
        assert_ne!(before[path], after[path]);
        // A block of another file: that has a hole in its place.
        let dev = base(&[]);
        point(&dev, new, 4, Slot::At(slot_of(&dev, "other", 6)));
        let after = assert_whole(&dev);
        assert_ne!(before["/other"], after["/other"]);
        let fs = mount(Arc::new(dev), "").unwrap();
        let other = read(&fs, &at(&fs, "other")).unwrap();
        assert!(other[6 * 4096..7 * 4096] == [0; 4096] && other[5 * 4096] == 5);
    }
}

#[test]
fn names_without_a_place_are_refused() {
    let dev = base(FEATURES);
    let new = inode_at(&dev, true);
    let old_ino = NodeBlock::view(&chain(&dev)[0].1).footer.ino();
    let raw = |f: &dyn Fn(&mut Inode)| {
        let dev = dev.fork();
        edit(&dev, new, |block| f(Inode::view_mut(block)));
        dev
    };
    assert_refused(&raw(&|i| i.set_pino(Ino(4000))), "does not exist");
    assert_refused(&raw(&|i| i.set_pino(Ino(0))), "does not exist");
    assert_refused(&raw(&|i| i.set_pino(old_ino)), "no directory");
    for name in [&b""[..], b"a/b", b".", b"..", b"nul\0"] {
        assert_refused(&raw(&|i| i.set_name(name).unwrap()), "impossible name");
    }
    assert_refused(&raw(&|i| i.set_mode(0o040_755)), "no regular file");
    assert_refused(&raw(&|i| i.set_mode(0o120_777)), "no regular file");
    assert_refused(&raw(&|i| i.set_mode(0)), "i_mode");
    let old = inode_at(&dev, false);
    let dev = dev.fork();
    edit(&dev, old, |block| Inode::view_mut(block).set_mode(0o020_644));
    assert_refused(&dev, "no regular file");
}

/// Who gives a known inode another name makes a checkpoint before its fsync.
#[test]
fn a_known_inode_gets_no_other_name() {
    let dev = base(FEATURES);
    let old = inode_at(&dev, false);
    let named = |name: &[u8]| {
        let dev = dev.fork();
        edit(&dev, old, |block| Inode::view_mut(block).set_name(name).unwrap());
        footer(&dev, old, |footer| footer.set_dentry(true));
        dev
    };
    for name in [&b"other"[..], b"dir", b"nobody's", b"two\nlines"] {
        assert_refused(&named(name), "which it does not have");
    }
    assert!(!refused(named(b"two\nlines")).contains('\n'));
    let [plain, marked] = [dev.fork(), named(b"old")].map(|dev| assert_whole(&dev));
    assert_same(&plain, &marked, "a name that it has");
}

#[test]
fn a_directory_with_entries_keeps_a_name() {
    let dev = base(&[]);
    edit(&dev, inode_at(&dev, true), |block| {
        let raw = Inode::view_mut(block);
        raw.set_pino(steadyfs_format::ROOT_INO);
        raw.set_name(b"dir").unwrap();
    });
    let tree = assert_whole(&dev);
    let kept = tree.keys().find(|path| path.starts_with("/dir.recovered-") && path.ends_with("/sub"));
    assert!(kept.is_some(), "{:?}", tree.keys());
    // An empty one goes, as a file does.
    let dev = base(&[]);
    edit(&dev, inode_at(&dev, true), |block| Inode::view_mut(block).set_name(b"sub").unwrap());
    assert!(!assert_whole(&dev).keys().any(|path| path.contains("recovered")));
}

fn mutate(block: &mut Block, dev: &Image, random: &mut XorShift) {
    let layout = dev.layout();
    let main = layout.main.get();
    let stamp = NodeBlock::view(block).footer.cp_ver();
    let next = NodeBlock::view(block).footer.next();
    for _ in 0..1 + random.bits() % 3 {
        let at = match random.bits() % 4 {
            // Attributes, the beginning of the addresses, node ids, anything.
            0 => random.bits() % 90,
            1 => 360 / 4 + random.bits() % 30,
            2 => 4052 / 4 + random.bits() % 10,
            _ => random.bits() % 1024,
        } as usize
            * 4;
        let value = match random.bits() % 6 {
            0 => 0,
            1 => u32::MAX,
            2 => (main + random.bits() % (layout.block_count - main)) as u32,
            3 => random.bits() as u32 % 64,
            4 => 1 << (random.bits() % 32),
            _ => random.bits() as u32,
        };
        block[at.min(4088)..at.min(4088) + 4].copy_from_slice(&value.to_le_bytes());
    }
    // Still of the chain.
    let footer = &mut NodeBlock::view_mut(block).footer;
    footer.set_chain(stamp, if random.bits().is_multiple_of(8) { footer.next() } else { next });
}

#[test]
fn no_chain_makes_recovery_panic() {
    let v = Volume::new(FEATURES);
    v.make("dir", DIR);
    v.file("old", 1200);
    let tiny = v.make("tiny", FILE);
    v.fs.write(&tiny, 0, b"tiny").unwrap();
    v.fs.sync().unwrap();
    for (path, page) in [("old", 900), ("old", 3), ("tiny", 0)] {
        v.fill(&at(&v.fs, path), page, 2, b'x');
        v.fsync(&at(&v.fs, path));
    }
    v.fsync(&v.file("dir/new", 5));
    let file = v.file("dir/labelled", 1);
    v.fs.setxattr(&file, b"user.a", &[1; 3000], steadyfs_core::XattrFlags::default()).unwrap();
    v.fsync(&file);
    let sound = v.crash();
    let nodes = chain(&sound);
    let layout = image(&sound);
    let mut random = XorShift(0x5EED_0003);
    let (mut up, mut refused) = (0, 0);
    for round in 0..1500 {
        let dev = sound.fork();
        for _ in 0..1 + random.bits() % 2 {
            let lba = nodes[random.bits() as usize % nodes.len()].0;
            edit(&dev, lba, |block| mutate(block, &layout, &mut random));
        }
        let dev = Arc::new(dev);
        match mount(Arc::clone(&dev) as Arc<dyn Device>, "") {
            Ok(fs) => {
                up += 1;
                fs.unmount().unwrap_or_else(|e| panic!("round {round}: {e}"));
                drop(fs);
                // What attributes say is taken as it is; what things are, how many, and whose, must fit.
                let of_values = |what: &String| {
                    what.starts_with("XattrName") || what.starts_with("XattrAcl") || what.starts_with("InodeTime")
                };
                let bad: Vec<_> = complaints(&dev).into_iter().filter(|what| !of_values(what)).collect();
                assert_eq!(bad, [""; 0], "round {round}");
            }
            Err(Error::Recovery(_)) => refused += 1,
            Err(e) => panic!("round {round}: {e}"),
        }
    }
    println!("{up} came up, {refused} were refused");
    assert!(up > 100 && refused > 100);
}

#[test]
fn logs_stand_elsewhere_after_a_recovery() {
    let dev = base(&[]);
    let [before, after] = [image(&dev), image(&recovered(dev).1)];
    for log in [Log::WarmNode, Log::HotData, Log::WarmData, Log::ColdData] {
        assert_ne!(before.log_position(log).segment, after.log_position(log).segment, "{log}");
    }
}
