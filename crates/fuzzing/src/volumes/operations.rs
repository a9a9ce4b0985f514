//! Operations on a bad volume that is mounted for writing, as the input chooses them.

use super::Volume;
use super::mount::read_inode;
use crate::input::Input;
use steadyfs_core::{
    Changer, Error, FallocMode, Fs, InodeRef, NewInode, RenameFlags, Result, SetAttr, SetTime, Urgency, XattrFlags,
};
use steadyfs_format::Ino;
use steadyfs_format::dir::FileType;

/// Most operations on one volume.
const MOST: usize = 16;
/// Largest file whose pages are moved: that takes as long as the file is, holes included.
const MOVABLE: u64 = 1 << 30;

/// What the operations work with.
struct Session<'a> {
    fs: &'a Fs,
    /// Inodes of the base, the changed ones often among them.
    inos: Vec<Ino>,
    /// References that are kept: what they refer to stays in use.
    held: Vec<InodeRef>,
}

/// Performs the operations that the input lists.
pub(crate) fn perform(fs: &Fs, volume: &Volume, input: &mut Input<'_>) {
    let base = volume.base.inodes.iter().map(|index| volume.base.nodes[*index].ino);
    let changed = volume.owners().cycle().take(volume.base.inodes.len());
    perform_on(fs, base.chain(changed).collect(), input);
}

/// The same on these inodes.
pub(crate) fn perform_on(fs: &Fs, inos: Vec<Ino>, input: &mut Input<'_>) {
    let mut session = Session { fs, inos, held: Vec::new() };
    for _ in 0..MOST {
        if input.is_empty() {
            break;
        }
        let _ = session.step(input);
    }
}

impl Session<'_> {
    fn step(&mut self, input: &mut Input<'_>) -> Result<()> {
        let fs = self.fs;
        match input.u8() % 16 {
            0 => fs.sync(),
            1 => fs.gc(1 + u64::from(input.u8() % 4), Urgency::Foreground).map(drop),
            2 => fs.gc(1, Urgency::Background).map(drop),
            3..=6 => {
                let inode = self.any(input)?;
                self.on_contents(&inode, input)
            }
            7 | 8 => {
                let inode = self.any(input)?;
                on_attributes(fs, &inode, input)
            }
            9 => {
                let inode = self.any(input)?;
                read_inode(fs, &inode);
                self.held.push(inode);
                Ok(())
            }
            10 => {
                self.held.clear();
                fs.reap()
            }
            _ => self.on_names(input),
        }
    }

    fn any(&self, input: &mut Input<'_>) -> Result<InodeRef> {
        self.fs.inode(self.inos[input.u16() as usize % self.inos.len()])
    }

    /// Some directory: the root, mostly.
    fn dir(&self, input: &mut Input<'_>) -> Result<InodeRef> {
        if input.u8().is_multiple_of(4) {
            return self.any(input).and_then(|inode| match inode.kind() {
                FileType::Dir => Ok(inode),
                _ => Err(Error::NotDirectory),
            });
        }
        let root = self.fs.root()?;
        if input.bool() { Ok(root) } else { self.fs.lookup(&root, &[b'd', b'i', b'r', b' ', b'0' + input.u8() % 4]) }
    }

    /// A name in a directory that exists there, or one that most likely does not.
    fn name(&self, dir: &InodeRef, input: &mut Input<'_>) -> Result<Vec<u8>> {
        let number = usize::from(input.u8());
        if number.is_multiple_of(4) {
            return Ok(vec![b'n'; 1 + number]);
        }
        let mut names = Vec::new();
        self.fs.readdir(dir, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            names.len() < 256
        })?;
        names.get(number % names.len().max(1)).cloned().ok_or(Error::NotFound)
    }

    fn on_names(&mut self, input: &mut Input<'_>) -> Result<()> {
        let fs = self.fs;
        let dir = self.dir(input)?;
        let name = self.name(&dir, input)?;
        let new = |mode| NewInode { mode, ..NewInode::default() };
        match input.u8() % 10 {
            0 => fs.create(&dir, &name, &new(0o100_644)).map(|inode| self.held.push(inode)),
            1 => fs.create(&dir, &name, &new(0o040_755)).map(drop),
            2 => fs.symlink(&dir, &name, b"somewhere", &new(0)).map(drop),
            3 => fs.tmpfile(&dir, &new(0o100_600)).map(|inode| self.held.push(inode)),
            4 => fs.link(&self.any(input)?, &dir, &name),
            5 => {
                if let Ok(inode) = fs.lookup(&dir, &name) {
                    self.held.push(inode);
                }
                fs.unlink(&dir, &name)
            }
            6 => fs.unlink(&dir, &name),
            7 => fs.rmdir(&dir, &name),
            _ => {
                let to = self.dir(input)?;
                let new_name = self.name(&to, input)?;
                let how = [RenameFlags::Replace, RenameFlags::NoReplace, RenameFlags::Exchange][input.below(3)];
                fs.rename(&dir, &name, &to, &new_name, how)
            }
        }
    }

    fn on_contents(&self, inode: &InodeRef, input: &mut Input<'_>) -> Result<()> {
        let fs = self.fs;
        let offset = u64::from(input.u16()) << (input.u8() % 24);
        let length = u64::from(input.u16()) << (input.u8() % 12);
        let (page, pages) = (offset & !4095, length & !4095);
        match input.u8() % 11 {
            0 => fs.write(inode, offset, &[7; 6000]).map(drop),
            1 => fs.append(inode, &[9; 100]).map(drop),
            2 => fs.write_direct(inode, page, &[8; 8192]).map(drop),
            3 => fs.fsync(inode, false),
            4 => fs.setattr(inode, &SetAttr { size: Some(offset), ..SetAttr::default() }).map(drop),
            5 => fs.setattr(inode, &SetAttr { size: Some(0), ..SetAttr::default() }).map(drop),
            6 => fs.fallocate(inode, FallocMode::PunchHole, offset, length),
            7 | 8 if fs.attr(inode)?.size > MOVABLE => Ok(()),
            7 => fs.fallocate(inode, FallocMode::CollapseRange, page, pages),
            8 => fs.fallocate(inode, FallocMode::InsertRange, page, pages),
            9 => fs.fallocate(inode, FallocMode::ZeroRange { keep_size: input.bool() }, offset, length),
            _ => fs.fallocate(inode, FallocMode::Allocate { keep_size: input.bool() }, offset, length),
        }
    }
}

fn on_attributes(fs: &Fs, inode: &InodeRef, input: &mut Input<'_>) -> Result<()> {
    let number = input.u16();
    let none = SetAttr::default();
    match input.u8() % 7 {
        0 => fs.setxattr(inode, b"user.colour", &vec![1; usize::from(number)], XattrFlags::default()),
        1 => fs.setxattr(inode, b"trusted.new", &vec![2; usize::from(number) % 300], XattrFlags::default()),
        2 => fs.removexattr(inode, b"user.colour"),
        3 => fs.removexattr(inode, b"system.posix_acl_default"),
        4 => fs.setattr(inode, &SetAttr { mode: Some(number.into()), mtime: Some(SetTime::Now), ..none }).map(drop),
        5 => fs
            .setattr(inode, &SetAttr { uid: Some(number.into()), ..none })
            .and_then(|_| {
                fs.revoke_privileges(inode, Changer::Other { is_member: &|group| group == u32::from(number) })
            })
            .map(drop),
        _ => fs.setattr(inode, &SetAttr { flags: Some(1 << (number % 32)), project: Some(3), ..none }).map(drop),
    }
}
