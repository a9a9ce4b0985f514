//! A volume as it lies on the device: superblock, checkpoint, tables and nodes, each read when it is asked for.
//!
//! For the commands that show what is on a volume, also a damaged one: nothing is mounted, nothing is written, and a structure that
//! breaks the format is an error only for whoever needs it.

use std::path::Path;
use std::sync::Arc;

use steadyfs_device::Device;
use steadyfs_format::block::BlockView;
use steadyfs_format::checkpoint::{
    Checkpoint, CpFlags, choose_pack, decode_data_summaries, last_block_of, pack_version,
};
use steadyfs_format::nat::{NatBlock, NatEntry};
use steadyfs_format::orphan::decode_orphans;
use steadyfs_format::sit::{SitBlock, SitEntry};
use steadyfs_format::summary::SummaryBlock;
use steadyfs_format::{Block, FormatError, Ino, Layout, Lba, Nid, Pack, SegNo, SuperBlock};

use crate::failure::Failure;
use crate::image::{self, ImageArgs};

/// A device that should hold a volume.
pub(crate) struct RawDevice {
    device: Arc<dyn Device>,
    name: String,
}

impl RawDevice {
    /// Opens the device for reading.
    pub(crate) fn open(path: &Path, args: ImageArgs) -> Result<Self, Failure> {
        Ok(RawDevice { device: image::open(path, args.for_reading())?, name: path.display().to_string() })
    }

    /// Reads one block.
    pub(crate) fn block(&self, lba: Lba) -> Result<Box<Block>, Failure> {
        match self.device.read_one(lba.get()) {
            Ok(page) => Ok(page.to_array()),
            Err(e) => Err(self.cannot_read(format!("block {lba}"), e, "check that the image is complete")),
        }
    }

    /// Blocks of the device.
    pub(crate) fn blocks(&self) -> u64 {
        self.device.info().blocks
    }

    fn cannot_read(&self, what: impl std::fmt::Display, why: impl std::fmt::Display, hint: &str) -> Failure {
        Failure::new(format!("cannot read {what} of {}", self.name), why, hint)
    }

    /// A structure that breaks the format.
    pub(crate) fn damaged(&self, what: impl std::fmt::Display, e: &FormatError) -> Failure {
        self.cannot_read(what, e, "check the volume with fsck")
    }

    /// The superblock: copy 0, or copy 1 if that one is broken; and which of them it is.
    pub(crate) fn superblock(&self) -> Result<(SuperBlock, u32), Failure> {
        let first = match SuperBlock::parse(&*self.block(Lba(0))?) {
            Ok(superblock) => return Ok((superblock, 0)),
            Err(e) => e,
        };
        match (SuperBlock::parse(&*self.block(Lba(1))?), &first) {
            (Ok(superblock), _) => Ok((superblock, 1)),
            (Err(FormatError::Magic { .. }), FormatError::Magic { .. }) => Err(self.cannot_read(
                "the superblock",
                "there is no F2FS volume",
                "check the file and --offset, or make a volume with mkfs",
            )),
            // The copy that at least has the magic says more.
            (Err(second), FormatError::Magic { .. }) => Err(self.damaged("the superblock", &second)),
            (Err(_), _) => Err(self.damaged("the superblock", &first)),
        }
    }
}

/// A volume whose superblock and checkpoint could be read.
pub(crate) struct RawVolume {
    pub(crate) device: RawDevice,
    pub(crate) superblock: SuperBlock,
    /// Which copy of the superblock was used.
    pub(crate) superblock_copy: u32,
    /// The pack in force.
    pub(crate) pack: Pack,
    pub(crate) checkpoint: Checkpoint,
    /// Summaries of the data logs, with the NAT journal in the first and the SIT journal in the last.
    summaries: [SummaryBlock; 3],
}

/// Where a table entry was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// In the journal of the checkpoint, which overrules the table.
    Journal,
    /// In this block of the table.
    Block(Lba),
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Found::Journal => f.write_str("journal"),
            Found::Block(lba) => write!(f, "block {lba}"),
        }
    }
}

impl RawVolume {
    /// Opens the device and reads superblock and checkpoint.
    pub(crate) fn open(path: &Path, args: ImageArgs) -> Result<Self, Failure> {
        let device = RawDevice::open(path, args)?;
        let (superblock, superblock_copy) = device.superblock()?;
        let layout = *superblock.layout();
        let versions = Pack::BOTH.map(|pack| version_of(&device, &layout, pack));
        let [one, two] = versions;
        let pack = choose_pack(one?, two?).map_err(|e| device.damaged("the checkpoint", &e))?;
        let start = layout.pack(pack);
        let payload = (1..=layout.cp_payload)
            .map(|n| device.block(start + u64::from(n)).map(|b| *b))
            .collect::<Result<Vec<_>, _>>()?;
        let checkpoint = Checkpoint::parse(&layout, &*device.block(start)?, &payload)
            .map_err(|e| device.damaged("the checkpoint", &e))?;
        let blocks = read_range(&device, start, checkpoint.pack_map().data_summaries)?;
        let compact = checkpoint.header().flags().contains(CpFlags::COMPACT_SUM);
        let summaries = decode_data_summaries(&blocks, compact, checkpoint.data_logs())
            .map_err(|e| device.damaged("the summaries of the checkpoint", &e))?;
        Ok(RawVolume { device, superblock, superblock_copy, pack, checkpoint, summaries })
    }

