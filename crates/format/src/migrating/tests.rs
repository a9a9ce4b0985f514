//! The extension of the superblock: both ways, every rule, no bytes do harm.

use super::*;
use crate::mkfs_layout::{MkfsChoices, MkfsLayout};
use crate::{Features, SuperBlock};
use proptest::prelude::*;

const PAGE: &str = include_str!("../../../../docs/D2FS-FORMAT.md");

fn raw() -> RawSuperBlock {
    let features = Features::SB_CHECKSUM;
    let choices = MkfsChoices { device_bytes: 1 << 30, segs_per_sec: 2, features, ..MkfsChoices::default() };
    MkfsLayout::plan(&choices).unwrap().superblock(&choices)
}

fn regions() -> Regions {
    Regions { regular_sections: 140, capacity: 100 * 1024 }
}

fn made(regions: Regions) -> Result<SuperBlock, FormatError> {
    let mut raw = raw();
    regions.store(&mut raw);
    SuperBlock::new(raw)
}

#[test]
fn a_superblock_keeps_its_regions_and_a_stock_one_has_none() {
    let superblock = SuperBlock::parse(&made(regions()).unwrap().encode()).unwrap();
    assert_eq!(superblock.regions(), Some(&regions()));
    let layout = superblock.layout();
    assert_eq!(
        (regions().gc_start(layout), regions().is_gc(SecNo(140)), regions().is_gc(SecNo(139))),
        (SegNo(280), true, false)
    );
    let mut stock = superblock.clone();
    stock.set_stock();
    let plain = SuperBlock::new(raw()).unwrap();
    assert_eq!((stock.regions(), stock.encode()), (None, plain.encode()));
}

#[test]
fn every_rule_of_the_regions_is_checked() {
    let sections = SuperBlock::new(raw()).unwrap().layout().sections;
    let gc = u64::from(sections - 140) * 1024;
    assert!(made(Regions { capacity: gc, ..regions() }).is_ok());
    for (field, bad) in [
        ("regular_sections", Regions { regular_sections: 5, ..regions() }),
        ("regular_sections", Regions { regular_sections: sections, ..regions() }),
        ("capacity", Regions { capacity: 0, ..regions() }),
        ("capacity", Regions { capacity: gc + 1, ..regions() }),
    ] {
        let error = made(bad).unwrap_err().to_string();
        assert!(error.contains(&format!("D2FS superblock: {field} =")), "{error}");
    }
    let mut zones = raw();
    (zones.secs_per_zone, zones.segs_per_sec) = (2.into(), 1.into());
    zones.section_count = zones.segment_count_main;
    Regions { regular_sections: 200, capacity: 1 }.store(&mut zones);
    assert!(SuperBlock::new(zones).unwrap_err().to_string().contains("secs_per_zone"));
    let mut torn = raw();
    regions().store(&mut torn);
    torn.reserved[4] ^= 1;
    assert!(matches!(SuperBlock::new(torn), Err(FormatError::Checksum { structure: SB, .. })));
}

/// The example of the page, byte for byte.
#[test]
fn the_page_says_the_bytes() {
    let mut raw = raw();
    Regions { regular_sections: 1400, capacity: 512_000 }.store(&mut raw);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let text = format!("{} | {}", hex(raw.magic.as_bytes()), hex(&raw.reserved[..EXTENSION_BYTES]));
    assert!(PAGE.contains(&text), "docs/D2FS-FORMAT.md lacks\n{text}");
    assert_eq!(std::mem::offset_of!(RawSuperBlock, reserved), 2810);
}

proptest! {
    #[test]
    fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), EXTENSION_BYTES), crc: bool) {
        let mut raw = raw();
        raw.magic = MAGIC.into();
        raw.reserved[..EXTENSION_BYTES].copy_from_slice(&bytes);
        if crc {
            let sum = f2fs_crc(MAGIC, &bytes[..EXTENSION_BYTES - 4]);
            raw.reserved[EXTENSION_BYTES - 4..EXTENSION_BYTES].copy_from_slice(&sum.to_le_bytes());
        }
        if let Ok(superblock) = SuperBlock::new(raw) {
            prop_assert!(superblock.regions().is_some());
        }
    }
}
