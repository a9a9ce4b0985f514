//! How much of the main area is kept back so that collection always finds room.

use super::areas::Areas;
use super::{Misfit, MkfsChoices, refused};
use crate::Log;

/// The space kept back.
pub(super) struct Keep {
    pub(super) percent: f64,
    pub(super) reserved: u32,
    pub(super) overprov: u32,
}

/// The largest percentage that may be chosen; it is also the largest that is ever tried where none is chosen.
pub const MAX_OVERPROVISION: f64 = 95.0;
/// Below this many main segments percentages are tried in large steps.
const SMALL_VOLUME: u32 = 256;

pub(super) fn plan(areas: &Areas, choices: &MkfsChoices) -> Result<Keep, Misfit> {
    // Segments that a section costs, unused ones at the end of the device included.
    let per_section = f64::from(areas.usable.div_ceil(areas.layout.sections));
    let usable = f64::from(areas.usable);
    let reserved = |percent: f64| (2.0 * (100.0 / percent + 1.0) + 6.0) * per_section;
    let percent = match choices.overprovision {
        Some(percent) if percent > 0.0 && percent <= MAX_OVERPROVISION => percent,
        Some(percent) => {
            let why =
                format!("over-provisioning of {percent} %: allowed is more than 0, and at most {MAX_OVERPROVISION}");
            return Err(refused(why).into());
        }
        None => best(areas.layout.main_segments, |percent| {
            usable - reserved(percent) - (usable - reserved(percent)) * percent / 100.0
        }),
    };
    let reserved = reserved(percent) as u32;
    let left = areas.usable.checked_sub(reserved).ok_or(Misfit::TooSmall)?;
    let overprov = (f64::from(left) * percent / 100.0) as u32 + reserved;
    // Every log gets a segment that is not reserved.
    let enough = areas.layout.main_segments >= reserved + Log::COUNT as u32;
    if !enough || overprov >= areas.usable {
        return Err(Misfit::TooSmall);
    }
    Ok(Keep { percent, reserved, overprov })
}

/// The percentage that leaves users the most space; the first of several.
fn best(main_segments: u32, space: impl Fn(f64) -> f64) -> f64 {
    let (mut percent, end, step) =
        if main_segments < SMALL_VOLUME { (10.0, MAX_OVERPROVISION, 5.0) } else { (0.01, 10.0, 0.01) };
    let (mut best, mut most) = (percent, 0.0);
    while percent <= end {
        if space(percent) > most {
            (best, most) = (percent, space(percent));
        }
        // Summed up rather than multiplied out: the last digits decide between neighbours, and mkfs.f2fs sums.
        percent += step;
    }
    best
}
