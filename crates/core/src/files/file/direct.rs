//! Direct I/O: between the caller and the device without leaving pages in the cache, and coherent with pages that are
//! there.
//!
//! A direct write places its pages and removes cached copies under the node's lock, so it needs no write-back first:
//! dirty pages are overwritten. Writes that only replace pages within the size hold the file's lock shared, so they may
//! run side by side; where two overlap, the last to take the node's lock wins. A direct read takes cached pages as they
//! are.

use super::fetch::Keep;
use super::flush::AGE;
use super::payload::Payload;
use super::writeback::Trigger;
use super::{Facts, PAGE, PIECE_PAGES, Times, pages_of, regular};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::{Inode, InodeRef};
use crate::files::mapping::LeafOrGap;
use crate::gate::Want;
use crate::gate::admission::Admission;
use crate::locks;
use crate::volume::Change;
use crate::volume::nodes::slots::Area;
use crate::volume::placement::placing::Ended;
use std::sync::Arc;
use steadyfs_device::{IoError, PageBuf};
use steadyfs_format::PageIndex;
use steadyfs_format::inode::advise;
use steadyfs_rt::{Cost, Mutex, Pending, WaitCause, charge_n, now, waiting_for};

/// What a direct write does at a hole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holes {
    /// Reserves it. The file's lock is held exclusively.
    Fill,
    /// Ends there.
    End,
}

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
        let _waiting = waiting_for(WaitCause::Device);
        self.pending.wait_zero();
        self.error.lock().take().map_or(Ok(()), |e| Err(Error::Io(e)))
    }
}

impl Files {
    /// See `Fs::read_direct`.
    pub(crate) fn read_direct(&self, file: &InodeRef, off: u64, buf: &mut [u8]) -> Result<usize> {
        let inode = &file.inode;
        regular(inode)?;
        let n = {
            let _lock = inode.rwsem.read();
            let _held = inode.gc.for_read(pages_of(off, off.saturating_add(buf.len() as u64)));
            self.read_locked(inode, off, buf, Keep::No)?
        };
        self.traffic.note_read(n);
        self.note_access(inode);
        Ok(n)
    }

    /// See `Fs::write_direct`.
    pub(crate) fn write_direct(&self, file: &InodeRef, off: u64, data: &[u8]) -> Result<usize> {
        regular(&file.inode)?;
        self.traffic.note_write(self.write_direct_with(&file.inode, off, Payload::Bytes(data), Times::Ours))
    }

    /// See `Fs::write_pages_direct`.
    pub(crate) fn write_pages_direct(&self, file: &InodeRef, first: PageIndex, pages: &[PageBuf]) -> Result<usize> {
        regular(&file.inode)?;
        let written = self.write_direct_with(&file.inode, first.byte_offset(), Payload::Pages(pages), Times::Ours);
        self.traffic.note_write(written)
    }

    /// As [`Files::write_direct`], to a regular file.
    pub(super) fn write_direct_with(
        &self,
        inode: &Arc<Inode>,
        off: u64,
        data: Payload<'_>,
        times: Times,
    ) -> Result<usize> {
        let data = data.clip(off, self.max_file_size())?;
        if !data.is_whole_pages_at(off) {
            return self.write_through(inode, off, data, times);
        }
        let done = self.overwrite_direct(inode, off, data, times)?;
        self.journal.note_contents(now() + AGE);
        if done == data.len() {
            return Ok(done);
        }
        match self.extend_direct(inode, off + done as u64, data.from(done), times) {
            Ok(n) => Ok(done + n),
            Err(_) if done > 0 => Ok(done),
            Err(e) => Err(e),
        }
    }

    /// Writes as much of a request as replaces pages within the size, up to the first hole, beside others who do the
    /// same.
    fn overwrite_direct(&self, inode: &Arc<Inode>, off: u64, data: Payload<'_>, times: Times) -> Result<usize> {
        let _lock = inode.rwsem.read();
        let mut facts = self.vol.facts_for_write(inode, off, times)?;
        if facts.inline || off >= facts.size || facts.has_advise(advise::TRUNC) {
            return Ok(0);
        }
        let within = (facts.size - off) / PAGE * PAGE;
        let data = data.first(usize::try_from(within).unwrap_or(usize::MAX));
        self.place_direct(inode, &mut facts, off, data, Holes::End)
    }

    /// Writes alone: fills holes and moves the end.
    fn extend_direct(&self, inode: &Arc<Inode>, off: u64, data: Payload<'_>, times: Times) -> Result<usize> {
        let _lock = inode.rwsem.write();
        let mut facts = self.vol.facts_for_write(inode, off, times)?;
        self.finish_cut(inode, &mut facts)?;
        if off > facts.size {
            self.uncover(inode, &facts, off)?;
        }
        self.place_direct(inode, &mut facts, off, data, Holes::Fill)
    }

    /// A write of odd bytes: through the cache, then out of it.
    fn write_through(&self, inode: &Arc<Inode>, off: u64, data: Payload<'_>, times: Times) -> Result<usize> {
        let n = {
            let _lock = inode.rwsem.write();
            self.write_locked(inode, off, data, times)?
        };
        self.writeback(inode, pages_of(off, off + n as u64))?;
        Ok(n)
    }

