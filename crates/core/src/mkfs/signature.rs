//! The contents of a device, told by the marks that file systems and partition tables leave at fixed places.

use crate::error::Result;
use steadyfs_device::Device;

/// A mark: what it says, where it is in bytes, and its bytes.
type Mark = (&'static str, usize, &'static [u8]);

/// In the order in which they are looked for: what contains others (a partition table, an encrypted or composed device)
/// comes last, because its sector often survives under a file system that was made over it.
const MARKS: &[Mark] = &[
    // Before plain F2FS, whose magic number such a volume has.
    ("f2fs with a metadata journal", 1024 + 8, b"SFJV"),
    ("f2fs with a metadata journal", 4096 + 1024 + 8, b"SFJV"),
    ("f2fs", 1024, &[0x10, 0x20, 0xF5, 0xF2]),
    ("f2fs", 4096 + 1024, &[0x10, 0x20, 0xF5, 0xF2]),
    ("f2fs with a metadata journal", 1024, b"SFJV"),
    ("f2fs with a metadata journal", 4096 + 1024, b"SFJV"),
    ("d2fs", 1024, b"SFD2"),
    ("d2fs", 4096 + 1024, b"SFD2"),
    ("iplfs", 1024, b"IPLF"),
    ("iplfs", 4096 + 1024, b"IPLF"),
    ("ext2/3/4", 1024 + 56, &[0x53, 0xEF]),
    ("xfs", 0, b"XFSB"),
    ("btrfs", 65_536 + 64, b"_BHRfS_M"),
    ("bcachefs", 4096 + 24, &[0xC6, 0x85, 0x73, 0xF6, 0x66, 0xCE, 0x90, 0xA9]),
    ("swap", 4096 - 10, b"SWAPSPACE2"),
    ("swap", 4096 - 10, b"SWAP-SPACE"),
    ("ntfs", 3, b"NTFS    "),
    ("exfat", 3, b"EXFAT   "),
    ("vfat", 82, b"FAT32   "),
    ("vfat", 54, b"FAT16   "),
    ("vfat", 54, b"FAT12   "),
    ("vfat", 54, b"FAT     "),
    ("squashfs", 0, b"hsqs"),
    ("erofs", 1024, &[0xE2, 0xE1, 0xF5, 0xE0]),
    ("nilfs2", 1024 + 6, &[0x34, 0x34]),
    ("iso9660", 32_768 + 1, b"CD001"),
    ("udf", 32_768 + 1, b"BEA01"),
    ("jfs", 32_768, b"JFS1"),
    ("reiserfs", 65_536 + 52, b"ReIsEr"),
    ("hfsplus", 1024, b"H+"),
    ("hfsplus", 1024, b"HX"),
    ("apfs", 32, b"NXSB"),
    ("cramfs", 0, &[0x45, 0x3D, 0xCD, 0x28]),
    ("Android sparse image", 0, &[0x3A, 0xFF, 0x26, 0xED]),
    ("LUKS", 0, b"LUKS\xBA\xBE"),
    ("LVM", 512 + 24, b"LVM2 001"),
    ("LVM", 24, b"LVM2 001"),
    ("RAID member", 4096, &[0xFC, 0x4E, 0x2B, 0xA9]),
    ("RAID member", 0, &[0xFC, 0x4E, 0x2B, 0xA9]),
    ("bcache", 4096 + 24, &[0xC6, 0x85, 0x73, 0xF6, 0x4E, 0x1A, 0x45, 0xCA]),
    ("GPT partition table", 512, b"EFI PART"),
    ("GPT partition table", 4096, b"EFI PART"),
];

/// Blocks that hold all marks.
const READ: u64 = 17;
const SECTOR_MARK: usize = 510;
const PARTITIONS: usize = 446;

/// The name of a file system, partition table or the like that the device holds; `None` if none is known.
///
/// # Errors
/// If the device cannot be read.
pub fn detect_signature(dev: &dyn Device) -> Result<Option<&'static str>> {
    let count = dev.info().blocks.min(READ);
    if count == 0 {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(count as usize * steadyfs_device::BLOCK_SIZE);
    for page in dev.read(0, count)? {
        page.with(|page| bytes.extend_from_slice(page));
    }
    Ok(find(&bytes))
}

fn find(bytes: &[u8]) -> Option<&'static str> {
    let found = MARKS.iter().find(|(_, at, mark)| bytes.get(*at..at + mark.len()) == Some(*mark));
    found.map(|(name, ..)| *name).or_else(|| has_mbr(bytes).then_some("MBR partition table"))
}

/// A boot sector with at least one partition. The mark at its end alone may be any boot loader.
fn has_mbr(bytes: &[u8]) -> bool {
    let marked = bytes.get(SECTOR_MARK..SECTOR_MARK + 2) == Some(&[0x55, 0xAA]);
    let entries = bytes.get(PARTITIONS..SECTOR_MARK).unwrap_or_default();
    // State (0 or 0x80), three bytes, type, three bytes, first sector, number of sectors.
    let sound = |entry: &[u8]| entry[0] & 0x7F == 0;
    let used = |entry: &[u8]| entry[4] != 0 && entry[12..16] != [0; 4];
    marked && entries.chunks(16).all(sound) && entries.chunks(16).any(used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadyfs_device::{MemDevice, PageBuf};

    #[test]
    fn every_mark_is_found_where_it_is() {
        for (name, at, mark) in MARKS {
            let mut bytes = vec![0; READ as usize * 4096];
            bytes[*at..at + mark.len()].copy_from_slice(mark);
            assert_eq!(find(&bytes), Some(*name));
        }
        assert_eq!(find(&[0; 100]), None);
    }

    #[test]
    fn a_boot_sector_needs_a_partition() {
        let mut bytes = vec![0; 4096];
        bytes[510..512].copy_from_slice(&[0x55, 0xAA]);
        assert_eq!(find(&bytes), None);
        bytes[446 + 4] = 0x83;
        bytes[446 + 12] = 1;
        assert_eq!(find(&bytes), Some("MBR partition table"));
        bytes[446 + 16] = 0x12;
        assert_eq!(find(&bytes), None);
    }

    #[test]
    fn devices_of_any_size_are_read() {
        assert_eq!(detect_signature(&MemDevice::new(0)).unwrap(), None);
        let dev = MemDevice::new(1);
        dev.write(0, vec![PageBuf::from_slice(b"XFSB")]).unwrap();
        assert_eq!(detect_signature(&dev).unwrap(), Some("xfs"));
    }
}
