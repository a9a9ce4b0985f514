//! Log space: which log an address belongs to.

use crate::{Lba, Log};
use std::fmt;
use std::ops::Range;

/// The owner of one stretch of log space: one of the six logs, or the meta log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stretch {
    /// Data or nodes.
    Of(Log),
    /// Discard logs.
    Meta,
}

impl Stretch {
    /// How many there are.
    pub const COUNT: usize = 7;
    /// All stretches, in the order of their addresses.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Of(Log::HotData),
        Self::Of(Log::WarmData),
        Self::Of(Log::ColdData),
        Self::Of(Log::HotNode),
        Self::Of(Log::WarmNode),
        Self::Of(Log::ColdNode),
        Self::Meta,
    ];

    /// Its place among the stretches: the number of the log, or 6.
    pub const fn index(self) -> usize {
        match self {
            Self::Of(log) => log.index(),
            Self::Meta => 6,
        }
    }

    /// Whether nodes lie here.
    pub const fn is_node(self) -> bool {
        matches!(self, Self::Of(log) if log.is_node())
    }

    /// Whether file data lies here.
    pub const fn is_data(self) -> bool {
        matches!(self, Self::Of(log) if !log.is_node())
    }
}

impl fmt::Display for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Of(log) => log.name(),
            Self::Meta => "meta",
        })
    }
}

/// The division of log space. Comes from a checked superblock, so that no arithmetic here overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressSpace {
    first: Lba,
    shift: u8,
}

impl AddressSpace {
    /// Log space that starts at `first`, with stretches of `1 << shift` blocks; `None` if it does not end by
    /// [`super::SPACE_END`] or `first` is not a multiple of a stretch.
    pub const fn new(first: Lba, shift: u8) -> Option<Self> {
        if shift > super::MAX_LOG_SHIFT || first.get() > super::SPACE_END || first.get() & ((1 << shift) - 1) != 0 {
            return None;
        }
        let fits = first.get() + ((Stretch::COUNT as u64) << shift) <= super::SPACE_END;
        if fits { Some(Self { first, shift }) } else { None }
    }

    /// The first block of log space.
    pub const fn first(self) -> Lba {
        self.first
    }

    /// Base-2 logarithm of a stretch's length in blocks.
    pub const fn shift(self) -> u8 {
        self.shift
    }

    /// Blocks of a stretch.
    pub const fn length(self) -> u64 {
        1 << self.shift
    }

    /// The block behind the last stretch.
    pub const fn end(self) -> Lba {
        Lba(self.first.get() + ((Stretch::COUNT as u64) << self.shift))
    }

    /// The addresses of a stretch.
    pub const fn range(self, stretch: Stretch) -> Range<Lba> {
        let start = self.first.get() + ((stretch.index() as u64) << self.shift);
        Lba(start)..Lba(start + self.length())
    }

    /// The stretch that an address lies in; `None` for region 0 and behind log space.
    pub fn stretch_of(self, lba: Lba) -> Option<Stretch> {
        let offset = lba.get().checked_sub(self.first.get())?;
        Stretch::ALL.get(usize::try_from(offset >> self.shift).ok()?).copied()
    }
}
