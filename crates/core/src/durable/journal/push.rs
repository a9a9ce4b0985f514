//! A push: the map becomes a batch, and takes its places in the warm-node log.
//!
//! One at a time, so that batches lie in the log in the order in which they were taken from the map. The blocks are
//! dead from birth: nothing but the chain refers to them, and the next checkpoint ends it.

use super::items::PendingItem;
use crate::canary::Canary;
use crate::error::Result;
use crate::fs::Fs;
use crate::volume::Change;
use crate::volume::nodes::write::Batch;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use steadyfs_device::PageBuf;
use steadyfs_format::Ino;
use steadyfs_format::records::{Record, batch};

/// Most blocks of a batch; a checkpoint writes more than that faster.
const MOST_BLOCKS: u64 = 1024;

/// What the chain has of the journal since the last freeze.
#[derive(Default)]
pub(super) struct JournalEpoch {
    sequence: u64,
    /// Inodes that batches gave birth to.
    births: HashSet<Ino>,
    /// Inodes of which a batch says that they have no name.
    deaths: u64,
}

/// What came of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// Everything that was noted has places in the log.
    Placed,
    /// Only a checkpoint makes it durable.
    Not,
}

impl Fs {
    /// Gives everything that was noted places in the warm-node log; the blocks come into `out`, and are owed to the
    /// device. The file to be synced is locked, so that nothing more of it is noted.
    ///
    /// # Errors
    /// None that is the journal's: where it finds no place, a checkpoint helps, or says why not.
    pub(crate) fn push_journal(&self, _change: &Change<'_>, out: &mut Batch<'_>) -> Result<Pushed> {
        let mut epoch = self.journal.epoch.lock();
        let items = {
            let mut map = self.journal.map.lock();
            if map.is_lost() || map.bytes() / batch::PAYLOAD as u64 >= MOST_BLOCKS {
                return Ok(Pushed::Not);
            }
            map.take()
        };
        let records = self.records_of(items, &mut epoch);
        if records.is_empty() {
            return Ok(Pushed::Placed);
        }
        if epoch.deaths > self.journal.most_deaths {
            self.journal.lose();
            return Ok(Pushed::Not);
        }
        epoch.sequence += 1;
        let seed = self.vol.sb.inode_checksum_seed();
        let blocks = batch::encode(epoch.sequence, seed, &records);
        assert!(!blocks.is_empty(), "a batch of records has blocks");
        let counters = &self.journal.counters;
        counters.batches.fetch_add(1, Relaxed);
        counters.blocks.fetch_add(blocks.len() as u64, Relaxed);
        counters.records.fetch_add(records.len() as u64, Relaxed);
        for mut block in blocks {
            let place = match self.vol.placement.take_dead() {
                Ok(place) => place,
                Err(error) => {
                    // The batch will never be whole, and what was noted is gone from the map.
                    tracing::debug!(%error, "no place for a batch of the journal");
                    self.checkpoints.break_chain();
                    self.journal.lose();
                    return Ok(Pushed::Not);
                }
            };
            batch::seal(&mut block, seed, self.checkpoints.stamp(), place.next);
            out.push_block(place.lba, PageBuf::from_slice(&block));
        }
        Ok(Pushed::Placed)
    }

    /// The records of a batch: inodes, then names that go, names that come, attributes, targets.
    fn records_of(&self, items: BTreeMap<Ino, PendingItem>, epoch: &mut JournalEpoch) -> Vec<Record> {
        let drops = self.vol.io.planted.is(Canary::DropRecord);
        let (mut inodes, mut gone, mut come, mut rest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (ino, item) in items {
            let PendingItem { inode, xattrs, target, names } = item;
            if let Some(inode) = inode {
                let (born, dead) = (inode.birth.is_some(), inode.attributes.links == 0);
                if born && dead && !epoch.births.contains(&ino) {
                    // It came and went, and nothing refers to it.
                    continue;
                }
                if born {
                    epoch.births.insert(ino);
                }
                epoch.deaths += u64::from(dead);
                inodes.push(Record::Inode(ino, inode));
            }
            for (name, target) in names {
                let list = if target.is_some() { &mut come } else { &mut gone };
                list.push(Record::Name { dir: ino, name, target });
            }
            rest.extend(xattrs.map(|list| Record::Xattrs(ino, list)));
            rest.extend(target.map(|target| Record::Target(ino, target)));
        }
        if drops {
            gone.pop();
        }
        [inodes, gone, come, rest].concat()
    }
}
