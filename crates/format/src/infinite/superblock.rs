//! The superblock: that of F2FS with a magic number of its own, areas of region 0 only, and 32 bytes of extension.

use super::{AddressSpace, MAGIC, VERSION};
use crate::block::{BLOCKS_PER_SEG, Block, LOG_BLOCK_SIZE, LOG_BLOCKS_PER_SEG, zeroed_block};
use crate::crc::{F2FS_MAGIC, f2fs_crc};
use crate::error::{FormatError, require};
use crate::superblock::{CHECKSUM_OFFSET, QuotaKind, RawSuperBlock, checks};
use crate::{Features, Ino, Layout, Lba, META_INO, NODE_INO, ROOT_INO, Width};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const SB: &str = "IPLFS superblock";
/// Offset of the extension in the structure: the front of `reserved`.
pub const EXTENSION_OFFSET: usize = std::mem::offset_of!(RawSuperBlock, reserved);
/// The shortest stretch has 2^9 blocks.
pub const MIN_LOG_SHIFT: u8 = 9;
/// The longest stretch has 2^58 blocks; eight of them are the largest address space.
pub const MAX_LOG_SHIFT: u8 = 58;
/// Features that every volume has.
pub const NEEDED_FEATURES: Features = Features::INFINITE.union(Features::SB_CHECKSUM);
/// Features that a volume may have. Inode checksums would cover the checksum of the node that holds them; clusters,
/// encryption and zones have no meaning here yet.
pub const ALLOWED_FEATURES: Features = NEEDED_FEATURES
    .union(Features::EXTRA_ATTR)
    .union(Features::PROJECT_QUOTA)
    .union(Features::FLEXIBLE_INLINE_XATTR)
    .union(Features::QUOTA)
    .union(Features::INODE_CRTIME)
    .union(Features::LOST_FOUND)
    .union(Features::CASEFOLD);
/// The bytes of the extension.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Extension {
    version: U16,
    log_shift: u8,
    reserved: [u8; 5],
    first_log: U64,
    capacity: U64,
    leap: U64,
}

const EXTENSION_BYTES: usize = 32;
const _: () = assert!(size_of::<Extension>() == EXTENSION_BYTES && EXTENSION_OFFSET == 2810);

/// What a new volume is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Segments of the NAT, both copies: an even number.
    pub nat_segments: u32,
    /// Log space.
    pub space: AddressSpace,
    /// Blocks of log space that may be held at one time.
    pub capacity: u64,
    /// How far the limit of a log lies ahead of its head when a checkpoint sets it, in blocks.
    pub leap: u64,
    /// Feature bits; [`NEEDED_FEATURES`] are added.
    pub features: Features,
}

/// The smallest capacity, in blocks, that a volume is given: 16 MiB. A smaller one can be read.
pub const MIN_CAPACITY: u64 = 4096;

/// Blocks of a pack that the NAT version bitmap takes beyond the header.
pub const fn payload_blocks(nat_blocks: u32) -> u32 {
    let bytes = (nat_blocks / 8) as usize;
    bytes.saturating_sub(super::header::BITMAP_BYTES).div_ceil(super::CHECKSUM_OFFSET) as u32
}

/// A superblock whose fields were checked.
#[derive(Clone, PartialEq, Eq)]
pub struct SuperBlock {
    raw: Box<RawSuperBlock>,
    layout: Layout,
    space: AddressSpace,
    capacity: u64,
    leap: u64,
}

impl std::fmt::Debug for SuperBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("infinite::SuperBlock")
            .field("label", &self.label())
            .field("features", &self.features())
            .field("nat_segments", &self.layout.nat_segments)
            .field("space", &self.space)
            .field("capacity", &self.capacity)
            .field("leap", &self.leap)
            .finish_non_exhaustive()
    }
}

