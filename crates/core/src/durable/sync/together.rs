//! fsync of a small file with one wait: its contents, what the journal has noted and its inode are placed under one
//! change, and go to the device together.
//!
//! It takes a device that does several writes of a thread that waits for them faster together than one after the other,
//! and recovery that can check the contents (`contents`). In every other case an fsync writes the contents first.
//!
//! Kept true: what is owed to the device is submitted, also after an error; who owes it waits for nobody before: no
//! lock that is taken meanwhile is held by anybody who waits for writes of data.

use super::route::Route;
use super::{Chained, Plan};
use crate::durable::Durable;
use crate::error::Result;
use crate::files::inode::Inode;
use crate::gate::Want;
use crate::options::InPlace;
use crate::volume::io::ChainTicket;
use crate::volume::{Change, Volume};
use std::sync::Arc;
use steadyfs_device::{IoResult, Op, PageBuf, Request};
use steadyfs_format::Lba;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::Inode as RawInode;
use steadyfs_format::records::batch::MOST_CONTENTS;

/// Writes that are in flight for everybody else, and that their owner has yet to give to the device.
pub(super) struct Owed<'v> {
    vol: &'v Volume,
    requests: Vec<Request>,
}

impl<'v> Owed<'v> {
    /// Nothing.
    pub(super) fn none(vol: &'v Volume) -> Self {
        Owed { vol, requests: Vec::new() }
    }

    /// Hands the writes over to who does them.
    pub(super) fn take(mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    /// Submits the writes: a thread that waits for the chain waits for them, too.
    pub(super) fn submit_under(self, ticket: &Arc<ChainTicket>) {
        let vol = self.vol;
        let kept = |Request { op, done }| {
            let ticket = (!steadyfs_rt::mutated("owed-writes-hold-the-chain")).then(|| Arc::clone(ticket));
            Request::new(op, move |result: IoResult| {
                // What failed is noted before the ticket is gone.
                done(result);
                drop(ticket);
            })
        };
        vol.io.submit(self.take().into_iter().map(kept).collect());
    }

    /// What a block will have.
    pub(super) fn page(&self, lba: Lba) -> Option<&PageBuf> {
        self.requests.iter().find_map(|request| match &request.op {
            Op::Write { block, pages, .. } => pages.get(lba.get().checked_sub(*block)? as usize),
            _ => None,
        })
    }
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        self.vol.io.submit(std::mem::take(&mut self.requests));
    }
}

impl Durable {
    /// Makes a file durable with its contents, if it can be done so; `None` if not, though some of its pages may have
    /// been written.
    ///
    /// # Errors
    /// Of the device, also of contents.
    pub(super) fn sync_together(&self, inode: &Arc<Inode>, datasync: bool) -> Option<Result<()>> {
        let dirty = self.files.budget.cache(inode).dirty_count();
        let is_small = inode.kind == FileType::Regular && (1..=MOST_CONTENTS as u64).contains(&dirty);
        if !self.files.journal.is_on() || !self.vol.io.writes_together() || !self.keeps_contents() || !is_small {
            return None;
        }
        let failures = inode.write_errors.count();
        match self.place_together(inode, datasync, dirty) {
            Ok(None) => None,
            Ok(Some(chained)) => {
                let end = self.finish(chained);
                // An fsync is over when what it has written was taken; it says so of nothing else.
                Some(if steadyfs_rt::mutated("fsync-hears-of-its-writes") {
                    end
                } else {
                    end.and(inode.write_errors.since(failures))
                })
            }
            Err(error) => Some(Err(error)),
        }
    }

