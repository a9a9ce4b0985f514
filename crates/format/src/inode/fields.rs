//! The fields that every inode has, in the program's types.

use super::{Inode, MAX_NAME};
use crate::dir::FileType;
use crate::error::FormatError;
use crate::{Ino, Nid};

/// A point in time as inodes store it: seconds since 1970 (negative before), and nanoseconds on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Seconds since 1970-01-01 00:00 UTC.
    pub secs: i64,
    /// Nanoseconds after that second; below 10^9 unless the image is odd.
    pub nanos: u32,
}

/// The largest extent of a file, kept in the inode as a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Extent {
    /// First page in the file.
    pub fofs: u32,
    /// Address of that page.
    pub blk: u32,
    /// Pages; 0 for "nothing known", which is always valid.
    pub len: u32,
}

macro_rules! fields {
    ($($(#[$doc:meta])* $get:ident, $set:ident: $type:ty, |$raw:ident: $disk:ty| $read:expr, |$value:ident| $write:expr;)*) => {
        impl Inode {
            $(
                $(#[$doc])*
                pub fn $get(&self) -> $type {
                    let $raw: $disk = self.$get.get();
                    $read
                }

                #[doc = concat!("Changes [`Inode::", stringify!($get), "`].")]
                pub fn $set(&mut self, $value: $type) {
                    let raw: $disk = $write;
                    self.$get = raw.into();
                }
            )*
        }
    };
}

fields! {
    /// Type and permissions, as `st_mode` has them.
    mode, set_mode: u16, |raw: u16| raw, |value| value;
    /// Owner.
    uid, set_uid: u32, |raw: u32| raw, |value| value;
    /// Group.
    gid, set_gid: u32, |raw: u32| raw, |value| value;
    /// Names of a file; 2 and the subdirectories of a directory.
    links, set_links: u32, |raw: u32| raw, |value| value;
    /// Size in bytes.
    size, set_size: u64, |raw: u64| raw, |value| value;
    /// Blocks of the file, the inode itself included.
    blocks, set_blocks: u64, |raw: u64| raw, |value| value;
    /// Distinguishes uses of one inode number over time.
    generation, set_generation: u32, |raw: u32| raw, |value| value;
    /// Levels of a directory's hash table.
    current_depth, set_current_depth: u32, |raw: u32| raw, |value| value;
    /// The xattr node; null if there is none.
    xattr_nid, set_xattr_nid: Nid, |raw: u32| Nid(raw), |value| value.get();
    /// Attribute flags, see [`super::flags`].
    flags, set_flags: u32, |raw: u32| raw, |value| value;
    /// Parent directory: always right for directories, a help for recovery otherwise.
    pino, set_pino: Ino, |raw: u32| Ino(raw), |value| value.get();
}

macro_rules! times {
    ($($(#[$doc:meta])* $get:ident, $set:ident, $nsec:ident;)*) => {
        impl Inode {
            $(
                $(#[$doc])*
                pub fn $get(&self) -> Time {
                    Time { secs: self.$get.get(), nanos: self.$nsec.get() }
                }

                #[doc = concat!("Changes [`Inode::", stringify!($get), "`].")]
                pub fn $set(&mut self, time: Time) {
                    self.$get = time.secs.into();
                    self.$nsec = time.nanos.into();
                }
            )*
        }
    };
}

times! {
    /// Last access.
    atime, set_atime, atime_nsec;
    /// Last change of the inode.
    ctime, set_ctime, ctime_nsec;
    /// Last change of the contents.
    mtime, set_mtime, mtime_nsec;
}

impl Inode {
    /// Advice bits, see [`super::advise`].
    pub fn advise(&self) -> u8 {
        self.advise
    }

    /// Changes [`Inode::advise`].
    pub fn set_advise(&mut self, bits: u8) {
        self.advise = bits;
    }

    /// Bits that say what the address area holds, see [`super::inline`].
    pub fn inline_flags(&self) -> u8 {
        self.inline
    }

    /// Changes [`Inode::inline_flags`]. Bits that move the address slots make every shape taken before wrong.
    pub fn set_inline_flags(&mut self, bits: u8) {
        self.inline = bits;
    }

    /// Whether all of these bits of [`super::inline`] are set.
    pub fn has_inline(&self, bits: u8) -> bool {
        self.inline & bits == bits
    }

    /// What kind of file it is; `None` for a mode that is no kind of file.
    pub fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode())
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type() == Some(FileType::Dir)
    }

    /// Failed collections of a regular file; shares its bytes with [`Inode::current_depth`].
    pub fn gc_failures(&self) -> u16 {
        self.current_depth.get() as u16
    }

    /// The name under which the inode was created or last fsynced: a help for recovery, not the namespace.
    pub fn name(&self) -> &[u8] {
        &self.name[..(self.namelen.get() as usize).min(MAX_NAME)]
    }

    /// The stored length of the name, in bounds or not.
    pub fn name_len(&self) -> u32 {
        self.namelen.get()
    }

    /// Changes the name.
    ///
    /// # Errors
    /// [`FormatError::Length`] for more than 255 bytes.
    pub fn set_name(&mut self, name: &[u8]) -> Result<(), FormatError> {
        if name.len() > MAX_NAME {
            return Err(FormatError::Length { what: "name", length: name.len(), min: 0, max: MAX_NAME });
        }
        self.name = [0; MAX_NAME];
        self.name[..name.len()].copy_from_slice(name);
        self.namelen = (name.len() as u32).into();
        Ok(())
    }

    /// Levels that a directory's hash table starts with.
    pub fn dir_level(&self) -> u8 {
        self.dir_level
    }

    /// Changes [`Inode::dir_level`].
    pub fn set_dir_level(&mut self, level: u8) {
        self.dir_level = level;
    }

    /// The largest extent; a hint.
    pub fn extent(&self) -> Extent {
        Extent { fofs: self.ext_fofs.get(), blk: self.ext_blk.get(), len: self.ext_len.get() }
    }

    /// Changes [`Inode::extent`].
    pub fn set_extent(&mut self, extent: Extent) {
        self.ext_fofs = extent.fofs.into();
        self.ext_blk = extent.blk.into();
        self.ext_len = extent.len.into();
    }

    /// One of the five nodes below the inode: direct, direct, indirect, indirect, double indirect; null where there is
    /// none.
    ///
    /// # Panics
    /// If `index` is not below 5.
    pub fn child(&self, index: u16) -> Nid {
        Nid(self.nid[usize::from(index)].get())
    }

    /// Changes [`Inode::child`].
    ///
    /// # Panics
    /// If `index` is not below 5.
    pub fn set_child(&mut self, index: u16, nid: Nid) {
        self.nid[usize::from(index)] = nid.get().into();
    }

    /// All five nodes below the inode.
    pub fn children(&self) -> [Nid; 5] {
        self.nid.map(|raw| Nid(raw.get()))
    }
}
