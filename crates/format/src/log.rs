//! The six logs, in the order in which the format numbers them, and how a log takes its blocks.

use crate::FormatError;

/// One of the six persistent logs. The number is the type of the log's segments in the SIT and its place in
/// `alloc_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Log {
    /// Directory blocks and hot files.
    HotData = 0,
    /// Ordinary file data.
    WarmData = 1,
    /// Media files and collected data.
    ColdData = 2,
    /// Direct-type nodes of directories.
    HotNode = 3,
    /// Direct-type nodes of everything else; the roll-forward chain.
    WarmNode = 4,
    /// Indirect nodes.
    ColdNode = 5,
}

impl Log {
    /// How many there are.
    pub const COUNT: usize = 6;
    /// All logs, in their order.
    pub const ALL: [Self; Self::COUNT] =
        [Self::HotData, Self::WarmData, Self::ColdData, Self::HotNode, Self::WarmNode, Self::ColdNode];
    /// The data logs, in their order.
    pub const DATA: [Self; 3] = [Self::HotData, Self::WarmData, Self::ColdData];
    /// The node logs, in their order.
    pub const NODE: [Self; 3] = [Self::HotNode, Self::WarmNode, Self::ColdNode];

    /// The log with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The log's number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The log's number as an index.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the log holds nodes.
    pub const fn is_node(self) -> bool {
        self as u8 >= Self::HotNode as u8
    }

    /// The name people use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HotData => "hot data",
            Self::WarmData => "warm data",
            Self::ColdData => "cold data",
            Self::HotNode => "hot node",
            Self::WarmNode => "warm node",
            Self::ColdNode => "cold node",
        }
    }
}

impl std::fmt::Display for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// How a log took the blocks of its current segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum AllocType {
    /// In order, in a segment that was free.
    #[default]
    Lfs = 0,
    /// In the free slots of a partly valid segment.
    Ssr = 1,
}

impl AllocType {
    /// Reads the byte of the checkpoint.
    pub fn from_disk(raw: u8) -> Result<Self, FormatError> {
        match raw {
            0 => Ok(Self::Lfs),
            1 => Ok(Self::Ssr),
            _ => Err(FormatError::field("checkpoint", "alloc_type", raw, "is 0 (LFS) or 1 (SSR)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_logs_agree() {
        for (number, log) in Log::ALL.into_iter().enumerate() {
            assert_eq!(log.index(), number);
            assert_eq!(Log::from_number(number as u8), Some(log));
            assert_eq!(log.is_node(), number >= 3);
        }
        assert_eq!(Log::from_number(6), None);
        assert!(AllocType::from_disk(2).is_err());
    }
}
