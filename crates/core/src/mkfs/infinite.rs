//! Making an IPLFS volume. docs/INFINITE-FORMAT.md.
//!
//! The device has to be as long as the address space, which is far longer than the capacity: of a file, nearly all is
//! hole. Log space is discarded first, so that nothing is held there but what the volume wrote.

use super::contents::{Contents, FOOTER_VERSION, Starts};
use super::write::{BATCH, FIRST, WIPED, write_blocks, zero};
use super::{MkfsOptions, MkfsReport, choices, plan};
use crate::error::{Error, Result};
use steadyfs_device::{Device, PageBuf};
use steadyfs_format::block::BlockView;
use steadyfs_format::infinite::{
    ALLOWED_FEATURES, AddressSpace, Checkpoint, DiscardLog, Geometry, Head, Header, MAX_LOG_SHIFT, MIN_CAPACITY,
    MIN_LOG_SHIFT, Stretch, SuperBlock, payload_blocks, seal,
};
use steadyfs_format::mkfs_layout::MkfsLayout;
use steadyfs_format::nat::{self, NatEntry};
use steadyfs_format::node::NodeBlock;
use steadyfs_format::{
    BLOCKS_PER_SEG, Block, CpFlags, Features, Lba, Log, META_INO, NODE_INO, Pack, SegNo, Width, zeroed_block,
};

/// Base-2 logarithm of the blocks of a log, unless somebody chooses: 128 PiB a log, 1 EiB in all.
pub const DEFAULT_LOG_SHIFT: u8 = 45;
/// How far a log may run between two checkpoints, unless somebody chooses, in blocks: 1 GiB.
pub const DEFAULT_LEAP: u64 = 1 << 18;
/// Checkpoint packs must hold orphans and journal beside the NAT bitmap.
const MAX_PAYLOAD: u32 = 256;

/// What an IPLFS volume is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Infinite {
    /// Blocks that log space may hold at one time.
    pub capacity: u64,
    /// To how many a resize may raise that: the node ids suffice for these.
    pub most: u64,
    /// Base-2 logarithm of the blocks of a log.
    pub log_shift: u8,
    /// How far a log may run between two checkpoints, in blocks.
    pub leap: u64,
}

impl Infinite {
    /// The usual volume of this capacity, in blocks.
    pub fn new(capacity: u64) -> Self {
        Infinite { capacity, most: capacity, log_shift: DEFAULT_LOG_SHIFT, leap: DEFAULT_LEAP }
    }

    /// Blocks that the device has to have: log space begins at the length of one log.
    pub fn device_blocks(&self) -> u64 {
        (1 + Stretch::COUNT as u64) << self.log_shift.min(MAX_LOG_SHIFT)
    }

    fn geometry(&self, features: Features) -> Result<Geometry> {
        let length = 1u64 << self.log_shift.min(MAX_LOG_SHIFT);
        let usage = |what: String| Err(Error::Usage(what));
        if !(MIN_LOG_SHIFT..=MAX_LOG_SHIFT).contains(&self.log_shift) {
            return usage(format!("a log has 2^{MIN_LOG_SHIFT} to 2^{MAX_LOG_SHIFT} blocks"));
        }
        if self.capacity < MIN_CAPACITY || self.capacity > length {
            return usage(format!("the capacity is {MIN_CAPACITY} to {length} blocks of 4096 bytes"));
        }
        if self.leap == 0 || self.leap > length / 4 {
            return usage(format!("a log may run 1 to {} blocks between checkpoints", length / 4));
        }
        let Some(space) = AddressSpace::new(Lba(length), self.log_shift) else {
            return usage("log space does not end below 2^61 blocks".to_owned());
        };
        let nat_segments = 2 * nat_pairs(self.capacity.max(self.most.min(length)));
        Ok(Geometry { nat_segments, space, capacity: self.capacity, leap: self.leap, features })
    }
}

/// Pairs of NAT segments with one node id for each block of the capacity, as far as a pack holds their bitmap.
fn nat_pairs(capacity: u64) -> u32 {
    let per_pair = u64::from(BLOCKS_PER_SEG) * Width::Eight.nat_entries() as u64;
    let wanted = capacity.div_ceil(per_pair).min(u64::from(u32::MAX) / per_pair).max(1) as u32;
    let fits = |pairs: &u32| payload_blocks(pairs * BLOCKS_PER_SEG) <= MAX_PAYLOAD;
    let mut pairs = wanted;
    while !fits(&pairs) {
        pairs /= 2;
    }
    pairs
}

/// Makes the volume.
pub(super) fn format(dev: &dyn Device, options: &MkfsOptions, chosen: &Infinite) -> Result<MkfsReport> {
    let info = dev.info();
    let refused = options.features.difference(ALLOWED_FEATURES);
    if !refused.is_empty() {
        return Err(Error::Usage(format!("an IPLFS volume cannot have the feature {refused}")));
    }
    choices::check_features(options.features.difference(Features::INFINITE))?;
    choices::check_encoding(options)?;
    let (superblock, checkpoint, contents) = plan(options, chosen)?;
    if info.blocks < superblock.space().end().get() {
        let (has, need) = (info.blocks, superblock.space().end());
        return Err(Error::Usage(format!(
            "{} has {has} blocks of 4096 bytes, and the address space needs {need}",
            info.name
        )));
    }
    if !info.discard {
        return Err(Error::Unsupported(format!(
            "{} takes no discards: an IPLFS volume could give nothing back",
            info.name
        )));
    }
    let report = MkfsReport {
        superblock: superblock.common(),
        plan: numbers(&superblock),
        discarded: true,
        infinite: Some(*chosen),
    };
    if options.dry_run {
        return Ok(MkfsReport { discarded: false, ..report });
    }
    if info.read_only {
        return Err(Error::ReadOnly(format!("{} cannot be written", info.name)));
    }
    write(dev, &superblock, checkpoint, &contents)?;
    Ok(report)
}