    /// Writes whole pages, piece by piece, and waits for them; returns how many bytes were written.
    fn place_direct(
        &self,
        inode: &Arc<Inode>,
        facts: &mut Facts,
        off: u64,
        data: Payload<'_>,
        holes: Holes,
    ) -> Result<usize> {
        let flights = Flights::new();
        let mut done = 0;
        let mut outcome = Ok(());
        let mut held = None;
        while done < data.len() {
            let piece = data.from(done).first((PIECE_PAGES * PAGE) as usize);
            let placed = self.admit_next(&mut held, piece.len() as u64 / PAGE).and_then(|_admission| {
                let whole = || inode.gc.for_write(pages_of(off + done as u64, off + data.len() as u64));
                held.get_or_insert_with(whole);
                self.place_piece(inode, facts, off + done as u64, piece, holes, &flights)
            });
            match placed {
                Ok(n) => {
                    assert!(n <= piece.len() && (n as u64).is_multiple_of(PAGE), "{n} bytes of {}", piece.len());
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
        let landed = flights.wait();
        if done > 0 && self.stays_in_place(inode, Trigger::Direct) {
            inode.overwrites.note(self.gate.progress().0);
        }
        landed?;
        drop(held);
        match outcome {
            Err(e) if done == 0 => Err(e),
            _ => Ok(done),
        }
    }

    /// Passes the gate with another piece. Collectors go round what is held, so a thread that may have to wait for them
    /// gives it back.
    fn admit_next<H>(&self, held: &mut Option<H>, blocks: u64) -> Result<Admission<'_>> {
        if held.is_some()
            && let Some(admission) = self.gate.try_admit(blocks)
        {
            return Ok(admission);
        }
        *held = None;
        self.gate.admit(&Want::blocks(blocks))
    }

    fn place_piece(
        &self,
        inode: &Arc<Inode>,
        facts: &mut Facts,
        off: u64,
        data: Payload<'_>,
        holes: Holes,
        flights: &Arc<Flights>,
    ) -> Result<usize> {
        charge_n(Cost::PageCopy, data.len() as u64 / PAGE);
        let numbers = (off / PAGE..).map(PageIndex);
        let pages: Vec<(PageIndex, PageBuf)> = numbers.zip(data.to_pages()).collect();
        let mut change = self.vol.begin_change()?;
        if facts.inline {
            self.convert_inline(&change, inode, facts)?;
        }
        // A page alone is written by this thread, which waits for it anyway: to wake another one and to be woken takes
        // longer than most writes.
        let own = holes == Holes::End && pages.len() == 1 && change.keep_next();
        let mut usable = pages.len();
        if holes == Holes::Fill {
            let range = pages_of(off, off + data.len() as u64);
            usable = (self.vol.reserve(&change, inode, range.clone())? - range.start) as usize;
            assert!(usable > 0 && usable <= pages.len(), "{usable} of {} pages are reserved", pages.len());
        }
        let mut done = 0;
        while let Some((first, _)) = pages[..usable].get(done) {
            match self.place_in_leaf(&change, inode, *first, &pages[done..usable], flights)? {
                0 if holes == Holes::End => break,
                0 => return Err(Error::corrupt(format!("inode {}: page {first} lost its reservation", inode.ino))),
                n => done += n,
            }
        }
        let written = done as u64 * PAGE;
        assert!(written <= data.len() as u64, "{written} bytes are at the device, of {} given", data.len());
        if own {
            // The size stays, so no checkpoint in between sees anything but older times.
            change.end();
            change = self.vol.begin_change()?;
        }
        if done > 0 {
            self.after_write(&change, inode, facts, off + written)?;
        }
        Ok(written as usize)
    }

    /// Places the pages that lie in the node of the first, up to the first hole; returns how many those were.
    fn place_in_leaf(
        &self,
        change: &Change<'_>,
        inode: &Arc<Inode>,
        first: PageIndex,
        pages: &[(PageIndex, PageBuf)],
        flights: &Arc<Flights>,
    ) -> Result<usize> {
        let LeafOrGap::Leaf(leaf) = self.vol.leaf(inode, first)? else { return Ok(0) };
        let (log, in_place) = (self.log_for(inode), self.stays_in_place(inode, Trigger::Direct));
        let part = leaf.part(&(first..first + pages.len() as u64));
        let mut guard = leaf.node.write(&self.vol.nodes);
        let area = Area::of(guard.bytes(), self.vol.sb.features())?;
        let numbers = (part.start.get()..part.end.get()).map(PageIndex);
        let mapped = numbers.take_while(|page| area.get(guard.bytes(), leaf.slot_of(*page)).is_counted()).count();
        if mapped == 0 {
            return Ok(0);
        }
        let placed =
            self.vol.place_or_overwrite(change, &leaf, &mut guard, log, &pages[..mapped], &|_| in_place, |_| {
                flights.one()
            })?;
        assert!(placed <= mapped, "{placed} of {mapped} pages have their places");
        self.budget.cache(inode).remove(part.start..part.start + placed as u64);
        if placed < mapped { Err(Error::NoSpace) } else { Ok(placed) }
    }
}
