//! Where everything lies on a volume: area addresses and the arithmetic between addresses, segments, sections and
//! zones.
//!
//! A [`Layout`] comes out of a checked superblock (or of mkfs arithmetic that is then checked). On such a layout no
//! function here overflows; the ones that take a number from an image return `None` or a `bool` for numbers outside the
//! volume.

use crate::block::{BLOCK_SIZE, BLOCKS_PER_SEG};
use crate::{Lba, Nid, SecNo, SegNo, Width, sit};
use std::ops::Range;

/// The geometry of a volume (format section 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Blocks of the whole device.
    pub block_count: u64,
    /// Segments of all areas together (the tail may be unused).
    pub segment_count: u32,
    /// First block of the first area.
    pub segment0: Lba,
    /// First block of the checkpoint area: two packs of one segment each.
    pub cp: Lba,
    /// First block of the SIT.
    pub sit: Lba,
    /// First block of the NAT.
    pub nat: Lba,
    /// First block of the SSA.
    pub ssa: Lba,
    /// First block of the main area.
    pub main: Lba,
    /// Segments of the SIT, both copies.
    pub sit_segments: u32,
    /// Segments of the NAT, both copies.
    pub nat_segments: u32,
    /// Segments of the SSA; 0 on a volume with the feature `ro`.
    pub ssa_segments: u32,
    /// Segments of the main area.
    pub main_segments: u32,
    /// Sections of the main area.
    pub sections: u32,
    /// Segments in a section.
    pub segs_per_sec: u32,
    /// Sections in a zone.
    pub secs_per_zone: u32,
    /// Checkpoint blocks beyond the header for version bitmaps.
    pub cp_payload: u32,
    /// Width of block addresses, which the size of NAT entries follows from.
    pub width: Width,
}

const SEG: u64 = BLOCKS_PER_SEG as u64;

/// The two checkpoint packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pack {
    /// The first segment of the checkpoint area.
    One,
    /// The second.
    Two,
}

impl Pack {
    /// Both packs, in their order.
    pub const BOTH: [Self; 2] = [Self::One, Self::Two];

    /// The pack that the next checkpoint goes to.
    pub const fn other(self) -> Self {
        match self {
            Self::One => Self::Two,
            Self::Two => Self::One,
        }
    }

    /// 1 or 2.
    pub const fn number(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

/// Main area.
impl Layout {
    /// The block behind the main area.
    pub fn main_end(&self) -> Lba {
        self.main + u64::from(self.main_segments) * SEG
    }

    /// Whether the address lies in the main area; every address of file data and nodes must.
    pub fn in_main(&self, lba: Lba) -> bool {
        lba >= self.main && lba < self.main_end()
    }

    /// All main segments.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = SegNo> + ExactSizeIterator + use<> {
        (0..self.main_segments).map(SegNo)
    }

    /// The block at `offset` of a segment.
    ///
    /// # Panics
    /// If there is no such segment or block.
    pub fn lba_of(&self, segment: SegNo, offset: u16) -> Lba {
        assert!(segment.0 < self.main_segments, "{segment:?} is not in the main area");
        assert!(u32::from(offset) < BLOCKS_PER_SEG, "a segment has 512 blocks, not {offset}");
        self.main + (u64::from(segment.0) * SEG + u64::from(offset))
    }

    /// The segment of a main-area block, and the block's offset in it; `None` outside the main area.
    pub fn seg_of(&self, lba: Lba) -> Option<(SegNo, u16)> {
        if !self.in_main(lba) {
            return None;
        }
        let offset = lba - self.main;
        Some((SegNo((offset / SEG) as u32), (offset % SEG) as u16))
    }

    /// Main-area blocks.
    pub fn main_blocks(&self) -> u64 {
        u64::from(self.main_segments) * SEG
    }
}

/// Sections and zones.
impl Layout {
    /// The section of a segment.
    pub fn sec_of(&self, segment: SegNo) -> SecNo {
        SecNo(segment.0 / self.segs_per_sec)
    }

    /// The first segment of a section.
    pub fn first_seg(&self, section: SecNo) -> SegNo {
        SegNo(section.0 * self.segs_per_sec)
    }

    /// The segments of a section.
    pub fn segs_of(&self, section: SecNo) -> impl DoubleEndedIterator<Item = SegNo> + ExactSizeIterator + use<> {
        let first = self.first_seg(section).0;
        (first..first + self.segs_per_sec).map(SegNo)
    }

    /// The number of a section's zone.
    pub fn zone_of(&self, section: SecNo) -> u32 {
        section.0 / self.secs_per_zone
    }

