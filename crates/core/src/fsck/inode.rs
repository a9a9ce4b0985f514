//! One inode block.

use super::blocks::SummaryCursor;
use super::context::Context;
use super::inodes::{Counters, InodeInfo, Inodes};
use super::issue::Issue;
use super::node::check_node;
use super::slots::{SlotOwner, check_slots};
use super::walk::{Item, JobResult, refer};
use super::xattrs;
use std::sync::atomic::Ordering::Relaxed;
use steadyfs_device::{PageBuf, is_zero};
use steadyfs_format::block::{Block, BlockView};
use steadyfs_format::dir::{FileType, MAX_DEPTH};
use steadyfs_format::inode::{Inode, InodeShape, MAX_NAME, advise, flags, inline};
use steadyfs_format::node::NodeOfs;
use steadyfs_format::{BLOCK_SIZE, Features, FormatError, Ino, PageIndex, Slot, Width};

/// Bytes of the longest target of a symbolic link.
const MAX_TARGET: u64 = 4095;

/// Names of the node ids in an inode, in their order, and the offsets of the nodes.
const CHILDREN: [(&str, NodeOfs); 5] = [
    ("i_nid[0]", NodeOfs::new(1)),
    ("i_nid[1]", NodeOfs::new(2)),
    ("i_nid[2]", NodeOfs::INDIRECT_1),
    ("i_nid[3]", NodeOfs::INDIRECT_2),
    ("i_nid[4]", NodeOfs::DOUBLE_INDIRECT),
];

/// Checks an inode: its block, its fields, what it holds itself; names the nodes below it.
pub(super) fn check(
    ctx: &Context,
    inodes: &Inodes,
    item: &Item,
    page: &PageBuf,
    cursor: &mut SummaryCursor<'_>,
    found: &mut JobResult,
) {
    let (ino, counters) = (item.nid.as_ino(), inodes.counters(item.inode));
    counters.blocks.fetch_add(1, Relaxed);
    page.with(|bytes| {
        let inode = Inode::view(bytes);
        let kind = inode.file_type();
        if !check_node(ctx, ino, item, &inode.footer, kind.map(|kind| kind == FileType::Dir), page, cursor) {
            return;
        }
        if let Err(FormatError::Checksum { stored, computed, .. }) = inode.verify_checksum(ctx.features, ctx.seed) {
            ctx.add(Issue::InodeChecksum { ino, stored, computed });
        }
        let shape = match inode.shape(ctx.features) {
            Ok(shape) => Some(shape),
            Err(error) => {
                ctx.add(Issue::InodeShape { ino, reason: error.to_string() });
                None
            }
        };
        let info = InodeInfo::new(ino, inode, shape, ctx.features);
        check_fields(ctx, ino, inode);
        if !ctx.quotas.is_empty() {
            found.quota.charge(ctx, inode);
        }
        if let Some(shape) = shape {
            check_contents(ctx, &info, counters, bytes, shape, item, cursor, found);
        }
        if info.is_dir() {
            found.dirs.push(item.inode);
        }
        inodes.learn(item.inode, info);
    });
}

/// Fields that mean the same in every inode.
fn check_fields(ctx: &Context, ino: Ino, inode: &Inode) {
    let (mode, kind) = (inode.mode(), inode.file_type());
    if kind.is_none() {
        ctx.add(Issue::InodeMode { ino, mode });
    }
    if inode.name_len() as usize > MAX_NAME {
        ctx.add(Issue::InodeNameLen { ino, found: inode.name_len() });
    }
    let nanos = [inode.atime(), inode.ctime(), inode.mtime()].map(|time| time.nanos);
    if let Some(nanos) = nanos.into_iter().find(|nanos| *nanos >= 1_000_000_000) {
        ctx.add(Issue::InodeTime { ino, nanos });
    }
    let casefold = inode.flags() & flags::CASEFOLD != 0;
    if casefold && !(inode.is_dir() && ctx.features.contains(Features::CASEFOLD)) {
        ctx.add(Issue::CasefoldFlag { ino, mode });
    }
    let pinned = inode.has_inline(inline::PIN_FILE);
    if kind == Some(FileType::Regular) && !pinned && inode.gc_failures() != 0 {
        ctx.add(Issue::GcFailures { ino, found: inode.gc_failures() });
    }
    if kind == Some(FileType::Symlink) && inode.size() == 0 && inode.blocks() > 1 {
        ctx.add(Issue::SymlinkEmpty { ino, blocks: inode.blocks() });
    }
    if inode.is_dir() && inode.current_depth() > u32::from(MAX_DEPTH) {
        ctx.add(Issue::DirDepth { ino, depth: inode.current_depth() });
    }
    let compressed = kind == Some(FileType::Regular) && inode.flags() & flags::COMPR != 0;
    if compressed && let Err(error) = inode.validate_compression(ctx.features) {
        ctx.add(Issue::CompressInfo { ino, reason: error.to_string() });
    }
}