/// What people ask of a new volume.
fn numbers(superblock: &SuperBlock) -> MkfsLayout {
    MkfsLayout {
        layout: *superblock.layout(),
        overprovision: 0.0,
        overprov_segments: 0,
        reserved_segments: 0,
        free_segments: 0,
        user_blocks: crate::raw::user_blocks(superblock.capacity()),
        logs: [SegNo::new(u32::MAX); Log::COUNT],
    }
}

fn plan(options: &MkfsOptions, chosen: &Infinite) -> Result<(SuperBlock, Checkpoint, Contents)> {
    let mut raw = chosen.geometry(choices::effective(options.features))?.superblock();
    plan::name(&mut raw, options)?;
    raw.log_sectorsize = options.log_sector_size.into();
    raw.log_sectors_per_block = (12u32.saturating_sub(options.log_sector_size)).into();
    let bare = SuperBlock::new(raw.clone())?;
    let start = |log: Log| bare.space().range(Stretch::Of(log)).start;
    let seal = |block: &mut Block, lba: Lba| {
        NodeBlock::view_mut(block).footer.set_chain(FOOTER_VERSION, Lba(0));
        seal(block, bare.seed(), lba);
    };
    let (data, nodes) = (start(Log::HotData), start(Log::HotNode));
    let contents = Contents::build(options, &Starts { data, nodes, features: bare.features(), seal: &seal })?;
    for (slot, ino) in raw.qf_ino.iter_mut().zip(contents.quota_inos) {
        *slot = ino.map_or(0, |ino| ino.get()).into();
    }
    let superblock = SuperBlock::new(raw)?;
    let heads = Stretch::ALL.map(|stretch| {
        let taken = match stretch {
            Stretch::Of(log) => u64::from(contents.in_log(log)),
            Stretch::Meta => 0,
        };
        let next = superblock.space().range(stretch).start + taken;
        Head { next, limit: next + superblock.leap() }
    });
    let used = contents.nat.len() as u32;
    let header = Header {
        version: plan::first_version(options),
        flags: CpFlags::UMOUNT,
        pack_blocks: 0,
        orphan_blocks: 0,
        nat_journal_blocks: 0,
        valid_blocks: contents.blocks.len() as u64,
        valid_nodes: used,
        valid_inodes: used,
        next_free_nid: contents.next_nid,
        elapsed: 0,
        kbytes_written: 0,
        discard_log: DiscardLog::default(),
        heads,
    };
    let nat_bitmap = vec![0; superblock.layout().nat_bitmap_bytes()];
    let checkpoint = Checkpoint { header, nat_bitmap, orphans: Vec::new(), nat_journal: Vec::new() };
    Ok((superblock, checkpoint, contents))
}

/// Writes everything; the superblocks last.
fn write(dev: &dyn Device, superblock: &SuperBlock, mut checkpoint: Checkpoint, contents: &Contents) -> Result<()> {
    let layout = superblock.layout();
    // First of all, what is there now ceases to be a volume.
    zero(dev, Lba(0), FIRST)?;
    dev.flush()?;
    dev.discard(0, superblock.space().end().get())?;
    clear(dev, Lba(FIRST), layout.segment0.get().min(WIPED) - FIRST)?;
    for pack in Pack::BOTH {
        clear(dev, layout.pack(pack), u64::from(BLOCKS_PER_SEG))?;
    }
    for block in (0..layout.nat_blocks()).step_by(BLOCKS_PER_SEG as usize) {
        clear(dev, layout.nat_block_lba(block, false), u64::from(BLOCKS_PER_SEG))?;
    }
    let mut first_ids = zeroed_block();
    for nid in [NODE_INO.nid(), META_INO.nid()] {
        nat::set_entry(&mut first_ids, Width::Eight, nid.index(), NatEntry::reserved(nid));
    }
    for &(nid, entry) in &contents.nat {
        nat::set_entry(&mut first_ids, Width::Eight, nid.index(), entry);
    }
    write_blocks(dev, layout.nat_block_lba(0, false), &[first_ids])?;
    for (lba, block) in &contents.blocks {
        write_blocks(dev, *lba, &[*block])?;
    }
    dev.flush()?;
    // Both packs say the same, so that from the beginning a damaged one is a loss, and there is another.
    for pack in [Pack::Two, Pack::One] {
        write_blocks(dev, layout.pack(pack), &checkpoint.encode(superblock, pack)?)?;
        checkpoint.header.version += 1;
    }
    dev.flush()?;
    let block = superblock.encode();
    write_blocks(dev, Lba(1), &[block])?;
    write_blocks(dev, Lba(0), &[block])?;
    dev.flush()?;
    Ok(())
}

/// Sees to it that blocks are zero. Most devices have done so with the discard; a hole that is written would take room.
fn clear(dev: &dyn Device, start: Lba, count: u64) -> Result<()> {
    for done in (0..count).step_by(BATCH as usize) {
        let (lba, some) = (start + done, BATCH.min(count - done));
        let is_clear = dev.read(lba.get(), some)?.iter().all(PageBuf::is_zero);
        if !is_clear {
            zero(dev, lba, some)?;
        }
    }
    Ok(())
}