    pub(crate) fn layout(&self) -> &Layout {
        self.superblock.layout()
    }

    /// Entries of the NAT journal.
    pub(crate) fn nat_journal(&self) -> Result<Vec<(Nid, NatEntry)>, Failure> {
        self.summaries[0].journal.nat().map_err(|e| self.device.damaged("the NAT journal", &e))
    }

    /// Entries of the SIT journal.
    pub(crate) fn sit_journal(&self) -> Result<Vec<(SegNo, SitEntry)>, Failure> {
        self.summaries[2].journal.sit().map_err(|e| self.device.damaged("the SIT journal", &e))
    }

    /// Inodes that were open without a name when the checkpoint was written.
    pub(crate) fn orphans(&self) -> Result<Vec<Ino>, Failure> {
        let blocks = read_range(&self.device, self.layout().pack(self.pack), self.checkpoint.pack_map().orphans)?;
        decode_orphans(&blocks).map_err(|e| self.device.damaged("the orphans of the checkpoint", &e))
    }

    /// The NAT entry of a node id.
    pub(crate) fn nat(&self, nid: Nid) -> Result<(NatEntry, Found), Failure> {
        if nid >= self.layout().max_nid() {
            let why = format!("the volume has node ids below {}", self.layout().max_nid());
            return Err(Failure::new(format!("there is no node id {nid}"), why, "give a smaller number"));
        }
        if let Some((_, entry)) = self.nat_journal()?.into_iter().find(|(id, _)| *id == nid) {
            return Ok((entry, Found::Journal));
        }
        let (block, index) = self.layout().nat_place(nid);
        let lba = self.layout().nat_block_lba(block, self.checkpoint.nat_copy(block));
        Ok((NatBlock::view(&*self.device.block(lba)?).get(index), Found::Block(lba)))
    }

    /// The SIT entry of a main segment.
    pub(crate) fn sit(&self, segment: SegNo) -> Result<(SitEntry, Found), Failure> {
        self.check_segment(segment)?;
        if let Some((_, entry)) = self.sit_journal()?.into_iter().find(|(number, _)| *number == segment) {
            return Ok((entry, Found::Journal));
        }
        let (block, index) = self.layout().sit_place(segment);
        let lba = self.layout().sit_block_lba(block, self.checkpoint.sit_copy(block));
        Ok((*SitBlock::view(&*self.device.block(lba)?).get(index), Found::Block(lba)))
    }

    /// Refuses a segment number that the main area does not have.
    pub(crate) fn check_segment(&self, segment: SegNo) -> Result<(), Failure> {
        let count = self.layout().main_segments;
        if segment.get() < count {
            return Ok(());
        }
        let why = format!("the main area has segments 0 to {}", count - 1);
        Err(Failure::new(format!("there is no segment {segment}"), why, "give a smaller number"))
    }

    /// The block of a node, by the NAT.
    pub(crate) fn node(&self, nid: Nid) -> Result<(Lba, Box<Block>), Failure> {
        let (entry, _) = self.nat(nid)?;
        if entry.is_free() {
            return Err(Failure::new(
                format!("there is no node {nid}"),
                "its entry in the NAT is free",
                "list inodes with `steadyfs ls -i`",
            ));
        }
        if !self.layout().in_main(entry.lba) {
            let why = format!("the NAT says block {}, which lies outside the main area", entry.lba);
            return Err(self.device.cannot_read(format!("node {nid}"), why, "check the volume with fsck"));
        }
        Ok((entry.lba, self.device.block(entry.lba)?))
    }
}

/// The version of a pack, or what is wrong with it; only a device that cannot be read at all is a failure.
fn version_of(device: &RawDevice, layout: &Layout, pack: Pack) -> Result<Result<u64, FormatError>, Failure> {
    let start = layout.pack(pack);
    let first = device.block(start)?;
    let last = match last_block_of(&first) {
        Ok(last) => device.block(start + u64::from(last))?,
        Err(e) => return Ok(Err(e)),
    };
    Ok(pack_version(&first, &last))
}

fn read_range(device: &RawDevice, start: Lba, range: std::ops::Range<u32>) -> Result<Vec<Block>, Failure> {
    range.map(|n| device.block(start + u64::from(n)).map(|block| *block)).collect()
}