impl Geometry {
    /// The fields of a superblock with this geometry; the caller adds uuid, label, versions and the like.
    ///
    /// Areas begin at block 512: two packs, then the NAT.
    pub fn superblock(&self) -> RawSuperBlock {
        let seg = u64::from(BLOCKS_PER_SEG);
        let mut raw = RawSuperBlock::zeroed();
        raw.magic = MAGIC.into();
        raw.log_sectorsize = 9.into();
        raw.log_sectors_per_block = (LOG_BLOCK_SIZE - 9).into();
        raw.log_blocksize = LOG_BLOCK_SIZE.into();
        raw.log_blocks_per_seg = LOG_BLOCKS_PER_SEG.into();
        (raw.segs_per_sec, raw.secs_per_zone) = (1.into(), 1.into());
        raw.checksum_offset = (CHECKSUM_OFFSET as u32).into();
        raw.block_count = self.space.end().get().into();
        raw.segment_count_ckpt = 2.into();
        raw.segment_count_nat = self.nat_segments.into();
        raw.segment_count = self.nat_segments.saturating_add(2).into();
        let at = |segments: u64| U32::new((seg * (1 + segments)).min(u64::from(u32::MAX)) as u32);
        (raw.segment0_blkaddr, raw.cp_blkaddr) = (at(0), at(0));
        (raw.sit_blkaddr, raw.nat_blkaddr) = (at(2), at(2));
        raw.ssa_blkaddr = at(2 + u64::from(self.nat_segments));
        raw.main_blkaddr = raw.ssa_blkaddr;
        (raw.node_ino, raw.meta_ino) = (NODE_INO.get().into(), META_INO.get().into());
        raw.root_ino = ROOT_INO.get().into();
        raw.cp_payload = payload_blocks((self.nat_segments / 2).saturating_mul(BLOCKS_PER_SEG)).into();
        raw.feature = self.features.union(NEEDED_FEATURES).bits().into();
        let extension = Extension {
            version: VERSION.into(),
            log_shift: self.space.shift(),
            reserved: [0; 5],
            first_log: self.space.first().get().into(),
            capacity: self.capacity.into(),
            leap: self.leap.into(),
        };
        raw.reserved[..EXTENSION_BYTES].copy_from_slice(extension.as_bytes());
        raw
    }
}

impl SuperBlock {
    /// Reads block 0 or 1 of a volume and makes every check.
    ///
    /// # Errors
    /// The first field that breaks a rule; [`FormatError::Magic`] if the block holds something else.
    pub fn parse(block: &Block) -> Result<Self, FormatError> {
        let raw = RawSuperBlock::read(block);
        require_magic(&raw)?;
        let offset = raw.checksum_offset.get();
        require(offset == CHECKSUM_OFFSET as u32, SB, "checksum_offset", offset, "is 3068")?;
        let computed = checksum(&raw);
        if computed != raw.crc.get() {
            return Err(FormatError::Checksum { structure: SB, stored: raw.crc.get(), computed });
        }
        Self::new(raw)
    }

    /// Makes every check but that of the checksum on fields in memory.
    ///
    /// # Errors
    /// As [`SuperBlock::parse`].
    pub fn new(raw: RawSuperBlock) -> Result<Self, FormatError> {
        require_magic(&raw)?;
        let layout = check_areas(&raw)?;
        let extension = extension(&raw);
        let space = check_space(&raw, &extension)?;
        let (capacity, leap) = (extension.capacity.get(), extension.leap.get());
        let in_range = 1..=space.length();
        require(in_range.contains(&capacity), SB, "capacity", capacity, "is 1 to the length of a log")?;
        require(in_range.contains(&leap), SB, "leap", leap, "is 1 to the length of a log")?;
        Ok(Self { raw: Box::new(raw), layout, space, capacity, leap })
    }

    /// What volumes of all kinds have: label, uuid, features, region 0. Its `encode` gives the same bytes as this.
    pub fn common(&self) -> crate::SuperBlock {
        crate::SuperBlock::of_other_kind((*self.raw).clone(), self.layout)
    }

    /// The same volume with another capacity.
    ///
    /// # Errors
    /// A capacity of no blocks, or of more than a log has.
    pub fn with_capacity(&self, blocks: u64) -> Result<Self, FormatError> {
        let mut raw = (*self.raw).clone();
        let mut changed = extension(&raw);
        changed.capacity = blocks.into();
        raw.reserved[..EXTENSION_BYTES].copy_from_slice(changed.as_bytes());
        Self::new(raw)
    }

    /// The superblock as a block whose first 1024 bytes are zero, with its checksum.
    pub fn encode(&self) -> Block {
        let mut raw = self.raw.clone();
        raw.crc = checksum(&raw).into();
        let mut block = zeroed_block();
        raw.write(&mut block);
        block
    }

    /// The fields as they lie on the disk.
    pub fn raw(&self) -> &RawSuperBlock {
        &self.raw
    }

    /// Region 0: packs and NAT. SIT, SSA and main area are empty, so that no address is in the main area.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Log space.
    pub fn space(&self) -> AddressSpace {
        self.space
    }

    /// Blocks of log space that may be held at one time.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How far the limit of a log lies ahead of its head when a checkpoint sets it, in blocks.
    pub fn leap(&self) -> u64 {
        self.leap
    }

    /// The feature bits.
    pub fn features(&self) -> Features {
        Features::from_bits(self.raw.feature.get())
    }

    /// The volume's uuid.
    pub fn uuid(&self) -> [u8; 16] {
        self.raw.uuid
    }

    /// The seed of every block checksum of this volume.
    pub fn seed(&self) -> u32 {
        f2fs_crc(u32::MAX, &self.raw.uuid)
    }

