//! Making inodes, with a name or without.

use super::birth::{Birth, InlineChoice, Parent};
use super::transaction::Transaction;
use super::{MAX_TARGET, check_dir, check_name, is_dot};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::attr::protect::Act;
use crate::files::attr::times::{clock, touch_contents};
use crate::files::dir::{Room, Search};
use crate::files::inode::{Inode, InodeRef};
use crate::files::orphans::Orphan;
use crate::gate::Want;
use crate::types::NewInode;
use crate::volume::Change;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use steadyfs_device::PageBuf;
use steadyfs_format::dir::{DentriesMut, FileType};
use steadyfs_format::inode::{Inode as RawInode, inline};
use steadyfs_format::{BLOCK_SIZE, Ino, PageIndex};

/// The inode to make, and where.
pub(super) struct Order<'a> {
    pub(super) dir: &'a Arc<Inode>,
    pub(super) name: &'a [u8],
    pub(super) kind: FileType,
    pub(super) new: &'a NewInode,
    /// Symlinks only.
    pub(super) target: &'a [u8],
    pub(super) links: u32,
}

impl Files {
    /// See `Fs::create`.
    pub(crate) fn create(&self, dir: &InodeRef, name: &[u8], new: &NewInode) -> Result<InodeRef> {
        let kind = FileType::from_mode(new.mode as u16).filter(|kind| *kind != FileType::Symlink);
        let kind = kind.ok_or(Error::Invalid)?;
        self.make_named(dir, name, kind, new, &[])
    }

    /// See `Fs::symlink`.
    pub(crate) fn symlink(&self, dir: &InodeRef, name: &[u8], target: &[u8], new: &NewInode) -> Result<InodeRef> {
        match target.len() {
            0 => Err(Error::NotFound),
            length if length > MAX_TARGET => Err(Error::NameTooLong),
            _ if target.contains(&0) => Err(Error::Invalid),
            _ => self.make_named(dir, name, FileType::Symlink, new, target),
        }
    }

    /// See `Fs::tmpfile`.
    pub(crate) fn tmpfile(&self, dir: &InodeRef, new: &NewInode) -> Result<InodeRef> {
        let dir = &dir.inode;
        let made = {
            let _dir = dir.rwsem.read();
            self.vol.dir_head(dir)?;
            dir.read(|raw| check_dir(raw, Act::AddName))??;
            let change = self.gate.begin(Want::default())?;
            let order = Order { dir, name: &[], kind: FileType::Regular, new, target: &[], links: 0 };
            self.transact(&change, |t| {
                let inode = self.make_inode(t, &order)?;
                t.orphan(&inode, Orphan::Unnamed)?;
                inode.inode.unlinked.store(true, SeqCst);
                Ok(inode)
            })
        };
        self.reap_quietly();
        made
    }

    fn make_named(
        &self,
        dir: &InodeRef,
        name: &[u8],
        kind: FileType,
        new: &NewInode,
        target: &[u8],
    ) -> Result<InodeRef> {
        check_name(name)?;
        let dir = &dir.inode;
        let made = {
            let _dir = dir.rwsem.write();
            let room = self.room_for(dir, name)?;
            let is_dir = kind == FileType::Dir;
            if is_dir && dir.read(RawInode::links)? == u32::MAX {
                return Err(Error::TooManyLinks);
            }
            let change = self.gate.begin(Want::default())?;
            let order = Order { dir, name, kind, new, target, links: if is_dir { 2 } else { 1 } };
            self.transact(&change, |t| {
                let inode = self.make_inode(t, &order)?;
                t.insert(dir, room, name, &inode)?;
                self.vol.edit_inode(&change, dir, |raw| {
                    raw.set_links(raw.links() + u32::from(is_dir));
                    touch_contents(raw, clock());
                })?;
                Ok(inode)
            })
        };
        self.reap_quietly();
        made
    }

