//! Changing a volume behind everybody's back, one field at a time.
//!
//! Works on the raw layer and the format only. Checksums are put right after each change unless the change is about
//! them.

use std::sync::Arc;
use steadyfs_core::raw::{Image, Superblocks};
use steadyfs_device::{Device, MemDevice, PageBuf};
use steadyfs_format::block::{Block, BlockView};
use steadyfs_format::checkpoint::Checkpoint;
use steadyfs_format::dir::{Dentries, DentriesMut, FileType, name_hash};
use steadyfs_format::inode::{Inode, InodeShape};
use steadyfs_format::journal::Journal;
use steadyfs_format::nat::{NatBlock, NatEntry};
use steadyfs_format::node::{DirectNode, NodeBlock};
use steadyfs_format::quota;
use steadyfs_format::sit::{SitBlock, SitEntry, VALID_MAP_BYTES};
use steadyfs_format::summary::SummaryBlock;
use steadyfs_format::superblock::{QuotaKind, RawSuperBlock};
use steadyfs_format::{Ino, Layout, Lba, Log, Nid, ROOT_INO, SegNo, Slot, SuperBlock, bitmap};

/// A volume under change.
pub(crate) struct Editor {
    pub(crate) dev: Arc<MemDevice>,
}

/// Everything in a checkpoint pack that can be changed.
pub(crate) struct Pack {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) orphans: Vec<Ino>,
    pub(crate) data: [SummaryBlock; 3],
    pub(crate) nodes: Option<[SummaryBlock; 3]>,
}

/// Where an entry of a directory is.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) ino: Ino,
    /// Number of the directory's block; `None` in an inline directory.
    pub(crate) page: Option<u16>,
    pub(crate) slot: u16,
}

impl Editor {
    pub(crate) fn new(dev: MemDevice) -> Self {
        Editor { dev: Arc::new(dev) }
    }

    pub(crate) fn image(&self) -> Image {
        Image::open(Arc::clone(&self.dev) as Arc<dyn Device>).expect("still a volume")
    }

    /// Where everything is, also on a volume whose checkpoint is gone.
    pub(crate) fn image_layout(&self) -> Layout {
        *Superblocks::read(&*self.dev).chosen().expect("still a superblock").layout()
    }

    pub(crate) fn block(&self, lba: Lba) -> Block {
        *self.dev.read_one(lba.get()).expect("in range").to_array()
    }

    /// Changes the bytes of a block.
    pub(crate) fn edit<R>(&self, lba: Lba, change: impl FnOnce(&mut Block) -> R) -> R {
        let mut block = self.block(lba);
        let result = change(&mut block);
        self.dev.write(lba.get(), vec![PageBuf::from_slice(&block)]).expect("in range");
        result
    }

    /// Changes both superblocks.
    pub(crate) fn superblock(&self, change: impl Fn(&mut RawSuperBlock)) {
        for lba in [Lba(0), Lba(1)] {
            self.edit(lba, |block| {
                let mut raw = RawSuperBlock::read(block);
                change(&mut raw);
                SuperBlock::new(raw).expect("still a superblock").encode_into(block);
            });
        }
    }

    /// Changes the checkpoint in force, in place. Its checksum changes, so `nat_bits` no longer belong to it.
    pub(crate) fn pack(&self, change: impl FnOnce(&mut Pack)) {
        let image = self.image();
        let summaries = |logs: [Log; 3]| logs.map(|log| image.pack_summary(log).cloned());
        let mut pack = Pack {
            checkpoint: image.checkpoint().clone(),
            orphans: image.orphans().expect("readable"),
            data: summaries(Log::DATA).map(|summary| summary.expect("every pack has data summaries")),
            nodes: match summaries(Log::NODE) {
                [Some(hot), Some(warm), Some(cold)] => Some([hot, warm, cold]),
                _ => None,
            },
        };
        change(&mut pack);
        let Pack { mut checkpoint, orphans, data, nodes } = pack;
        let blocks = checkpoint.encode_pack(&orphans, &data, nodes.as_ref()).expect("the pack has room");
        let pages = blocks.iter().map(|block| PageBuf::from_slice(block)).collect();
        self.dev.write(image.layout().pack(image.pack()).get(), pages).expect("in range");
    }

