//! The states that a crash may leave the device in, each once.
//!
//! From the log of one run:
//! - after every write, all that was written so far (*prefixes*);
//! - the last write torn at 512-byte pieces;
//! - before every flush, and at the end, subsets of the writes that no flush had covered. They are none, each one
//!   alone, each one missing, pairs, and random ones, some torn. A subset is what another order of the same writes
//!   would have left (reordering).
//!
//! Two choices that leave the same bytes are one state; each state keeps every moment at which it may be found.

use crate::digest::{Digest, Disk};
use crate::left::Left;
use crate::rng::Rng;
use crate::run::Trace;
use std::collections::HashMap;
use steadyfs_device::{CrashImage, Op as DeviceOp, PIECES, Record, StreamHint};

/// How much of the space of states to visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Subsets of unflushed writes per flush, at most.
    pub subsets: usize,
    /// Tears per write.
    pub tears: usize,
}

impl Effort {
    /// Prefixes only.
    pub const PREFIXES: Effort = Effort { subsets: 0, tears: 0 };
    /// A few of each kind: for many schedules rather than many states of each. What `steadyfs lab fuzz` does.
    pub const LIGHT: Effort = Effort { subsets: 6, tears: 1 };
    /// What `steadyfs crash-test` does.
    pub const USUAL: Effort = Effort { subsets: 48, tears: 2 };
}

/// Which pieces of a torn write survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tear {
    /// This many from its beginning.
    First(usize),
    /// All but the first.
    NotFirst,
    /// A random half of them.
    Some(u64),
    /// The same, but the last piece of each page is not among them.
    NotLast(u64),
}

impl Tear {
    pub(crate) fn keeps(self, piece: usize) -> bool {
        match self {
            Tear::First(pieces) => piece < pieces,
            Tear::NotFirst => piece > 0,
            Tear::NotLast(_) if piece % PIECES == PIECES - 1 => false,
            Tear::Some(seed) | Tear::NotLast(seed) => Rng::new(seed ^ (piece as u64) << 20).below(2) == 0,
        }
    }
}

/// One way a crash may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The crash comes after this tick.
    tick: u64,
    /// Unflushed records that survive.
    kept: Vec<usize>,
    /// One of them, in part.
    torn: Option<(usize, Tear)>,
}

/// A state, with the moments at which it may be found.
pub(crate) struct CrashState<M> {
    pub(crate) choice: Choice,
    pub(crate) moments: Vec<M>,
}

/// Everything to visit of one run.
pub(crate) struct States<M> {
    /// Each state once.
    pub(crate) distinct: Vec<CrashState<M>>,
    /// Choices looked at.
    pub(crate) choices: u64,
}

impl Choice {
    /// What a test wants; `kept` in rising order.
    #[cfg(test)]
    pub(crate) fn new(tick: u64, kept: Vec<usize>, torn: Option<(usize, Tear)>) -> Self {
        Choice { tick, kept, torn }
    }

    /// The crash comes after this tick.
    pub(crate) fn tick(&self) -> u64 {
        self.tick
    }

    /// Unflushed records that survive whole, in rising order.
    pub(crate) fn kept(&self) -> &[usize] {
        &self.kept
    }

    /// The record that survives in part.
    pub(crate) fn torn(&self) -> Option<(usize, Tear)> {
        self.torn
    }

    /// What the crash leaves.
    pub(crate) fn build(&self, trace: &Trace) -> Left {
        let mut image = CrashImage::new(&trace.base, &trace.records).at(self.tick);
        for &kept in &self.kept {
            image = image.keep(kept);
        }
        if let Some((record, tear)) = self.torn {
            image = image.tear(record, move |piece| tear.keeps(piece));
        }
        let (device, volatile) = (image.build(), image.volatile());
        let torn = self.torn.map(|(record, _)| record);
        let submitted = trace.records.iter().enumerate().filter(|(_, record)| record.submitted <= self.tick);
        let asked = submitted.filter(|(_, record)| !record.failed).map(|(index, record)| {
            let survived = volatile.binary_search(&index).is_err()
                || self.kept.binary_search(&index).is_ok()
                || torn == Some(index);
            (&record.op, survived)
        });
        Left { device, history: trace.history.after(asked) }
    }

