//! What all phases of the walk share, and the checks that every block in use goes through.

use super::blocks::{Blocks, SummaryCursor, Used};
use super::issue::Issue;
use super::nids::Nids;
use super::options::CheckOptions;
use super::quota;
use super::report::Counts;
use super::sink::IssueSink;
use crate::raw::Image;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steadyfs_format::summary::{Summary, SummaryKind};
use steadyfs_format::superblock::QuotaKind;
use steadyfs_format::{Features, Ino, Layout, Lba, Nid};

/// The volume as the phases see it.
pub(super) struct Context {
    pub(super) image: Arc<Image>,
    pub(super) options: CheckOptions,
    pub(super) sink: Arc<IssueSink>,
    pub(super) features: Features,
    /// Initial value of inode checksums.
    pub(super) seed: u32,
    pub(super) nids: Arc<Nids>,
    pub(super) blocks: Blocks,
    /// The quota files whose contents are compared with what is in use.
    pub(super) quotas: Vec<(QuotaKind, Ino)>,
    /// Slots that count as blocks, over all files.
    pub(super) data_blocks: AtomicU64,
}

impl Context {
    pub(super) fn new(
        image: &Arc<Image>,
        options: &CheckOptions,
        sink: &Arc<IssueSink>,
        nids: Arc<Nids>,
        blocks: Blocks,
    ) -> Self {
        let superblock = image.superblock();
        Context {
            image: Arc::clone(image),
            options: options.clone(),
            sink: Arc::clone(sink),
            features: superblock.features(),
            seed: superblock.inode_checksum_seed(),
            nids,
            blocks,
            quotas: quota::compared(image),
            data_blocks: AtomicU64::new(0),
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        self.image.layout()
    }

    /// Reports an issue.
    pub(super) fn add(&self, issue: Issue) {
        self.sink.add(issue);
    }

    /// Checks a block that is in use by a node (or is that node) and lies where it may. Whether something else uses it,
    /// too.
    pub(super) fn block_in_use(
        &self,
        ino: Ino,
        lba: Lba,
        owner: Summary,
        kind: SummaryKind,
        cursor: &mut SummaryCursor<'_>,
    ) -> bool {
        self.blocks.in_use(&self.sink, &Used { ino, lba, owner, kind }, cursor)
    }

    /// What the walk counted, for the report.
    pub(super) fn count_blocks(&self, counts: &mut Counts) {
        counts.nodes = self.nids.used();
        counts.blocks = counts.nodes + self.data_blocks.load(Relaxed);
    }

    /// The version of a node id, which the summaries of its data carry.
    pub(super) fn version(&self, nid: Nid) -> u8 {
        self.nids.get(nid).map_or(0, |entry| entry.version)
    }
}
