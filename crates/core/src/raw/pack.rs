//! What a checkpoint pack holds behind its header: the summaries of the logs' current segments, and the journals in
//! them. Format section 3.
//!
//! These blocks have no checksum. What of them is damaged is noted and left out, and costs nothing but itself: who only
//! reads can do without. Who changes the volume asks first ([`super::Image::whole`]).
//!
//! The other pack is no substitute, so nothing falls back to it. It is the volume before the last checkpoint: what that
//! one made durable would be gone without a word, and blocks that it freed may hold other contents or be discarded by
//! now.

use crate::error::{Error, Result};
use std::fmt;
use std::ops::Range;
use steadyfs_format::block::{BlockView, zeroed_block};
use steadyfs_format::checkpoint::{Checkpoint, CpFlags, decode_data_summaries};
use steadyfs_format::nat::NatEntry;
use steadyfs_format::sit::SitEntry;
use steadyfs_format::summary::{SummaryBlock, SummaryKind};
use steadyfs_format::{Block, FormatError, Log, Nid, SegNo};

/// A part of a checkpoint pack that reading can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackPart {
    /// The latest changes of the NAT.
    NatJournal,
    /// The latest changes of the SIT.
    SitJournal,
    /// The owners of the blocks in a log's current segment.
    Summary(Log),
}

impl fmt::Display for PackPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NatJournal => f.write_str("the NAT journal"),
            Self::SitJournal => f.write_str("the SIT journal"),
            Self::Summary(log) => write!(f, "the summary of the {log} log"),
        }
    }
}

/// A part of the pack in force that is damaged.
#[derive(Clone, Debug)]
pub struct PackDamage {
    /// Which part.
    pub part: PackPart,
    /// Its fault, or why it cannot be read.
    pub reason: Error,
}

impl fmt::Display for PackDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the last checkpoint cannot be used ({})", self.part, self.reason)
    }
}

impl From<&PackDamage> for Error {
    /// As an error of who needs the part.
    fn from(damage: &PackDamage) -> Self {
        match &damage.reason {
            Error::Io(error) => Error::Io(error.clone()),
            _ => Error::corrupt(damage.to_string()),
        }
    }
}

/// Summaries and journals of a pack, as far as they are sound.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// In log order. `None` for one that cannot be read, and for node logs of a pack that does not have theirs.
    pub(super) summaries: Box<[Option<SummaryBlock>; Log::COUNT]>,
    pub(super) nat_journal: Vec<(Nid, NatEntry)>,
    pub(super) sit_journal: Vec<(SegNo, SitEntry)>,
    pub(super) damage: Vec<PackDamage>,
}

impl Parts {
    /// Reads them; `read` gives blocks of the pack.
    ///
    /// # Errors
    /// A header that counts other blocks than the pack's form needs.
    pub(super) fn read(checkpoint: &Checkpoint, read: impl Fn(Range<u32>) -> Result<Vec<Block>>) -> Result<Self> {
        let each = |range: Range<u32>| -> Vec<Result<Block>> {
            match read(range.clone()) {
                Ok(blocks) => blocks.into_iter().map(Ok).collect(),
                Err(_) => range.map(|at| Ok(read(at..at + 1)?[0])).collect(),
            }
        };
        let map = checkpoint.pack_map();
        let mut parts = Parts::default();
        parts.take_data(checkpoint, each(map.data_summaries))?;
        for (log, block) in Log::NODE.into_iter().zip(each(map.node_summaries)) {
            match block {
                Ok(block) => parts.summaries[log.index()] = Some(SummaryBlock::view(&block).clone()),
                Err(reason) => parts.note(PackPart::Summary(log), reason),
            }
        }
        Ok(parts)
    }

    fn note(&mut self, part: PackPart, reason: Error) {
        self.damage.push(PackDamage { part, reason });
    }

    /// Takes the summaries of the data logs, and the journals with them.
    fn take_data(&mut self, checkpoint: &Checkpoint, blocks: Vec<Result<Block>>) -> Result<()> {
        let compact = checkpoint.header().flags().contains(CpFlags::COMPACT_SUM);
        let mut lost: [Option<(usize, Error)>; 3] = [const { None }; 3];
        let mut sound = Vec::with_capacity(blocks.len());
        for (at, block) in blocks.into_iter().enumerate() {
            let block = block.unwrap_or_else(|error| {
                // A compact block holds entries of any log; the journals are in the first one.
                for (_, lost) in lost.iter_mut().enumerate().filter(|(log, _)| compact || *log == at) {
                    lost.get_or_insert((at, error.clone()));
                }
                zeroed_block()
            });
            sound.push(block);
        }
        if !compact {
            for (log, block) in Log::DATA.into_iter().zip(&mut sound) {
                self.make_data(log, block);
            }
        }
        let data = decode_data_summaries(&sound, compact, checkpoint.data_logs())?;
        // Of compact blocks, only the first one holds journals.
        let missing =
            |log: Log| lost[log.index()].clone().filter(|(at, _)| !compact || *at == 0).map(|(_, error)| error);
        let decode = |log: Log| missing(log).map_or(Ok(&data[log.index()].journal), Err);
        match decode(Log::HotData).and_then(|journal| Ok(journal.nat()?)) {
            Ok(entries) => self.nat_journal = entries,
            Err(reason) => self.note(PackPart::NatJournal, reason),
        }
        match decode(Log::ColdData).and_then(|journal| Ok(journal.sit()?)) {
            Ok(entries) => self.sit_journal = entries,
            Err(reason) => self.note(PackPart::SitJournal, reason),
        }
        for ((log, summary), lost) in Log::DATA.into_iter().zip(data).zip(lost) {
            match lost {
                None => self.summaries[log.index()] = Some(summary),
                Some((_, reason)) => self.note(PackPart::Summary(log), reason),
            }
        }
        Ok(())
    }

    /// Notes a block that does not say that it is one of data; its entries are taken all the same.
    fn make_data(&mut self, log: Log, block: &mut Block) {
        let summary = SummaryBlock::view_mut(block);
        let reason = match summary.kind() {
            Ok(SummaryKind::Data) => return,
            Ok(SummaryKind::Node) => FormatError::Refused("it is one of nodes".into()),
            Err(reason) => reason,
        };
        self.note(PackPart::Summary(log), reason.into());
        summary.set_kind(SummaryKind::Data);
    }
}
