//! A small database engine that writes as InnoDB does: tables, each a B+-tree of pages of 16 KiB, a buffer pool, a redo
//! log with group commit, a double-write area.
//!
//! It is there for its load on the file system below:
//! - random writes of pages that the buffer pool lets go;
//! - a sync of the log for each group of commits;
//! - the same pages once more in the double-write area.
//!
//! All come in an order that a crash at any moment would survive. [`cleaner`] has it, and a test reads it from a
//! journal of everything that is written. Threads and locks are those of the runtime. There are no undo pages, no
//! change buffer, no adaptive hash index and no binary log. There is no recovery either, since no run ends with a
//! crash.
//!
//! Memory: a record is its key and its version, 12 bytes; its value follows from them. A page in a file is 4 x 24 bytes
//! of the device's memory and an entry here. So 6.5 million records of 1 KB, 10 of them in a page, take about 0.4 GB by
//! this reckoning. That is 130 MB for the images, 60 MB for the blocks of 650,000 pages, and 180 MB to compare with at
//! the end. The file system's caches come on top.

mod cleaner;
mod files;
mod log;
mod page;
mod pool;
mod transaction;
mod tree;

use crate::error::{Error, Result};
use crate::stage::Stage;
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
use transaction::RowLocks;
pub(crate) use transaction::Transaction;
use tree::{PageShape, Space, Tree};

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
    /// Bytes of a row beside its key, for each table. A table is named by its place in this list.
    pub(crate) tables: Vec<u64>,
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
    /// Records of a table's leaf at most.
    pub(crate) fn records_per_page(&self, table: usize) -> u64 {
        ROOM / (self.tables[table] + RECORD_EXTRA)
    }

    /// Records of a table's leaf after loading.
    fn loaded(&self, table: usize) -> u64 {
        let most = self.records_per_page(table);
        ((most as f64 * self.fill).round() as u64).clamp(1, most)
    }

    /// Bytes of all files after loading so many records into each table, nearly.
    pub(crate) fn file_bytes(&self, records: &[u64]) -> u64 {
        let pages = |(table, records): (usize, &u64)| {
            let leaves = records.div_ceil(self.loaded(table)).max(1);
            leaves + leaves.div_ceil(ROOM / CHILD_BYTES * 9 / 10) + 1
        };
        let pages: u64 = records.iter().enumerate().map(pages).sum();
        pages * PAGE + u64::from(self.log_files) * self.log_file_size + self.doublewrite_pages() * PAGE
    }

    fn doublewrite_pages(&self) -> u64 {
        if self.doublewrite { u64::from(self.cleaners) * cleaner::BATCH as u64 } else { 0 }
    }

    fn shape(&self, table: usize) -> PageShape {
        PageShape {
            records: self.records_per_page(table) as usize,
            children: (ROOM / CHILD_BYTES) as usize,
            insert_bytes: self.tables[table] + LOG_EXTRA,
        }
    }
}

/// Bytes of the log for an update that changes so many: the new bytes, and the old ones for the undo record.
fn update_bytes(changed: u64) -> u64 {
    2 * changed + LOG_EXTRA
}

/// See the head of the module.
pub(crate) struct Engine {
    config: Config,
    files: Arc<EngineFiles>,
    log: Arc<Redo>,
    pool: Arc<Pool>,
    space: Arc<Space>,
    trees: Vec<Tree>,
    rows: RowLocks,
    tasks: Vec<JoinHandle<Result<()>>>,
}

