//! The node address table in memory: node id -> {owner, version, address}.
//!
//! NAT blocks are loaded when needed, and leave when there are more than the limit. Each has a lock of its own,
//! so there is no lock over the table. An entry is *dirty* while the NAT block that the committed checkpoint selects
//! does not hold it: entries that travel in the checkpoint's journal stay dirty until a later checkpoint writes their
//! block (format sections 3.5, 4).
//!
//! Kept true:
//! - An address of `NEW` (a node that was never written) never reaches the disk, because a checkpoint writes all dirty
//!   nodes first.
//! - A freed id keeps a version one higher than its last use.
//! - The selected copy of a block is never overwritten.
//! - A block stays in memory while it has dirty entries, and while somebody relies on it ([`Nat::hold`]). It also stays
//!   while a checkpoint that wrote it is neither committed nor taken back.

use crate::bits::AtomicBitmap;
use crate::error::{Error, Result};
use crate::locks;
use crate::volume::io::BlockIo;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use steadyfs_device::PageBuf;
use steadyfs_format::nat::{self, NatEntry};
use steadyfs_format::{Ino, Layout, Lba, Nid, ROOT_INO, Slot, Width, zeroed_block};
use steadyfs_rt::{Cost, Leaf, RwLock, SharedLine, SplitCount, charge};

/// Least NAT blocks to keep in memory.
const LEAST: usize = 16;

/// Blocks that may leave are looked at this many times for each that comes.
const LOOKS: usize = 8;

/// Entries that a core counts for itself: only a checkpoint wants to know how many are dirty, and adds up.
const STRIDE: u32 = u32::MAX;

/// One entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NatInfo {
    /// Owner: for an inode, itself.
    pub(crate) ino: Ino,
    /// Raised each time a node with this id is freed.
    pub(crate) version: u8,
    /// `Hole`: the id is free. `New`: the node exists in memory only.
    pub(crate) addr: Slot,
}

impl NatInfo {
    /// The address may be anything: where it is used it has to lie in the main area.
    fn of(entry: NatEntry) -> Self {
        let addr = if entry.is_free() { Slot::Hole } else { Slot::At(entry.lba) };
        NatInfo { ino: entry.ino, version: entry.version, addr }
    }

    /// The on-disk form. An address that no entry can have, from a damaged table, becomes that of a superblock, where
    /// no node is either.
    fn to_entry(self, width: Width) -> NatEntry {
        assert!(self.addr != Slot::New, "a node that was never written cannot be in a checkpoint");
        let lba = self.addr.lba().unwrap_or(Lba(0));
        let lba = if width.holds(lba) { lba } else { Lba(1) };
        NatEntry { version: self.version, ino: self.ino, lba }
    }
}

/// An entry in memory, in 16 bytes.
#[derive(Clone, Copy)]
struct Entry {
    /// As in a slot of 8 bytes.
    addr: u64,
    ino: Ino,
    version: u8,
    /// The selected copy on disk does not hold it.
    dirty: bool,
}

const _: () = assert!(size_of::<Entry>() == Nat::ENTRY_BYTES);

impl Entry {
    fn new(NatInfo { ino, version, addr }: NatInfo, dirty: bool) -> Self {
        // The address may be one that no slot can have, in a damaged table; then it is one where no node is either.
        let addr = if addr == Slot::At(Lba(u64::MAX)) { Slot::At(Lba(1)) } else { addr };
        Entry { addr: addr.to_wide(), ino, version, dirty }
    }

    fn info(self) -> NatInfo {
        NatInfo { ino: self.ino, version: self.version, addr: Slot::from_wide(self.addr) }
    }
}

struct LoadedBlock {
    entries: Box<[Entry]>,
    dirty_count: u32,
    /// A checkpoint has taken it, and is neither committed nor taken back.
    taken: bool,
    /// Used again since it was loaded, or last looked at to leave.
    used: AtomicBool,
}

impl LoadedBlock {
    fn note_use(&self) {
        // A look is cheaper than a write where many cores use it.
        if !self.used.load(SeqCst) {
            self.used.store(true, SeqCst);
        }
    }
}

