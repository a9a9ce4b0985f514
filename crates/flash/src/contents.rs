//! [`Contents`]: what the logical pages hold.
//!
//! By logical page, not by place in the flash: collection moves pages without touching their contents. A page takes 24
//! bytes. Chunks come into being when they are written, and go when all of their pages are zeros again. So an address
//! space of 2^60 pages costs what is held in it. Bytes of pages that are not synthetic, written in one piece or in
//! parts, come on top.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use steadyfs_device::PageBuf;

/// Pages of a chunk: 12 KiB.
const CHUNK: u64 = 512;

/// Chunk numbers are spread by a multiplication: nobody outside chooses them to collide.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let product = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32);
    }
}

/// Pages side by side, and how many of them are not zeros.
#[derive(Debug)]
struct Chunk {
    pages: Box<[PageBuf]>,
    held: u32,
}

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct Contents {
    chunks: HashMap<u64, Chunk, BuildHasherDefault<Spread>>,
    kept: bool,
}

impl Contents {
    /// Pages that read as zeros whatever is written.
    pub(crate) fn none() -> Self {
        Contents { kept: false, ..Contents::new() }
    }

    /// Pages of zeros.
    pub(crate) fn new() -> Self {
        Contents { chunks: HashMap::default(), kept: true }
    }

    pub(crate) fn get(&self, page: u64) -> PageBuf {
        let chunk = self.chunks.get(&(page / CHUNK));
        chunk.map_or_else(PageBuf::zeroed, |chunk| chunk.pages[(page % CHUNK) as usize].clone())
    }

    /// The page holds something else now.
    pub(crate) fn set(&mut self, page: u64, contents: PageBuf) {
        let (number, zero) = (page / CHUNK, contents.is_zero_repr());
        if !self.kept || (zero && !self.chunks.contains_key(&number)) {
            return;
        }
        let new = || Chunk { pages: vec![PageBuf::zeroed(); CHUNK as usize].into_boxed_slice(), held: 0 };
        let chunk = self.chunks.entry(number).or_insert_with(new);
        let before = std::mem::replace(&mut chunk.pages[(page % CHUNK) as usize], contents);
        chunk.held = chunk.held + u32::from(!zero) - u32::from(!before.is_zero_repr());
        if chunk.held == 0 {
            self.chunks.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_go_with_their_last_page() {
        let (mut contents, far) = (Contents::new(), (1 << 60) - 1);
        for page in [0, 1, 511, 512, far] {
            contents.set(page, PageBuf::from_slice(&page.to_le_bytes()));
            contents.set(page, PageBuf::from_slice(&(page + 1).to_le_bytes()));
        }
        assert_eq!((contents.chunks.len(), contents.get(far)), (3, PageBuf::from_slice(&(1u64 << 60).to_le_bytes())));
        for page in [0, 511, far, 7, 1 << 40] {
            contents.set(page, PageBuf::zeroed());
            assert_eq!(contents.get(page), PageBuf::zeroed());
        }
        assert_eq!(contents.chunks.len(), 2, "page 1 and page 512");
        contents.set(1, PageBuf::zeroed());
        contents.set(512, PageBuf::zeroed());
        assert!(contents.chunks.is_empty());
    }
}
