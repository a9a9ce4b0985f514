//! The two checkpoint packs: which were written to their end, which one is in force. Format section 3.4, and section 4
//! of docs/INFINITE-FORMAT.md.
//!
//! The first block of a pack and its last one are copies of one header, and the last one is written after a flush of
//! everything that the checkpoint names. So each tells something on its own:
//!
//! - Where the last one stands, the checkpoint is whole, also if the first one is damaged by now.
//! - Where only the first one stands, a crash may have ended the checkpoint; unless a part of the last one arrived,
//!   for then everything before it had.
//!
//! What lies between the two decides nothing. Where it is damaged, that is read without it.

use super::{Superblocks, infinite};
use crate::error::{Error, Result};
use steadyfs_device::{Device, PageBuf, is_zero};
use steadyfs_format::block::BlockView;
use steadyfs_format::checkpoint::{CheckpointHeader, HEADER_BYTES, choose_pack, last_block_of, pack_version};
use steadyfs_format::infinite as wide;
use steadyfs_format::{BLOCKS_PER_SEG, Block, FormatError, Layout, Lba, Pack};

/// Bytes of which a device writes all or none.
const SECTOR: usize = 512;

/// One of the two copies of a pack's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderCopy {
    /// The first block of the pack.
    First,
    /// The last block.
    Last,
}

/// A pack that was written to its end.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub(super) version: u64,
    /// A good copy of the header, as it is in its block.
    pub(super) header: Box<Block>,
    /// Where that block is.
    pub(super) at: Lba,
    /// Number of the last block.
    last: u32,
    /// The copy that is damaged, and how.
    damaged: Option<(HeaderCopy, Error)>,
}

/// What a pack holds that is not whole.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    /// The version in its first block, if that is good.
    begun: Option<u64>,
    /// The version in the first sector of its first block, if that looks like the one of a header.
    seen: Option<u64>,
    /// Nothing but the first block was made zeros.
    freed: bool,
}

/// What the pack that is not in force looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherPack {
    /// It was written to its end.
    Whole,
    /// A crash can have left it so.
    Torn,
    /// It is damaged. It holds the older checkpoint.
    Older,
    /// No crash leaves it so, and nobody can tell whether it was the newer one.
    Gone,
}

/// The state of both packs: the version of one that was written to its end, or why it does not count.
#[derive(Clone, Debug)]
pub struct Packs {
    found: [Result<Whole>; 2],
    rest: [Rest; 2],
}

/// How headers look in a kind of volume.
enum Form<'a> {
    Segmented(&'a Layout),
    Infinite(&'a wide::SuperBlock),
}

impl Form<'_> {
    fn start(&self, pack: Pack) -> Lba {
        match self {
            Self::Segmented(layout) => layout.pack(pack),
            Self::Infinite(sb) => sb.layout().pack(pack),
        }
    }

    /// Of a good header that lies there: the version, and the number of the last block.
    fn parse(&self, block: &Block, lba: Lba) -> std::result::Result<(u64, u32), FormatError> {
        match self {
            Self::Segmented(_) => Ok((CheckpointHeader::verify(block)?.version(), last_block_of(block)?)),
            Self::Infinite(sb) => {
                let header = wide::Header::parse(sb, block, lba)?;
                Ok((header.version, header.pack_blocks - 1))
            }
        }
    }

    /// The other copy of a good header, for another place.
    fn copy_for(&self, header: &Block, lba: Lba) -> Block {
        let mut copy = *header;
        if let Self::Infinite(sb) = self {
            wide::seal(&mut copy, sb.seed(), lba);
        }
        copy
    }

    /// Refuses a last block that does not belong to the first one, which is good.
    fn check_last(&self, first: &Block, last: &Block, lba: Lba) -> std::result::Result<(), FormatError> {
        match self {
            Self::Segmented(_) => pack_version(first, last).map(drop),
            Self::Infinite(sb) => infinite::check_last(sb, first, last, lba),
        }
    }

    /// Whether some of this header has arrived in its last block: one of the sectors that no other header has.
    fn is_begun(&self, first: &Block, last: &Block, lba: Lba) -> bool {
        let copy = self.copy_for(first, lba);
        let checksum = match self {
            Self::Segmented(_) => CheckpointHeader::view(first).checksum_offset(),
            Self::Infinite(_) => wide::CHECKSUM_OFFSET,
        };
        let is_there = |at: usize| {
            let sector = at / SECTOR * SECTOR..(at / SECTOR + 1) * SECTOR;
            copy[sector.clone()] == last[sector]
        };
        !steadyfs_rt::mutated("a-part-of-the-last-block-is-enough") && (is_there(0) || is_there(checksum))
    }

    /// The version in a first sector, if it looks like the one of a header.
    fn seen(&self, block: &Block) -> Option<u64> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| block[at + byte]));
        match self {
            Self::Segmented(_) => {
                let header = CheckpointHeader::view(block);
                let offset = header.checksum_offset();
                let blocks = header.pack_blocks();
                let is_header =
                    offset >= HEADER_BYTES && offset < block.len() && blocks > 2 && blocks <= BLOCKS_PER_SEG;
                is_header.then(|| header.version())
            }
            Self::Infinite(_) => wide::Header::is_magic(block).then(|| word(8)),
        }
    }
}

