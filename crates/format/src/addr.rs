//! The numbers of the format as types: block addresses, segments, sections, node ids, inodes, file pages.
//!
//! A number of one kind never passes for another. Block addresses are 64 bits wide in memory (IPLFS volumes use them
//! all) and 32 bits wide on a stock F2FS disk; [`Lba::to_disk`] is the only way down and checks.

use crate::slot::{COMPRESS_ADDR, NEW_ADDR};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// Wraps a number.
            pub const fn new(number: $inner) -> Self {
                Self(number)
            }

            /// The number.
            pub const fn get(self) -> $inner {
                self.0
            }

            /// The number as an index into a slice.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The number `by` further on, or `None` past the end of the type.
            pub const fn checked_add(self, by: $inner) -> Option<Self> {
                match self.0.checked_add(by) {
                    Some(number) => Some(Self(number)),
                    None => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $prefix, self.0)
            }
        }

        impl From<$inner> for $name {
            fn from(number: $inner) -> Self {
                Self(number)
            }
        }

        impl From<$name> for $inner {
            fn from(number: $name) -> Self {
                number.0
            }
        }

        impl std::ops::Add<$inner> for $name {
            type Output = Self;
            fn add(self, by: $inner) -> Self {
                match self.checked_add(by) {
                    Some(sum) => sum,
                    None => panic!("{self:?} + {by} is out of range"),
                }
            }
        }

        /// The distance between two numbers; the left one must not be smaller.
        impl std::ops::Sub for $name {
            type Output = $inner;
            fn sub(self, other: Self) -> $inner {
                match self.0.checked_sub(other.0) {
                    Some(distance) => distance,
                    None => panic!("{self:?} lies before {other:?}"),
                }
            }
        }
    };
}

number! {
    /// A block address: the number of a 4 KiB block on the volume.
    Lba(u64), "lba:"
}
number! {
    /// A segment of the main area; segment `k` covers the blocks `main + 512 k ..= main + 512 k + 511`.
    SegNo(u32), "seg:"
}
number! {
    /// A section: the group of segments that is collected and erased together.
    SecNo(u32), "sec:"
}
number! {
    /// A node id: the name of a node block, which the NAT turns into an address.
    Nid(u32), "nid:"
}
number! {
    /// An inode number: the node id of an inode.
    Ino(u32), "ino:"
}
number! {
    /// The number of a 4 KiB page inside a file.
    PageIndex(u64), "page:"
}

/// Inode number reserved for the node page cache; has no blocks.
pub const NODE_INO: Ino = Ino(1);
/// Inode number reserved for the meta page cache; has no blocks.
pub const META_INO: Ino = Ino(2);
/// Inode number of the root directory.
pub const ROOT_INO: Ino = Ino(3);

impl Lba {
    /// The address as a stock F2FS disk stores it.
    ///
    /// # Panics
    /// If the address needs more than 32 bits or equals one of the two marks `NEW` and `COMPRESS`. A volume whose
    /// layout was accepted by [`crate::Layout`] has no such address, so this is a fault of the program and not of an
    /// image.
    pub const fn to_disk(self) -> u32 {
        match self.try_to_disk() {
            Some(raw) => raw,
            None => panic!("block address does not fit a 32-bit volume"),
        }
    }

    /// The address as a stock F2FS disk stores it, or `None` where it has no such form.
    pub const fn try_to_disk(self) -> Option<u32> {
        if self.0 < COMPRESS_ADDR as u64 { Some(self.0 as u32) } else { None }
    }

    /// An address field of a structure that never holds the marks `NEW` and `COMPRESS` (superblock, NAT); 0 is block 0.
    pub const fn from_disk(raw: u32) -> Self {
        Self(raw as u64)
    }

    /// Byte offset of the block on the volume.
    pub const fn byte_offset(self) -> u64 {
        self.0 * crate::BLOCK_SIZE as u64
    }
}

const _: () = assert!(COMPRESS_ADDR < NEW_ADDR);

impl Nid {
    /// The inode number of the inode stored under this node id.
    pub const fn as_ino(self) -> Ino {
        Ino(self.0)
    }

    /// Whether this is the null id ("no node").
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}

impl Ino {
    /// The node id under which the inode is stored.
    pub const fn nid(self) -> Nid {
        Nid(self.0)
    }

    /// Whether this is the null inode number.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}

impl From<Ino> for Nid {
    fn from(ino: Ino) -> Self {
        ino.nid()
    }
}

impl PageIndex {
    /// The page that holds byte `offset` of a file.
    pub const fn of_byte(offset: u64) -> Self {
        Self(offset / crate::BLOCK_SIZE as u64)
    }

    /// Offset of the page's first byte in the file.
    pub const fn byte_offset(self) -> u64 {
        self.0 * crate::BLOCK_SIZE as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_narrow_only_when_they_fit() {
        assert_eq!(Lba(7).to_disk(), 7);
        assert_eq!(Lba(0xFFFF_FFFD).try_to_disk(), Some(0xFFFF_FFFD));
        for mark in [0xFFFF_FFFE, 0xFFFF_FFFF, 1 << 32] {
            assert_eq!(Lba(mark).try_to_disk(), None);
        }
    }

    #[test]
    fn arithmetic_is_checked_and_typed() {
        assert_eq!(Lba(3) + 4, Lba(7));
        assert_eq!(Lba(7) - Lba(3), 4);
        assert!(std::panic::catch_unwind(|| SegNo(u32::MAX) + 1).is_err());
        assert!(std::panic::catch_unwind(|| SegNo(1) - SegNo(2)).is_err());
        assert_eq!(ROOT_INO.nid().as_ino(), ROOT_INO);
        assert_eq!(PageIndex::of_byte(8191), PageIndex(1));
    }

    #[test]
    fn display_is_the_number_and_debug_names_the_kind() {
        assert_eq!(format!("{} {:?}", Lba(5), Nid(6)), "5 nid:6");
    }
}
