//! Placing pages: taking the next blocks of a log for pages of one node, starting their writes, and pointing the slots
//! there.

use crate::error::{Error, Result};
use crate::volume::nodes::cache::NodeWrite;
use crate::volume::nodes::leaf::Leaf;
use crate::volume::nodes::nat::NatInfo;
use crate::volume::nodes::slots::{self, Area};
use crate::volume::placement::places::OverwritePlace;
use crate::volume::segments::logs;
use crate::volume::{Change, Volume};
use std::sync::Arc;
use steadyfs_device::{IoError, PageBuf};
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{Inode as RawInode, advise, flags};
use steadyfs_format::node::NodeBlock;
use steadyfs_format::summary::Summary;
use steadyfs_format::{Block, Lba, Log, Nid, PageIndex, Slot};

/// Called when the write of a run of pages has ended.
pub(crate) type Ended = Box<dyn FnOnce(std::result::Result<(), IoError>) + Send>;

/// The log that an inode's data goes to, by F2FS' rules (format section 11): directories and files marked hot are
/// rewritten soon, media files and compressed ones stay.
pub(crate) fn data_log(raw: &RawInode) -> Log {
    let compressed = raw.flags() & flags::COMPR != 0;
    match raw.file_type() {
        Some(FileType::Dir) => Log::HotData,
        _ if raw.advise() & advise::COLD != 0 || compressed => Log::ColdData,
        _ if raw.advise() & advise::HOT != 0 => Log::HotData,
        _ => Log::WarmData,
    }
}

