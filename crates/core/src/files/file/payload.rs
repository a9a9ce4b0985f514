//! What a write brings: bytes, or whole pages as they are.
//!
//! Pages keep their representation on the way, so that a synthetic page ([`PageBuf::synthetic`]) reaches the device
//! without ever taking 4 KiB of memory. Everything else about a write is the same for both.

use super::PAGE;
use crate::error::{Error, Result};
use std::ops::Range;
use steadyfs_device::PageBuf;

/// The contents of a write request.
#[derive(Clone, Copy)]
pub(super) enum Payload<'a> {
    Bytes(&'a [u8]),
    /// Whole pages, at an offset that is a multiple of the page size.
    Pages(&'a [PageBuf]),
}

impl<'a> Payload<'a> {
    /// Number of bytes.
    pub(super) fn len(self) -> usize {
        match self {
            Payload::Bytes(bytes) => bytes.len(),
            Payload::Pages(pages) => pages.len() * PAGE as usize,
        }
    }

    /// A part, by byte offsets; of pages whole ones.
    pub(super) fn part(self, range: Range<usize>) -> Self {
        match self {
            Payload::Bytes(bytes) => Payload::Bytes(&bytes[range]),
            Payload::Pages(pages) => {
                let size = PAGE as usize;
                assert!(range.start.is_multiple_of(size) && range.end.is_multiple_of(size), "part of a page");
                Payload::Pages(&pages[range.start / size..range.end / size])
            }
        }
    }

    /// Everything from a byte offset on.
    pub(super) fn from(self, start: usize) -> Self {
        self.part(start..self.len())
    }

    /// Its first `len` bytes, or all that there are.
    pub(super) fn first(self, len: usize) -> Self {
        self.part(0..len.min(self.len()))
    }

    /// Whether this can be written to `off` as whole pages.
    pub(super) fn is_whole_pages_at(self, off: u64) -> bool {
        off.is_multiple_of(PAGE) && (self.len() as u64).is_multiple_of(PAGE)
    }

    /// The pages; of bytes, which are whole pages, a copy.
    pub(super) fn to_pages(self) -> Vec<PageBuf> {
        match self {
            Payload::Bytes(bytes) => bytes.chunks(PAGE as usize).map(PageBuf::from_slice).collect(),
            Payload::Pages(pages) => pages.to_vec(),
        }
    }

    /// The request cut at `end`, the largest file size.
    pub(super) fn clip(self, off: u64, end: u64) -> Result<Payload<'a>> {
        let room = end.saturating_sub(off);
        if room == 0 && self.len() > 0 {
            return Err(Error::TooBig);
        }
        Ok(self.first(usize::try_from(room).unwrap_or(usize::MAX)))
    }
}
