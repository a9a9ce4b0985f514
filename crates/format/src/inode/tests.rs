//! Inodes: each field where the format has it, each value both ways, and no harm from any bytes.

use super::*;
use crate::block::{Block, zeroed_block};
use crate::dir::FileType;
use crate::{Features, Ino, Lba, Nid, Slot};
use proptest::prelude::*;

const PLAIN: Features = Features::NONE;
const FULL: Features = Features::from_bits(0x8 | 0x10 | 0x20 | 0x40 | 0x100 | 0x2000);

fn new_inode(mode: u16, features: Features) -> (Inode, InodeShape) {
    let new = NewInode {
        ino: Ino(9),
        pino: Ino(3),
        name: b"name",
        mode,
        uid: 1,
        gid: 2,
        links: 1,
        time: Time { secs: -5, nanos: 7 },
        generation: 11,
        flags: 0,
        inline: 0,
        extra_isize: FULL_EXTRA_ISIZE,
        xattr_words: DEFAULT_XATTR_WORDS,
        project_id: 13,
    };
    new.build(features).unwrap()
}

#[test]
fn fields_lie_where_the_format_says() {
    let (mut inode, shape) = new_inode(0o100_644, FULL);
    inode.set_size(0x0102);
    inode.set_xattr_nid(Nid(0x55));
    inode.set_dir_level(2);
    inode.set_child(4, Nid(0x66));
    inode.set_slot(shape, 0, Slot::At(Lba(0x77)));
    inode.set_extent(Extent { fofs: 1, blk: 2, len: 3 });
    let block = inode.to_block();
    let u32_at = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap());
    assert_eq!((block[0], block[1], block[3]), (0xA4, 0x81, inline::EXTRA_ATTR));
    assert_eq!([4, 8, 12, 16, 24].map(u32_at), [1, 2, 1, 0x0102, 1]);
    assert_eq!([32, 40, 48, 56, 60, 64, 68].map(u32_at), [-5i32 as u32, -5i32 as u32, -5i32 as u32, 7, 7, 7, 11]);
    assert_eq!([76, 80, 84, 88].map(u32_at), [0x55, 0, 3, 4]);
    assert_eq!((&block[92..96], block[347]), (&b"name"[..], 2));
    assert_eq!([348, 352, 356].map(u32_at), [1, 2, 3]);
    assert_eq!((block[360], block[362], u32_at(364)), (36, 50, 13));
    assert_eq!((u32_at(372), u32_at(380)), (-5i32 as u32, 7));
    assert_eq!((u32_at(360 + 36), u32_at(4052 + 16)), (0x77, 0x66));
    assert_eq!((u32_at(4072), u32_at(4076), u32_at(4080)), (9, 9, 1));
}

