//! The part of a checkpoint that says where things are placed: heads and limits of the logs, and the discard log.

use super::InfiniteLogs;
use super::dead::Slips;
use crate::canary::Canary;
use crate::error::{Error, Result};
use std::sync::atomic::Ordering::SeqCst;
use steadyfs_device::PageBuf;
use steadyfs_format::checkpoint::{Checkpoint, CpFlags};
use steadyfs_format::infinite::{self, DiscardLog, Head, Header, Stretch, encode_discard_log};
use steadyfs_format::nat::NatEntry;
use steadyfs_format::{Block, Ino, Lba, Nid, Pack};

/// Logs as they were under the exclusive checkpoint lock.
pub(crate) struct FrozenLogs {
    sb: infinite::SuperBlock,
    heads: [Head; Stretch::COUNT],
    log: DiscardLog,
    /// The blocks of the discard log.
    writes: Vec<(Lba, Vec<PageBuf>)>,
}

impl InfiniteLogs {
    /// Takes the state of the logs for a checkpoint, and places its discard log. The checkpoint lock is held
    /// exclusively, and no node is dirty.
    ///
    /// # Errors
    /// No room for the discard log before the limit.
    pub(crate) fn freeze(&self) -> Result<FrozenLogs> {
        self.discard_early();
        let slips = Slips {
            skip_log: self.io.planted.is(Canary::SkipLog),
            forget_in_flight: self.io.planted.is(Canary::ForgetInFlight),
        };
        let named = self.dead.lock().freeze(slips);
        let next = &self.next[Stretch::Meta.index()];
        let start = Lba::new(next.load(SeqCst));
        let (blocks, log) = encode_discard_log(&self.sb, start, &named)?;
        let end = start + blocks.len() as u64;
        if end.get() > self.limits[Stretch::Meta.index()].load(SeqCst)
            && !steadyfs_rt::mutated("discard-log-stays-within-limit")
        {
            self.dead.lock().failed();
            return Err(Error::NoSpace);
        }
        next.store(end.get(), SeqCst);
        self.dead.lock().note_log((start < end).then_some(start..end));
        let heads = Stretch::ALL.map(|stretch| {
            let next = self.next[stretch.index()].load(SeqCst);
            Head { next: Lba::new(next), limit: self.limit_from(stretch, next) }
        });
        let pages: Vec<PageBuf> = blocks.iter().map(|block| PageBuf::from_slice(block)).collect();
        let writes = if pages.is_empty() { Vec::new() } else { vec![(start, pages)] };
        Ok(FrozenLogs { sb: self.sb.clone(), heads, log, writes })
    }

    /// The checkpoint has committed: its limits are in force, and what died before its freeze may be discarded.
    pub(crate) fn committed(&self, frozen: &FrozenLogs) {
        for (limit, head) in self.limits.iter().zip(&frozen.heads) {
            limit.store(head.limit.get(), SeqCst);
        }
        self.dead.lock().committed();
        self.signal.wake.notify_all();
    }

    /// The checkpoint has failed: the next one takes what this one took.
    pub(crate) fn failed(&self) {
        self.dead.lock().failed();
    }

    /// A fault, for tests: what dies with the next checkpoint is discarded before that has committed.
    fn discard_early(&self) {
        if self.io.planted.is(Canary::EarlyDiscard) {
            let runs: Vec<(Lba, u64)> = self.dead.lock().fresh().map(|run| (run.start, run.end - run.start)).collect();
            drop(self.io.discard_runs(&runs));
        }
    }
}

impl FrozenLogs {
    /// The blocks of the checkpoint's pack, sealed.
    ///
    /// # Errors
    /// No room in the pack; a counter that breaks a rule.
    pub(crate) fn encode_pack(
        &self,
        checkpoint: &Checkpoint,
        pack: Pack,
        orphans: &[Ino],
        nat_journal: Vec<(Nid, NatEntry)>,
        kbytes_written: u64,
    ) -> Result<Vec<Block>> {
        let from = checkpoint.header();
        let header = Header {
            version: from.version(),
            flags: CpFlags::from_bits(from.flags().bits() & infinite::FLAGS.bits()),
            pack_blocks: 0,
            orphan_blocks: 0,
            nat_journal_blocks: 0,
            valid_blocks: from.valid_blocks(),
            valid_nodes: from.valid_nodes(),
            valid_inodes: from.valid_inodes(),
            next_free_nid: from.next_free_nid(),
            elapsed: from.elapsed_time(),
            kbytes_written,
            discard_log: self.log,
            heads: self.heads,
        };
        let mut orphans = orphans.to_vec();
        orphans.sort_unstable();
        let nat_bitmap = checkpoint.nat_bitmap().to_vec();
        Ok(infinite::Checkpoint { header, nat_bitmap, orphans, nat_journal }.encode(&self.sb, pack)?)
    }

    /// The blocks to write beside the pack.
    pub(crate) fn take_writes(&mut self) -> Vec<(Lba, Vec<PageBuf>)> {
        std::mem::take(&mut self.writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mkfs::{self, Infinite, MkfsOptions};
    use crate::volume::placement::Placement;
    use crate::{Fs, MountOptions, NewInode};
    use std::sync::Arc;
    use steadyfs_device::MemDevice;
    use steadyfs_format::Features;

    /// Who mounts the checkpoint in force takes what lies behind its limit for free.
    #[test]
    fn a_discard_log_that_does_not_fit_before_the_limit_is_refused() {
        let chosen = Infinite::new(1 << 14);
        let device = MemDevice::new(chosen.device_blocks());
        let features = Features::EXTRA_ATTR | Features::INODE_CRTIME | Features::FLEXIBLE_INLINE_XATTR;
        let options = MkfsOptions { features, infinite: Some(chosen), ..MkfsOptions::new([7; 16], 1_700_000_000) };
        mkfs::format(&device, &options).unwrap();
        let fs = Fs::mount(Arc::new(device), MountOptions::parse("commit=0").unwrap()).unwrap();
        let file = fs.create(&fs.root().unwrap(), b"file", &NewInode { mode: 0o100_644, ..NewInode::default() });
        let file = file.unwrap();
        for turn in 0..2 {
            fs.write(&file, 0, &[turn; 8192]).unwrap();
            fs.sync().unwrap();
        }
        fs.unlink(&fs.root().unwrap(), b"file").unwrap();
        let Placement::Infinite(logs) = &fs.vol.placement else { panic!("another kind of volume") };
        let frozen = fs.vol.freeze().unwrap();
        let (next, limit) = (&logs.next[Stretch::Meta.index()], logs.limits[Stretch::Meta.index()].load(SeqCst));
        let before = next.swap(limit, SeqCst);
        // Twice: what was refused is taken back, and the next attempt takes it again.
        for _ in 0..2 {
            assert!(matches!(logs.freeze(), Err(Error::NoSpace)), "the log lies behind block {limit}");
            assert_eq!(next.load(SeqCst), limit);
        }
        next.store(before, SeqCst);
        drop(frozen);
        fs.sync().unwrap();
    }
}