/// The table.
pub(crate) struct Nat {
    layout: Layout,
    blocks: Box<[RwLock<Option<LoadedBlock>>]>,
    /// Copy that the committed checkpoint selects, per block.
    selected: Box<[AtomicBool]>,
    dirty_blocks: AtomicBitmap,
    dirty_entries: SplitCount,
    /// Most blocks to keep when nothing keeps them.
    limit: usize,
    /// The blocks in memory, each once; those that were loaded or looked at last are last. This is no
    /// [`SecondChance`](crate::volume::second_chance::SecondChance): there a new entry takes the last seat, or that of
    /// the entry that leaves, and the hand soon comes by. Most blocks are not used a second time by then.
    loaded: Leaf<VecDeque<u32>>,
    /// How many rely on a block, per block.
    holds: Box<[AtomicU32]>,
    /// The cache lines of `holds`: one line has the counts of neighbouring blocks, which cores take side by side.
    hold_lines: Box<[SharedLine]>,
}

/// Holds on a cache line of 64 bytes.
const HOLDS_IN_LINE: usize = 16;

/// Somebody relies on a NAT block: it is in memory and stays there.
pub(crate) struct NatHold<'a>(&'a AtomicU32, &'a SharedLine);

impl Drop for NatHold<'_> {
    fn drop(&mut self) {
        self.1.write();
        let before = self.0.fetch_sub(1, SeqCst);
        assert!(before > 0, "a NAT block is let go of more often than it was held");
    }
}

/// A NAT block that a checkpoint must write, to the copy not selected now.
pub(crate) struct NatFlush {
    pub(crate) block: u32,
    pub(crate) lba: Lba,
    pub(crate) page: PageBuf,
}

impl Nat {
    /// Bytes of an entry in memory.
    const ENTRY_BYTES: usize = 16;

    /// A table whose blocks are on the device, selected by `version_bit(block)`. Of those in memory about `bytes` are
    /// kept.
    pub(crate) fn new(layout: &Layout, bytes: u64, version_bit: impl Fn(u32) -> bool) -> Self {
        let n = layout.nat_blocks();
        let block_bytes = Self::ENTRY_BYTES as u64 * u64::from(layout.nat_entries());
        Nat {
            limit: usize::try_from(bytes / block_bytes).unwrap_or(usize::MAX).max(LEAST),
            loaded: Leaf::new(VecDeque::new()),
            holds: (0..n).map(|_| AtomicU32::new(0)).collect(),
            hold_lines: (0..(n as usize).div_ceil(HOLDS_IN_LINE)).map(|_| SharedLine::new()).collect(),
            layout: *layout,
            blocks: (0..n).map(|_| RwLock::new(&locks::NAT, None)).collect(),
            selected: (0..n).map(|b| AtomicBool::new(version_bit(b))).collect(),
            dirty_blocks: AtomicBitmap::new(n as usize),
            dirty_entries: SplitCount::new(STRIDE),
        }
    }

    /// Node ids of a NAT block.
    pub(crate) fn per_block(&self) -> u32 {
        self.layout.nat_entries()
    }

    /// One past the largest node id.
    pub(crate) fn max_nid(&self) -> u32 {
        self.layout.max_nid().get()
    }

    fn place(&self, nid: Nid) -> Result<(usize, usize)> {
        if nid.is_null() || nid.get() >= self.max_nid() {
            return Err(Error::corrupt(format!("node id {nid} is outside the NAT")));
        }
        let (block, index) = self.layout.nat_place(nid);
        Ok((block as usize, index))
    }

    fn load(&self, io: &BlockIo, block: usize) -> Result<LoadedBlock> {
        let copy = self.selected[block].load(SeqCst);
        let page = io.read_block(self.layout.nat_block_lba(block as u32, copy))?;
        let width = self.layout.width;
        let nids = self.layout.nids_of(block as u32);
        let entry = |entry| Entry::new(NatInfo::of(entry), false);
        let entries = page.with(|bytes| nids.zip(nat::entries(bytes, width)).map(|(_, raw)| entry(raw)).collect());
        Ok(LoadedBlock { entries, dirty_count: 0, taken: false, used: AtomicBool::new(false) })
    }

    /// Has blocks leave that nothing keeps, until there are no more than the limit: first those not used since the last
    /// look at them. Where many are dirty it gives up, and there are more.
    fn shrink(&self) {
        for _ in 0..LOOKS {
            let Some(b) = self.loaded.with(|loaded| (loaded.len() > self.limit).then(|| loaded.pop_front()).flatten())
            else {
                return;
            };
            if !self.drop_unused(b as usize) {
                self.loaded.with(|loaded| loaded.push_back(b));
            }
        }
    }

