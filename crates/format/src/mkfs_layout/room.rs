//! What to say where a device is too small: the smallest one that would do, and the percentages that this one could
//! keep back.

use super::areas::MAX_SEGMENTS;
use super::overprovision::MAX_OVERPROVISION;
use super::{MkfsChoices, MkfsLayout};
use crate::block::SEG_BYTES;

/// Sizes are told to the mebibyte, and rounded up.
const MIB: u64 = 1 << 20;
/// Sizes that are tried.
const STEPS: u64 = 4096;
/// Percentages are told to the hundredth.
const HUNDREDTHS: u32 = 100;

/// Says what is missing for a volume with these choices, none of which is wrong by itself.
pub(super) fn missing(choices: &MkfsChoices) -> String {
    let bytes = choices.device_bytes;
    let at_least = match smallest(choices) {
        Some(smallest) => format!("{} MiB are enough", smallest.div_ceil(MIB)),
        None => "no device is large enough".to_owned(),
    };
    match (choices.overprovision, lowest_percentage(choices)) {
        (Some(percent), Some(lowest)) => format!(
            "over-provisioning of {percent} % leaves no room on a device of {bytes} bytes: \
             it can keep back {lowest} % to {MAX_OVERPROVISION} %; for {percent} % {at_least}"
        ),
        _ => format!("a device of {bytes} bytes is too small: for a volume with these choices {at_least}"),
    }
}

/// Bytes of the smallest device, in whole segments, that has room for the choices; of more than 8 GiB it may be missed
/// by one part in [`STEPS`].
fn smallest(choices: &MkfsChoices) -> Option<u64> {
    let fits = |&segments: &u64| {
        let device_bytes = segments * SEG_BYTES;
        MkfsLayout::fit(&MkfsChoices { device_bytes, ..choices.clone() }).is_ok()
    };
    let enough = (0..=MAX_SEGMENTS.ilog2()).map(|log| 1 << log).find(fits)?;
    // A device of a few segments more may be too small again: zones do not share what is left behind the last one.
    let sizes = (1..=enough).step_by((enough / STEPS).max(1) as usize);
    sizes.into_iter().find(fits).or(Some(enough)).map(|segments| segments * SEG_BYTES)
}

/// The lowest percentage that the device can keep back with the other choices.
fn lowest_percentage(choices: &MkfsChoices) -> Option<f64> {
    let percentages = (1..=MAX_OVERPROVISION as u32 * HUNDREDTHS).map(|n| f64::from(n) / f64::from(HUNDREDTHS));
    let with = |percent| MkfsChoices { overprovision: Some(percent), ..choices.clone() };
    percentages.into_iter().find(|percent| MkfsLayout::fit(&with(*percent)).is_ok())
}