impl Packs {
    /// Looks at both packs of an F2FS volume.
    pub fn read(dev: &dyn Device, layout: &Layout) -> Self {
        Self::read_as(dev, &Form::Segmented(layout))
    }

    /// Looks at both packs of the volume with these superblocks.
    ///
    /// # Errors
    /// If neither superblock is good.
    pub fn of(dev: &dyn Device, superblocks: &Superblocks) -> Result<Self> {
        match superblocks.chosen_infinite() {
            Some(sb) => Ok(Self::read_as(dev, &Form::Infinite(sb))),
            None => Ok(Self::read(dev, superblocks.chosen()?.layout())),
        }
    }

    fn read_as(dev: &dyn Device, form: &Form<'_>) -> Self {
        let [(one, rest_one), (two, rest_two)] = Pack::BOTH.map(|pack| look_at(dev, form, pack));
        let [not_one, not_two] = [demoted(&one, &two), demoted(&two, &one)];
        Packs { found: [not_one.map_or(one, Err), not_two.map_or(two, Err)], rest: [rest_one, rest_two] }
    }

    fn of_pack(&self, pack: Pack) -> (&Result<Whole>, &Rest) {
        let at = usize::from(pack == Pack::Two);
        (&self.found[at], &self.rest[at])
    }

    /// The version of a pack.
    ///
    /// # Errors
    /// Why the pack does not count.
    pub fn version(&self, pack: Pack) -> std::result::Result<u64, &Error> {
        self.of_pack(pack).0.as_ref().map(|found| found.version)
    }

    /// The copy of a pack's header that is damaged where the other one is used, and how.
    pub fn damaged(&self, pack: Pack) -> Option<(HeaderCopy, &Error)> {
        let found = self.of_pack(pack).0.as_ref().ok()?;
        found.damaged.as_ref().map(|(copy, why)| (*copy, why))
    }

    /// What the pack beside the one in force looks like. `is_unmounted` says whether that one ends a mount.
    pub fn other(&self, in_force: Pack, is_unmounted: bool) -> OtherPack {
        let (Ok(now), (Err(why), rest)) = (self.version(in_force), self.of_pack(in_force.other())) else {
            return OtherPack::Whole;
        };
        let is_unread = matches!(why, Error::Io(_));
        // A crash in the middle of a checkpoint leaves its first sector as it was, or as it becomes.
        let is_next_or_last = |seen: &u64| *seen == now.wrapping_add(1) || *seen == now.wrapping_sub(1) || *seen == 0;
        match rest.begun.or(rest.seen.filter(is_next_or_last)) {
            // Where the last checkpoint is none of an unmount, the next one may have been begun.
            Some(version) if is_newer(version, now) && is_unread => OtherPack::Gone,
            Some(version) if is_newer(version, now) || !is_unmounted => OtherPack::Torn,
            Some(_) => OtherPack::Older,
            None if rest.freed && is_unmounted => OtherPack::Older,
            None => OtherPack::Gone,
        }
    }

    /// The pack in force.
    ///
    /// # Errors
    /// [`FormatError::NoCheckpoint`] if neither was written to its end.
    pub fn chosen(&self) -> Result<Pack> {
        let [one, two] = Pack::BOTH.map(|pack| self.version(pack).map_err(as_format_error));
        Ok(choose_pack(one, two)?)
    }

    pub(super) fn whole(&self, pack: Pack) -> Result<&Whole> {
        self.of_pack(pack).0.as_ref().map_err(Clone::clone)
    }

