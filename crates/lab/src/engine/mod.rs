//! A small database engine that writes as InnoDB does: a B+-tree of pages of 16 KiB, a buffer pool, a redo log with
//! group commit, a double-write area.
//!
//! It is there for what it does to the file system below: random writes of pages that the buffer pool lets go, a sync
//! of the log for each group of commits, the same pages once more in the double-write area, all in an order that a
//! crash at any moment would survive ([`cleaner`] has it; a test reads it from a journal of everything that is
//! written). Threads and locks are those of the runtime. What it is not: there are no undo pages, no change buffer, no
//! adaptive hash index, no binary log, and no recovery, since no run ends with a crash.
//!
//! Memory: a record is its key and its version, 12 bytes; its value follows from them. A page in a file is 4 x 24 bytes
//! of the device's memory and an entry here, so 6.5 million records of 1 KB, 10 of them in a page, take about 0.4 GB by
//! this reckoning: 130 MB for the images, 60 MB for the blocks of 650,000 pages, 180 MB to compare with at the end. The
//! file system's caches come on top.

mod cleaner;
mod files;
mod log;
mod page;
mod pool;
mod tree;

use crate::error::{Error, Result};
use crate::workload::Stage;
use files::EngineFiles;
pub(crate) use log::Durability;
use log::Redo;
pub(crate) use page::PAGE;
use page::{Image, NONE, PageNo, ROOM, TreeContent};
use pool::Pool;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use steadyfs_rt::{JoinHandle, sleep, spawn};
use tree::{PageShape, Root, Tree};

/// Bytes of a record beside its value: headers, transaction, roll pointer, a key of 20 characters.
const RECORD_EXTRA: u64 = 44;
/// Bytes of an entry of an inner page.
const CHILD_BYTES: u64 = 33;
/// Bytes that the log has for a change beside what changes.
const LOG_EXTRA: u64 = 200;
/// Pages that loading writes at a time.
const LOAD: usize = 64;

/// How the engine is set up.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Bytes of a value, and of what an update changes of it.
    pub(crate) value: u64,
    pub(crate) changed: u64,
    /// Pages of the buffer pool.
    pub(crate) pool_pages: usize,
    pub(crate) log_files: u32,
    pub(crate) log_file_size: u64,
    pub(crate) durability: Durability,
    pub(crate) doublewrite: bool,
    /// Pages go past the page cache of the file system.
    pub(crate) direct: bool,
    pub(crate) cleaners: u32,
    /// How full loading makes leaves.
    pub(crate) fill: f64,
    /// Keep a journal of what is written and synced.
    pub(crate) journal: bool,
}

impl Config {
    /// Records of a leaf at most.
    pub(crate) fn records_per_page(&self) -> u64 {
        ROOM / (self.value + RECORD_EXTRA)
    }

    /// Records of a leaf after loading.
    fn loaded(&self) -> u64 {
        ((self.records_per_page() as f64 * self.fill).round() as u64).clamp(1, self.records_per_page())
    }

    /// Bytes of all files after loading so many records, nearly.
    pub(crate) fn file_bytes(&self, records: u64) -> u64 {
        let leaves = records.div_ceil(self.loaded()).max(1);
        let inner = leaves.div_ceil(ROOM / CHILD_BYTES * 9 / 10) + 1;
        (leaves + inner) * PAGE + u64::from(self.log_files) * self.log_file_size + self.doublewrite_pages() * PAGE
    }

    fn doublewrite_pages(&self) -> u64 {
        if self.doublewrite { u64::from(self.cleaners) * cleaner::BATCH as u64 } else { 0 }
    }

    fn shape(&self) -> PageShape {
        PageShape {
            records: self.records_per_page() as usize,
            children: (ROOM / CHILD_BYTES) as usize,
            // The new bytes, and the old ones for the undo record.
            update_bytes: 2 * self.changed + LOG_EXTRA,
            insert_bytes: self.value + LOG_EXTRA,
        }
    }
}

/// See the head of the module.
pub(crate) struct Engine {
    config: Config,
    files: Arc<EngineFiles>,
    log: Arc<Redo>,
    pool: Arc<Pool>,
    tree: Tree,
    tasks: Vec<JoinHandle<Result<()>>>,
}

impl Engine {
    /// Makes the files and loads records with these keys, which rise; then reads and writes begin to count as the
    /// workload's.
    pub(crate) fn create(stage: &Arc<Stage>, config: &Config, keys: impl Iterator<Item = u64>) -> Result<Self> {
        let files = EngineFiles::create(
            stage,
            config.log_files,
            config.log_file_size,
            config.doublewrite_pages(),
            config.direct,
            config.journal,
        )?;
        let files = Arc::new(files);
        let log = Arc::new(Redo::new(&files, config.durability));
        let pool = Arc::new(Pool::new(&files, &log, config.pool_pages));
        let root = load(&pool, config, keys)?;
        files.sync_data()?;
        files.count(true);
        let tree = Tree::new(&pool, root, config.shape());
        let mut engine = Engine { config: config.clone(), files, log, pool, tree, tasks: Vec::new() };
        engine.start();
        Ok(engine)
    }

