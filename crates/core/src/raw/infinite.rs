//! What only an IPLFS volume has: its log space, where its logs stand, its discard log. docs/INFINITE-FORMAT.md.
//!
//! Its checkpoint is told in the form of F2FS' ([`described`]) as far as both have the same: counters, flags, the NAT's
//! selected copies. So a reader of nodes and files need not know which kind of volume it is.

use super::pack::Parts;
use super::packs::Whole;
use super::{Image, PackDamage, PackPart};
use crate::error::{Error, Result};
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::Device;
use steadyfs_format::checkpoint::{Checkpoint, CpFlags};
use steadyfs_format::infinite::{self, Claim, DiscardLogReader, Head, Header, Known, Stretch};
use steadyfs_format::{Block, FormatError, Ino, Lba, Log, Pack};

/// Blocks of a discard log that are read at once.
const AHEAD: u64 = 64;

/// The part of an IPLFS volume that no F2FS volume has.
#[derive(Clone, Debug)]
pub struct LogSpace {
    pub(super) superblock: infinite::SuperBlock,
    pub(super) header: Header,
    /// Those that are known, or why not all are.
    pub(super) orphans: Result<Vec<Ino>>,
    pub(super) claim: Option<Claim>,
    pub(super) claim_place: Lba,
}

impl LogSpace {
    /// The superblock.
    pub fn superblock(&self) -> &infinite::SuperBlock {
        &self.superblock
    }

    /// The header of the checkpoint in force.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where a log stands.
    pub fn head(&self, stretch: Stretch) -> Head {
        self.header.heads[stretch.index()]
    }

    /// What a mount claimed that has not made a checkpoint of its own.
    pub fn claim(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    /// Where the next claim goes: not to where the last one is.
    pub fn claim_place(&self) -> Lba {
        self.claim_place
    }

    /// Behind the blocks of each log that may have been written: the limits in force.
    pub fn limits(&self) -> [Lba; Stretch::COUNT] {
        self.claim.map_or_else(|| self.header.heads.map(|head| head.limit), |claim| claim.limits)
    }

    /// Whether a node of the checkpoint may lie here.
    pub fn is_node_address(&self, lba: Lba) -> bool {
        self.holds(lba, Stretch::is_node)
    }

    /// Whether file data of the checkpoint may lie here.
    pub fn is_data_address(&self, lba: Lba) -> bool {
        self.holds(lba, Stretch::is_data)
    }

    fn holds(&self, lba: Lba, wanted: fn(Stretch) -> bool) -> bool {
        self.header.is_written(&self.superblock, lba) && self.superblock.space().stretch_of(lba).is_some_and(wanted)
    }

    /// Whether a block was written whole as a node, for this place.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if its checksum differs.
    pub fn verify_node(&self, block: &Block, lba: Lba) -> Result<()> {
        verify_node(&self.superblock, block, lba)
    }
}

/// As [`LogSpace::verify_node`].
pub(crate) fn verify_node(superblock: &infinite::SuperBlock, block: &Block, lba: Lba) -> Result<()> {
    infinite::verify("node", block, superblock.seed(), lba)
        .map_err(|why| Error::corrupt(format!("block {lba} should be a node: {why}")))
}

impl Image {
    /// The log space of an IPLFS volume; `None` on an F2FS volume.
    pub fn log_space(&self) -> Option<&LogSpace> {
        self.log_space.as_deref()
    }

    /// The flags of the checkpoint as they are on the device.
    pub fn stored_flags(&self) -> CpFlags {
        self.log_space().map_or_else(|| self.checkpoint().header().flags(), |space| space.header().flags)
    }

