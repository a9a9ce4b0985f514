//! Changes to a sound volume: the input lists them, each aimed at a field of a structure, at a byte, or at a whole
//! block.
//!
//! Checksums are made right afterwards, unless the input says otherwise, and the second header of a checkpoint pack
//! follows the first: without that, nearly every change would end at a checksum and nothing behind it would be tested.

use super::base::Base;
use super::fields::{self, Field};
use crate::input::Input;
use crate::mutate::AWKWARD;
use crate::parsers::{checkpoint, superblock};
use std::collections::{BTreeMap, BTreeSet};
use steadyfs_device::{Device, MemDevice, PageBuf};
use steadyfs_format::block::BlockView;
use steadyfs_format::checkpoint::CheckpointHeader;
use steadyfs_format::crc::crc_magic;
use steadyfs_format::inode::Inode;
use steadyfs_format::node::{NodeBlock, NodeKind, NodeOfs};
use steadyfs_format::{Block, Nid, bitmap};

/// Most changes to one volume.
const MOST: usize = 24;

/// Blocks that are being changed, by address.
struct Patch<'a> {
    base: &'a Base,
    device: &'a MemDevice,
    /// Keep counters and counts consistent where a change touches them.
    deep: bool,
    blocks: BTreeMap<u64, Block>,
}

/// Makes the changes that the input lists, until it is used up. Returns the addresses of the blocks that changed.
pub(crate) fn apply(base: &Base, device: &MemDevice, input: &mut Input<'_>) -> BTreeSet<u64> {
    if input.is_empty() {
        return BTreeSet::new();
    }
    let how = input.u8();
    let raw = how.is_multiple_of(16);
    // Most volumes are to pass the checks of a mount: few changes, none where the first look goes.
    let deep = !how.is_multiple_of(4);
    let mut patch = Patch { base, device, deep, blocks: BTreeMap::new() };
    for _ in 0..if deep { 1 + how as usize % 6 } else { MOST } {
        // Mounted targets read on: what follows a zero is theirs.
        match input.u8() {
            0 => break,
            kind => patch.change(if deep { 3 + kind % 14 } else { kind }, input),
        }
    }
    if !raw {
        patch.repair();
    }
    for (&lba, block) in &patch.blocks {
        device.write(lba, vec![PageBuf::from_slice(block)]).expect("in range");
    }
    patch.blocks.into_keys().collect()
}

