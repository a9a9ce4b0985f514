//! What an inode block of the chain says beyond addresses: attributes, inline contents, extended attributes.

use super::Recovery;
use crate::error::{Error, Result};
use crate::files::inode::{Inode, InodeRef};
use std::sync::Arc;
use steadyfs_format::block::{BlockView, zeroed_block};
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{ADDR_OFFSET, Extent, Inode as RawInode, InodeShape, advise, flags, inline};
use steadyfs_format::node::{NODE_PAYLOAD, NodeFooter, NodeOfs};
use steadyfs_format::{BLOCK_SIZE, Block, Ino, Nid, PageIndex, Slot};

/// Whether the contents of the file with this inode block are in the inode.
pub(super) fn is_inline(block: &Block) -> bool {
    RawInode::view(block).has_inline(inline::DATA)
}

impl Recovery<'_> {
    /// Makes the inode that a chain introduces: its attributes and one link, without contents.
    pub(super) fn make_inode(&self, ino: Ino, raw: &RawInode) -> Result<InodeRef> {
        self.check(ino, raw)?;
        let mut block = zeroed_block();
        let kept = ADDR_OFFSET + usize::from(raw.extra_isize());
        block[..kept].copy_from_slice(&raw.to_block()[..kept]);
        let bare = RawInode::view_mut(&mut block);
        bare.set_links(1);
        bare.set_blocks(1);
        bare.set_size(0);
        bare.set_current_depth(0);
        bare.set_xattr_nid(Nid(0));
        bare.set_extent(Extent::default());
        bare.set_inline_flags(raw.inline_flags() & (inline::XATTR | inline::EXTRA_ATTR));
        bare.footer = NodeFooter::new(ino.nid(), ino, NodeOfs::INODE, true);
        let bare = bare.clone();
        let node = self.files.vol.new_inode_node_at(ino, true)?;
        let inode = self.files.inodes.insert_new(&self.files.budget, node, FileType::Regular);
        self.files.vol.edit_inode(self.change, &inode.inode, |raw| *raw = bare)?;
        Ok(inode)
    }

    /// Refuses inode blocks that fsync does not write. Returns the shape.
    fn check(&self, ino: Ino, raw: &RawInode) -> Result<InodeShape> {
        let shape = raw.validate(self.files.vol.sb.features())?;
        if raw.file_type() != Some(FileType::Regular) {
            return Err(Error::corrupt(format!(
                "inode {ino} was fsynced with mode {:o}, no regular file's",
                raw.mode()
            )));
        }
        if raw.flags() & flags::COMPR != 0 {
            return Err(Error::corrupt(format!("inode {ino} was fsynced as a compressed file")));
        }
        Ok(shape)
    }

    /// Takes over attributes, size, and the attributes kept inline.
    pub(super) fn apply_inode(&self, inode: &InodeRef, raw: &RawInode) -> Result<()> {
        let ino = inode.ino();
        let shape = self.check(ino, raw)?;
        let features = self.files.vol.sb.features();
        if inode.kind() != FileType::Regular || inode.inode.read(|ours| ours.shape(features))?? != shape {
            return Err(Error::corrupt(format!("inode {ino} was fsynced as another kind of inode")));
        }
        self.files.vol.edit_inode(self.change, &inode.inode, |ours| {
            ours.set_mode(raw.mode());
            ours.set_uid(raw.uid());
            ours.set_gid(raw.gid());
            ours.set_size(raw.size());
            ours.set_atime(raw.atime());
            ours.set_ctime(raw.ctime());
            ours.set_mtime(raw.mtime());
            ours.set_advise(raw.advise());
            ours.set_flags(raw.flags());
            if let Some(project) = raw.project_id(features) {
                ours.set_project_id(features, project);
            }
            let taken = inline::XATTR | inline::PIN_FILE;
            ours.set_inline_flags(ours.inline_flags() & !taken | raw.inline_flags() & taken);
            ours.xattr_area_mut(shape).copy_from_slice(raw.xattr_area(shape));
        })
    }

    /// Takes over inline contents; false if the file has none, and then has none here either.
    pub(super) fn apply_inline_data(&self, inode: &InodeRef, raw: &RawInode) -> Result<bool> {
        if !raw.has_inline(inline::DATA) {
            self.leave_inline_data(inode)?;
            return Ok(false);
        }
        let shape = raw.shape(self.files.vol.sb.features())?;
        self.take_inline(inode, raw.inline_area(shape), raw.has_inline(inline::DATA_EXIST))?;
        Ok(true)
    }

    /// Takes over contents that a record has.
    pub(super) fn apply_contents(&self, inode: &InodeRef, contents: &[u8]) -> Result<()> {
        let compressed = inode.inode.read(|ours| ours.flags() & flags::COMPR != 0)?;
        if compressed {
            return Err(Error::corrupt(format!(
                "the journal has contents of inode {}, a compressed file",
                inode.ino()
            )));
        }
        self.take_inline(inode, contents, contents.iter().any(|byte| *byte != 0))?;
        self.files.vol.edit_inode(self.change, &inode.inode, |ours| ours.set_size(contents.len() as u64))
    }

    /// Puts contents into the inode, in the place of all that the file has.
    fn take_inline(&self, inode: &InodeRef, contents: &[u8], exist: bool) -> Result<()> {
        let is_said = exist || steadyfs_rt::mutated("contents-that-do-not-exist-are-damage");
        if !is_said && contents.iter().any(|byte| *byte != 0) {
            let ino = inode.ino();
            return Err(Error::corrupt(format!("inode {ino} was fsynced with contents, and says that it has none")));
        }
        let features = self.files.vol.sb.features();
        if !inode.inode.read(|ours| ours.has_inline(inline::DATA))? {
            self.free_pages(&inode.inode, PageIndex(0), self.files.vol.tree_pages(&inode.inode)?)?;
        }
        self.files.vol.edit_inode(self.change, &inode.inode, |ours| {
            let shape = ours.shape(features)?;
            let empty = ours.slot(shape, 0) == Slot::Hole && ours.children() == [Nid(0); 5];
            if !empty {
                return Err(Error::corrupt(format!("inode {} keeps nodes without contents", inode.ino())));
            }
            let area = ours.inline_area_mut(shape);
            let Some((head, rest)) = area.split_at_mut_checked(contents.len()) else {
                let ino = inode.ino();
                return Err(Error::corrupt(format!("the journal has more contents than inode {ino} has room for")));
            };
            head.copy_from_slice(contents);
            rest.fill(0);
            let flags = inline::DATA | if exist { inline::DATA_EXIST } else { 0 };
            ours.set_inline_flags(ours.inline_flags() & !inline::DATA_EXIST | flags);
            Ok(())
        })?
    }

    /// Gives inline contents up: what replaced them is in the chain.
    pub(super) fn leave_inline_data(&self, inode: &InodeRef) -> Result<()> {
        let features = self.files.vol.sb.features();
        if !inode.inode.read(|ours| ours.has_inline(inline::DATA))? {
            return Ok(());
        }
        self.files.vol.edit_inode(self.change, &inode.inode, |ours| {
            let shape = ours.shape(features)?;
            ours.inline_area_mut(shape).fill(0);
            ours.set_inline_flags(ours.inline_flags() & !(inline::DATA | inline::DATA_EXIST));
            Ok(())
        })?
    }

    /// Takes over the node with extended attributes.
    pub(super) fn apply_xattr_node(&self, inode: &InodeRef, block: &Block) -> Result<()> {
        let inode: &Arc<Inode> = &inode.inode;
        let node = match self.files.vol.xattr_node(inode)? {
            Some(node) => node,
            None => self.files.vol.new_xattr_node(self.change, inode)?,
        };
        node.write(&self.files.vol.nodes).edit()[..NODE_PAYLOAD].copy_from_slice(&block[..NODE_PAYLOAD]);
        Ok(())
    }

    /// Frees the node with extended attributes: they fit the inode again.
    pub(super) fn drop_xattr_node(&self, inode: &InodeRef) -> Result<()> {
        match self.files.vol.xattr_node(&inode.inode)? {
            Some(node) => self.files.vol.free_xattr_node(self.change, &inode.inode, &node),
            None => Ok(()),
        }
    }

    /// Marks a file for being cut if blocks lie behind its end that should not: nodes that went when it was cut leave
    /// no trace in the chain. Linux leaves such blocks, too.
    pub(super) fn mark_for_cut(&self, inode: &InodeRef) -> Result<()> {
        let (size, settled) = inode
            .inode
            .read(|raw| (raw.size(), raw.has_inline(inline::DATA) || raw.advise() & advise::KEEP_SIZE != 0))?;
        let behind = PageIndex(size.div_ceil(BLOCK_SIZE as u64));
        if settled || self.files.vol.next_page(&inode.inode, behind)?.is_none() {
            return Ok(());
        }
        self.files.vol.edit_inode(self.change, &inode.inode, |raw| raw.set_advise(raw.advise() | advise::TRUNC))
    }
}
