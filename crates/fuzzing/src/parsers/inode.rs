//! The inode: its check, every accessor and every setter. Input: a byte that chooses the volume's features, one of
//! choices, a slot, then the block.

use super::{BLOCK_MEMORY, FEATURES, choose_features, dentries, node};
use crate::Target;
use crate::input::Input;
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::{Dentries, FileType};
use steadyfs_format::inode::{FULL_EXTRA_ISIZE, Inode, InodeShape, NewInode, Time, inline};
use steadyfs_format::node::{Addressing, NodeOfs};
use steadyfs_format::{Block, Features, Ino, Nid, xattr};

/// The target.
pub const TARGET: Target = Target { name: "inode", run, seeds, volume: false, memory: BLOCK_MEMORY };

/// Choice: make the fields right that the check looks at first.
const REPAIR: u8 = 1;

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (number, features) in FEATURES.into_iter().enumerate() {
        for (mode, bits, size) in [
            (0o100_644, inline::XATTR | inline::DATA | inline::DATA_EXIST, 100),
            (0o040_755, inline::XATTR | inline::DENTRY, 3488),
            (0o100_600, 0, 1 << 30),
            (0o020_600, 0, 0),
        ] {
            let mut inode = sound(mode, bits, features);
            inode.set_size(size);
            inode.update_checksum(features, 0);
            for choices in [0, REPAIR] {
                seeds.push([&[number as u8, choices, 0, 0], inode.to_block().as_slice()].concat());
            }
        }
    }
    seeds
}

fn sound(mode: u16, bits: u8, features: Features) -> Inode {
    let time = Time { secs: 1_600_000_000, nanos: 5 };
    let new = NewInode {
        ino: Ino(4),
        pino: Ino(3),
        name: b"name",
        mode,
        uid: 1,
        gid: 2,
        links: 1,
        time,
        generation: 3,
        flags: 0,
        inline: bits,
        extra_isize: FULL_EXTRA_ISIZE,
        xattr_words: 50,
        project_id: 4,
    };
    new.build(features).expect("the fields are sound").0
}

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let features = choose_features(&mut input);
    let (choices, index) = (input.u8(), input.u16());
    let mut block = input.block();
    if choices & REPAIR != 0 {
        repair(Inode::view_mut(&mut block), features);
    }
    node::use_node(&block);
    use_inode(&block, features, index);
}

/// Makes what the check looks at first right.
fn repair(inode: &mut Inode, features: Features) {
    if inode.file_type().is_none() {
        inode.set_mode(inode.mode() & 0o7777 | 0o100_000);
    }
    if features.contains(Features::EXTRA_ATTR) {
        inode.set_inline_flags(inode.inline_flags() | inline::EXTRA_ATTR);
    } else {
        inode.set_inline_flags(inode.inline_flags() & !inline::EXTRA_ATTR);
    }
    inode.set_blocks(inode.blocks().max(1));
    if inode.is_dir() {
        inode.set_current_depth(inode.current_depth() % 64);
    }
}

/// Every accessor, then every setter, on an inode that passes the check (and some on one that does not).
pub(crate) fn use_inode(block: &Block, features: Features, index: u16) {
    let inode = Inode::view(block);
    let _ = (inode.name().len(), inode.name_len(), inode.extent(), inode.children(), inode.extra_isize());
    let _ = (inode.verify_checksum(features, 1), inode.compress_info(features), inode.gc_failures());
    let _ = (inode.project_id(features), inode.crtime(features), inode.stored_xattr_words());
    let Ok(shape) = inode.shape(features) else { return };
    let slots = inode.slots(shape).len();
    assert_eq!(slots, usize::from(shape.addr_slots()));
    let _ = inode.device_number(shape);
    let Ok(checked) = inode.validate(features) else { return };
    assert_eq!(checked, shape);
    read_areas(inode, shape, index);
    change(inode.clone(), shape, features, index % shape.addr_slots());
}

fn read_areas(inode: &Inode, shape: InodeShape, index: u16) {
    assert!(inode.size().div_ceil(4096) <= shape.addressing().max_pages());
    dentries::read(Dentries::inline(inode.inline_area(shape)), index, b"name");
    for found in xattr::entries(inode.xattr_area(shape)).flatten() {
        let _ = found.name.full();
    }
    let _ = Addressing::clustered(shape.addr_slots(), 2).slots_at(NodeOfs::INODE);
}

fn change(mut inode: Inode, shape: InodeShape, features: Features, index: u16) {
    let slot = inode.slot(shape, index);
    inode.set_slot(shape, index, slot);
    assert_eq!(inode.slot(shape, index), slot);
    let kept = inode.to_block();
    inode.inline_area_mut(shape).fill(0x55);
    inode.xattr_area_mut(shape).fill(0x66);
    assert_eq!(inode.footer, Inode::view(&kept).footer, "areas end before the footer");
    let mut inode = Inode::view(&kept).clone();
    let _ = inode.set_name(b"other");
    let (time, info) = (inode.atime(), inode.compress_info(features));
    let _ = (inode.set_project_id(features, 7), inode.set_crtime(features, time));
    if let Ok(Some(info)) = info {
        assert!(inode.set_compress_info(features, info));
    }
    if inode.file_type() == Some(FileType::CharDevice) {
        let device = inode.device_number(shape);
        let _ = inode.set_device_number(shape, device);
    }
    for child in 0..5 {
        inode.set_child(child, Nid(inode.child(child).get()));
    }
    inode.update_checksum(features, 9);
    assert!(inode.verify_checksum(features, 9).is_ok());
}
