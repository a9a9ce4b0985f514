//! What CPU work costs in virtual time.

use crate::Cost;

/// Nanoseconds for one unit of each kind of work ([`Cost`]).
///
/// The default is measured on Linux and its F2FS, or published by others, and not fitted to the papers' figures.
/// `docs/lab/PARAMETERS.md` has the source of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    ns: [u32; Cost::ALL.len()],
}

impl Default for Costs {
    fn default() -> Self {
        let mut costs = Costs { ns: [0; Cost::ALL.len()] };
        for cost in Cost::ALL {
            costs.set(cost, standard(cost));
        }
        costs
    }
}

impl Costs {
    /// CPU work takes no time at all.
    pub fn free() -> Self {
        Costs { ns: [0; Cost::ALL.len()] }
    }

    /// The price of one unit, in nanoseconds.
    #[inline]
    pub fn of(&self, cost: Cost) -> u64 {
        u64::from(self.ns[cost as usize])
    }

    /// Changes the price of one unit.
    pub fn set(&mut self, cost: Cost, ns: u32) {
        self.ns[cost as usize] = ns;
    }
}

fn standard(cost: Cost) -> u32 {
    match cost {
        Cost::SyscallEntry => 550,
        Cost::PageCopy => 550,
        Cost::PageZero => 299,
        Cost::Checksum => 258,
        Cost::RadixLookup => 127,
        Cost::NodeLookup => 54,
        Cost::DentryScan => 4,
        Cost::BlockAlloc => 26,
        Cost::SegmentUpdate => 48,
        Cost::VictimScan => 19,
        Cost::BioSubmit => 1_150,
        Cost::BioComplete => 600,
        Cost::LockOp => 17,
        Cost::SharedAtomic => 81,
        Cost::LogRecord => 28,
        Cost::WakeUp => 430,
        Cost::PageWrite => 450,
        Cost::PageWriteback => 940,
        Cost::PageMove => 1_080,
        Cost::NameChange => 7_650,
    }
}
