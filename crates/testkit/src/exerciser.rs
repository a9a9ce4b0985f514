//! Random operations on one file, each compared with what a file should do: the method of Apple's *fsx*, written so
//! that it also reaches file systems that are not mounted, and operations that the kernel keeps from some mounts.
//!
//! The sequence follows from the seed alone. A difference ends the run with the seed, the operation, the first byte
//! that differs and the operations before it; the same seed with that many operations shows it again.

use std::collections::VecDeque;
use std::ops::Range;

/// What the target said instead of doing its work.
pub type Failure = Box<dyn std::error::Error>;

/// Ranges of some operations start and end at multiples of this.
const BLOCK: u64 = 4096;
/// Operations that a failure lists.
const KEPT: usize = 40;
/// Operations between two looks at the whole file.
const WHOLE_EVERY: u64 = 1000;

/// A file that is exercised.
pub trait Exercised {
    /// Kinds of operations that it does not have.
    fn lacks(&self) -> &[OpKind];
    /// Reads at an offset, past the cache if `direct`; how many bytes there were.
    ///
    /// # Errors
    /// Any error ends the run.
    fn read(&mut self, direct: bool, off: u64, buf: &mut [u8]) -> Result<usize, Failure>;
    /// Writes all of the data at an offset, past the cache if `direct`.
    ///
    /// # Errors
    /// As `read`.
    fn write(&mut self, direct: bool, off: u64, data: &[u8]) -> Result<(), Failure>;
    /// Copies a range of the file to another offset; both lie apart.
    ///
    /// # Errors
    /// As `read`.
    fn copy(&mut self, from: Range<u64>, to: u64) -> Result<(), Failure>;
    /// Does what else there is: `off` and `len` are those of [`OpKind`].
    ///
    /// # Errors
    /// As `read`.
    fn act(&mut self, kind: OpKind, off: u64, len: u64) -> Result<(), Failure>;
    /// Its size now.
    ///
    /// # Errors
    /// As `read`.
    fn size(&mut self) -> Result<u64, Failure>;
}

/// Kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Read `len` bytes.
    Read,
    /// Write `len` bytes.
    Write,
    /// Copy `len` bytes to elsewhere in the file.
    Copy,
    /// Set the size to `off`.
    SetSize,
    /// Reserve space for a range; the size grows to its end.
    Allocate,
    /// Reserve space for a range; the size stays.
    AllocateKeepSize,
    /// Free the space of a range.
    Punch,
    /// Make a range zeros; the size grows to its end.
    Zero,
    /// Make a range zeros; the size stays.
    ZeroKeepSize,
    /// Take a range out. Whole blocks, before the end.
    Collapse,
    /// Put a hole in. Whole blocks, before the end.
    Insert,
    /// Make contents durable, and with `len` 1 attributes too.
    Sync,
    /// Forget what is cached, as far as the target can.
    Forget,
    /// Close it and open it again.
    Reopen,
}

/// The kinds, each with its share of the operations.
const SHARES: [(OpKind, u64); 14] = [
    (OpKind::Read, 200),
    (OpKind::Write, 200),
    (OpKind::Copy, 60),
    (OpKind::SetSize, 60),
    (OpKind::Allocate, 30),
    (OpKind::AllocateKeepSize, 20),
    (OpKind::Punch, 60),
    (OpKind::Zero, 40),
    (OpKind::ZeroKeepSize, 20),
    (OpKind::Collapse, 40),
    (OpKind::Insert, 40),
    (OpKind::Sync, 8),
    (OpKind::Forget, 10),
    (OpKind::Reopen, 2),
];

/// How a run is made.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What everything follows from.
    pub seed: u64,
    /// How many operations.
    pub operations: u64,
    /// Of 100 reads and writes, how many go past the cache.
    pub direct: u64,
    /// The file stays below this.
    pub max_size: u64,
    /// Most bytes of one operation.
    pub max_len: u64,
}

impl Plan {
    /// 100,000 operations of at most 64 KiB on a file of at most 1 MiB.
    pub fn new(seed: u64, direct: u64) -> Self {
        Plan { seed, operations: 100_000, direct, max_size: 1 << 20, max_len: 64 << 10 }
    }
}

/// An operation with all that it does, as a failure lists it.
#[derive(Clone, Copy, Debug)]
struct Step {
    kind: OpKind,
    off: u64,
    len: u64,
    /// Where a copy goes.
    to: u64,
    direct: bool,
}

struct Run<'a> {
    plan: Plan,
    random: u64,
    file: &'a mut dyn Exercised,
    model: Vec<u8>,
    past: VecDeque<(u64, Step)>,
}