    fn place_together(&self, inode: &Arc<Inode>, datasync: bool, dirty: u64) -> Result<Option<Chained<'_>>> {
        // Nodes of one file go together: nobody changes size, map or names meanwhile.
        let _file = inode.rwsem.read();
        let change = self.files.gate.begin(Want::blocks(dirty))?;
        // Before the progress, see there.
        let breaks = self.checkpoints.breaks();
        let (frozen, done) = self.files.gate.progress();
        if frozen != done || inode.read(RawInode::links)? == 0 {
            return Ok(None);
        }
        let (pages, owed) = self.place_contents(&change, inode, dirty)?;
        change.used(pages);
        let Some(owed) = owed else { return Ok(None) };
        let route = self.fsync_route(inode)?;
        if !matches!(route, Route::Journal(_)) {
            return Ok(None);
        }
        let contents = self.checked_contents(inode, datasync, route, &owed)?;
        self.place_chain(&change, inode, datasync, Plan { breaks, route, owed, contents })
    }

    /// Places the `dirty` dirty pages of a file: how many it placed, and the writes owed for them;
    /// `None` if the file may have more. The file is locked.
    pub(super) fn place_contents<'v>(
        &'v self,
        change: &Change<'_>,
        inode: &Arc<Inode>,
        dirty: u64,
    ) -> Result<(u64, Option<Owed<'v>>)> {
        self.files.gather(change);
        let (pages, has_all) = self.files.place_all(change, inode, dirty as usize)?;
        assert!(pages as u64 <= dirty, "{pages} pages were placed, of {dirty} that there was room for");
        let owed = Owed { vol: &self.vol, requests: change.take_gathered() };
        Ok((pages as u64, has_all.then_some(owed)))
    }

    /// Whether contents that have places stay there until a checkpoint has them.
    pub(super) fn keeps_contents(&self) -> bool {
        matches!(self.files.in_place, InPlace::Never | InPlace::Auto) && self.vol.placement.keeps_contents()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::files::file::ALL_PAGES;
    use crate::fs::Fs;
    use crate::mkfs::{self, MkfsOptions};
    use crate::{InodeRef, MountOptions, NewInode, RenameFlags};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
    use steadyfs_device::{CrashImage, Device, DeviceInfo, IoResult, MemDevice, RecordingDevice, StreamHint, errno};
    use steadyfs_format::PageIndex;

    /// A device that does writes together, and may refuse data.
    pub(crate) struct Prompt {
        pub(crate) inner: RecordingDevice<MemDevice>,
        waits: AtomicU64,
        pub(crate) refuses: AtomicBool,
        refuses_one: AtomicBool,
    }

    impl Device for Prompt {
        fn info(&self) -> DeviceInfo {
            DeviceInfo { synchronous: false, prefers_fua: true, ..self.inner.info() }
        }

        fn submit(&self, batch: Vec<Request>) {
            for request in batch {
                match &request.op {
                    Op::Write { hint: StreamHint::DataWarm, .. }
                        if self.refuses.load(SeqCst) || self.refuses_one.swap(false, SeqCst) =>
                    {
                        request.fail(errno::EIO)
                    }
                    _ => self.inner.submit(vec![request]),
                }
            }
        }

        fn run_all(&self, ops: Vec<Op>) -> Vec<IoResult> {
            self.waits.fetch_add(1, SeqCst);
            ops.into_iter().map(|op| self.run(op)).collect()
        }
    }

    pub(crate) fn mounted() -> (MemDevice, Arc<Prompt>, Arc<Fs>) {
        let memory = MemDevice::new(256 << 8);
        mkfs::format(&memory, &MkfsOptions::new([7; 16], 1_700_000_000)).unwrap();
        let inner = RecordingDevice::new(memory.fork());
        let device = Arc::new(Prompt {
            inner,
            waits: AtomicU64::new(0),
            refuses: AtomicBool::new(false),
            refuses_one: AtomicBool::new(false),
        });
        let options = MountOptions::parse("journal=single,background_gc=off,commit=0").unwrap();
        let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
        let home = NewInode { mode: 0o040_755, ..NewInode::default() };
        fs.create(&fs.root().unwrap(), b"home", &home).unwrap();
        (memory, device, fs)
    }

    /// A directory whose entries are in its inode: of another an fsync writes the pages, too.
    pub(crate) fn home(fs: &Fs) -> InodeRef {
        fs.lookup(&fs.root().unwrap(), b"home").unwrap()
    }

    pub(crate) fn write(fs: &Fs, name: &[u8], bytes: &[u8]) -> InodeRef {
        let root = home(fs);
        let file = fs.create(&root, name, &NewInode { mode: 0o100_644, ..NewInode::default() }).unwrap();
        assert_eq!(fs.write(&file, 0, bytes).unwrap(), bytes.len());
        file
    }

    /// What a power cut leaves that takes everything which is not durable.
    pub(crate) fn after_cut(base: &MemDevice, device: &Prompt) -> Arc<Fs> {
        let crashed = CrashImage::new(base, &device.inner.log()).build();
        Fs::mount(Arc::new(crashed), MountOptions::default()).unwrap()
    }

    pub(crate) fn contents(fs: &Fs, name: &[u8]) -> Vec<u8> {
        let file = fs.lookup(&home(fs), name).unwrap();
        let mut bytes = vec![0; 3 * 4096];
        let read = fs.read(&file, 0, &mut bytes).unwrap();
        bytes.truncate(read);
        bytes
    }

    #[test]
    fn a_safe_save_waits_twice_and_flushes_nothing() {
        let (base, device, fs) = mounted();
        let root = home(&fs);
        fs.fsync(&write(&fs, b"file", &[1; 8192]), false).unwrap();
        let (waits, before) = (device.waits.load(SeqCst), fs.io_stats());
        for turn in 2..5 {
            let file = write(&fs, b"new", &[turn; 8192]);
            fs.fsync(&file, false).unwrap();
            assert_eq!(contents(&after_cut(&base, &device), b"new"), [turn; 8192]);
            fs.rename(&root, b"new", &root, b"file", RenameFlags::Replace).unwrap();
            fs.fsync(&root, false).unwrap();
            assert_eq!(contents(&after_cut(&base, &device), b"file"), [turn; 8192]);
        }
        let after = fs.io_stats();
        assert_eq!((device.waits.load(SeqCst) - waits, after.flushes - before.flushes), (6, 0));
        assert_eq!(after.through - before.through, 9, "data, the batch with the inode, and the batch of the directory");
    }

    #[test]
    fn what_others_have_written_and_not_flushed_takes_a_flush() {
        let (base, device, fs) = mounted();
        fs.fsync(&write(&fs, b"first", &[1; 4096]), false).unwrap();
        let other = write(&fs, b"other", &[2; 4096]);
        fs.files.settle_contents(&other.inode).unwrap();
        let before = fs.io_stats();
        fs.fsync(&write(&fs, b"second", &[3; 4096]), false).unwrap();
        assert_eq!(fs.io_stats().flushes - before.flushes, 1, "the other's contents are not durable");
        assert_eq!(contents(&after_cut(&base, &device), b"second"), [3; 4096]);
    }

    /// Another thread has taken a page of the file and not placed it: nobody may say yet where that page is.
    #[test]
    fn a_page_that_another_thread_has_yet_to_place_is_waited_for() {
        let (_, _, fs) = mounted();
        let file = write(&fs, b"file", &[1; 8192]);
        let cache = fs.files.budget.cache(&file.inode);
        let place = || {
            let change = fs.files.gate.begin(Want::blocks(2)).unwrap();
            fs.files.gather(&change);
            let placed = fs.files.place_all(&change, &file.inode, 2).unwrap();
            change.used(placed.0 as u64);
            drop(Owed { vol: &fs.vol, requests: change.take_gathered() });
            placed
        };
        let taken = cache.take_dirty(&(ALL_PAGES.start..PageIndex(1)), 1);
        assert_eq!(place(), (1, false), "one page has no place");
        cache.put_back(&taken, &taken.pages);
        cache.placed(&taken);
        assert_eq!(place(), (1, true));
    }

    #[test]
    fn contents_that_are_refused_do_not_end_the_chain_before_what_is_promised_later() {
        let (base, device, fs) = mounted();
        fs.fsync(&write(&fs, b"first", &[1; 4096]), false).unwrap();
        let refused = write(&fs, b"refused", &[2; 4096]);
        device.refuses.store(true, SeqCst);
        assert!(fs.fsync(&refused, false).is_err());
        device.refuses.store(false, SeqCst);
        fs.fsync(&write(&fs, b"later", &[3; 4096]), false).unwrap();
        assert_eq!(contents(&after_cut(&base, &device), b"later"), [3; 4096]);
        fs.fsync(&refused, false).unwrap();
        assert_eq!(contents(&after_cut(&base, &device), b"refused"), [2; 4096]);
    }

    /// A second attempt may help. But another fsync by the same handle may be told of the error first, and a handle is
    /// told once: so whoever wrote what was refused says so, too.
    #[test]
    fn an_fsync_whose_contents_were_refused_fails_whoever_else_is_told() {
        let (_, device, fs) = mounted();
        fs.fsync(&write(&fs, b"first", &[1; 4096]), false).unwrap();
        let file = write(&fs, b"file", &[2; 4096]);
        device.refuses_one.store(true, SeqCst);
        let said = fs.durable.sync_together(&file.inode, false);
        assert!(matches!(said, Some(Err(_))), "{said:?}");
        assert!(!device.refuses_one.load(SeqCst), "nothing was refused");
        assert!(fs.fsync(&file, false).is_err(), "nobody has told this handle");
        fs.fsync(&file, false).unwrap();
    }
}
