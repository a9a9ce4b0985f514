//! The files of the engine, and a journal of what was written and synced when.
//!
//! `data`: the pages, at their numbers. `redo.N`: the log, a circle of bytes over all of them; the first block of the
//! first holds the checkpoint. `doublewrite`: where images of pages are written before they go to their places.

use super::page::{BLOCKS, Image, PAGE, PageNo};
use crate::error::{Error, Result};
use crate::stage::{Pattern, Stage};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use steadyfs_core::{InodeRef, NewInode};
use steadyfs_device::PageBuf;
use steadyfs_format::PageIndex;
use steadyfs_rt::{Cost, LockClass, Mutex, charge};

static JOURNAL: LockClass = LockClass::new("lab.engine.journal", 0);
const FILE_MODE: u32 = 0o100_644;
/// Bytes of the log's head, which the circle leaves out.
pub(super) const LOG_HEAD: u64 = 8 << 10;

/// Something that reached a file. Writes are noted before they begin, syncs and ends of writes when they are over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The log is synced up to here.
    LogSynced(u64),
    /// Images (page and number of the write) are in the double-write area, synced.
    Doublewritten(Vec<(PageNo, u32)>),
    /// An image is about to be written to its place; its last change ends here in the log.
    PageWrite { page: PageNo, write: u32, newest: u64 },
    /// All images that were written before are synced.
    DataSynced,
    /// The log before this place is given up.
    Checkpoint(u64),
}

/// See the head of the module.
pub(super) struct EngineFiles {
    stage: Arc<Stage>,
    data: InodeRef,
    logs: Vec<InodeRef>,
    doublewrite: InodeRef,
    log_file_size: u64,
    direct: bool,
    /// Whether bytes count as the workload's.
    counting: AtomicBool,
    pub(super) journal: Option<Mutex<Vec<Event>>>,
}

impl EngineFiles {
    /// Makes the files: the logs of their full size, the double-write area of so many pages.
    pub(super) fn create(
        stage: &Arc<Stage>,
        logs: u32,
        log_file_size: u64,
        doublewrite_pages: u64,
        direct: bool,
        journal: bool,
    ) -> Result<Self> {
        let fs = &stage.fs;
        let root = fs.root().map_err(Error::core("opening the root directory"))?;
        let make = |name: String, size: u64, owner: u64| -> Result<InodeRef> {
            let doing = || Error::core(format!("making {name}"));
            let new = NewInode { mode: FILE_MODE, ..NewInode::default() };
            let file = fs.create(&root, name.as_bytes(), &new).map_err(doing())?;
            let mut at = 0;
            while at < size {
                let len = (1u64 << 20).min(size - at);
                if Pattern::new(owner, stage.seed).write(fs, &file, at, len, false).map_err(doing())? != len {
                    return Err(doing()(steadyfs_core::Error::NoSpace));
                }
                stage.progress.advance(len);
                at += len;
            }
            fs.fsync(&file, false).map_err(doing())?;
            Ok(file)
        };
        Ok(EngineFiles {
            logs: (0..logs).map(|log| make(format!("redo.{log}"), log_file_size, !0)).collect::<Result<_>>()?,
            doublewrite: make("doublewrite".into(), doublewrite_pages * PAGE, !1)?,
            data: make("data".into(), 0, !2)?,
            stage: Arc::clone(stage),
            log_file_size,
            direct,
            counting: AtomicBool::new(false),
            journal: journal.then(|| Mutex::new(&JOURNAL, Vec::new())),
        })
    }

    /// From now on, or no longer, bytes that are read and written count as the workload's.
    pub(super) fn count(&self, counting: bool) {
        self.counting.store(counting, Relaxed);
    }

    fn count_write(&self, bytes: u64) {
        if self.counting.load(Relaxed) {
            self.stage.wrote(bytes);
        }
    }

    fn note(&self, event: impl FnOnce() -> Event) {
        if let Some(journal) = &self.journal {
            journal.lock().push(event());
        }
    }

    /// Bytes of the log's circle.
    pub(super) fn log_capacity(&self) -> u64 {
        (self.log_file_size - LOG_HEAD) * self.logs.len() as u64
    }

    fn sync(&self, file: &InodeRef, what: &str) -> Result<()> {
        charge(Cost::SyscallEntry);
        self.stage.fs.fsync(file, false).map_err(Error::core(format!("syncing the {what}")))
    }