    fn start(&mut self) {
        for number in 0..u64::from(self.config.cleaners) {
            let (pool, doublewrite, direct) = (Arc::clone(&self.pool), self.config.doublewrite, self.config.direct);
            self.tasks.push(spawn("page-cleaner", move || cleaner::run(&pool, number, doublewrite, direct)));
        }
    }

    /// The version of a record.
    pub(crate) fn get(&self, key: u64) -> Result<Option<u32>> {
        self.tree.get(key)
    }

    /// Makes the next version of a record, and commits; false if there is no such record.
    pub(crate) fn update(&self, key: u64) -> Result<bool> {
        self.tree.update(key)?.map_or(Ok(false), |lsn| self.log.commit(lsn).map(|()| true))
    }

    /// Makes a record, and commits; false if there is one already.
    pub(crate) fn insert(&self, key: u64) -> Result<bool> {
        self.tree.insert(key)?.map_or(Ok(false), |lsn| self.log.commit(lsn).map(|()| true))
    }

    /// The records from a key on, at most so many: keys and versions in order.
    pub(crate) fn scan(&self, from: u64, most: usize) -> Result<Vec<(u64, u32)>> {
        self.tree.scan(from, most)
    }

    /// Writes and syncs the log once a second, for durabilities that leave it to that, while `goes_on` says so.
    pub(crate) fn tick(&self, goes_on: impl Fn() -> bool) -> Result<()> {
        while self.config.durability != Durability::Synced && goes_on() {
            sleep(Duration::from_secs(1));
            self.log.sync(self.log.end())?;
        }
        Ok(())
    }

    /// Syncs of the log, and pages that were read because the pool did not have them.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.log.syncs.load(Relaxed), self.pool.misses())
    }

    /// Writes everything to its place. Reads and writes no longer count as the workload's.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.files.count(false);
        self.pool.stop();
        for task in self.tasks.drain(..) {
            task.join().unwrap_or_else(|e| Err(Error::Check(e.to_string())))?;
        }
        self.log.sync(self.log.end())?;
        self.log.checkpoint(self.pool.oldest(), true).map(drop)
    }

    /// After [`Engine::stop`]: reads every page from its file, past the cache, and hands all records to `record` in the
    /// order of their keys; the number of pages.
    pub(crate) fn walk(
        &self,
        mut record: impl FnMut(u64, u32) -> Result<()>,
        mut read: impl FnMut(u64),
    ) -> Result<u64> {
        let root = self.tree.root();
        let image = |page: PageNo| {
            let image = self.pool.image(page);
            image.ok_or_else(|| Error::Check(format!("page {page} is not in its file")))
        };
        // All pages, in the order of the file.
        for page in 0..root.next {
            self.files.read_page(&image(page)?, true)?;
            read(PAGE);
        }
        let mut at = root.page;
        while let Some(child) = tree::child_of(&image(at)?.content, 0) {
            at = child;
        }
        let mut last = None;
        while at != NONE {
            let TreeContent::Leaf { keys, versions, next } = &*image(at)?.content else {
                return Err(Error::Check(format!("page {at} should be a leaf")));
            };
            for (key, version) in keys.iter().zip(versions) {
                if last.is_some_and(|last| last >= *key) {
                    return Err(Error::Check(format!("page {at}: key {key:x} is out of order")));
                }
                last = Some(*key);
                record(*key, *version)?;
            }
            at = *next;
        }
        Ok(u64::from(root.next))
    }
}

/// Writes leaves with these keys, one after the other, and the levels above them.
fn load(pool: &Pool, config: &Config, keys: impl Iterator<Item = u64>) -> Result<Root> {
    let mut writer = Loader { pool, images: Vec::new(), next: 0 };
    let (mut level, mut leaf) = (Vec::new(), Vec::new());
    let mut keys = keys.peekable();
    while let Some(key) = keys.next() {
        leaf.push(key);
        let last = keys.peek().is_none();
        if leaf.len() as u64 == config.loaded() || last {
            let keys = std::mem::take(&mut leaf);
            let (first, versions) = (keys[0], vec![0; keys.len()]);
            let next = if last { NONE } else { writer.next + 1 };
            level.push((first, writer.put(TreeContent::Leaf { keys, versions, next })?));
        }
    }
    if level.is_empty() {
        level.push((0, writer.put(TreeContent::empty_leaf())?));
    }
    let children = (config.shape().children * 9 / 10).max(2);
    while level.len() > 1 {
        let mut above = Vec::new();
        for part in level.chunks(children) {
            let (keys, children) = part.iter().copied().unzip();
            above.push((part[0].0, writer.put(TreeContent::Inner { keys, children })?));
        }
        level = above;
    }
    writer.flush()?;
    Ok(Root { page: level[0].1, next: writer.next })
}

/// Writes pages of a new tree in the order of their numbers.
struct Loader<'a> {
    pool: &'a Pool,
    images: Vec<Image>,
    next: PageNo,
}

impl Loader<'_> {
    fn put(&mut self, mut content: TreeContent) -> Result<PageNo> {
        content.shrink();
        let page = self.next;
        self.images.push(Image::new(page, 1, Arc::new(content)));
        self.next += 1;
        if self.images.len() == LOAD {
            self.flush()?;
        }
        Ok(page)
    }

    fn flush(&mut self) -> Result<()> {
        self.pool.files.load(&self.images)?;
        self.images.drain(..).for_each(|image| self.pool.set_image(image));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
