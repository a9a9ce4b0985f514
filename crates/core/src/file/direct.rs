//! Direct I/O: between the caller and the device without leaving pages in the cache, and coherent with pages that are there.
//!
//! A direct write places its pages and removes cached copies under the node's lock, so it needs no write-back first: what was
//! dirty is overwritten. Writes that only replace pages within the size hold the file's lock shared, so many may run side by
//! side; where two overlap, the last to take the node's lock wins. A direct read takes cached pages as they are.

use super::fetch::Keep;
use super::write::clip;
use super::{Facts, PAGE, PIECE_PAGES, pages_of, regular};
use crate::attr::protect::Act;
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::inode::{Inode, InodeRef};
use crate::locks;
use crate::mapping::{Ended, Found};
use crate::volume::Change;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::{IoError, PageBuf};
use steadyfs_format::inode::advise;
use steadyfs_format::{Log, PageIndex, Slot};
use steadyfs_rt::{Mutex, Pending};

/// Writes of one request that are in flight.
struct Flights {
    pending: Pending,
    error: Mutex<Option<IoError>>,
}

impl Flights {
    fn new() -> Arc<Self> {
        Arc::new(Flights { pending: Pending::new(), error: Mutex::new(&locks::STATE, None) })
    }

    fn one(self: &Arc<Self>) -> Ended {
        let flights = Arc::clone(self);
        flights.pending.add(1);
        Box::new(move |result| {
            if let Err(e) = result {
                flights.error.lock().get_or_insert(e);
            }
            flights.pending.done(1);
        })
    }

    fn wait(&self) -> Result<()> {
        self.pending.wait_zero();
        self.error.lock().take().map_or(Ok(()), |e| Err(Error::Io(e)))
    }
}

impl Fs {
    /// Reads as [`Fs::read`], without putting pages into the cache. Any offset and length will do.
    ///
    /// # Errors
    /// As [`Fs::read`].
    pub fn read_direct(&self, file: &InodeRef, off: u64, buf: &mut [u8]) -> Result<usize> {
        let inode = &file.inode;
        regular(inode)?;
        let n = {
            let _lock = inode.rwsem.read();
            self.read_locked(inode, off, buf, Keep::No)?
        };
        self.note_access(inode);
        Ok(n)
    }

    /// Writes as [`Fs::write`]; the data has reached the device when this returns (durable after a flush: see [`Fs::fsync`]).
    /// Whole pages go straight to the device; a request that is not made of whole pages goes through the cache.
    ///
    /// # Errors
    /// As [`Fs::write`], and I/O errors of the write itself.
    pub fn write_direct(&self, file: &InodeRef, off: u64, data: &[u8]) -> Result<usize> {
        let inode = &file.inode;
        regular(inode)?;
        let data = clip(off, data)?;
        if !off.is_multiple_of(PAGE) || !(data.len() as u64).is_multiple_of(PAGE) {
            return self.write_through(inode, off, data);
        }
        let range = pages_of(off, off + data.len() as u64);
        {
            let _lock = inode.rwsem.read();
            if let Some(mut facts) = self.overwrites(inode, &range)? {
                return self.place_direct(inode, &mut facts, off, data);
            }
        }
        let _lock = inode.rwsem.write();
        let mut facts =
            self.facts_for_change(inode, if off < inode_size(inode)? { Act::Overwrite } else { Act::Append })?;
        self.finish_cut(inode, &mut facts)?;
        if off > facts.size {
            self.uncover(inode, &facts, off)?;
        }
        self.place_direct(inode, &mut facts, off, data)
    }

    /// The facts, if the range lies within the size and has no hole.
    fn overwrites(&self, inode: &Inode, range: &Range<PageIndex>) -> Result<Option<Facts>> {
        let facts = self.facts_for_change(inode, Act::Overwrite)?;
        if facts.inline || range.end.byte_offset() > facts.size || facts.has_advise(advise::TRUNC) {
            return Ok(None);
        }
        let mapped = self.extents(inode, range.clone())?.iter().all(|e| e.slot != Slot::Hole);
        Ok(mapped.then_some(facts))
    }

    /// A write of odd bytes: through the cache, then out of it.
    fn write_through(&self, inode: &Arc<Inode>, off: u64, data: &[u8]) -> Result<usize> {
        let n = {
            let _lock = inode.rwsem.write();
            self.write_locked(inode, off, data)?
        };
        self.writeback(inode, pages_of(off, off + n as u64))?;
        Ok(n)
    }

    /// Writes whole pages, piece by piece, and waits for them.
    fn place_direct(&self, inode: &Arc<Inode>, facts: &mut Facts, off: u64, data: &[u8]) -> Result<usize> {
        let flights = Flights::new();
        let mut done = 0;
        let mut outcome = Ok(());
        for piece in data.chunks((PIECE_PAGES * PAGE) as usize) {
            match self.place_piece(inode, facts, off + done as u64, piece, &flights) {
                Ok(n) => {
                    done += n;
                    if n < piece.len() {
                        break;
                    }
                }
                Err(e) => {
                    outcome = Err(e);
                    break;
                }
            }
        }
        flights.wait()?;
        match outcome {
            Err(e) if done == 0 => Err(e),
            _ => Ok(done),
        }
    }

    fn place_piece(
        &self,
        inode: &Arc<Inode>,
        facts: &mut Facts,
        off: u64,
        data: &[u8],
        flights: &Arc<Flights>,
    ) -> Result<usize> {
        let pages: Vec<(PageIndex, PageBuf)> = data
            .chunks(PAGE as usize)
            .zip(off / PAGE..)
            .map(|(bytes, page)| (PageIndex(page), PageBuf::from_slice(bytes)))
            .collect();
        let range = pages_of(off, off + data.len() as u64);
        let change = self.change()?;
        if facts.inline {
            self.convert_inline(&change, inode, facts)?;
        }
        let reached = self.reserve(&change, inode, range.clone())?;
        let pages = &pages[..(reached - range.start) as usize];
        let log = inode.data_log();
        let mut rest = pages;
        while let Some((first, _)) = rest.first() {
            let placed = self.place_in_leaf(&change, inode, *first, rest, log, flights)?;
            rest = &rest[placed..];
        }
        let n = pages.len() as u64 * PAGE;
        self.after_write(&change, inode, facts, off + n)?;
        Ok(n as usize)
    }

    /// Places the pages that lie in the node of the first; returns how many those were.
    fn place_in_leaf(
        &self,
        change: &Change<'_>,
        inode: &Arc<Inode>,
        first: PageIndex,
        pages: &[(PageIndex, PageBuf)],
        log: Log,
        flights: &Arc<Flights>,
    ) -> Result<usize> {
        let Found::Leaf(leaf) = self.leaf(inode, first)? else {
            return Err(Error::corrupt(format!("inode {}: page {first} was reserved and has no node", inode.ino)));
        };
        let part = leaf.part(&(first..first + pages.len() as u64));
        let pages = &pages[..(part.end - part.start) as usize];
        let mut guard = leaf.node.write(&self.vol.nodes);
        let placed = self.vol.place(change, &leaf, &mut guard, log, pages, |_| flights.one())?;
        self.cache(inode).remove(part.start..part.start + placed as u64);
        if placed < pages.len() { Err(Error::NoSpace) } else { Ok(placed) }
    }
}

fn inode_size(inode: &Inode) -> Result<u64> {
    inode.read(|raw| raw.size())
}
