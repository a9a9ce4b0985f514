//! The rules of zones, each looked at in full.

use super::{State, Zns};
use crate::ftl::Ftl;
use crate::nand::Nand;
use std::collections::HashMap;

/// Adds a line for every rule that does not hold.
pub(super) fn check(ftl: &Zns, nand: &Nand, found: &mut Vec<String>) {
    if let Some(map) = &ftl.conventional {
        map.check(nand, found);
    }
    counts(ftl, found);
    zones(ftl, nand, found);
    lines(ftl, nand, found);
    let space = ftl.space(nand);
    let all = nand.lines().len() as u64 * u64::from(ftl.geometry.line_pages());
    if space.mapped + space.invalid + space.free != all {
        found.push(format!("{space:?} is not the {all} pages of the flash"));
    }
}

/// Open and active zones, and their limits.
fn counts(ftl: &Zns, found: &mut Vec<String>) {
    let count = |states: &[State]| ftl.zones.iter().filter(|zone| states.contains(&zone.state)).count() as u32;
    let open = count(&[State::ImplicitlyOpen, State::ExplicitlyOpen]);
    let active = open + count(&[State::Closed]);
    if (open, active) != (ftl.open, ftl.active) {
        found.push(format!("{open} zones are open and {active} active, {} and {} were counted", ftl.open, ftl.active));
    }
    let exceeds = |count, limit| limit != 0 && count > limit;
    if exceeds(open, ftl.limits.max_open) || exceeds(active, ftl.limits.max_active) {
        found.push(format!("{open} open and {active} active zones exceed {:?}", ftl.limits));
    }
    let implicit = |number: &u32| ftl.zones[*number as usize].state == State::ImplicitlyOpen;
    if !ftl.implicit.iter().all(implicit) || ftl.implicit.len() as u32 != count(&[State::ImplicitlyOpen]) {
        found.push(format!("the zones {:?} are not those that writes have opened", ftl.implicit));
    }
}

/// Each zone's state, write pointer and what its line has been through.
fn zones(ftl: &Zns, nand: &Nand, found: &mut Vec<String>) {
    let (unit, pages) = (ftl.geometry.unit_pages(), ftl.geometry.line_pages());
    for (number, zone) in ftl.zones.iter().enumerate() {
        let programmed = zone.line.map_or(0, |line| nand.lines()[line as usize].programmed);
        let expected = if zone.fills() { zone.written / unit } else { zone.written.div_ceil(unit) };
        let right = match zone.state {
            State::Empty => zone.line.is_none() && zone.written == 0,
            State::ImplicitlyOpen => zone.line.is_some() && zone.written < pages,
            State::ExplicitlyOpen | State::Closed => zone.line.is_some() && zone.written < pages,
            State::Full | State::ReadOnly | State::Offline => zone.written <= pages,
        };
        if !right || programmed != expected || zone.logged > zone.written {
            found.push(format!("zone {number} is {zone:?}, with {programmed} units programmed of {expected}"));
        }
    }
}

/// Each line is in one place, and free ones are erased.
fn lines(ftl: &Zns, nand: &Nand, found: &mut Vec<String>) {
    let mut owners: HashMap<u32, u32> = HashMap::new();
    let log = ftl.log.lines();
    let free = ftl.free.iter().map(|&(_, line)| line);
    let held = ftl.zones.iter().filter_map(|zone| zone.line).chain(free).chain(log.map(|(line, _)| line));
    held.for_each(|line| *owners.entry(line).or_default() += 1);
    let first = ftl.conventional.as_ref().map_or(0, |map| map.lines());
    for line in first..nand.lines().len() as u32 {
        if owners.remove(&line) != Some(1) {
            found.push(format!("line {line} is not in one place"));
        }
    }
    if !owners.is_empty() {
        found.push(format!("{owners:?} belong to zones and to conventional ones"));
    }
    for &(erases, line) in &ftl.free {
        let state = nand.lines()[line as usize];
        if state.programmed != 0 || state.erases != erases {
            found.push(format!("line {line} is free, and {state:?} ({erases} erases noted)"));
        }
    }
    for (line, units) in log {
        if nand.lines()[line as usize].programmed != units {
            found.push(format!("line {line} of the log has {units} units, and {:?}", nand.lines()[line as usize]));
        }
    }
}
