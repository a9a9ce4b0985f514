//! The bits of the protocol that are used here, named as in `fuse.h`, and the few of Linux' own headers that travel in
//! it.

/// INIT: what both sides can do. Bits from 32 up travel in `flags2`.
pub(crate) mod init {
    pub(crate) const ASYNC_READ: u64 = 1 << 0;
    pub(crate) const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub(crate) const EXPORT_SUPPORT: u64 = 1 << 4;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const DONT_MASK: u64 = 1 << 6;
    pub(crate) const HAS_IOCTL_DIR: u64 = 1 << 11;
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(crate) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(crate) const ASYNC_DIO: u64 = 1 << 15;
    pub(crate) const WRITEBACK_CACHE: u64 = 1 << 16;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const POSIX_ACL: u64 = 1 << 20;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(crate) const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub(crate) const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub(crate) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(crate) const SETXATTR_EXT: u64 = 1 << 29;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    pub(crate) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub(crate) const OVER_IO_URING: u64 = 1 << 41;
    pub(crate) const HAS_SYNCFS: u64 = 1 << 44;
}

/// SETATTR: which attributes the request carries.
pub(crate) mod fattr {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const FH: u32 = 1 << 6;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const CTIME: u32 = 1 << 10;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// Replies to OPEN and CREATE: how the kernel treats the open file.
pub(crate) mod fopen {
    pub(crate) const DIRECT_IO: u32 = 1 << 0;
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
    pub(crate) const NOFLUSH: u32 = 1 << 5;
    pub(crate) const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// OPEN and CREATE: the opener has no right to keep set-id bits, and truncates.
pub(crate) const OPEN_KILL_SUIDGID: u32 = 1 << 0;
/// WRITE: a page of the kernel's cache is written back; who wrote it is not known.
pub(crate) const WRITE_CACHE: u32 = 1 << 0;
/// WRITE: the request names who would own a lock; only direct writes do.
pub(crate) const WRITE_LOCKOWNER: u32 = 1 << 1;
/// WRITE: the writer has no right to keep set-id bits.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// FSYNC: contents and size only.
pub(crate) const FSYNC_DATASYNC: u32 = 1 << 0;
/// SETXATTR of an access ACL: the caller is no member of the file's group.
pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;

/// Code of the notification that drops an inode's cached attributes and pages.
pub(crate) const NOTIFY_INVAL_INODE: i32 = 2;
/// Code of the notification that drops a cached name, and the inode with it if nobody uses it.
pub(crate) const NOTIFY_INVAL_ENTRY: i32 = 3;

/// Command of a ring: registers an entry, and waits for a request.
pub(crate) const RING_REGISTER: u32 = 1;
/// Command of a ring: gives an entry back with a reply, and waits for the next request.
pub(crate) const RING_COMMIT_AND_FETCH: u32 = 2;

/// GETATTR: the request names an open file.
pub(crate) const GETATTR_FH: u32 = 1 << 0;

/// Inode flags of chattr(1) that restrict opening (`linux/fs.h`; the core keeps the same bits).
pub(crate) const FS_IMMUTABLE_FL: u32 = 0x10;
pub(crate) const FS_APPEND_FL: u32 = 0x20;

/// Inode flags of chattr(1) that ask for changes to be durable when they return: all of a file's, and of a directory's
/// names.
pub(crate) const FS_SYNC_FL: u32 = 0x8;
pub(crate) const FS_DIRSYNC_FL: u32 = 0x1_0000;

/// What Linux calls its own bits, in the numbers of this architecture.
pub(crate) mod linux {
    use rustix::fs::{FallocateFlags, FileType, OFlags, RenameFlags, StatxFlags, XattrFlags};

    pub(crate) const O_ACCMODE: u32 = OFlags::ACCMODE.bits();
    pub(crate) const O_RDONLY: u32 = OFlags::RDONLY.bits();
    pub(crate) const O_WRONLY: u32 = OFlags::WRONLY.bits();
    pub(crate) const O_NOATIME: u32 = OFlags::NOATIME.bits();
    pub(crate) const O_EXCL: u32 = OFlags::EXCL.bits();
    pub(crate) const O_TRUNC: u32 = OFlags::TRUNC.bits();
    pub(crate) const O_APPEND: u32 = OFlags::APPEND.bits();
    pub(crate) const O_DIRECT: u32 = OFlags::DIRECT.bits();
    pub(crate) const O_DSYNC: u32 = OFlags::DSYNC.bits();
    /// Contains the bit of `O_DSYNC`.
    pub(crate) const O_SYNC: u32 = OFlags::SYNC.bits();

    pub(crate) const RENAME_NOREPLACE: u32 = RenameFlags::NOREPLACE.bits();
    pub(crate) const RENAME_EXCHANGE: u32 = RenameFlags::EXCHANGE.bits();
    pub(crate) const RENAME_WHITEOUT: u32 = RenameFlags::WHITEOUT.bits();

    pub(crate) const XATTR_CREATE: u32 = XattrFlags::CREATE.bits();
    pub(crate) const XATTR_REPLACE: u32 = XattrFlags::REPLACE.bits();

    pub(crate) const SEEK_DATA: u32 = 3;
    pub(crate) const SEEK_HOLE: u32 = 4;

    pub(crate) const FALLOC_KEEP_SIZE: u32 = FallocateFlags::KEEP_SIZE.bits();
    pub(crate) const FALLOC_PUNCH_HOLE: u32 = FallocateFlags::PUNCH_HOLE.bits();
    pub(crate) const FALLOC_COLLAPSE_RANGE: u32 = FallocateFlags::COLLAPSE_RANGE.bits();
    pub(crate) const FALLOC_ZERO_RANGE: u32 = FallocateFlags::ZERO_RANGE.bits();
    pub(crate) const FALLOC_INSERT_RANGE: u32 = FallocateFlags::INSERT_RANGE.bits();

    pub(crate) const S_IFMT: u32 = 0o170_000;
    pub(crate) const S_IFDIR: u32 = FileType::Directory.as_raw_mode();
    pub(crate) const S_IFREG: u32 = FileType::RegularFile.as_raw_mode();

    pub(crate) const STATX_BASIC_STATS: u32 = StatxFlags::BASIC_STATS.bits();
    pub(crate) const STATX_BTIME: u32 = StatxFlags::BTIME.bits();
    pub(crate) const STATX_ATTR_IMMUTABLE: u64 = 0x10;
    pub(crate) const STATX_ATTR_APPEND: u64 = 0x20;
}
