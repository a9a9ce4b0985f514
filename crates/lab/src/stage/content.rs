//! What the pages of a job's file hold: which page it is, whose, and which write of it, so that each page that is read
//! back tells whether it is the right one, and the newest.
//!
//! Pages are synthetic: 16 bytes stand for 4096 (`steadyfs_device::PageBuf`). A page starts with those 16 bytes.

use crate::rng;
use steadyfs_device::PageBuf;

/// What one file should hold.
pub(crate) struct Content {
    job: u32,
    seed: u64,
    /// Writes of each page so far.
    writes: Vec<u32>,
}

impl Content {
    /// A file of so many pages that were never written.
    pub(crate) fn new(job: u32, seed: u64, pages: u64) -> Self {
        Content { job, seed, writes: vec![0; pages as usize] }
    }

    /// The next contents of `count` pages from `first` on, which are what these pages hold from now on.
    pub(crate) fn next(&mut self, first: u64, count: u64) -> Vec<PageBuf> {
        let range = first as usize..(first + count) as usize;
        self.writes[range].iter_mut().for_each(|writes| *writes += 1);
        (first..first + count).map(|page| PageBuf::synthetic(self.stamp(page))).collect()
    }

    /// Pages of the file.
    pub(crate) fn pages(&self) -> u64 {
        self.writes.len() as u64
    }

    /// Whether none of these pages was ever written.
    pub(crate) fn is_blank(&self, pages: std::ops::Range<u64>) -> bool {
        self.writes[pages.start as usize..pages.end as usize].iter().all(|writes| *writes == 0)
    }

    /// The first bytes of a page as it is now.
    fn stamp(&self, page: u64) -> [u8; 16] {
        let writes = self.writes[page as usize];
        let what = page << 32 | u64::from(writes);
        let who = u64::from(self.job) << 32 | rng::mix(self.seed) & 0xFFFF_FFFF;
        let mut stamp = [0; 16];
        stamp[..8].copy_from_slice(&what.to_le_bytes());
        stamp[8..].copy_from_slice(&who.to_le_bytes());
        stamp
    }

    /// What is wrong with these bytes of the file, which begin at `page`; only the newest contents are right if
    /// `newest`.
    pub(crate) fn judge(&self, page: u64, bytes: &[u8], newest: bool) -> Result<(), String> {
        for (at, bytes) in (page..).zip(bytes.chunks(4096)) {
            let right = self.stamp(at);
            let head = bytes.get(..16).ok_or_else(|| format!("file {}, page {at} is cut off", self.job))?;
            // An older write of the same page differs in the number of the write alone, and a page never written is
            // zero.
            let same_page = head[4..] == right[4..] || head.iter().all(|byte| *byte == 0);
            if (newest && self.writes[at as usize] > 0 && head != right) || !same_page {
                return Err(format!("file {}, page {at} holds {head:02x?} and should hold {right:02x?}", self.job));
            }
            let written = self.writes[at as usize] > 0;
            if !written && bytes.iter().any(|byte| *byte != 0) {
                return Err(format!("file {}, page {at} was never written and is not zero: {head:02x?}", self.job));
            }
            // The rest follows from the head; a sample of pages is compared in full.
            if at % 64 == 0 && written && head == right && PageBuf::synthetic(right).with(|all| all[..] != *bytes) {
                return Err(format!("file {}, page {at} has the right beginning and a wrong rest", self.job));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_old_foreign_and_torn_pages_are_told_from_the_right_one() {
        let mut content = Content::new(3, 9, 200);
        let bytes = |pages: &[PageBuf]| pages.iter().flat_map(|page| page.to_array().to_vec()).collect::<Vec<u8>>();
        let old = bytes(&content.next(64, 2));
        assert_eq!(content.judge(64, &old, true), Ok(()));
        let new = bytes(&content.next(64, 2));
        assert_eq!(content.judge(64, &new, true), Ok(()));
        assert!(content.judge(64, &old, true).is_err() && content.judge(64, &old, false).is_ok());
        assert!(content.judge(65, &new, false).is_err(), "another page");
        let foreign = bytes(&Content::new(4, 9, 200).next(64, 1));
        assert!(content.judge(64, &foreign, false).is_err());
        let mut torn = new.clone();
        torn[4000] ^= 1;
        assert!(content.judge(64, &torn, true).is_err());
        assert!(content.judge(64, &new[..4096 + 7], true).is_err(), "cut off");
        assert!(content.judge(10, &[0; 4096], true).is_ok(), "never written");
        let mut dirty = [0; 4096];
        dirty[100] = 1;
        assert!(content.judge(10, &dirty, false).is_err(), "never written, and something is there");
        // All that such a page could say of itself is zero here, too.
        assert!(Content::new(0, 0, 1).judge(0, &[0; 4096], true).is_ok());
    }
}
