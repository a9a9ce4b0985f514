//! A file that takes the name of another one though its contents were never synced (`git` does so with its index).
//!
//! No name may be durable before the contents that it puts in the place of others. So the contents, and what the
//! journal has noted up to now, take their places in the chain before the rename is noted: what says the rename comes
//! behind them. Nobody waits for these writes; between freeze and commit of a checkpoint the rename waits. The batch
//! names the blocks of the contents with their checksums, so a chain whose contents did not arrive ends before it, and
//! before the rename (`contents`). Where another thread writes some of these contents back, the rename waits for it.
//! Where recovery could not check the contents, the rename is left to a checkpoint, and so is every fsync until then.
//!
//! Kept true: a thread that waits for the chain from here on waits for the contents, too, and hears if they were
//! refused.

use super::route::Route;
use super::{Chained, Marked, Plan};
use crate::canary::Canary;
use crate::durable::Durable;
use crate::error::Result;
use crate::files::KeepOrder;
use crate::files::file::ALL_PAGES;
use crate::files::inode::Inode;
use crate::gate::Want;
use crate::volume::nodes::cache::Node;
use std::sync::Arc;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::Inode as RawInode;
use steadyfs_format::records::batch::MOST_CONTENTS;
use steadyfs_format::{BLOCK_SIZE, Nid};

impl KeepOrder for Durable {
    fn settle_before_rename(&self, inode: &Arc<Inode>) -> Result<()> {
        if inode.kind != FileType::Regular {
            return Ok(());
        }
        let asks = self.files.journal.is_on() && !self.vol.io.planted.is(Canary::NamesFirst);
        if asks && self.has_unsynced(inode)? && self.chain_contents(inode)? {
            return Ok(());
        }
        self.files.settle_contents(inode)?;
        // In place contents may be written, and not be durable.
        if asks && self.has_unsynced(inode)? && !steadyfs_rt::mutated("unsynced-contents-lose-the-journal") {
            self.files.journal.lose();
        }
        Ok(())
    }
}

impl Durable {
    /// Whether only a checkpoint has the contents of a file as they are.
    fn has_unsynced(&self, inode: &Arc<Inode>) -> Result<bool> {
        let own = Nid::from(inode.ino);
        let vital = |node: &Arc<Node>| node.nid != own || node.write(&self.vol.nodes).is_vital();
        let standing = self.vol.nodes.dirt.standing(inode.ino);
        Ok(self.files.budget.cache(inode).dirty_count() > 0
            || standing.unmarked
            || inode.node.disk_size.is_behind()
            || self.vol.nodes.dirt.of(inode.ino).iter().any(vital)
            || inode.read(RawInode::size)? > inode.node.disk_size.limit()
            || inode.overwrites.is_unsynced(self.files.gate.progress().1))
    }

    /// Gives the contents of a small file, and what was noted before, places in the chain, and begins to write them.
    /// False if a checkpoint has to have them, though some pages may have been written.
    fn chain_contents(&self, inode: &Arc<Inode>) -> Result<bool> {
        assert!(inode.kind == FileType::Regular, "inode {} has no contents that a rename could lose", inode.ino);
        let is_small = inode.read(RawInode::size)? <= (MOST_CONTENTS * BLOCK_SIZE) as u64;
        let mut has_waited = false;
        while is_small && self.keeps_contents() && !self.files.journal.is_lost() {
            let overwrites = inode.overwrites.count();
            match self.place_unsynced(inode)? {
                Unsynced::Placed(chained) => {
                    let is_checked = self.set_off(*chained);
                    if is_checked {
                        inode.overwrites.synced(overwrites);
                    }
                    return Ok(is_checked);
                }
                Unsynced::Wait if self.checkpoints.wait() => {}
                // Their write-back is soon done. The file is locked, so nobody makes more of them.
                Unsynced::Busy if !has_waited && !steadyfs_rt::mutated("a-rename-waits-for-write-back") => {
                    has_waited = true;
                    self.files.writeback(inode, ALL_PAGES)?;
                }
                Unsynced::Wait | Unsynced::Busy | Unsynced::Checkpoint => break,
            }
        }
        Ok(false)
    }

