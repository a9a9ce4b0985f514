//! The arithmetic against numbers that mkfs.f2fs 1.15 printed or wrote; the whole comparison runs in the core crate.

use super::*;
use crate::Lba;
use proptest::prelude::*;

fn plan(mib: u64) -> MkfsLayout {
    MkfsLayout::plan(&MkfsChoices { device_bytes: mib << 20, ..MkfsChoices::default() }).unwrap()
}

#[test]
fn the_64_mib_volume_of_the_format_text() {
    let made = plan(64);
    let layout = made.layout;
    assert_eq!([layout.cp, layout.sit, layout.nat, layout.ssa, layout.main], [512, 1536, 2560, 3584, 4096].map(Lba));
    assert_eq!((layout.main_segments, made.overprov_segments, made.reserved_segments), (24, 16, 13));
    assert_eq!(made.logs, [3, 11, 5, 0, 1, 2].map(SegNo));
    assert_eq!((made.overprovision, made.free_segments, made.user_blocks), (35.0, 18, 8 * 512));
}

#[test]
fn impossible_choices_are_refused_with_a_reason() {
    let cases: [(MkfsChoices, &str); 6] = [
        (MkfsChoices { device_bytes: 1 << 20, ..MkfsChoices::default() }, "too small"),
        (MkfsChoices { device_bytes: 1 << 50, ..MkfsChoices::default() }, "too large"),
        (MkfsChoices { device_bytes: 1 << 30, segs_per_sec: 0, ..MkfsChoices::default() }, "at least one"),
        (
            MkfsChoices { device_bytes: 1 << 30, segs_per_sec: 1 << 31, ..MkfsChoices::default() },
            "larger than a volume",
        ),
        (MkfsChoices { device_bytes: 1 << 30, overprovision: Some(100.0), ..MkfsChoices::default() }, "less than 100"),
        (MkfsChoices { device_bytes: 1 << 30, log_sector_size: 13, ..MkfsChoices::default() }, "512 to 4096"),
    ];
    for (choices, reason) in cases {
        let error = MkfsLayout::plan(&choices).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

proptest! {
    /// Whatever is planned passes the checks of a superblock, and its numbers fit each other.
    #[test]
    fn every_plan_is_a_volume(mib in 1u64..20_000_000, segs in 1u32..9, secs in 1u32..5, start in 0u64..10_000, percent in prop::option::of(1.0f64..60.0), large_nat: bool) {
        let choices = MkfsChoices {
            device_bytes: mib << 20,
            start_sector: start,
            segs_per_sec: segs,
            secs_per_zone: secs,
            overprovision: percent,
            large_nat,
            ..MkfsChoices::default()
        };
        if let Ok(made) = MkfsLayout::plan(&choices) {
            let parsed = made.check(&choices).unwrap();
            prop_assert_eq!(parsed.layout(), &made.layout);
            prop_assert!(made.reserved_segments > 0 && made.reserved_segments < made.overprov_segments + 1);
            let mut logs = made.logs.to_vec();
            logs.sort();
            logs.dedup();
            prop_assert!(logs.len() == 6 && logs[5].0 < made.layout.main_segments);
            let flags = if large_nat { crate::CpFlags::LARGE_NAT_BITMAP } else { crate::CpFlags::NONE };
            prop_assert!(crate::Checkpoint::new(&made.layout, flags).is_ok());
        }
    }
}
