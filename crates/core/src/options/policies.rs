//! Policies of a program's own: which section is cleaned next, and which log data goes to.
//!
//! A program implements a trait in a file of its own and gives a static of it to [`MountOptions`](super::MountOptions).
//! No option of the command names one. A policy decides, and nothing else: it may not call the file system.

use std::fmt;
use steadyfs_format::{Ino, Log};

/// A section that may be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionState {
    /// Its valid blocks: at least one, and fewer than all.
    pub valid: u64,
    /// All its blocks.
    pub blocks: u64,
    /// Seconds of the volume's life since the youngest of its segments was modified, on average over its blocks.
    pub age: u64,
    /// Writers wait for room.
    pub urgent: bool,
}

/// Which section is cleaned next.
pub trait VictimPolicy: fmt::Debug + Sync {
    /// What cleaning the section costs. Of those that a search sees, the one that costs least is taken.
    fn cost(&self, section: &SectionState) -> u64;
}

/// The fewest valid blocks: how victims are chosen while writers wait, if nobody says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Greedy;

impl VictimPolicy for Greedy {
    fn cost(&self, section: &SectionState) -> u64 {
        section.valid
    }
}

/// The largest `age * (1 - u) / (1 + u)`, in whole numbers as F2FS has it: how victims are chosen in the background, if
/// nobody says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct CostBenefit;

impl VictimPolicy for CostBenefit {
    fn cost(&self, section: &SectionState) -> u64 {
        // u in thousandths; the benefit of old, empty sections is largest. Inverted, so that the least wins.
        let u = section.valid * 1000 / section.blocks;
        let age = section.age.saturating_add(1);
        u64::MAX - age.saturating_mul((1000 - u) * 1000 / (1000 + u))
    }
}

/// Data of a file that is going to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataToPlace {
    /// The file's inode.
    pub ino: Ino,
    /// The log that it would go to otherwise.
    pub usual: Log,
}

/// Which log the data of regular files goes to, when it is written for the first time or out of place.
pub trait PlacementPolicy: fmt::Debug + Sync {
    /// A log of data.
    fn log(&self, data: &DataToPlace) -> Log;
}

/// A policy that somebody else owns for good. Two are equal if they are the same static.
pub struct Own<T: ?Sized + 'static>(pub &'static T);

impl<T: ?Sized> Clone for Own<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Own<T> {}

impl<T: ?Sized> PartialEq for Own<T> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self.0, other.0)
    }
}

impl<T: ?Sized> Eq for Own<T> {}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Own<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