    fn place_unsynced(&self, inode: &Arc<Inode>) -> Result<Unsynced<'_>> {
        let dirty = self.files.budget.cache(inode).dirty_count();
        if dirty > MOST_CONTENTS as u64 {
            return Ok(Unsynced::Checkpoint);
        }
        let change = self.files.gate.begin(Want::blocks(dirty))?;
        // Before the progress, see there.
        let breaks = self.checkpoints.breaks();
        let (frozen, done) = self.files.gate.progress();
        if frozen != done && !steadyfs_rt::mutated("unsynced-waits-for-a-checkpoint") {
            return Ok(Unsynced::Wait);
        }
        let (pages, owed) = self.place_contents(&change, inode, dirty)?;
        change.used(pages);
        let Some(owed) = owed else { return Ok(Unsynced::Busy) };
        let route = self.fsync_route(inode)?;
        let contents = match route {
            Route::Journal(_) => self.contents_on_device(inode, &owed)?,
            Route::Chain | Route::Checkpoint(_) => None,
        };
        let Some(contents) = contents else {
            let is_busy = self.files.budget.cache(inode).is_flying() && matches!(route, Route::Journal(_));
            return Ok(if is_busy { Unsynced::Busy } else { Unsynced::Checkpoint });
        };
        let plan = Plan { breaks, route, owed, contents: Some(contents) };
        let chained = self.place_chain(&change, inode, false, plan)?;
        Ok(chained.map_or(Unsynced::Checkpoint, |chained| Unsynced::Placed(Box::new(chained))))
    }

    /// Begins to write what has its places, and waits for nothing; whether recovery can check the contents.
    fn set_off(&self, chained: Chained<'_>) -> bool {
        let Chained { ticket, mut below, owed, last, breaks, route } = chained;
        assert!(matches!(route, Route::Journal(_)), "no batch names these contents");
        let is_whole = self.checkpoints.breaks() == breaks;
        let is_checked = is_whole && last.as_ref().is_some_and(|last| last.is_checked);
        match last {
            Some(Marked { placed, .. }) if is_checked => below.push(placed),
            // Collection moved a block meanwhile. The node has its place, but recovery must not go by it.
            Some(Marked { placed, .. }) => {
                self.checkpoints.break_chain();
                below.push(self.vol.without_mark(placed));
            }
            None => {}
        }
        owed.submit_under(&ticket);
        below.submit();
        is_checked
    }
}

/// What came of an attempt to place contents that were never synced.
enum Unsynced<'v> {
    Placed(Box<Chained<'v>>),
    /// A checkpoint is between freeze and commit.
    Wait,
    /// Somebody else writes some of them back.
    Busy,
    /// Only a checkpoint helps.
    Checkpoint,
}

#[cfg(test)]
mod tests {
    use super::super::together::tests::{after_cut, contents as contents_of, home, mounted, write};
    use super::Plan;
    use crate::gate::Want;
    use crate::{Fs, MountOptions, RenameFlags, mkfs};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::time::Duration;
    use steadyfs_device::{CrashImage, Device, DeviceInfo, MemDevice, Op, RecordingDevice, Request, StreamHint};
    use steadyfs_rt::sim::{SimConfig, run};

    fn replace(fs: &Fs, from: &[u8], to: &[u8], how: RenameFlags) {
        fs.rename(&home(fs), from, &home(fs), to, how).unwrap();
    }

    fn checkpoints(fs: &Fs) -> u64 {
        fs.sync_stats().checkpoints.values().sum()
    }

    /// `git commit`: the index by a rename without an fsync, and a branch with one.
    #[test]
    fn an_fsync_after_such_a_rename_is_no_checkpoint() {
        let (base, device, fs) = mounted();
        fs.fsync(&write(&fs, b"index", &[1; 8192]), false).unwrap();
        for turn in 2..6 {
            write(&fs, b"index.lock", &vec![turn; 600 * usize::from(turn)]);
            replace(&fs, b"index.lock", b"index", RenameFlags::Replace);
            let before = contents_of(&after_cut(&base, &device), b"index");
            assert!(before == vec![turn - 1; before.len()], "turn {turn}: {:?}", before.first());
            fs.fsync(&write(&fs, &[b'a' + turn], &[turn; 40]), false).unwrap();
            let crashed = after_cut(&base, &device);
            assert_eq!(contents_of(&crashed, b"index"), vec![turn; 600 * usize::from(turn)]);
            assert_eq!(contents_of(&crashed, &[b'a' + turn]), [turn; 40]);
        }
        assert_eq!(checkpoints(&fs), 0);
    }

    #[test]
    fn both_files_of_an_exchange_go_before_it() {
        let (base, device, fs) = mounted();
        write(&fs, b"one", &[1; 5000]);
        write(&fs, b"two", &[2; 100]);
        replace(&fs, b"one", b"two", RenameFlags::Exchange);
        fs.fsync(&home(&fs), false).unwrap();
        let crashed = after_cut(&base, &device);
        assert_eq!((contents_of(&crashed, b"one"), contents_of(&crashed, b"two")), (vec![2; 100], vec![1; 5000]));
        assert_eq!(checkpoints(&fs), 0);
    }

