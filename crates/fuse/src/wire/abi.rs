//! The structures of the protocol, named as in `fuse.h` without the `fuse_`. `...In` comes from the kernel, `...Out`
//! goes to it.
//!
//! Kept true: field order and sizes are the kernel's, checked by the assertions at the end.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Declares structures that come from the kernel.
macro_rules! incoming {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
        #[repr(C)]
        pub(crate) struct $name { $(pub(crate) $field: $type,)* }
    )*};
}

/// Declares structures that go to the kernel; what is not said is zero.
macro_rules! outgoing {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
        #[repr(C)]
        pub(crate) struct $name { $(pub(crate) $field: $type,)* }
    )*};
}

incoming! {
    /// Before every request.
    InHeader {
        len: u32,
        opcode: u32,
        unique: u64,
        nodeid: u64,
        uid: u32,
        gid: u32,
        pid: u32,
        total_extlen: u16,
        padding: u16,
    }
    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32, flags2: u32, unused: [u32; 11], }
    GetattrIn { flags: u32, dummy: u32, fh: u64, }
    ForgetIn { nlookup: u64, }
    ForgetOne { nodeid: u64, nlookup: u64, }
    BatchForgetIn { count: u32, dummy: u32, }
    SetattrIn {
        valid: u32,
        padding: u32,
        fh: u64,
        size: u64,
        lock_owner: u64,
        atime: u64,
        mtime: u64,
        ctime: u64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        unused4: u32,
        uid: u32,
        gid: u32,
        unused5: u32,
    }
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32, }
    MkdirIn { mode: u32, umask: u32, }
    RenameIn { newdir: u64, }
    Rename2In { newdir: u64, flags: u32, padding: u32, }
    LinkIn { oldnodeid: u64, }
    OpenIn { flags: u32, open_flags: u32, }
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32, }
    ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64, }
    ReadIn { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32, }
    WriteIn { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32, }
    FsyncIn { fh: u64, fsync_flags: u32, padding: u32, }
    FlushIn { fh: u64, unused: u32, padding: u32, lock_owner: u64, }
    /// With the extension that INIT's `SETXATTR_EXT` asks for.
    SetxattrIn { size: u32, flags: u32, setxattr_flags: u32, padding: u32, }
    /// Without it.
    SetxattrShortIn { size: u32, flags: u32, }
    GetxattrIn { size: u32, padding: u32, }
    IoctlIn { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32, }
    FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32, }
    LseekIn { fh: u64, offset: u64, whence: u32, padding: u32, }
    CopyFileRangeIn { fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64, }
}

outgoing! {
    /// Before every reply.
    OutHeader { len: u32, error: i32, unique: u64, }
    InitOut {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u32,
        max_background: u16,
        congestion_threshold: u16,
        max_write: u32,
        time_gran: u32,
        max_pages: u16,
        map_alignment: u16,
        flags2: u32,
        max_stack_depth: u32,
        request_timeout: u16,
        unused: [u16; 11],
    }
    Attr {
        ino: u64,
        size: u64,
        blocks: u64,
        atime: u64,
        mtime: u64,
        ctime: u64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        nlink: u32,
        uid: u32,
        gid: u32,
        rdev: u32,
        blksize: u32,
        flags: u32,
    }
    EntryOut {
        nodeid: u64,
        generation: u64,
        entry_valid: u64,
        attr_valid: u64,
        entry_valid_nsec: u32,
        attr_valid_nsec: u32,
        attr: Attr,
    }
    AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr, }
    SxTime { tv_sec: i64, tv_nsec: u32, reserved: i32, }
    Statx {
        mask: u32,
        blksize: u32,
        attributes: u64,
        nlink: u32,
        uid: u32,
        gid: u32,
        mode: u16,
        spare0: u16,
        ino: u64,
        size: u64,
        blocks: u64,
        attributes_mask: u64,
        atime: SxTime,
        btime: SxTime,
        ctime: SxTime,
        mtime: SxTime,
        rdev_major: u32,
        rdev_minor: u32,
        dev_major: u32,
        dev_minor: u32,
        spare2: [u64; 14],
    }
    StatxOut { attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: Statx, }
    OpenOut { fh: u64, open_flags: u32, backing_id: i32, }
    WriteOut { size: u32, padding: u32, }
    StatfsOut {
        blocks: u64,
        bfree: u64,
        bavail: u64,
        files: u64,
        ffree: u64,
        bsize: u32,
        namelen: u32,
        frsize: u32,
        padding: u32,
        spare: [u32; 6],
    }
    GetxattrOut { size: u32, padding: u32, }
    IoctlOut { result: i32, flags: u32, in_iovs: u32, out_iovs: u32, }
    LseekOut { offset: u64, }
    CopyFileRangeOut { bytes_copied: u64, }
    /// Head of a directory entry; the name follows, padded to 8 bytes.
    Dirent { ino: u64, off: u64, namelen: u32, kind: u32, }
    NotifyInvalInodeOut { ino: u64, off: i64, len: i64, }
    /// The name follows, with a zero byte behind it that is not counted.
    NotifyInvalEntryOut { parent: u64, namelen: u32, flags: u32, }
}

/// `fuse_uring_req_header`: what an entry of a queue holds beside the payload, in both directions.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct RingHeader {
    /// [`InHeader`] or [`OutHeader`].
    pub(crate) in_out: [u8; 128],
    /// The structure of the operation, in a request.
    pub(crate) operation: [u8; RingHeader::OPERATION],
    pub(crate) flags: u64,
    /// What [`RingCommand`] names the request by.
    pub(crate) commit_id: u64,
    /// Bytes of the payload that are used.
    pub(crate) payload_size: u32,
    pub(crate) padding: u32,
    pub(crate) reserved: u64,
}

impl RingHeader {
    /// Most bytes of an operation's structure.
    pub(crate) const OPERATION: usize = 128;
}

/// `fuse_uring_cmd_req`: a command about an entry.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct RingCommand {
    pub(crate) flags: u64,
    pub(crate) commit_id: u64,
    pub(crate) queue: u16,
    pub(crate) padding: [u8; 6],
}

/// `struct fsxattr` of FS_IOC_FSGETXATTR, as `linux/fs.h` has it.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct FsXattr {
    pub(crate) xflags: u32,
    pub(crate) extsize: u32,
    pub(crate) nextents: u32,
    pub(crate) projid: u32,
    pub(crate) cowextsize: u32,
    pub(crate) pad: [u8; 8],
}

/// `struct fstrim_range` of FITRIM, as `linux/fs.h` has it; in bytes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct FstrimRange {
    pub(crate) start: u64,
    /// How much there is to look at, and in the answer how much was discarded.
    pub(crate) len: u64,
    pub(crate) minlen: u64,
}

const _: () = {
    assert!(size_of::<InHeader>() == 40 && size_of::<OutHeader>() == 16);
    assert!(size_of::<InitIn>() == 64 && size_of::<InitOut>() == 64);
    assert!(size_of::<SetattrIn>() == 88 && size_of::<WriteIn>() == 40 && size_of::<ReadIn>() == 40);
    assert!(size_of::<Attr>() == 88 && size_of::<EntryOut>() == 128 && size_of::<AttrOut>() == 104);
    assert!(size_of::<Statx>() == 256 && size_of::<StatxOut>() == 288 && size_of::<StatfsOut>() == 80);
    assert!(size_of::<CopyFileRangeIn>() == 56 && size_of::<Dirent>() == 24 && size_of::<FsXattr>() == 28);
    assert!(size_of::<FstrimRange>() == 24);
    assert!(size_of::<RingHeader>() == 288 && size_of::<RingCommand>() == 24);
};