    /// The NAT entry of an id.
    pub(crate) fn nat(&self, nid: Nid) -> NatEntry {
        self.image().nat(nid).expect("in the NAT")
    }

    /// Changes a NAT entry where it counts: in the journal if it is there, else in its block.
    pub(crate) fn edit_nat(&self, nid: Nid, change: impl FnOnce(&mut NatEntry)) {
        let image = self.image();
        let mut entry = self.nat(nid);
        change(&mut entry);
        if image.nat_journal().iter().any(|(other, _)| *other == nid) {
            return self.pack(|pack| {
                let mut entries = pack.data[0].journal.nat().expect("sound");
                entries.iter_mut().filter(|(other, _)| *other == nid).for_each(|(_, old)| *old = entry);
                pack.data[0].journal = Journal::from_nat(&entries).expect("as many as before");
            });
        }
        let (block, index) = image.layout().nat_place(nid);
        self.edit(image.nat_lba(block), |bytes| NatBlock::view_mut(bytes).set(index, entry));
    }

    /// Moves all journal entries into the tables, so that the journals have room.
    pub(crate) fn flush_journals(&self) {
        let image = self.image();
        for (nid, entry) in image.nat_journal().iter().rev() {
            let (block, index) = image.layout().nat_place(*nid);
            self.edit(image.nat_lba(block), |bytes| NatBlock::view_mut(bytes).set(index, *entry));
        }
        for (segno, entry) in image.sit_journal() {
            let (block, index) = image.layout().sit_place(*segno);
            self.edit(image.sit_lba(block), |bytes| SitBlock::view_mut(bytes).set(index, *entry));
        }
        self.pack(|pack| {
            pack.data[0].journal = Journal::default();
            pack.data[2].journal = Journal::default();
        });
    }

    /// An id that is not in use and not the first of its NAT block.
    pub(crate) fn unused_nid(&self) -> Nid {
        let image = self.image();
        let free = |nid: &Nid| image.nat(*nid).expect("in the NAT").is_free();
        (5..455).rev().map(Nid).find(free).expect("the first NAT block has a free id")
    }

    /// The SIT entry of a segment.
    pub(crate) fn sit(&self, segno: SegNo) -> SitEntry {
        self.image().sit(segno).expect("in range")
    }

    /// Changes the SIT entry of a segment where it counts.
    pub(crate) fn edit_sit(&self, segno: SegNo, change: impl FnOnce(SitEntry) -> SitEntry) {
        let image = self.image();
        let entry = change(self.sit(segno));
        if image.sit_journal().iter().any(|(other, _)| *other == segno) {
            return self.pack(|pack| {
                let mut entries = pack.data[2].journal.sit().expect("sound");
                entries.iter_mut().filter(|(other, _)| *other == segno).for_each(|(_, old)| *old = entry);
                pack.data[2].journal = Journal::from_sit(&entries).expect("as many as before");
            });
        }
        let (block, index) = image.layout().sit_place(segno);
        self.edit(image.sit_lba(block), |bytes| SitBlock::view_mut(bytes).set(index, entry));
    }

    /// Marks a block in the SIT as valid or not, count and all.
    pub(crate) fn set_valid(&self, lba: Lba, valid: bool) {
        let (segno, offset) = self.segment_of(lba);
        self.edit_sit(segno, |entry| {
            let mut map: [u8; VALID_MAP_BYTES] = *entry.valid_map();
            assert_ne!(bitmap::msb::replace(&mut map, offset.into(), valid), valid, "something changes");
            SitEntry::new(entry.log().expect("sound"), map, entry.mtime())
        });
    }

    pub(crate) fn segment_of(&self, lba: Lba) -> (SegNo, u16) {
        self.image().layout().seg_of(lba).expect("in the main area")
    }