    /// Says what survived: for messages.
    pub(crate) fn describe(&self, trace: &Trace) -> String {
        let name = |index: &usize| {
            let (first, count) = trace.records[*index].extent;
            if count == 1 { format!("{first}") } else { format!("{first}+{count}") }
        };
        let volatile = CrashImage::new(&trace.base, &trace.records).at(self.tick).volatile();
        let mut out = format!("power cut at tick {} of {}", self.tick, last_tick(&trace.records));
        if volatile.len() != self.kept.len() {
            let kept: Vec<String> = self.kept.iter().map(name).collect();
            out += &format!(", of {} unflushed writes only [{}] survive", volatile.len(), kept.join(" "));
        }
        if let Some((record, tear)) = self.torn {
            out += &format!(", the write of block {} torn ({tear:?})", name(&record));
        }
        out
    }
}

fn last_tick(records: &[Record]) -> u64 {
    records.iter().filter_map(|record| record.completed).max().unwrap_or(0)
}

/// All states that the effort reaches. `moment` says what may be expected after a tick.
pub(crate) fn explore<M: PartialEq>(trace: &Trace, effort: Effort, seed: u64, moment: impl Fn(u64) -> M) -> States<M> {
    let mut finder = Finder {
        disk: Disk::new(&trace.base, &trace.records),
        found: HashMap::new(),
        distinct: Vec::new(),
        choices: 0,
    };
    let mut rng = Rng::new(seed);
    for choice in prefixes(trace, effort) {
        let at = moment(choice.tick);
        finder.add(choice, [at]);
    }
    for flush in epochs(trace) {
        for (choice, ticks) in subsets(trace, flush, effort, &mut rng) {
            let mut at: Vec<_> = ticks.map(&moment).collect();
            at.dedup();
            finder.add(choice, at);
        }
    }
    States { distinct: finder.distinct, choices: finder.choices }
}

/// Everything so far after each change, and the last write of it torn.
fn prefixes(trace: &Trace, effort: Effort) -> Vec<Choice> {
    // Steps that change nothing have returned by the end, too: one of them may have promised something.
    let start = trace.records.first().map_or(trace.end, |record| record.submitted - 1);
    let mut out = vec![Choice { tick: start, kept: Vec::new(), torn: None }];
    for (index, record) in trace.records.iter().enumerate() {
        let tick = record.completed.unwrap_or(record.submitted);
        let kept = CrashImage::new(&trace.base, &trace.records).at(tick).volatile();
        let whole = Choice { tick, kept, torn: None };
        if let DeviceOp::Write { pages, .. } = &record.op {
            // In flight: submitted, not completed.
            let flying = CrashImage::new(&trace.base, &trace.records).at(record.submitted).volatile();
            let pieces = pages.len() * PIECES;
            if effort.tears > 0 && (trace.checksums || !is_node(record)) {
                let torn = Some((index, Tear::NotFirst));
                out.push(Choice { tick: record.submitted, kept: flying.clone(), torn });
            }
            for tear in 0..effort.tears {
                let first = 1 + tear * (pieces - 1) / effort.tears;
                let torn = Some((index, Tear::First(first.min(pieces - 1))));
                out.push(Choice { tick: record.submitted, kept: flying.clone(), torn });
            }
        }
        out.push(whole);
    }
    out
}

/// A tear that the format can survive: nodes have no checksum, what says that one belongs to the chain is in its last
/// piece. A node of which that piece alone arrives cannot be told from a whole one, here as on Linux; so of a node that
/// piece is taken to arrive last. Where inodes have checksums, the inode is the last of each chain and tells of a tear.
fn tear(record: &Record, checksums: bool, seed: u64) -> Tear {
    if checksums || !is_node(record) { Tear::Some(seed) } else { Tear::NotLast(seed) }
}

/// Whether nodes are written.
fn is_node(record: &Record) -> bool {
    let nodes = [StreamHint::NodeHot, StreamHint::NodeWarm, StreamHint::NodeCold];
    matches!(record.op, DeviceOp::Write { hint, .. } if nodes.contains(&hint))
}