/// Runs a plan on a file that is empty at the beginning; returns how many operations of each kind were done.
///
/// # Panics
/// At the first difference or error, with all that is needed to see it again.
pub fn exercise(plan: Plan, file: &mut dyn Exercised) -> Vec<(OpKind, u64)> {
    let mut run = Run { plan, random: plan.seed, file, model: Vec::new(), past: VecDeque::new() };
    let mut done = SHARES.map(|(kind, _)| (kind, 0)).to_vec();
    for number in 1..=plan.operations {
        let step = run.choose();
        run.past.truncate(KEPT - 1);
        run.past.push_front((number, step));
        let outcome = run.take(step).and_then(|()| run.look(number, step));
        if let Err(failure) = outcome {
            let past: Vec<_> = run.past.iter().rev().map(|(number, step)| format!("{number}: {step:?}")).collect();
            panic!("{plan:?}: {failure}\nsize {}, after\n{}", run.model.len(), past.join("\n"));
        }
        done.iter_mut().filter(|(kind, _)| *kind == step.kind).for_each(|(_, count)| *count += 1);
    }
    done
}

impl Run<'_> {
    /// A random number (splitmix64).
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit.max(1)
    }

    /// An offset: anywhere, or where a file is held in its inode, or a multiple of a block.
    fn offset(&mut self, limit: u64) -> u64 {
        let at = self.below(limit);
        match self.below(8) {
            0 => at % limit.clamp(1, 8000),
            1..4 => at / BLOCK * BLOCK,
            _ => at,
        }
    }

    /// The next operation, one that the file can be asked for.
    fn choose(&mut self) -> Step {
        loop {
            let mut ticket = self.below(SHARES.iter().map(|(_, share)| share).sum());
            let kind = SHARES.iter().find(|(_, share)| ticket.checked_sub(*share).map(|rest| ticket = rest).is_none());
            let Some((kind, _)) = kind else { continue };
            if self.file.lacks().contains(kind) {
                continue;
            }
            if let Some(step) = self.fit(*kind) {
                return step;
            }
        }
    }

    /// An operation of a kind within the bounds, if there is one.
    fn fit(&mut self, kind: OpKind) -> Option<Step> {
        let (size, max) = (self.model.len() as u64, self.plan.max_size);
        let direct = self.below(100) < self.plan.direct;
        let mut step = Step { kind, off: self.offset(max), len: self.offset(self.plan.max_len).max(1), to: 0, direct };
        match kind {
            OpKind::Collapse | OpKind::Insert => {
                step.off = self.below(size) / BLOCK * BLOCK;
                step.len = step.len.next_multiple_of(BLOCK);
                let fits = match kind {
                    OpKind::Collapse => step.off + step.len < size,
                    _ => step.off < size && size + step.len <= max,
                };
                return fits.then_some(step);
            }
            OpKind::Copy => {
                (step.off, step.to) = (self.offset(size), self.offset(max));
                step.len = step.len.min(size.saturating_sub(step.off)).min(max - step.to);
                let apart = step.off + step.len <= step.to || step.to + step.len <= step.off;
                return (apart && step.len > 0).then_some(step);
            }
            OpKind::Sync => step.len = self.below(2),
            // A request past the cache is mostly of whole blocks.
            OpKind::Read | OpKind::Write if direct && self.below(4) > 0 => {
                step.off = step.off / BLOCK * BLOCK;
                step.len = step.len.next_multiple_of(BLOCK);
            }
            _ => {}
        }
        step.len = step.len.min(max - step.off);
        Some(step)
    }

    /// Does it, to the file and to the model.
    fn take(&mut self, step: Step) -> Result<(), Failure> {
        let Step { kind, off, len, to, direct } = step;
        let (from, end) = (off as usize, (off + len) as usize);
        match kind {
            OpKind::Read => return self.compare(direct, off, len),
            OpKind::Write => {
                let stamp = self.below(u64::MAX);
                let data: Vec<u8> = (0..len).map(|at| ((stamp >> (at % 8 * 8)) ^ (at >> 3)) as u8).collect();
                self.file.write(direct, off, &data)?;
                self.grow(end);
                self.model[from..end].copy_from_slice(&data);
                return Ok(());
            }
            OpKind::Copy => {
                self.file.copy(off..off + len, to)?;
                self.grow((to + len) as usize);
                self.model.copy_within(from..end, to as usize);
                return Ok(());
            }
            _ => self.file.act(kind, off, len)?,
        }
        let size = self.model.len();
        match kind {
            OpKind::SetSize => self.model.resize(from, 0),
            OpKind::Allocate => self.grow(end),
            OpKind::Punch | OpKind::ZeroKeepSize => self.model[from.min(size)..end.min(size)].fill(0),
            OpKind::Zero => {
                self.grow(end);
                self.model[from..end].fill(0);
            }
            OpKind::Collapse => drop(self.model.drain(from..end)),
            OpKind::Insert => drop(self.model.splice(from..from, std::iter::repeat_n(0, len as usize))),
            _ => {}
        }
        Ok(())
    }

    fn grow(&mut self, size: usize) {
        if self.model.len() < size {
            self.model.resize(size, 0);
        }
    }

    /// Checks the size, and now and then the whole file.
    fn look(&mut self, number: u64, step: Step) -> Result<(), Failure> {
        let (size, wanted) = (self.file.size()?, self.model.len() as u64);
        if size != wanted {
            return Err(format!("the size is {size}, should be {wanted}").into());
        }
        let whole = number.is_multiple_of(WHOLE_EVERY) || number == self.plan.operations || step.kind == OpKind::Reopen;
        if whole { self.compare(false, 0, self.plan.max_size) } else { Ok(()) }
    }

    fn compare(&mut self, direct: bool, off: u64, len: u64) -> Result<(), Failure> {
        let size = self.model.len();
        let wanted = &self.model[size.min(off as usize)..size.min((off + len) as usize)];
        let mut found = vec![0xEE; len as usize];
        let count = self.file.read(direct, off, &mut found)?;
        if count != wanted.len() {
            return Err(format!("{count} bytes read, should be {}", wanted.len()).into());
        }
        match wanted.iter().zip(&found).position(|(wanted, found)| wanted != found) {
            None => Ok(()),
            Some(at) => {
                let differ = wanted.iter().zip(&found).filter(|(wanted, found)| wanted != found).count();
                let byte = off + at as u64;
                Err(format!("byte {byte} is {}, should be {}; {differ} bytes differ", found[at], wanted[at]).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in memory, with a defect.
    struct Plain {
        bytes: Vec<u8>,
        forgets_to_zero: bool,
    }

    impl Exercised for Plain {
        fn lacks(&self) -> &[OpKind] {
            &[OpKind::Collapse, OpKind::Insert, OpKind::Reopen]
        }

        fn read(&mut self, _: bool, off: u64, buf: &mut [u8]) -> Result<usize, Failure> {
            let rest = self.bytes.get(off as usize..).unwrap_or_default();
            let count = rest.len().min(buf.len());
            buf[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        }

        fn write(&mut self, _: bool, off: u64, data: &[u8]) -> Result<(), Failure> {
            let end = off as usize + data.len();
            self.bytes.resize(self.bytes.len().max(end), 0);
            self.bytes[off as usize..end].copy_from_slice(data);
            Ok(())
        }

        fn copy(&mut self, from: Range<u64>, to: u64) -> Result<(), Failure> {
            let data = self.bytes[from.start as usize..from.end as usize].to_vec();
            self.write(false, to, &data)
        }

        fn act(&mut self, kind: OpKind, off: u64, len: u64) -> Result<(), Failure> {
            let (size, end) = (self.bytes.len(), (off + len) as usize);
            match kind {
                OpKind::SetSize => self.bytes.resize(off as usize, 0),
                OpKind::Allocate | OpKind::Zero => self.bytes.resize(size.max(end), 0),
                OpKind::Collapse | OpKind::Insert | OpKind::Reopen => return Err("not asked for".into()),
                _ => {}
            }
            let zeroes = matches!(kind, OpKind::Punch | OpKind::Zero | OpKind::ZeroKeepSize);
            if zeroes && !(self.forgets_to_zero && len == 4096) {
                let size = self.bytes.len();
                self.bytes[size.min(off as usize)..size.min(end)].fill(0);
            }
            Ok(())
        }

        fn size(&mut self) -> Result<u64, Failure> {
            Ok(self.bytes.len() as u64)
        }
    }

    #[test]
    fn a_right_file_passes_and_every_kind_is_tried() {
        let mut file = Plain { bytes: Vec::new(), forgets_to_zero: false };
        let done = exercise(Plan { operations: 20_000, ..Plan::new(3, 50) }, &mut file);
        for (kind, count) in done {
            assert_eq!(count > 5, !file.lacks().contains(&kind), "{kind:?} {count}");
        }
    }

    #[test]
    #[should_panic(expected = "bytes differ")]
    fn a_rare_defect_is_found() {
        exercise(Plan::new(4, 0), &mut Plain { bytes: Vec::new(), forgets_to_zero: true });
    }
}
