//! Where the six logs of a new volume begin: nodes and directories at the front, cold data after a quarter, warm data after half.

use super::refused;
use crate::error::FormatError;
use crate::{Layout, Log, SegNo};

pub(super) fn plan(layout: &Layout) -> Result<[SegNo; Log::COUNT], FormatError> {
    let per_zone = layout.segs_per_sec * layout.secs_per_zone;
    let zones = layout.main_segments / per_zone;
    let logs = Log::COUNT as u32;
    if zones < logs {
        return Err(refused(format!("the main area has {zones} zones; the six logs need one each")));
    }
    let cold = (zones / 4).saturating_sub(1).max(3);
    let warm = (zones / 2).saturating_sub(1).max(cold + 1);
    // In zones, by log number: hot, warm, cold data, then the nodes.
    let spread = [3, warm, cold, 0, 1, 2];
    let distinct = cold > 3 && warm < zones;
    let chosen = if distinct { spread } else { [0, 1, 2, 3, 4, 5] };
    Ok(chosen.map(|zone| SegNo(zone * per_zone)))
}
