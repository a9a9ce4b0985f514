//! What CPU work costs in virtual time.

use crate::Cost;

/// Nanoseconds for one unit of each kind of work ([`Cost`]).
///
/// The default stands for one core of the servers that the papers used (two-socket Xeons of 2017 to 2021, 2.1 to 2.7
/// GHz): memory at 10 GB/s per core, a cache miss of 80 ns, system calls with the mitigations of their time. They are
/// estimates, made before any experiment was run, or measured on the real F2FS, and not fitted to the papers' figures.
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
        Cost::SyscallEntry => 250,
        Cost::PageCopy => 400,
        Cost::PageZero => 200,
        Cost::Checksum => 350,
        Cost::RadixLookup => 80,
        Cost::NodeLookup => 100,
        Cost::DentryScan => 4,
        Cost::BlockAlloc => 60,
        Cost::SegmentUpdate => 80,
        Cost::VictimScan => 19,
        Cost::BioSubmit => 1000,
        Cost::BioComplete => 800,
        Cost::LockOp => 20,
        Cost::SharedAtomic => 40,
        Cost::LogRecord => 50,
        Cost::WakeUp => 1000,
        Cost::PageWrite => 530,
        Cost::PageWriteback => 820,
        Cost::PageMove => 650,
        Cost::NameChange => 11_800,
    }
}