    /// The label; units that are not UTF-16 become U+FFFD.
    pub fn label(&self) -> String {
        self.raw.label()
    }

    /// Version string of the tool that made the volume.
    pub fn init_version(&self) -> String {
        self.raw.init_version_text()
    }

    /// The hidden quota file of this kind, if the volume has one.
    pub fn quota_ino(&self, kind: QuotaKind) -> Option<Ino> {
        let ino = Ino(self.raw.qf_ino[kind as usize].get());
        (!ino.is_null()).then_some(ino)
    }
}

fn checksum(raw: &RawSuperBlock) -> u32 {
    f2fs_crc(MAGIC, &raw.as_bytes()[..CHECKSUM_OFFSET])
}

fn extension(raw: &RawSuperBlock) -> Extension {
    match Extension::read_from_bytes(&raw.reserved[..EXTENSION_BYTES]) {
        Ok(extension) => extension,
        Err(_) => unreachable!("the slice has the size of the structure"),
    }
}

fn require_magic(raw: &RawSuperBlock) -> Result<(), FormatError> {
    let found = raw.magic.get();
    if found == MAGIC {
        Ok(())
    } else if found == F2FS_MAGIC {
        Err(FormatError::Refused("an F2FS volume, no IPLFS volume".to_owned()))
    } else {
        Err(FormatError::Magic { structure: SB, found })
    }
}

/// Region 0 and the features.
fn check_areas(raw: &RawSuperBlock) -> Result<Layout, FormatError> {
    checks::check_units(raw)?;
    let empty = [
        ("segment_count_sit", raw.segment_count_sit.get()),
        ("segment_count_ssa", raw.segment_count_ssa.get()),
        ("segment_count_main", raw.segment_count_main.get()),
        ("section_count", raw.section_count.get()),
        ("devs", raw.devs[0].path[0].into()),
    ];
    for (field, value) in empty {
        require(value == 0, SB, field, value, "is 0")?;
    }
    for (field, value) in [("segs_per_sec", raw.segs_per_sec.get()), ("secs_per_zone", raw.secs_per_zone.get())] {
        require(value == 1, SB, field, value, "is 1")?;
    }
    let cp = raw.segment_count_ckpt.get();
    require(cp == 2, SB, "segment_count_ckpt", cp, "is 2")?;
    let (nat, segments) = (raw.segment_count_nat.get(), raw.segment_count.get());
    require(nat >= 2 && nat.is_multiple_of(2), SB, "segment_count_nat", nat, "is pairs of segments")?;
    let nat_blocks = u64::from(nat / 2) * u64::from(BLOCKS_PER_SEG);
    let nids = nat_blocks * Width::Eight.nat_entries() as u64;
    require(nids <= u64::from(u32::MAX), SB, "segment_count_nat", nat, "has fewer than 2^32 node ids")?;
    require(segments == nat + 2, SB, "segment_count", segments, "is that of packs and NAT")?;
    checks::check_chain(raw)?;
    checks::check_rest(raw)?;
    let payload = raw.cp_payload.get();
    let right = payload == payload_blocks(nat_blocks as u32);
    require(right, SB, "cp_payload", payload, "is what the NAT bitmap takes beyond the header")?;
    let bits = Features::from_bits(raw.feature.get());
    require(bits.contains(NEEDED_FEATURES), SB, "feature", bits.bits(), "has infinite and sb_checksum")?;
    let others = bits.difference(ALLOWED_FEATURES);
    require(others.is_empty(), SB, "feature", bits.bits(), "has no feature that IPLFS volumes cannot have")?;
    let mut layout = checks::layout(raw);
    layout.width = Width::Eight;
    Ok(layout)
}

/// Log space: behind region 0, as long as the volume says.
fn check_space(raw: &RawSuperBlock, extension: &Extension) -> Result<AddressSpace, FormatError> {
    let version = extension.version.get();
    require(version == VERSION, SB, "version", version, "is 1, the version that this program knows")?;
    let shift = extension.log_shift;
    let in_range = (MIN_LOG_SHIFT..=MAX_LOG_SHIFT).contains(&shift);
    require(in_range, SB, "log_shift", shift, "is 9 to 58")?;
    let first = extension.first_log.get();
    let Some(space) = AddressSpace::new(Lba(first), shift) else {
        return Err(FormatError::field(SB, "first_log", first, "is a multiple of a log, with 7 logs below 2^61"));
    };
    let region = u64::from(raw.main_blkaddr.get());
    require(first >= region, SB, "first_log", first, "lies behind region 0")?;
    let blocks = raw.block_count.get();
    require(blocks == space.end().get(), SB, "block_count", blocks, "is where log space ends")?;
    Ok(space)
}
