//! Where attributes are kept: the end of the inode's address area, continued in the xattr node (format section 9).
//!
//! Kept true: the two parts joined are one list; the xattr node exists if and only if the list does not fit the inode;
//! it is counted in `i_blocks`. The caller holds the inode's `i_rwsem`, exclusively for changes.

use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::Inode;
use crate::volume::nodes::cache::Node;
use crate::volume::{Change, Volume};
use std::sync::Arc;
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::Inode as RawInode;
use steadyfs_format::node::{NODE_PAYLOAD, NodeBlock, NodeOfs};
use steadyfs_format::xattr::{self, XattrName};
use steadyfs_format::{FormatError, Nid};

impl Volume {
    /// The inode's part of the area, and the node that continues it.
    fn xattr_parts(&self, inode: &Inode) -> Result<(Vec<u8>, Nid)> {
        let features = self.sb.features();
        inode.read(|raw| Ok((raw.xattr_area(raw.shape(features)?).to_vec(), raw.xattr_nid())))?
    }

    /// The inode's xattr node, if it has one.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the inode names a node that is something else.
    pub(crate) fn xattr_node(&self, inode: &Inode) -> Result<Option<Arc<Node>>> {
        let nid = inode.read(RawInode::xattr_nid)?;
        if nid.is_null() {
            return Ok(None);
        }
        let damaged = || Error::corrupt(format!("inode {}: node {nid} is not its xattr node", inode.ino));
        let node = self.node(nid).map_err(|e| if matches!(e, Error::NotFound) { damaged() } else { e })?;
        {
            let guard = node.read();
            let footer = NodeBlock::view(guard.bytes()).footer;
            if guard.is_dead() || footer.ino() != inode.ino || footer.ofs() != NodeOfs::XATTR {
                return Err(damaged());
            }
        }
        Ok(Some(node))
    }

    /// The whole area: the inode's part and, if there is a node, the node's.
    pub(super) fn xattr_area(&self, inode: &Inode) -> Result<Vec<u8>> {
        let (mut area, _) = self.xattr_parts(inode)?;
        if let Some(node) = self.xattr_node(inode)? {
            area.extend(&node.read().bytes()[..NODE_PAYLOAD]);
        }
        Ok(area)
    }

    /// The stored value of an attribute.
    pub(crate) fn stored_xattr(&self, inode: &Inode, name: XattrName<'_>) -> Result<Option<Vec<u8>>> {
        let features = self.sb.features();
        // Where there is no node they are looked at where they lie.
        let inside = |raw: &RawInode| -> Result<Option<Option<Vec<u8>>>> {
            if !raw.xattr_nid().is_null() {
                return Ok(None);
            }
            let area = raw.xattr_area(raw.shape(features)?);
            Ok(Some(xattr::get(area, name)?.map(<[u8]>::to_vec)))
        };
        if let Some(found) = inode.read(inside)?? {
            return Ok(found);
        }
        let area = self.xattr_area(inode)?;
        Ok(xattr::get(&area, name)?.map(<[u8]>::to_vec))
    }

    /// All attributes as a list with nothing behind it; empty if there are none.
    pub(crate) fn xattr_list(&self, inode: &Inode) -> Result<Vec<u8>> {
        let mut area = self.xattr_area(inode)?;
        area.truncate(xattr::used(&area)?);
        Ok(area)
    }

    /// As [`Volume::xattr_list`], of an inode block that is at hand; `None` if a node continues it.
    pub(crate) fn xattr_list_in(&self, raw: &RawInode) -> Result<Option<Vec<u8>>> {
        if !raw.xattr_nid().is_null() {
            return Ok(None);
        }
        let area = raw.xattr_area(raw.shape(self.sb.features())?);
        Ok(Some(area[..xattr::used(area)?].to_vec()))
    }

    /// Gives an inode that has no xattr node an empty one.
    pub(crate) fn new_xattr_node(&self, change: &Change<'_>, inode: &Arc<Inode>) -> Result<Arc<Node>> {
        let node = self.new_node(inode.ino, NodeOfs::XATTR, inode.kind != FileType::Dir)?;
        self.edit_inode(change, inode, |raw| {
            assert!(raw.xattr_nid().is_null(), "{:?} has an xattr node already", inode.ino);
            raw.set_xattr_nid(node.nid);
            raw.set_blocks(raw.blocks().saturating_add(1));
        })?;
        Ok(node)
    }

