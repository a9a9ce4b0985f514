//! Requests about extended attributes.

use super::farewell::END_ATTRIBUTE;
use super::stats::{CAPACITY_ATTRIBUTE, SEGMENTS_ATTRIBUTE, STATS_ATTRIBUTE, segments, stats};
use super::traced::TRACE_ATTRIBUTE;
use super::{Answer, Call};
use crate::wire::Args;
use crate::wire::abi::{GetxattrIn, GetxattrOut, SetxattrIn, SetxattrShortIn};
use crate::wire::flags::linux::{XATTR_CREATE, XATTR_REPLACE};
use crate::wire::flags::{SETXATTR_ACL_KILL_SGID, init};
use rustix::io::Errno;
use std::sync::atomic::Ordering::SeqCst;
use steadyfs_core::{InodeRef, XattrFlags};
use steadyfs_format::ROOT_INO;

/// The inode's advice about its data.
const ADVISE: &[u8] = b"system.advise";

/// The label of SELinux. Where that is on, the kernel answers for it by itself.
const LABEL: &[u8] = b"security.selinux";

impl Call<'_> {
    pub(super) fn setxattr(&mut self, mut args: Args<'_>) -> Answer {
        let (size, flags, setxattr_flags) = if self.server.uses(init::SETXATTR_EXT) {
            let SetxattrIn { size, flags, setxattr_flags, .. } = args.take()?;
            (size, flags, setxattr_flags)
        } else {
            let SetxattrShortIn { size, flags } = args.take()?;
            (size, flags, 0)
        };
        let name = args.name()?;
        let value = args.bytes(size)?;
        let flags = XattrFlags {
            create: flags & XATTR_CREATE != 0,
            replace: flags & XATTR_REPLACE != 0,
            clear_sgid: setxattr_flags & SETXATTR_ACL_KILL_SGID != 0,
        };
        let inode = self.this()?;
        if inode.ino() == ROOT_INO && name == TRACE_ATTRIBUTE.as_bytes() {
            return self.server.control_trace(self.header.uid, value);
        }
        if inode.ino() == ROOT_INO && name == CAPACITY_ATTRIBUTE.as_bytes() {
            return self.server.set_capacity(self.fs, self.header.uid, value);
        }
        // Linux leaves attributes of the system to the file system.
        if name == ADVISE {
            self.check_owner(&self.fs.attr(&inode)?)?;
        }
        self.with_space(|| self.fs.setxattr(&inode, name, value, flags))?;
        self.note_label(name);
        self.settle(&inode)
    }

    /// An attribute of this name is there.
    fn note_label(&self, name: &[u8]) {
        if name == LABEL {
            self.server.labelled.store(true, SeqCst);
        }
    }

    /// An attribute of an inode.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for the label of SELinux, if this mount has met none: programs such as `ls -l` then ask for it once
    /// instead of once for each file, and the kernel remembers of no file that it has none. By the root a kernel judges
    /// whether there can be labels.
    fn attribute(&self, inode: &InodeRef, name: &[u8]) -> Answer<Vec<u8>> {
        match self.fs.getxattr(inode, name) {
            Err(steadyfs_core::Error::NoAttribute)
                if name == LABEL && inode.ino() != ROOT_INO && !self.server.labelled.load(SeqCst) =>
            {
                Err(Errno::OPNOTSUPP.into())
            }
            value => {
                let value = value?;
                self.note_label(name);
                Ok(value)
            }
        }
    }

    pub(super) fn getxattr(&mut self, mut args: Args<'_>) -> Answer {
        let GetxattrIn { size, .. } = args.take()?;
        let (inode, name) = (self.this()?, args.name()?);
        let value = match inode.ino() == ROOT_INO {
            true if name == STATS_ATTRIBUTE.as_bytes() => stats(self.fs)?,
            true if name == SEGMENTS_ATTRIBUTE.as_bytes() => segments(self.fs)?,
            true if name == TRACE_ATTRIBUTE.as_bytes() => self.server.next_of_trace(self.header.uid, size)?,
            true if name.starts_with(END_ATTRIBUTE.as_bytes()) => {
                self.server.tell_end(&self.header, &name[END_ATTRIBUTE.len()..])?;
                Vec::new()
            }
            _ => self.attribute(&inode, name)?,
        };
        self.put_sized(&value, size)
    }

    pub(super) fn listxattr(&mut self, mut args: Args<'_>) -> Answer {
        let GetxattrIn { size, .. } = args.take()?;
        let mut list = Vec::new();
        for name in self.fs.listxattr(&self.this()?)? {
            // As on every Linux file system: who cannot read them does not see them.
            if self.header.uid == 0 || !name.starts_with(b"trusted.") {
                list.extend_from_slice(&name);
                list.push(0);
            }
        }
        self.put_sized(&list, size)
    }

    pub(super) fn removexattr(&mut self, mut args: Args<'_>) -> Answer {
        let inode = self.this()?;
        self.fs.removexattr(&inode, args.name()?)?;
        self.settle(&inode)
    }

    /// Answers with a value, or with its length if the caller gave no room.
    fn put_sized(&mut self, value: &[u8], room: u32) -> Answer {
        if room == 0 {
            let size = u32::try_from(value.len()).map_err(|_| Errno::TOOBIG)?;
            return Ok(self.reply.put(&GetxattrOut { size, padding: 0 })?);
        }
        if value.len() > room as usize {
            return Err(Errno::RANGE.into());
        }
        Ok(self.reply.put_bytes(value)?)
    }
}
