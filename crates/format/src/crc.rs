//! The one checksum of F2FS: reflected CRC-32 (polynomial 0xEDB88320) with a caller's initial value and no final
//! inversion.
//!
//! Most structures start from the file system's magic ([`crc_magic`]); inode checksums start from a seed that depends
//! on the volume's uuid. Feeding the result back as the next seed continues a checksum over a gap.

/// Magic number of the superblock, and the usual initial value of the checksum.
pub const F2FS_MAGIC: u32 = 0xF2F5_2010;

/// Continues the checksum `seed` over `bytes`.
pub fn f2fs_crc(seed: u32, bytes: &[u8]) -> u32 {
    // crc32fast inverts on the way in and on the way out; the format does neither.
    let mut hasher = crc32fast::Hasher::new_with_initial(!seed);
    hasher.update(bytes);
    !hasher.finalize()
}

/// The checksum of `bytes` that starts from the magic (superblock, checkpoint, compressed data).
pub fn crc_magic(bytes: &[u8]) -> u32 {
    f2fs_crc(F2FS_MAGIC, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        assert_eq!(crc_magic(b"123456789"), 0x1657_A0C3);
        assert_eq!(f2fs_crc(0xFFFF_FFFF, b"123456789"), 0x340B_C6D9);
        assert_eq!(crc_magic(b""), F2FS_MAGIC);
    }

    proptest! {
        #[test]
        fn the_seed_carries_on_where_the_last_piece_ended(bytes: Vec<u8>, cut: prop::sample::Index) {
            let cut = cut.index(bytes.len() + 1);
            prop_assert_eq!(f2fs_crc(crc_magic(&bytes[..cut]), &bytes[cut..]), crc_magic(&bytes));
        }
    }
}
