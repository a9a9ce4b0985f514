//! [`Chip`]: what one chip does when: reads in their order, programs and erases in theirs, and which of them waits.
//!
//! By default everything is done in the order in which it is told. With [`Order::ReadFirst`] a read goes before
//! programs and erases that are told and have not taken the chip, and waits for the one that has. With suspension, a
//! read that finds its chip at a program or an erase suspends that. The operation stops where it is, and the read
//! begins when the chip has let go. Behind the read the operation goes on with what is left of it. An operation that
//! may be suspended lets reads go before it, too. Reads of the host and of the collector are alike in that.
//!
//! A read that arrives while another one keeps an operation suspended follows it: the operation stays suspended, and
//! the chip has to let go of nothing. Each read that an operation lets pass counts against its limit. Nothing passes an
//! operation that has reached the limit, nor one that was told before it. So every operation ends, at the latest after
//! that number of reads. Nothing is suspended that would end before the chip had let go, and nothing for no read.
//!
//! A transfer that has been booked on a channel stays where it is, also if its program is put off: it goes to the
//! chip's register.
//!
//! Kept true, in release builds too:
//! - Programs and erases follow each other without overlap, in the order in which they were told.
//! - Reads follow each other too, and never move once they are booked.
//! - An operation works for as long as it owes, suspended or not.

use crate::nand::{Line, Source};
use crate::parameters::{Order, Suspension};
use crate::units::{Time, nanos};
use std::collections::VecDeque;

/// A program of a unit; `None` for an erase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) at: (Line, u32),
    pub(crate) source: Source,
    /// Pages of the source in it.
    pub(crate) pages: u32,
    /// Its number among all programs.
    pub(crate) number: u64,
}

/// A program that ends later than was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) program: Program,
    pub(crate) from: Time,
    pub(crate) to: Time,
}

/// A program or an erase that has not ended.
#[derive(Debug, Clone, Copy)]
struct Operation {
    /// Takes the chip.
    begin: Time,
    /// Begins to work, or goes on: a program when its data has been transferred.
    work: Time,
    end: Time,
    /// Work that was done before `work`, and all that it has to do.
    done: u64,
    owed: u64,
    /// Reads that it has let pass.
    passed: u32,
    program: Option<Program>,
}

/// When a read begins, and what it makes wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) start: Time,
    before: Option<(usize, Held)>,
}

/// How an operation waits for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// It has not taken the chip.
    PutOff,
    /// It has not begun to work, or is suspended already.
    Still,
    /// It is suspended at this time.
    Suspended(Time),
}

/// What a program or an erase does for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lets {
    /// The read waits for it.
    Wait,
    /// The read goes before it, unless it has taken the chip.
    Before,
    /// The same, and if it has, it is suspended; letting go takes so long.
    Suspend(u64),
}

/// [`Suspension`] in nanoseconds: what programs and erases do for reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SuspensionTimes {
    program: Lets,
    erase: Lets,
    resume: u64,
    limit: u32,
}

impl SuspensionTimes {
    pub(crate) fn new(suspension: &Suspension) -> Self {
        let Suspension { what, order, program, erase, resume, limit } = suspension;
        let otherwise = match order {
            Order::Fifo => Lets::Wait,
            Order::ReadFirst => Lets::Before,
        };
        let lets = |suspended: bool, time| if suspended { Lets::Suspend(nanos(time)) } else { otherwise };
        SuspensionTimes {
            program: lets(what.programs(), *program),
            erase: lets(what.erases(), *erase),
            resume: nanos(*resume),
            limit: *limit,
        }
    }

    /// Whether programs may be suspended.
    pub(crate) fn programs(&self) -> bool {
        matches!(self.program, Lets::Suspend(_))
    }

    /// Whether erases may.
    pub(crate) fn erases(&self) -> bool {
        matches!(self.erase, Lets::Suspend(_))
    }

    /// What an operation does for the next read.
    fn of(&self, operation: &Operation) -> Lets {
        match operation.program {
            _ if operation.passed >= self.limit => Lets::Wait,
            Some(_) => self.program,
            None => self.erase,
        }
    }
}