    /// Blocks in a section.
    pub fn blocks_per_sec(&self) -> u64 {
        u64::from(self.segs_per_sec) * SEG
    }
}

/// Checkpoint area.
impl Layout {
    /// First block of a pack.
    pub fn pack(&self, pack: Pack) -> Lba {
        match pack {
            Pack::One => self.cp,
            Pack::Two => self.cp + SEG,
        }
    }

    /// Bytes of the SIT version bitmap.
    pub fn sit_bitmap_bytes(&self) -> usize {
        self.sit_blocks() as usize / 8
    }

    /// Bytes of the NAT version bitmap.
    pub fn nat_bitmap_bytes(&self) -> usize {
        self.nat_blocks() as usize / 8
    }

    /// Blocks that `nat_bits` take at the end of a pack's segment.
    pub fn nat_bits_blocks(&self) -> u32 {
        (2 * self.nat_bitmap_bytes() + 8).div_ceil(BLOCK_SIZE) as u32
    }

    /// First of these blocks.
    pub fn nat_bits_lba(&self, pack: Pack) -> Lba {
        self.pack(pack) + (SEG - u64::from(self.nat_bits_blocks()))
    }
}

/// SIT, NAT and SSA. `copy` is the block's bit in the version bitmap: `false` the first copy, `true` the second.
impl Layout {
    /// SIT blocks of one copy, used or not.
    pub fn sit_blocks(&self) -> u32 {
        self.sit_segments / 2 * BLOCKS_PER_SEG
    }

    /// SIT blocks of one copy that hold entries of main segments.
    pub fn used_sit_blocks(&self) -> u32 {
        self.main_segments.div_ceil(sit::ENTRIES_PER_BLOCK as u32)
    }

    /// The SIT block of a segment, and the entry in it.
    pub fn sit_place(&self, segment: SegNo) -> (u32, usize) {
        let per_block = sit::ENTRIES_PER_BLOCK as u32;
        (segment.0 / per_block, (segment.0 % per_block) as usize)
    }

    /// Address of a SIT block.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn sit_block_lba(&self, block: u32, copy: bool) -> Lba {
        assert!(block < self.sit_blocks(), "SIT block {block} of {}", self.sit_blocks());
        self.sit + u64::from(block) + if copy { u64::from(self.sit_blocks()) } else { 0 }
    }

    /// NAT blocks of one copy.
    pub fn nat_blocks(&self) -> u32 {
        self.nat_segments / 2 * BLOCKS_PER_SEG
    }

    /// Entries of a NAT block.
    pub fn nat_entries(&self) -> u32 {
        self.width.nat_entries() as u32
    }

    /// Number of node ids; ids are `0..max_nid`.
    pub fn max_nid(&self) -> Nid {
        Nid(self.nat_blocks() * self.nat_entries())
    }

    /// The NAT block of a node id, and the entry in it.
    pub fn nat_place(&self, nid: Nid) -> (u32, usize) {
        // A constant divisor each: every access to a node comes here.
        const FOUR: u32 = Width::Four.nat_entries() as u32;
        const EIGHT: u32 = Width::Eight.nat_entries() as u32;
        match self.width {
            Width::Four => (nid.0 / FOUR, (nid.0 % FOUR) as usize),
            Width::Eight => (nid.0 / EIGHT, (nid.0 % EIGHT) as usize),
        }
    }

    /// The node ids of a NAT block.
    pub fn nids_of(&self, block: u32) -> Range<u32> {
        let per_block = self.nat_entries();
        block * per_block..(block + 1) * per_block
    }

    /// Address of a NAT block. The copies alternate segment by segment.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn nat_block_lba(&self, block: u32, copy: bool) -> Lba {
        assert!(block < self.nat_blocks(), "NAT block {block} of {}", self.nat_blocks());
        let (pair, offset) = (u64::from(block / BLOCKS_PER_SEG), u64::from(block % BLOCKS_PER_SEG));
        self.nat + (pair * 2 * SEG + offset + if copy { SEG } else { 0 })
    }

    /// Whether there is a reverse map; a volume with the feature `ro` has none.
    pub fn has_ssa(&self) -> bool {
        self.ssa_segments > 0
    }

    /// Address of the summary block of a segment; `None` on a volume without SSA.
    ///
    /// # Panics
    /// If there is no such segment.
    pub fn ssa_lba(&self, segment: SegNo) -> Option<Lba> {
        assert!(segment.0 < self.main_segments, "{segment:?} is not in the main area");
        self.has_ssa().then(|| self.ssa + u64::from(segment.0))
    }
}
