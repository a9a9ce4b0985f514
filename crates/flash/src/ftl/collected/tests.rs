//! What cannot be seen from outside: when copies go to their chips, and which line is collected.

use super::*;
use crate::ftl::flat::FlatMap;
use crate::ftl::{Ftl, LineState};
use crate::parameters::Preset;
use crate::units::nanos;

/// Lines of 512 KiB, each page written in order, every `step`th of the first line's pages once more.
fn filled(step: usize) -> (Collected<FlatMap>, Media, Time, u64) {
    let mut parameters = Preset::Samsung970Pro.parameters().with_smaller_blocks(64);
    parameters.policy.idle_gc_lines = u32::MAX;
    let pages = 40 * u64::from(parameters.geometry.line_pages());
    let lines = Collected::<FlatMap>::lines_for(&parameters.geometry, &parameters.policy, pages) as u32;
    let mut media = Media::new(&parameters, lines);
    let mut ftl = Collected::new(&parameters, FlatMap::new(pages), pages, 0, lines);
    let line = u64::from(parameters.geometry.line_pages());
    let mut now = 0;
    for page in (0..pages).chain((0..line).step_by(step)) {
        now += 100_000;
        ftl.advance(&mut media, now);
        assert_eq!((ftl.make_room(&mut media, now, page, 0), media.buffer.room(now) > 0), (Ok(()), true));
        media.buffer.accept();
        ftl.write(&mut media, now, now, page, 0);
    }
    let end = ftl.flush(&mut media, now, None);
    (ftl, media, end.max(now) + 1_000_000, line)
}

/// Flaw 16 of the emulator that the papers used: copies were programmed whether they had been read or not.
#[test]
fn copies_are_read_before_they_are_programmed() {
    let (mut ftl, mut media, now, _) = filled(2);
    let sense = nanos(Preset::Samsung970Pro.parameters().timing.sense[0]);
    assert!(ftl.idle(&mut media, now).is_some(), "there is something to gain");
    assert!(ftl.collector.copied.len() > 3, "{} units", ftl.collector.copied.len());
    let ready: Vec<_> = ftl.collector.copied.iter().map(|unit| unit.ready).collect();
    assert!(ready.iter().all(|&ready| ready > now + sense) && ready.is_sorted(), "{now} {ready:?}");
    let programmed = media.nand.counters().gc_programmed;
    ftl.advance(&mut media, ready[0] - 1);
    assert_eq!(media.nand.counters().gc_programmed, programmed, "not before");
    ftl.advance(&mut media, ready[0]);
    let first = ready.iter().filter(|&&other| other == ready[0]).count() as u64;
    assert_eq!(media.nand.counters().gc_programmed, programmed + 8 * first);
}

/// Flaw 9: the victim was free before its copies were programmed.
#[test]
fn a_victim_is_free_when_it_is_erased_and_that_is_when_its_copies_are_safe() {
    let (mut ftl, mut media, now, line) = filled(2);
    let (victim, valid) = ftl.collector.victims.fewest().expect("lines are full");
    assert_eq!((u64::from(victim), u64::from(valid)), (0, line / 2), "the line with the fewest valid pages");
    while ftl.collector.kinds()[0] != LineState::Awaiting {
        assert!(ftl.idle(&mut media, now).is_some());
    }
    assert!(!ftl.collector.free.contains(&0) && !ftl.collector.awaiting.is_empty());
    let mut at = now;
    while !ftl.collector.awaiting.is_empty() {
        at = ftl.next_due().expect("copies are on their way");
        ftl.advance(&mut media, at);
        assert_eq!(media.nand.lines()[0].erases, 0);
    }
    assert_eq!(ftl.next_due(), Some(ftl.collector.copies_end.max(ftl.written_end)));
    assert!(ftl.collector.copies_end > at, "the last program has yet to end");
    ftl.advance(&mut media, ftl.collector.copies_end);
    assert!(ftl.collector.free.contains(&0) && media.nand.lines()[0].erases == 1);
}