/// The last tick of each stretch between flushes: with the flush submitted, or the end of the log.
fn epochs(trace: &Trace) -> Vec<u64> {
    let flushes = trace.records.iter().filter(|record| record.op == DeviceOp::Flush).map(|record| record.submitted);
    flushes.chain([last_tick(&trace.records)]).collect()
}

/// When the last flush up to a tick had succeeded.
fn flushed(trace: &Trace, tick: u64) -> u64 {
    let flushes = trace.records.iter().filter(|record| record.op == DeviceOp::Flush && !record.failed);
    flushes.filter_map(|record| record.completed).filter(|completed| *completed <= tick).max().unwrap_or(0)
}

/// Subsets of what is unflushed at `tick`, with the ticks at which each may be found.
fn subsets(trace: &Trace, tick: u64, effort: Effort, rng: &mut Rng) -> Vec<(Choice, std::ops::RangeInclusive<u64>)> {
    let volatile = CrashImage::new(&trace.base, &trace.records).at(tick).volatile();
    let n = volatile.len();
    let mut masks: Vec<Vec<bool>> = Vec::new();
    if effort.subsets == 0 || n == 0 {
        return Vec::new();
    }
    if n < 6 && 1 << n <= effort.subsets {
        masks.extend((0..1u32 << n).map(|mask| (0..n).map(|i| mask >> i & 1 == 1).collect()));
    } else {
        masks.push(vec![false; n]);
        // From the end: what comes last refers to what comes before.
        for i in (0..n).rev() {
            masks.push((0..n).map(|j| j == i).collect());
            masks.push((0..n).map(|j| j != i).collect());
        }
        masks.truncate(effort.subsets * 3 / 4);
        while masks.len() < effort.subsets {
            let share = 1 + rng.below(7);
            masks.push((0..n).map(|_| rng.below(8) < share).collect());
        }
    }
    // A durable write was asked for by then, though something asked for before it may still be under way.
    let is_change =
        |index: &usize| trace.records[*index].op != DeviceOp::Flush && volatile.binary_search(index).is_err();
    let submitted = (0..trace.records.len()).filter(is_change).map(|index| trace.records[index].submitted);
    let durable = submitted.filter(|submitted| *submitted <= tick).max().unwrap_or(0);
    let torn = effort.tears.min(masks.len());
    let mut out: Vec<(Choice, std::ops::RangeInclusive<u64>)> = Vec::new();
    for (number, mask) in masks.iter().enumerate() {
        let kept: Vec<usize> = volatile.iter().zip(mask).filter(|(_, kept)| **kept).map(|(index, _)| *index).collect();
        let from = kept.last().or(volatile.first()).map_or(tick, |&last| {
            let record = &trace.records[last];
            let from = if kept.is_empty() { record.submitted } else { record.completed.unwrap_or(record.submitted) };
            // A write that was refused stays in doubt over all flushes that come after it; what these cover is there.
            if record.failed { from.max(flushed(trace, tick)) } else { from }
        });
        let from = from.max(durable);
        if number < torn && !kept.is_empty() {
            let which = kept[rng.below(kept.len() as u64) as usize];
            let torn = Some((which, tear(&trace.records[which], trace.checksums, rng.next())));
            out.push((Choice { tick, kept: kept.clone(), torn }, from.min(tick)..=tick));
        }
        out.push((Choice { tick, kept, torn: None }, from.min(tick)..=tick));
    }
    out
}

struct Finder<'a, M> {
    disk: Disk<'a>,
    found: HashMap<Digest, usize>,
    distinct: Vec<CrashState<M>>,
    choices: u64,
}

impl<M: PartialEq> Finder<'_, M> {
    fn add(&mut self, choice: Choice, moments: impl IntoIterator<Item = M>) {
        self.choices += 1;
        let digest = self.disk.after(&choice);
        let at = *self.found.entry(digest).or_insert_with(|| {
            self.distinct.push(CrashState { choice, moments: Vec::new() });
            self.distinct.len() - 1
        });
        for moment in moments {
            if !self.distinct[at].moments.contains(&moment) {
                self.distinct[at].moments.push(moment);
            }
        }
    }
}
