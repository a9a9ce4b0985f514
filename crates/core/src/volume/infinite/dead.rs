//! DeadBlocks blocks, from their death until it is known that the device has forgotten them.
//!
//! dead -> logged -> sent -> completed -> flushed -> forgotten: a block dies (`fresh`). The next freeze puts it into
//! the discard log of its checkpoint (`frozen`). Once that has committed it may be discarded (`queued`), is at the
//! device (`sent`), and was discarded (`done`). The commit of a checkpoint flushes the device before the block that
//! commits it. So what was done at its freeze (`flushed`) needs no place in its log, and is forgotten with the commit.
//! If the commit does not come to pass, the log of the checkpoint before still names it.
//!
//! Kept true: a block is in one of the sets at most; each committed checkpoint's log names every dead block that may
//! still be held; nothing is sent that the checkpoint in force refers to.

use super::ranges::Ranges;
use crate::error::{Error, Result};
use std::ops::Range;
use steadyfs_format::Lba;

/// The dead blocks of a volume.
#[derive(Debug, Default)]
pub(crate) struct DeadBlocks {
    fresh: Ranges,
    frozen: Ranges,
    queued: Ranges,
    sent: Ranges,
    done: Ranges,
    flushed: Ranges,
    /// The discard log of the checkpoint in force: it dies with the next one.
    log: Option<Range<Lba>>,
    /// That of the checkpoint that has frozen.
    next_log: Option<Range<Lba>>,
}

/// Faults to plant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slips {
    /// The log names nothing that has died since the last freeze.
    pub(crate) skip_log: bool,
    /// The log names nothing that is at the device.
    pub(crate) forget_in_flight: bool,
}

impl DeadBlocks {
    /// What a checkpoint says: its log, and the blocks that this names.
    pub(crate) fn loaded(log: Option<Range<Lba>>, named: Ranges) -> Self {
        DeadBlocks { queued: named, log, ..DeadBlocks::default() }
    }

    fn sets(&self) -> [&Ranges; 6] {
        [&self.fresh, &self.frozen, &self.queued, &self.sent, &self.done, &self.flushed]
    }

    /// Whether a block is dead.
    pub(crate) fn contains(&self, lba: Lba) -> bool {
        self.sets().iter().any(|set| set.contains(lba))
    }

    /// A block dies.
    ///
    /// # Errors
    /// Damage: it was dead.
    pub(crate) fn add(&mut self, run: Range<Lba>) -> Result<()> {
        let twice = self.sets()[1..].iter().any(|set| set.touches(&run));
        if !twice && self.fresh.insert(run.clone()) {
            return Ok(());
        }
        Err(Error::corrupt(format!("block {} was given up and is given up again", run.start)))
    }

