//! Where the six logs of a new volume begin: nodes and directories at the front, cold data after a quarter, warm data
//! after half. As a heap: nodes and directories at the end, the other data at the front, so that the two grow towards
//! each other.

use super::Misfit;
use crate::{Layout, Log, SegNo};

/// Zones at the front: hot, warm, cold nodes, hot data.
const FRONT: u32 = 4;

pub(super) fn plan(layout: &Layout, heap: bool) -> Result<[SegNo; Log::COUNT], Misfit> {
    let per_zone = layout.segs_per_sec * layout.secs_per_zone;
    let zones = layout.main_segments / per_zone;
    if zones < Log::COUNT as u32 {
        // The six logs need one each.
        return Err(Misfit::TooSmall);
    }
    let start = |zone| SegNo(zone * per_zone);
    // By log number: hot, warm, cold data, then the nodes.
    if heap {
        return Ok([zones - 4, 1, 0, zones - 1, zones - 2, zones - 3].map(start));
    }
    let cold = (zones / 4).saturating_sub(1).max(FRONT);
    let warm = (zones / 2).saturating_sub(1).max(cold + 1);
    assert!(warm < zones, "with six zones there is one behind the cold data");
    Ok([3, warm, cold, 0, 1, 2].map(start))
}