/// What the inode holds: inline contents, a device number or addresses; nodes below it; attributes.
#[expect(clippy::too_many_arguments, reason = "one inode with everything that is known of it; called once")]
fn check_contents(
    ctx: &Context,
    info: &InodeInfo,
    counters: &Counters,
    bytes: &Block,
    shape: InodeShape,
    item: &Item,
    cursor: &mut SummaryCursor<'_>,
    found: &mut JobResult,
) {
    let (ino, inode) = (info.ino, Inode::view(bytes));
    let max = shape.addressing().max_pages() * BLOCK_SIZE as u64;
    if inode.size() > max {
        ctx.add(Issue::InodeSize { ino, size: inode.size(), max });
    }
    let is_inline = inode.inline_flags() & (inline::DATA | inline::DENTRY) != 0;
    if is_inline {
        check_inline(ctx, ino, inode, shape);
    }
    if shape.width() == Width::Eight {
        check_zeros(ctx, ino, inode, bytes, shape, is_inline);
    }
    if info.kind == Some(FileType::Symlink) {
        check_target(ctx, ino, inode, shape);
    }
    match info.kind {
        Some(FileType::CharDevice | FileType::BlockDevice) => check_special(ctx, ino, inode, shape, 2),
        Some(FileType::Fifo | FileType::Socket) => check_special(ctx, ino, inode, shape, 0),
        _ if is_inline => {}
        _ => {
            let owner = SlotOwner { info, counters, inode: item.inode, nid: item.nid, base: PageIndex(0) };
            let count = info.addressing.map_or(0, |addressing| addressing.inode_slots());
            let (start, bytes_of) = (shape.slot_range().start, shape.width().bytes());
            check_slots(ctx, &owner, &bytes[start..start + bytes_of * usize::from(count)], cursor, found);
            for ((_, ofs), child) in CHILDREN.into_iter().zip(inode.children()) {
                if !child.is_null() {
                    refer(ctx, ino, item.inode, item.nid, child, ofs, found);
                }
            }
        }
    }
    if inode.xattr_nid().is_null() {
        xattrs::check_area(ctx, ino, inode.xattr_area(shape));
    } else {
        refer(ctx, ino, item.inode, item.nid, inode.xattr_nid(), NodeOfs::XATTR, found);
    }
}

/// What wide addresses leave over, and Linux' use of which needs narrow ones (docs/INFINITE-FORMAT.md, section 6).
fn check_zeros(ctx: &Context, ino: Ino, inode: &Inode, bytes: &Block, shape: InodeShape, is_inline: bool) {
    let not_zero = |field, found: u64| {
        if found != 0 {
            ctx.add(Issue::InodeNotZero { ino, field, found });
        }
    };
    let word = |at: usize| u64::from(u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte])));
    let extent = inode.extent();
    if extent.len == 0 {
        not_zero("i_ext_fofs", extent.fofs.into());
        not_zero("i_ext_blk", extent.blk.into());
    }
    let slots = shape.slot_range();
    if matches!(inode.file_type(), Some(FileType::CharDevice | FileType::BlockDevice)) {
        not_zero("the upper half of i_addr[0]", word(slots.start + 4));
        not_zero("the upper half of i_addr[1]", word(slots.start + 12));
    }
    if !is_inline && slots.end + 4 == shape.xattr_range().start {
        not_zero("the word behind the addresses", word(slots.end));
    }
}

