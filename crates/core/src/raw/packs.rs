//! The two checkpoint packs: which are whole, which one is in force. Format section 3.4.

use super::{Superblocks, infinite};
use crate::error::{Error, Result};
use steadyfs_device::Device;
use steadyfs_format::checkpoint::{CheckpointHeader, choose_pack, last_block_of, pack_version};
use steadyfs_format::{Block, FormatError, Layout, Pack};

/// What is known of both packs: the version of a whole one, or why it is not whole.
#[derive(Clone, Debug)]
pub struct Packs {
    versions: [Result<u64>; 2],
    begun: [Option<u64>; 2],
}

impl Packs {
    /// Reads the first and the last block of both packs of an F2FS volume.
    pub fn read(dev: &dyn Device, layout: &Layout) -> Self {
        Packs {
            versions: Pack::BOTH.map(|pack| version_of(dev, layout, pack)),
            begun: Pack::BOTH.map(|pack| first_version(dev, layout, pack).ok()),
        }
    }

    /// Reads both packs of the volume with these superblocks.
    ///
    /// # Errors
    /// If neither superblock is good.
    pub fn of(dev: &dyn Device, superblocks: &Superblocks) -> Result<Self> {
        let Some(wide) = superblocks.chosen_infinite() else {
            return Ok(Self::read(dev, superblocks.chosen()?.layout()));
        };
        Ok(Packs {
            versions: Pack::BOTH.map(|pack| Ok(infinite::read_pack(dev, wide, pack)?.header.version)),
            begun: Pack::BOTH.map(|pack| infinite::begun(dev, wide, pack).ok()),
        })
    }

    /// The version in the first block of a pack, whether the pack is whole or not; `None` if that block is damaged.
    pub fn begun(&self, pack: Pack) -> Option<u64> {
        match pack {
            Pack::One => self.begun[0],
            Pack::Two => self.begun[1],
        }
    }

    /// The version of a pack.
    ///
    /// # Errors
    /// Why the pack is not whole.
    pub fn version(&self, pack: Pack) -> std::result::Result<u64, &Error> {
        match pack {
            Pack::One => self.versions[0].as_ref().copied(),
            Pack::Two => self.versions[1].as_ref().copied(),
        }
    }

    /// The pack in force.
    ///
    /// # Errors
    /// [`FormatError::NoCheckpoint`] if neither is whole.
    pub fn chosen(&self) -> Result<Pack> {
        let [one, two] = Pack::BOTH.map(|pack| self.version(pack).map_err(as_format_error));
        Ok(choose_pack(one, two)?)
    }
}

fn version_of(dev: &dyn Device, layout: &Layout, pack: Pack) -> Result<u64> {
    let first = read(dev, layout, pack, 0)?;
    let last = read(dev, layout, pack, last_block_of(&first)?)?;
    Ok(pack_version(&first, &last)?)
}

fn first_version(dev: &dyn Device, layout: &Layout, pack: Pack) -> Result<u64> {
    let first = read(dev, layout, pack, 0)?;
    Ok(CheckpointHeader::verify(&first)?.version())
}

fn read(dev: &dyn Device, layout: &Layout, pack: Pack, block: u32) -> Result<Box<Block>> {
    let lba = layout.pack(pack) + u64::from(block);
    Ok(dev.read_one(lba.get())?.to_array())
}

/// The choice is a matter of the format, which knows no read errors.
fn as_format_error(error: &Error) -> FormatError {
    match error {
        Error::Format(error) => error.clone(),
        other => FormatError::Refused(other.to_string()),
    }
}
