//! The B+-tree over the pool: reads and changes in place share the tree, a split has it alone.
//!
//! While the tree is shared nobody changes an inner page or where a leaf begins, so a task goes down without holding a
//! latch while it waits for the next page. A split prepares the new contents of all its pages, then takes their latches
//! and changes them as one step of the log, so that no image has a part of it.

use super::page::{NONE, PageNo, TreeContent};
use super::pool::{Frame, Pool};
use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use steadyfs_rt::{LockClass, RwLock};

static TREE: LockClass = LockClass::new("lab.engine.tree", 2);

/// Where the next page of the data file goes; all trees of an engine share it.
#[derive(Debug, Default)]
pub(super) struct Space(AtomicU32);

impl Space {
    /// A page that no tree has.
    pub(super) fn take(&self) -> PageNo {
        self.0.fetch_add(1, Relaxed)
    }

    /// Pages that trees have taken.
    pub(super) fn taken(&self) -> PageNo {
        self.0.load(Relaxed)
    }
}

/// How many records and children a page takes, and how long a new record is in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageShape {
    pub(super) records: usize,
    pub(super) children: usize,
    pub(super) insert_bytes: u64,
}

/// See the head of the module.
pub(super) struct Tree {
    pool: Arc<Pool>,
    space: Arc<Space>,
    /// The page where the tree begins.
    root: RwLock<PageNo>,
    shape: PageShape,
}

/// A page that is let go in the end.
struct Pin<'a> {
    pool: &'a Pool,
    frame: Arc<Frame>,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.pool.unpin(&self.frame);
    }
}

impl Tree {
    pub(super) fn new(pool: &Arc<Pool>, space: &Arc<Space>, root: PageNo, shape: PageShape) -> Self {
        Tree { pool: Arc::clone(pool), space: Arc::clone(space), root: RwLock::new(&TREE, root), shape }
    }

