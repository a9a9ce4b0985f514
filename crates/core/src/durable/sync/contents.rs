//! fsync of a small file with one flush: contents that recovery can check.
//!
//! The marked inode must not count while blocks that it points at may be missing. An fsync can flush the device before
//! it writes that inode. With a journal it need not: the batch before the inode names the file's blocks with their
//! checksums (`docs/JOURNAL-FORMAT.md` section 2), and the chain ends before a batch whose blocks did not arrive.
//!
//! Kept true: the blocks had been written when the batch took its place, or are written with it, under the same ticket
//! of the chain. So a thread that flushes for an fsync behind it waits for them, and flushes them, too. A block that
//! the device refuses is noted before the ticket is gone: then no fsync succeeds by the chain unless a second attempt
//! does. The inode points at these blocks and at no others; nobody writes to them until the next checkpoint has
//! committed.

use crate::canary::Canary;
use crate::durable::Durable;
use crate::durable::sync::is_chained;
use crate::durable::sync::together::Owed;
use crate::error::Result;
use crate::files::inode::Inode;
use crate::options::FsyncMode;
use crate::volume::Volume;
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

impl Volume {
    /// Whether the inode still points at these blocks, and no others.
    ///
    /// # Errors
    /// Damage.
    pub(super) fn points_at(&self, inode: &Block, contents: &ContentsOnDevice) -> Result<bool> {
        Ok(self.blocks_of(inode)?.as_ref() == Some(&contents.blocks))
    }

    /// Whether the inode is the only node of its file that is dirty: of other nodes recovery cannot tell whether they
    /// are whole. Of those that lie in the chain without a mark behind them `place_nodes` knows, later.
    fn is_alone(&self, inode: &Inode) -> bool {
        let dirty = self.nodes.dirt.of(inode.ino);
        !dirty.is_empty() && !dirty.iter().any(is_chained)
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
        let area = Area::of(inode, self.sb.features())?;
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

impl Durable {
    /// What recovery needs to check the contents of a file whose inode is about to be written, and no other node of it;
    /// `None` where a flush has to do. The file is locked, and its dirty pages have been written, or are owed by the
    /// caller, who writes them together with the batch that names them.
    ///
    /// # Errors
    /// Damage.
    pub(super) fn contents_on_device(&self, inode: &Arc<Inode>, owed: &Owed<'_>) -> Result<Option<ContentsOnDevice>> {
        let flushes = self.files.options.fsync_mode != FsyncMode::NoBarrier;
        if !self.keeps_contents() || !flushes || inode.kind != FileType::Regular || !self.vol.is_alone(inode) {
            return Ok(None);
        }
        let Some(blocks) = self.vol.blocks_of(inode.node.read().bytes())? else { return Ok(None) };
        let (lacks, have): (Vec<_>, Vec<_>) = blocks.iter().copied().partition(|(_, lba)| owed.page(*lba).is_none());
        let (pages, lbas): (Vec<PageIndex>, Vec<Lba>) = lacks.into_iter().unzip();
        // After the addresses: who moves one of these blocks now changes its address first.
        let Some(pages) = self.files.budget.cache(inode).landed(&pages) else { return Ok(None) };
        if !self.vol.io.have_landed(&lbas) && !steadyfs_rt::mutated("named-contents-have-landed") {
            return Ok(None);
        }
        let seed = self.vol.sb.inode_checksum_seed();
        charge_n(Cost::Checksum, blocks.len() as u64);
        let sum = |(lba, page): (Lba, &PageBuf)| page.with(|bytes| ContentsSum::of(lba, bytes, seed));
        let with_me = have.into_iter().filter_map(|(_, lba)| Some((lba, owed.page(lba)?)));
        let mut sums: Vec<ContentsSum> = lbas.into_iter().zip(&pages).chain(with_me).map(sum).collect();
        assert_eq!(sums.len(), blocks.len(), "recovery would check a part of the contents of inode {}", inode.ino);
        if self.vol.io.planted.is(Canary::UncheckedContents) {
            sums.clear();
        }
        Ok(Some(ContentsOnDevice { blocks, sums }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Plan;
    use super::super::together::tests::{mounted, write};
    use super::*;
    use crate::gate::Want;
    use crate::volume::io::Written;
    use steadyfs_device::StreamHint;

    /// Whoever moves a block submits the write of its new place first, and says then where it is. The page is as clean
    /// as before.
    #[test]
    fn a_batch_names_no_block_that_is_on_its_way() {
        let (_, _, fs) = mounted();
        let file = write(&fs, b"file", &[1; 8192]);
        fs.fsync(&file, false).unwrap();
        fs.setattr(&file, &crate::SetAttr { mode: Some(0o600), ..crate::SetAttr::default() }).unwrap();
        let named = || {
            let owed = Owed::none(&fs.vol);
            fs.durable.contents_on_device(&file.inode, &owed).unwrap().map(|contents| contents.sums.len())
        };
        assert_eq!(named(), Some(2));
        let blocks = fs.vol.blocks_of(file.inode.node.read().bytes()).unwrap().expect("a small file");
        fn nothing() -> impl Written {
            |_| ()
        }
        let page = fs.vol.io.read_block(blocks[1].1).unwrap();
        let moved = fs.vol.io.prepare(blocks[1].1, vec![page], StreamHint::DataCold, nothing());
        assert_eq!(named(), None, "the second block is on its way");
        fs.vol.io.submit(vec![moved]);
        assert_eq!(named(), Some(2));
    }

    /// A checkpoint that begins writes nodes, also between the look at the contents and the place of the inode.
    #[test]
    fn an_inode_behind_a_node_without_a_mark_is_not_checked() {
        let (_, _, fs) = mounted();
        let file = write(&fs, b"file", &[1; 4096]);
        let change = fs.files.gate.begin(Want::blocks(1)).unwrap();
        let (placed, owed) = fs.durable.place_contents(&change, &file.inode, 1).unwrap();
        change.used(placed);
        let owed = owed.expect("all of them");
        let contents = fs.durable.contents_on_device(&file.inode, &owed).unwrap();
        assert!(contents.is_some(), "recovery could check them");
        fs.vol.write_dirty_nodes(&change, fs.durable.checkpoints.stamp()).unwrap();
        let (breaks, route) = (fs.durable.checkpoints.breaks(), fs.durable.fsync_route(&file.inode).unwrap());
        let plan = Plan { breaks, route, owed, contents };
        let chained = fs.durable.place_chain(&change, &file.inode, false, plan).unwrap().expect("the journal is whole");
        assert!(!chained.last.as_ref().expect("the inode").is_checked, "nobody flushes what lies before it");
        drop(change);
        fs.durable.finish(chained).unwrap();
    }
}
