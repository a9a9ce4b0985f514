//! The superblock. Input: one byte of choices, then the 3072 bytes of the structure.

use super::{BLOCK_MEMORY, VOLUMES};
use crate::Target;
use crate::input::Input;
use steadyfs_format::crc::{F2FS_MAGIC, crc_magic};
use steadyfs_format::superblock::{CHECKSUM_OFFSET, QuotaKind, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, SuperBlock};
use steadyfs_format::{Features, Layout, Lba, Nid, Pack, SegNo, zeroed_block};

/// The target.
pub const TARGET: Target = Target { name: "superblock", run, seeds, volume: false, memory: BLOCK_MEMORY };

/// Choice: make magic and checksum right.
const REPAIR: u8 = 1;

fn seeds() -> Vec<Vec<u8>> {
    let seed = |repair: u8, journaled: bool, index: usize| {
        let (choices, plan) = &VOLUMES[index];
        let mut superblock = plan.check(choices).expect("mkfs makes sound superblocks");
        superblock.set_journaled(journaled);
        [&[repair], &superblock.encode()[SUPERBLOCK_OFFSET..]].concat()
    };
    let volumes = 0..VOLUMES.len();
    volumes.flat_map(|index| [seed(0, false, index), seed(REPAIR, false, index), seed(REPAIR, true, index)]).collect()
}

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choices = input.u8();
    let mut block = zeroed_block();
    let raw = input.take(SUPERBLOCK_SIZE);
    block[SUPERBLOCK_OFFSET..SUPERBLOCK_OFFSET + raw.len()].copy_from_slice(raw);
    if choices & REPAIR != 0 {
        repair(&mut block[SUPERBLOCK_OFFSET..]);
    }
    let Ok(superblock) = SuperBlock::parse(&block) else { return };
    let texts = (superblock.label(), superblock.version(), superblock.init_version(), superblock.devices());
    assert!(texts.0.len() <= 3 * 512 && texts.3.len() <= 8, "the fields are short");
    let extensions = superblock.cold_extensions().len() + superblock.hot_extensions().len();
    assert!(extensions <= 64, "the list has 64 places");
    let quotas = [QuotaKind::User, QuotaKind::Group, QuotaKind::Project].map(|kind| superblock.quota_ino(kind));
    assert!(quotas.iter().flatten().all(|ino| !ino.is_null()));
    let _ = (superblock.uuid(), superblock.inode_checksum_seed(), superblock.features().to_string());
    use_layout(superblock.layout());
    let again = SuperBlock::parse(&superblock.encode()).expect("what was accepted is accepted again");
    assert_eq!(again.layout(), superblock.layout());
    for on in [true, false] {
        let mut other = superblock.clone();
        if !on || superblock.regions().is_none() {
            other.set_journaled(on);
            let other = SuperBlock::parse(&other.encode()).expect("with the mark or without");
            assert_eq!((other.layout(), other.is_journaled()), (superblock.layout(), on));
        }
    }
}

/// Makes magic and checksum right.
fn repair(raw: &mut [u8]) {
    raw[..4].copy_from_slice(&F2FS_MAGIC.to_le_bytes());
    raw[32..36].copy_from_slice(&(CHECKSUM_OFFSET as u32).to_le_bytes());
    repair_checksum(raw);
}

/// Makes the checksum right.
pub(crate) fn repair_checksum(raw: &mut [u8]) {
    let features = u32::from_le_bytes([raw[2180], raw[2181], raw[2182], raw[2183]]);
    if Features::from_bits(features).contains(Features::SB_CHECKSUM) {
        let crc = crc_magic(&raw[..CHECKSUM_OFFSET]);
        raw[CHECKSUM_OFFSET..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Arithmetic on an accepted geometry must not fail, wherever it is asked to go.
fn use_layout(layout: &Layout) {
    let end = layout.main_end();
    assert!(end.try_to_disk().is_some() && layout.main < end);
    for lba in [Lba(0), layout.main, end, Lba(end.get() - 1), Lba(u64::from(u32::MAX)), Lba(u64::MAX)] {
        let found = layout.seg_of(lba);
        assert_eq!(found.is_some(), layout.in_main(lba));
        assert!(found.is_none_or(|(seg, off)| layout.lba_of(seg, off) == lba));
    }
    for seg in [0, layout.main_segments / 2, layout.main_segments - 1].map(SegNo) {
        let (block, index) = layout.sit_place(seg);
        assert!(block < layout.used_sit_blocks() && index < 55);
        let section = layout.sec_of(seg);
        assert!(layout.segs_of(section).any(|other| other == seg));
        let tables = [layout.sit_block_lba(block, false), layout.sit_block_lba(block, true)];
        assert!(tables.iter().all(|lba| *lba < layout.nat));
        assert!(layout.ssa_lba(seg).is_none_or(|lba| lba < layout.main));
        let _ = layout.zone_of(section);
    }
    for nid in [0, layout.max_nid().get() / 2, layout.max_nid().get() - 1].map(Nid) {
        let (block, _) = layout.nat_place(nid);
        assert!(layout.nids_of(block).contains(&nid.get()));
        assert!(layout.nat_block_lba(block, true) < layout.ssa);
    }
    assert!(layout.pack(Pack::Two) < layout.sit);
    let _ = (layout.sit_bitmap_bytes(), layout.nat_bitmap_bytes(), layout.nat_bits_blocks(), layout.blocks_per_sec());
}
