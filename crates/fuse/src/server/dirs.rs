//! Requests that list directories, with and without the attributes of what is in them.

use super::{Answer, Call};
use crate::wire::abi::{Dirent, EntryOut, ReadIn};
use crate::wire::{Args, Reply};
use rustix::io::Errno;
use steadyfs_core::DirEntry;
use steadyfs_format::Ino;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes that an entry takes: its head, the name, and padding to 8 bytes.
fn entry_len(head: usize, name: &[u8]) -> usize {
    (head + name.len()).next_multiple_of(8)
}

/// Adds an entry with `lead` bytes of zeros before it; false if it does not fit into `limit` bytes of reply.
fn put_entry(reply: &mut Reply, entry: &DirEntry<'_>, lead: usize, limit: usize) -> Result<bool, Errno> {
    let (start, len) = (reply.len(), entry_len(lead + size_of::<Dirent>(), entry.name));
    if start + len > limit {
        return Ok(false);
    }
    let head = Dirent {
        ino: entry.ino.get().into(),
        off: entry.next_cookie,
        namelen: u32::try_from(entry.name.len()).map_err(|_| Errno::IO)?,
        kind: u32::from(entry.kind.mode_bits()) >> 12,
    };
    let zeros = [0; size_of::<EntryOut>()];
    reply.put_bytes(&zeros[..lead])?;
    reply.put(&head)?;
    reply.put_bytes(entry.name)?;
    reply.put_bytes(&zeros[..start + len - reply.len()])?;
    Ok(true)
}

impl Call<'_> {
    pub(super) fn readdir(&mut self, args: Args<'_>) -> Answer {
        self.list(args, 0)
    }

    /// Names with attributes. The directory is read first and the inodes after it, since they have locks of their own.
    pub(super) fn readdirplus(&mut self, args: Args<'_>) -> Answer {
        const LEAD: usize = size_of::<EntryOut>();
        self.list(args, LEAD)?;
        let mut named = Vec::new();
        let mut at = 0;
        while at < self.reply.len() {
            let rest = &self.reply.body()[at + LEAD..];
            let (head, rest) = Dirent::read_from_prefix(rest).map_err(|_| Errno::IO)?;
            let name = &rest[..head.namelen as usize];
            // "." and ".." do not count as named; nor does an entry that leads nowhere, which is listed without
            // attributes.
            if name != b"." && name != b".." {
                named.push((at, head.ino));
            }
            at += entry_len(LEAD + size_of::<Dirent>(), name);
        }
        // Those that are not in memory are read together, not one after the other.
        self.fs.read_inodes_ahead(named.iter().filter_map(|(_, node)| u32::try_from(*node).ok()).map(Ino::new));
        for (at, node) in named {
            if let Ok(entry) = self.inode(node).and_then(|inode| self.entry(&inode)) {
                self.reply.body_mut()[at..at + LEAD].copy_from_slice(entry.as_bytes());
            }
        }
        Ok(())
    }

    fn list(&mut self, mut args: Args<'_>, lead: usize) -> Answer {
        let ReadIn { offset, size, .. } = args.take()?;
        let dir = self.this()?;
        let limit = self.reply.room().min(size as usize);
        let (fs, reply) = (self.fs, &mut *self.reply);
        let mut failed = None;
        fs.readdir(&dir, offset, &mut |entry| {
            put_entry(reply, &entry, lead, limit).unwrap_or_else(|errno| {
                failed = Some(errno);
                false
            })
        })?;
        failed.map_or(Ok(()), |errno| Err(errno.into()))
    }
}
