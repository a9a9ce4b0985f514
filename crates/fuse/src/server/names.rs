//! Requests about names: finding, making, linking, removing and renaming.

use super::handles::Seat;
use super::{Answer, Call, Fail, node_of};
use crate::wire::abi::{CreateIn, EntryOut, LinkIn, MkdirIn, MknodIn, Rename2In, RenameIn};
use crate::wire::flags::linux::{O_EXCL, RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT, S_IFDIR, S_IFMT, S_IFREG};
use crate::wire::flags::{FS_DIRSYNC_FL, FS_SYNC_FL};
use crate::wire::{Args, ROOT_NODE};
use rustix::io::Errno;
use steadyfs_core::{InodeRef, NewInode, RenameFlags};
use steadyfs_format::inode::DeviceNumber;

/// Device numbers in requests and replies have 12 bits of major and 20 of minor number, in the kernel's order.
pub(super) fn device_from_kernel(rdev: u32) -> DeviceNumber {
    DeviceNumber { major: rdev >> 8 & 0xfff, minor: rdev & 0xff | rdev >> 12 & 0xf_ff00 }
}

/// The inverse of [`device_from_kernel`]; larger numbers lose their upper bits.
pub(super) fn device_to_kernel(device: DeviceNumber) -> u32 {
    let DeviceNumber { major, minor } = device;
    minor & 0xff | (major & 0xfff) << 8 | (minor & 0xf_ff00) << 12
}

