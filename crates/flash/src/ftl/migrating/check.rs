//! The rules of [`Migrating`], each looked at in full.

use super::{Migrating, UNBOUND};
use crate::ftl::Ftl;
use crate::ftl::LineState;
use crate::nand::Nand;

/// Adds a line for every rule that does not hold.
pub(super) fn check(ftl: &Migrating, nand: &Nand, found: &mut Vec<String>) {
    ftl.meta.check(nand, found);
    ftl.collector.check(found);
    for (zone, &line) in ftl.zones.iter().enumerate() {
        let live = ftl.ledger.live_in(ftl.start(zone as u32));
        if line == UNBOUND {
            if live > 0 {
                found.push(format!("zone {zone} holds {live} pages and is bound to no line"));
            }
        } else if ftl.lines[line as usize].zone != zone as u32 {
            found.push(format!("zone {zone} is bound to line {line}, and that not to it"));
        }
    }
    let unit = ftl.geometry.unit_pages();
    for (number, bound) in ftl.lines.iter().enumerate() {
        let line = number as u32;
        let programmed = nand.lines()[number + ftl.first_line as usize].programmed;
        let is_victim = ftl.collector.victim.is_some_and(|victim| victim.line == line);
        let target = ftl.targets.iter().flatten().any(|target| target.line == line);
        let pending = ftl.collector.copied.iter().filter(|copied| copied.line == line).count() as u32;
        let kind = ftl.collector.kinds()[number];
        let right = match kind {
            LineState::Free => programmed == 0 && bound.placed == 0 && ftl.collector.free.contains(&line),
            LineState::Open => target || ftl.open.contains_key(&bound.zone),
            LineState::Full => is_victim || ftl.collector.victims.listed(line) == Some(ftl.live_in(line)),
            LineState::Awaiting => ftl.collector.collected().any(|collected| collected == line),
        };
        let units = bound.placed / unit == programmed + pending || bound.placed.div_ceil(unit) == programmed + pending;
        if !right || !units {
            found.push(format!(
                "line {line} is {kind:?}, {bound:?}, with {programmed} units programmed and {pending} to come"
            ));
        }
    }
    let (outstanding, most) = (ftl.ledger.outstanding(), ftl.shape.records as usize);
    if ftl.most_records > most || outstanding > most {
        found.push(format!("{} records were outstanding at a device that has {most}", ftl.most_records));
    }
}
