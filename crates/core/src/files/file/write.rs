//! Buffered writing: into the inode while the file is small, else into cached pages whose slots are reserved first.

use super::fetch::Keep;
use super::flush::AGE;
use super::payload::Payload;
use super::{Facts, PAGE, PIECE_PAGES, Times, pages_of, regular};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::{Inode, InodeRef};
use crate::gate::Want;
use crate::volume::Change;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::PageIndex;
use steadyfs_format::inode::{Inode as RawInode, flags};
use steadyfs_rt::{Cost, charge, charge_n, now};

impl Files {
    /// See `Fs::write`.
    pub(crate) fn write(&self, file: &InodeRef, off: u64, data: &[u8]) -> Result<usize> {
        let inode = &file.inode;
        regular(inode)?;
        let _lock = inode.rwsem.write();
        self.traffic.note_write(self.write_locked(inode, off, Payload::Bytes(data), Times::Ours))
    }

    /// See `Fs::write_pages`.
    pub(crate) fn write_pages(&self, file: &InodeRef, first: PageIndex, pages: &[PageBuf]) -> Result<usize> {
        let inode = &file.inode;
        regular(inode)?;
        let _lock = inode.rwsem.write();
        self.traffic.note_write(self.write_locked(inode, first.byte_offset(), Payload::Pages(pages), Times::Ours))
    }

    /// See `Fs::write_back`.
    pub(crate) fn write_back(&self, file: &InodeRef, off: u64, data: &[u8], direct: bool) -> Result<usize> {
        let inode = &file.inode;
        regular(inode)?;
        if inode.read(RawInode::flags)? & flags::APPEND != 0 {
            self.check_only_adds(file, off, data)?;
        }
        if direct {
            let written = self.write_direct_with(inode, off, Payload::Bytes(data), Times::Callers);
            // The other cache takes it for written whatever it hears. So what the device refuses is kept here, dirty,
            // for a later attempt and the next fsync.
            if !matches!(written, Err(Error::Io(_))) {
                return self.traffic.note_write(written);
            }
        }
        let _lock = inode.rwsem.write();
        self.traffic.note_write(self.write_locked(inode, off, Payload::Bytes(data), Times::Callers))
    }

    /// Refuses to change what a file holds. Zeros may be what other pages left out that came before theirs, so they may
    /// change.
    fn check_only_adds(&self, file: &InodeRef, off: u64, data: &[u8]) -> Result<()> {
        let mut old = vec![0; data.len()];
        let _lock = file.inode.rwsem.read();
        let held = self.read_locked(&file.inode, off, &mut old, Keep::Yes)?;
        let changes = old[..held].iter().zip(data).any(|(old, new)| *old != 0 && old != new);
        if changes { Err(Error::NotPermitted) } else { Ok(()) }
    }

    /// See `Fs::append`.
    pub(crate) fn append(&self, file: &InodeRef, data: &[u8]) -> Result<(u64, usize)> {
        let inode = &file.inode;
        regular(inode)?;
        let _lock = inode.rwsem.write();
        let end = self.vol.facts(inode)?.size;
        Ok((end, self.traffic.note_write(self.write_locked(inode, end, Payload::Bytes(data), Times::Ours))?))
    }

