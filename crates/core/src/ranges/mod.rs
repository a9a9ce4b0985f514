//! Locks on ranges of a file's pages: many holders at once, where their ranges or their modes allow it.
//!
//! For work on the same file that knows which pages it touches: collectors move one page each and only *try*; I/O past
//! the cache and truncation take a range or the whole file and wait. The idea is that of ScaleLFS' concurrent range
//! table (FAST '25); its faults are tests here.
//!
//! - `list`: a lock-free list of elements, newest first; deletion is a mark, memory comes back by epochs. The only
//!   `unsafe` of this crate.
//! - `table`: 32 such lists, by page number modulo 32, and guards.
//! - `sync`: what both take from outside: atomics, epochs, an event. The model checker (`tests/ranges`) runs the same
//!   two files over its own.
//!
//! # Order and fairness
//!
//! A waiter has put its elements in before: later arrivals that conflict wait behind it, so readers cannot starve
//! a writer, and a `try` gives way to waiters. Buckets are taken in rising order, and within a bucket one waits
//! for earlier elements alone; so a thread that holds nothing else here cannot be part of a cycle. A thread must not
//! ask for a range that conflicts with, or lies behind a waiter for, one that it holds.

mod list;
mod sync;
mod table;

pub use table::{Contended, RangeGuard, RangeLocks};

#[cfg(test)]
mod tests;
