//! The two copies of the superblock: which are good, which one counts.

use crate::error::{Error, Result};
use steadyfs_device::Device;
use steadyfs_format::superblock::SUPERBLOCK_OFFSET;
use steadyfs_format::{FormatError, Lba, SuperBlock, infinite, zeroed_block};

/// Both copies, as read from blocks 0 and 1.
#[derive(Clone, Debug)]
pub struct Superblocks {
    copies: [Result<SuperBlock>; 2],
    /// Of those that are of an IPLFS volume, all that they say.
    infinite: [Option<infinite::SuperBlock>; 2],
}

impl Superblocks {
    /// Reads both copies. A copy that cannot be read is a bad copy, not an error.
    pub fn read(dev: &dyn Device) -> Self {
        let mut infinite = [None, None];
        let copies = [0, 1].map(|block: u64| {
            let page = dev.read_one(block)?;
            match page.with(SuperBlock::parse) {
                Err(FormatError::Infinite) => {
                    let wide = page.with(infinite::SuperBlock::parse)?;
                    Ok(infinite[block as usize].insert(wide).common())
                }
                parsed => Ok(parsed?),
            }
        });
        Superblocks { copies, infinite }
    }

    /// All of the copy that counts, on an IPLFS volume.
    pub fn chosen_infinite(&self) -> Option<&infinite::SuperBlock> {
        match (&self.copies, &self.infinite) {
            ([Ok(_), _], [first, _]) => first.as_ref(),
            ([Err(_), _], [_, second]) => second.as_ref(),
        }
    }

    /// Where the volume of the copy that counts ends.
    ///
    /// # Errors
    /// As [`Superblocks::chosen`].
    pub fn end(&self) -> Result<Lba> {
        let superblock = self.chosen()?;
        Ok(self.chosen_infinite().map_or_else(|| superblock.layout().main_end(), |wide| wide.space().end()))
    }

    /// What the copy in block 0 or 1 holds.
    ///
    /// # Panics
    /// For any other block.
    pub fn copy(&self, block: usize) -> std::result::Result<&SuperBlock, &Error> {
        self.copies[block].as_ref()
    }

    /// The copy that counts: the first one that passes every check (there is no version number).
    ///
    /// # Errors
    /// Why the first copy is bad, or the second if the first holds nothing of F2FS at all.
    pub fn chosen(&self) -> Result<&SuperBlock> {
        match &self.copies {
            [Ok(copy), _] | [_, Ok(copy)] => Ok(copy),
            [Err(Error::Format(FormatError::Magic { .. })), Err(second)] => Err(second.clone()),
            [Err(first), _] => Err(first.clone()),
        }
    }

    /// The copy that counts, on a device that holds the whole volume.
    ///
    /// # Errors
    /// As [`Superblocks::chosen`]; [`Error::Corrupt`] if the volume is larger than the device,
    /// [`FormatError::Devices`] if it lies on others, too.
    pub fn chosen_for(&self, dev: &dyn Device) -> Result<&SuperBlock> {
        let superblock = self.chosen()?;
        let (blocks, need) = (dev.info().blocks, self.end()?.get());
        if blocks < need {
            if let Some(several) = self.devices() {
                return Err(several.into());
            }
            return Err(Error::corrupt(format!("the volume has {need} blocks, the device only {blocks}")));
        }
        Ok(superblock)
    }

    /// That the volume lies on several devices, and which these are; `None` if it does not.
    pub fn devices(&self) -> Option<FormatError> {
        let devices = self.chosen().ok().map(SuperBlock::devices).filter(|devices| devices.len() > 1)?;
        let names: Vec<String> = devices.into_iter().map(|device| device.path).collect();
        Some(FormatError::Devices { names })
    }

    /// That both copies are missing because blocks have another size than 4 KiB, which is no damage.
    pub fn block_size(&self) -> Option<FormatError> {
        match self.chosen() {
            Err(Error::Format(other @ FormatError::BlockSize { .. })) => Some(other),
            _ => None,
        }
    }

    /// Makes both copies those of a volume with a journal, or of a stock one, and durable; nothing is written if they
    /// are. An old mark becomes the one of today. Any mixture of the two that a power cut leaves is a volume that every
    /// program understands, as long as the chain is empty meanwhile.
    ///
    /// # Errors
    /// Of the device.
    pub(crate) fn mark_journal(&self, dev: &dyn Device, on: bool) -> Result<()> {
        let made = |copy: &SuperBlock| {
            let mut copy = copy.clone();
            copy.set_journaled(on);
            copy
        };
        // A copy of another kind of volume, which has no journal, is none that was made.
        let is_made = |copy: &SuperBlock| (!on || copy.regions().is_none()) && *copy == made(copy);
        let is_so = |copy: &Result<SuperBlock>| copy.as_ref().map_or(!on, is_made);
        if self.copies.iter().all(is_so) {
            return Ok(());
        }
        let superblock = made(self.chosen()?);
        // Others look at the first copy first: it is theirs for as long as it can be.
        for lba in if on { [1, 0] } else { [0, 1] } {
            // A copy that cannot be read has nothing worth keeping in front of it.
            let mut page = dev.read_one(lba).unwrap_or_default();
            superblock.encode_into(page.make_mut());
            dev.write(lba, vec![page])?;
        }
        if steadyfs_rt::mutated("journal-mark-is-flushed") {
            return Ok(());
        }
        Ok(dev.flush()?)
    }

    /// Whether some copy is that of a volume with a journal.
    pub fn is_journaled(&self) -> bool {
        self.copies.iter().flatten().any(SuperBlock::is_journaled)
    }

    /// Offset in the structure of the first byte in which two good copies differ, but for the mark of a volume with a
    /// journal: a power cut may leave one of each.
    pub fn first_difference(&self) -> Option<u32> {
        let [Ok(a), Ok(b)] = &self.copies else { return None };
        let any_marked = self.is_journaled();
        let [a, b] = [a, b].map(|copy| {
            let mut block = zeroed_block();
            match any_marked && copy.regions().is_none() {
                true => {
                    let mut copy = copy.clone();
                    copy.set_journaled(false);
                    copy.encode_into(&mut block);
                }
                false => copy.raw().write(&mut block),
            }
            block
        });
        let differs = a.iter().zip(&b).position(|(a, b)| a != b);
        differs.map(|offset| (offset - SUPERBLOCK_OFFSET) as u32)
    }
}
