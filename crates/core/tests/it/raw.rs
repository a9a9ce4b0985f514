//! The raw layer on volumes that mkfs.f2fs made, whole and damaged.

use crate::common::{change, mkfs};
use std::sync::Arc;
use steadyfs_core::Error;
use steadyfs_core::raw::{Image, Superblocks};
use steadyfs_device::{Device, MemDevice, PageBuf};
use steadyfs_format::block::BlockView;
use steadyfs_format::checkpoint::CheckpointHeader;
use steadyfs_format::inode::Inode;
use steadyfs_format::summary::{Summary, SummaryKind};
use steadyfs_format::{FormatError, Lba, Log, Nid, Pack, ROOT_INO, SegNo, bitmap};

fn open(dev: MemDevice) -> Result<Image, Error> {
    Image::open(Arc::new(dev))
}

/// Everything that a fresh volume must show, whatever its geometry.
fn check_fresh(image: &Image) {
    let layout = image.layout();
    let root = image.nat(ROOT_INO.nid()).expect("root is in the NAT");
    assert_eq!((root.ino, image.pack()), (ROOT_INO, Pack::One));
    image.read_block(root.lba).expect("in range").with(|block| {
        let inode = Inode::view(block);
        assert_eq!((inode.footer.nid(), inode.is_dir(), inode.links()), (ROOT_INO.nid(), true, 2));
    });
    assert_eq!([1, 2].map(|nid| image.nat(Nid(nid)).expect("reserved").lba), [Lba(1); 2]);
    assert!(image.nat(Nid(4)).expect("free").is_free() && image.nat(layout.max_nid()).is_err());
    let sit = image.load_sit().expect("readable");
    assert_eq!(sit.len(), layout.main_segments as usize);
    let valid: u32 = sit.iter().map(|entry| bitmap::count_ones(entry.valid_map())).sum();
    assert_eq!(u64::from(valid), image.checkpoint().header().valid_blocks());
    for log in Log::ALL {
        let at = image.log_position(log).segment;
        assert_eq!(sit[at.index()].log(), Some(log));
        assert_eq!(image.sit(at).expect("in range"), sit[at.index()]);
    }
    let nodes = image.summary(image.log_position(Log::HotNode).segment).expect("in the pack");
    assert_eq!((nodes.kind(), nodes.get(0)), (Ok(SummaryKind::Node), Summary::of_node(ROOT_INO.nid())));
    let data = image.log_summary(Log::HotData).expect("in the pack");
    assert_eq!(
        (data.kind(), data.get(0)),
        (Ok(SummaryKind::Data), Summary { nid: ROOT_INO.nid(), version: 0, ofs_in_node: 0 })
    );
    assert!(image.orphans().expect("readable").is_empty() && !image.has_fsync_chain().expect("readable"));
    let bits = image.nat_bits().expect("readable").expect("mkfs writes them");
    assert!(!bits.is_empty(0) && !bits.is_full(0) && bits.is_empty(1));
}

#[test]
fn fresh_volumes_of_every_geometry() {
    let cases: [(u64, &[&str]); 6] = [
        (64, &[]),
        (300, &["-s", "4"]),
        (512, &["-s", "2", "-z", "3"]),
        (128, &["-i"]),
        (100, &["-O", "extra_attr,inode_checksum,sb_checksum,flexible_inline_xattr,inode_crtime"]),
        (1500, &["-l", "label"]),
    ];
    for (mib, args) in cases {
        let image = open(mkfs(mib, args)).unwrap_or_else(|error| panic!("{mib} MiB {args:?}: {error}"));
        check_fresh(&image);
        assert_eq!(image.superblocks().first_difference(), None);
        assert!(Pack::BOTH.iter().all(|&pack| image.packs().version(pack).is_ok()));
    }
}

#[test]
fn the_spare_superblock_serves_when_the_first_is_destroyed() {
    let dev = mkfs(64, &[]);
    change(&dev, 0, |block| block[1024..1028].fill(0xFF));
    let copies = Superblocks::read(&dev);
    assert!(matches!(copies.copy(0), Err(Error::Format(FormatError::Magic { .. }))) && copies.copy(1).is_ok());
    check_fresh(&open(dev).expect("the copy in block 1 is good"));
    let dev = mkfs(64, &[]);
    for block in [0, 1] {
        change(&dev, block, |block| block[1024 + 20] = 3);
    }
    let error = open(dev).expect_err("no superblock is left").to_string();
    assert!(error.contains("log_blocks_per_seg"), "{error}");
    let error = open(MemDevice::new(100)).expect_err("nothing is there").to_string();
    assert!(error.contains("no F2FS magic"), "{error}");
}

#[test]
fn the_other_pack_serves_when_one_is_torn() {
    let dev = mkfs(64, &[]);
    change(&dev, 512 + 5, |block| block.fill(0));
    let image = open(dev).expect("pack 2 is whole");
    assert_eq!((image.pack(), image.checkpoint().header().version()), (Pack::Two, 0));
    assert!(image.packs().version(Pack::One).is_err());
    let dev = mkfs(64, &[]);
    for block in [512, 512 + 5, 1024, 1024 + 5] {
        change(&dev, block, |block| block[9] ^= 1);
    }
    let error = open(dev).expect_err("no pack is whole").to_string();
    assert!(error.contains("pack 1") && error.contains("pack 2"), "{error}");
}

#[test]
fn a_cut_image_is_refused() {
    let whole = mkfs(64, &[]);
    let cut = MemDevice::new(64 * 256 - 300);
    for lba in whole.written_blocks().into_iter().filter(|lba| *lba < 64 * 256 - 300) {
        cut.write(lba, whole.read(lba, 1).expect("in range")).expect("in range");
    }
    let error = open(cut).expect_err("the main area does not fit").to_string();
    assert!(error.contains("16384 blocks") && error.contains("16084"), "{error}");
}

#[test]
fn node_summaries_are_rebuilt_from_the_nodes_when_the_pack_has_none() {
    let dev = mkfs(64, &[]);
    // Turn pack 1 into that of a running checkpoint: without UMOUNT the node summaries do not belong to it.
    let pack: Vec<PageBuf> = dev.read(512, 6).expect("in range");
    let mut header = pack[0].clone();
    let view = CheckpointHeader::view_mut(header.make_mut());
    view.set_flags(steadyfs_format::checkpoint::CpFlags::COMPACT_SUM);
    view.set_pack_blocks(3);
    view.seal();
    dev.write(512, vec![header.clone(), pack[1].clone(), header]).expect("in range");
    let image = open(dev).expect("the pack is whole");
    assert!(image.pack_summary(Log::HotNode).is_none());
    let nodes = image.summary(SegNo(0)).expect("rebuilt");
    assert_eq!((nodes.kind(), nodes.get(0).nid), (Ok(SummaryKind::Node), ROOT_INO.nid()));
}
