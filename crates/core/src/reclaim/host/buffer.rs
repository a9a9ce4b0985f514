//! Where the contents of a victim's blocks are while they move.
//!
//! `gc.buffer=dedicated` (ScaleLFS' "dedicated page buffer"): in pages of the collector's own, as many as its
//! [`Buffer`] has room for, and nothing of them stays. The cache is neither asked nor filled; a dirty page supersedes
//! what was moved when it is written back.
//!
//! `gc.buffer=cache` (F2FS): in the page cache of the file. Cached pages are not read. Others that are read stay in the
//! cache, within the budget. F2FS submits a request for each block to its kernel, which merges neighbours before the
//! device sees them (a plug is open meanwhile); so neighbours are one request here, and each block pays for its own. A
//! page that is dirty is written as it is now, which is its write-back. So it is with regular files whose pages are
//! their blocks; directories, symlinks, compressed and encrypted files go the other way.
//!
//! Kept true: pages are put into the cache, and dirty ones taken out, under the lock of the node that refers to the
//! block at that moment, as in `pages`. The node was found by the walk that write-back takes, so that a page number is
//! the one that readers use.

use crate::files::inode::Inode;
use crate::files::pages::{Budget, Landing, TakenPages};
use crate::options::techniques::{GcBuffer, GcOptions};
use crate::reclaim::live::Live;
use crate::volume::segments::table::BLOCKS;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_device::PageBuf;
use steadyfs_format::{BLOCK_SIZE, PageIndex};
use steadyfs_rt::{Cost, EventCount, charge_n};

/// Times that F2FS looks whether a block is alive: before it reads ahead the owner's node, the inode's and the block,
/// and before it moves it.
const LOOKS: u64 = 4;

/// Memory for pages that collectors have read.
#[derive(Default)]
pub(super) struct Memory {
    pages: AtomicU64,
    most: AtomicU64,
}

/// Memory of collectors for pages of their own, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcMemory {
    /// Held now.
    #[serde(rename = "memory_bytes")]
    pub held: u64,
    /// Most that was held at a time since the mount.
    #[serde(rename = "memory_peak_bytes")]
    pub peak: u64,
}

impl Memory {
    pub(super) fn stats(&self) -> GcMemory {
        let bytes = |pages: &AtomicU64| pages.load(SeqCst) * BLOCK_SIZE as u64;
        GcMemory { held: bytes(&self.pages), peak: bytes(&self.most) }
    }

    fn add(&self, pages: u64) {
        let held = self.pages.fetch_add(pages, SeqCst) + pages;
        self.most.fetch_max(held, SeqCst);
    }
}

/// What a collector may have in memory: what it has read, until it has been written.
pub(super) struct Buffer {
    /// In pages: a segment's at least.
    limit: u64,
    used: AtomicU64,
    returned: EventCount,
    /// Where it counts, if the pages are the collector's own.
    memory: Option<Arc<Memory>>,
}

impl Buffer {
    /// Of one of `collectors` collectors.
    pub(super) fn new(options: &GcOptions, collectors: usize, memory: &Arc<Memory>) -> Arc<Self> {
        let own = (options.buffer == GcBuffer::Dedicated).then(|| Arc::clone(memory));
        let limit = options.buffer_bytes(collectors) / BLOCK_SIZE as u64;
        assert!(limit >= u64::from(BLOCKS), "a segment does not fit into a buffer of {limit} pages");
        Arc::new(Buffer { limit, used: AtomicU64::new(0), returned: EventCount::new(), memory: own })
    }

    /// Room in pages.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Takes room for `pages` pages, no more than a segment's, once others have been written. The caller must not hold
    /// what would have to be returned.
    pub(super) fn lease(self: &Arc<Self>, pages: u64) -> Lease {
        assert!(pages <= self.limit, "{pages} pages never fit into a buffer of {}", self.limit);
        loop {
            let key = self.returned.listen();
            let fits = |used: u64| (used + pages <= self.limit).then_some(used + pages);
            if self.used.fetch_update(SeqCst, SeqCst, fits).is_ok() {
                break;
            }
            self.returned.wait(key);
        }
        if let Some(memory) = &self.memory {
            memory.add(pages);
        }
        Lease { buffer: Arc::clone(self), pages }
    }
}

