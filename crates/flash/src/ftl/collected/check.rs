//! The rules of collected flash, each looked at in full.

use super::Collected;
use crate::ftl::Ftl;
use crate::ftl::LineState;
use crate::ftl::map::Map;
use crate::nand::Nand;

/// Adds a line for every rule that does not hold; of the rules about pages the first few breaches.
pub(super) fn check<M: Map>(ftl: &Collected<M>, nand: &Nand, found: &mut Vec<String>) {
    inverse(ftl, found);
    lines(ftl, nand, found);
    let all = ftl.reverse.len() as u64;
    let space = ftl.space(nand);
    if space.mapped + space.invalid + space.free != all {
        found.push(format!("{space:?} is not the {all} pages of the flash"));
    }
    if space.mapped > ftl.pages {
        found.push(format!("{} pages are mapped on a device of {}", space.mapped, ftl.pages));
    }
    ftl.collector.check(found);
    ftl.map.check(found);
}

/// Map and reverse map say the same.
fn inverse<M: Map>(ftl: &Collected<M>, found: &mut Vec<String>) {
    let (mut mapped, mut wrong, mut from) = (0, 0, 0);
    while let Some(page) = ftl.map.next(from..u64::MAX) {
        let at = ftl.map.get(page);
        let held = ftl.reverse.get(at as usize).copied().filter(|&held| held != M::NONE);
        if held.map(M::number) != Some(page) && wrong < 5 {
            wrong += 1;
            found.push(format!("page {page} is mapped to {at}, which does not hold it"));
        }
        (mapped, from) = (mapped + 1, page + 1);
    }
    if mapped != ftl.mapped {
        found.push(format!("{mapped} pages are mapped, {} were counted", ftl.mapped));
    }
    let back = ftl.reverse.iter().enumerate().filter(|&(_, &page)| page != M::NONE);
    let wrong = back.filter(|&(at, &page)| ftl.map.get(M::number(page)) != at as u32);
    found.extend(wrong.take(5).map(|(at, &page)| {
        let page = M::number(page);
        format!("flash page {at} holds page {page}, which is not mapped to it")
    }));
}

/// Valid pages of each line, its state, and where it is listed.
fn lines<M: Map>(ftl: &Collected<M>, nand: &Nand, found: &mut Vec<String>) {
    let pages = ftl.geometry.line_pages() as usize;
    for (line, &kind) in ftl.collector.kinds().iter().enumerate() {
        let number = line as u32;
        let held = &ftl.reverse[line * pages..(line + 1) * pages];
        let valid = held.iter().filter(|&&page| page != M::NONE).count() as u32;
        if valid != ftl.valid[line] {
            found.push(format!("line {line} holds {valid} valid pages, {} were counted", ftl.valid[line]));
        }
        let is_victim = ftl.collector.victim.is_some_and(|victim| victim.line == number);
        let listed = ftl.collector.victims.listed(number);
        let expected = (kind == LineState::Full && !is_victim).then_some(valid);
        if listed != expected {
            found.push(format!(
                "line {line} ({kind:?}) is a candidate with {listed:?} valid pages instead of {expected:?}"
            ));
        }
        let programmed = nand.lines()[number as usize + ftl.first_line as usize].programmed;
        let open = ftl.host.iter().chain([&ftl.copies]).any(|point| point.line == Some(number));
        let right = match kind {
            LineState::Free => programmed == 0 && valid == 0 && ftl.collector.free.contains(&number) && !open,
            LineState::Open => open,
            LineState::Full => !open,
            LineState::Awaiting => valid == 0 && !open,
        };
        if !right {
            found.push(format!("line {line} is {kind:?} with {programmed} units programmed and {valid} valid pages"));
        }
    }
}