    fn pin(&self, page: PageNo) -> Result<Pin<'_>> {
        Ok(Pin { pool: &self.pool, frame: self.pool.pin(page)? })
    }

    /// The pages from the root to the leaf where a key belongs; the root is shared or held alone.
    fn path(&self, root: PageNo, key: u64) -> Result<Vec<Pin<'_>>> {
        let mut path = vec![self.pin(root)?];
        while let Some(child) = path.last().and_then(|pin| child_of(&pin.frame.content.read(), key)) {
            path.push(self.pin(child)?);
        }
        Ok(path)
    }

    fn leaf(&self, root: PageNo, key: u64) -> Result<Pin<'_>> {
        self.path(root, key)?.pop().ok_or_else(|| Error::Check("the tree has no leaf".into()))
    }

    /// The version of a record.
    pub(super) fn get(&self, key: u64) -> Result<Option<u32>> {
        let root = self.root.read();
        let leaf = self.leaf(*root, key)?;
        let content = Arc::clone(&leaf.frame.content.read());
        let TreeContent::Leaf { keys, versions, .. } = &*content else { return Err(not_a_leaf(&leaf)) };
        Ok(keys.binary_search(&key).ok().map(|at| versions[at]))
    }

    /// Changes the version of a record, with so many bytes in the log; where in the log that ends. `None`: there is no
    /// such record.
    pub(super) fn update(&self, key: u64, change: fn(&mut u32), bytes: u64) -> Result<Option<u64>> {
        self.in_leaf(key, bytes, |keys, versions| {
            keys.binary_search(&key).is_ok_and(|at| {
                change(&mut versions[at]);
                true
            })
        })
    }

    /// Takes a record out, with so many bytes in the log; where in the log that ends. `None`: there is no such record.
    /// A leaf without records stays where it is.
    pub(super) fn delete(&self, key: u64, bytes: u64) -> Result<Option<u64>> {
        self.in_leaf(key, bytes, |keys, versions| {
            keys.binary_search(&key).is_ok_and(|at| {
                keys.remove(at);
                versions.remove(at);
                true
            })
        })
    }

    /// A change of the leaf of a key, if there is one to be made.
    fn in_leaf(
        &self,
        key: u64,
        bytes: u64,
        change: impl FnOnce(&mut Vec<u64>, &mut Vec<u32>) -> bool,
    ) -> Result<Option<u64>> {
        self.pool.wait_for_log()?;
        let root = self.root.read();
        let leaf = self.leaf(*root, key)?;
        let mut content = leaf.frame.content.write();
        let TreeContent::Leaf { keys, versions, .. } = Arc::make_mut(&mut content) else {
            return Err(not_a_leaf(&leaf));
        };
        Ok(change(keys, versions).then(|| self.pool.change(&[&leaf.frame], bytes)))
    }

    /// Makes a record, version 0; where in the log that ends. `None`: it is there already.
    pub(super) fn insert(&self, key: u64) -> Result<Option<u64>> {
        self.pool.wait_for_log()?;
        {
            let root = self.root.read();
            let leaf = self.leaf(*root, key)?;
            let mut content = leaf.frame.content.write();
            let TreeContent::Leaf { keys, versions, .. } = Arc::make_mut(&mut content) else {
                return Err(not_a_leaf(&leaf));
            };
            let Err(at) = keys.binary_search(&key) else { return Ok(None) };
            if keys.len() < self.shape.records {
                keys.insert(at, key);
                versions.insert(at, 0);
                return Ok(Some(self.pool.change(&[&leaf.frame], self.shape.insert_bytes)));
            }
        }
        self.split_and_insert(key)
    }

    /// As [`Tree::insert`], with the tree alone.
    fn split_and_insert(&self, key: u64) -> Result<Option<u64>> {
        let mut root = self.root.write();
        let path = self.path(*root, key)?;
        let mut changed: Vec<(&Pin<'_>, TreeContent)> = Vec::new();
        let mut made: Vec<Pin<'_>> = Vec::new();
        let mut up: Option<(u64, PageNo)> = None;
        for pin in path.iter().rev() {
            let mut content = TreeContent::clone(&pin.frame.content.read());
            match (&mut content, up.take()) {
                (TreeContent::Leaf { keys, versions, .. }, _) => {
                    let Err(at) = keys.binary_search(&key) else { return Ok(None) };
                    keys.insert(at, key);
                    versions.insert(at, 0);
                }
                (TreeContent::Inner { keys, children }, Some((first, child))) => {
                    let at = keys.partition_point(|known| *known <= first);
                    keys.insert(at, first);
                    children.insert(at, child);
                }
                (TreeContent::Inner { .. }, None) => break,
            }
            if let Some((first, page, right)) = self.split(&mut content) {
                up = Some((first, page));
                made.push(Pin { pool: &self.pool, frame: self.pool.create(page, right)? });
            }
            changed.push((pin, content));
        }
        if let Some((first, child)) = up {
            let top = TreeContent::Inner { keys: vec![0, first], children: vec![*root, child] };
            *root = self.space.take();
            made.push(Pin { pool: &self.pool, frame: self.pool.create(*root, top)? });
        }
        let mut latches = Vec::with_capacity(changed.len());
        for (pin, content) in changed {
            let mut latch = pin.frame.content.write();
            *latch = Arc::new(content);
            latches.push((pin, latch));
        }
        let frames = latches.iter().map(|(pin, _)| &*pin.frame).chain(made.iter().map(|pin| &*pin.frame));
        let frames: Vec<&Frame> = frames.collect();
        // A split logs the records that move.
        let bytes = self.shape.insert_bytes + made.len() as u64 * super::page::PAGE / 2;
        Ok(Some(self.pool.change(&frames, bytes)))
    }

    /// Moves the upper half of a page that is too full to a new one; that half, with its first key and its page.
    fn split(&self, content: &mut TreeContent) -> Option<(u64, PageNo, TreeContent)> {
        match content {
            TreeContent::Leaf { keys, versions, next } if keys.len() > self.shape.records => {
                let (half, new) = (keys.len() / 2, self.space.take());
                let (keys, versions) = (keys.split_off(half), versions.split_off(half));
                let right = TreeContent::Leaf { versions, next: std::mem::replace(next, new), keys };
                Some((first_key(&right), new, right))
            }
            TreeContent::Inner { keys, children } if keys.len() > self.shape.children => {
                let (half, new) = (keys.len() / 2, self.space.take());
                let right = TreeContent::Inner { keys: keys.split_off(half), children: children.split_off(half) };
                Some((first_key(&right), new, right))
            }
            _ => None,
        }
    }

    /// The records from a key on, at most so many: keys and versions in order.
    pub(super) fn scan(&self, from: u64, most: usize) -> Result<Vec<(u64, u32)>> {
        let mut found = Vec::with_capacity(most.min(1 << 16));
        let root = self.root.read();
        let mut pin = self.leaf(*root, from)?;
        loop {
            let content = Arc::clone(&pin.frame.content.read());
            let TreeContent::Leaf { keys, versions, next } = &*content else { return Err(not_a_leaf(&pin)) };
            let start = keys.partition_point(|key| *key < from);
            let part = keys[start..].iter().copied().zip(versions[start..].iter().copied());
            found.extend(part.take(most - found.len()));
            if found.len() >= most || *next == NONE {
                return Ok(found);
            }
            pin = self.pin(*next)?;
        }
    }

    /// The page where the tree begins, when nothing changes any more.
    pub(super) fn root(&self) -> PageNo {
        *self.root.read()
    }
}

/// The child where a key belongs; `None` in a leaf.
pub(super) fn child_of(content: &TreeContent, key: u64) -> Option<PageNo> {
    match content {
        TreeContent::Leaf { .. } => None,
        TreeContent::Inner { keys, children } => {
            let at = keys.partition_point(|first| *first <= key).max(1) - 1;
            children.get(at).copied()
        }
    }
}

fn first_key(content: &TreeContent) -> u64 {
    match content {
        TreeContent::Leaf { keys, .. } | TreeContent::Inner { keys, .. } => keys.first().copied().unwrap_or(0),
    }
}

fn not_a_leaf(pin: &Pin<'_>) -> Error {
    Error::Check(format!("page {} should be a leaf", pin.frame.page))
}
