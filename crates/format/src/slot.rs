//! What a file-address slot of an inode or a direct node holds: a hole, a promise, a compression mark or an address.

use crate::{Lba, Width};

/// Disk value of a hole.
pub const NULL_ADDR: u32 = 0;
/// Disk value of a reserved block that was never written; it reads as zeros.
pub const NEW_ADDR: u32 = 0xFFFF_FFFF;
/// Disk value of the first slot of a compressed cluster.
pub const COMPRESS_ADDR: u32 = 0xFFFF_FFFE;
/// [`NEW_ADDR`] in a slot of 8 bytes.
pub const WIDE_NEW_ADDR: u64 = u64::MAX;

/// The content of one file-address slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Slot {
    /// No block; reads as zeros and is not counted.
    #[default]
    Hole,
    /// A block is reserved and counted, but nothing was written yet; reads as zeros.
    New,
    /// First slot of a compressed cluster; counted.
    Compress,
    /// The data is in this block. The address is as found on the disk: check it with `Layout::in_main`.
    At(Lba),
}

impl Slot {
    /// Reads a slot.
    pub const fn from_disk(raw: u32) -> Self {
        match raw {
            NULL_ADDR => Self::Hole,
            NEW_ADDR => Self::New,
            COMPRESS_ADDR => Self::Compress,
            address => Self::At(Lba(address as u64)),
        }
    }

    /// The disk form of the slot.
    ///
    /// # Panics
    /// As [`Lba::to_disk`], and for the address 0, which on the disk means a hole.
    pub const fn to_disk(self) -> u32 {
        match self {
            Self::Hole => NULL_ADDR,
            Self::New => NEW_ADDR,
            Self::Compress => COMPRESS_ADDR,
            Self::At(lba) => {
                assert!(lba.0 != NULL_ADDR as u64, "block 0 cannot hold file data");
                lba.to_disk()
            }
        }
    }

    /// Reads a slot of 8 bytes. It never is a compression mark.
    pub const fn from_wide(raw: u64) -> Self {
        match raw {
            0 => Self::Hole,
            WIDE_NEW_ADDR => Self::New,
            address => Self::At(Lba(address)),
        }
    }

    /// The disk form of the slot with 8 bytes.
    ///
    /// # Panics
    /// For the address 0, which on the disk means a hole, for the address 2^64 - 1, and for a compression mark: volumes
    /// with wide slots have no compressed files.
    pub const fn to_wide(self) -> u64 {
        match self {
            Self::Hole => 0,
            Self::New => WIDE_NEW_ADDR,
            Self::Compress => panic!("a volume with wide slots has no compressed files"),
            Self::At(lba) => {
                assert!(lba.0 != 0 && lba.0 != WIDE_NEW_ADDR, "no file data can be there");
                lba.0
            }
        }
    }

    /// Reads the slots that lie in these bytes, in order; bytes behind the last whole slot do not count.
    pub fn read_all(bytes: &[u8], width: Width) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator + '_ {
        bytes.chunks_exact(width.bytes()).map(|slot| match *slot {
            [a, b, c, d] => Self::from_disk(u32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => Self::from_wide(u64::from_le_bytes([a, b, c, d, e, f, g, h])),
            _ => unreachable!("a slot has 4 or 8 bytes"),
        })
    }

    /// The address, if there is one.
    pub const fn lba(self) -> Option<Lba> {
        match self {
            Self::At(lba) => Some(lba),
            _ => None,
        }
    }

    /// Whether the slot counts as a block of the file and of the volume (everything but a hole).
    pub const fn is_counted(self) -> bool {
        !matches!(self, Self::Hole)
    }
}

impl From<Lba> for Slot {
    fn from(lba: Lba) -> Self {
        Self::At(lba)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wide_marks_have_their_values() {
        assert_eq!(Slot::from_wide(0), Slot::Hole);
        assert_eq!(Slot::from_wide(u64::MAX), Slot::New);
        assert_eq!(Slot::from_wide(u64::MAX - 1).lba(), Some(Lba(u64::MAX - 1)));
        assert_eq!(Slot::from_wide(u64::from(NEW_ADDR)).lba(), Some(Lba(0xFFFF_FFFF)));
    }

    #[test]
    fn marks_have_their_values() {
        assert_eq!(Slot::from_disk(0), Slot::Hole);
        assert_eq!(Slot::from_disk(u32::MAX), Slot::New);
        assert_eq!(Slot::from_disk(u32::MAX - 1), Slot::Compress);
        assert_eq!(Slot::from_disk(512).lba(), Some(Lba(512)));
        assert!(Slot::New.is_counted() && Slot::Compress.is_counted() && !Slot::Hole.is_counted());
    }

    proptest! {
        #[test]
        fn every_value_survives_the_round_trip(raw: u32) {
            prop_assert_eq!(Slot::from_disk(raw).to_disk(), raw);
        }

        #[test]
        fn every_wide_value_survives_the_round_trip(raw: u64, high: bool) {
            // Numbers at the upper end are as likely as others: the marks of 4-byte slots lie there.
            let raw = if high { u64::MAX - raw % 4 } else { raw };
            let slot = Slot::from_wide(raw);
            prop_assert_eq!(slot.to_wide(), raw);
            prop_assert!(slot != Slot::Compress);
            let bytes = [&raw.to_le_bytes()[..], &[7; 5]].concat();
            prop_assert_eq!(Slot::read_all(&bytes, Width::Eight).collect::<Vec<_>>(), [slot]);
        }
    }
}
