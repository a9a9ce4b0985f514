//! Kinds of file: the byte in a directory entry and the type bits of a mode.

/// A kind of file. The number is the one that directory entries store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum FileType {
    /// A regular file.
    Regular = 1,
    /// A directory.
    Dir = 2,
    /// A character device.
    CharDevice = 3,
    /// A block device.
    BlockDevice = 4,
    /// A named pipe.
    Fifo = 5,
    /// A socket.
    Socket = 6,
    /// A symbolic link.
    Symlink = 7,
}

impl FileType {
    /// All kinds with the type bits of their modes.
    const ALL: [(Self, u16); 7] = [
        (Self::Regular, 0o100_000),
        (Self::Dir, 0o040_000),
        (Self::CharDevice, 0o020_000),
        (Self::BlockDevice, 0o060_000),
        (Self::Fifo, 0o010_000),
        (Self::Socket, 0o140_000),
        (Self::Symlink, 0o120_000),
    ];

    /// The kind that a directory entry's byte names.
    pub fn from_disk(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().map(|(kind, _)| kind).find(|kind| *kind as u8 == byte)
    }

    /// The byte of a directory entry.
    pub const fn to_disk(self) -> u8 {
        self as u8
    }

    /// The kind that a mode names.
    pub fn from_mode(mode: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, bits)| *bits == mode & 0o170_000).map(|(kind, _)| kind)
    }

    /// The type bits of a mode.
    pub fn mode_bits(self) -> u16 {
        // The table has every kind, in the order of their numbers.
        Self::ALL[self as usize - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_modes_and_kinds_agree() {
        for (index, (kind, bits)) in FileType::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(kind.to_disk()), index + 1);
            assert_eq!(FileType::from_disk(kind.to_disk()), Some(kind));
            assert_eq!((FileType::from_mode(bits | 0o7777), kind.mode_bits()), (Some(kind), bits));
        }
        assert_eq!((FileType::from_disk(0), FileType::from_disk(8), FileType::from_mode(0o644)), (None, None, None));
    }
}