    /// Writes the log from one place to another; both are multiples of a block of the log, 512 bytes.
    pub(super) fn write_log(&self, from: u64, to: u64) -> Result<()> {
        let mut at = from;
        while at < to {
            let lap = at / self.log_capacity();
            let within = at % self.log_capacity();
            let (file, off) = (within / (self.log_file_size - LOG_HEAD), within % (self.log_file_size - LOG_HEAD));
            let len = (to - at).min(self.log_file_size - LOG_HEAD - off);
            let pattern = Pattern::new(1 << 63 | lap << 8 | file, self.stage.seed);
            let wrote = pattern.write(&self.stage.fs, &self.logs[file as usize], LOG_HEAD + off, len, false);
            if wrote.map_err(Error::core("writing the log"))? != len {
                return Err(Error::core("writing the log")(steadyfs_core::Error::NoSpace));
            }
            self.count_write(len);
            at += len;
        }
        Ok(())
    }

    /// Syncs the log files that hold this part, which is what has been written up to `to`.
    pub(super) fn sync_log(&self, from: u64, to: u64) -> Result<()> {
        let part = self.log_file_size - LOG_HEAD;
        let files = self.logs.len() as u64;
        let (first, last) = (from / part, to.max(1).div_ceil(part).max(from / part + 1));
        for file in first..last.min(first + files) {
            self.sync(&self.logs[(file % files) as usize], "log")?;
        }
        self.note(|| Event::LogSynced(to));
        Ok(())
    }

    /// Writes the place from which recovery would begin, and syncs it.
    pub(super) fn checkpoint(&self, lsn: u64) -> Result<()> {
        let pattern = Pattern::new(1 << 62 | lsn, self.stage.seed);
        let wrote = pattern.write(&self.stage.fs, &self.logs[0], 0, 512, false);
        wrote.map_err(Error::core("writing the log's head"))?;
        self.count_write(512);
        self.sync(&self.logs[0], "log's head")?;
        self.note(|| Event::Checkpoint(lsn));
        Ok(())
    }

    fn write_pages(&self, file: &InodeRef, first: u64, pages: &[PageBuf], what: &str) -> Result<()> {
        charge(Cost::SyscallEntry);
        let wrote = match self.direct {
            true => self.stage.fs.write_pages_direct(file, PageIndex(first), pages),
            false => self.stage.fs.write_pages(file, PageIndex(first), pages),
        };
        let bytes = pages.len() as u64 * 4096;
        if wrote.map_err(Error::core(format!("writing the {what}")))? as u64 != bytes {
            return Err(Error::core(format!("writing the {what}"))(steadyfs_core::Error::NoSpace));
        }
        self.count_write(bytes);
        Ok(())
    }

    /// Writes images to the double-write area from one of its pages on, and syncs it.
    pub(super) fn doublewrite(&self, first: u64, images: &[Image]) -> Result<()> {
        let blocks: Vec<PageBuf> = images.iter().flat_map(Image::blocks).collect();
        self.write_pages(&self.doublewrite, first * BLOCKS, &blocks, "double-write area")?;
        self.sync(&self.doublewrite, "double-write area")?;
        self.note(|| Event::Doublewritten(images.iter().map(|image| (image.page, image.write)).collect()));
        Ok(())
    }

    /// Writes an image to its place.
    pub(super) fn write_page(&self, image: &Image, newest: u64) -> Result<()> {
        self.note(|| Event::PageWrite { page: image.page, write: image.write, newest });
        let blocks: Vec<PageBuf> = image.blocks().collect();
        self.write_pages(&self.data, u64::from(image.page) * BLOCKS, &blocks, "data file")
    }

    /// Writes images with neighbouring numbers, before anybody uses the engine.
    pub(super) fn load(&self, images: &[Image]) -> Result<()> {
        let Some(first) = images.first() else { return Ok(()) };
        let blocks: Vec<PageBuf> = images.iter().flat_map(Image::blocks).collect();
        self.write_pages(&self.data, u64::from(first.page) * BLOCKS, &blocks, "data file")?;
        self.stage.progress.advance(images.len() as u64 * PAGE);
        Ok(())
    }

    /// Syncs the data file.
    pub(super) fn sync_data(&self) -> Result<()> {
        self.sync(&self.data, "data file")?;
        self.note(|| Event::DataSynced);
        Ok(())
    }

    /// Reads a page, which has to be this image; past the cache if asked to, or if the engine always does.
    pub(super) fn read_page(&self, image: &Image, direct: bool) -> Result<()> {
        let mut bytes = vec![0; PAGE as usize];
        let off = u64::from(image.page) * PAGE;
        charge(Cost::SyscallEntry);
        let read = match self.direct || direct {
            true => self.stage.fs.read_direct(&self.data, off, &mut bytes),
            false => self.stage.fs.read(&self.data, off, &mut bytes),
        };
        let n = read.map_err(Error::core(format!("reading page {}", image.page)))?;
        image.judge(&bytes[..n]).map_err(Error::Check)?;
        if self.counting.load(Relaxed) {
            self.stage.read(n as u64);
        }
        Ok(())
    }
}