    /// Writes under the exclusive lock of the file.
    pub(super) fn write_locked(&self, inode: &Arc<Inode>, off: u64, data: Payload<'_>, times: Times) -> Result<usize> {
        let mut facts = self.vol.facts_for_write(inode, off, times)?;
        let data = data.clip(off, self.max_file_size())?;
        if data.len() == 0 {
            return Ok(0);
        }
        self.finish_cut(inode, &mut facts)?;
        if off > facts.size {
            self.uncover(inode, &facts, off)?;
        }
        let mut done = 0;
        while done < data.len() {
            let at = off + done as u64;
            let piece = (PIECE_PAGES * PAGE - at % PAGE).min((data.len() - done) as u64) as usize;
            let wrote = self.write_piece(inode, &mut facts, at, data.part(done..done + piece));
            self.budget.trim();
            match wrote {
                Ok(n) => {
                    assert!(n > 0 && n <= piece, "{n} bytes of a piece of {piece} were written");
                    done += n;
                }
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    /// Writes one piece under one change; returns how many of its bytes found space.
    fn write_piece(&self, inode: &Arc<Inode>, facts: &mut Facts, at: u64, data: Payload<'_>) -> Result<usize> {
        let end = at + data.len() as u64;
        let range = pages_of(at, end);
        self.help_flush(inode, range.end - range.start)?;
        if !facts.inline {
            self.load_edges(inode, facts, at, end)?;
        }
        let change = self.gate.begin(Want::default())?;
        if let Payload::Bytes(data) = data
            && end <= facts.inline_room()
        {
            let part = at as usize..end as usize;
            self.vol
                .edit_inline(&change, inode, facts, facts.size.max(end), |area| area[part].copy_from_slice(data))?;
            facts.size = facts.size.max(end);
            self.note_inline(&change, inode)?;
            return Ok(data.len());
        }
        if facts.inline {
            self.convert_inline(&change, inode, facts)?;
        }
        let reached = match self.budget.cache(inode).has_range(&range) {
            true => range.end,
            false => self.vol.reserve(&change, inode, range)?,
        };
        let data = data.first((reached.byte_offset().min(end) - at) as usize);
        self.fill_pages(inode, facts, at, data)?;
        self.after_write(&change, inode, facts, at + data.len() as u64)?;
        Ok(data.len())
    }

    /// Has the journal know of a write to contents in the inode. Of a file without a name it says nothing. What a file
    /// gets once a batch or a checkpoint has had contents of it is old contents: else everybody's fsync would carry
    /// what others write.
    fn note_inline(&self, change: &Change<'_>, inode: &Arc<Inode>) -> Result<()> {
        if !self.journal.is_on() {
            return Ok(());
        }
        let has_name = inode.read(RawInode::links)? > 0;
        if has_name && inode.had_contents() && !steadyfs_rt::mutated("a-batch-carries-contents-once") {
            inode.note_chained();
        }
        if !inode.is_unsynced_new() {
            self.journal.note_contents(now() + AGE);
            return Ok(());
        }
        inode.note_contents(self.gate.progress().0);
        if has_name {
            self.log_inode(change, inode, false);
        }
        Ok(())
    }

    /// Brings the pages that a write changes in part into the cache, so that this need not happen under a change.
    fn load_edges(&self, inode: &Arc<Inode>, facts: &Facts, at: u64, end: u64) -> Result<()> {
        for edge in [at, end] {
            if edge % PAGE != 0 && PageIndex::of_byte(edge).byte_offset() < facts.size {
                self.page(inode, PageIndex::of_byte(edge))?;
            }
        }
        Ok(())
    }

    /// Puts the bytes into pages whose slots are reserved.
    fn fill_pages(&self, inode: &Arc<Inode>, facts: &Facts, at: u64, data: Payload<'_>) -> Result<()> {
        let pages = (data.len() as u64).div_ceil(PAGE);
        charge_n(Cost::PageCopy, pages);
        charge_n(Cost::PageWrite, pages);
        let cache = self.budget.cache(inode);
        let data = match data {
            Payload::Bytes(data) => data,
            Payload::Pages(pages) => {
                assert!(at.is_multiple_of(PAGE), "pages are written at byte {at}");
                cache.put_dirty((at / PAGE..).map(PageIndex).zip(pages.iter().cloned()));
                return Ok(());
            }
        };
        let mut fresh = Vec::new();
        let mut done = 0;
        while done < data.len() {
            let off = at + done as u64;
            let (page, within) = (PageIndex::of_byte(off), (off % PAGE) as usize);
            let bytes = &data[done..data.len().min(done + PAGE as usize - within)];
            if bytes.len() as u64 == PAGE {
                fresh.push((page, PageBuf::from_slice(bytes)));
            } else if !cache.modify(page, |block| block[within..within + bytes.len()].copy_from_slice(bytes)) {
                let mut buf = self.old_contents(inode, facts, page)?;
                buf.make_mut()[within..within + bytes.len()].copy_from_slice(bytes);
                fresh.push((page, buf));
            }
            done += bytes.len();
        }
        cache.put_dirty(fresh);
        Ok(())
    }

    /// What a page holds that is not cached; zero if it lies beyond the end, whatever its block holds.
    fn old_contents(&self, inode: &Arc<Inode>, facts: &Facts, page: PageIndex) -> Result<PageBuf> {
        if page.byte_offset() >= facts.size {
            charge(Cost::PageZero);
            return Ok(PageBuf::zeroed());
        }
        Ok(self.fetch(inode, page..page + 1, Keep::No)?.pop().flatten().unwrap_or_default())
    }

    /// Sets times, and the size if the write went beyond it.
    pub(super) fn after_write(
        &self,
        change: &Change<'_>,
        inode: &Arc<Inode>,
        facts: &mut Facts,
        end: u64,
    ) -> Result<()> {
        if end <= facts.size {
            return match facts.times {
                Times::Ours => self.vol.edit_times(change, inode, |raw| facts.touch(raw)),
                Times::Callers => Ok(()),
            };
        }
        assert!(end <= self.max_file_size(), "inode {} grows to {end} bytes, more than a file has", inode.ino);
        facts.size = end;
        let size = facts.size;
        self.vol.edit_inode(change, inode, |raw| {
            self.move_end(inode, raw, size);
            facts.touch(raw);
        })
    }
}