impl Call<'_> {
    pub(super) fn lookup(&mut self, mut args: Args<'_>) -> Answer {
        let dir = self.this()?;
        // "." and "..": how an NFS server finds its way to an inode that it knows by number.
        let found = match args.name()? {
            b"." => Ok(dir),
            name => self.fs.lookup(&dir, name),
        };
        match found {
            Ok(inode) => self.put_entry(&inode),
            // The kernel may remember that the name is not there.
            Err(steadyfs_core::Error::NotFound) => {
                let (entry_valid, entry_valid_nsec) = self.ttl();
                Ok(self.reply.put(&EntryOut { entry_valid, entry_valid_nsec, ..EntryOut::default() })?)
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn mknod(&mut self, mut args: Args<'_>) -> Answer {
        let MknodIn { mode, rdev, umask, .. } = args.take()?;
        let mode = if mode & S_IFMT == 0 { mode | S_IFREG } else { mode };
        let new = NewInode { rdev: device_from_kernel(rdev), ..self.new_inode(mode, umask) };
        let inode = self.make(args.name()?, &new)?;
        self.put_entry(&inode)
    }

    pub(super) fn mkdir(&mut self, mut args: Args<'_>) -> Answer {
        let MkdirIn { mode, umask } = args.take()?;
        let new = self.new_inode(mode & !S_IFMT | S_IFDIR, umask);
        let inode = self.make(args.name()?, &new)?;
        self.put_entry(&inode)
    }

    pub(super) fn symlink(&mut self, mut args: Args<'_>) -> Answer {
        let (name, target) = (args.name()?, args.name()?);
        let (dir, new) = (self.this()?, self.new_inode(0o777, 0));
        let inode = self.with_space(|| self.fs.symlink(&dir, name, target, &new))?;
        self.settle_names(&dir)?;
        self.put_entry(&inode)
    }

    /// Makes a file and opens it.
    pub(super) fn create(&mut self, mut args: Args<'_>) -> Answer {
        let CreateIn { flags, mode, umask, open_flags } = args.take()?;
        let seat = self.seat()?;
        let new = self.new_inode(mode & !S_IFMT | S_IFREG, umask);
        let name = args.name()?;
        match self.make(name, &new) {
            Ok(inode) => self.put_entry_and_open(&inode, flags, seat),
            // Somebody else made it since the kernel looked.
            Err(Fail(Errno::EXIST)) if flags & O_EXCL == 0 => {
                let inode = self.fs.lookup(&self.this()?, name)?;
                self.check_open(&inode, flags, open_flags)?;
                self.put_entry_and_open(&inode, flags, seat)
            }
            Err(fail) => Err(fail),
        }
    }

    /// Makes a file without a name and opens it (`O_TMPFILE`).
    pub(super) fn tmpfile(&mut self, mut args: Args<'_>) -> Answer {
        let CreateIn { flags, mode, umask, .. } = args.take()?;
        let (seat, dir, new) = (self.seat()?, self.this()?, self.new_inode(mode & !S_IFMT | S_IFREG, umask));
        let inode = self.with_space(|| self.fs.tmpfile(&dir, &new))?;
        self.put_entry_and_open(&inode, flags, seat)
    }

    /// Answers with an inode and an open file of it.
    fn put_entry_and_open(&mut self, inode: &InodeRef, flags: u32, seat: Seat) -> Answer {
        let mut entry = self.entry(inode)?;
        entry.attr.blocks = self.blocks_when_open(entry.attr.blocks, flags);
        self.reply.put(&entry)?;
        self.put_open(inode, flags, seat)
    }

    pub(super) fn link(&mut self, mut args: Args<'_>) -> Answer {
        let LinkIn { oldnodeid } = args.take()?;
        let (inode, dir, name) = (self.inode(oldnodeid)?, self.this()?, args.name()?);
        self.with_space(|| self.fs.link(&inode, &dir, name))?;
        self.settle_names(&dir)?;
        self.put_entry(&inode)
    }

    pub(super) fn unlink(&mut self, mut args: Args<'_>) -> Answer {
        let (dir, name) = (self.this()?, args.name()?);
        if let Some(unlinked) = self.fs.unlink_held(&dir, name)? {
            self.keep(unlinked);
        }
        self.settle_names(&dir)
    }

    pub(super) fn rmdir(&mut self, mut args: Args<'_>) -> Answer {
        let (dir, name) = (self.this()?, args.name()?);
        let removed = self.fs.rmdir_held(&dir, name)?;
        self.keep(removed);
        self.settle_names(&dir)
    }

    pub(super) fn rename(&mut self, mut args: Args<'_>) -> Answer {
        let RenameIn { newdir } = args.take()?;
        self.do_rename(newdir, RenameFlags::Replace, false, args)
    }

    pub(super) fn rename2(&mut self, mut args: Args<'_>) -> Answer {
        let Rename2In { newdir, flags, .. } = args.take()?;
        let whiteout = flags & RENAME_WHITEOUT != 0;
        let flags = match flags & !RENAME_WHITEOUT {
            0 => RenameFlags::Replace,
            RENAME_NOREPLACE => RenameFlags::NoReplace,
            RENAME_EXCHANGE => RenameFlags::Exchange,
            _ => return Err(Errno::INVAL.into()),
        };
        self.do_rename(newdir, flags, whiteout, args)
    }

    fn do_rename(&mut self, newdir: u64, flags: RenameFlags, whiteout: bool, mut args: Args<'_>) -> Answer {
        let (dir, name) = (self.this()?, args.name()?);
        let (to, new_name) = (self.inode(newdir)?, args.name()?);
        // What is replaced may still be open.
        let victim = match flags {
            RenameFlags::Replace => self.fs.lookup(&to, new_name).ok(),
            RenameFlags::NoReplace | RenameFlags::Exchange => None,
        };
        if victim.is_some() {
            self.check_whole(&dir, name)?;
        }
        // Who may leave a whiteout is the kernel's to say: before Linux 5.8 who may make devices, since then everybody.
        let owner = self.new_inode(0, 0);
        self.with_space(|| match whiteout {
            true => self.fs.rename_whiteout(&dir, name, &to, new_name, flags, &owner),
            false => self.fs.rename(&dir, name, &to, new_name, flags),
        })?;
        victim.map_or(Ok(()), |victim| self.keep_if_unlinked(victim))?;
        self.settle_names(&dir)?;
        self.settle_names(&to)
    }

    /// Refuses to put a file that lost contents in the place of another: as long as an fsync of it would fail, the
    /// other one is worth more.
    fn check_whole(&self, dir: &InodeRef, name: &[u8]) -> Answer {
        if !self.server.nodes.any_lost() || steadyfs_rt::mutated("a-damaged-file-replaces-none") {
            return Ok(());
        }
        let file = self.fs.lookup(dir, name)?;
        self.server.nodes.tell_lost(file.ino().get()).map_or(Ok(()), |why| Err(why.into()))
    }

    pub(super) fn readlink(&mut self) -> Answer {
        let target = self.fs.readlink(&self.this()?)?;
        Ok(self.reply.put_bytes(&target)?)
    }

    /// A new inode of the caller.
    fn new_inode(&self, mode: u32, umask: u32) -> NewInode {
        NewInode { mode, uid: self.header.uid, gid: self.header.gid, umask, ..NewInode::default() }
    }

    fn make(&self, name: &[u8], new: &NewInode) -> Answer<InodeRef> {
        let dir = self.this()?;
        let inode = self.with_space(|| self.fs.create(&dir, name, new))?;
        self.settle_names(&dir)?;
        Ok(inode)
    }

    /// Makes the names of a directory durable after a change, if its flags ask for that.
    fn settle_names(&self, dir: &InodeRef) -> Answer {
        self.settle_if(dir, FS_SYNC_FL | FS_DIRSYNC_FL)
    }

    /// As [`Call::keep`], for an inode that has just lost a link, if that was its last.
    fn keep_if_unlinked(&self, victim: InodeRef) -> Answer {
        if self.fs.attr(&victim)?.nlink == 0 {
            self.keep(victim);
        }
        Ok(())
    }

    /// Keeps an inode that has just lost its last link for as long as the kernel knows it.
    fn keep(&self, unlinked: InodeRef) {
        // Of one that cannot be read nothing is to be expected.
        let sectors = self.fs.attr(&unlinked).map_or(0, |attr| attr.blocks);
        self.server.unlinked.note(unlinked.ino().get(), sectors);
        let ino = self.hold(&unlinked);
        drop(unlinked);
        self.server.let_go(self.fs, ino);
    }

    /// Has the file system hold an inode without links for as long as the kernel knows it; its number if that is over.
    fn hold(&self, unlinked: &InodeRef) -> Option<u32> {
        let ino = unlinked.ino().get();
        let known = self.server.nodes.unlinked(ino);
        self.fs.hold(unlinked);
        // Whoever forgot it since then let go before it was held.
        (!known || !self.server.nodes.is_held(ino)).then_some(ino)
    }

    /// Answers with an inode, which the kernel knows from then on.
    pub(super) fn put_entry(&mut self, inode: &InodeRef) -> Answer {
        let entry = self.entry(inode)?;
        Ok(self.reply.put(&entry)?)
    }

    /// An inode for a reply, counted as named in it.
    pub(super) fn entry(&mut self, inode: &InodeRef) -> Answer<EntryOut> {
        let node = node_of(inode.ino());
        let ino = inode.ino().get();
        if node != ROOT_NODE {
            self.server.nodes.named(ino);
        }
        let attr = match self.fs.attr(inode) {
            Ok(attr) => attr,
            Err(error) => {
                if self.server.nodes.forget(ino, 1) {
                    self.fs.release(inode.ino());
                }
                return Err(error.into());
            }
        };
        if attr.nlink == 0 && node != ROOT_NODE {
            let over = self.hold(inode);
            self.server.let_go(self.fs, over);
        }
        self.ask_again(ino);
        let (valid, nsec) = self.ttl();
        Ok(EntryOut {
            nodeid: node,
            // The kernel made the root by itself, with generation 0.
            generation: if node == ROOT_NODE { 0 } else { attr.generation.into() },
            entry_valid: valid,
            attr_valid: valid,
            entry_valid_nsec: nsec,
            attr_valid_nsec: nsec,
            attr: self.shown(attr),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_survive_both_ways() {
        for (major, minor) in [(0, 0), (8, 1), (4095, 0xf_ffff), (1, 0x100), (259, 0x2_3456)] {
            let device = DeviceNumber { major, minor };
            assert_eq!(device_from_kernel(device_to_kernel(device)), device);
        }
        let kernels = |major, minor| device_to_kernel(DeviceNumber { major, minor });
        assert_eq!((kernels(8, 1), kernels(8, 0x100)), (0x801, 0x10_0800));
    }
}