    /// Frees the inode's xattr node.
    pub(crate) fn free_xattr_node(&self, change: &Change<'_>, inode: &Arc<Inode>, node: &Arc<Node>) -> Result<()> {
        self.edit_inode(change, inode, |raw| {
            assert_eq!(raw.xattr_nid(), node.nid, "{:?} has another xattr node", inode.ino);
            raw.set_xattr_nid(Nid(0));
            raw.set_blocks(raw.blocks().saturating_sub(1).max(1));
        })?;
        self.free_node(node.write(&self.nodes))
    }
}

impl Files {
    /// Sets an attribute. Nothing has changed after an error.
    ///
    /// # Errors
    /// [`Error::TooMuch`] if the list would not fit inode and node; [`Error::NoSpace`] if the volume has no room for a
    /// node.
    pub(crate) fn store_xattr(
        &self,
        change: &Change<'_>,
        inode: &Arc<Inode>,
        name: XattrName<'_>,
        value: &[u8],
    ) -> Result<()> {
        let (inline, nid) = self.vol.xattr_parts(inode)?;
        let mut area = self.vol.xattr_area(inode)?;
        if nid.is_null() {
            area.resize(inline.len() + NODE_PAYLOAD, 0);
        }
        xattr::set(&mut area, name, value).map_err(|e| match e {
            FormatError::NoRoom { .. } | FormatError::Length { .. } => Error::TooMuch,
            other => other.into(),
        })?;
        self.write_area(change, inode, &area, inline.len())
    }

    /// Removes an attribute; false if it was not there.
    pub(crate) fn drop_xattr(&self, change: &Change<'_>, inode: &Arc<Inode>, name: XattrName<'_>) -> Result<bool> {
        let (inline, _) = self.vol.xattr_parts(inode)?;
        let mut area = self.vol.xattr_area(inode)?;
        let removed = xattr::remove(&mut area, name)?;
        if removed {
            self.write_area(change, inode, &area, inline.len())?;
        }
        Ok(removed)
    }

    /// Replaces all attributes by those of a list; none if it is empty.
    ///
    /// # Errors
    /// Damage: the list fits no inode.
    pub(crate) fn replace_xattrs(&self, change: &Change<'_>, inode: &Arc<Inode>, list: &[u8]) -> Result<()> {
        let (inline, _) = self.vol.xattr_parts(inode)?;
        let mut area = list.to_vec();
        if area.len() > inline.len() + NODE_PAYLOAD {
            return Err(Error::corrupt(format!("inode {} cannot have so many attributes", inode.ino)));
        }
        area.resize(inline.len() + NODE_PAYLOAD, 0);
        self.write_area(change, inode, &area, inline.len())
    }

    /// Stores a changed area: what does not fit the inode's `inline` bytes goes to the node, which is made or freed as
    /// needed.
    fn write_area(&self, change: &Change<'_>, inode: &Arc<Inode>, area: &[u8], inline: usize) -> Result<()> {
        let features = self.vol.sb.features();
        let (head, tail) = area.split_at(inline);
        if inode.kind == FileType::Dir {
            self.since.note_label(inode.ino);
        }
        let needs_node = xattr::used(area)? > inline;
        if needs_node {
            assert_eq!(tail.len(), NODE_PAYLOAD, "the node's part of the area is a node's payload");
            let node = match self.vol.xattr_node(inode)? {
                Some(node) => node,
                None => self.vol.new_xattr_node(change, inode)?,
            };
            node.write(&self.vol.nodes).edit()[..NODE_PAYLOAD].copy_from_slice(tail);
        } else if let Some(node) = self.vol.xattr_node(inode)? {
            self.vol.free_xattr_node(change, inode, &node)?;
        }
        self.vol.edit_inode(change, inode, |raw| -> Result<()> {
            assert_eq!(!raw.xattr_nid().is_null(), needs_node, "inode {}: a node for its attributes", inode.ino);
            let shape = raw.shape(features)?;
            raw.xattr_area_mut(shape).copy_from_slice(head);
            Ok(())
        })?
    }

    /// Keeps of the list what is whole: an fsync of Linux that a crash cut short can leave one part of the area new and
    /// the other old.
    pub(crate) fn trim_xattrs(&self, change: &Change<'_>, inode: &Arc<Inode>) -> Result<()> {
        let area = self.vol.xattr_area(inode)?;
        if xattr::is_whole(&area) {
            return Ok(());
        }
        let mut kept = vec![0; area.len()];
        for found in xattr::entries(&area) {
            let Ok(found) = found else { break };
            xattr::set(&mut kept, found.name, found.value)?;
        }
        tracing::warn!(ino = %inode.ino, "extended attributes that were being written at the crash are gone");
        let (inline, _) = self.vol.xattr_parts(inode)?;
        self.write_area(change, inode, &kept, inline.len())
    }
}