impl Patch<'_> {
    fn block(&mut self, lba: u64) -> &mut Block {
        let device = self.device;
        self.blocks.entry(lba).or_insert_with(|| *device.read_one(lba).expect("in range").to_array())
    }

    fn change(&mut self, kind: u8, input: &mut Input<'_>) {
        let base = self.base;
        match kind % 16 {
            0 => self.field(u64::from(input.u8() & 1), 0, fields::SUPERBLOCK, input),
            1 | 2 => self.field(base.pack_start, 0, fields::HEADER, input),
            3 | 4 => self.nat(input),
            5 | 6 => self.sit(input),
            7 => self.summary(input),
            8 if !self.deep => self.journal(input),
            9 | 10 => self.inode(input),
            11 => self.node(input),
            12 => self.dentry(input),
            13 => self.xattr(input),
            14 if !base.clusters.is_empty() => self.cluster(input),
            14 => self.copy(input),
            _ => self.bytes(input),
        }
    }

    /// A field of a structure that begins at `at` of a block.
    fn field(&mut self, lba: u64, at: usize, fields: &[Field], input: &mut Input<'_>) {
        let Some(&(offset, width)) = input.pick(fields) else { return };
        self.number(lba, at + offset, width, input);
    }

    /// Changes a number of `width` bytes.
    fn number(&mut self, lba: u64, at: usize, width: usize, input: &mut Input<'_>) {
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(&self.block(lba)[at..at + width]);
        let value = self.value(u64::from_le_bytes(wide), width, input);
        self.block(lba)[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }

    /// A new value for a number: near the old one, awkward, or one that means something elsewhere.
    fn value(&self, old: u64, width: usize, input: &mut Input<'_>) -> u64 {
        let base = self.base;
        let node = |input: &mut Input<'_>| base.nodes[input.u16() as usize % base.nodes.len()];
        match input.u8() % 12 {
            0 | 1 => AWKWARD[input.below(AWKWARD.len())],
            2 => old.wrapping_add(1 + u64::from(input.u8() % 4)),
            3 => old.wrapping_sub(1 + u64::from(input.u8() % 4)),
            4 => old ^ 1 << (input.u8() as usize % (8 * width)),
            5 => u64::from(node(input).nid.get()),
            6 => node(input).lba,
            7 => base.layout.main.get() + u64::from(input.u32()) % base.layout.main_blocks(),
            8 => u64::from(input.u32()) % base.layout.main.get(),
            9 => u64::from(base.layout.max_nid().get()) + u64::from(input.u8() % 3) - 1,
            10 => base.layout.main_end().get() + u64::from(input.u8() % 3) - 1,
            _ => input.u64(),
        }
    }

    fn nat(&mut self, input: &mut Input<'_>) {
        let base = self.base;
        let journal = base.journal_nids();
        let nid = match input.u8() % 8 {
            0 => Nid(input.u32() % base.layout.max_nid().get()),
            1 => Nid(u32::from(input.u8() % 8)),
            _ => base.nodes[input.u16() as usize % base.nodes.len()].nid,
        };
        let (lba, at) = match journal.iter().position(|other| *other == nid) {
            Some(index) => (base.pack_start + u64::from(base.pack.data_summaries.start), {
                let start = if base.compact { 0 } else { 3584 };
                start + 2 + index * 13 + 4
            }),
            None => base.nat_place(nid),
        };
        self.field(lba, at, fields::NAT, input);
    }

    fn sit(&mut self, input: &mut Input<'_>) {
        let base = self.base;
        let segment = input.u32() as usize % base.sit_places.len();
        let journal = base.journal_segments();
        let (lba, at) = match journal.iter().position(|other| *other as usize == segment) {
            Some(index) => self.sit_journal_place(index),
            None => base.sit_places[segment],
        };
        if input.bool() && !self.deep {
            return self.field(lba, at, fields::SIT, input);
        }
        // Flip blocks and keep the count right, so that only the rest of the volume can tell.
        let from = input.u16() as usize % 512;
        let count = (1 + usize::from(input.u8() % 32)).min(512 - from);
        let valid = input.bool();
        let block = self.block(lba);
        let map = &mut block[at + 2..at + 66];
        let before = bitmap::count_ones(map);
        bitmap::msb::fill(map, from, count, valid);
        let ones = bitmap::count_ones(map);
        let kind = u16::from_le_bytes([block[at], block[at + 1]]) & !0x3FF;
        block[at..at + 2].copy_from_slice(&(kind | ones as u16).to_le_bytes());
        if self.deep {
            self.count(i64::from(ones) - i64::from(before), kind >> 10 >= 3);
        }
    }

    /// Adds to the counters of the checkpoint what segments gained or lost.
    fn count(&mut self, gained: i64, nodes: bool) {
        let header = CheckpointHeader::view_mut(self.block(self.base.pack_start));
        header.set_valid_blocks(header.valid_blocks().saturating_add_signed(gained));
        if nodes {
            header.set_valid_nodes(header.valid_nodes().saturating_add_signed(gained as i32));
        }
    }

    /// The SIT journal is in the cold-data summary, or behind the NAT journal in the compact form.
    fn sit_journal_place(&self, index: usize) -> (u64, usize) {
        let first = self.base.pack_start + u64::from(self.base.pack.data_summaries.start);
        let (lba, start) = if self.base.compact { (first, 507) } else { (first + 2, 3584) };
        (lba, start + 2 + index * 78 + 4)
    }

    fn summary(&mut self, input: &mut Input<'_>) {
        let base = self.base;
        let summaries = base.pack.data_summaries.start..base.pack.last;
        let (lba, start) = match input.u8() % 3 {
            0 => {
                let block = summaries.start + input.u8() as u32 % summaries.len() as u32;
                (base.pack_start + u64::from(block), if base.compact { 1014 } else { 0 })
            }
            _ => (base.layout.ssa.get() + u64::from(input.u32() % base.layout.main_segments), 0),
        };
        if input.u8().is_multiple_of(8) {
            return self.number(lba, 4091, 1, input);
        }
        let entry = input.u16() as usize % 430;
        self.field(lba, start + entry * 7, fields::SUMMARY, input);
    }

    /// Counts and ids of the journals, and the orphan blocks.
    fn journal(&mut self, input: &mut Input<'_>) {
        let base = self.base;
        let first = base.pack_start + u64::from(base.pack.data_summaries.start);
        let (nat, sit) = if base.compact { ((first, 0), (first, 507)) } else { ((first, 3584), (first + 2, 3584)) };
        match input.u8() % 6 {
            0 => self.number(nat.0, nat.1, 2, input),
            1 => self.number(sit.0, sit.1, 2, input),
            2 => self.number(nat.0, nat.1 + 2 + 13 * (input.u8() as usize % 38), 4, input),
            3 => self.number(sit.0, sit.1 + 2 + 78 * (input.u8() as usize % 6), 4, input),
            4 if !base.pack.orphans.is_empty() => {
                let block = base.pack.orphans.start + input.u8() as u32 % base.pack.orphans.len() as u32;
                let at = [0, 4, 8, 40, 4084, 4088, 4088][input.below(7)];
                self.number(base.pack_start + u64::from(block), at, 4, input);
            }
            // The statistic in the hot-node summary, if there is one.
            _ if base.pack.node_summaries.is_empty() => self.number(nat.0, nat.1, 1, input),
            _ => self.number(base.pack_start + u64::from(base.pack.node_summaries.start), 3586, 8, input),
        }
    }

    fn inode(&mut self, input: &mut Input<'_>) {
        let base = self.base;
        let inode = base.nodes[base.inodes[input.u16() as usize % base.inodes.len()]];
        match input.u8() % 8 {
            0 => self.field(inode.lba, 0, fields::FOOTER, input),
            1 | 2 => self.number(inode.lba, 360 + 4 * (input.u16() as usize % 923), 4, input),
            _ => self.field(inode.lba, 0, fields::INODE, input),
        }
    }

    /// A node that is no inode, if the volume has one.
    fn node(&mut self, input: &mut Input<'_>) {
        let base = self.base;
        let others: Vec<u64> = base.nodes.iter().filter(|n| n.kind != NodeKind::Inode).map(|n| n.lba).collect();
        let Some(&lba) = others.get(input.u16() as usize % others.len().max(1)) else { return };
        match input.u8() % 3 {
            0 => self.field(lba, 0, fields::FOOTER, input),
            1 => self.number(lba, 4 * (input.u16() as usize % 8), 4, input),
            _ => self.number(lba, 4 * (input.u16() as usize % 1018), 4, input),
        }
    }

    /// A record, or a byte of the bitmap or of a name, of a dentry block or of an inline directory.
    fn dentry(&mut self, input: &mut Input<'_>) {
        let base = self.base;
        let slot = usize::from(input.u8());
        let dirs: Vec<u64> = base.nodes.iter().filter(|n| n.dir).map(|n| n.lba).collect();
        let in_block = input.bool() && !base.dentry_blocks.is_empty();
        let (lba, bits, records, names) = if in_block {
            (base.dentry_blocks[input.u16() as usize % base.dentry_blocks.len()], 0, 30, 2384)
        } else {
            // Inline directories of full extra attributes and 50 words; on others it is some place nearby.
            (dirs[input.u16() as usize % dirs.len()], 400, 432, 2412)
        };
        match input.u8() % 4 {
            0 => self.number(lba, bits + slot % 22, 1, input),
            1 => self.number(lba, names + slot % 180 * 8, 1, input),
            _ => self.field(lba, records + slot % 60 * 11, fields::DENTRY, input),
        }
    }

    /// The inline area of an inode, or an xattr node.
    fn xattr(&mut self, input: &mut Input<'_>) {
        let base = self.base;
        let nodes: Vec<u64> = base.nodes.iter().filter(|n| n.kind == NodeKind::Xattr).map(|n| n.lba).collect();
        match nodes.get(input.u16() as usize % nodes.len().max(1)) {
            Some(&lba) if input.bool() => self.field(lba, 4 * usize::from(input.u8() % 8), fields::XATTR, input),
            _ => {
                let inode = base.nodes[base.inodes[input.u16() as usize % base.inodes.len()]];
                self.field(inode.lba, 4052 - 200 + 4 * usize::from(input.u8() % 8), fields::XATTR, input);
            }
        }
    }

    /// Bytes of a compressed cluster: of its head, its first instructions, or anywhere.
    fn cluster(&mut self, input: &mut Input<'_>) {
        let base = self.base;
        let cluster = &base.clusters[input.u16() as usize % base.clusters.len()];
        let mut bytes: Vec<u8> = cluster.iter().flat_map(|lba| *self.block(*lba)).collect();
        for _ in 0..1 + input.u8() % 4 {
            let within = [24, 64, bytes.len()][input.below(3)];
            let at = input.u16() as usize % within;
            match input.u8() % 4 {
                0 => bytes[at] = AWKWARD[input.below(AWKWARD.len())] as u8,
                1 => bytes[at] ^= 1 << (input.u8() % 8),
                _ => bytes[at] = input.u8(),
            }
        }
        let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        if let Some(data) = bytes.get(24..24usize.saturating_add(length)) {
            let sum = crc_magic(data).to_le_bytes();
            bytes[4..8].copy_from_slice(&sum);
        }
        for (lba, part) in cluster.iter().zip(bytes.chunks_exact(4096)) {
            self.block(*lba).copy_from_slice(part);
        }
    }

    /// One node in the place of another, or an inode's number given to another block.
    fn copy(&mut self, input: &mut Input<'_>) {
        let base = self.base;
        let pick = |input: &mut Input<'_>| base.nodes[input.u16() as usize % base.nodes.len()];
        let (from, to) = (pick(input), pick(input));
        let source = *self.block(from.lba);
        let keep_footer = input.bool();
        let target = self.block(to.lba);
        let footer = NodeBlock::view(target).footer;
        *target = source;
        if keep_footer {
            NodeBlock::view_mut(target).footer = footer;
        }
    }

    /// Bytes of any block.
    fn bytes(&mut self, input: &mut Input<'_>) {
        let base = self.base;
        let end = base.layout.main_end().get();
        let lba = match input.u8() % 4 {
            0 => u64::from(input.u32()) % end,
            _ if self.deep => base.nodes[input.u16() as usize % base.nodes.len()].lba,
            1 => base.pack_start + u64::from(input.u16() % 512),
            2 => base.nodes[input.u16() as usize % base.nodes.len()].lba,
            _ => u64::from(input.u32()) % base.layout.main.get(),
        };
        let at = input.u16() as usize % 4096;
        let count = 1 + usize::from(input.u8() % 8);
        let bytes = input.take(count);
        let length = bytes.len().min(4096 - at);
        self.block(lba)[at..at + length].copy_from_slice(&bytes[..length]);
    }

    /// Makes the checksums of everything that was changed right.
    fn repair(&mut self) {
        let base = self.base;
        for (&lba, block) in &mut self.blocks {
            if lba < 2 {
                superblock::repair_checksum(&mut block[1024..]);
            } else if NodeBlock::view(block).footer.ofs() == NodeOfs::INODE && base.layout.main.get() <= lba {
                Inode::view_mut(block).update_checksum(base.features, base.seed);
            }
        }
        if self.blocks.contains_key(&base.pack_start) {
            let header = self.block(base.pack_start);
            checkpoint::seal(header);
            let header = *header;
            let last = u64::from(u32::from_le_bytes([header[136], header[137], header[138], header[139]]));
            let last = if (1..=512).contains(&last) { last - 1 } else { u64::from(base.pack.last) };
            *self.block(base.pack_start + last) = header;
        }
    }
}
