//! One operation of a trace.

use serde::Serialize;

/// Declares the operations with their numbers in files and their names for people.
macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident = $number:literal $text:literal,)*) => {
        /// What was asked for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[repr(u8)]
        pub enum Op { $($(#[$doc])* $name = $number,)* }

        impl Op {
            /// All of them.
            pub const ALL: &'static [Op] = &[$(Op::$name),*];

            /// The operation with this number.
            pub fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Op::$name),)*
                    _ => None,
                }
            }

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Op::$name => $text,)*
                }
            }
        }
    };
}

ops! {
    /// A name was looked up in `file`; `other` is what was found, `size` its size, `flags` its mode.
    Lookup = 1 "lookup",
    /// Attributes were read.
    Getattr = 2 "getattr",
    /// Attributes were changed: `flags` has FUSE's bits for which, `size` the size.
    Setattr = 3 "setattr",
    /// A file, device, FIFO or socket was made in `file`; `other` is it, `flags` its mode.
    Mknod = 4 "mknod",
    /// A directory was made; as [`Op::Mknod`].
    Mkdir = 5 "mkdir",
    /// A symbolic link was made; as [`Op::Mknod`], `size` is the length of its target.
    Symlink = 6 "symlink",
    /// A file was made, or found, and opened; as [`Op::Mknod`].
    Create = 7 "create",
    /// A file without a name was made in the directory `file`; `other` is it.
    Tmpfile = 8 "tmpfile",
    /// `other` got the name in `file`.
    Link = 9 "link",
    /// The name was removed from `file`.
    Unlink = 10 "unlink",
    /// The directory of this name was removed from `file`.
    Rmdir = 11 "rmdir",
    /// The name in `file` became `other_name` in `other`; `flags` as for renameat2(2).
    Rename = 12 "rename",
    /// The target of a symbolic link was read.
    Readlink = 13 "readlink",
    /// Names of a directory were listed from cookie `offset` on; `done` bytes of them.
    Readdir = 14 "readdir",
    /// A file was opened; `flags` as for open(2).
    Open = 15 "open",
    /// The last user of an open file closed it.
    Release = 16 "release",
    /// `size` bytes from `offset` on were asked for, `done` came; `flags`: [`DIRECT`].
    Read = 17 "read",
    /// `size` bytes were written at `offset`, `done` were taken; `flags`: [`DIRECT`], [`WRITTEN_BACK`].
    Write = 18 "write",
    /// A file was made durable; `flags`: [`DATA_ONLY`].
    Fsync = 19 "fsync",
    /// A directory was made durable.
    Fsyncdir = 20 "fsyncdir",
    /// Everything was made durable.
    Syncfs = 21 "syncfs",
    /// Space of a file from `offset` on was changed; `flags` as for fallocate(2).
    Fallocate = 22 "fallocate",
    /// Data (`flags` 3) or a hole (4) was looked for from `offset` on.
    Lseek = 23 "lseek",
    /// `size` bytes were copied from `offset` to `other_offset` of `other`, `done` of them.
    Copy = 24 "copy",
    /// An extended attribute of `size` bytes was set.
    Setxattr = 25 "setxattr",
    /// One was read.
    Getxattr = 26 "getxattr",
    /// They were listed.
    Listxattr = 27 "listxattr",
    /// One was removed.
    Removexattr = 28 "removexattr",
    /// An ioctl.
    Ioctl = 29 "ioctl",
    /// A descriptor was closed.
    Flush = 30 "flush",
    /// Free space was asked for.
    Statfs = 31 "statfs",
}

/// Of reads and writes: past the page cache.
pub const DIRECT: u64 = 1;
/// Of writes: the kernel wrote back what a program had written before; who is not known.
pub const WRITTEN_BACK: u64 = 2;
/// Of fsync: contents and size only.
pub const DATA_ONLY: u64 = 1;
/// The error of a name that is not there.
pub const NOT_FOUND: u32 = 2;

/// A name as a number: 56 bits that depend on the directory, the name and a key that nobody keeps, and how many slots
/// of 8 bytes the name takes. 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Name(pub u64);

impl Name {
    /// From a hash and the length of the name in bytes.
    pub fn new(hash: u64, length: usize) -> Self {
        let slots = length.div_ceil(8).clamp(1, 32) as u64;
        Name(hash << 8 & !0xFF | slots | 0x80)
    }

    /// Slots of 8 bytes.
    pub fn slots(self) -> usize {
        (self.0 & 0x7F).clamp(1, 32) as usize
    }

    /// A name for a replay that takes as many slots and is as distinct.
    pub fn text(self) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut id = self.0 >> 8;
        let mut out: String = (0..8)
            .map(|_| {
                let letter = LETTERS[(id & 63) as usize];
                id >>= 6;
                char::from(letter)
            })
            .collect();
        out.extend(std::iter::repeat_n('.', 8 * (self.slots() - 1)));
        out.truncate(255);
        out
    }
}

/// One operation. What an operation has no use for is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    /// What was asked for.
    pub op: Op,
    /// When, in nanoseconds since the recording began.
    pub start_ns: u64,
    /// How long it took, in nanoseconds.
    pub duration_ns: u64,
    /// The kernel's number of the thread that asked; 0 is the kernel itself.
    pub thread: u32,
    /// The inode, or the directory that the name is in; 1 is the root.
    pub file: u64,
    /// The name.
    pub name: Name,
    /// A second inode: what was found or made, or another directory.
    pub other: u64,
    /// The second name of a rename.
    pub other_name: Name,
    /// In bytes.
    pub offset: u64,
    /// Of the second file.
    pub other_offset: u64,
    /// In bytes.
    pub size: u64,
    /// Bytes that were moved.
    pub done: u64,
    /// See [`Op`].
    pub flags: u64,
    /// The errno; 0 if it went well.
    pub error: u32,
}

impl Record {
    /// An operation on an inode, with nothing else.
    pub fn new(op: Op, thread: u32, file: u64) -> Self {
        Record {
            op,
            start_ns: 0,
            duration_ns: 0,
            thread,
            file,
            name: Name(0),
            other: 0,
            other_name: Name(0),
            offset: 0,
            other_offset: 0,
            size: 0,
            done: 0,
            flags: 0,
            error: 0,
        }
    }

    /// When it ended.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_and_names_of_operations_are_their_own() {
        let numbers: HashSet<u8> = Op::ALL.iter().map(|op| *op as u8).collect();
        let names: HashSet<&str> = Op::ALL.iter().map(|op| op.name()).collect();
        assert_eq!((numbers.len(), names.len()), (Op::ALL.len(), Op::ALL.len()));
        assert!(Op::ALL.iter().all(|op| Op::from_number(*op as u8) == Some(*op)));
        assert_eq!((Op::from_number(0), Op::from_number(200)), (None, None));
    }

    #[test]
    fn names_keep_their_slots_and_stay_distinct() {
        for (length, slots) in [(1, 1), (8, 1), (9, 2), (255, 32)] {
            let name = Name::new(0x1234_5678_9abc_def0, length);
            assert_eq!(name.slots(), slots, "{length}");
            assert_eq!(name.text().len().div_ceil(8), slots, "{length}");
        }
        let texts: HashSet<String> = (0..1000u64).map(|id| Name::new(id, 5).text()).collect();
        assert_eq!(texts.len(), 1000);
        assert_ne!(Name::new(0, 1), Name::default());
    }
}