/// See the head of the module.
#[derive(Debug, Default)]
pub(crate) struct Chip {
    /// Programs and erases that have not ended, in order.
    operations: VecDeque<Operation>,
    /// End of the last read, and of the last program or erase.
    reads: Time,
    last: Time,
    busy: u64,
    /// Programs and erases that were suspended: how often.
    suspended: (u64, u64),
}

impl Chip {
    /// When it has done all that it was told.
    pub(crate) fn free(&self) -> Time {
        self.last.max(self.reads)
    }

    /// Nanoseconds that it has been busy, or will be with what it was told.
    pub(crate) fn busy(&self) -> u64 {
        self.busy
    }

    /// How often programs, and erases, were suspended.
    pub(crate) fn suspended(&self) -> (u64, u64) {
        self.suspended
    }

    /// Time starts again, and nothing is under way.
    pub(crate) fn restart(&mut self) {
        (self.reads, self.last) = (0, 0);
        self.operations.clear();
    }

    /// Whether a unit is still being programmed, or will be.
    pub(crate) fn programs(&self, now: Time, at: (Line, u32)) -> bool {
        let is = |operation: &Operation| operation.program.is_some_and(|program| program.at == at);
        self.operations.iter().any(|operation| is(operation) && operation.end > now)
    }

    /// The last end of its programs that `wanted` says are meant.
    pub(crate) fn last_end(&self, wanted: impl Fn(&Program) -> bool) -> Option<Time> {
        let meant = self.operations.iter().filter(|operation| operation.program.as_ref().is_some_and(&wanted));
        meant.map(|operation| operation.end).max()
    }

    fn forget(&mut self, now: Time) {
        while self.operations.front().is_some_and(|operation| operation.end <= now) {
            self.operations.pop_front();
        }
    }

    /// Takes a program that begins, works and ends then, or an erase.
    pub(crate) fn push(&mut self, now: Time, (begin, work, end): (Time, Time, Time), program: Option<Program>) {
        assert!(begin >= self.free() && begin <= work && work <= end, "an operation before those that were told");
        self.forget(now);
        self.operations.push_back(Operation { begin, work, end, done: 0, owed: end - work, passed: 0, program });
        self.busy += end - begin;
        self.last = end;
    }

    /// When a read that is told now begins.
    pub(crate) fn turn(&mut self, now: Time, times: &SuspensionTimes) -> Turn {
        self.forget(now);
        let mut at = now.max(self.reads);
        let mut next = 0;
        if let Some(last) = self.operations.iter().rposition(|operation| times.of(operation) == Lets::Wait) {
            at = at.max(self.operations[last].end);
            next = last + 1;
        }
        while let Some(operation) = self.operations.get(next) {
            if operation.begin >= at {
                return Turn { start: at, before: Some((next, Held::PutOff)) };
            }
            if let Lets::Suspend(latency) = times.of(operation) {
                // It has not begun to work when the read's turn comes, or is still suspended for the read before.
                if operation.work >= at {
                    return Turn { start: operation.work, before: Some((next, Held::Still)) };
                }
                let start = at + latency;
                if start < operation.end {
                    return Turn { start, before: Some((next, Held::Suspended(at))) };
                }
            }
            at = at.max(operation.end);
            next += 1;
        }
        Turn { start: at, before: None }
    }

    /// The read ends; `late` hears of each program that ends later for it.
    pub(crate) fn read(&mut self, turn: Turn, end: Time, times: &SuspensionTimes, mut late: impl FnMut(Late)) {
        assert!(turn.start >= self.reads && end >= turn.start, "a read before another one has ended");
        self.reads = end;
        self.busy += end - turn.start;
        let Some((first, held)) = turn.before else { return };
        let operation = &mut self.operations[first];
        let from = operation.end;
        match held {
            Held::PutOff if operation.begin >= end => return,
            Held::PutOff => {
                let delay = end - operation.begin;
                operation.begin = end;
                operation.work += delay;
            }
            Held::Still => operation.work = end,
            Held::Suspended(at) => {
                operation.done += at - operation.work;
                operation.owed += times.resume;
                operation.work = end;
                self.busy += turn.start - at + times.resume;
                match operation.program {
                    Some(_) => self.suspended.0 += 1,
                    None => self.suspended.1 += 1,
                }
            }
        }
        operation.end = operation.work + operation.owed - operation.done;
        operation.passed += 1;
        assert!(operation.end > from && operation.passed <= times.limit, "a read that nothing waits for");
        late_of(operation, from, &mut late);
        self.put_off(first, &mut late);
    }

