//! The bytes of the superblock: 3072 of them at byte 1024 of blocks 0 and 1.

use crate::block::{BLOCK_SIZE, Block};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where the structure starts inside its block.
pub const SUPERBLOCK_OFFSET: usize = 1024;
/// Size of the structure in bytes.
pub const SUPERBLOCK_SIZE: usize = 3072;
/// Offset of the checksum in the structure, where the volume has one.
pub const CHECKSUM_OFFSET: usize = 3068;
/// UTF-16 units in the label field.
pub const LABEL_UNITS: usize = 512;
/// Extensions that the list can hold.
pub const MAX_EXTENSIONS: usize = 64;
/// Bytes of one extension.
pub const EXTENSION_LEN: usize = 8;
/// Devices that one volume can have.
pub const MAX_DEVICES: usize = 8;

/// One device of a volume that spans several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawDevice {
    /// Path, NUL-padded; empty for "no such device".
    pub path: [u8; 64],
    /// Segments of the volume on this device.
    pub total_segments: U32,
}

/// The superblock (format section 2).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawSuperBlock {
    /// 0xF2F52010.
    pub magic: U32,
    /// Version of the mkfs that made the volume.
    pub major_ver: U16,
    /// Its minor version.
    pub minor_ver: U16,
    /// Logarithm of the device's sector size, 9 to 12.
    pub log_sectorsize: U32,
    /// Logarithm of the number of sectors in a block.
    pub log_sectors_per_block: U32,
    /// 12.
    pub log_blocksize: U32,
    /// 9.
    pub log_blocks_per_seg: U32,
    /// Segments in a section.
    pub segs_per_sec: U32,
    /// Sections in a zone.
    pub secs_per_zone: U32,
    /// 3068 with the feature `sb_checksum`, else 0.
    pub checksum_offset: U32,
    /// Blocks of the whole device.
    pub block_count: U64,
    /// Sections of the main area.
    pub section_count: U32,
    /// Segments of all areas together.
    pub segment_count: U32,
    /// Segments of the checkpoint area: 2.
    pub segment_count_ckpt: U32,
    /// Segments of the SIT, both copies.
    pub segment_count_sit: U32,
    /// Segments of the NAT, both copies.
    pub segment_count_nat: U32,
    /// Segments of the SSA.
    pub segment_count_ssa: U32,
    /// Segments of the main area.
    pub segment_count_main: U32,
    /// First block of segment 0.
    pub segment0_blkaddr: U32,
    /// First block of the checkpoint area.
    pub cp_blkaddr: U32,
    /// First block of the SIT.
    pub sit_blkaddr: U32,
    /// First block of the NAT.
    pub nat_blkaddr: U32,
    /// First block of the SSA.
    pub ssa_blkaddr: U32,
    /// First block of the main area.
    pub main_blkaddr: U32,
    /// 3.
    pub root_ino: U32,
    /// 1.
    pub node_ino: U32,
    /// 2.
    pub meta_ino: U32,
    /// The volume's uuid; seeds the inode checksums.
    pub uuid: [u8; 16],
    /// Label, UTF-16, ended by a NUL unless it fills the field.
    pub volume_name: [U16; LABEL_UNITS],
    /// Number of cold extensions.
    pub extension_count: U32,
    /// Cold extensions, then hot ones.
    pub extension_list: [[u8; EXTENSION_LEN]; MAX_EXTENSIONS],
    /// Checkpoint blocks beyond the header for version bitmaps.
    pub cp_payload: U32,
    /// Version string of the last kernel or tool that wrote here.
    pub version: [u8; 256],
    /// Version string of mkfs.
    pub init_version: [u8; 256],
    /// Feature bits.
    pub feature: U32,
    /// Encryption level.
    pub encryption_level: u8,
    /// Salt of the password-based encryption.
    pub encrypt_pw_salt: [u8; 16],
    /// The devices of the volume; none for a volume on one device.
    pub devs: [RawDevice; MAX_DEVICES],
    /// Quota inodes: user, group, project.
    pub qf_ino: [U32; 3],
    /// Number of hot extensions.
    pub hot_ext_count: u8,
    /// Encoding of names in casefolded directories.
    pub s_encoding: U16,
    /// Flags of the encoding.
    pub s_encoding_flags: U16,
    /// A counter for each reason for which checkpointing has stopped.
    pub s_stop_reason: [u8; 32],
    /// A bitmap of the kinds of corruption seen.
    pub s_errors: [u8; 16],
    /// Reserved; kept as found.
    pub reserved: [u8; 258],
    /// Checksum of the bytes before it, with the feature `sb_checksum`.
    pub crc: U32,
}

const _: () = assert!(size_of::<RawSuperBlock>() == SUPERBLOCK_SIZE);
const _: () = assert!(SUPERBLOCK_OFFSET + SUPERBLOCK_SIZE == BLOCK_SIZE);
const _: () = assert!(std::mem::offset_of!(RawSuperBlock, uuid) == 108);
const _: () = assert!(std::mem::offset_of!(RawSuperBlock, cp_payload) == 1664);
const _: () = assert!(std::mem::offset_of!(RawSuperBlock, feature) == 2180);
const _: () = assert!(std::mem::offset_of!(RawSuperBlock, qf_ino) == 2745);
const _: () = assert!(std::mem::offset_of!(RawSuperBlock, s_stop_reason) == 2762);
const _: () = assert!(std::mem::offset_of!(RawSuperBlock, crc) == CHECKSUM_OFFSET);

impl RawSuperBlock {
    /// A superblock of zeros.
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }

    /// Copies the structure out of block 0 or 1, whatever it holds.
    pub fn read(block: &Block) -> Self {
        match Self::read_from_bytes(&block[SUPERBLOCK_OFFSET..]) {
            Ok(raw) => raw,
            Err(_) => unreachable!("the structure ends with the block"),
        }
    }

    /// Copies the structure into block 0 or 1; the first 1024 bytes of the block stay.
    pub fn write(&self, block: &mut Block) {
        block[SUPERBLOCK_OFFSET..].copy_from_slice(self.as_bytes());
    }
}
