//! Summaries for the walk: a bounded cache of the SSA, and the six current segments.
//!
//! Memory: [`GROUPS`] groups of [`GROUP`] SSA blocks, 64 MiB, enough for 32 GiB of main area before anything is read
//! twice.

use super::issue::Issue;
use super::sink::IssueSink;
use crate::raw::{Image, PackPart};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::SegNo;
use steadyfs_format::block::BlockView;
use steadyfs_format::summary::{Summary, SummaryBlock};
use steadyfs_rt::{LockClass, Mutex};

/// SSA blocks read at once.
const GROUP: u32 = 16;
/// Groups kept.
const GROUPS: usize = 1024;
const SHARDS: usize = 16;

static CACHE: LockClass = LockClass::new("fsck.summaries", u16::MAX - 9);

/// Blocks of one group; fewer than asked for if they could not be read.
type Group = Arc<Vec<PageBuf>>;

#[derive(Default)]
struct Shard {
    groups: HashMap<u32, Group>,
    age: VecDeque<u32>,
}

/// All summaries of the volume.
pub(super) struct Summaries {
    image: Arc<Image>,
    sink: Arc<IssueSink>,
    current: Vec<(SegNo, Arc<Vec<PageBuf>>)>,
    shards: Vec<Mutex<Shard>>,
}

impl Summaries {
    /// Loads those of the current segments.
    pub(super) fn new(image: &Arc<Image>, sink: &Arc<IssueSink>) -> Self {
        let mut current = Vec::new();
        // A volume with the feature `ro` has no summaries, of its logs' segments neither.
        let logs = if image.layout().has_ssa() { image.logs() } else { &[] };
        for &log in logs {
            let segment = image.log_position(log).segment;
            match image.log_summary(log) {
                Ok(summary) => current.push((segment, Arc::new(vec![PageBuf::from_slice(&summary.to_block())]))),
                Err(error) => {
                    // What the pack could not give has been told.
                    if image.whole(PackPart::Summary(log)).is_ok() {
                        let lba = image.layout().lba_of(segment, 0);
                        sink.add(Issue::ReadFailed { lba, reason: error.to_string() });
                    }
                    current.push((segment, Arc::default()));
                }
            }
        }
        let shards = (0..SHARDS).map(|_| Mutex::new(&CACHE, Shard::default())).collect();
        Summaries { image: Arc::clone(image), sink: Arc::clone(sink), current, shards }
    }

    /// A cursor for one thread.
    pub(super) fn cursor(&self) -> Cursor<'_> {
        Cursor { all: self, at: None }
    }

    fn group(&self, number: u32) -> Group {
        let shard = &self.shards[number as usize % SHARDS];
        if let Some(group) = shard.lock().groups.get(&number) {
            return Arc::clone(group);
        }
        // Two threads may read the same group at once; that costs a read and nothing else.
        let group = Arc::new(self.read_group(number));
        let mut shard = shard.lock();
        if shard.groups.insert(number, Arc::clone(&group)).is_none() {
            shard.age.push_back(number);
        }
        if shard.age.len() > GROUPS / SHARDS
            && let Some(oldest) = shard.age.pop_front()
        {
            shard.groups.remove(&oldest);
        }
        assert!(shard.groups.len() <= GROUPS / SHARDS + 1, "the cache stays bounded");
        group
    }

    fn read_group(&self, number: u32) -> Vec<PageBuf> {
        let first = SegNo(number * GROUP);
        let count = GROUP.min(self.image.layout().main_segments - first.get());
        let Some(lba) = self.image.layout().ssa_lba(first) else { return Vec::new() };
        match self.image.read_run(lba, u64::from(count)) {
            Ok(pages) => pages,
            Err(error) => {
                self.sink.add(Issue::ReadFailed { lba, reason: error.to_string() });
                Vec::new()
            }
        }
    }
}

/// Looks summaries up, remembering the last segment.
pub(super) struct Cursor<'a> {
    all: &'a Summaries,
    at: Option<(SegNo, Group, usize)>,
}

impl Cursor<'_> {
    /// The entry of a block and the type byte of its segment's summary; `None` where there is no summary to read.
    pub(super) fn entry(&mut self, segment: SegNo, offset: u16) -> Option<(Summary, u8)> {
        if self.at.as_ref().is_none_or(|(at, ..)| *at != segment) {
            let current = self.all.current.iter().find(|(current, _)| *current == segment);
            let (group, index) = match current {
                Some((_, page)) => (Arc::clone(page), 0),
                None => (self.all.group(segment.get() / GROUP), (segment.get() % GROUP) as usize),
            };
            self.at = Some((segment, group, index));
        }
        let (_, group, index) = self.at.as_ref()?;
        let page = group.get(*index)?;
        Some(page.with(|bytes| (SummaryBlock::view(bytes).get(offset), bytes[TYPE_BYTE])))
    }
}

/// Offset of a summary block's type.
const TYPE_BYTE: usize = 4091;