    /// More contents than a batch names: a checkpoint has them, as it has those that were overwritten in place.
    #[test]
    fn large_contents_are_left_to_a_checkpoint() {
        let (base, device, fs) = mounted();
        fs.fsync(&write(&fs, b"file", &[1; 4096]), false).unwrap();
        let new = write(&fs, b"new", &[2; 8192]);
        fs.write(&new, 33 * 4096, &[2; 10]).unwrap();
        replace(&fs, b"new", b"file", RenameFlags::Replace);
        fs.fsync(&home(&fs), false).unwrap();
        assert_eq!(contents_of(&after_cut(&base, &device), b"file")[..8192], [2; 8192]);
        assert_eq!(checkpoints(&fs), 1);
    }

    /// Of what the device refused the next fsync hears, whoever asks for it.
    #[test]
    fn refused_contents_take_no_promise_with_them() {
        let (base, device, fs) = mounted();
        fs.fsync(&write(&fs, b"file", &[1; 4096]), false).unwrap();
        write(&fs, b"new", &[2; 4096]);
        device.refuses.store(true, SeqCst);
        replace(&fs, b"new", b"file", RenameFlags::Replace);
        device.refuses.store(false, SeqCst);
        fs.fsync(&write(&fs, b"other", &[3; 4096]), false).unwrap();
        let crashed = after_cut(&base, &device);
        assert_eq!((contents_of(&crashed, b"file"), contents_of(&crashed, b"other")), (vec![2; 4096], vec![3; 4096]));
    }

    /// A flush makes nothing of what the device did not take: what comes into the chain behind it relies on it.
    #[test]
    fn a_flush_meanwhile_makes_nothing_durable_that_was_refused() {
        let (base, device, fs) = mounted();
        fs.fsync(&write(&fs, b"file", &[1; 4096]), false).unwrap();
        write(&fs, b"new", &[2; 4096]);
        device.refuses.store(true, SeqCst);
        replace(&fs, b"new", b"file", RenameFlags::Replace);
        device.refuses.store(false, SeqCst);
        fs.vol.io.flush().unwrap();
        fs.fsync(&home(&fs), false).unwrap();
        assert_eq!(contents_of(&after_cut(&base, &device), b"file"), [2; 4096]);
    }

    /// The batch names the blocks that the file had, and one of them has moved before the inode gets its place.
    #[test]
    fn an_inode_that_points_elsewhere_than_its_batch_says_counts_for_nobody() {
        let (base, device, fs) = mounted();
        fs.fsync(&write(&fs, b"file", &[1; 4096]), false).unwrap();
        let new = write(&fs, b"new", &[2; 4096]);
        let place = |pages: u64| {
            let change = fs.files.gate.begin(Want::blocks(pages)).unwrap();
            let (placed, owed) = fs.durable.place_contents(&change, &new.inode, pages).unwrap();
            change.used(placed);
            (change, owed.expect("all of them"))
        };
        let (change, owed) = place(1);
        let contents = fs.durable.contents_on_device(&new.inode, &owed).unwrap();
        assert!(contents.is_some(), "recovery could check them");
        drop((owed, change));
        fs.write(&new, 0, &[3; 4096]).unwrap();
        let (change, owed) = place(1);
        let (breaks, route) = (fs.durable.checkpoints.breaks(), fs.durable.fsync_route(&new.inode).unwrap());
        let plan = Plan { breaks, route, owed, contents };
        let chained = fs.durable.place_chain(&change, &new.inode, false, plan).unwrap().expect("the journal is whole");
        assert!(!fs.durable.set_off(chained), "it counts");
        assert!(fs.durable.checkpoints.breaks() > breaks, "the chain goes on behind it");
        drop(change);
        let made = || fs.checkpoint_stats().causes["fsync"];
        let before = made();
        replace(&fs, b"new", b"file", RenameFlags::Replace);
        fs.fsync(&home(&fs), false).unwrap();
        assert_eq!(contents_of(&after_cut(&base, &device), b"file"), [3; 4096]);
        assert_eq!(made(), before + 1);
    }

    /// A device that takes a second for each write of contents, and no time for anything else; or a second for all.
    struct Slow {
        inner: Arc<RecordingDevice<MemDevice>>,
        all: AtomicBool,
    }

    impl Device for Slow {
        fn info(&self) -> DeviceInfo {
            DeviceInfo { synchronous: false, prefers_fua: true, ..self.inner.info() }
        }

