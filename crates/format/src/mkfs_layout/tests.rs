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
    let cases: [(MkfsChoices, &str); 7] = [
        (MkfsChoices { device_bytes: 1 << 20, ..MkfsChoices::default() }, "too small"),
        (MkfsChoices { device_bytes: 1 << 50, ..MkfsChoices::default() }, "too large"),
        (MkfsChoices { device_bytes: 1 << 30, segs_per_sec: 0, ..MkfsChoices::default() }, "at least one"),
        (
            MkfsChoices { device_bytes: 1 << 30, segs_per_sec: 1 << 31, ..MkfsChoices::default() },
            "larger than a volume",
        ),
        (MkfsChoices { device_bytes: 1 << 30, overprovision: Some(99.0), ..MkfsChoices::default() }, "at most 95"),
        (MkfsChoices { device_bytes: 1 << 30, overprovision: Some(f64::NAN), ..MkfsChoices::default() }, "NaN %"),
        (MkfsChoices { device_bytes: 1 << 30, log_sector_size: 13, ..MkfsChoices::default() }, "512 to 4096"),
    ];
    for (choices, reason) in cases {
        let error = MkfsLayout::plan(&choices).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// The number before `unit` in a text.
fn number_before(text: &str, unit: &str) -> f64 {
    let (before, _) = text.split_once(unit).unwrap();
    before.split_whitespace().next_back().unwrap().parse().unwrap()
}

#[test]
fn a_device_that_is_too_small_is_told_the_smallest_size() {
    let default = MkfsChoices::default();
    let cases = [
        (default.clone(), Some(52)),
        (MkfsChoices { large_nat: true, ..default.clone() }, Some(52)),
        (MkfsChoices { segs_per_sec: 4, ..default.clone() }, None),
        (MkfsChoices { segs_per_sec: 3, secs_per_zone: 2, ..default.clone() }, None),
        (MkfsChoices { secs_per_zone: 16, ..default.clone() }, None),
        (MkfsChoices { overprovision: Some(0.5), ..default.clone() }, None),
    ];
    for (choices, known) in cases {
        let fits = |mib: u64| MkfsLayout::plan(&MkfsChoices { device_bytes: mib << 20, ..choices.clone() });
        let refusal = fits(1).unwrap_err().to_string();
        let told = number_before(&refusal, " MiB are enough") as u64;
        assert!(known.is_none_or(|known| known == told), "{choices:?}: {refusal}");
        assert!(fits(told).is_ok(), "{choices:?}: {refusal}");
        for mib in (2..told).step_by(2) {
            assert!(fits(mib).is_err(), "{choices:?}: {mib} would do; {refusal}");
        }
    }
}

#[test]
fn a_percentage_that_does_not_fit_is_told_the_range() {
    let with =
        |percent| MkfsChoices { device_bytes: 256 << 20, overprovision: Some(percent), ..MkfsChoices::default() };
    let refusal = MkfsLayout::plan(&with(0.5)).unwrap_err().to_string();
    assert!(refusal.contains("over-provisioning of 0.5 % leaves no room"), "{refusal}");
    let lowest = number_before(&refusal, " % to 95 %");
    assert!(MkfsLayout::plan(&with(lowest)).is_ok(), "{refusal}");
    assert!(MkfsLayout::plan(&with(lowest - 0.01)).is_err(), "{refusal}");
    assert!(MkfsLayout::plan(&with(95.0)).is_ok(), "{refusal}");
    let needed = number_before(&refusal, " MiB are enough") as u64;
    let enough = MkfsChoices { device_bytes: needed << 20, ..with(0.5) };
    assert!(MkfsLayout::plan(&enough).is_ok(), "{refusal}");
}

/// The last two block addresses of 16 TiB stand for something else, so the last segment is left out.
#[test]
fn the_largest_volume() {
    let choices = |bytes| MkfsChoices { device_bytes: bytes, ..MkfsChoices::default() };
    let made = MkfsLayout::plan(&choices(16 << 40)).unwrap();
    made.check(&choices(16 << 40)).unwrap();
    assert_eq!((made.layout.block_count, made.layout.segment_count), (1 << 32, 8_388_606));
    let refusal = MkfsLayout::plan(&choices((16 << 40) + 4096)).unwrap_err().to_string();
    assert!(refusal.contains("16 TiB"), "{refusal}");
}

proptest! {
    /// Whatever is planned passes the checks of a superblock, and its numbers fit each other.
    #[test]
    fn every_plan_is_a_volume(mib in 1u64..20_000_000, segs in 1u32..9, secs in 1u32..5, start in 0u64..10_000, percent in prop::option::of(1.0f64..60.0), large_nat: bool, heap: bool) {
        let choices = MkfsChoices {
            device_bytes: mib << 20,
            start_sector: start,
            segs_per_sec: segs,
            secs_per_zone: secs,
            overprovision: percent,
            large_nat,
            heap,
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
