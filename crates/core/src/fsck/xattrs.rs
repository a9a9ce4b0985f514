//! Extended attributes: the list in the inode, or in the inode and its xattr node together.

use super::context::Context;
use super::issue::Issue;
use std::collections::HashSet;
use steadyfs_device::is_zero;
use steadyfs_format::Ino;
use steadyfs_format::block::{Block, BlockView};
use steadyfs_format::inode::Inode;
use steadyfs_format::node::NODE_PAYLOAD;
use steadyfs_format::xattr::{Acl, index};

const MAGIC: u32 = 0xF2F5_2011;
/// Bytes of the list's header.
const HEADER: usize = 24;
/// Bytes of an entry before its name.
const ENTRY: usize = 4;

/// Checks the attributes of an inode with an xattr node. Reads the inode again: the list may straddle the two.
pub(super) fn check_with_node(ctx: &Context, ino: Ino, node: &Block) {
    let Some(entry) = ctx.nids.get(ino.nid()) else { return };
    let inode = match ctx.image.read_block(entry.lba) {
        Ok(inode) => inode,
        Err(error) => return ctx.add(Issue::ReadFailed { lba: entry.lba, reason: error.to_string() }),
    };
    inode.with(|bytes| {
        let inode = Inode::view(bytes);
        // An inode that cannot be laid out was reported and names no node.
        let Ok(shape) = inode.shape(ctx.features) else { return };
        let area = [inode.xattr_area(shape), &node[..NODE_PAYLOAD]].concat();
        check_area(ctx, ino, &area);
    });
}

/// Checks a list from its first to its last byte.
pub(super) fn check_area(ctx: &Context, ino: Ino, area: &[u8]) {
    let magic = word(area, 0);
    if magic != MAGIC {
        if !is_zero(area) {
            ctx.add(Issue::XattrMagic { ino, found: magic });
        }
        return;
    }
    let mut names = HashSet::new();
    let mut at = HEADER;
    while word(area, at) != 0 {
        let offset = at as u32;
        let Some(entry) = Entry::at(area, at) else {
            return ctx.add(Issue::XattrOverrun { ino, offset });
        };
        check_entry(ctx, ino, offset, &entry);
        if !names.insert((entry.index, entry.name)) {
            let name = String::from_utf8_lossy(entry.name).into_owned();
            ctx.add(Issue::XattrTwice { ino, offset, index: entry.index, name });
        }
        at = entry.end;
    }
    let rest = area.get(at..).unwrap_or_default();
    if !is_zero(rest) {
        let junk = rest.iter().take_while(|byte| **byte == 0).count();
        ctx.add(Issue::XattrTail { ino, offset: (at + junk) as u32 });
    }
}

fn check_entry(ctx: &Context, ino: Ino, offset: u32, entry: &Entry<'_>) {
    let is_acl = matches!(entry.index, index::POSIX_ACL_ACCESS | index::POSIX_ACL_DEFAULT);
    // Prefixes that exist: 7 (advice) is not stored, 8 and 10 were never given out.
    let known = matches!(entry.index, 1..=6 | 9 | 11);
    if !known || is_acl != entry.name.is_empty() || entry.name.contains(&0) {
        let length = entry.name.len() as u8;
        ctx.add(Issue::XattrName { ino, offset, index: entry.index, length });
    } else if is_acl && let Err(error) = Acl::from_disk(entry.value) {
        ctx.add(Issue::XattrAcl { ino, offset, reason: error.to_string() });
    }
}

/// The 32-bit word at an offset; 0, which ends a list, at the end of the area.
fn word(area: &[u8], at: usize) -> u32 {
    area.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// One attribute.
struct Entry<'a> {
    index: u8,
    name: &'a [u8],
    value: &'a [u8],
    /// Where the next one begins.
    end: usize,
}

impl<'a> Entry<'a> {
    /// The entry at an offset; `None` if it goes beyond the end of the area.
    fn at(area: &'a [u8], at: usize) -> Option<Self> {
        let [index, name_len, low, high] = *area.get(at..)?.first_chunk()?;
        let (name_len, value_len) = (usize::from(name_len), usize::from(u16::from_le_bytes([low, high])));
        let end = (at + ENTRY + name_len + value_len).next_multiple_of(4);
        let bytes = area.get(at + ENTRY..end)?;
        let (name, rest) = bytes.split_at(name_len);
        Some(Entry { index, name, value: &rest[..value_len], end })
    }
}