        fn submit(&self, batch: Vec<Request>) {
            for request in batch {
                match &request.op {
                    Op::Write { hint, .. } if *hint == StreamHint::DataWarm || self.all.load(SeqCst) => {
                        let inner = Arc::clone(&self.inner);
                        drop(steadyfs_rt::spawn("slow", move || {
                            steadyfs_rt::sleep(Duration::from_secs(1));
                            inner.submit(vec![request]);
                        }));
                    }
                    _ => self.inner.submit(vec![request]),
                }
            }
        }
    }

    /// Does `work` in virtual time with a directory `home` that has a synced file `file`, and an unsynced one `new`;
    /// it gets what the file has after a power cut.
    fn on_a_slow_device(work: impl FnOnce(&Arc<Fs>, &Slow, &dyn Fn() -> Vec<u8>) + Send + 'static) {
        let whole = move || {
            let base = MemDevice::new(256 << 8);
            mkfs::format(&base, &mkfs::MkfsOptions::new([7; 16], 1_700_000_000)).unwrap();
            let inner = Arc::new(RecordingDevice::new(base.fork()));
            let device = Arc::new(Slow { inner, all: AtomicBool::new(false) });
            let options = MountOptions::parse("journal=single,background_gc=off,commit=0,journal.commit=0").unwrap();
            let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
            let dir = crate::NewInode { mode: 0o040_755, ..crate::NewInode::default() };
            fs.create(&fs.root().unwrap(), b"home", &dir).unwrap();
            fs.fsync(&write(&fs, b"file", &[1; 4096]), false).unwrap();
            write(&fs, b"new", &[2; 4096]);
            let cut = || {
                let crashed = CrashImage::new(&base, &device.inner.log()).build();
                contents_of(&Fs::mount(Arc::new(crashed), MountOptions::default()).unwrap(), b"file")
            };
            work(&fs, &device, &cut);
        };
        run(SimConfig { cores: 2, ..SimConfig::default() }, whole).unwrap();
    }

    /// A rename waits for no contents. An fsync behind it does, though it has none of its own.
    #[test]
    fn whoever_syncs_behind_it_waits_for_the_contents() {
        on_a_slow_device(|fs, _, cut| {
            let began = steadyfs_rt::now();
            replace(fs, b"new", b"file", RenameFlags::Replace);
            assert!(began.elapsed() < Duration::from_millis(900), "the rename waited {:?}", began.elapsed());
            fs.fsync(&home(fs), false).unwrap();
            assert!(began.elapsed() >= Duration::from_secs(1), "the contents are not on the device yet");
            assert_eq!(cut(), [2; 4096]);
            assert_eq!(checkpoints(fs), 0);
        });
    }

    /// The flusher has begun to write the contents: the rename waits for these writes, and no checkpoint is needed.
    #[test]
    fn it_waits_for_a_flusher_that_writes_the_contents() {
        on_a_slow_device(|fs, _, cut| {
            let new = fs.lookup(&home(fs), b"new").unwrap();
            fs.files.settle_contents(&new.inode).unwrap();
            assert!(fs.files.budget.cache(&new.inode).is_flying(), "the device takes a second");
            replace(fs, b"new", b"file", RenameFlags::Replace);
            assert!(!fs.files.journal.is_lost(), "the rename is left to a checkpoint");
            fs.fsync(&home(fs), false).unwrap();
            assert_eq!(cut(), [2; 4096]);
            assert_eq!(checkpoints(fs), 0);
        });
    }

    /// Between freeze and commit nothing may come into the chain: it would be in neither checkpoint's.
    #[test]
    fn it_waits_for_a_checkpoint_in_progress() {
        on_a_slow_device(|fs, device, cut| {
            device.all.store(true, SeqCst);
            let other = Arc::clone(fs);
            let syncing = steadyfs_rt::spawn("sync", move || other.sync().unwrap());
            while fs.files.gate.progress().0 == fs.files.gate.progress().1 {
                steadyfs_rt::sleep(Duration::from_millis(10));
            }
            device.all.store(false, SeqCst);
            // The checkpoint has the first contents of this one.
            fs.write(&fs.lookup(&home(fs), b"new").unwrap(), 0, &[3; 4096]).unwrap();
            replace(fs, b"new", b"file", RenameFlags::Replace);
            let (frozen, done) = fs.files.gate.progress();
            assert_eq!(frozen, done, "the rename is over before the checkpoint");
            fs.fsync(&home(fs), false).unwrap();
            assert_eq!(cut(), [3; 4096]);
            assert_eq!(checkpoints(fs), 0);
            syncing.join().unwrap();
        });
    }
}