    /// Lets what follows an operation begin when that has ended.
    fn put_off(&mut self, first: usize, late: &mut impl FnMut(Late)) {
        let mut free = self.operations[first].end;
        for operation in self.operations.range_mut(first + 1..) {
            if operation.begin < free {
                let (delay, from) = (free - operation.begin, operation.end);
                operation.begin += delay;
                operation.work += delay;
                operation.end += delay;
                late_of(operation, from, late);
            }
            free = operation.end;
        }
        self.last = free;
    }
}

fn late_of(operation: &Operation, from: Time, late: &mut impl FnMut(Late)) {
    if let Some(program) = operation.program {
        late(Late { program, from, to: operation.end });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{Order, Suspendable};
    use proptest::prelude::*;
    use std::time::Duration;

    /// Ten to let go of a program, twenty of an erase, five to go on.
    fn times(what: Suspendable, limit: u32) -> SuspensionTimes {
        in_order(what, Order::Fifo, limit)
    }

    fn in_order(what: Suspendable, order: Order, limit: u32) -> SuspensionTimes {
        let ns = Duration::from_nanos;
        SuspensionTimes::new(&Suspension { what, order, program: ns(10), erase: ns(20), resume: ns(5), limit })
    }

    fn program(number: u64) -> Option<Program> {
        Some(Program { at: (0, number as u32), source: Source::Host, pages: 1, number })
    }

    /// When a read starts, and programs that end later for it: from and to.
    type Told = (Time, Vec<(u64, Time, Time)>);

    /// A read of so many nanoseconds that is told now.
    fn read(chip: &mut Chip, now: Time, took: u64, times: &SuspensionTimes) -> Told {
        let turn = chip.turn(now, times);
        let mut late = Vec::new();
        chip.read(turn, turn.start + took, times, |it| late.push((it.program.number, it.from, it.to)));
        (turn.start, late)
    }

    /// Two programs of 100 with a transfer of 7 each, one after the other: to 107 and 214.
    fn two_programs() -> Chip {
        let mut chip = Chip::default();
        chip.push(0, (0, 7, 107), program(1));
        chip.push(0, (107, 114, 214), program(2));
        chip
    }

    #[test]
    fn without_suspension_a_read_waits_for_all_that_was_told() {
        let mut chip = two_programs();
        assert_eq!(read(&mut chip, 50, 30, &times(Suspendable::Off, 9)), (214, vec![]));
        assert_eq!(read(&mut chip, 50, 30, &times(Suspendable::Erase, 9)), (244, vec![]));
        assert_eq!((chip.free(), chip.busy(), chip.suspended()), (274, 107 + 107 + 60, (0, 0)));
    }

    #[test]
    fn a_read_suspends_the_program_that_it_finds() {
        let mut chip = two_programs();
        // At 50 the program has worked for 43; the read runs from 60 to 90; 57 are left, and 5 to go on.
        assert_eq!(read(&mut chip, 50, 30, &times(Suspendable::Program, 9)), (60, vec![(1, 107, 152), (2, 214, 259)]));
        // It has gone on for 10 when it is suspended again.
        assert_eq!(read(&mut chip, 100, 30, &times(Suspendable::Both, 9)), (110, vec![(1, 152, 197), (2, 259, 304)]));
        assert!(chip.programs(196, (0, 1)) && !chip.programs(197, (0, 1)) && chip.programs(303, (0, 2)));
        assert_eq!((chip.free(), chip.suspended()), (304, (2, 0)));
        assert_eq!(chip.busy(), 304, "the chip was never idle");
    }

    #[test]
    fn a_read_that_finds_a_read_follows_it_and_the_program_goes_on_behind_both() {
        let mut chip = two_programs();
        let times = times(Suspendable::Program, 9);
        assert_eq!(read(&mut chip, 50, 30, &times).0, 60);
        // Nothing is let go of again: 57 are left, and 5 to go on, behind 120.
        assert_eq!(read(&mut chip, 70, 30, &times), (90, vec![(1, 152, 182), (2, 259, 289)]));
        assert_eq!(chip.suspended(), (1, 0));
    }

    #[test]
    fn a_transfer_is_not_broken_off_and_what_has_not_begun_is_put_off() {
        let mut chip = two_programs();
        let times = times(Suspendable::Program, 9);
        assert_eq!(read(&mut chip, 3, 30, &times), (7, vec![(1, 107, 137), (2, 214, 244)]), "nothing to suspend");
        let mut chip = Chip::default();
        chip.push(0, (100, 107, 207), program(1));
        assert_eq!(read(&mut chip, 10, 30, &times), (10, vec![]), "in the gap before it");
        assert_eq!(read(&mut chip, 80, 30, &times), (80, vec![(1, 207, 217)]));
        assert_eq!(chip.suspended(), (0, 0));
    }

    #[test]
    fn what_ends_before_the_chip_lets_go_is_not_suspended() {
        let mut chip = two_programs();
        // At 97 the program has 10 left, as long as letting go of it takes; at 96 it has 11.
        assert_eq!(read(&mut chip, 97, 30, &times(Suspendable::Program, 9)), (107, vec![(2, 214, 244)]));
        let mut chip = two_programs();
        assert_eq!(read(&mut chip, 96, 30, &times(Suspendable::Program, 9)).0, 106);
    }

    #[test]
    fn so_many_reads_pass_and_no_more() {
        let mut chip = two_programs();
        let times = times(Suspendable::Program, 2);
        assert_eq!(read(&mut chip, 50, 30, &times).0, 60);
        assert_eq!(read(&mut chip, 60, 30, &times), (90, vec![(1, 152, 182), (2, 259, 289)]));
        assert_eq!(read(&mut chip, 70, 30, &times), (182, vec![(2, 289, 319)]), "the next program lets it pass");
        assert_eq!(read(&mut chip, 70, 30, &times), (212, vec![(2, 319, 349)]));
        assert_eq!(read(&mut chip, 70, 30, &times), (349, vec![]));
    }

    #[test]
    fn an_erase_is_suspended_if_erases_are_and_nothing_passes_a_program_then() {
        let mut chip = Chip::default();
        chip.push(0, (0, 0, 300), None);
        assert_eq!(read(&mut chip, 50, 30, &times(Suspendable::Erase, 9)), (70, vec![]));
        // 250 are left, and 5.
        assert_eq!((chip.free(), chip.suspended()), (355, (0, 1)));
        chip.push(100, (355, 362, 462), program(1));
        assert_eq!(read(&mut chip, 200, 30, &times(Suspendable::Program, 9)), (355, vec![(1, 462, 492)]));
        assert_eq!(read(&mut chip, 200, 30, &times(Suspendable::Erase, 9)), (492, vec![]));
    }

    #[test]
    fn a_read_goes_before_programs_that_have_not_begun_and_waits_for_the_one_at_work() {
        let mut chip = two_programs();
        let times = in_order(Suspendable::Off, Order::ReadFirst, 9);
        assert_eq!(read(&mut chip, 50, 30, &times), (107, vec![(2, 214, 244)]));
        assert_eq!(read(&mut chip, 60, 30, &times), (137, vec![(2, 244, 274)]), "behind the first, before the second");
        assert_eq!(read(&mut chip, 170, 30, &times), (274, vec![]), "the second has taken the chip");
        assert_eq!((chip.free(), chip.busy(), chip.suspended()), (304, 107 + 107 + 90, (0, 0)));
        let mut chip = two_programs();
        assert_eq!(read(&mut chip, 3, 30, &times), (107, vec![(2, 214, 244)]), "a transfer is the program's beginning");
        let mut chip = Chip::default();
        chip.push(0, (0, 0, 300), None);
        chip.push(0, (300, 300, 600), None);
        assert_eq!(read(&mut chip, 50, 30, &times), (300, vec![]));
        assert_eq!(chip.free(), 630, "an erase waits as programs do");
    }

    #[test]
    fn so_many_reads_go_before_what_has_not_begun_and_no_more() {
        let mut chip = two_programs();
        chip.push(0, (214, 221, 321), program(3));
        let times = in_order(Suspendable::Off, Order::ReadFirst, 2);
        assert_eq!(read(&mut chip, 50, 30, &times).0, 107);
        assert_eq!(read(&mut chip, 50, 30, &times), (137, vec![(2, 244, 274), (3, 351, 381)]));
        assert_eq!(read(&mut chip, 50, 30, &times), (274, vec![(3, 381, 411)]), "the third has let none pass");
    }

    #[test]
    fn erases_can_be_suspended_where_programs_only_wait_for_their_turn() {
        let mut chip = two_programs();
        chip.push(0, (214, 214, 514), None);
        let times = in_order(Suspendable::Erase, Order::ReadFirst, 9);
        assert_eq!(read(&mut chip, 50, 30, &times), (107, vec![(2, 214, 244)]));
        // The erase works since 244; 20 to let go of it, 5 to go on.
        assert_eq!(read(&mut chip, 300, 30, &times).0, 320);
        assert_eq!((chip.free(), chip.suspended()), (350 + 244 + 5, (0, 1)));
        let mut chip = two_programs();
        let first = in_order(Suspendable::Both, Order::ReadFirst, 9);
        let both = times_of_reads(&mut chip, &first);
        assert_eq!(both, times_of_reads(&mut two_programs(), &self::times(Suspendable::Both, 9)), "that is more");
    }

    fn times_of_reads(chip: &mut Chip, times: &SuspensionTimes) -> Vec<Told> {
        [3, 50, 90, 160, 400].map(|now| read(chip, now, 30, times)).to_vec()
    }

    proptest! {
        /// Whatever comes when: reads wait for no longer than the limit lets them, every operation works for all that
        /// it owes, and the chip does one thing at a time, so its busy time is made up of those.
        #[test]
        fn all_work_is_done_and_every_program_ends(
            told in prop::collection::vec((0u64..80, 0u8..3, 1u64..90), 1..60),
            limit in 1u32..4,
            what in prop::sample::select(Suspendable::ALL.to_vec()),
            order in prop::sample::select(Order::ALL.to_vec()),
        ) {
            let times = in_order(what, order, limit);
            let (mut chip, mut now, mut owed, mut number) = (Chip::default(), 0, 0, 0);
            let mut ends = std::collections::BTreeMap::new();
            for (step, kind, took) in told {
                now += step;
                let free = chip.free().max(now);
                if kind == 0 {
                    number += 1;
                    chip.push(now, (free, free + 3, free + 3 + took), program(number));
                    ends.insert(number, free + 3 + took);
                    owed += 3 + took;
                } else if kind == 1 {
                    chip.push(now, (free, free, free + took), None);
                    owed += took;
                } else {
                    let turn = chip.turn(now, &times);
                    chip.read(turn, turn.start + took, &times, |late| {
                        assert_eq!(ends.insert(late.program.number, late.to), Some(late.from));
                    });
                    owed += took;
                }
            }
            let (programs, erases) = chip.suspended();
            prop_assert_eq!(chip.busy(), owed + programs * 15 + erases * 25);
            prop_assert!(chip.free() >= ends.values().copied().max().unwrap_or(0));
            let in_order: Vec<Time> = ends.values().copied().collect();
            prop_assert!(in_order.is_sorted(), "programs end in the order in which they were told");
        }
    }
}
