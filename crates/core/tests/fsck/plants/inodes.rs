//! Faults of inodes: fields, counts, inline contents, address slots.

use super::{Base, Plant, check_plants};
use crate::editor::Editor;
use steadyfs_core::fsck::Issue;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{CompressAlgorithm, CompressInfo, Extent, flags, inline};
use steadyfs_format::{BLOCK_SIZE, Features, Ino, Lba, Nid, PageIndex, Slot};

pub(super) const PLANTS: &[Plant] = &[
    ("InodeMode", Base::Plain, mode),
    ("InodeChecksum", Base::Featured, checksum),
    ("InodeShape", Base::Featured, shape),
    ("InodeLinks", Base::Plain, links_of_a_file),
    ("InodeLinks", Base::Plain, links_of_a_directory),
    ("InodeBlocks", Base::Plain, blocks),
    ("InodeNameLen", Base::Featured, name_len),
    ("InodeSize", Base::Plain, size),
    ("InodeTime", Base::Featured, time),
    ("InodeExtent", Base::Plain, extent),
    ("InodeUnreferenced", Base::Plain, unreferenced),
    ("InodeUnreachable", Base::Plain, unreachable),
    ("InlineFlags", Base::Plain, inline_flags),
    ("InlineSlot", Base::Plain, inline_slot),
    ("InlineSlot", Base::Featured, inline_child),
    ("InlineSize", Base::Plain, inline_size),
    ("InlineJunk", Base::Plain, inline_junk),
    ("InlineTail", Base::Plain, inline_tail),
    ("CasefoldFlag", Base::Plain, casefold_without_feature),
    ("CasefoldFlag", Base::Plain, casefold_on_a_file),
    ("GcFailures", Base::Plain, gc_failures),
    ("SymlinkEmpty", Base::Plain, symlink_empty),
    ("SymlinkTarget", Base::Plain, |e| symlink_size(e, 0)),
    ("SymlinkTarget", Base::Featured, |e| symlink_size(e, 0)),
    ("SymlinkTarget", Base::Plain, |e| symlink_nul(e, "p/short")),
    ("SymlinkTarget", Base::Plain, |e| symlink_nul(e, "p/long")),
    ("SpecialBlocks", Base::Plain, special_blocks),
    ("SlotOutside", Base::Plain, slot_outside),
    ("CompressMark", Base::Plain, compress_mark),
    ("CompressInfo", Base::Featured, compress_info),
    ("CompressInfo", Base::Featured, compressed_and_inline),
    ("CompressInfo", Base::Plain, compressed_without_the_feature),
];

#[test]
fn each_is_found() {
    check_plants(PLANTS);
}

fn mode(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/inline");
    e.inode(ino, |inode| inode.set_mode(0o644));
    vec![Issue::InodeMode { ino, mode: 0o644 }]
}

fn checksum(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/inline");
    let image = e.image();
    let seed = image.superblock().inode_checksum_seed();
    let stored = e.read_inode(ino).0.compute_checksum(seed);
    e.edit(e.lba(ino.nid()), |block| block[32] ^= 1); // the time of the last access
    let computed = e.read_inode(ino).0.compute_checksum(seed);
    assert_ne!(stored, computed);
    vec![Issue::InodeChecksum { ino, stored, computed }]
}

fn shape(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/inline");
    e.edit(e.lba(ino.nid()), |block| block[360] = 38); // i_extra_isize
    let image = e.image();
    e.edit(e.lba(ino.nid()), |block| {
        let inode = steadyfs_format::block::BlockView::view_mut(block);
        steadyfs_format::inode::Inode::update_checksum(
            inode,
            image.superblock().features(),
            image.superblock().inode_checksum_seed(),
        );
    });
    let reason = "inode: i_extra_isize = 38 breaks the rule: is 4 to 36 in steps of 4".to_owned();
    vec![Issue::InodeShape { ino, reason }]
}

fn links_of_a_file(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/data");
    e.inode(ino, |inode| inode.set_links(1));
    vec![Issue::InodeLinks { ino, stored: 1, found: 2 }]
}

fn links_of_a_directory(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/dir");
    e.inode(ino, |inode| inode.set_links(2));
    vec![Issue::InodeLinks { ino, stored: 2, found: 3 }]
}

fn blocks(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/sparse");
    let found = e.read_inode(ino).0.blocks();
    assert!(found > 4 + 4, "the file has nodes of every kind");
    e.inode(ino, |inode| inode.set_blocks(found + 8));
    vec![Issue::InodeBlocks { ino, stored: found + 8, found }]
}

fn name_len(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/inline");
    e.edit(e.lba(ino.nid()), |block| block[88..92].copy_from_slice(&256u32.to_le_bytes()));
    e.inode(ino, |_| ());
    vec![Issue::InodeNameLen { ino, found: 256 }]
}

