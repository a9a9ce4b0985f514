//! What survives a power cut: checkpoints, fsync's roll-forward chain, and recovery from both.
//!
//! [`checkpoint`] makes the whole volume durable, [`sync`] single files between checkpoints; [`recovery`] is what a
//! mount does with what they left. [`trim`] tells the device which blocks no checkpoint refers to any more;
//! [`capacity`] changes how much a volume may hold.

pub(crate) mod capacity;
pub(crate) mod checkpoint;
pub(crate) mod journal;
pub(crate) mod recovery;
pub(crate) mod sync;
#[cfg(test)]
mod tests;
pub(crate) mod trim;
