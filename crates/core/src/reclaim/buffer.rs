//! Where the contents of a victim's blocks are while they move.
//!
//! `gc.buffer=dedicated` (ScaleLFS' "dedicated page buffer"): in pages of the collector's own, no more than two segments' worth, and nothing of them stays. The cache is neither
//! asked nor filled; a dirty page supersedes what was moved when it is written back.
//!
//! `gc.buffer=cache` (F2FS): in the page cache of the file. What is cached is not read; what is not is read block by block, each with a request of its own, and
//! stays in the cache, within the budget. A page that is dirty is written as it is now, which is its write-back. So it is with regular files whose pages
//! are their blocks; directories, symlinks, compressed and encrypted files go the other way.
//!
//! Kept true: pages are put into the cache, and dirty ones taken out, under the lock of the node that refers to the block at that moment, as in `pages`; and the node
//! was found by the walk that write-back takes, so that a page number is the one that readers use.

use super::owner::{Live, Owner};
use crate::fs::Fs;
use crate::inode::Inode;
use crate::pages::{Landing, Taken};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_device::PageBuf;
use steadyfs_format::BLOCK_SIZE;
use steadyfs_rt::{Cost, charge_n};

/// Times that F2FS looks whether a block is alive: before it reads ahead the owner's node, the inode's and the block, and before it moves it.
const LOOKS: u64 = 4;

/// Memory for pages that collectors have read.
#[derive(Default)]
pub(super) struct Memory {
    pages: AtomicU64,
    most: AtomicU64,
}

/// Memory of collectors for pages of their own, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcMemory {
    /// Held now.
    pub held: u64,
    /// Most that was held at a time since the mount.
    pub peak: u64,
}

impl Memory {
    pub(super) fn stats(&self) -> GcMemory {
        let bytes = |pages: &AtomicU64| pages.load(SeqCst) * BLOCK_SIZE as u64;
        GcMemory { held: bytes(&self.pages), peak: bytes(&self.most) }
    }
}

/// A page that counts as held.
pub(super) struct Lease(Arc<Memory>);

impl Lease {
    pub(super) fn new(memory: &Arc<Memory>) -> Self {
        let pages = memory.pages.fetch_add(1, SeqCst) + 1;
        memory.most.fetch_max(pages, SeqCst);
        Lease(Arc::clone(memory))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.pages.fetch_sub(1, SeqCst);
    }
}

/// A live block with its contents.
pub(super) struct Source {
    pub(super) block: Live,
    pub(super) page: PageBuf,
    /// Of a page of the collector's own.
    pub(super) lease: Option<Lease>,
}

/// A block that moves now.
pub(super) struct Moving {
    pub(super) block: Live,
    pub(super) page: PageBuf,
    pub(super) lease: Option<Lease>,
    /// Its page was dirty, and is being written back by this.
    taken: Option<Taken>,
}

/// What F2FS asks and looks up for a block before it is read, in the model of costs.
pub(super) fn charge_looks() {
    charge_n(Cost::NodeLookup, LOOKS);
    charge_n(Cost::RadixLookup, LOOKS);
}

/// The page of a block, if it is cached.
pub(super) fn cached(fs: &Fs, owner: &Owner, block: &Live) -> Option<PageBuf> {
    let page = owner.page(block);
    fs.cache(owner.cached_file()?).get_range(page..page + 1).pop().flatten()
}

/// What is to be written of a block whose owner refers to it. The owner's node is locked.
pub(super) fn set_off(fs: &Fs, owner: &Owner, source: Source) -> Moving {
    let Source { block, page, lease } = source;
    let Some(file) = owner.cached_file() else { return Moving { block, page, lease, taken: None } };
    let (number, cache) = (owner.page(&block), fs.cache(file));
    charge_n(Cost::RadixLookup, 2);
    let mut taken = cache.take_dirty(&(number..number + 1), 1);
    if let Some((_, newest)) = taken.pages.first_mut() {
        return Moving { block, page: newest.clone(), lease, taken: Some(taken) };
    }
    cache.put_clean(&[(number, page.clone())]);
    Moving { block, page, lease, taken: None }
}

impl Moving {
    /// To be told when the write has ended, if somebody wants to know.
    pub(super) fn landing(&self, fs: &Fs, file: Option<&Arc<Inode>>) -> Option<Landing> {
        let (taken, file) = (self.taken.as_ref()?, file?);
        Some(fs.cache(file).landing(taken, &taken.pages))
    }

    /// It could not be written.
    pub(super) fn put_back(&self, fs: &Fs, file: Option<&Arc<Inode>>) {
        if let (Some(taken), Some(file)) = (&self.taken, file) {
            fs.cache(file).put_back(taken, &taken.pages);
        }
    }
}