    /// A segment whose type this is, with at least `blocks` valid ones, that no log has open.
    pub(crate) fn closed_segment(&self, log: Log, blocks: u16) -> SegNo {
        let image = self.image();
        let fits = |entry: &SitEntry| entry.log() == Some(log) && entry.valid_blocks() >= blocks;
        let sit = image.load_sit().expect("readable");
        let mut segments = (0..).map(SegNo).zip(&sit);
        let found = segments.find(|(segno, entry)| fits(entry) && image.log_at(*segno).is_none());
        found.unwrap_or_else(|| panic!("no closed {log} segment")).0
    }

    /// Where a node is.
    pub(crate) fn lba(&self, nid: Nid) -> Lba {
        self.nat(nid).lba
    }

    pub(crate) fn read_inode(&self, ino: Ino) -> (Inode, InodeShape) {
        let inode = Inode::view(&self.block(self.lba(ino.nid()))).clone();
        let shape = inode.shape(self.image().superblock().features()).expect("sound");
        (inode, shape)
    }

    /// Changes an inode; its checksum follows.
    pub(crate) fn inode(&self, ino: Ino, change: impl FnOnce(&mut Inode)) {
        let image = self.image();
        let superblock = image.superblock();
        self.edit(self.lba(ino.nid()), |bytes| {
            let inode = Inode::view_mut(bytes);
            change(inode);
            inode.update_checksum(superblock.features(), superblock.inode_checksum_seed());
        });
    }

    /// Changes the same with the inode's shape at hand.
    pub(crate) fn shaped(&self, ino: Ino, change: impl FnOnce(&mut Inode, InodeShape)) {
        let (_, shape) = self.read_inode(ino);
        self.inode(ino, |inode| change(inode, shape));
    }

    /// Changes any node but an inode.
    pub(crate) fn node(&self, nid: Nid, change: impl FnOnce(&mut NodeBlock)) {
        self.edit(self.lba(nid), |bytes| change(NodeBlock::view_mut(bytes)));
    }

    /// The first address slot of an inode that holds an address.
    pub(crate) fn first_block(&self, ino: Ino) -> (u16, Lba) {
        let (inode, shape) = self.read_inode(ino);
        let mut slots = (0..).zip(inode.slots(shape));
        slots.find_map(|(at, slot)| Some((at, slot.lba()?))).expect("the file has blocks")
    }

    pub(crate) fn direct(&self, nid: Nid) -> DirectNode {
        DirectNode::view(&self.block(self.lba(nid))).clone()
    }

    /// The entries of a directory, dots included.
    pub(crate) fn entries(&self, dir: Ino) -> Vec<Entry> {
        let (inode, shape) = self.read_inode(dir);
        if inode.has_inline(steadyfs_format::inode::inline::DENTRY) {
            return collect(Dentries::inline(inode.inline_area(shape)), None);
        }
        let blocks = (0..).zip(inode.slots(shape)).filter_map(|(page, slot)| Some((page, slot.lba()?)));
        blocks.flat_map(|(page, lba)| collect(Dentries::block(&self.block(lba)), Some(page))).collect()
    }

    pub(crate) fn entry(&self, dir: Ino, name: &str) -> Entry {
        let mut entries = self.entries(dir).into_iter();
        entries.find(|entry| entry.name == name.as_bytes()).unwrap_or_else(|| panic!("no {name}"))
    }

    /// The inode at a path.
    pub(crate) fn ino(&self, path: &str) -> Ino {
        path.split('/').filter(|part| !part.is_empty()).fold(ROOT_INO, |dir, name| self.entry(dir, name).ino)
    }

    /// Changes the raw bytes of a directory's page (its inline area for `None`).
    pub(crate) fn area<R>(&self, dir: Ino, page: Option<u16>, change: impl FnOnce(&mut [u8]) -> R) -> R {
        let (inode, shape) = self.read_inode(dir);
        match page {
            None => {
                let mut result = None;
                self.inode(dir, |inode| result = Some(change(inode.inline_area_mut(shape))));
                result.expect("the change was made")
            }
            Some(page) => {
                let lba = inode.slot(shape, page).lba().expect("a block of the directory");
                self.edit(lba, |block| change(block))
            }
        }
    }

