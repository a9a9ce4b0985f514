//! Inline data: the contents of a small file in its inode (format section 10).
//!
//! Kept true: the bytes between the size and the end of the area are zero, so that growing within the area needs no
//! clearing; while contents are inline the file has no slot, no node and no cached page. Contents that outgrow the
//! inode move to page 0, which is written at once: they may be in a checkpoint already, and must not be lost by one
//! that catches the page unwritten.

use super::Facts;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::Inode;
use crate::volume::nodes::leaf::Leaf;
use crate::volume::{Change, Volume};
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::block::BlockView;
use steadyfs_format::inode::{Inode as RawInode, inline};
use steadyfs_format::{PageIndex, Slot};

impl Volume {
    /// Copies bytes that lie within the size of a file with inline data.
    pub(super) fn read_inline(&self, inode: &Inode, off: u64, buf: &mut [u8]) -> Result<()> {
        let features = self.sb.features();
        inode.read(|raw| {
            let area = raw.inline_area(raw.shape(features)?);
            let found = usize::try_from(off).ok().and_then(|off| area.get(off..)?.get(..buf.len()));
            let found =
                found.ok_or_else(|| Error::corrupt(format!("inode {}: inline data is too short", inode.ino)))?;
            buf.copy_from_slice(found);
            Ok(())
        })?
    }

    /// Changes inline data in place: `f` gets the whole area. The new size is at most the area's; bytes beyond it are
    /// cleared.
    pub(super) fn edit_inline(
        &self,
        change: &Change<'_>,
        inode: &Inode,
        facts: &Facts,
        size: u64,
        f: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let features = self.sb.features();
        self.edit_inode(change, inode, |raw| {
            let shape = raw.shape(features)?;
            assert!(raw.has_inline(inline::DATA) && size <= shape.inline_len() as u64);
            let old = raw.size();
            let area = raw.inline_area_mut(shape);
            // Another implementation may have left bytes beyond the size.
            area[old.min(shape.inline_len() as u64) as usize..].fill(0);
            f(area);
            area[size as usize..].fill(0);
            let written = area.iter().any(|byte| *byte != 0);
            if written {
                raw.set_inline_flags(raw.inline_flags() | inline::DATA_EXIST);
            }
            raw.set_size(size);
            facts.touch(raw);
            Ok(())
        })?
    }

    /// Zeroes a part of inline data that lies within the size.
    pub(super) fn zero_inline(
        &self,
        change: &Change<'_>,
        inode: &Inode,
        facts: &Facts,
        part: Range<u64>,
    ) -> Result<()> {
        self.edit_inline(change, inode, facts, facts.size, |area| area[part.start as usize..part.end as usize].fill(0))
    }
}

impl Files {
    /// Moves inline data to page 0, or just gives the area up if it is empty.
    pub(super) fn convert_inline(&self, change: &Change<'_>, inode: &Arc<Inode>, facts: &mut Facts) -> Result<()> {
        let features = self.vol.sb.features();
        assert!(facts.inline, "inode {} has no contents of its own", inode.ino);
        let log = self.log_for(inode);
        let mut guard = inode.node.write(&self.vol.nodes);
        if guard.is_dead() {
            return Err(Error::NotFound);
        }
        let raw = RawInode::view(guard.bytes());
        let shape = raw.shape(features)?;
        let area = &raw.inline_area(shape)[..(raw.size() as usize).min(shape.inline_len())];
        let page = area.iter().any(|byte| *byte != 0).then(|| PageBuf::from_slice(area));
        if page.is_some() {
            self.vol.space.reserve_blocks(1)?;
        }
        let before = *guard.bytes();
        let raw = RawInode::view_mut(guard.edit());
        raw.inline_area_mut(shape).fill(0);
        raw.set_inline_flags(raw.inline_flags() & !(inline::DATA | inline::DATA_EXIST));
        let after = raw.shape(features)?;
        if let Some(page) = page {
            raw.set_slot(after, 0, Slot::New);
            raw.set_blocks(raw.blocks().saturating_add(1));
            let leaf = Leaf::of_inode(inode, after.addr_slots());
            let pages = [(PageIndex(0), page)];
            if let Err(e) = self.vol.place(change, &leaf, &mut guard, log, &pages, |_| Volume::ignore_end()) {
                *guard.edit() = before;
                self.vol.space.release_blocks(1);
                return Err(e);
            }
        }
        facts.inline = false;
        facts.shape = after;
        Ok(())
    }
}
