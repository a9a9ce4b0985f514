//! The mark in the superblock that keeps other programs away from a volume with promises in its journal.
//!
//! Kept true: a mount marks the volume before it promises anything by the journal. It takes the mark away only when its
//! last checkpoint has committed and no fsync came after that.

use crate::canary::Canary;
use crate::durable::Durable;
use crate::error::Result;
use crate::raw::Superblocks;
use crate::volume::Volume;
use steadyfs_format::records::VERSION_KEY;

impl Volume {
    /// Makes the superblock a stock one again, of a mount that comes to nothing: nobody could sync anything yet.
    pub(crate) fn take_mark_back(&self) {
        let device = self.io.device();
        let stock = Superblocks::read(device).mark_journal(device, false);
        if let Err(error) = stock {
            tracing::warn!(%error, "the superblock stays that of a volume with a journal; the next mount sees to it");
        }
    }
}

impl Durable {
    /// Makes the superblock that of a volume with a journal, or of a stock one, as the mount's options say. Nothing has
    /// been promised yet, and a checkpoint of this mount is in force.
    pub(crate) fn mark_journal(&self, superblocks: &Superblocks) -> Result<()> {
        let marked = self.files.journal.is_on() && !self.vol.io.planted.is(Canary::MarkForgotten);
        let (_, done) = self.checkpoints.progress();
        assert!(done > 0, "the superblock is marked before a checkpoint of this mount is in force");
        superblocks.mark_journal(self.vol.io.device(), marked)?;
        if self.files.journal.is_on() {
            self.checkpoints.set_key(VERSION_KEY);
        }
        Ok(())
    }

    /// Ends the mount after its last checkpoint, and makes the superblock a stock one again, unless somebody has synced
    /// something since: then the next mount replays it.
    pub(crate) fn unmark_journal(&self) -> Result<()> {
        if !self.files.journal.is_on() {
            return Ok(());
        }
        // A thread that has a place in the chain by then is seen, and nobody gets one later.
        let frozen = self.vol.freeze()?;
        self.vol.close("the volume was unmounted");
        drop(frozen);
        self.vol.io.settle();
        if self.checkpoints.has_chain(&self.vol) && !steadyfs_rt::mutated("mark-stays-for-chain") {
            return Ok(());
        }
        let device = self.vol.io.device();
        Superblocks::read(device).mark_journal(device, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Cause;
    use crate::durable::tests::journaled;
    use crate::mkfs::{self, MkfsOptions};
    use crate::raw::Image;
    use crate::volume::nodes::slots;
    use crate::{Fs, MountOptions, NewInode};
    use std::sync::Arc;
    use steadyfs_device::{Device, MemDevice};
    use steadyfs_format::{Lba, Slot};

    /// A mount marks the superblock, and comes to nothing over a deleted file that it cannot free: other programs know
    /// the volume again.
    #[test]
    fn a_mount_that_fails_takes_its_mark_back() {
        let device = MemDevice::new(64 << 8);
        mkfs::format(&device, &MkfsOptions::new([7; 16], 1_700_000_000)).unwrap();
        let device = Arc::new(device);
        let options = |more: &str| MountOptions::parse(&format!("background_gc=off,commit=0{more}")).unwrap();
        let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options("")).unwrap();
        let root = fs.root().unwrap();
        let file = fs.create(&root, b"file", &NewInode { mode: 0o100_644, ..NewInode::default() }).unwrap();
        fs.write(&file, 0, &[1; 4096]).unwrap();
        fs.unlink(&root, b"file").unwrap();
        fs.sync().unwrap();
        // After a power cut, its block is one that nobody has.
        let crashed = Arc::new(device.fork());
        let image = Image::open(Arc::clone(&crashed) as Arc<dyn Device>).unwrap();
        let at = image.nat(file.ino().nid()).unwrap().lba;
        let mut page = crashed.read_one(at.get()).unwrap();
        let free = image.layout().main_end().get() - 1;
        slots::set(page.make_mut(), image.superblock().features(), 0, Slot::At(Lba(free))).unwrap();
        crashed.write(at.get(), vec![page]).unwrap();
        let refused = Fs::mount(Arc::clone(&crashed) as Arc<dyn Device>, options(",journal=single")).err();
        let said = refused.expect("a file cannot be freed").to_string();
        assert!(said.ends_with("(mount step: deleted files)"), "{said}");
        assert!(!Superblocks::read(&*crashed).chosen().unwrap().is_journaled(), "the mark stays");
    }

    /// Somebody syncs between the last checkpoint and the end of the mount: the next mount has it.
    #[test]
    fn what_is_synced_behind_the_last_checkpoint_keeps_the_mark() {
        let (device, fs) = journaled();
        let root = fs.root().unwrap();
        let new = NewInode { mode: 0o100_644, ..NewInode::default() };
        fs.create(&root, b"before", &new).unwrap();
        fs.durable.checkpoint(Cause::Unmount).unwrap();
        fs.create(&root, b"behind", &new).unwrap();
        fs.fsync(&root, false).unwrap();
        fs.durable.unmark_journal().unwrap();
        assert!(fs.create(&root, b"late", &new).is_err(), "the mount is over");
        let next = Fs::mount(Arc::new(device.fork()), MountOptions::default()).unwrap();
        let root = next.root().unwrap();
        [&b"before"[..], b"behind"].iter().for_each(|name| drop(next.lookup(&root, name).unwrap()));
        next.unmount().unwrap();
    }
}