    /// Hands out the blocks that are dead and not known to be discarded, in rising order.
    ///
    /// # Errors
    /// A damaged discard log: what was handed out before may be wrong. Read errors.
    pub fn dead_blocks(&self, found: &mut dyn FnMut(Range<Lba>)) -> Result<()> {
        let Some(space) = self.log_space() else { return Ok(()) };
        let log = space.header.discard_log;
        let mut reader = DiscardLogReader::new(&space.superblock, &space.header);
        for first in (0..u64::from(log.blocks)).step_by(AHEAD as usize) {
            let count = AHEAD.min(u64::from(log.blocks) - first);
            for page in self.read_run(log.lba + first, count)? {
                page.with(|block| reader.block(block, found))?;
            }
        }
        Ok(reader.finish()?)
    }
}

/// Refuses a last block of a pack that does not say the same as its first one, which is good.
pub(super) fn check_last(
    superblock: &infinite::SuperBlock,
    first: &Block,
    last: &Block,
    lba: Lba,
) -> std::result::Result<(), FormatError> {
    let version = Header::parse(superblock, last, lba)?.version;
    let same = first[..infinite::CHECKSUM_OFFSET] == last[..infinite::CHECKSUM_OFFSET];
    let rule = "and all else is the same in the first and last block";
    if same { Ok(()) } else { Err(FormatError::field("IPLFS checkpoint", "version", version, rule)) }
}

/// What the pack in force holds. What of it is damaged is left out and told; without the bitmap nothing is found.
fn read_pack(
    dev: &dyn Device,
    superblock: &infinite::SuperBlock,
    pack: Pack,
    whole: &Whole,
) -> Result<(Known, Option<Error>)> {
    let header = Header::parse(superblock, &whole.header, whole.at)?;
    let (first, count) = (superblock.layout().pack(pack).get() + 1, u64::from(header.pack_blocks) - 2);
    let mut failed = None;
    let parts: Vec<Option<Block>> = match dev.read(first, count) {
        Ok(pages) => pages.iter().map(|page| Some(*page.to_array())).collect(),
        Err(_) => (first..first + count)
            .map(|lba| match dev.read_one(lba) {
                Ok(page) => Some(*page.to_array()),
                Err(error) => {
                    failed.get_or_insert(Error::Io(error));
                    None
                }
            })
            .collect(),
    };
    match infinite::Checkpoint::parse_known(superblock, pack, header, &whole.header, &parts) {
        Ok(known) => Ok((known, failed)),
        Err(why) => Err(failed.unwrap_or_else(|| {
            Error::corrupt(format!(
                "the NAT version bitmap of checkpoint pack {} cannot be used ({why})",
                pack.number()
            ))
        })),
    }
}

/// What a checkpoint has in common with one of F2FS. A NAT bitmap of any size fits the layout of large ones.
///
/// # Errors
/// Never for a checked superblock.
pub(crate) fn described(
    superblock: &infinite::SuperBlock,
    given: &infinite::Checkpoint,
) -> std::result::Result<Checkpoint, FormatError> {
    let mut checkpoint = Checkpoint::new(superblock.layout(), given.header.flags | CpFlags::LARGE_NAT_BITMAP)?;
    for block in 0..superblock.layout().nat_blocks() {
        if given.nat_copy(block) {
            checkpoint.set_nat_copy(block, true);
        }
    }
    let (from, to) = (&given.header, checkpoint.header_mut());
    to.set_version(from.version);
    to.set_pack_blocks(from.pack_blocks);
    to.set_user_blocks(user_blocks(superblock.capacity()));
    to.set_valid_blocks(from.valid_blocks);
    to.set_valid_nodes(from.valid_nodes);
    to.set_valid_inodes(from.valid_inodes);
    to.set_next_free_nid(from.next_free_nid);
    to.set_elapsed_time(from.elapsed);
    Ok(checkpoint)
}

/// Blocks that users may fill of a volume that may hold `capacity` at one time: the rest is for blocks that die before
/// its discards are done, 1/16 and at least 512 blocks, at most half.
pub fn user_blocks(capacity: u64) -> u64 {
    capacity - (capacity / 16).max(512).min(capacity / 2)
}

/// Loads the rest of an IPLFS volume.
pub(super) fn load(
    dev: Arc<dyn Device>,
    superblocks: super::Superblocks,
    packs: super::Packs,
    superblock: infinite::SuperBlock,
) -> Result<Image> {
    let pack = packs.chosen()?;
    let (Known { checkpoint: given, orphans, nat_journal }, failed) =
        read_pack(&*dev, &superblock, pack, packs.whole(pack)?)?;
    let checkpoint = described(&superblock, &given)?;
    let as_error = |why: FormatError| failed.clone().unwrap_or_else(|| why.into());
    let damage = nat_journal.err().map(|why| PackDamage { part: PackPart::NatJournal, reason: as_error(why) });
    let parts = Parts { nat_journal: given.nat_journal, damage: damage.into_iter().collect(), ..Parts::default() };
    let common = superblock.common();
    let (claim, claim_place) = read_claim(&*dev, &superblock, &given.header)?;
    let orphans = orphans.map(|()| given.orphans).map_err(as_error);
    let space = LogSpace { superblock, header: given.header, orphans, claim, claim_place };
    Ok(Image { dev, superblocks, superblock: common, packs, pack, checkpoint, parts, log_space: Some(Box::new(space)) })
}

/// The claim under a checkpoint, and where the next one goes. A block that cannot be read is no reason to go on:
/// without its claim a mount would write where an earlier one did.
fn read_claim(dev: &dyn Device, superblock: &infinite::SuperBlock, header: &Header) -> Result<(Option<Claim>, Lba)> {
    let places = Claim::places(superblock);
    let mut found = [None, None];
    for (claim, lba) in found.iter_mut().zip(places) {
        *claim = Claim::parse(superblock, header, &dev.read_one(lba.get())?.to_array(), lba)?;
    }
    let [one, two] = found;
    let last = Claim::later(one, two);
    let free = if last.is_some() && last == one { places[1] } else { places[0] };
    Ok((last, free))
}

/// The log of the roll-forward chain.
pub(super) const CHAIN: Stretch = Stretch::Of(Log::WarmNode);
