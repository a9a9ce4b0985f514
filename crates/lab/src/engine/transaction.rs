//! Transactions of several statements: their rows are locked until they end, and one commit is for all of them.
//!
//! Kept true: a row that a transaction has changed is changed by no other before the end of the first. Rows are free
//! again before the commit waits for the log, as in InnoDB without a binary log: whoever changes them next comes behind
//! in the log. Reads take no locks and see what is there, committed or not. Nobody looks for deadlocks: whoever locks
//! several rows keeps to one order.

use super::{Engine, LOG_EXTRA, update_bytes};
use crate::error::{Error, Result};
use std::collections::BTreeSet;
use steadyfs_rt::{Condvar, LockClass, Mutex};

static ROWS: LockClass = LockClass::new("lab.engine.rows", 1);

/// A row: its table and its key.
type Row = (usize, u64);

/// Rows that transactions hold.
pub(super) struct RowLocks {
    held: Mutex<BTreeSet<Row>>,
    released: Condvar,
}

impl Default for RowLocks {
    fn default() -> Self {
        RowLocks { held: Mutex::new(&ROWS, BTreeSet::new()), released: Condvar::new() }
    }
}

impl RowLocks {
    fn take(&self, row: Row) {
        let mut held = self.held.lock();
        while !held.insert(row) {
            self.released.wait(&mut held);
        }
    }

    fn release(&self, rows: impl Iterator<Item = Row>) {
        let mut held = self.held.lock();
        for row in rows {
            assert!(held.remove(&row), "row {row:?} is held by who releases it");
        }
        drop(held);
        self.released.notify_all();
    }
}

/// What takes a change back.
#[derive(Clone, Copy, Debug)]
enum Undo {
    Update {
        row: Row,
        changed: u64,
    },
    Insert(Row),
    /// Only of rows of version 0.
    Delete(Row),
}

/// See the head of the module. Dropped without an end, it lets its rows go and takes nothing back.
pub(crate) struct Transaction<'a> {
    engine: &'a Engine,
    rows: BTreeSet<Row>,
    undo: Vec<Undo>,
    /// Where the log ends that a commit needs.
    lsn: u64,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(engine: &'a Engine) -> Self {
        Transaction { engine, rows: BTreeSet::new(), undo: Vec::new(), lsn: 0 }
    }

    /// Waits until nobody else has the row, and keeps it to the end.
    pub(crate) fn lock(&mut self, table: usize, key: u64) {
        if self.rows.insert((table, key)) {
            self.engine.rows.take((table, key));
        }
    }

    /// Makes the next version of a row, in which so many bytes differ; false if there is no such row.
    pub(crate) fn update(&mut self, table: usize, key: u64, changed: u64) -> Result<bool> {
        self.lock(table, key);
        let done = self.engine.trees[table].update(key, |version| *version += 1, update_bytes(changed))?;
        Ok(self.note(done, Undo::Update { row: (table, key), changed }))
    }

    /// Makes a row; false if there is one already.
    pub(crate) fn insert(&mut self, table: usize, key: u64) -> Result<bool> {
        self.lock(table, key);
        let done = self.engine.trees[table].insert(key)?;
        Ok(self.note(done, Undo::Insert((table, key))))
    }

    /// Takes a row out that has never been updated; false if there is no such row.
    pub(crate) fn delete(&mut self, table: usize, key: u64) -> Result<bool> {
        self.lock(table, key);
        let done = self.engine.trees[table].delete(key, LOG_EXTRA)?;
        Ok(self.note(done, Undo::Delete((table, key))))
    }

    fn note(&mut self, done: Option<u64>, undo: Undo) -> bool {
        self.undo.extend(done.map(|_| undo));
        self.lsn = self.lsn.max(done.unwrap_or(0));
        done.is_some()
    }

    /// Ends it. `settle` runs while nobody else can change its rows; after that the log is synced, or what the
    /// durability asks for.
    pub(crate) fn commit(mut self, settle: impl FnOnce()) -> Result<()> {
        let (engine, lsn) = (self.engine, self.lsn);
        self.undo.clear();
        settle();
        drop(self);
        if lsn > 0 { engine.log.commit(lsn) } else { Ok(()) }
    }

    /// Takes everything back, the last change first. What was logged stays in the log, with as much again.
    pub(crate) fn rollback(mut self) -> Result<()> {
        while let Some(undo) = self.undo.pop() {
            let (done, row) = match undo {
                Undo::Update { row, changed } => {
                    (self.engine.trees[row.0].update(row.1, |version| *version -= 1, update_bytes(changed))?, row)
                }
                Undo::Insert(row) => (self.engine.trees[row.0].delete(row.1, LOG_EXTRA)?, row),
                Undo::Delete(row) => (self.engine.trees[row.0].insert(row.1)?, row),
            };
            if done.is_none() {
                return Err(Error::Check(format!("{undo:?} finds row {row:?} as it should not be")));
            }
        }
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.engine.rows.release(std::mem::take(&mut self.rows).into_iter());
    }
}