    /// Drops a block from memory; false if something keeps it.
    fn drop_unused(&self, b: usize) -> bool {
        let Some(mut guard) = self.blocks[b].try_write() else { return false };
        let Some(block) = &*guard else { return true };
        let kept = block.used.swap(false, SeqCst) || block.taken || block.dirty_count > 0;
        // Under the lock: who holds the block from here on loads it again.
        if kept || self.holds[b].load(SeqCst) > 0 {
            return false;
        }
        assert!(!self.dirty_blocks.test(b), "NAT block {b} is dirty and leaves");
        *guard = None;
        true
    }

    /// Has the block of this node in memory as long as the hold lives: until then its entries can be looked at and
    /// changed without the device.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn hold(&self, io: &BlockIo, nid: Nid) -> Result<NatHold<'_>> {
        let (b, _) = self.place(nid)?;
        let line = &self.hold_lines[b / HOLDS_IN_LINE];
        line.write();
        self.holds[b].fetch_add(1, SeqCst);
        // First the hold, then the look, so that what is there stays.
        let hold = NatHold(&self.holds[b], line);
        self.get(io, nid)?;
        Ok(hold)
    }

    /// Blocks in memory.
    #[cfg(test)]
    fn loaded_count(&self) -> usize {
        self.blocks.iter().filter(|block| block.read().is_some()).count()
    }

    /// The entry of a node id.
    pub(crate) fn get(&self, io: &BlockIo, nid: Nid) -> Result<NatInfo> {
        charge(Cost::RadixLookup);
        let (b, i) = self.place(nid)?;
        if let Some(block) = &*self.blocks[b].read() {
            block.note_use();
            return Ok(block.entries[i].info());
        }
        self.change(io, nid, |info, _| *info)
    }

    /// Runs `f` on the entry under its lock; what `f` changes becomes dirty.
    fn change<R>(&self, io: &BlockIo, nid: Nid, f: impl FnOnce(&mut NatInfo, &mut bool) -> R) -> Result<R> {
        let (b, i) = self.place(nid)?;
        let mut guard = self.blocks[b].write();
        let is_new = guard.is_none();
        if is_new {
            *guard = Some(self.load(io, b)?);
            self.loaded.with(|loaded| loaded.push_back(b as u32));
        }
        let block = guard.as_mut().ok_or_else(|| Error::corrupt("NAT block vanished"))?;
        if !is_new {
            block.note_use();
        }
        let (mut info, mut touched) = (block.entries[i].info(), false);
        let out = f(&mut info, &mut touched);
        let was_dirty = block.entries[i].dirty;
        if touched {
            block.entries[i] = Entry::new(info, true);
        }
        if touched && !was_dirty {
            block.dirty_count += 1;
            assert!(
                block.dirty_count as usize <= block.entries.len(),
                "NAT block {b} has more dirty entries than entries"
            );
            self.dirty_entries.add(1);
            self.dirty_blocks.set(b);
        }
        drop(guard);
        if is_new {
            self.shrink();
        }
        Ok(out)
    }

    /// Refuses an entry of the checkpoint's journal that no node can have.
    pub(crate) fn check_journal(&self, nid: Nid, entry: NatEntry) -> Result<()> {
        self.place(nid)?;
        if self.layout.width.holds(entry.lba) {
            return Ok(());
        }
        Err(Error::corrupt(format!("the NAT entry of node {nid} has the impossible address {}", entry.lba)))
    }

    /// Installs an entry of the checkpoint's journal while mounting.
    pub(crate) fn load_journal(&self, io: &BlockIo, nid: Nid, entry: NatEntry) -> Result<()> {
        self.change(io, nid, |info, touched| {
            *info = NatInfo::of(entry);
            *touched = true;
        })
    }

    /// Gives a free id to a new node of `ino`; returns the version to use.
    pub(crate) fn assign(&self, io: &BlockIo, nid: Nid, ino: Ino) -> Result<u8> {
        self.change(io, nid, |info, touched| {
            assert!(info.addr == Slot::Hole, "{nid:?} is in use: {info:?}");
            *info = NatInfo { ino, version: info.version, addr: Slot::New };
            *touched = true;
            info.version
        })
    }

    /// Records where a node was written; returns where it was before.
    pub(crate) fn relocate(&self, io: &BlockIo, nid: Nid, to: Lba) -> Result<Slot> {
        self.change(io, nid, |info, touched| {
            assert!(info.addr != Slot::Hole, "a free node was written: {nid:?}");
            *touched = true;
            std::mem::replace(&mut info.addr, Slot::At(to))
        })
    }

    /// Frees a node id; returns where the node was. `before` comes before anybody can see that it is free, and after
    /// all that can fail.
    pub(crate) fn free(&self, io: &BlockIo, nid: Nid, before: impl FnOnce()) -> Result<Slot> {
        self.change(io, nid, |info, touched| {
            assert!(info.addr != Slot::Hole, "{nid:?} freed twice");
            before();
            *touched = true;
            info.version = info.version.wrapping_add(1);
            std::mem::replace(&mut info.addr, Slot::Hole)
        })
    }

    /// Node ids of one block that are free, in rising order.
    pub(crate) fn free_in_block(&self, io: &BlockIo, block: u32) -> Result<Vec<Nid>> {
        let first = self.layout.nids_of(block).start;
        let _stays = self.hold(io, Nid(first.max(1)))?;
        let guard = self.blocks[block as usize].read();
        let loaded = guard.as_ref().ok_or_else(|| Error::corrupt("NAT block vanished"))?;
        let free = loaded.entries.iter().enumerate().filter(|(_, e)| e.info().addr == Slot::Hole);
        Ok(free.map(|(i, _)| Nid(first + i as u32)).filter(|n| n.get() > ROOT_INO.get()).collect())
    }

    /// Has this block in memory.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn load_block(&self, io: &BlockIo, block: u32) -> Result<()> {
        let first = self.layout.nids_of(block).start;
        self.get(io, Nid(first.max(1))).map(drop)
    }

    /// Number of NAT blocks.
    pub(crate) fn block_count(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Entries that the blocks on disk do not hold; exact under the exclusive checkpoint lock.
    pub(crate) fn dirty_entries(&self) -> u64 {
        self.dirty_entries.total()
    }

    /// All dirty entries, for the journal. They stay dirty. Call under the exclusive checkpoint lock.
    pub(crate) fn dirty_for_journal(&self) -> Vec<(Nid, NatEntry)> {
        let mut out = Vec::new();
        for b in self.dirty_blocks.iter() {
            let guard = self.blocks[b].read();
            let Some(block) = &*guard else { continue };
            let nids = self.layout.nids_of(b as u32).map(Nid);
            let dirty = nids.zip(&block.entries).filter(|(_, entry)| entry.dirty);
            out.extend(dirty.map(|(nid, entry)| (nid, entry.info().to_entry(self.layout.width))));
        }
        assert_eq!(out.len() as u64, self.dirty_entries());
        out
    }

    /// All dirty blocks in their on-disk form, which become clean. Call under the exclusive checkpoint lock.
    pub(crate) fn take_dirty_blocks(&self) -> Vec<NatFlush> {
        let mut out = Vec::new();
        for b in self.dirty_blocks.iter() {
            let mut guard = self.blocks[b].write();
            let Some(block) = &mut *guard else { continue };
            let mut raw = zeroed_block();
            for (i, entry) in block.entries.iter_mut().enumerate() {
                nat::set_entry(&mut raw, self.layout.width, i, entry.info().to_entry(self.layout.width));
                entry.dirty = false;
            }
            self.dirty_entries.add(-i64::from(block.dirty_count));
            assert!(!block.taken, "NAT block {b} is taken by a second checkpoint");
            block.dirty_count = 0;
            block.taken = true;
            self.dirty_blocks.clear(b);
            let target = !self.selected[b].load(SeqCst);
            let lba = self.layout.nat_block_lba(b as u32, target);
            out.push(NatFlush { block: b as u32, lba, page: PageBuf::from_slice(&raw) });
        }
        assert_eq!(self.dirty_entries.sum(), 0, "dirty entries are left, or were counted twice");
        out
    }

    /// The checkpoint that was to write these blocks has failed: all their entries count as dirty.
    pub(crate) fn not_written(&self, taken: &[u32]) {
        for &b in taken {
            let mut guard = self.blocks[b as usize].write();
            let Some(block) = &mut *guard else { continue };
            let all = block.entries.len() as u32;
            self.dirty_entries.add(i64::from(all - block.dirty_count));
            block.entries.iter_mut().for_each(|entry| entry.dirty = true);
            block.dirty_count = all;
            block.taken = false;
            self.dirty_blocks.set(b as usize);
        }
    }

    /// Which copy of each block the committed checkpoint selects.
    pub(crate) fn selected(&self, block: u32) -> bool {
        self.selected[block as usize].load(SeqCst)
    }

    /// The checkpoint that wrote these blocks has committed.
    pub(crate) fn commit(&self, flushed: &[u32]) {
        for &b in flushed {
            let mut guard = self.blocks[b as usize].write();
            self.selected[b as usize].fetch_xor(true, SeqCst);
            let taken = guard.as_mut().is_some_and(|block| std::mem::take(&mut block.taken));
            assert!(taken, "NAT block {b} was written by a checkpoint that did not take it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mkfs::{self, MkfsOptions};
    use crate::raw::Image;
    use std::sync::Arc;
    use steadyfs_device::{Device, MemDevice};

    /// A table of an empty volume that keeps as few blocks as it may, and the volume's device.
    fn table() -> (Nat, Arc<BlockIo>) {
        let device: Arc<dyn Device> = Arc::new(MemDevice::new((256 << 20) / 4096));
        mkfs::format(&*device, &MkfsOptions::new([7; 16], 0)).unwrap();
        let image = Image::open(Arc::clone(&device)).unwrap();
        let nat = Nat::new(image.layout(), 0, |block| image.nat_version(block));
        assert!(nat.block_count() as usize > 4 * LEAST);
        (nat, BlockIo::new(device, 0))
    }

    /// The first id of each block behind the first one.
    fn firsts(nat: &Nat) -> impl Iterator<Item = Nid> + use<> {
        let per_block = nat.per_block();
        (1..nat.block_count()).map(move |block| Nid(block * per_block))
    }

    #[test]
    fn blocks_that_nothing_keeps_leave_where_there_are_more_than_the_limit() {
        let (nat, io) = table();
        let held = Nid(nat.per_block());
        let hold = nat.hold(&io, held).unwrap();
        for nid in firsts(&nat) {
            assert_eq!(nat.get(&io, nid).unwrap().addr, Slot::Hole);
            let count = nat.loaded_count();
            assert!(count <= LEAST + 1, "{count} blocks are in memory");
            assert!(nat.blocks[1].read().is_some(), "a block that is held has left");
        }
        assert_eq!(nat.loaded_count(), nat.loaded.with(|loaded| loaded.len()));
        drop(hold);
        for nid in firsts(&nat).skip(1) {
            nat.get(&io, nid).unwrap();
        }
        assert!(nat.blocks[1].read().is_none(), "what nobody holds any more stays");
    }

    #[test]
    fn what_no_checkpoint_has_written_stays_and_what_one_has_can_be_read_again() {
        let (nat, io) = table();
        let place = |nid: Nid| Lba(100_000 + u64::from(nid.get()));
        for nid in firsts(&nat) {
            nat.assign(&io, nid, nid.as_ino()).unwrap();
            nat.relocate(&io, nid, place(nid)).unwrap();
        }
        let count = firsts(&nat).count();
        let all_there = |nat: &Nat| {
            // As often as each block needs to be looked at twice, and more.
            (0..nat.block_count()).for_each(|_| nat.shrink());
            assert_eq!(nat.loaded_count(), count);
            assert!(firsts(nat).all(|nid| nat.get(&io, nid).unwrap().addr == Slot::At(place(nid))));
        };
        all_there(&nat);
        let taken = nat.take_dirty_blocks();
        let blocks: Vec<u32> = taken.iter().map(|flush| flush.block).collect();
        // A checkpoint is on its way.
        all_there(&nat);
        // It has failed.
        nat.not_written(&blocks);
        all_there(&nat);
        for flush in nat.take_dirty_blocks() {
            io.write_over(flush.lba, vec![flush.page], steadyfs_device::StreamHint::MetaHot, |_| ());
        }
        io.drain().unwrap();
        nat.commit(&blocks);
        while nat.loaded_count() > LEAST {
            nat.shrink();
        }
        assert!(firsts(&nat).all(|nid| nat.get(&io, nid).unwrap().addr == Slot::At(place(nid))));
        assert!(nat.loaded_count() <= LEAST + 1);
    }
}
