//! A push: what was committed becomes a batch, and takes its places in the warm-node log.
//!
//! One at a time, so that batches lie in the log in the order in which they were sealed. Who waits for its turn while
//! another one seals what it needs makes no batch of its own (group commit, as forces of one sequence in XFS). The
//! blocks are dead from birth: nothing but the chain refers to them, and the next checkpoint ends it.

use crate::canary::Canary;
use crate::durable::Durable;
use crate::error::Result;
use crate::files::noted::journal::JournalEpoch;
use crate::files::noted::logged::Logged;
use crate::volume::nodes::write::Batch;
use crate::volume::{Change, Volume};
use std::sync::atomic::Ordering::Relaxed;
use steadyfs_device::PageBuf;
use steadyfs_format::records::Record;
use steadyfs_format::records::batch::{self, ContentsSum};
use steadyfs_format::{BLOCK_SIZE, Ino};
use steadyfs_journal::{CommitLists, Sealed};
use steadyfs_rt::{Cost, charge_n};

/// Most blocks of a batch; a checkpoint writes more than that faster.
const MOST_BLOCKS: u64 = 1024;

/// What came of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// Everything that was noted has places in the log.
    Placed,
    /// Only a checkpoint makes it durable.
    Not,
}

impl Volume {
    /// The records of a batch: inodes, then names that go, names that come, attributes, targets, contents.
    fn records_of(&self, sealed: Sealed<Logged>, epoch: &mut JournalEpoch) -> Vec<Record> {
        let drops = self.io.planted.is(Canary::DropRecord);
        let (mut inodes, mut gone, mut come, mut rest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (item, logged) in sealed.items {
            let (ino, Logged { inode, xattrs, target, contents, names }) = (Ino(item.key()), logged);
            assert!(inode.is_some(), "a batch has something of inode {ino}, but not the inode");
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
            rest.extend(contents.map(|contents| Record::Contents(ino, contents)));
        }
        if drops {
            gone.pop();
        }
        [inodes, gone, come, rest].concat()
    }
}

impl Durable {
    /// Gives everything that was noted places in the warm-node log; the blocks come into `out`, and are owed to the
    /// device. The file to be synced is locked, so that nothing more of it is noted. The last block says that it relies
    /// on `contents`.
    ///
    /// # Errors
    /// None that is the journal's: where it finds no place, a checkpoint helps, or says why not.
    pub(crate) fn push_journal(
        &self,
        _change: &Change<'_>,
        contents: &[ContentsSum],
        out: &mut Batch<'_>,
    ) -> Result<Pushed> {
        let sequence = || self.files.journal.lists.as_ref().map_or(0, CommitLists::sequence);
        let wanted = sequence();
        let mut epoch = self.files.journal.epoch.lock();
        if self.files.journal.is_lost() || self.files.journal.waiting() / batch::PAYLOAD as u64 >= MOST_BLOCKS {
            return Ok(Pushed::Not);
        }
        // What others note meanwhile is theirs: a batch that was sealed behind the call has all that this one needs.
        let has_places = sequence() > wanted;
        let sealed = self.files.journal.lists.as_ref().filter(|_| !has_places).and_then(CommitLists::seal);
        let records = sealed.map_or_else(Vec::new, |sealed| self.vol.records_of(sealed, &mut epoch));
        if records.is_empty() && contents.is_empty() {
            return Ok(Pushed::Placed);
        }
        if epoch.deaths > self.files.journal.most_deaths && !steadyfs_rt::mutated("deaths-are-bounded") {
            self.files.journal.lose();
            return Ok(Pushed::Not);
        }
        let seed = self.vol.sb.inode_checksum_seed();
        let split = if self.vol.io.planted.is(Canary::SplitBatch) { records.len().div_ceil(2) } else { records.len() };
        let mut blocks = Vec::new();
        let (first, last) = records.split_at(records.len() - split);
        if !first.is_empty() {
            epoch.sequence += 1;
            blocks.extend(batch::encode(epoch.sequence, seed, first));
        }
        epoch.sequence += 1;
        blocks.extend(batch::encode_with(epoch.sequence, seed, last, contents));
        assert!(!blocks.is_empty(), "a batch of records has blocks");
        assert!(epoch.deaths <= self.files.journal.most_deaths, "recovery could not list the inodes without names");
        assert!(epoch.sequence > 0, "batches are numbered from 1");
        charge_n(Cost::PageCopy, blocks.len() as u64);
        charge_n(Cost::Checksum, blocks.len() as u64);
        self.files.journal.placed.fetch_add((blocks.len() * BLOCK_SIZE) as u64, Relaxed);
        let counters = &self.files.journal.counters;
        counters.batches.fetch_add(1, Relaxed);
        counters.blocks.fetch_add(blocks.len() as u64, Relaxed);
        counters.records.fetch_add(records.len() as u64, Relaxed);
        for mut block in blocks {
            let place = match self.vol.placement.take_dead() {
                Ok(place) => place,
                Err(error) => {
                    // The batch will never be whole, and what was noted is gone from the lists.
                    tracing::debug!(%error, "no place for a batch of the journal");
                    if !steadyfs_rt::mutated("batch-without-a-place-breaks-the-chain") {
                        self.checkpoints.break_chain();
                    }
                    self.files.journal.lose();
                    return Ok(Pushed::Not);
                }
            };
            batch::seal(&mut block, seed, self.checkpoints.stamp(), place.next);
            out.push_block(place.lba, PageBuf::from_slice(&block));
        }
        Ok(Pushed::Placed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::tests::journaled;
    use crate::fs::Fs;
    use crate::mkfs::{self, MkfsOptions};
    use crate::{MountOptions, NewInode};
    use std::sync::Arc;
    use steadyfs_device::{Device, MemDevice};
    use steadyfs_format::SecNo;
    use steadyfs_rt::sim::{SimConfig, run};
    use steadyfs_rt::{sleep, spawn};

    /// Two fsyncs wait for their turn while a third program notes name after name: the first takes what both need, and
    /// the second leaves what was noted since to those who note it.
    #[test]
    fn who_waits_while_another_seals_what_it_needs_makes_no_batch() {
        let work = || {
            let device = MemDevice::new(256 << 8);
            mkfs::format(&device, &MkfsOptions::new([7; 16], 1_700_000_000)).unwrap();
            let device = Arc::new(device);
            let options = MountOptions::parse("journal=single,background_gc=off,commit=0").unwrap();
            let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
            let root = fs.root().unwrap();
            let dir = |name: &str| {
                fs.create(&root, name.as_bytes(), &NewInode { mode: 0o040_755, ..NewInode::default() }).unwrap()
            };
            let (synced, noted) = ([dir("a"), dir("b")], dir("c"));
            fs.sync().unwrap();
            let file = NewInode { mode: 0o100_644, ..NewInode::default() };
            let turn = fs.files.journal.epoch.lock();
            let syncers = synced.map(|dir| {
                let (fs, file) = (Arc::clone(&fs), file.clone());
                spawn("syncer", move || {
                    fs.create(&dir, b"promised", &file).unwrap();
                    fs.fsync(&dir, false).unwrap();
                })
            });
            sleep(std::time::Duration::from_millis(1));
            let (others, before) = (Arc::clone(&fs), fs.journal_stats().batches);
            let noter = spawn("noter", move || {
                (0..200).for_each(|n| drop(others.create(&noted, n.to_string().as_bytes(), &file).unwrap()));
            });
            drop(turn);
            syncers.into_iter().for_each(|syncer| syncer.join().unwrap());
            assert_eq!(fs.journal_stats().batches - before, 1, "one of the two made a batch of what others noted");
            let crashed = Fs::mount(Arc::new(device.fork()), MountOptions::default()).unwrap();
            for name in ["a", "b"] {
                let dir = crashed.lookup(&crashed.root().unwrap(), name.as_bytes()).unwrap();
                crashed.lookup(&dir, b"promised").unwrap();
            }
            noter.join().unwrap();
        };
        run(SimConfig { cores: 4, ..SimConfig::default() }, work).unwrap();
    }

    /// The log finds no segment in the middle of a batch. Nothing counts on that batch, and a checkpoint, once there is
    /// room again, has what was noted.
    #[test]
    fn a_batch_that_finds_no_place_leaves_its_names_to_a_checkpoint() {
        without_a_place(|fs| fs.fsync(&fs.root().unwrap(), false), "fsync");
        without_a_place(|fs| fs.durable.commit_journal(), "journal");
    }

    /// `commit` finds such a batch, and makes a checkpoint for this cause.
    fn without_a_place(commit: fn(&Fs) -> Result<()>, cause: &str) {
        const FILES: u32 = 4000;
        let device = MemDevice::new(256 << 8);
        mkfs::format(&device, &MkfsOptions::new([7; 16], 1_700_000_000)).unwrap();
        let device = Arc::new(device);
        let options =
            MountOptions::parse("journal=single,gc=f2fs-lfs,background_gc=off,commit=0,journal.commit=0").unwrap();
        let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
        let root = fs.root().unwrap();
        let name = |number: u32| format!("{number:0>250}").into_bytes();
        for number in 0..FILES {
            fs.create(&root, &name(number), &NewInode { mode: 0o100_644, ..NewInode::default() }).unwrap();
        }
        let table = &fs.vol.segments().table;
        let (change, before) = (fs.vol.begin_change().unwrap(), fs.durable.checkpoints.breaks());
        let taken: Vec<SecNo> = std::iter::from_fn(|| table.take_free_section(SecNo::new(0))).collect();
        let mut out = Batch::new(&fs.vol, fs.vol.io.enter_chain());
        let pushed = fs.durable.push_journal(&change, &[], &mut out).unwrap();
        out.submit();
        drop(change);
        let blocks = fs.journal_stats().blocks;
        assert_eq!(pushed, Pushed::Not, "a batch of {blocks} blocks found places");
        assert!(fs.durable.checkpoints.breaks() > before && fs.files.journal.is_lost(), "the next batch would count");
        taken.into_iter().for_each(|section| table.put_free_section_back(section));
        let checkpoints = fs.checkpoint_stats().causes[cause];
        commit(&fs).unwrap();
        assert_eq!(fs.checkpoint_stats().causes[cause], checkpoints + 1, "the batch was never whole");
        assert!(!fs.files.journal.is_lost(), "the checkpoint has it");
        let crashed = Fs::mount(Arc::new(device.fork()), MountOptions::default()).unwrap();
        let again = crashed.root().unwrap();
        (0..FILES).for_each(|number| drop(crashed.lookup(&again, &name(number)).unwrap()));
    }

    /// Recovery lists inodes without names in a checkpoint pack, which has room for so many.
    #[test]
    fn more_inodes_without_names_than_recovery_can_list_make_a_checkpoint() {
        let (_, fs) = journaled();
        let root = fs.root().unwrap();
        let make = |name: &[u8]| fs.create(&root, name, &NewInode { mode: 0o100_644, ..NewInode::default() }).unwrap();
        let _open = [make(b"one"), make(b"two")];
        fs.sync().unwrap();
        let unlink = |name: &[u8]| {
            fs.unlink(&root, name).unwrap();
            fs.fsync(&root, false).unwrap();
            fs.checkpoint_stats().causes["fsync"]
        };
        fs.files.journal.epoch.lock().deaths = fs.files.journal.most_deaths - 1;
        assert_eq!(unlink(b"one"), 0, "it can list this one");
        assert_eq!(unlink(b"two"), 1, "and no more");
        assert_eq!(fs.files.journal.epoch.lock().deaths, 0, "the checkpoint lists them");
    }
}
