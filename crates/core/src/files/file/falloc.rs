//! Preallocation and the other ways of fallocate(2).
//!
//! Allocated pages are reserved: they read as zeros, and writing there later cannot fail for lack of space. Space is
//! counted before anything changes (`room`), so a request that cannot be met leaves the file as it was.

use super::{Facts, PAGE, pages_of, regular};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::attr::protect::Act;
use crate::files::attr::times::{clock, touch_contents};
use crate::files::inode::{Inode, InodeRef};
use crate::gate::Want;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_format::PageIndex;
use steadyfs_format::inode::{advise, flags};

/// What [`Fs::fallocate`](crate::Fs::fallocate) does with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallocMode {
    /// Reserve space for all of it.
    Allocate {
        /// Leave the size as it is even if the range goes beyond it.
        keep_size: bool,
    },
    /// Give its space back: it reads as zeros. The size stays.
    PunchHole,
    /// Make it read as zeros, with its space reserved.
    ZeroRange {
        /// Leave the size as it is even if the range goes beyond it.
        keep_size: bool,
    },
    /// Take it out of the file: what follows moves down. Offset and length are multiples of 4096.
    CollapseRange,
    /// Make a hole there: what followed moves up. Offset and length are multiples of 4096.
    InsertRange,
}

impl Files {
    /// See `Fs::fallocate`.
    pub(crate) fn fallocate(&self, file: &InodeRef, mode: FallocMode, off: u64, len: u64) -> Result<()> {
        let inode = &file.inode;
        regular(inode)?;
        let end = off.checked_add(len).filter(|_| len > 0).ok_or(Error::Invalid)?;
        if end > self.max_file_size() {
            return Err(Error::TooBig);
        }
        {
            let _lock = inode.rwsem.write();
            let mut facts = self.vol.facts_for_change(inode, Act::Append)?;
            if facts.flags & flags::APPEND != 0 && !matches!(mode, FallocMode::Allocate { .. }) {
                return Err(Error::NotPermitted);
            }
            self.finish_cut(inode, &mut facts)?;
            match mode {
                FallocMode::Allocate { keep_size } => self.allocate(inode, &mut facts, off..end, keep_size)?,
                FallocMode::PunchHole => self.punch(inode, &facts, off..end)?,
                FallocMode::ZeroRange { keep_size } => self.zero_range(inode, &mut facts, off..end, keep_size)?,
                FallocMode::CollapseRange => self.collapse(inode, &mut facts, off..end)?,
                FallocMode::InsertRange => self.insert(inode, &mut facts, off..end)?,
            }
        }
        self.budget.trim();
        Ok(())
    }

    fn allocate(&self, inode: &Arc<Inode>, facts: &mut Facts, bytes: Range<u64>, keep_size: bool) -> Result<()> {
        if bytes.end <= facts.inline_room() {
            return self.after_allocation(inode, facts, bytes.end, keep_size);
        }
        self.reserve_all(inode, facts, pages_of(bytes.start, bytes.end))?;
        if bytes.end > facts.size && !keep_size {
            self.uncover(inode, facts, bytes.end)?;
        }
        self.after_allocation(inode, facts, bytes.end, keep_size)
    }

    /// Moves the size up to `end`, or marks that there are blocks beyond it.
    fn after_allocation(&self, inode: &Arc<Inode>, facts: &mut Facts, end: u64, keep_size: bool) -> Result<()> {
        let change = self.gate.begin(Want::default())?;
        let size = if keep_size { facts.size } else { facts.size.max(end) };
        assert!(size >= facts.size, "an allocation cuts inode {} from {} to {size} bytes", inode.ino, facts.size);
        if facts.inline {
            self.vol.edit_inline(&change, inode, facts, size, |_| ())?;
        } else {
            self.vol.edit_inode(&change, inode, |raw| {
                if end > size {
                    raw.set_advise(raw.advise() | advise::KEEP_SIZE);
                }
                self.move_end(inode, raw, size);
                touch_contents(raw, clock());
            })?;
        }
        facts.size = size;
        Ok(())
    }

    fn punch(&self, inode: &Arc<Inode>, facts: &Facts, bytes: Range<u64>) -> Result<()> {
        if facts.inline {
            let end = bytes.end.min(facts.size);
            let change = self.gate.begin(Want::default())?;
            return self.vol.zero_inline(&change, inode, facts, bytes.start.min(end)..end);
        }
        let whole = self.zero_edges(inode, bytes)?;
        self.free_range(inode, whole)?;
        self.note_change(inode)
    }

    fn zero_range(&self, inode: &Arc<Inode>, facts: &mut Facts, bytes: Range<u64>, keep_size: bool) -> Result<()> {
        if bytes.end <= facts.inline_room() {
            let end = bytes.end.min(facts.size);
            let change = self.gate.begin(Want::default())?;
            self.vol.zero_inline(&change, inode, facts, bytes.start.min(end)..end)?;
            drop(change);
            return self.after_allocation(inode, facts, bytes.end, keep_size);
        }
        self.reserve_all(inode, facts, pages_of(bytes.start, bytes.end))?;
        if bytes.end > facts.size && !keep_size {
            self.uncover(inode, facts, bytes.end)?;
        }
        let whole = self.zero_edges(inode, bytes.clone())?;
        self.renew(inode, whole)?;
        self.after_allocation(inode, facts, bytes.end, keep_size)
    }

    /// Zeroes the parts of pages at both ends of a range; returns the whole pages between.
    fn zero_edges(&self, inode: &Arc<Inode>, bytes: Range<u64>) -> Result<Range<PageIndex>> {
        let first = PageIndex(bytes.start.div_ceil(PAGE));
        let behind = PageIndex::of_byte(bytes.end);
        if first > behind {
            self.zero_in_page(inode, bytes.start, bytes.end)?;
            return Ok(behind..behind);
        }
        if bytes.start < first.byte_offset() {
            self.zero_in_page(inode, bytes.start, first.byte_offset())?;
        }
        if behind.byte_offset() < bytes.end {
            self.zero_in_page(inode, behind.byte_offset(), bytes.end)?;
        }
        Ok(first..behind)
    }

    fn note_change(&self, inode: &Arc<Inode>) -> Result<()> {
        let change = self.gate.begin(Want::default())?;
        self.vol.edit_inode(&change, inode, |raw| touch_contents(raw, clock()))
    }
}