/// Room in a buffer, given back when this goes.
pub(super) struct Lease {
    buffer: Arc<Buffer>,
    pages: u64,
}

impl Lease {
    /// How many pages.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// A part of it, to be given back on its own.
    pub(super) fn split(&mut self, pages: u64) -> Lease {
        assert!(pages <= self.pages, "{pages} pages of {}", self.pages);
        self.pages -= pages;
        Lease { buffer: Arc::clone(&self.buffer), pages }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.pages == 0 {
            return;
        }
        if let Some(memory) = &self.buffer.memory {
            let before = memory.pages.fetch_sub(self.pages, SeqCst);
            assert!(before >= self.pages, "{} pages are given back of {before} of all collectors", self.pages);
        }
        let before = self.buffer.used.fetch_sub(self.pages, SeqCst);
        assert!(before >= self.pages, "{} pages are given back of {before} of a buffer", self.pages);
        self.buffer.returned.notify_all();
    }
}

/// A live block with its contents.
pub(super) struct Source {
    pub(super) block: Live,
    pub(super) page: PageBuf,
}

/// A block that moves now.
pub(super) struct Moving {
    pub(super) block: Live,
    pub(super) page: PageBuf,
    /// Its page was dirty, and is being written back by this.
    taken: Option<TakenPages>,
}

/// What F2FS asks and looks up for a block before it is read, in the model of costs.
pub(super) fn charge_looks() {
    charge_n(Cost::NodeLookup, LOOKS);
    charge_n(Cost::RadixLookup, LOOKS);
}

/// In the model of costs, the price of `requests` requests of F2FS that its kernel merges with their neighbours'.
pub(super) fn charge_merged(requests: usize) {
    charge_n(Cost::BioSubmit, requests as u64);
}

/// A page of the file in whose cache a block is while it moves, if it is there.
pub(super) fn cached(budget: &Budget, file: Option<&Arc<Inode>>, page: PageIndex) -> Option<PageBuf> {
    budget.cache(file?).get_range(page..page + 1).pop().flatten()
}

/// The write of a block whose owner refers to it: page `number` of the file, if it has one. The owner's
/// node is locked.
pub(super) fn set_off(budget: &Budget, file: Option<&Arc<Inode>>, number: PageIndex, source: Source) -> Moving {
    let Source { block, page } = source;
    let Some(file) = file else { return Moving { block, page, taken: None } };
    let cache = budget.cache(file);
    charge_n(Cost::RadixLookup, 2);
    let mut taken = cache.take_dirty(&(number..number + 1), 1);
    assert!(taken.pages.len() <= 1, "{} pages are dirty in one", taken.pages.len());
    if let Some((at, newest)) = taken.pages.first_mut() {
        assert_eq!(*at, number, "another page than the block's was taken");
        return Moving { block, page: newest.clone(), taken: Some(taken) };
    }
    cache.put_clean(&[(number, page.clone())]);
    Moving { block, page, taken: None }
}

impl Moving {
    /// To be told when the write has ended, if somebody wants to know.
    pub(super) fn landing(&self, budget: &Budget, file: Option<&Arc<Inode>>) -> Option<Landing> {
        let (taken, file) = (self.taken.as_ref()?, file?);
        Some(budget.cache(file).landing(taken, &taken.pages))
    }

    /// It has its place, or was put back.
    pub(super) fn placed(&self, budget: &Budget, file: Option<&Arc<Inode>>) {
        if let (Some(taken), Some(file)) = (&self.taken, file) {
            budget.cache(file).placed(taken);
        }
    }

    /// It could not be written.
    pub(super) fn put_back(&self, budget: &Budget, file: Option<&Arc<Inode>>) {
        if let (Some(taken), Some(file)) = (&self.taken, file) {
            budget.cache(file).put_back(taken, &taken.pages);
        }
    }
}
