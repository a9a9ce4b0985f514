//! The feature bits of the superblock, with the names that mkfs uses. Format section 16.
//!
//! Linux and its fsck ignore bits they do not know, so an unknown bit protects nothing by itself; it is our own mount
//! that refuses them ([`Features::unknown`]).

use crate::FormatError;
use crate::bitset::bitset;

bitset! {
    /// A set of feature bits.
    Features {
        /// Encrypted names and contents.
        ENCRYPT = 0x1, "encrypt";
        /// A zoned device.
        BLKZONED = 0x2, "blkzoned";
        /// Atomic writes; changes nothing on the disk.
        ATOMIC_WRITE = 0x4, "atomic_write";
        /// Inodes have an area of extra attributes.
        EXTRA_ATTR = 0x8, "extra_attr";
        /// Inodes have a project id.
        PROJECT_QUOTA = 0x10, "project_quota";
        /// Inodes have a checksum.
        INODE_CHECKSUM = 0x20, "inode_checksum";
        /// The size of the inline xattr area is chosen per inode.
        FLEXIBLE_INLINE_XATTR = 0x40, "flexible_inline_xattr";
        /// Hidden quota files.
        QUOTA = 0x80, "quota";
        /// Inodes have a creation time.
        INODE_CRTIME = 0x100, "inode_crtime";
        /// There is a `lost+found` directory.
        LOST_FOUND = 0x200, "lost_found";
        /// Files may be fs-verity files.
        VERITY = 0x400, "verity";
        /// The superblock has a checksum.
        SB_CHECKSUM = 0x800, "sb_checksum";
        /// Directories may ignore case.
        CASEFOLD = 0x1000, "casefold";
        /// Files may be compressed.
        COMPRESSION = 0x2000, "compression";
        /// A read-only volume without SSA.
        RO = 0x4000, "ro";
        /// Files that stand for whole devices.
        DEVICE_ALIAS = 0x8000, "device_alias";
        /// Several summaries in one block (volumes with 16 KiB blocks).
        PACKED_SSA = 0x1_0000, "packed_ssa";
        /// An IPLFS volume: block addresses have 8 bytes. No F2FS volume has it.
        INFINITE = 0x4000_0000, "infinite";
    }
}

impl Features {
    /// The feature with this name.
    pub fn from_name(name: &str) -> Result<Self, FormatError> {
        match Self::ALL.iter().find(|(known, _)| *known == name) {
            Some((_, feature)) => Ok(*feature),
            None => Err(FormatError::Unknown { what: "feature", name: name.to_owned() }),
        }
    }

    /// The features of a list of names separated by commas or blanks, as given to `mkfs -O`.
    pub fn from_names(list: &str) -> Result<Self, FormatError> {
        let mut names = list.split([',', ' ']).filter(|name| !name.is_empty());
        names.try_fold(Self::NONE, |set, name| Ok(set.union(Self::from_name(name)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_and_bits() {
        let set = Features::from_names("extra_attr,inode_checksum sb_checksum").unwrap();
        assert_eq!(set.bits(), 0x8 | 0x20 | 0x800);
        assert_eq!(set.to_string(), "extra_attr,inode_checksum,sb_checksum");
        assert_eq!(Features::NONE.to_string(), "none");
        assert_eq!(Features::from_bits(0x8000_0008).to_string(), "extra_attr,unknown(0x80000000)");
        assert!(Features::from_names("extra_attr,nonsense").unwrap_err().to_string().contains("'nonsense'"));
    }

    proptest! {
        #[test]
        fn known_and_unknown_make_the_whole(bits: u32) {
            let set = Features::from_bits(bits);
            let named = Features::from_names(&set.names().collect::<Vec<_>>().join(",")).unwrap();
            prop_assert_eq!(named | set.unknown(), set);
            prop_assert!(!named.intersects(set.unknown()));
        }
    }
}