    /// Changes the entries of a directory's page.
    pub(crate) fn dentries<R>(&self, dir: Ino, page: Option<u16>, change: impl FnOnce(&mut DentriesMut<'_>) -> R) -> R {
        self.area(dir, page, |area| match page {
            None => change(&mut DentriesMut::inline(area)),
            Some(_) => change(&mut DentriesMut::block(area.try_into().expect("one block"))),
        })
    }

    /// Adds a name to the first page of a directory (or its inline area), and a link to the file that it names. Returns
    /// its slot.
    pub(crate) fn add_name(&self, dir: Ino, name: &[u8], target: Ino, kind: FileType) -> u16 {
        self.inode(target, |inode| inode.set_links(inode.links() + 1));
        let page = self.entry(dir, ".").page;
        self.dentries(dir, page, |entries| entries.insert(name_hash(name), name, target, kind)).expect("there is room")
    }

    /// Removes a name; nothing else changes.
    pub(crate) fn remove_name(&self, dir: Ino, name: &str) {
        let entry = self.entry(dir, name);
        assert!(self.dentries(dir, entry.page, |entries| entries.remove(entry.slot)));
    }

    /// Changes the 11-byte record of an entry.
    pub(crate) fn record(&self, dir: Ino, page: Option<u16>, slot: u16, change: impl FnOnce(&mut [u8])) {
        self.area(dir, page, |area| {
            let layout = if page.is_some() {
                Dentries::block(area[..].try_into().expect("one block")).layout()
            } else {
                Dentries::inline(area).layout()
            };
            let slots = usize::from(layout.slots());
            let at = area.len() - slots * 19 + usize::from(slot) * 11;
            change(&mut area[at..at + 11]);
        });
    }

    /// Turns a file into an orphan: no name, no link. The caller lists it (or not).
    pub(crate) fn make_orphan(&self, dir: &str, name: &str) -> Ino {
        let dir = self.ino(dir);
        let ino = self.entry(dir, name).ino;
        self.remove_name(dir, name);
        self.inode(ino, |inode| inode.set_links(0));
        ino
    }

    /// The file of a quota: its inode, and what it says.
    pub(crate) fn quota(&self, kind: QuotaKind) -> (Ino, Vec<quota::Entry>) {
        let ino = self.image().superblock().quota_ino(kind).expect("the volume has it");
        let size = self.read_inode(ino).0.size();
        let block = |number: u32| {
            let lba = self.slot(ino, (number / 4) as u16).lba();
            let at = number as usize % 4;
            Ok::<_, ()>(lba.map(|lba| self.block(lba).as_chunks().0[at]))
        };
        (ino, quota::read(kind, size, block).expect("a sound quota file"))
    }

    /// Changes 32-bit words of a quota file: tree block, word in it, value.
    pub(crate) fn quota_words(&self, kind: QuotaKind, words: &[(u32, usize, u32)]) {
        let (ino, _) = self.quota(kind);
        for &(block, word, value) in words {
            let lba = self.slot(ino, (block / 4) as u16).lba().expect("a block of the file");
            let at = block as usize % 4 * quota::TREE_BLOCK + word * 4;
            self.edit(lba, |bytes| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes()));
        }
    }

    /// Makes a quota file say this; the entries have room in the blocks that it has.
    pub(crate) fn set_quota(&self, kind: QuotaKind, entries: &[quota::Entry]) {
        let (ino, _) = self.quota(kind);
        let bytes = quota::encode(kind, entries);
        assert!(bytes.len() as u64 <= self.read_inode(ino).0.size(), "no more blocks than before");
        for (page, chunk) in (0..).zip(bytes.chunks(4096)) {
            let lba = self.slot(ino, page).lba().expect("a block of the file");
            self.edit(lba, |block| block[..chunk.len()].copy_from_slice(chunk));
        }
    }

    /// What a slot of an inode holds.
    pub(crate) fn slot(&self, ino: Ino, index: u16) -> Slot {
        let (inode, shape) = self.read_inode(ino);
        inode.slot(shape, index)
    }
}

fn collect(entries: Dentries<'_>, page: Option<u16>) -> Vec<Entry> {
    let sound = entries.iter().map(|entry| entry.expect("a sound directory"));
    sound.map(|entry| Entry { name: entry.name.to_vec(), ino: entry.ino, page, slot: entry.slot }).collect()
}
