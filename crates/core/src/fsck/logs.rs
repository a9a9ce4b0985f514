//! Blocks of an IPLFS volume: each log was written up to its head, and the discard log names what is dead. Format
//! sections of docs/INFINITE-FORMAT.md.
//!
//! Memory: 16 bytes per run of the discard log, and at most 220 bytes per block in use; less than one byte where the
//! blocks in use lie side by side.

use super::blocks::Used;
use super::issue::Issue;
use super::sink::IssueSink;
use crate::error::Error;
use crate::raw::{BlockSet, CHUNK, Image, LogSpace};
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::{PageBuf, errno};
use steadyfs_format::block::BlockView;
use steadyfs_format::infinite::Stretch;
use steadyfs_format::node::NodeBlock;
use steadyfs_format::summary::SummaryKind;
use steadyfs_format::{Ino, Lba, Nid};
use steadyfs_rt::{LockClass, Mutex};

/// Held for one block.
static REACHED: LockClass = LockClass::new("fsck.reached", u16::MAX - 10);

const SHARDS: u64 = 64;
/// What nodes of a new volume say: no checkpoint was in force.
const MKFS_VERSION: u64 = 1;

/// Which blocks are dead, and which the walk has reached.
pub(super) struct LogBlocks {
    image: Arc<Image>,
    /// In rising order.
    dead: Vec<Range<Lba>>,
    reached: Vec<Mutex<BlockSet>>,
}

impl LogBlocks {
    /// Reads the discard log. What a damaged one names is not compared with anything.
    pub(super) fn load(image: &Arc<Image>, sink: &IssueSink) -> Self {
        if let Some(space) = image.log_space() {
            let (capacity, valid) = (space.superblock().capacity(), space.header().valid_blocks);
            if valid > capacity {
                sink.add(Issue::CapacityExceeded { capacity, valid });
            }
        }
        let mut dead = Vec::new();
        match image.dead_blocks(&mut |run| dead.push(run)) {
            Ok(()) => {}
            Err(error) => {
                dead.clear();
                let lba = image.log_space().map_or(Lba(0), |space| space.header().discard_log.lba);
                sink.add(match error {
                    Error::Io(_) => Issue::ReadFailed { lba, reason: error.to_string() },
                    _ => Issue::DiscardLogDamaged { lba, reason: error.to_string() },
                });
            }
        }
        let reached = (0..SHARDS).map(|_| Mutex::new(&REACHED, BlockSet::default())).collect();
        LogBlocks { image: Arc::clone(image), dead, reached }
    }

    /// Notes that a block is in use; whether it was so noted before.
    pub(super) fn reach(&self, lba: Lba) -> bool {
        !self.shard(lba).lock().insert(lba)
    }

    fn shard(&self, lba: Lba) -> &Mutex<BlockSet> {
        &self.reached[(lba.get() / CHUNK % SHARDS) as usize]
    }

    /// What the device holds that the walk has not reached and nobody knows to be dead. Not where the volume is not
    /// known well enough: what is in use could be taken for a leak.
    pub(super) fn check_held(&self, sink: &IssueSink) {
        let Some(space) = self.image.log_space() else { return };
        let limits = space.limits();
        let is_behind = |lba: Lba| {
            let stretch = space.superblock().space().stretch_of(lba);
            stretch.is_none_or(|stretch| lba >= limits[stretch.index()])
        };
        let mut tell = |run: Range<Lba>| {
            let (lba, blocks) = (run.start, run.end - run.start);
            sink.add(match is_behind(lba) {
                true => Issue::HeldBeyondLimit { lba, blocks },
                false => Issue::HeldInVain { lba, blocks },
            });
        };
        let held = self.image.strays(&|lba| self.shard(lba).lock().contains(lba), &mut tell);
        if let Err(error) = held {
            sink.add(Issue::LeaksUnknown { reason: error.to_string() });
        }
    }

    /// What the walk has reached, and the device keeps nothing for: it asks once for each run of neighbours.
    pub(super) fn check_holes(&self, sink: &IssueSink) {
        let mut reached = Vec::new();
        self.reached.iter().for_each(|shard| reached.extend(shard.lock().entries()));
        // What the device has told last.
        let (mut held, mut cannot) = (0..0, None);
        BlockSet::runs_of(reached, &mut |run| {
            let (mut at, end) = (run.start.get(), run.end.get());
            while at < end && cannot.is_none() {
                if held.end <= at {
                    match self.image.device().held_from(at) {
                        Ok(next) => held = next.unwrap_or(u64::MAX..u64::MAX),
                        Err(error) => cannot = Some((Lba(at), error)),
                    }
                } else {
                    let hole = at..held.start.clamp(at, end);
                    if !hole.is_empty() {
                        sink.add(Issue::HoleInUse { lba: Lba(at), blocks: hole.end - at });
                    }
                    at = held.end;
                }
            }
        });
        // A block device knows of no holes.
        if let Some((lba, error)) = cannot.filter(|(_, error)| error.errno() != errno::EOPNOTSUPP) {
            sink.add(Issue::ReadFailed { lba, reason: error.to_string() });
        }
    }

    /// Checks a block that is in use: used once, and not dead. Whether something else uses it, too.
    pub(super) fn in_use(&self, sink: &IssueSink, used: &Used) -> bool {
        let (ino, nid, lba) = (used.ino, used.owner.nid, used.lba);
        if self.reach(lba) {
            sink.add(Issue::BlockShared { ino, nid, lba });
            return true;
        }
        let behind = self.dead.partition_point(|run| run.start <= lba);
        if self.dead[..behind].last().is_some_and(|run| run.contains(&lba)) {
            sink.add(Issue::DiscardReachable { ino, nid, lba });
        }
        false
    }

    /// Checks that a node was written whole, for this place, and before the checkpoint.
    pub(super) fn check_node(&self, sink: &IssueSink, ino: Ino, nid: Nid, lba: Lba, page: &PageBuf) {
        let Some(space) = self.image.log_space() else { return };
        if page.with(|block| space.verify_node(block, lba)).is_err() {
            return sink.add(Issue::NodeChecksum { ino, nid, lba });
        }
        let (found, version) = (page.with(|block| NodeBlock::view(block).footer.cp_ver()), space.header().version);
        if found >= version && found > MKFS_VERSION {
            sink.add(Issue::NodeVersion { ino, nid, lba, found, version });
        }
    }
}

/// The fault of the address of a block of this kind, if it can lie nowhere there.
pub(super) fn misplaced(space: &LogSpace, kind: SummaryKind, ino: Ino, nid: Nid, lba: Lba) -> Option<Issue> {
    let (is_right, holds): (fn(Stretch) -> bool, _) = match kind {
        SummaryKind::Node => (Stretch::is_node, "nodes"),
        SummaryKind::Data => (Stretch::is_data, "data"),
    };
    let stretch = space.superblock().space().stretch_of(lba);
    match stretch.filter(|_| space.header().is_written(space.superblock(), lba)) {
        None => Some(Issue::AddressBeyondHead { ino, nid, lba }),
        Some(stretch) if !is_right(stretch) => {
            Some(Issue::AddressInWrongLog { ino, nid, lba, log: stretch.to_string(), holds })
        }
        Some(_) => None,
    }
}
