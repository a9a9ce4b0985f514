//! Where the six logs of a new volume begin: nodes and directories at the front, cold data after a quarter, warm data after half.

use super::refused;
use crate::error::FormatError;
use crate::{Layout, Log, SegNo};

/// Zones at the front: hot, warm, cold nodes, hot data.
const FRONT: u32 = 4;

pub(super) fn plan(layout: &Layout) -> Result<[SegNo; Log::COUNT], FormatError> {
    let per_zone = layout.segs_per_sec * layout.secs_per_zone;
    let zones = layout.main_segments / per_zone;
    if zones < Log::COUNT as u32 {
        return Err(refused(format!("the main area has {zones} zones; the six logs need one each")));
    }
    let cold = (zones / 4).saturating_sub(1).max(FRONT);
    let warm = (zones / 2).saturating_sub(1).max(cold + 1);
    assert!(warm < zones, "with six zones there is one behind the cold data");
    // By log number: hot, warm, cold data, then the nodes.
    Ok([3, warm, cold, 0, 1, 2].map(|zone| SegNo(zone * per_zone)))
}
