//! The ioctls that read and change inode flags and project ids (chattr(1), lsattr(1), xfs_io), and those of the whole
//! volume: fstrim(8). That which shuts a volume down is in `shutdown`.
//!
//! The kernel carries the arguments of these few; everything else is answered `ENOTTY`. Kernels before 5.13 do not look
//! at who changes flags, so this does.

use super::caller::is_administrator;
use super::{Answer, Call};
use crate::options::Cache;
use crate::wire::Args;
use crate::wire::abi::{FsXattr, FstrimRange, IoctlIn, IoctlOut};
use crate::wire::flags::{FS_APPEND_FL, FS_IMMUTABLE_FL, FS_SYNC_FL};
use rustix::io::Errno;
use steadyfs_core::{Attr, SetAttr};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
const FS_IOC32_GETFLAGS: u32 = 0x8004_6601;
const FS_IOC32_SETFLAGS: u32 = 0x4004_6602;
const FS_IOC_FSGETXATTR: u32 = 0x801c_581f;
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
const FS_IOC_GETVERSION: u32 = 0x8008_7601;
const FITRIM: u32 = 0xc018_5879;

/// The flags of chattr(1) that have a bit in FSGETXATTR too: (chattr's, FSGETXATTR's).
const COMMON: [(u32, u32); 6] = [
    (0x0000_0008, 0x0000_0020), // synchronous
    (0x0000_0010, 0x0000_0008), // immutable
    (0x0000_0020, 0x0000_0010), // append only
    (0x0000_0040, 0x0000_0080), // no dump
    (0x0000_0080, 0x0000_0040), // no atime
    (0x2000_0000, 0x0000_0200), // project inheritance
];

/// The bits of chattr(1) as those of FSGETXATTR.
fn to_xflags(flags: u32) -> u32 {
    COMMON.iter().filter(|(bit, _)| flags & bit != 0).fold(0, |sum, (_, bit)| sum | bit)
}

/// `flags` of chattr(1) with the common ones replaced by those of FSSETXATTR.
fn with_xflags(flags: u32, xflags: u32) -> u32 {
    COMMON.iter().fold(flags, |sum, (bit, other)| if xflags & other != 0 { sum | bit } else { sum & !bit })
}

impl Call<'_> {
    pub(super) fn ioctl(&mut self, mut args: Args<'_>) -> Answer {
        let IoctlIn { cmd, in_size, out_size, .. } = args.take()?;
        let given = args.bytes(in_size)?;
        let inode = self.this()?;
        let attr: Attr = self.fs.attr(&inode)?;
        match cmd {
            FS_IOC_GETFLAGS | FS_IOC32_GETFLAGS => self.put_ioctl(&attr.flags, out_size),
            FS_IOC_GETVERSION => self.put_ioctl(&attr.generation, out_size),
            FS_IOC_SETFLAGS | FS_IOC32_SETFLAGS => {
                let flags = u32::read_from_prefix(given).map_err(|_| Errno::INVAL)?.0;
                self.check_flags(&attr, flags)?;
                self.fs.setattr(&inode, &SetAttr { flags: Some(flags), ..SetAttr::default() })?;
                self.settle(&inode)?;
                self.put_ioctl(&(), 0)
            }
            FS_IOC_FSGETXATTR => {
                let xflags = to_xflags(attr.flags);
                self.put_ioctl(&FsXattr { xflags, projid: attr.project, ..FsXattr::default() }, out_size)
            }
            FS_IOC_FSSETXATTR => {
                let wanted = FsXattr::read_from_prefix(given).map_err(|_| Errno::INVAL)?.0;
                if wanted.xflags & !to_xflags(u32::MAX) != 0 || wanted.extsize != 0 || wanted.cowextsize != 0 {
                    return Err(Errno::OPNOTSUPP.into());
                }
                let flags = with_xflags(attr.flags, wanted.xflags);
                self.check_flags(&attr, flags)?;
                let project = (wanted.projid != attr.project).then_some(wanted.projid);
                self.fs.setattr(&inode, &SetAttr { flags: Some(flags), project, ..SetAttr::default() })?;
                self.settle(&inode)?;
                self.put_ioctl(&(), 0)
            }
            FITRIM => {
                let asked = FstrimRange::read_from_prefix(given).map_err(|_| Errno::INVAL)?.0;
                let done = self.trim(asked)?;
                self.put_ioctl(&done, out_size)
            }
            _ => Err(Errno::NOTTY.into()),
        }
    }

    /// Discards free space as an administrator asks; says how much.
    fn trim(&self, asked: FstrimRange) -> Answer<FstrimRange> {
        if !is_administrator(&self.header) {
            return Err(Errno::PERM.into());
        }
        let range = asked.start..asked.start.saturating_add(asked.len);
        Ok(FstrimRange { len: self.fs.trim(range, asked.minlen)?, ..asked })
    }

    /// The owner may change flags; those that bind the owner, too, only root.
    fn check_flags(&self, attr: &Attr, wanted: u32) -> Answer {
        self.check_owner(attr)?;
        // The kernel's write-back cache takes writes without asking, and there is no way to have it wait for a single
        // file.
        if wanted & !attr.flags & FS_SYNC_FL != 0 && self.server.policy.cache == Cache::Writeback {
            return Err(Errno::OPNOTSUPP.into());
        }
        let binding = (attr.flags ^ wanted) & (FS_IMMUTABLE_FL | FS_APPEND_FL) != 0;
        if binding && self.header.uid != 0 { Err(Errno::PERM.into()) } else { Ok(()) }
    }

    /// Answers with a success and the caller's data, padded with zeros to the size it has.
    fn put_ioctl<T: IntoBytes + Immutable>(&mut self, value: &T, out_size: u32) -> Answer {
        self.reply.put(&IoctlOut::default())?;
        let (bytes, size) = (value.as_bytes(), out_size as usize);
        let used = bytes.len().min(size);
        self.reply.put_bytes(&bytes[..used])?;
        let padding = [0; 64];
        let rest = padding.get(..size - used).ok_or(Errno::INVAL)?;
        Ok(self.reply.put_bytes(rest)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_translate_both_ways_and_keep_the_others() {
        assert_eq!(to_xflags(0x10 | 0x1000), 0x8);
        assert_eq!(with_xflags(0x10 | 0x1000, 0x10), 0x20 | 0x1000);
        for (bit, other) in COMMON {
            assert_eq!((to_xflags(bit), with_xflags(0, other), with_xflags(u32::MAX, 0) & bit), (other, bit, 0));
        }
    }
}
