//! Writing the volume, in an order that never leaves a half-made one that looks whole.

use super::MkfsOptions;
use super::plan::Plan;
use super::zoned;
use crate::error::Result;
use steadyfs_device::{Device, Op, PageBuf, StreamHint};
use steadyfs_format::block::BlockView;
use steadyfs_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Block, Lba, Log, Pack};

/// Blocks in one write of zeros.
pub(super) const BATCH: u64 = 512;
/// Blocks in one discard.
const DISCARD_BATCH: u64 = 1 << 18;
/// The first block behind both superblocks.
pub(super) const FIRST: u64 = 2;
/// Where foreign signatures may lie that tools would find beside ours: the first 2 MiB.
pub(super) const WIPED: u64 = BLOCKS_PER_SEG as u64;

/// Writes everything; the superblocks last. Returns whether the device was discarded.
pub(super) fn write(dev: &dyn Device, plan: &Plan, options: &MkfsOptions, blocks: u64) -> Result<bool> {
    let layout = &plan.layout.layout;
    // First of all, what is there now ceases to be a volume.
    zero(dev, Lba(0), FIRST)?;
    dev.flush()?;
    let anywhere = zoned::anywhere(dev, blocks);
    let discarded = (options.discard || options.migrating.is_some()) && discard(dev, anywhere);
    zoned::reset(dev)?;
    zero(dev, Lba(FIRST), layout.segment0.get().min(WIPED) - FIRST)?;
    clear(dev, layout.sit, u64::from(layout.sit_blocks()))?;
    for block in (0..layout.nat_blocks()).step_by(BLOCKS_PER_SEG as usize) {
        clear(dev, layout.nat_block_lba(block, false), u64::from(BLOCKS_PER_SEG))?;
    }
    // A node that an older volume left where the roll-forward chain begins must not be followed.
    // A D2FS device writes a block of a log once, and has just forgotten what was there; so has an empty zone.
    let chain = layout.lba_of(plan.layout.logs[Log::WarmNode.index()], 0);
    if options.migrating.is_none() && chain.get() < anywhere {
        zero(dev, chain, 1)?;
    }

    write_blocks(dev, layout.nat_block_lba(0, false), &[plan.nat.to_block()])?;
    for (lba, block) in &plan.blocks {
        let hint = match layout.seg_of(*lba) {
            Some((seg, _)) if options.migrating.is_some() && seg == plan.layout.logs[Log::HotNode.index()] => {
                StreamHint::NodeHot
            }
            Some(_) if options.migrating.is_some() => StreamHint::DataHot,
            _ => StreamHint::MetaCold,
        };
        write_pages(dev, *lba, vec![PageBuf::from_slice(block)], hint)?;
    }
    let [first, second, nat_bits] = plan.tables.packs(discarded)?;
    write_blocks(dev, layout.pack(Pack::Two), &second)?;
    write_blocks(dev, layout.pack(Pack::One), &first)?;
    write_blocks(dev, layout.nat_bits_lba(Pack::One), &nat_bits)?;
    dev.flush()?;

    let superblock = plan.superblock.encode();
    write_blocks(dev, Lba(1), &[superblock])?;
    write_blocks(dev, Lba(0), &[superblock])?;
    dev.flush()?;
    Ok(discarded)
}

/// Discards everything; `false` if the device does not know how, or fails: a volume does not depend on it.
fn discard(dev: &dyn Device, blocks: u64) -> bool {
    let mut starts = (0..blocks).step_by(DISCARD_BATCH as usize);
    dev.info().discard && starts.all(|start| dev.discard(start, DISCARD_BATCH.min(blocks - start)).is_ok())
}

/// Has blocks read as zeros. Those that the device keeps nothing for do so already, as in the holes of a file: zeros
/// there would only take room.
fn clear(dev: &dyn Device, from: Lba, count: u64) -> Result<()> {
    let (mut next, end) = (from.get(), from.get() + count);
    while next < end {
        let held = match dev.held_from(next) {
            Ok(Some(run)) => run.start.min(end)..run.end.min(end),
            Ok(None) => return Ok(()),
            // It does not tell.
            Err(_) => next..end,
        };
        zero(dev, Lba(held.start), held.end - held.start)?;
        next = held.end;
    }
    Ok(())
}

pub(super) fn zero(dev: &dyn Device, from: Lba, count: u64) -> Result<()> {
    for start in (0..count).step_by(BATCH as usize) {
        let pages = vec![PageBuf::zeroed(); BATCH.min(count - start) as usize];
        write_pages(dev, from + start, pages, StreamHint::MetaCold)?;
    }
    Ok(())
}

pub(super) fn write_blocks(dev: &dyn Device, from: Lba, blocks: &[Block]) -> Result<()> {
    write_pages(dev, from, blocks.iter().map(|block| PageBuf::from_slice(block)).collect(), StreamHint::MetaCold)
}

fn write_pages(dev: &dyn Device, from: Lba, pages: Vec<PageBuf>, hint: StreamHint) -> Result<()> {
    dev.run(Op::Write { block: from.get(), pages, hint, fua: false })?;
    Ok(())
}

const _: () = assert!(steadyfs_device::BLOCK_SIZE == BLOCK_SIZE);