    /// The blocks that died since the last freeze.
    pub(crate) fn fresh(&self) -> impl Iterator<Item = Range<Lba>> + '_ {
        self.fresh.iter()
    }

    /// A dead block of a stretch that has been discarded, if there is one.
    pub(crate) fn first_of(&self, stretch: &Range<Lba>) -> Option<Lba> {
        self.done.iter().map(|run| run.start).find(|lba| stretch.contains(lba))
    }

    /// Blocks that have died since the last freeze.
    pub(crate) fn uncommitted(&self) -> u64 {
        self.fresh.blocks()
    }

    /// Blocks that are dead and that the device may hold.
    pub(crate) fn held(&self) -> u64 {
        [&self.fresh, &self.frozen, &self.queued, &self.sent].iter().map(|set| set.blocks()).sum()
    }

    /// Blocks that may be sent now.
    pub(crate) fn queued(&self) -> u64 {
        self.queued.blocks()
    }

    /// A checkpoint freezes: the runs that its discard log has to name, in rising order.
    pub(crate) fn freeze(&mut self, slips: Slips) -> Vec<Range<Lba>> {
        assert!(self.frozen.is_empty() && self.flushed.is_empty(), "one checkpoint at a time");
        self.frozen = std::mem::take(&mut self.fresh);
        if let Some(log) = self.log.clone() {
            let fresh = self.frozen.insert(log);
            assert!(fresh, "the discard log in force is dead already");
        }
        self.flushed = std::mem::take(&mut self.done);
        let mut named = if slips.skip_log { Ranges::default() } else { self.frozen.clone() };
        named.absorb(self.queued.clone());
        if !slips.forget_in_flight {
            named.absorb(self.sent.clone());
        }
        named.iter().collect()
    }

    /// Where that log is to be written.
    pub(crate) fn note_log(&mut self, log: Option<Range<Lba>>) {
        self.next_log = log;
    }

    /// The checkpoint has committed.
    pub(crate) fn committed(&mut self) {
        self.queued.absorb(std::mem::take(&mut self.frozen));
        self.flushed = Ranges::default();
        self.log = self.next_log.take();
    }

    /// It has failed. Its log may be on the device, and is dead.
    pub(crate) fn failed(&mut self) {
        let mut frozen = std::mem::take(&mut self.frozen);
        if let Some(log) = &self.log {
            frozen.remove(log);
        }
        self.fresh.absorb(frozen);
        if let Some(log) = self.next_log.take() {
            let fresh = self.fresh.insert(log);
            assert!(fresh, "a log was dead before it was written");
        }
        let flushed = std::mem::take(&mut self.flushed);
        self.done.absorb(if steadyfs_rt::mutated("a-failed-checkpoint-forgets-no-discard") {
            Ranges::default()
        } else {
            flushed
        });
    }

    /// Takes some runs to be sent, none of them longer than `longest`.
    pub(crate) fn send(&mut self, most: usize, longest: u64) -> Ranges {
        let taken = self.queued.take_first(most, longest);
        self.sent.absorb(taken.clone());
        taken
    }

    /// The device has answered.
    pub(crate) fn answered(&mut self, run: Range<Lba>, is_done: bool) {
        self.sent.remove(&run);
        let forgets = is_done && steadyfs_rt::mutated("discards-are-known-until-flushed");
        let fresh = forgets || if is_done { self.done.insert(run) } else { self.queued.insert(run) };
        assert!(fresh, "a block was sent twice");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u64, end: u64) -> Range<Lba> {
        Lba::new(start)..Lba::new(end)
    }

    #[test]
    fn a_block_is_named_from_its_death_until_a_flush_after_its_discard() {
        let mut dead = DeadBlocks::loaded(Some(run(100, 101)), Ranges::default());
        dead.add(run(5, 7)).unwrap();
        assert!(dead.send(8, 100).is_empty(), "nothing is sent before a commit");
        assert_eq!(dead.freeze(Slips::default()), [run(5, 7), run(100, 101)]);
        dead.note_log(Some(run(101, 102)));
        dead.add(run(9, 10)).unwrap();
        assert!(dead.send(8, 100).is_empty());
        dead.committed();
        assert_eq!(dead.send(1, 100).iter().collect::<Vec<_>>(), [run(5, 7)]);
        assert_eq!(dead.freeze(Slips::default()), [run(5, 7), run(9, 10), run(100, 102)], "sent is not done");
        // An answer that comes behind the freeze may not be flushed by the commit.
        dead.answered(run(5, 7), true);
        dead.note_log(Some(run(102, 103)));
        dead.committed();
        assert_eq!(dead.freeze(Slips::default()), [run(9, 10), run(100, 103)]);
        assert!(dead.contains(Lba::new(5)));
        dead.committed();
        assert!(!dead.contains(Lba::new(5)) && dead.contains(Lba::new(9)));
    }

    #[test]
    fn a_checkpoint_that_fails_forgets_nothing_and_its_log_is_dead() {
        let mut dead = DeadBlocks::loaded(
            Some(run(100, 101)),
            [run(1, 2)].into_iter().fold(Ranges::default(), |mut all, r| {
                all.insert(r);
                all
            }),
        );
        dead.send(8, 100);
        dead.answered(run(1, 2), true);
        dead.add(run(5, 7)).unwrap();
        assert_eq!(dead.freeze(Slips::default()), [run(5, 7), run(100, 101)]);
        dead.note_log(Some(run(101, 103)));
        dead.failed();
        assert!(dead.contains(Lba::new(1)), "not flushed yet");
        assert_eq!(dead.freeze(Slips::default()), [run(5, 7), run(100, 103)]);
    }

    #[test]
    fn a_second_death_is_damage() {
        let mut dead = DeadBlocks::default();
        dead.add(run(5, 7)).unwrap();
        assert!(dead.add(run(6, 7)).is_err());
        dead.freeze(Slips::default());
        assert!(dead.add(run(5, 6)).is_err());
        dead.committed();
        dead.send(1, 100);
        assert!(dead.add(run(5, 6)).is_err());
    }
}