    /// Writes the damaged copy of a pack's header again, from the good one, and makes it durable. Has to come before
    /// the other pack is written: nothing would be left if that failed.
    ///
    /// # Errors
    /// Of the device.
    pub(crate) fn mend(&self, dev: &dyn Device, superblocks: &Superblocks, pack: Pack) -> Result<()> {
        let Ok(Whole { header, last, damaged: Some((copy, _)), .. }) = self.of_pack(pack).0 else { return Ok(()) };
        let form = match superblocks.chosen_infinite() {
            Some(sb) => Form::Infinite(sb),
            None => Form::Segmented(superblocks.chosen()?.layout()),
        };
        let number = if *copy == HeaderCopy::First { 0 } else { *last };
        let lba = form.start(pack) + u64::from(number);
        dev.write(lba.get(), vec![PageBuf::from_slice(&form.copy_for(header, lba))])?;
        Ok(dev.flush()?)
    }
}

/// Versions wrap.
fn is_newer(version: u64, than: u64) -> bool {
    version.wrapping_sub(than).cast_signed() > 0
}

/// Why a pack does not count though its last block is good: that may be one which a newer checkpoint, in the other
/// pack or begun in this one, has not yet written over.
fn demoted(pack: &Result<Whole>, other: &Result<Whole>) -> Option<Error> {
    let (Ok(Whole { version, damaged: Some((HeaderCopy::First, why)), .. }), Ok(other)) = (pack, other) else {
        return None;
    };
    let is_over = !is_newer(*version, other.version) && !steadyfs_rt::mutated("a-header-left-over-does-not-count");
    is_over.then(|| why.clone())
}

fn look_at(dev: &dyn Device, form: &Form<'_>, pack: Pack) -> (Result<Whole>, Rest) {
    let start = form.start(pack);
    let first = match read(dev, start) {
        Ok(first) => first,
        Err(why) => return (by_last_block(dev, form, pack, why), Rest::default()),
    };
    match form.parse(&first, start) {
        Ok((version, last)) => {
            let rest = Rest { begun: Some(version), ..Rest::default() };
            let at = start + u64::from(last);
            let damaged = match read(dev, at) {
                Ok(block) => match form.check_last(&first, &block, at) {
                    Ok(()) => None,
                    Err(why) if form.is_begun(&first, &block, at) => Some((HeaderCopy::Last, why.into())),
                    Err(why) => return (Err(why.into()), rest),
                },
                Err(why) => return (Err(why), rest),
            };
            (Ok(Whole { version, header: first, at: start, last, damaged }), rest)
        }
        Err(why) => {
            let found = by_last_block(dev, form, pack, why.into());
            // resize.f2fs makes zeros of the first block of the pack that it leaves behind.
            let goes_on = || read(dev, start + 1).is_ok_and(|block| !is_zero(&*block));
            let freed = is_zero(&*first) && found.is_ok() && goes_on();
            (found, Rest { begun: None, seen: form.seen(&first), freed })
        }
    }
}

/// A pack whose first block is bad, by its last one: a header that says itself that it is the last block.
fn by_last_block(dev: &dyn Device, form: &Form<'_>, pack: Pack, why: Error) -> Result<Whole> {
    if steadyfs_rt::mutated("a-last-block-is-enough") {
        return Err(why);
    }
    let start = form.start(pack);
    let all = dev.read(start.get(), u64::from(BLOCKS_PER_SEG));
    let mut best: Option<Whole> = None;
    for number in 1..BLOCKS_PER_SEG {
        let at = start + u64::from(number);
        let block = match &all {
            Ok(pages) => pages[number as usize].to_array(),
            Err(_) => match read(dev, at) {
                Ok(block) => block,
                Err(_) => continue,
            },
        };
        if let Ok((version, last)) = form.parse(&block, at)
            && last == number
            && best.as_ref().is_none_or(|best| is_newer(version, best.version))
        {
            best = Some(Whole { version, header: block, at, last, damaged: Some((HeaderCopy::First, why.clone())) });
        }
    }
    best.ok_or(why)
}

fn read(dev: &dyn Device, lba: Lba) -> Result<Box<Block>> {
    Ok(dev.read_one(lba.get())?.to_array())
}

/// The choice is a matter of the format, which knows no read errors.
fn as_format_error(error: &Error) -> FormatError {
    match error {
        Error::Format(error) => error.clone(),
        other => FormatError::Refused(other.to_string()),
    }
}
