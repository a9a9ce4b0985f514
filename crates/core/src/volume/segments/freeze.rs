//! The part of a checkpoint that says where things are placed: positions and summaries of the logs, the SIT, and what
//! becomes free with the commit.

use crate::error::{Error, Result};
use crate::volume::segments::Segments;
use crate::volume::segments::migrating::FrozenRecords;
use crate::volume::segments::pinned::Loose;
use crate::volume::segments::refusing::InTurn;
use crate::volume::segments::table::BLOCKS;
use steadyfs_device::PageBuf;
use steadyfs_format::checkpoint::{Checkpoint, LogPosition};
use steadyfs_format::journal::{Journal, MAX_SIT_JOURNAL};
use steadyfs_format::summary::SummaryBlock;
use steadyfs_format::{Block, Ino, Lba, Log, SegNo};

/// Segments and logs as they were under the exclusive checkpoint lock.
pub(crate) struct Frozen {
    positions: [LogPosition; Log::COUNT],
    /// Of the logs' segments, with the SIT journal in that of cold data.
    summaries: Box<[SummaryBlock; Log::COUNT]>,
    /// Segments that are free for a reader of this checkpoint.
    free: u64,
    /// Segments without a block that become free with the commit.
    pub(super) prefree: Vec<SegNo>,
    /// Blocks that may be written again, or discarded, then.
    pub(super) loose: Loose,
    /// Of a device that moves blocks.
    records: Option<FrozenRecords>,
    /// SIT blocks whose selected copy changes with the commit, and which it will be.
    sit_blocks: Vec<(u32, bool)>,
    /// SIT blocks for the copies not selected now.
    writes: Vec<(Lba, Vec<PageBuf>)>,
}

impl Segments {
    /// Takes the state of segments and logs for a checkpoint, and submits what the SSA lacks of the streams' summaries.
    /// The checkpoint lock is held exclusively, and no node is dirty.
    ///
    /// # Errors
    /// No room for a log that has filled its segment.
    pub(crate) fn freeze(&self) -> Result<Frozen> {
        self.leave_full_segments()?;
        self.save_streams();
        let (mut sit_blocks, mut writes, mut journal) = (Vec::new(), Vec::new(), Journal::default());
        if self.table.sit_dirty.count() <= MAX_SIT_JOURNAL {
            journal = Journal::from_sit(&self.sit.dirty_for_journal(&self.table))?;
        } else {
            for flush in self.sit.take_dirty_blocks(&self.table, &self.layout) {
                sit_blocks.push((flush.block, !self.sit.selected(flush.block)));
                writes.push((flush.lba, vec![flush.page]));
            }
        }
        let heads = Log::ALL.map(|log| {
            let head = self.logs.head(log);
            assert!(head.next < BLOCKS, "the log {log} stands behind the last block of segment {}", head.seg);
            let mut summary = (*head.summary).clone();
            summary.journal = if log == Log::ColdData { journal } else { Journal::default() };
            (LogPosition { segment: head.seg, next: head.next as u16, alloc: head.alloc }, summary)
        });
        let positions = heads.each_ref().map(|(position, _)| *position);
        let prefree: Vec<SegNo> = self.table.prefree.iter().map(|i| SegNo::new(i as u32)).collect();
        let loose = self.table.take_loose();
        let frozen = Frozen {
            positions,
            summaries: Box::new(heads.map(|(_, summary)| summary)),
            free: self.table.free_segments() + prefree.len() as u64 + self.streams.empty_segments(&self.table),
            prefree,
            records: self.freeze_records(&loose),
            loose,
            sit_blocks,
            writes,
        };
        assert!(frozen.free <= u64::from(self.table.len()), "more segments will be free than there are");
        self.discard_early(&frozen);
        frozen.records.iter().for_each(|records| self.complete_early(records));
        Ok(frozen)
    }

    /// A log that found no free segment when it filled its own stands behind the last block, which no checkpoint can
    /// say. Of a log that stands in a section which takes no more, a checkpoint would say that its chain goes on there.
    fn leave_full_segments(&self) -> Result<()> {
        for log in Log::ALL {
            let mut head = self.logs.head(log);
            self.leave_if_broken(log, &mut head);
            if let Some(fault) = self.fault_of(head.seg) {
                return Err(Error::Io(fault));
            }
            if head.next == BLOCKS && !self.advance(log, &mut head) {
                return Err(Error::NoSpace);
            }
            self.change_holes(log, &mut head);
        }
        Ok(())
    }

    /// The checkpoint has committed: what was given up before its freeze may be used again, and discarded.
    pub(crate) fn committed(&self, frozen: &Frozen) {
        self.sit.commit(frozen.sit_blocks.iter().map(|(block, _)| *block));
        self.table.unpin(&frozen.loose);
        self.medium.in_turn().into_iter().for_each(InTurn::committed);
        match &frozen.records {
            Some(records) => self.committed_records(records, &frozen.prefree),
            None => {
                self.queue_dead(&frozen.loose);
                self.release(&frozen.prefree);
                self.reset_emptied();
                self.wake_discarder();
            }
        }
    }

    /// The checkpoint has failed: what it took is to be written by the next one.
    pub(crate) fn failed(&self, frozen: &Frozen) {
        self.sit.not_written(&self.table, frozen.sit_blocks.iter().map(|(block, _)| *block));
        self.table.put_loose_back(&frozen.loose);
        frozen.records.iter().for_each(|records| self.failed_records(records));
    }
}

impl Frozen {
    /// Writes positions, selected copies of the SIT and the number of free segments into a checkpoint.
    pub(crate) fn describe(&self, checkpoint: &mut Checkpoint) -> Result<()> {
        for &(block, copy) in &self.sit_blocks {
            checkpoint.set_sit_copy(block, copy);
        }
        if let Some(records) = &self.records {
            checkpoint.set_served(records.served)?;
        }
        let header = checkpoint.header_mut();
        for (log, position) in Log::ALL.into_iter().zip(self.positions) {
            header.set_log(log, position);
        }
        let free = u32::try_from(self.free).map_err(|_| Error::corrupt("more than 2^32 segments"))?;
        header.set_free_segments(free);
        Ok(())
    }

    /// The blocks of the checkpoint's pack. Summaries carry the NAT journal and the number of KiB written in the
    /// volume's life (format section 3.5); those of the node logs are in the pack only at an unmount.
    pub(crate) fn encode_pack(
        &self,
        checkpoint: &mut Checkpoint,
        orphans: &[Ino],
        nat_journal: Journal,
        kbytes: u64,
        unmount: bool,
    ) -> Result<Vec<Block>> {
        let [mut hot, warm, cold, mut hot_node, warm_node, cold_node] = (*self.summaries).clone();
        hot.journal = nat_journal;
        hot_node.journal = Journal::from_kbytes_written(kbytes);
        let nodes = unmount.then_some([hot_node, warm_node, cold_node]);
        Ok(checkpoint.encode_pack(orphans, &[hot, warm, cold], nodes.as_ref())?)
    }

    /// The blocks to write beside the pack.
    pub(crate) fn take_writes(&mut self) -> Vec<(Lba, Vec<PageBuf>)> {
        std::mem::take(&mut self.writes)
    }
}
