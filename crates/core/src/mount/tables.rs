//! Where a mount has a volume's tables from: its image, or somebody who knows them better, such as a repair.

use crate::error::Result;
use crate::raw::{Image, PackPart};
use std::ops::Range;
use steadyfs_format::checkpoint::{Checkpoint, LogPosition};
use steadyfs_format::nat::NatEntry;
use steadyfs_format::sit::SitEntry;
use steadyfs_format::summary::SummaryBlock;
use steadyfs_format::{Ino, Lba, Log, Nid, SegNo};

/// The tables of a volume at its last checkpoint.
pub(crate) trait Tables {
    /// Counts, positions of the logs, and times.
    fn checkpoint(&self) -> &Checkpoint;

    /// Entries that come over those of the NAT's blocks; of two with one id the first counts.
    fn nat_journal(&self) -> &[(Nid, NatEntry)];

    /// Shows `see` the entry of each segment that has one, in any order; of two of one segment the last counts.
    ///
    /// # Errors
    /// They cannot be read; those of `see`.
    fn segments(&self, see: &mut dyn FnMut(SegNo, &SitEntry) -> Result<()>) -> Result<()>;

    /// Segments whose entry in the SIT's blocks is older than what [`Tables::segments`] shows.
    fn segments_behind(&self) -> Vec<SegNo>;

    /// Where a log stands.
    fn log_position(&self, log: Log) -> LogPosition;

    /// Whose the blocks are that a log has written into its segment.
    ///
    /// # Errors
    /// Damage; it cannot be read.
    fn log_summary(&self, log: Log) -> Result<Box<SummaryBlock>>;

    /// Inodes in use without a name.
    ///
    /// # Errors
    /// Damage; they cannot be read.
    fn orphans(&self) -> Result<Vec<Ino>>;

    /// Shows `found` blocks of infinite logs that are dead and not yet discarded.
    ///
    /// # Errors
    /// Damage; they cannot be read.
    fn dead_blocks(&self, found: &mut dyn FnMut(Range<Lba>)) -> Result<()>;
}

impl Tables for Image {
    fn checkpoint(&self) -> &Checkpoint {
        self.checkpoint()
    }

    fn nat_journal(&self) -> &[(Nid, NatEntry)] {
        self.nat_journal()
    }

    fn segments(&self, see: &mut dyn FnMut(SegNo, &SitEntry) -> Result<()>) -> Result<()> {
        self.each_used_sit(see)
    }

    fn segments_behind(&self) -> Vec<SegNo> {
        self.sit_journal().iter().map(|(segment, _)| *segment).collect()
    }

    fn log_position(&self, log: Log) -> LogPosition {
        self.log_position(log)
    }

    fn log_summary(&self, log: Log) -> Result<Box<SummaryBlock>> {
        self.whole(PackPart::Summary(log))?;
        self.log_summary(log)
    }

    fn orphans(&self) -> Result<Vec<Ino>> {
        self.orphans()
    }

    fn dead_blocks(&self, found: &mut dyn FnMut(Range<Lba>)) -> Result<()> {
        self.dead_blocks(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Fs;
    use crate::mkfs::{self, MkfsOptions};
    use crate::{MountOptions, NewInode};
    use std::sync::Arc;
    use steadyfs_device::{Device, MemDevice};
    use steadyfs_format::zeroed_block;

    /// An image whose SIT forgot what it held, and one that has all of it.
    struct Corrected<'a> {
        image: &'a Image,
        sound: &'a Image,
    }

    impl Tables for Corrected<'_> {
        fn checkpoint(&self) -> &Checkpoint {
            self.image.checkpoint()
        }

        fn nat_journal(&self) -> &[(Nid, NatEntry)] {
            self.image.nat_journal()
        }

        fn segments(&self, see: &mut dyn FnMut(SegNo, &SitEntry) -> Result<()>) -> Result<()> {
            self.sound.segments(see)
        }

        fn segments_behind(&self) -> Vec<SegNo> {
            self.image.layout().segments().collect()
        }

        fn log_position(&self, log: Log) -> LogPosition {
            self.image.log_position(log)
        }

        fn log_summary(&self, log: Log) -> Result<Box<SummaryBlock>> {
            self.image.log_summary(log)
        }

        fn orphans(&self) -> Result<Vec<Ino>> {
            self.image.orphans()
        }

        fn dead_blocks(&self, found: &mut dyn FnMut(Range<Lba>)) -> Result<()> {
            self.image.dead_blocks(found)
        }
    }

    /// As a repair does: what the checker found stands in for a table that is damaged, and the checkpoint of the mount
    /// writes it.
    #[test]
    fn a_mount_goes_by_the_tables_that_it_is_given() {
        let device = MemDevice::new(128 << 8);
        mkfs::format(&device, &MkfsOptions::new([7; 16], 1_700_000_000)).unwrap();
        let device = Arc::new(device);
        let dev = || Arc::clone(&device) as Arc<dyn Device>;
        let options = || MountOptions::parse("background_gc=off,commit=0").unwrap();
        let fs = Fs::mount(dev(), options()).unwrap();
        for name in [&b"a"[..], b"b"] {
            let file = fs.create(&fs.root().unwrap(), name, &NewInode { mode: 0o100_644, ..NewInode::default() });
            // More segments than the SIT's journal has room for, so that the table has them.
            fs.write(&file.unwrap(), 0, &vec![1; 15 << 20]).unwrap();
            fs.sync().unwrap();
        }
        fs.unmount().unwrap();
        let sound = Image::open(Arc::new(device.fork())).unwrap();
        let image = Image::open(dev()).unwrap();
        let page = steadyfs_device::PageBuf::from_slice(&zeroed_block()[..]);
        device.write(image.sit_lba(0).get(), vec![page]).unwrap();
        let refused = Fs::mount(dev(), options()).err().expect("the table forgot segments");
        let said = refused.to_string();
        assert!(said.contains("segments hold") && said.contains("(mount step: segments and logs)"), "{said}");
        let fs = super::super::mount_from(&image, &Corrected { image: &image, sound: &sound }, options()).unwrap();
        let root = fs.root().unwrap();
        fs.create(&root, b"c", &NewInode { mode: 0o100_644, ..NewInode::default() }).unwrap();
        fs.unmount().unwrap();
        let again = Fs::mount(dev(), options()).unwrap();
        let root = again.root().unwrap();
        [&b"a"[..], b"b", b"c"].iter().for_each(|name| drop(again.lookup(&root, name).unwrap()));
    }
}
