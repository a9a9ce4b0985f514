//! Choosing which section to clean.
//!
//! Foreground: greedy, the fewest valid blocks. Background: cost-benefit, `age * (1 - u) / (1 + u)` with the section's
//! mean modification time as its age. A section with an open segment, or whose blocks are all valid, is no candidate. At most
//! [`MAX_SEARCH`] candidates are weighed per choice, from where the last search ended, so the cost does not grow with the volume.

use super::Urgency;
use crate::segments::SegTable;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use steadyfs_format::{Layout, SecNo, SegNo};
use steadyfs_rt::{Cost, charge_n};

/// Most candidates weighed per choice.
const MAX_SEARCH: usize = 4096;

/// Victim selection with its search position.
pub(crate) struct VictimPolicy {
    cursor: AtomicU32,
}

struct Candidate {
    sec: SecNo,
    cost: u64,
}

impl VictimPolicy {
    pub(crate) fn new() -> Self {
        VictimPolicy { cursor: AtomicU32::new(0) }
    }

    /// The section to clean next. `now` is the volume's elapsed time.
    pub(crate) fn choose(&self, segs: &SegTable, layout: &Layout, urgency: Urgency, now: u64) -> Option<SecNo> {
        let start = self.cursor.load(SeqCst) as usize;
        let mut best: Option<Candidate> = None;
        let mut seen = 0;
        let mut last = start;
        let mut previous = None;
        let order = segs.dirty.iter_from(start).chain(segs.dirty.iter_from(0).take_while(|&i| i < start));
        for i in order {
            let sec = layout.sec_of(SegNo::new(i as u32));
            if previous == Some(sec) {
                continue;
            }
            previous = Some(sec);
            last = i;
            seen += 1;
            if let Some(cost) = cost(segs, layout, sec, urgency, now)
                && best.as_ref().is_none_or(|b| cost < b.cost)
            {
                best = Some(Candidate { sec, cost });
            }
            if seen >= MAX_SEARCH {
                break;
            }
        }
        charge_n(Cost::VictimScan, seen as u64);
        self.cursor.store(if seen >= MAX_SEARCH { last as u32 + 1 } else { 0 }, SeqCst);
        best.map(|b| b.sec)
    }
}

/// What cleaning the section costs; lower is better, `None` if it is no candidate.
fn cost(segs: &SegTable, layout: &Layout, sec: SecNo, urgency: Urgency, now: u64) -> Option<u64> {
    let mut valid = 0u64;
    let mut mtime = 0u64;
    for seg in layout.segs_of(sec) {
        let state = segs.state(seg);
        if state.is_open() || state.is_owned() {
            return None;
        }
        valid += u64::from(state.count());
        mtime = mtime.max(segs.mtime(seg));
    }
    let all = layout.blocks_per_sec();
    if valid >= all || valid == 0 {
        return None;
    }
    Some(match urgency {
        Urgency::Foreground => valid,
        Urgency::Background => {
            // u in thousandths; the benefit of old, empty sections is largest. Inverted, so that the least wins.
            let u = valid * 1000 / all;
            let age = now.saturating_sub(mtime).saturating_add(1);
            u64::MAX - age.saturating_mul((1000 - u) * 1000 / (1000 + u))
        }
    })
}
