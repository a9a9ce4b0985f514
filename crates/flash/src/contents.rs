//! [`Contents`]: what the logical pages hold.
//!
//! By logical page, not by place in the flash: collection moves pages without touching what they hold. 24 bytes per
//! page, in chunks that come into being when they are written; bytes of pages that are not synthetic, written in one
//! piece or in parts, come on top.

use steadyfs_device::PageBuf;

/// Pages of a chunk: 12 KiB.
const CHUNK: usize = 512;

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct Contents {
    chunks: Vec<Option<Box<[PageBuf]>>>,
}

impl Contents {
    /// Nothing: pages read as zeros whatever is written.
    pub(crate) fn none() -> Self {
        Contents { chunks: Vec::new() }
    }

    /// So many pages of zeros.
    pub(crate) fn new(pages: u64) -> Self {
        Contents { chunks: (0..pages.div_ceil(CHUNK as u64)).map(|_| None).collect() }
    }

    pub(crate) fn get(&self, page: u64) -> PageBuf {
        let chunk = self.chunks.get(page as usize / CHUNK).and_then(Option::as_ref);
        chunk.map_or_else(PageBuf::zeroed, |chunk| chunk[page as usize % CHUNK].clone())
    }

    /// What the page held before.
    pub(crate) fn set(&mut self, page: u64, contents: PageBuf) -> PageBuf {
        let Some(chunk) = self.chunks.get_mut(page as usize / CHUNK) else { return contents };
        if chunk.is_none() && contents.is_zero_repr() {
            return contents;
        }
        let chunk = chunk.get_or_insert_with(|| vec![PageBuf::zeroed(); CHUNK].into_boxed_slice());
        std::mem::replace(&mut chunk[page as usize % CHUNK], contents)
    }
}
