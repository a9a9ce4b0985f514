//! The inode checksum: over the whole block but itself, keyed by the volume's uuid, the inode number and the
//! generation.

use super::{ADDR_OFFSET, Inode};
use crate::Features;
use crate::crc::f2fs_crc;
use crate::error::FormatError;
use zerocopy::IntoBytes;

/// Byte offset of the stored checksum.
const FIELD: usize = ADDR_OFFSET + 8;

impl Inode {
    /// The checksum of the block as it is. `seed` is the volume's ([`crate::SuperBlock::inode_checksum_seed`]).
    pub fn compute_checksum(&self, seed: u32) -> u32 {
        let bytes = self.as_bytes();
        let keyed = f2fs_crc(seed, &self.footer.ino().get().to_le_bytes());
        let keyed = f2fs_crc(keyed, &self.generation().to_le_bytes());
        let front = f2fs_crc(keyed, &bytes[..FIELD]);
        f2fs_crc(f2fs_crc(front, &[0; 4]), &bytes[FIELD + 4..])
    }

    /// Compares the stored checksum, where the inode has one.
    ///
    /// # Errors
    /// [`FormatError::Checksum`] if they differ.
    pub fn verify_checksum(&self, features: Features, seed: u32) -> Result<(), FormatError> {
        if !self.has_checksum(features) {
            return Ok(());
        }
        let (stored, computed) = (self.extra().checksum.get(), self.compute_checksum(seed));
        if stored == computed { Ok(()) } else { Err(FormatError::Checksum { structure: "inode", stored, computed }) }
    }

    /// Stores the checksum, where the inode has one. The last thing to do before a write: it covers the footer too.
    pub fn update_checksum(&mut self, features: Features, seed: u32) {
        if self.has_checksum(features) {
            let computed = self.compute_checksum(seed);
            self.extra_mut().checksum = computed.into();
        }
    }
}
