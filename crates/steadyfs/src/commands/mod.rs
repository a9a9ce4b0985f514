//! One file per command: its arguments, and what it does with the crates below.

pub(crate) mod completions;
pub(crate) mod dump;
pub(crate) mod fsck;
pub(crate) mod info;
pub(crate) mod man;
pub(crate) mod mkfs;
