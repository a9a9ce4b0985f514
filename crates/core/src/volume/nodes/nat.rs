//! The node address table in memory: node id -> {owner, version, address}.
//!
//! NAT blocks are loaded when first needed and stay; each has a lock of its own, so there is no lock over the table. An
//! entry is *dirty* while the NAT block that the committed checkpoint selects does not hold it: entries that travel in
//! the checkpoint's journal stay dirty until a later checkpoint writes their block (format sections 3.5, 4).
//!
//! Kept true: an address of `NEW` (a node that was never written) never reaches the disk, because a checkpoint writes
//! all dirty nodes first; a freed id keeps a version one higher than its last use; the selected copy of a block is
//! never overwritten.

use crate::bits::AtomicBitmap;
use crate::error::{Error, Result};
use crate::locks;
use crate::volume::io::BlockIo;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use steadyfs_device::PageBuf;
use steadyfs_format::nat::{self, NatEntry};
use steadyfs_format::{Ino, Layout, Lba, Nid, ROOT_INO, Slot, Width, zeroed_block};
use steadyfs_rt::{Cost, RwLock, charge};

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

struct LoadedBlock {
    entries: Box<[NatInfo]>,
    /// Entries that the selected copy on disk does not hold.
    dirty: Box<[bool]>,
    dirty_count: u32,
}

/// The table.
pub(crate) struct Nat {
    layout: Layout,
    blocks: Box<[RwLock<Option<LoadedBlock>>]>,
    /// Copy that the committed checkpoint selects, per block.
    selected: Box<[AtomicBool]>,
    dirty_blocks: AtomicBitmap,
    dirty_entries: AtomicU64,
}

/// A NAT block that a checkpoint must write, to the copy not selected now.
pub(crate) struct NatFlush {
    pub(crate) block: u32,
    pub(crate) lba: Lba,
    pub(crate) page: PageBuf,
}

impl Nat {
    /// A table whose blocks are on the device, selected by `version_bit(block)`.
    pub(crate) fn new(layout: &Layout, version_bit: impl Fn(u32) -> bool) -> Self {
        let n = layout.nat_blocks();
        Nat {
            layout: *layout,
            blocks: (0..n).map(|_| RwLock::new(&locks::NAT, None)).collect(),
            selected: (0..n).map(|b| AtomicBool::new(version_bit(b))).collect(),
            dirty_blocks: AtomicBitmap::new(n as usize),
            dirty_entries: AtomicU64::new(0),
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
        let entries: Box<[NatInfo]> =
            page.with(|bytes| nids.zip(nat::entries(bytes, width)).map(|(_, entry)| NatInfo::of(entry)).collect());
        Ok(LoadedBlock { dirty: vec![false; entries.len()].into(), entries, dirty_count: 0 })
    }

    /// The entry of a node id.
    pub(crate) fn get(&self, io: &BlockIo, nid: Nid) -> Result<NatInfo> {
        charge(Cost::RadixLookup);
        let (b, i) = self.place(nid)?;
        if let Some(block) = &*self.blocks[b].read() {
            return Ok(block.entries[i]);
        }
        self.change(io, nid, |info, _| *info)
    }

    /// Runs `f` on the entry under its lock; what `f` changes becomes dirty.
    fn change<R>(&self, io: &BlockIo, nid: Nid, f: impl FnOnce(&mut NatInfo, &mut bool) -> R) -> Result<R> {
        let (b, i) = self.place(nid)?;
        let mut guard = self.blocks[b].write();
        if guard.is_none() {
            *guard = Some(self.load(io, b)?);
        }
        let block = guard.as_mut().ok_or_else(|| Error::corrupt("NAT block vanished"))?;
        let mut touched = false;
        let out = f(&mut block.entries[i], &mut touched);
        if touched && !block.dirty[i] {
            block.dirty[i] = true;
            block.dirty_count += 1;
            assert!(
                block.dirty_count as usize <= block.entries.len(),
                "NAT block {b} has more dirty entries than entries"
            );
            self.dirty_entries.fetch_add(1, SeqCst);
            self.dirty_blocks.set(b);
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

    /// Frees a node id; returns where the node was.
    pub(crate) fn free(&self, io: &BlockIo, nid: Nid) -> Result<Slot> {
        self.change(io, nid, |info, touched| {
            assert!(info.addr != Slot::Hole, "{nid:?} freed twice");
            *touched = true;
            info.version = info.version.wrapping_add(1);
            std::mem::replace(&mut info.addr, Slot::Hole)
        })
    }

    /// Node ids of one block that are free, in rising order.
    pub(crate) fn free_in_block(&self, io: &BlockIo, block: u32) -> Result<Vec<Nid>> {
        self.load_block(io, block)?;
        let first = self.layout.nids_of(block).start;
        let guard = self.blocks[block as usize].read();
        let loaded = guard.as_ref().ok_or_else(|| Error::corrupt("NAT block vanished"))?;
        let free = loaded.entries.iter().enumerate().filter(|(_, e)| e.addr == Slot::Hole);
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

    /// Entries that the blocks on disk do not hold.
    pub(crate) fn dirty_entries(&self) -> u64 {
        self.dirty_entries.load(SeqCst)
    }

    /// All dirty entries, for the journal. They stay dirty. Call under the exclusive checkpoint lock.
    pub(crate) fn dirty_for_journal(&self) -> Vec<(Nid, NatEntry)> {
        let mut out = Vec::new();
        for b in self.dirty_blocks.iter() {
            let guard = self.blocks[b].read();
            let Some(block) = &*guard else { continue };
            let nids = self.layout.nids_of(b as u32).map(Nid);
            let dirty = nids.zip(block.dirty.iter().zip(&block.entries)).filter(|(_, (dirty, _))| **dirty);
            out.extend(dirty.map(|(nid, (_, info))| (nid, info.to_entry(self.layout.width))));
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
            for (i, info) in block.entries.iter().enumerate() {
                nat::set_entry(&mut raw, self.layout.width, i, info.to_entry(self.layout.width));
            }
            let before = self.dirty_entries.fetch_sub(u64::from(block.dirty_count), SeqCst);
            assert!(before >= u64::from(block.dirty_count), "NAT block {b} has more dirty entries than the table");
            block.dirty.fill(false);
            block.dirty_count = 0;
            self.dirty_blocks.clear(b);
            let target = !self.selected[b].load(SeqCst);
            let lba = self.layout.nat_block_lba(b as u32, target);
            out.push(NatFlush { block: b as u32, lba, page: PageBuf::from_slice(&raw) });
        }
        assert_eq!(self.dirty_entries(), 0);
        out
    }

    /// The checkpoint that was to write these blocks has failed: all their entries count as dirty.
    pub(crate) fn not_written(&self, taken: &[u32]) {
        for &b in taken {
            let mut guard = self.blocks[b as usize].write();
            let Some(block) = &mut *guard else { continue };
            let all = block.entries.len() as u32;
            self.dirty_entries.fetch_add(u64::from(all - block.dirty_count), SeqCst);
            block.dirty.fill(true);
            block.dirty_count = all;
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
            self.selected[b as usize].fetch_xor(true, SeqCst);
        }
    }
}
