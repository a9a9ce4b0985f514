//! fsync of a small file with one flush: contents that recovery can check.
//!
//! The marked inode must not count while blocks that it points at may be missing. An fsync can flush the device before
//! it writes that inode. With a journal it need not: the batch before the inode names the file's blocks with their
//! checksums (`docs/JOURNAL-FORMAT.md` section 2), and the chain ends before a batch whose blocks did not arrive.
//!
//! Kept true: the blocks had been written when the batch took its place, or are written with it, under the same ticket
//! of the chain: whoever flushes for an fsync behind it waits for them, and flushes them, too. One that the device
//! refuses is noted before the ticket is gone: then no fsync succeeds by the chain unless a second attempt does. The
//! inode points at these blocks and at no others; nobody writes to them until the next checkpoint has committed.

use crate::canary::Canary;
use crate::durable::sync::is_chained;
use crate::durable::sync::together::Owed;
use crate::error::Result;
use crate::files::inode::Inode;
use crate::fs::Fs;
use crate::options::FsyncMode;
use crate::volume::nodes::slots::Area;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{Inode as RawInode, flags, inline};
use steadyfs_format::records::batch::{ContentsSum, MOST_CONTENTS};
use steadyfs_format::{BLOCK_SIZE, Block, Lba, PageIndex, Slot};
use steadyfs_rt::{Cost, charge_n};

/// The blocks of a file's contents, and their checksums.
pub(super) struct ContentsOnDevice {
    blocks: Vec<(PageIndex, Lba)>,
    pub(super) sums: Vec<ContentsSum>,
}

impl Fs {
    /// What recovery needs to check the contents of a file whose inode is about to be written, and no other node of it;
    /// `None` where a flush has to do. The file is locked, and its dirty pages have been written, or are owed by the
    /// caller, who writes them together with the batch that names them.
    ///
    /// # Errors
    /// Damage.
    pub(super) fn contents_on_device(&self, inode: &Arc<Inode>, owed: &Owed<'_>) -> Result<Option<ContentsOnDevice>> {
        let flushes = self.options.fsync_mode != FsyncMode::NoBarrier;
        if !self.keeps_contents() || !flushes || inode.kind != FileType::Regular || !self.is_alone(inode) {
            return Ok(None);
        }
        let Some(blocks) = self.blocks_of(inode.node.read().bytes())? else { return Ok(None) };
        let (lacks, have): (Vec<_>, Vec<_>) = blocks.iter().copied().partition(|(_, lba)| owed.page(*lba).is_none());
        let (pages, lbas): (Vec<PageIndex>, Vec<Lba>) = lacks.into_iter().unzip();
        // After the addresses: who moves one of these blocks now changes its address first.
        let Some(pages) = self.budget.cache(inode).landed(&pages) else { return Ok(None) };
        if !self.vol.io.have_landed(&lbas) {
            return Ok(None);
        }
        let seed = self.vol.sb.inode_checksum_seed();
        charge_n(Cost::Checksum, blocks.len() as u64);
        let sum = |(lba, page): (Lba, &PageBuf)| page.with(|bytes| ContentsSum::of(lba, bytes, seed));
        let with_me = have.into_iter().filter_map(|(_, lba)| Some((lba, owed.page(lba)?)));
        let mut sums: Vec<ContentsSum> = lbas.into_iter().zip(&pages).chain(with_me).map(sum).collect();
        if self.vol.io.planted.is(Canary::UncheckedContents) {
            sums.clear();
        }
        Ok(Some(ContentsOnDevice { blocks, sums }))
    }

    /// Whether the inode still points at these blocks, and no others.
    ///
    /// # Errors
    /// Damage.
    pub(super) fn points_at(&self, inode: &Block, contents: &ContentsOnDevice) -> Result<bool> {
        Ok(self.blocks_of(inode)?.as_ref() == Some(&contents.blocks))
    }

    /// Whether the inode is the only node of its file that is dirty, or in the chain without a mark behind it: of other
    /// nodes recovery cannot tell whether they are whole.
    fn is_alone(&self, inode: &Inode) -> bool {
        let dirty = self.vol.nodes.dirt.of(inode.ino);
        !dirty.is_empty() && !dirty.iter().any(is_chained) && !self.vol.nodes.dirt.standing(inode.ino).unmarked
    }

    /// The blocks of a file, if there are few.
    fn blocks_of(&self, inode: &Block) -> Result<Option<Vec<(PageIndex, Lba)>>> {
        let raw = RawInode::view(inode);
        if raw.has_inline(inline::DATA) {
            return Ok(Some(Vec::new()));
        }
        let pages = raw.size().div_ceil(BLOCK_SIZE as u64);
        // Compressed contents are another matter than pages.
        if pages > MOST_CONTENTS as u64 || raw.flags() & flags::COMPR != 0 {
            return Ok(None);
        }
        let area = Area::of(inode, self.vol.sb.features())?;
        let mut blocks = Vec::new();
        for page in 0..pages.min(u64::from(area.len())) {
            match area.get(inode, page as u16) {
                Slot::At(lba) => blocks.push((PageIndex(page), lba)),
                Slot::Hole | Slot::New => {}
                Slot::Compress => return Ok(None),
            }
        }
        Ok((pages <= u64::from(area.len())).then_some(blocks))
    }
}
