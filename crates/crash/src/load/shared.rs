//! Files that all writers share: each has pages of its own in them, and looks at those of the others.
//!
//! Stripes of a few pages belong to the writers in turn. A writer knows the contents of its own pages. Of another's it
//! knows two versions: the last one written when the read began, and the last one begun when the read ended. The
//! version that it sees lies between the two.

use super::model::{PAGE, describe, fill, version_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Pages in a stripe.
pub(super) const STRIPE: u64 = 4;
const CELL: usize = 16;

/// The pages of a shared file. A word is {version, whether that is zeros}.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) path: String,
    id: u32,
    writers: u64,
    begun: Vec<AtomicU32>,
    done: Vec<AtomicU32>,
}

/// Pages that a change is made to; it is over when this is dropped.
pub(super) struct Changing<'a> {
    shared: &'a Shared,
    pages: std::ops::Range<usize>,
    word: u32,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.shared.done[self.pages.clone()].iter().for_each(|done| done.store(self.word, SeqCst));
    }
}

impl Shared {
    pub(super) fn new(path: String, id: u32, writers: u64, pages: u64) -> Self {
        let words = || (0..pages).map(|_| AtomicU32::new(1)).collect();
        Shared { path, id, writers, begun: words(), done: words() }
    }

    pub(super) fn pages(&self) -> u64 {
        self.done.len() as u64
    }

    pub(super) fn copy(&self) -> Arc<Self> {
        let words = |all: &[AtomicU32]| all.iter().map(|word| AtomicU32::new(word.load(SeqCst))).collect();
        let (path, begun, done) = (self.path.clone(), words(&self.begun), words(&self.done));
        Arc::new(Shared { path, id: self.id, writers: self.writers, begun, done })
    }

    /// The `number`th stripe of a writer, counted around: its first page and how many it has.
    pub(super) fn stripe_of(&self, writer: u64, number: u64) -> (u64, u64) {
        let rounds = (self.pages() / STRIPE / self.writers).max(1);
        let first = (number % rounds * self.writers + writer) * STRIPE;
        (first, STRIPE.min(self.pages().saturating_sub(first)))
    }

    /// A writer begins to change pages of its own, to `version` or to zeros.
    pub(super) fn change(&self, first: u64, count: u64, version: u32, zeros: bool) -> Changing<'_> {
        let (pages, word) = (first as usize..(first + count) as usize, version << 1 | u32::from(zeros));
        self.begun[pages.clone()].iter().for_each(|begun| begun.store(word, SeqCst));
        Changing { shared: self, pages, word }
    }

    /// The bytes of a version of some pages.
    pub(super) fn contents(&self, first: u64, count: u64, version: u32) -> Vec<u8> {
        let mut out = vec![0; (count * PAGE) as usize];
        fill(&mut out, self.id, version, first * PAGE);
        out
    }

    /// What a page holds, if nobody changes it.
    pub(super) fn expect(&self, page: u64) -> Vec<u8> {
        let word = self.done[page as usize].load(SeqCst);
        self.contents(page, 1, if word & 1 == 1 { 0 } else { word >> 1 })
    }

    /// The last written versions of some pages before they are read.
    pub(super) fn before(&self, first: u64, count: u64) -> Vec<u32> {
        self.done[first as usize..(first + count) as usize].iter().map(|done| done.load(SeqCst)).collect()
    }

    /// Whether what was read of pages can be right.
    pub(super) fn check(&self, first: u64, before: &[u32], bytes: &[u8]) -> Result<(), String> {
        for ((page, &before), bytes) in (first..).zip(before).zip(bytes.chunks(PAGE as usize)) {
            let begun = self.begun[page as usize].load(SeqCst);
            for (cell, off) in bytes.chunks(CELL).zip((page * PAGE..).step_by(CELL)) {
                let zeros_allowed = before & 1 == 1 || begun != before;
                let right = match version_of(cell, self.id, off) {
                    Some(0) => zeros_allowed,
                    Some(version) => (before >> 1..=begun >> 1).contains(&version),
                    None => false,
                };
                if !right {
                    return Err(format!(
                        "{}, offset {off}: {} instead of version {} to {}{}",
                        self.path,
                        describe(cell),
                        before >> 1,
                        begun >> 1,
                        if zeros_allowed { ", or zeros" } else { "" }
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_of_the_time_of_a_read_are_right() {
        let shared = Shared::new("s".into(), 3, 2, 32);
        assert_eq!((shared.stripe_of(1, 0), shared.stripe_of(0, 1), shared.stripe_of(1, 5)), ((4, 4), (8, 4), (12, 4)));
        drop(shared.change(4, 4, 5, false));
        let (before, five) = (shared.before(4, 1), shared.contents(4, 1, 5));
        shared.check(4, &before, &five).unwrap();
        assert!(shared.check(4, &before, &shared.contents(4, 1, 4)).is_err());
        assert!(shared.check(4, &before, &[0; 4096]).is_err());
        assert!(shared.check(4, &before, &shared.contents(5, 1, 5)).is_err());
        let changing = shared.change(4, 1, 6, true);
        shared.check(4, &before, &[0; 4096]).unwrap();
        shared.check(4, &before, &five).unwrap();
        drop(changing);
        assert!(shared.check(4, &shared.before(4, 1), &five).is_err());
        assert_eq!(shared.expect(4), [0; 4096]);
    }
}