impl Volume {
    /// Writes pages to the end of a log and points their slots there. The node is locked, and every slot is counted.
    /// `ended` makes the completion of each run. Returns how many of the pages were placed: fewer than all only if the
    /// logs ran out of free segments.
    ///
    /// Each write is registered before its slot is changed, so a thread that finds the new address can read it.
    pub(crate) fn place(
        &self,
        change: &Change<'_>,
        leaf: &Leaf,
        guard: &mut NodeWrite<'_>,
        log: Log,
        pages: &[(PageIndex, PageBuf)],
        mut ended: impl FnMut(&[(PageIndex, PageBuf)]) -> Ended,
    ) -> Result<usize> {
        assert!(!guard.is_dead() && !pages.is_empty());
        let area = Area::of(guard.bytes(), self.sb.features())?;
        self.check_counted(leaf, area, guard.bytes(), pages)?;
        let logs: Vec<Log> = pages
            .iter()
            .map(|(page, _)| self.placement.log_by_age(log, area.get(guard.bytes(), leaf.slot_of(*page))))
            .collect();
        let mut done = 0;
        for run in logs.chunk_by(PartialEq::eq) {
            let part = &pages[done..done + run.len()];
            let placed = self.place_in(change, leaf, guard, run[0], part, &mut ended)?;
            done += placed;
            if placed < part.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Pages of [`Volume::place`] that go to one log.
    fn place_in(
        &self,
        change: &Change<'_>,
        leaf: &Leaf,
        guard: &mut NodeWrite<'_>,
        log: Log,
        pages: &[(PageIndex, PageBuf)],
        mut ended: impl FnMut(&[(PageIndex, PageBuf)]) -> Ended,
    ) -> Result<usize> {
        let area = Area::of(guard.bytes(), self.sb.features())?;
        let NatInfo { ino, version, .. } = self.nat.get(&self.io, leaf.node.nid)?;
        let owner = |page: PageIndex| Summary { nid: leaf.node.nid, version, ofs_in_node: leaf.slot_of(page) };
        let owners: Vec<Summary> = pages.iter().map(|(page, _)| owner(*page)).collect();
        let mut placed = 0;
        for run in self.placement.take_data(log, ino, &owners)? {
            let part = &pages[placed..placed + run.count as usize];
            let bufs = part.iter().map(|(_, buf)| buf.clone()).collect();
            let ended = self.remembering(run.lba, &owners[placed..placed + run.count as usize], ended(part));
            change.write(run.lba, bufs, logs::hint(log), ended);
            for (i, (page, _)) in part.iter().enumerate() {
                let index = leaf.slot_of(*page);
                let old = area.get(guard.bytes(), index);
                area.set(guard.edit(), index, Slot::At(run.lba + i as u64));
                self.invalidate(old)?;
            }
            placed += part.len();
        }
        Ok(placed)
    }

    /// Has the owners of these blocks noted if the device refuses them, where nothing on the volume says whose they
    /// are.
    fn remembering(&self, lba: Lba, owners: &[Summary], ended: Ended) -> Ended {
        if self.placement.knows_owners() {
            return ended;
        }
        let (io, owners) = (Arc::clone(&self.io), owners.to_vec());
        Box::new(move |result| {
            if result.is_err() {
                io.failed.note_owners(lba, &owners);
            }
            drop(io);
            ended(result);
        })
    }

    /// Writes what a refused block should hold to the end of its log, and has its owner refer to it there; nothing if
    /// its owner does not refer to it any more.
    ///
    /// # Errors
    /// Nobody knows its owner, or the owner cannot be read; `NoSpace` where the log has no room.
    pub(crate) fn place_elsewhere(&self, lba: Lba) -> Result<()> {
        let Some((page, hint)) = self.io.failed.get_as_sent(lba) else { return Ok(()) };
        let change = self.begin_change()?;
        let log = Log::ALL.into_iter().find(|log| logs::hint(*log) == hint);
        let Some(log) = log.filter(|_| self.placement.is_valid(lba) == Some(true)) else { return Ok(()) };
        let source = Slot::At(lba);
        if log.is_node() {
            return self.write_node_elsewhere(page.with(|block| NodeBlock::view(block).footer.nid()), source);
        }
        let Some(owner) = self.placement.owner_of(lba)?.or_else(|| self.io.failed.owner(lba)) else {
            return Err(Error::corrupt(format!("the device refuses block {lba}, and nothing says whose it is")));
        };
        let node = match self.node(owner.nid) {
            Ok(node) => node,
            Err(Error::NotFound) => return Ok(()),
            Err(e) => return Err(e),
        };
        let mut guard = node.write(&self.nodes);
        let NatInfo { ino, version, .. } = self.nat.get(&self.io, owner.nid)?;
        let features = self.sb.features();
        let is_owner = !guard.is_dead()
            && version == owner.version
            && slots::get(guard.bytes(), features, owner.ofs_in_node)? == Some(source);
        if !is_owner {
            return Ok(());
        }
        for run in self.placement.take_data(log, ino, &[owner])? {
            assert_eq!(run.count, 1, "a block of data moves to {run:?}");
            let ended = self.remembering(run.lba, &[owner], Self::ignore_end());
            change.write(run.lba, vec![page.clone()], hint, ended);
            slots::set(guard.edit(), features, owner.ofs_in_node, Slot::At(run.lba))?;
            self.invalidate(source)?;
        }
        Ok(())
    }

    /// Has the node written again, if it is the one that this block should hold.
    fn write_node_elsewhere(&self, nid: Nid, source: Slot) -> Result<()> {
        let is_there = || self.nat.get(&self.io, nid).map(|info| info.addr == source);
        if !is_there()? {
            return Ok(());
        }
        let node = match self.node(nid) {
            Ok(node) => node,
            Err(Error::NotFound) => return Ok(()),
            Err(e) => return Err(e),
        };
        let mut guard = node.write(&self.nodes);
        if !guard.is_dead() && is_there()? {
            guard.touch();
        }
        Ok(())
    }

    /// As [`Volume::place`]; pages that may stay, and have a block which may be overwritten, keep it.
    ///
    /// A page is the page of its block for as long as the block is valid, so what a checkpoint or the chain finds there
    /// is always a content of that very page. The block's segment says by its generation that a content changed, to
    /// readers there.
    #[expect(clippy::too_many_arguments, reason = "those of place, and how")]
    pub(crate) fn place_or_overwrite(
        &self,
        change: &Change<'_>,
        leaf: &Leaf,
        guard: &mut NodeWrite<'_>,
        log: Log,
        pages: &[(PageIndex, PageBuf)],
        may_stay: &dyn Fn(PageIndex) -> bool,
        mut ended: impl FnMut(&[(PageIndex, PageBuf)]) -> Ended,
    ) -> Result<usize> {
        assert!(!guard.is_dead() && !pages.is_empty());
        let area = Area::of(guard.bytes(), self.sb.features())?;
        let target = |(page, _): &(PageIndex, PageBuf)| {
            let lba = area.get(guard.bytes(), leaf.slot_of(*page)).lba().filter(|_| may_stay(*page))?;
            self.placement.in_place(lba).map(|spot| (lba, spot))
        };
        let targets: Vec<Option<(Lba, OverwritePlace)>> = pages.iter().map(target).collect();
        let mut done = 0;
        // Runs that stay, of neighbouring blocks of one segment, and runs that move.
        for run in targets.chunk_by(|a, b| match (a, b) {
            (Some((a, spot)), Some((b, other))) => *a + 1 == *b && spot == other,
            (a, b) => a.is_none() && b.is_none(),
        }) {
            let part = &pages[done..done + run.len()];
            match run[0] {
                Some((first, spot)) => {
                    let bufs = part.iter().map(|(_, buf)| buf.clone()).collect();
                    change.write_over(first, bufs, logs::hint(log), ended(part));
                    self.placement.overwritten(spot);
                }
                None => {
                    let placed = self.place(change, leaf, guard, log, part, &mut ended)?;
                    if placed < part.len() {
                        return Ok(done + placed);
                    }
                }
            }
            done += part.len();
        }
        Ok(done)
    }

    fn check_counted(&self, leaf: &Leaf, area: Area, block: &Block, pages: &[(PageIndex, PageBuf)]) -> Result<()> {
        let bad =
            pages.iter().find(|(page, _)| !matches!(area.get(block, leaf.slot_of(*page)), Slot::New | Slot::At(_)));
        match bad {
            None => Ok(()),
            Some((page, _)) => {
                let e =
                    Error::corrupt(format!("page {page} in node {} is written without a reserved slot", leaf.node.nid));
                self.stop(&e);
                Err(e)
            }
        }
    }

    /// An [`Ended`] for writes whose outcome only the checkpoint needs to know.
    pub(crate) fn ignore_end() -> Ended {
        Box::new(|_| ())
    }
}
