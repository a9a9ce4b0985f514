//! Workloads made by rule: every short one ([`exhaustive`], after ACE of CrashMonkey), and long ones at random ([`random`]).
//!
//! Keeps true: the model allows every step of every workload made here.

mod ace;
mod random;

pub use ace::{exhaustive, sampled};
pub use random::random;
