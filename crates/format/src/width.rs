//! The width of block addresses on the disk: 4 bytes on F2FS volumes, 8 bytes on IPLFS volumes.
//!
//! Slots of inodes and direct nodes and the entries of the NAT have this width. Node ids have 4 bytes everywhere, so
//! indirect nodes and the shape of the node tree are the same on both kinds.

use crate::node::{NODE_PAYLOAD, SLOTS_PER_NODE};
use crate::slot::COMPRESS_ADDR;
use crate::{BLOCK_SIZE, Features, Lba};

/// How many bytes a block address takes on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Width {
    /// F2FS.
    #[default]
    Four,
    /// IPLFS.
    Eight,
}

impl Width {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Four, Self::Eight];

    /// The width on volumes with these features.
    pub const fn of(features: Features) -> Self {
        if features.contains(Features::INFINITE) { Self::Eight } else { Self::Four }
    }

    /// Bytes of a slot.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// Words of 4 bytes of a slot.
    pub const fn words(self) -> usize {
        self.bytes() / 4
    }

    /// Slots of a direct node: 1018 or 509.
    pub const fn slots_per_node(self) -> u16 {
        (NODE_PAYLOAD / self.bytes()) as u16
    }

    /// Bytes of an entry of the NAT: 9 or 13.
    pub const fn nat_entry_bytes(self) -> usize {
        5 + self.bytes()
    }

    /// Entries of a NAT block: 455 or 315.
    pub const fn nat_entries(self) -> usize {
        BLOCK_SIZE / self.nat_entry_bytes()
    }

    /// The first number that is no address: 2^32 - 2, a mark, or 2^61, where the address space ends.
    pub const fn address_end(self) -> Lba {
        match self {
            Self::Four => Lba(COMPRESS_ADDR as u64),
            Self::Eight => Lba(crate::infinite::SPACE_END),
        }
    }

    /// Whether a volume of this width can have such an address.
    pub const fn holds(self, lba: Lba) -> bool {
        lba.0 < self.address_end().0
    }

    /// The largest file in bytes: what its node tree reaches, whatever share of it the inode itself could hold.
    /// 3.94 TiB with 4 bytes (as Linux), 1.97 TiB with 8.
    pub const fn max_file_size(self) -> u64 {
        let n = SLOTS_PER_NODE as u64;
        self.slots_per_node() as u64 * (2 + 2 * n + n * n) * BLOCK_SIZE as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_from_the_width() {
        let counts = |width: Width| (width.slots_per_node(), width.nat_entry_bytes(), width.nat_entries());
        assert_eq!(counts(Width::Four), (1018, 9, 455));
        assert_eq!(counts(Width::Eight), (509, 13, 315));
        assert_eq!(Width::Four.max_file_size(), 1_057_052_516 * 4096);
        assert_eq!(Width::Eight.max_file_size() * 2, Width::Four.max_file_size());
        assert_eq!(Width::of(Features::EXTRA_ATTR | Features::INFINITE), Width::Eight);
        assert_eq!(Width::of(Features::EXTRA_ATTR), Width::Four);
    }
}