/// The target of a symbolic link, as far as it can be read: what cannot be one is refused by `ls -l`.
fn check_target(ctx: &Context, ino: Ino, inode: &Inode, shape: InodeShape) {
    let (size, in_inode) = (inode.size(), inode.has_inline(inline::DATA));
    // A file that was deleted while open is cut already. Of an encrypted one the stored bytes are any.
    if inode.links() == 0 || inode.advise() & advise::ENCRYPT != 0 {
        return;
    }
    let bad = |reason: String| ctx.add(Issue::SymlinkTarget { ino, reason });
    if size == 0 && inode.blocks() > 1 {
        return; // a link that leads nowhere, which was reported
    }
    if size == 0 || size > MAX_TARGET {
        return bad(format!("{size} bytes, 1 to {MAX_TARGET} can be"));
    }
    let page;
    let bytes: &[u8] = if in_inode {
        inode.inline_area(shape)
    } else {
        match inode.slot(shape, 0) {
            Slot::At(lba) if super::blocks::misplaced_data(&ctx.image, ino, ino.nid(), 0, lba).is_none() => {
                match ctx.image.read_block(lba) {
                    Ok(block) => page = block.to_array(),
                    Err(error) => return ctx.add(Issue::ReadFailed { lba, reason: error.to_string() }),
                }
                &page[..]
            }
            Slot::At(_) => return, // reported with the slot
            _ => return bad("its block was never written".to_owned()),
        }
    };
    // One that is too long for its area was reported.
    let Some(target) = bytes.get(..size as usize) else { return };
    if let Some(at) = target.iter().position(|byte| *byte == 0) {
        bad(format!("a NUL as its byte {at} of {size}"));
    }
}

/// An inode that holds its contents itself.
fn check_inline(ctx: &Context, ino: Ino, inode: &Inode, shape: InodeShape) {
    let (bits, kind, mode) = (inode.inline_flags(), inode.file_type(), inode.mode());
    let (data, dentry) = (bits & inline::DATA != 0, bits & inline::DENTRY != 0);
    let data_fits = matches!(kind, Some(FileType::Regular | FileType::Symlink)) || !data;
    let dentry_fits = kind == Some(FileType::Dir) || !dentry;
    if kind.is_some() && !(data_fits && dentry_fits) {
        return ctx.add(Issue::InlineFlags { ino, flags: bits, mode });
    }
    let first = match inode.slot(shape, 0) {
        Slot::Hole => 0,
        Slot::At(lba) => lba.get(),
        slot if shape.width() == Width::Eight => slot.to_wide(),
        slot => slot.to_disk().into(),
    };
    if first != 0 {
        ctx.add(Issue::InlineSlot { ino, field: "i_addr[0]", found: first });
    }
    for ((field, _), child) in CHILDREN.into_iter().zip(inode.children()) {
        if !child.is_null() {
            ctx.add(Issue::InlineSlot { ino, field, found: child.get().into() });
        }
    }
    if data {
        check_inline_data(ctx, ino, inode, shape);
    }
}

fn check_inline_data(ctx: &Context, ino: Ino, inode: &Inode, shape: InodeShape) {
    let (size, max) = (inode.size(), shape.inline_len() as u64);
    let area = inode.inline_area(shape);
    if size > max {
        ctx.add(Issue::InlineSize { ino, size, max });
    } else if !inode.has_inline(inline::DATA_EXIST) {
        if !is_zero(area) {
            ctx.add(Issue::InlineJunk { ino });
        }
    } else if !is_zero(&area[size as usize..]) {
        ctx.add(Issue::InlineTail { ino, size });
    }
}

/// A device, FIFO or socket: nothing behind the words of the device number, no nodes below.
fn check_special(ctx: &Context, ino: Ino, inode: &Inode, shape: InodeShape, words: usize) {
    let used = inode.slots(shape).skip(words).filter(|slot| slot.is_counted()).count();
    let nodes = inode.children().into_iter().filter(|child| !child.is_null()).count();
    if used + nodes > 0 {
        ctx.add(Issue::SpecialBlocks { ino, mode: inode.mode(), blocks: (used + nodes) as u64 });
    }
}
