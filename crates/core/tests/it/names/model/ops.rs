//! The operations. Numbers pick from what there is when the operation runs, so that any sequence means something.

use proptest::prelude::*;
use steadyfs_core::RenameFlags;
use steadyfs_format::dir::FileType;

/// Picks one of the known inodes.
pub(super) type Pick = u16;
/// Picks one of the names.
pub(super) type Name = u8;

/// One operation.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Make {
        dir: Pick,
        name: Name,
        kind: FileType,
        mode: u16,
        gid: u8,
    },
    Symlink {
        dir: Pick,
        name: Name,
        length: u16,
    },
    Tmpfile {
        dir: Pick,
    },
    Link {
        inode: Pick,
        dir: Pick,
        name: Name,
    },
    Unlink {
        dir: Pick,
        name: Name,
    },
    Rmdir {
        dir: Pick,
        name: Name,
    },
    Rename {
        dir: Pick,
        name: Name,
        to: Pick,
        new: Name,
        how: RenameFlags,
        whiteout: bool,
    },
    /// Keeps the inode in use.
    Hold {
        inode: Pick,
    },
    /// Ends the use of some inode.
    Release {
        which: Pick,
    },
    Chmod {
        inode: Pick,
        mode: u16,
    },
    Chown {
        inode: Pick,
        gid: u8,
    },
    /// Sets the protection flags.
    Protect {
        inode: Pick,
        immutable: bool,
        append: bool,
    },
    SetXattr {
        inode: Pick,
        name: u8,
        length: u16,
        create: bool,
        replace: bool,
    },
    RemoveXattr {
        inode: Pick,
        name: u8,
    },
    Sync,
    Remount,
}

/// The name that a number stands for. Some no file can have; the long ones fill directories quickly.
pub(super) fn name(n: Name) -> Vec<u8> {
    match n {
        0 => b".".to_vec(),
        1 => b"..".to_vec(),
        2 => Vec::new(),
        3 => vec![b'x'; 256],
        4 => b"a/b".to_vec(),
        5 => vec![0xff, 0xfe],
        6..20 => vec![b'a' + n],
        _ => [&[b'L'; 252][..], format!("{n:03}").as_bytes()].concat(),
    }
}

/// The attribute that a number stands for.
pub(super) fn xattr(n: u8) -> Vec<u8> {
    match n {
        0 => b"user.a".to_vec(),
        1 => b"trusted.overlay".to_vec(),
        2 => b"security.x".to_vec(),
        3 => b"bogus".to_vec(),
        _ => [&b"user."[..], &[b'n'; 100], &[b'0' + n]].concat(),
    }
}

fn kind() -> impl Strategy<Value = FileType> {
    prop_oneof![
        4 => Just(FileType::Regular),
        5 => Just(FileType::Dir),
        1 => Just(FileType::Fifo),
        1 => Just(FileType::Socket),
        1 => Just(FileType::CharDevice),
    ]
}

fn how() -> impl Strategy<Value = RenameFlags> {
    prop_oneof![3 => Just(RenameFlags::Replace), 1 => Just(RenameFlags::NoReplace), 2 => Just(RenameFlags::Exchange)]
}

fn names() -> impl Strategy<Value = Name> {
    prop_oneof![1 => 0u8..6, 8 => 6u8..20, 12 => 20u8..50]
}

/// Any operation, the frequent ones more often.
pub(super) fn any_op() -> impl Strategy<Value = Op> {
    let (p, n) = (any::<Pick>, names);
    prop_oneof![
        20 => (p(), n(), kind(), 0u16..0o10000, 0u8..3)
            .prop_map(|(dir, name, kind, mode, gid)| Op::Make { dir, name, kind, mode, gid }),
        3 => (p(), n(), prop_oneof![1u16..40, 3400u16..4200]).prop_map(|(dir, name, length)| Op::Symlink { dir, name, length }),
        2 => p().prop_map(|dir| Op::Tmpfile { dir }),
        6 => (p(), p(), n()).prop_map(|(inode, dir, name)| Op::Link { inode, dir, name }),
        8 => (p(), n()).prop_map(|(dir, name)| Op::Unlink { dir, name }),
        6 => (p(), n()).prop_map(|(dir, name)| Op::Rmdir { dir, name }),
        16 => (p(), n(), p(), n(), how(), prop::bool::weighted(0.2))
            .prop_map(|(dir, name, to, new, how, whiteout)| Op::Rename { dir, name, to, new, how, whiteout }),
        3 => p().prop_map(|inode| Op::Hold { inode }),
        3 => p().prop_map(|which| Op::Release { which }),
        2 => (p(), 0u16..0o10000).prop_map(|(inode, mode)| Op::Chmod { inode, mode }),
        2 => (p(), 0u8..3).prop_map(|(inode, gid)| Op::Chown { inode, gid }),
        2 => (p(), prop::bool::weighted(0.2), prop::bool::weighted(0.2))
            .prop_map(|(inode, immutable, append)| Op::Protect { inode, immutable, append }),
        6 => (p(), 0u8..7, prop_oneof![0u16..30, 0u16..4500], prop::bool::weighted(0.2), prop::bool::weighted(0.2))
            .prop_map(|(inode, name, length, create, replace)| Op::SetXattr { inode, name, length, create, replace }),
        3 => (p(), 0u8..7).prop_map(|(inode, name)| Op::RemoveXattr { inode, name }),
        1 => Just(Op::Sync),
        1 => Just(Op::Remount),
    ]
}