impl Engine {
    /// Makes the files and loads each table with records of its keys, which rise; then reads and writes begin to count
    /// as the workload's.
    pub(crate) fn create<'a>(
        stage: &Arc<Stage>,
        config: &Config,
        keys: Vec<Box<dyn Iterator<Item = u64> + 'a>>,
    ) -> Result<Self> {
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
        let space = Arc::new(Space::default());
        let mut trees = Vec::with_capacity(keys.len());
        for (table, keys) in keys.into_iter().enumerate() {
            let root = load(&pool, &space, config, table, keys)?;
            trees.push(Tree::new(&pool, &space, root, config.shape(table)));
        }
        files.sync_data()?;
        files.count(true);
        let (config, rows) = (config.clone(), RowLocks::default());
        let mut engine = Engine { config, files, log, pool, space, trees, rows, tasks: Vec::new() };
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
    pub(crate) fn get(&self, table: usize, key: u64) -> Result<Option<u32>> {
        self.trees[table].get(key)
    }

    /// Makes the next version of a record, in which so many bytes differ, and commits; false if there is none.
    pub(crate) fn update(&self, table: usize, key: u64, changed: u64) -> Result<bool> {
        let done = self.trees[table].update(key, |version| *version += 1, update_bytes(changed))?;
        done.map_or(Ok(false), |lsn| self.log.commit(lsn).map(|()| true))
    }

    /// Makes a record, and commits; false if there is one already.
    pub(crate) fn insert(&self, table: usize, key: u64) -> Result<bool> {
        self.trees[table].insert(key)?.map_or(Ok(false), |lsn| self.log.commit(lsn).map(|()| true))
    }

    /// The records from a key on, at most so many: keys and versions in order.
    pub(crate) fn scan(&self, table: usize, from: u64, most: usize) -> Result<Vec<(u64, u32)>> {
        self.trees[table].scan(from, most)
    }

    /// A transaction of several statements.
    pub(crate) fn begin(&self) -> Transaction<'_> {
        Transaction::new(self)
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

    /// After [`Engine::stop`]: reads every page from its file, past the cache, and hands all records to `record`, table
    /// by table in the order of their keys; the number of pages.
    pub(crate) fn walk(
        &self,
        mut record: impl FnMut(usize, u64, u32) -> Result<()>,
        mut read: impl FnMut(u64),
    ) -> Result<u64> {
        // All pages, in the order of the file.
        for page in 0..self.space.taken() {
            self.files.read_page(&self.image(page)?, true)?;
            read(PAGE);
        }
        for (table, tree) in self.trees.iter().enumerate() {
            self.walk_tree(tree, |key, version| record(table, key, version))?;
        }
        Ok(u64::from(self.space.taken()))
    }

    fn image(&self, page: PageNo) -> Result<Image> {
        self.pool.image(page).ok_or_else(|| Error::Check(format!("page {page} is not in its file")))
    }

    fn walk_tree(&self, tree: &Tree, mut record: impl FnMut(u64, u32) -> Result<()>) -> Result<()> {
        let mut at = tree.root();
        while let Some(child) = tree::child_of(&self.image(at)?.content, 0) {
            at = child;
        }
        let mut last = None;
        while at != NONE {
            let TreeContent::Leaf { keys, versions, next } = &*self.image(at)?.content else {
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
        Ok(())
    }
}

/// Writes leaves with these keys, one after the other, and the levels above them; the page where the tree begins.
fn load(pool: &Pool, space: &Space, config: &Config, table: usize, keys: impl Iterator<Item = u64>) -> Result<PageNo> {
    let mut writer = Loader { pool, space, images: Vec::new() };
    let (mut level, mut leaf) = (Vec::new(), Vec::new());
    let mut keys = keys.peekable();
    while let Some(key) = keys.next() {
        leaf.push(key);
        let last = keys.peek().is_none();
        if leaf.len() as u64 == config.loaded(table) || last {
            let keys = std::mem::take(&mut leaf);
            let (first, versions) = (keys[0], vec![0; keys.len()]);
            let next = if last { NONE } else { space.taken() + 1 };
            level.push((first, writer.put(TreeContent::Leaf { keys, versions, next })?));
        }
    }
    if level.is_empty() {
        level.push((0, writer.put(TreeContent::empty_leaf())?));
    }
    let children = (config.shape(table).children * 9 / 10).max(2);
    while level.len() > 1 {
        let mut above = Vec::new();
        for part in level.chunks(children) {
            let (keys, children) = part.iter().copied().unzip();
            above.push((part[0].0, writer.put(TreeContent::Inner { keys, children })?));
        }
        level = above;
    }
    writer.flush()?;
    Ok(level[0].1)
}

/// Writes pages of a new tree in the order of their numbers.
struct Loader<'a> {
    pool: &'a Pool,
    space: &'a Space,
    images: Vec<Image>,
}

impl Loader<'_> {
    fn put(&mut self, mut content: TreeContent) -> Result<PageNo> {
        content.shrink();
        let page = self.space.take();
        self.images.push(Image::new(page, 1, Arc::new(content)));
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
