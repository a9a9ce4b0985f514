//! Delayed logging in memory, as XFS and ScaleXFS (FAST '22) do it: what committed operations changed gathers in a list
//! until a push seals it, and a batch of it goes to the log.
//!
//! This crate knows neither files nor blocks. An operation commits *parts*, one for each *item* (an inode) that it
//! changed ([`CommitLists::commit`]). A part is merged into the item's *vector*, the sum of what no batch has yet. A
//! push seals everything committed so far ([`CommitLists::seal`]) and writes it as one batch.
//!
//! - `item`: an item and its vectors, one for each of two lists;
//! - `context`: the lock that commits share and a seal takes alone: one, or one for each of two lists;
//! - `linked`, `percore`: the members of a list, in one linked list or in one list a core;
//! - `space`: bytes of a list, counted exactly or in strides;
//! - `lists`: all of this together.
//!
//! Kept true: the parts of one commit come into one sealed list together; a seal has everything that was committed
//! before it began; the items of a sealed list come in the order of their last commits. The forms differ in nothing but
//! who waits for whom.
//!
//! What XFS has and this has not: log space reservations, since a checkpoint of a log-structured file system empties
//! the journal at any time; home locations, and so neither an active item list nor a tail.
//!
//! In virtual time each line that cores share has its price ([`steadyfs_rt::SharedLine`]), and so has formatting.

mod context;
mod fault;
mod item;
mod linked;
mod lists;
mod percore;
mod space;

pub use fault::Fault;
pub use item::Item;
pub use lists::{Classes, CommitLists, Form, ListStats, Part, Sealed};

#[cfg(test)]
mod tests;
