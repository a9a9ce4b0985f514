//! [`steadyfs_core::raw::Image`]: opening a volume and reading every table and every node of it. Input: the number of a
//! base, then changes.

use super::{VOLUME_MEMORY, Volume, seeds};
use crate::Target;
use crate::input::Input;
use crate::parsers::checkpoint::use_summary;
use crate::parsers::{inode, node};
use std::collections::BTreeSet;
use std::sync::Arc;
use steadyfs_core::raw::Image;
use steadyfs_device::MemDevice;
use steadyfs_format::block::BlockView;
use steadyfs_format::nat::NatBlock;
use steadyfs_format::node::{NodeBlock, NodeOfs};
use steadyfs_format::{Lba, Nid, Pack, SegNo};

/// The target.
pub const TARGET: Target = Target { name: "image", run, seeds, volume: true, memory: VOLUME_MEMORY };

fn run(bytes: &[u8]) {
    let Volume { device, changed, .. } = Volume::read(&mut Input::new(bytes));
    if let Ok(image) = Image::open(device) {
        read_all(&image, &changed);
    }
}

/// Reads everything that an opened image offers.
fn read_all(image: &Image, changed: &BTreeSet<u64>) {
    let _ = (format!("{image:?}"), image.superblocks().first_difference(), image.superblock().label());
    for pack in Pack::BOTH {
        let _ = image.packs().version(pack);
    }
    for &log in image.logs() {
        let _ = (image.log_position(log), image.pack_summary(log).map(use_summary));
        if let Ok(summary) = image.log_summary(log) {
            use_summary(&summary);
        }
    }
    let _ = (image.orphans(), image.orphan_blocks().count(), image.nat_bits(), image.has_fsync_chain());
    let most = 4 * image.layout().main_blocks();
    let steps = image.fsync_chain().zip(0u64..).inspect(|(node, _)| assert!(node.is_ok())).count() as u64;
    assert!(steps <= most, "the chain comes to an end");
    read_segments(image);
    read_nodes(image, changed);
}

fn read_segments(image: &Image) {
    let Ok(sit) = image.load_sit() else { return };
    for (number, entry) in (0..).zip(&sit) {
        let segment = SegNo(number);
        assert_eq!(image.sit(segment).ok().as_ref(), Some(entry));
        let _ = (entry.validate(), image.summary(segment), image.stored_summary(segment));
    }
}

fn read_nodes(image: &Image, changed: &BTreeSet<u64>) {
    let layout = image.layout();
    for block in 0..layout.nat_blocks() {
        let Ok(pages) = image.nat_blocks(block..block + 1) else { continue };
        if pages[0].is_zero_repr() {
            continue;
        }
        let used = pages[0].with(|bytes| {
            let used = NatBlock::view(bytes).iter().zip(layout.nids_of(block)).filter(|(entry, _)| !entry.is_free());
            used.map(|(entry, nid)| (Nid(nid), entry.lba)).collect::<Vec<_>>()
        });
        used.into_iter().for_each(|(nid, lba)| read_node(image, nid, lba, changed));
    }
    for (nid, entry) in image.nat_journal() {
        let _ = image.nat(*nid);
        read_node(image, *nid, entry.lba, changed);
    }
}

/// Looks at a node: closely if it was changed, or now and then; only a change can make an accessor fail that did not
/// fail before.
fn read_node(image: &Image, nid: Nid, lba: Lba, changed: &BTreeSet<u64>) {
    if !image.layout().in_main(lba) || !(changed.contains(&lba.get()) || nid.get().is_multiple_of(32)) {
        return;
    }
    let page = image.read_block(lba).expect("the main area is on the device");
    page.with(|block| {
        node::use_node(block);
        if NodeBlock::view(block).footer.ofs() == NodeOfs::INODE {
            inode::use_inode(block, image.superblock().features(), nid.get() as u16);
        }
    });
}

/// Opens a volume that was written to: what a checkpoint of ours left must be readable.
pub(crate) fn expect_readable(device: Arc<MemDevice>) {
    let image = Image::open(device).expect("a checkpoint that we wrote can be opened");
    assert!(image.load_sit().is_ok());
}
