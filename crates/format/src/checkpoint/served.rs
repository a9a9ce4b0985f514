//! The number of the last record of a device that moves pages whose effect a checkpoint contains (D2FS volumes only):
//! 16 bytes at the end of what belongs to nobody. docs/D2FS-FORMAT.md.

use super::{BLOCK_SIZE, Checkpoint};
use crate::crc::f2fs_crc;
use crate::error::FormatError;
use crate::migrating::MAGIC;
use std::ops::Range;

const BYTES: usize = 16;

impl Checkpoint {
    /// The number; `None` where the checkpoint has none.
    pub fn served(&self) -> Option<u64> {
        let bytes = self.blocks.as_flattened().get(self.served_place()?)?;
        let (record, crc) = bytes.split_at(BYTES - 4);
        let crc = u32::from_le_bytes(crc.try_into().ok()?);
        let (magic, number) = record.split_at(4);
        let is_one = magic == MAGIC.to_le_bytes() && f2fs_crc(MAGIC, record) == crc;
        is_one.then_some(u64::from_le_bytes(number.try_into().ok()?))
    }

    /// Stores the number.
    ///
    /// # Errors
    /// [`FormatError::NoRoom`] where the bitmaps leave no room for it.
    pub fn set_served(&mut self, number: u64) -> Result<(), FormatError> {
        let free = self.spare().len();
        let no_room = FormatError::NoRoom { structure: "checkpoint header", need: BYTES, free };
        let place = self.served_place().ok_or(no_room)?;
        let bytes = &mut self.blocks.as_flattened_mut()[place];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..12].copy_from_slice(&number.to_le_bytes());
        let crc = f2fs_crc(MAGIC, &bytes[..BYTES - 4]);
        bytes[BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        Ok(())
    }

    /// Makes the bytes zeros.
    pub fn clear_served(&mut self) {
        if let Some(place) = self.served_place() {
            self.blocks.as_flattened_mut()[place].fill(0);
        }
    }

    fn served_place(&self) -> Option<Range<usize>> {
        let spare = self.spare();
        let start = spare.end.checked_sub(BYTES)?;
        (spare.end <= BLOCK_SIZE && start >= spare.start).then_some(start..spare.end)
    }
}
