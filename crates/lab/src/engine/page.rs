//! What is on a page, and how it lies in a file.
//!
//! In memory a leaf is a list of keys and of the version of each record: the bytes of a record follow from these two,
//! so they are not kept. 15 records of 1 KB fill a page of 16 KiB and take 180 bytes here. In a file a page is four
//! blocks, each of which begins with its page, the number of the write, a hash over the contents and its place in the
//! page; the rest follows from these 16 bytes (`steadyfs_device::PageBuf`). What was read is a certain image of a
//! certain page, or an error.

use crate::rng::mix;
use std::sync::Arc;
use steadyfs_device::PageBuf;

/// Bytes of a page.
pub(crate) const PAGE: u64 = 16 << 10;
/// Blocks of a page.
pub(super) const BLOCKS: u64 = PAGE / 4096;
/// Bytes of a page that records can use: without its headers and its directory of slots.
pub(super) const ROOM: u64 = PAGE - 256;

/// The number of a page in the data file.
pub(super) type PageNo = u32;
/// No page.
pub(super) const NONE: PageNo = u32::MAX;

/// The contents of a page of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TreeContent {
    /// Records in the order of their keys, and the leaf behind.
    Leaf { keys: Vec<u64>, versions: Vec<u32>, next: PageNo },
    /// Child `n` has the keys from key `n` (0 stands for all that are smaller) to the next one.
    Inner { keys: Vec<u64>, children: Vec<PageNo> },
}

impl TreeContent {
    /// A leaf without records.
    pub(super) fn empty_leaf() -> Self {
        TreeContent::Leaf { keys: Vec::new(), versions: Vec::new(), next: NONE }
    }

    /// A hash over everything.
    pub(super) fn hash(&self) -> u32 {
        let fold = |hash: u64, word: u64| mix(hash ^ word);
        let whole = match self {
            TreeContent::Leaf { keys, versions, next } => {
                let words = keys.iter().copied().chain(versions.iter().map(|v| u64::from(*v)));
                words.fold(u64::from(*next), fold)
            }
            TreeContent::Inner { keys, children } => {
                let words = keys.iter().copied().chain(children.iter().map(|c| u64::from(*c)));
                words.fold(1 << 40, fold)
            }
        };
        whole as u32
    }

    /// Gives back memory that is not needed now.
    pub(super) fn shrink(&mut self) {
        match self {
            TreeContent::Leaf { keys, versions, .. } => {
                keys.shrink_to_fit();
                versions.shrink_to_fit();
            }
            TreeContent::Inner { keys, children } => {
                keys.shrink_to_fit();
                children.shrink_to_fit();
            }
        }
    }
}

/// A page as one write puts it into a file.
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) page: PageNo,
    /// How often the page has been written, this time included.
    pub(super) write: u32,
    hash: u32,
    pub(super) content: Arc<TreeContent>,
}

impl Image {
    pub(super) fn new(page: PageNo, write: u32, content: Arc<TreeContent>) -> Self {
        Image { page, write, hash: content.hash(), content }
    }

    fn stamp(&self, block: u64) -> [u8; 16] {
        let mut stamp = [0; 16];
        stamp[..4].copy_from_slice(&self.page.to_le_bytes());
        stamp[4..8].copy_from_slice(&self.write.to_le_bytes());
        stamp[8..12].copy_from_slice(&self.hash.to_le_bytes());
        stamp[12..].copy_from_slice(&(0x6274_7200 | block as u32).to_le_bytes());
        stamp
    }

    /// Its blocks.
    pub(super) fn blocks(&self) -> impl Iterator<Item = PageBuf> + '_ {
        (0..BLOCKS).map(|block| PageBuf::synthetic(self.stamp(block)))
    }

    /// What is wrong with bytes that were read where this image should be.
    pub(super) fn judge(&self, bytes: &[u8]) -> Result<(), String> {
        for (block, found) in (0..BLOCKS).zip(bytes.chunks(4096)) {
            let right = self.stamp(block);
            // A sample of pages is compared in full, the others by their heads.
            let full = self.page.is_multiple_of(256) && PageBuf::synthetic(right).with(|all| all[..] != *found);
            if found.get(..16) != Some(&right[..]) || full {
                let found = &found[..found.len().min(16)];
                return Err(format!("page {}, block {block}: found {found:02x?}, should be {right:02x?}", self.page));
            }
        }
        if bytes.len() as u64 == PAGE { Ok(()) } else { Err(format!("page {} is cut off", self.page)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_told_from_older_ones_other_pages_and_other_contents() {
        let leaf = |version| Arc::new(TreeContent::Leaf { keys: vec![3, 9], versions: vec![version, 1], next: NONE });
        let bytes = |image: &Image| image.blocks().flat_map(|block| block.to_array().to_vec()).collect::<Vec<u8>>();
        let image = Image::new(256, 7, leaf(1));
        let right = bytes(&image);
        assert_eq!(image.judge(&right), Ok(()));
        for other in [Image::new(256, 6, leaf(1)), Image::new(257, 7, leaf(1)), Image::new(256, 7, leaf(2))] {
            assert!(image.judge(&bytes(&other)).is_err());
        }
        let mut torn = right.clone();
        torn[8192..12288].copy_from_slice(&bytes(&Image::new(256, 6, leaf(1)))[8192..12288]);
        assert!(image.judge(&torn).is_err() && image.judge(&right[..12288]).is_err());
        let mut flipped = right;
        flipped[5000] ^= 1;
        assert!(image.judge(&flipped).is_err(), "page 256 is compared in full");
    }
}