fn size(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/data");
    let max = e.read_inode(ino).1.addressing().max_pages() * BLOCK_SIZE as u64;
    e.inode(ino, |inode| inode.set_size(max + 1));
    vec![Issue::InodeSize { ino, size: max + 1, max }]
}

fn time(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/data");
    e.inode(ino, |inode| {
        let mut time = inode.ctime();
        time.nanos = 1_000_000_000;
        inode.set_ctime(time);
    });
    vec![Issue::InodeTime { ino, nanos: 1_000_000_000 }]
}

fn extent(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/data");
    let (slot, lba) = e.first_block(ino);
    assert_eq!(slot, 0);
    let run = (0..20).take_while(|&at| e.slot(ino, at).lba() == Some(lba + u64::from(at))).count() as u32;
    e.inode(ino, |inode| inode.set_extent(Extent { fofs: 0, blk: lba.to_disk(), len: run + 100 }));
    vec![Issue::InodeExtent { ino, page: PageIndex(0), lba, blocks: run + 100, matching: run }]
}

fn unreferenced(e: &Editor) -> Vec<Issue> {
    let (dir, ino) = (e.ino("p"), e.ino("p/inline"));
    e.remove_name(dir, "inline");
    vec![Issue::InodeUnreferenced { ino, links: 1 }]
}

/// `p/dir` moves into its own subdirectory, and everything but that is put right.
fn unreachable(e: &Editor) -> Vec<Issue> {
    let [p, dir, sub] = ["p", "p/dir", "p/dir/sub"].map(|path| e.ino(path));
    e.remove_name(p, "dir");
    e.inode(p, |inode| inode.set_links(inode.links() - 1));
    e.add_name(sub, b"dir", dir, FileType::Dir);
    e.inode(dir, |inode| inode.set_links(inode.links() - 1)); // a name is no link of a directory
    e.inode(sub, |inode| inode.set_links(inode.links() + 1));
    e.inode(dir, |inode| inode.set_pino(sub));
    let dotdot = e.entry(dir, "..");
    e.dentries(dir, dotdot.page, |entries| entries.set_target(dotdot.slot, sub, FileType::Dir));
    assert!(dir < sub);
    vec![Issue::InodeUnreachable { ino: dir, parent: sub }]
}

fn inline_flags(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/inline");
    let mut bits = 0;
    e.inode(ino, |inode| {
        assert!(inode.has_inline(inline::XATTR | inline::DATA), "the inode has room for attributes already");
        bits = inode.inline_flags() | inline::DENTRY;
        inode.set_inline_flags(bits);
    });
    let mode = e.read_inode(ino).0.mode();
    vec![Issue::InlineFlags { ino, flags: bits, mode }]
}

fn inline_slot(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/inline");
    e.shaped(ino, |inode, shape| inode.set_slot(shape, 0, Slot::At(Lba(5))));
    vec![Issue::InlineSlot { ino, field: "i_addr[0]", found: 5 }]
}

fn inline_child(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/inline");
    e.inode(ino, |inode| inode.set_child(3, Nid(9)));
    vec![Issue::InlineSlot { ino, field: "i_nid[3]", found: 9 }]
}

fn inline_size(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/inline");
    let max = e.read_inode(ino).1.inline_len() as u64;
    e.inode(ino, |inode| inode.set_size(max + 1));
    vec![Issue::InlineSize { ino, size: max + 1, max }]
}

fn inline_junk(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/inline");
    e.inode(ino, |inode| inode.set_inline_flags(inode.inline_flags() & !inline::DATA_EXIST));
    vec![Issue::InlineJunk { ino }]
}

fn inline_tail(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/inline");
    e.inode(ino, |inode| inode.set_size(3));
    vec![Issue::InlineTail { ino, size: 3 }]
}

fn casefold_without_feature(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/empty");
    e.inode(ino, |inode| inode.set_flags(inode.flags() | flags::CASEFOLD));
    let mode = e.read_inode(ino).0.mode();
    vec![Issue::CasefoldFlag { ino, mode }]
}

fn casefold_on_a_file(e: &Editor) -> Vec<Issue> {
    e.superblock(|raw| raw.feature = Features::CASEFOLD.bits().into());
    let (ino, dir) = (e.ino("p/inline"), e.ino("p/empty"));
    for ino in [ino, dir] {
        e.inode(ino, |inode| inode.set_flags(inode.flags() | flags::CASEFOLD));
    }
    let mode = e.read_inode(ino).0.mode();
    vec![Issue::CasefoldFlag { ino, mode }]
}

fn gc_failures(e: &Editor) -> Vec<Issue> {
    let [ino, pinned] = ["p/inline", "p/other"].map(|path| e.ino(path));
    e.inode(ino, |inode| inode.set_current_depth(2));
    e.inode(pinned, |inode| {
        inode.set_current_depth(2);
        inode.set_inline_flags(inode.inline_flags() | inline::PIN_FILE);
    });
    vec![Issue::GcFailures { ino, found: 2 }]
}

