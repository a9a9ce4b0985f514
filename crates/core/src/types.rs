//! What the public operations on names and attributes take and return.
//!
//! Plain values: each is a copy, and nothing here changes with the volume afterwards.

use steadyfs_format::Ino;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{DeviceNumber, Time};

/// The attributes of an inode at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Regular file, directory, ...
    pub kind: FileType,
    /// Type and permission bits, as `st_mode` of stat(2).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names (directories: 2 plus the number of subdirectories).
    pub nlink: u32,
    /// Bytes. Symlinks: length of the target. Directories: bytes of their blocks.
    pub size: u64,
    /// Allocated space in units of 512 bytes, without the inode block itself.
    pub blocks: u64,
    /// Device number of character and block devices; 0:0 for others.
    pub rdev: DeviceNumber,
    /// Last access.
    pub atime: Time,
    /// Last change of contents.
    pub mtime: Time,
    /// Last change of contents or attributes.
    pub ctime: Time,
    /// Creation, where the volume keeps it (feature `inode_crtime`).
    pub crtime: Option<Time>,
    /// Tells two inodes that had the same number after one another apart.
    pub generation: u32,
    /// Inode flags as the format stores them (`i_flags`, format section 7.1).
    pub flags: u32,
    /// Project id, where the volume keeps it (feature `project_quota`); else 0.
    pub project: u32,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time of day at the moment of the change.
    Now,
    /// This time.
    At(Time),
}

/// Attributes to change; `None` leaves one as it is.
///
/// The status change time becomes now unless `ctime` says otherwise. Giving a non-directory an owner or a group,
/// without a mode, clears its set-user-id bit, and its set-group-id bit where the group may execute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits (07777); type bits are ignored, an inode never changes its kind.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes; regular files only.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last change of contents.
    pub mtime: Option<SetTime>,
    /// Last change of attributes.
    pub ctime: Option<Time>,
    /// Creation time; ignored where the volume keeps none.
    pub crtime: Option<Time>,
    /// Inode flags. Only those that a user may change are taken over; see [`Attr::flags`].
    pub flags: Option<u32>,
    /// Project id.
    pub project: Option<u32>,
}

/// What a new inode starts with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewInode {
    /// Type and permission bits, as `st_mode`: the type says whether a file, directory, device, FIFO or socket is made.
    /// `symlink` and `tmpfile` put their own type in.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group; a directory with the set-group-id bit passes its own group on instead.
    pub gid: u32,
    /// Device number for character and block devices; otherwise ignored.
    pub rdev: DeviceNumber,
    /// Permission bits to take away, unless the directory has a default ACL, which then decides.
    pub umask: u32,
}

/// How `rename` treats an existing target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameFlags {
    /// Replaces it (an empty directory by a directory, anything else by anything else).
    #[default]
    Replace,
    /// Fails with [`Error::Exists`](crate::Error::Exists).
    NoReplace,
    /// Swaps the two; both must exist.
    Exchange,
}

/// One name of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// The name's bytes; in directories encrypted on disk a printable stand-in.
    pub name: &'a [u8],
    /// Inode number.
    pub ino: Ino,
    /// Kind as the directory says.
    pub kind: FileType,
    /// Where to go on after this entry.
    pub next_cookie: u64,
}

/// How `setxattr` treats an existing attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XattrFlags {
    /// Fail with [`Error::Exists`](crate::Error::Exists) if it exists.
    pub create: bool,
    /// Fail with [`Error::NoAttribute`](crate::Error::NoAttribute) if it does not exist.
    pub replace: bool,
    /// When an access ACL is set: clear the set-group-id bit, because the caller is not a member of the file's group.
    pub clear_sgid: bool,
}

/// Space and inodes of a volume, for statfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// Bytes in a block.
    pub block_size: u32,
    /// Blocks that files and nodes may use.
    pub blocks: u64,
    /// Blocks that are free.
    pub blocks_free: u64,
    /// Blocks that are set aside ([`Fs::set_aside`](crate::Fs::set_aside)), free or not.
    pub set_aside: u64,
    /// Inodes that could exist.
    pub files: u64,
    /// Inodes that could still be created.
    pub files_free: u64,
    /// Longest name, in bytes.
    pub name_max: u32,
    /// A number that tells this volume from others.
    pub fsid: u64,
}

impl StatFs {
    /// Free blocks that anybody may take.
    pub fn blocks_available(&self) -> u64 {
        self.blocks_free.saturating_sub(self.set_aside)
    }
}