    /// Where a new name goes in a locked directory that may take one.
    pub(super) fn room_for(&self, dir: &Arc<Inode>, name: &[u8]) -> Result<Room> {
        self.vol.dir_head(dir)?;
        if is_dot(name) {
            return Err(Error::Exists);
        }
        dir.read(|raw| if raw.links() == 0 { Err(Error::NotFound) } else { Ok(()) })??;
        match self.dir_search(dir, name)? {
            Search::Found(_) => Err(Error::Exists),
            Search::Missing(room) => {
                dir.read(|raw| check_dir(raw, Act::AddName))??;
                Ok(room)
            }
        }
    }

    /// Makes the inode with everything that belongs to it but a name.
    pub(super) fn make_inode(&self, t: &mut Transaction<'_>, order: &Order<'_>) -> Result<InodeRef> {
        let Order { dir, name, kind, new, target, links } = *order;
        let features = self.vol.sb.features();
        let parent = dir.read(|raw| Parent::of(raw, dir.ino, features))?;
        let acl = self.vol.inherit_acl(dir, kind, new.mode, new.umask)?;
        let node = self.vol.new_inode_node(kind != FileType::Dir)?;
        let birth = Birth {
            ino: node.nid.as_ino(),
            kind,
            name,
            parent: &parent,
            permissions: acl.permissions,
            new,
            links,
            generation: self.inodes.next_generation(),
            choice: InlineChoice {
                xattr: self.options.inline_xattr,
                data: self.options.inline_data,
                dentry: self.options.inline_dentry,
            },
        };
        let inode = self.inodes.insert_new(&self.budget, node, kind);
        self.vol.nodes.dirt.know_birth(&inode.inode.birth);
        t.made(&inode);
        self.vol.edit_inode(t.change, &inode.inode, |raw| birth.build_in(raw, &self.vol.sb))??;
        match kind {
            FileType::Dir if !self.options.inline_dentry => self.first_block(t.change, &inode.inode, dir.ino)?,
            FileType::Symlink => self.store_target(t.change, &inode.inode, target)?,
            _ => {}
        }
        self.store_inherited(t.change, &inode.inode, &acl)?;
        Ok(inode)
    }

    /// The first block of a directory that does not begin inline.
    pub(crate) fn first_block(&self, change: &Change<'_>, inode: &Arc<Inode>, parent: Ino) -> Result<()> {
        let mut page = PageBuf::zeroed();
        DentriesMut::block(page.make_mut()).insert_dots(inode.ino, parent)?;
        self.put_page(change, inode, PageIndex(0), page)?;
        self.vol.edit_inode(change, inode, |raw| raw.set_size(BLOCK_SIZE as u64))
    }

    /// Gives a symlink without contents its target.
    pub(crate) fn store_target(&self, change: &Change<'_>, inode: &Arc<Inode>, target: &[u8]) -> Result<()> {
        let features = self.vol.sb.features();
        let stored = self.vol.edit_inode(change, inode, |raw| -> Result<bool> {
            raw.set_size(target.len() as u64);
            let area = raw.shape(features)?.inline_range();
            let fits = raw.has_inline(inline::DATA) && target.len() <= area.len();
            if fits {
                let shape = raw.shape(features)?;
                raw.inline_area_mut(shape)[..target.len()].copy_from_slice(target);
                raw.set_inline_flags(raw.inline_flags() | inline::DATA_EXIST);
            } else {
                raw.set_inline_flags(raw.inline_flags() & !inline::DATA);
            }
            Ok(fits)
        })??;
        if stored { Ok(()) } else { self.put_page(change, inode, PageIndex(0), PageBuf::from_slice(target)) }
    }

    /// Takes back an inode that was made under the same change and never got a name.
    pub(super) fn unmake(&self, change: &Change<'_>, inode: &InodeRef) -> Result<()> {
        let inode = &inode.inode;
        let pages =
            inode.read(|raw| raw.blocks() > 1 && !raw.has_inline(inline::DATA) && !raw.has_inline(inline::DENTRY))?;
        if pages {
            self.punch_pages(change, inode, PageIndex(0)..PageIndex(1))?;
        }
        self.free_inode(change, inode)
    }
}