fn symlink_empty(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/long");
    e.inode(ino, |inode| {
        assert_eq!(inode.blocks(), 2, "the target does not fit the inode");
        inode.set_size(0);
    });
    vec![Issue::SymlinkEmpty { ino, blocks: 2 }]
}

fn symlink_size(e: &Editor, size: u64) -> Vec<Issue> {
    let ino = e.ino("p/short");
    e.shaped(ino, |inode, shape| {
        inode.set_size(size);
        inode.inline_area_mut(shape).fill(0);
    });
    vec![Issue::SymlinkTarget { ino, reason: format!("{size} bytes, 1 to 4095 can be") }]
}

fn symlink_nul(e: &Editor, path: &str) -> Vec<Issue> {
    let ino = e.ino(path);
    let (inode, _) = e.read_inode(ino);
    match inode.has_inline(inline::DATA) {
        true => e.shaped(ino, |inode, shape| inode.inline_area_mut(shape)[1] = 0),
        false => e.edit(e.first_block(ino).1, |block| block[1] = 0),
    }
    vec![Issue::SymlinkTarget { ino, reason: format!("a NUL as its byte 1 of {}", inode.size()) }]
}

fn special_blocks(e: &Editor) -> Vec<Issue> {
    let (ino, device) = (e.ino("p/fifo"), e.ino("p/device"));
    e.shaped(ino, |inode, shape| inode.set_slot(shape, 0, Slot::At(Lba(5))));
    e.shaped(device, |inode, shape| inode.set_slot(shape, 1, Slot::At(Lba(5))));
    let mode = e.read_inode(ino).0.mode();
    vec![Issue::SpecialBlocks { ino, mode, blocks: 1 }]
}

/// What the loss of a file's first block brings with it.
fn lose_first_block(e: &Editor, ino: Ino, instead: Slot) -> (u16, Issue) {
    let (slot, lost) = e.first_block(ino);
    e.shaped(ino, |inode, shape| {
        inode.set_slot(shape, slot, instead);
        inode.set_extent(Extent::default());
    });
    let (segno, _) = e.segment_of(lost);
    (slot, Issue::BlocksLeaked { segno, lba: lost, blocks: 1 })
}

fn slot_outside(e: &Editor) -> Vec<Issue> {
    let (ino, lba) = (e.ino("p/data"), e.image_layout().main_end());
    let (slot, leaked) = lose_first_block(e, ino, Slot::At(lba));
    vec![Issue::SlotOutside { ino, nid: ino.nid(), slot, lba }, leaked]
}

fn compress_mark(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/data");
    let (slot, leaked) = lose_first_block(e, ino, Slot::Compress);
    vec![Issue::CompressMark { ino, nid: ino.nid(), slot }, leaked]
}

fn compress_info(e: &Editor) -> Vec<Issue> {
    e.superblock(|raw| raw.feature = (raw.feature.get() | Features::COMPRESSION.bits()).into());
    let ino = e.ino("p/inline");
    e.inode(ino, |inode| {
        assert_eq!(inode.extra_isize(), 36, "Linux makes room for all attributes");
        inode.set_flags(inode.flags() | flags::COMPR);
    });
    let reason = "inode: i_log_cluster_size = 0 breaks the rule: is 2 to 8".to_owned();
    vec![Issue::CompressInfo { ino, reason }]
}

fn compressed_and_inline(e: &Editor) -> Vec<Issue> {
    e.superblock(|raw| raw.feature = (raw.feature.get() | Features::COMPRESSION.bits()).into());
    let (ino, features) = (e.ino("p/inline"), e.image().superblock().features());
    let algorithm = CompressAlgorithm::Lz4;
    let info = CompressInfo { saved_blocks: 0, algorithm, log_cluster: 2, checksum: false, level: 0 };
    let mut inline = 0;
    e.inode(ino, |inode| {
        inode.set_flags(inode.flags() | flags::COMPR);
        assert!(inode.set_compress_info(features, info), "Linux makes room for all attributes");
        inline = inode.inline_flags();
    });
    let reason = format!("inode: i_inline = {inline} breaks the rule: has no DATA in a compressed file");
    vec![Issue::CompressInfo { ino, reason }]
}

fn compressed_without_the_feature(e: &Editor) -> Vec<Issue> {
    let (ino, mut found) = (e.ino("p/data"), 0);
    e.inode(ino, |inode| {
        found = inode.flags() | flags::COMPR;
        inode.set_flags(found);
    });
    let reason = format!("inode: i_flags = {found} breaks the rule: has COMPR only with room for its fields");
    vec![Issue::CompressInfo { ino, reason }]
}