#[test]
fn wide_slots_lie_where_the_format_says() {
    let (mut inode, shape) = new_inode(0o100_644, FULL | Features::INFINITE);
    // 923 words less 9 of extra attributes and 50 of xattrs: one word is left over.
    assert_eq!((shape.addr_slots(), shape.addressing().node_slots()), (432, 509));
    assert_eq!(shape.slot_range(), 396..396 + 432 * 8);
    assert_eq!((shape.inline_len(), shape.inline_range().end), (864 * 4 - 8, shape.xattr_range().start));
    inode.set_slot(shape, 0, Slot::New);
    inode.set_slot(shape, 431, Slot::At(Lba(0x0102_0304_0506_0708)));
    let block = inode.to_block();
    assert_eq!(block[396..404], [0xFF; 8]);
    assert_eq!(block[396 + 431 * 8..396 + 432 * 8], [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(inode.slots(shape).filter(|slot| slot.is_counted()).count(), 2);
    assert_eq!(inode.slot(shape, 431), Slot::At(Lba(0x0102_0304_0506_0708)));
    let (bare, shape) = new_inode(0o020_600, Features::INFINITE);
    assert_eq!((shape.addr_slots(), shape.inline_len()), (461, 923 * 4 - 8));
    for number in [DeviceNumber { major: 8, minor: 1 }, DeviceNumber { major: 0xFFF, minor: 0xF_FFFF }] {
        let mut inode = bare.clone();
        inode.set_device_number(shape, number).unwrap();
        assert_eq!(inode.device_number(shape), number);
        let used: Vec<_> = inode.slots(shape).filter_map(Slot::lba).collect();
        assert!(used.len() == 1 && used[0].get() <= u64::from(u32::MAX));
    }
}

#[test]
fn shapes_follow_flags_and_features() {
    let shape = |features, bits: u8| {
        let (mut inode, _) = new_inode(0o100_644, features);
        inode.set_inline_flags(inode.inline_flags() | bits);
        inode.shape(features).unwrap()
    };
    assert_eq!(shape(PLAIN, 0).addr_slots(), 923);
    assert_eq!(shape(PLAIN, inline::XATTR).addr_slots(), 873);
    assert_eq!(shape(PLAIN, inline::DENTRY).inline_len(), 3488);
    assert_eq!(shape(FULL, 0).inline_len(), 3452);
    assert_eq!(shape(FULL, 0).inline_range(), 400..3852);
    assert_eq!(shape(FULL, 0).xattr_range(), 3852..4052);
    assert_eq!(shape(Features::EXTRA_ATTR, 0).addr_slots(), 923 - 9);
}

#[test]
fn a_field_needs_room_and_its_feature() {
    let (mut inode, _) = new_inode(0o100_644, FULL);
    assert_eq!(inode.project_id(FULL), Some(13));
    assert_eq!(inode.project_id(Features::EXTRA_ATTR), None);
    assert_eq!(inode.crtime(FULL), Some(Time { secs: -5, nanos: 7 }));
    inode.extra_mut().isize = 12.into();
    assert!(inode.has_checksum(FULL) && !inode.set_crtime(FULL, Time::default()));
    assert_eq!((inode.crtime(FULL), inode.project_id(FULL)), (None, Some(13)));
    inode.extra_mut().isize = 8.into();
    assert!(!inode.has_checksum(FULL));
    let sizes = [
        (Features::NONE, 0),
        (Features::EXTRA_ATTR, 4),
        (Features::EXTRA_ATTR | Features::PROJECT_QUOTA, 8),
        (Features::EXTRA_ATTR | Features::INODE_CHECKSUM, 12),
        (Features::EXTRA_ATTR | Features::INODE_CRTIME, 24),
        (FULL, 36),
    ];
    for (features, size) in sizes {
        assert_eq!(mkfs_extra_isize(features), size, "{features}");
    }
}

#[test]
fn validate_names_the_bad_field() {
    type Damage = fn(&mut Inode);
    let cases: [(&str, u16, Damage); 12] = [
        ("i_mode", 0o100_644, |inode| inode.set_mode(0o644)),
        ("i_blocks", 0o100_644, |inode| inode.set_blocks(0)),
        ("i_size", 0o100_644, |inode| inode.set_size(1 << 62)),
        ("i_extra_isize", 0o100_644, |inode| inode.extra_mut().isize = 40.into()),
        ("i_extra_isize", 0o100_644, |inode| inode.extra_mut().isize = 6.into()),
        ("i_inline_xattr_size", 0o100_644, |inode| inode.extra_mut().inline_xattr_size = 904.into()),
        ("i_inline", 0o100_644, |inode| inode.set_inline_flags(inline::XATTR)),
        ("i_inline", 0o100_644, |inode| inode.set_inline_flags(inline::EXTRA_ATTR | inline::DENTRY)),
        ("i_inline", 0o040_755, |inode| inode.set_inline_flags(inline::EXTRA_ATTR | inline::DATA)),
        ("i_current_depth", 0o040_755, |inode| inode.set_current_depth(64)),
        ("i_xattr_nid", 0o100_644, |inode| inode.set_xattr_nid(Nid(9))),
        ("i_nid", 0o120_777, |inode| {
            inode.set_inline_flags(inline::EXTRA_ATTR | inline::DATA);
            inode.set_child(0, Nid(5));
        }),
    ];
    for (field, mode, damage) in cases {
        let (mut inode, shape) = new_inode(mode, FULL);
        assert_eq!(inode.validate(FULL), Ok(shape));
        damage(&mut inode);
        let error = inode.validate(FULL).unwrap_err().to_string();
        assert!(error.contains(&format!("inode: {field} =")), "{field}: {error}");
    }
    let (mut inode, _) = new_inode(0o100_644, FULL);
    inode.set_flags(flags::COMPR);
    assert!(inode.validate(FULL).unwrap_err().to_string().contains("i_log_cluster_size"));
}

#[test]
fn device_numbers_in_both_forms() {
    let (mut inode, shape) = new_inode(0o020_600, FULL);
    for (major, minor, slots) in
        [(8, 1, [0x801, 0]), (259, 0x12345, [0, 259 << 8 | 0x45 | 0x12300 << 12]), (0, 0, [0, 0])]
    {
        let device = DeviceNumber { major, minor };
        inode.set_device_number(shape, device).unwrap();
        assert_eq!(inode.device_number(shape), device);
        assert_eq!([inode.raw_slot(shape, 0), inode.raw_slot(shape, 1)], slots);
    }
    assert!(inode.set_device_number(shape, DeviceNumber { major: 4096, minor: 0 }).is_err());
}

#[test]
fn the_checksum_covers_everything_but_itself() {
    let (mut inode, _) = new_inode(0o100_644, FULL);
    inode.update_checksum(FULL, 5);
    assert_eq!(inode.verify_checksum(FULL, 5), Ok(()));
    assert!(inode.verify_checksum(FULL, 6).is_err());
    let block = inode.to_block();
    for at in [0, 367, 372, 4051, 4072, 4095] {
        let mut damaged = block;
        damaged[at] ^= 1;
        assert!(Inode::view(&damaged).verify_checksum(FULL, 5).is_err(), "byte {at}");
    }
    // The bytes of the definition, in one piece.
    let key = [9u32.to_le_bytes(), 11u32.to_le_bytes()].concat();
    let whole = [&key[..], &block[..368], &[0; 4], &block[372..]].concat();
    assert_eq!(inode.compute_checksum(5), crate::crc::f2fs_crc(5, &whole));
    let mut other = block;
    other[368] ^= 1;
    assert_eq!(Inode::view(&other).compute_checksum(5), inode.compute_checksum(5));
}

fn any_block() -> impl Strategy<Value = Block> {
    // Mostly plausible heads, so that validate lets some through.
    (prop::collection::vec(any::<u8>(), 4096), 0u8..8, 0u16..50, 0u16..1000).prop_map(|(bytes, bits, isize, words)| {
        let mut block = zeroed_block();
        block.copy_from_slice(&bytes);
        let inode = Inode::view_mut(&mut block);
        inode.set_mode(0o100_644);
        inode.set_inline_flags(bits & !inline::DENTRY & !inline::DATA | inline::EXTRA_ATTR);
        inode.set_size(u64::from(words));
        inode.extra_mut().isize = (isize & !3).into();
        inode.extra_mut().inline_xattr_size = words.into();
        inode.set_flags(0);
        block
    })
}

proptest! {
    #[test]
    fn an_accepted_inode_is_read_without_harm(block in any_block(), features in prop::sample::select(vec![PLAIN, FULL, Features::EXTRA_ATTR])) {
        let inode = Inode::view(&block);
        let _ = (inode.name(), inode.crtime(features), inode.compress_info(features), inode.verify_checksum(features, 1));
        if let Ok(shape) = inode.validate(features) {
            prop_assert_eq!(inode.slots(shape).len(), usize::from(shape.addr_slots()));
            prop_assert_eq!(inode.slots(shape).next_back(), Some(inode.slot(shape, shape.addr_slots() - 1)));
            prop_assert_eq!(inode.inline_area(shape).len(), shape.inline_len());
            prop_assert!(shape.inline_range().end == shape.xattr_range().start && shape.xattr_range().end == ADDR_END);
            let _ = (inode.xattr_area(shape), inode.device_number(shape));
        }
    }

    #[test]
    fn values_survive_the_round_trip(mode in 0u16.., size: u64, secs: i64, nanos: u32, name in prop::collection::vec(any::<u8>(), 0..256), slots in prop::collection::vec((0u16..864, any::<u32>()), 0..20)) {
        let (mut inode, shape) = new_inode(0o100_644, FULL);
        inode.set_mode(mode);
        inode.set_size(size);
        inode.set_name(&name).unwrap();
        let time = Time { secs, nanos };
        inode.set_mtime(time);
        prop_assert!(inode.set_crtime(FULL, time));
        let mut expected = std::collections::BTreeMap::new();
        for (index, raw) in slots {
            inode.set_slot(shape, index, Slot::from_disk(raw));
            expected.insert(index, Slot::from_disk(raw));
        }
        let block = inode.to_block();
        let back = Inode::view(&block);
        prop_assert_eq!((back.mode(), back.size(), back.name(), back.mtime()), (mode, size, &name[..], time));
        prop_assert_eq!((back.crtime(FULL), back.file_type()), (Some(time), FileType::from_mode(mode)));
        for (index, slot) in expected {
            prop_assert_eq!(back.slot(shape, index), slot);
        }
    }
}

#[test]
fn the_page_has_these_offsets() {
    let mut fields = crate::page::offsets!("i_", Inode: mode advise inline uid gid links size blocks atime ctime mtime
        atime_nsec ctime_nsec mtime_nsec generation current_depth xattr_nid flags pino namelen name dir_level ext_fofs
        ext_blk ext_len addr nid);
    crate::page::assert_offsets("7.1", &fields);
    fields[0].1 += 1;
    std::panic::catch_unwind(|| crate::page::assert_offsets("7.1", &fields)).expect_err("another offset is told");
}
