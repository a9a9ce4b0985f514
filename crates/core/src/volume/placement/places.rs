//! Places of blocks, as every kind of volume names them.
//!
//! Plain data, below the kinds: an arm of placement gives them out, and knows no other arm.

use steadyfs_format::{Lba, SegNo};

/// A block of a node log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodePlace {
    pub(crate) lba: Lba,
    /// The block that the log takes next (the footer's chain pointer).
    pub(crate) next: Lba,
    /// Rises from block to block of one log.
    pub(crate) serial: u64,
}

/// Consecutive addresses taken from a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) lba: Lba,
    pub(crate) count: u32,
}

/// What an address belongs to. While it is the same, and a slot has the same address, a block that was read there is
/// the slot's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// A segment, and how often its blocks could have come to hold something else when it was looked at.
    Segment { seg: SegNo, generation: u32 },
    /// The block itself, for ever: its address is not used again.
    Fixed,
}

/// Where a block may be overwritten: neighbouring blocks of one such place may be overwritten together.
pub(crate) type OverwritePlace = SegNo;
