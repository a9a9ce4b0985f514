//! What the pages of a large directory surely do not hold, kept in memory.
//!
//! A name can be in a page of every level of the hash table, so looking for one that is not there reads a dozen pages
//! and more. Of each page that was read this remembers a Bloom filter of its hashes and how long a name still fits, and
//! most of them need not be looked at again.
//!
//! Kept true: a page that holds a hash is never said to lack it, nor one with room to have none. So a thread that
//! changes a page says so here, or has it forgotten; a page that nothing is known of is read. The caller holds the
//! directory's `i_rwsem`.

use crate::locks;
use steadyfs_format::PageIndex;
use steadyfs_format::dir::Dentries;
use steadyfs_format::numbers::NumberMap;
use steadyfs_rt::Mutex;

/// Words of a filter. 107 names of usual length in a page set a fifth of the bits, so that one page in thirty is read
/// in vain.
const WORDS: usize = 16;

/// Pages that are remembered of one directory, for 9 MiB of memory. A directory of a million names has about ten
/// thousand.
const MOST: usize = 1 << 16;

/// Removals after which a page's filter is made again: removed names still set bits.
const STALE: u8 = 32;

/// Levels from which on it pays.
const LEVELS: u8 = 3;

/// The summary of one page.
struct Summary {
    filter: [u64; WORDS],
    /// Free slots in a row, at most; there are 214 slots.
    free: u16,
    removed: u8,
}

impl Summary {
    fn of(entries: Dentries<'_>) -> Self {
        let mut out = Summary { filter: [0; WORDS], free: entries.longest_room() as u16, removed: 0 };
        entries.iter().flatten().for_each(|entry| out.add(entry.hash));
        out
    }

    /// Two bits for a hash, from parts of it that the choice of the page does not depend on alone.
    fn bits(hash: u32) -> [usize; 2] {
        let mixed = hash.wrapping_mul(0x9E37_79B1);
        [mixed >> 22, mixed >> 12 & 0x3ff].map(|bit| bit as usize)
    }

    fn add(&mut self, hash: u32) {
        Self::bits(hash).iter().for_each(|bit| self.filter[bit / 64] |= 1 << (bit % 64));
    }

    fn may_hold(&self, hash: u32) -> bool {
        Self::bits(hash).iter().all(|bit| self.filter[bit / 64] >> (bit % 64) & 1 != 0)
    }
}

/// The answer about one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing: it should be read and learned.
    Nothing,
    /// It may hold the hash.
    Maybe,
    /// It does not hold the hash, and has no more than `free` free slots in a row.
    Lacks { free: usize },
}

/// Summaries of a directory's pages; nothing at all of other inodes.
pub(crate) struct Names(Option<Box<Mutex<NumberMap<PageIndex, Summary>>>>);

impl Names {
    pub(crate) fn new(is_dir: bool) -> Self {
        Names(is_dir.then(|| Box::new(Mutex::new(&locks::NAMES, NumberMap::default()))))
    }

    /// Whether a page may hold an entry with this hash.
    pub(super) fn ask(&self, page: PageIndex, hash: u32) -> Known {
        let Some(pages) = &self.0 else { return Known::Nothing };
        match pages.lock().get(&page) {
            None => Known::Nothing,
            Some(summary) if summary.may_hold(hash) => Known::Maybe,
            Some(summary) => Known::Lacks { free: summary.free.into() },
        }
    }

    /// Remembers a page that was read, of a directory of `depth` levels.
    pub(super) fn learn(&self, page: PageIndex, entries: Dentries<'_>, depth: u8) {
        let Some(pages) = self.0.as_ref().filter(|_| depth >= LEVELS) else { return };
        let summary = Summary::of(entries);
        let mut pages = pages.lock();
        if pages.len() < MOST {
            pages.insert(page, summary);
        }
    }

    /// An entry was added to a page, which has `free` free slots in a row now.
    pub(super) fn added(&self, page: PageIndex, hash: u32, free: usize) {
        self.update(page, |summary| {
            summary.add(hash);
            assert!(summary.may_hold(hash), "page {page:?} holds a name, and is said to lack it");
            summary.free = free as u16;
            true
        });
    }

    /// An entry was removed from a page, which has `free` free slots in a row now.
    pub(super) fn removed(&self, page: PageIndex, free: usize) {
        self.update(page, |summary| {
            summary.free = free as u16;
            assert!(summary.removed < STALE, "a page is remembered after {STALE} removals");
            summary.removed += 1;
            summary.removed < STALE
        });
    }

    /// A page is no longer what it was.
    pub(super) fn forget(&self, page: PageIndex) {
        self.update(page, |_| false);
    }

    /// Changes what is known of a page, if anything is; forgets it if `change` says so by false.
    fn update(&self, page: PageIndex, change: impl FnOnce(&mut Summary) -> bool) {
        let Some(pages) = &self.0 else { return };
        let mut pages = pages.lock();
        if pages.get_mut(&page).is_some_and(|summary| !change(summary)) {
            pages.remove(&page);
        }
    }

    /// Forgets everything; of how many pages something was known.
    #[cfg(test)]
    pub(super) fn clear(&self) -> usize {
        self.0.as_ref().map_or(0, |pages| std::mem::take(&mut *pages.lock()).len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadyfs_format::dir::{DentriesMut, FileType, name_hash};
    use steadyfs_format::{BLOCK_SIZE, Ino};

    #[test]
    fn a_page_is_said_to_lack_what_it_lacks_and_mostly_so() {
        let (mut block, names) = ([0; BLOCK_SIZE], Names::new(true));
        let (page, name) = (PageIndex(7), |n: u32| format!("file-{n:08}").into_bytes());
        names.learn(page, Dentries::block(&block), LEVELS - 1);
        assert_eq!(names.ask(page, 1), Known::Nothing, "learned of a small directory");
        names.learn(page, Dentries::block(&block), LEVELS);
        assert_eq!(names.ask(page, 1), Known::Lacks { free: 214 });
        for n in 0..107 {
            let hash = name_hash(&name(n));
            DentriesMut::block(&mut block).insert(hash, &name(n), Ino::new(9), FileType::Regular).unwrap();
            names.added(page, hash, Dentries::block(&block).longest_room());
        }
        assert!((0..107).all(|n| names.ask(page, name_hash(&name(n))) == Known::Maybe));
        let lacks = |n: &u32| names.ask(page, name_hash(&name(*n))) == Known::Lacks { free: 0 };
        assert!((1000..2000).filter(lacks).count() > 900);
        let mut entries = DentriesMut::block(&mut block);
        assert!(entries.remove(50));
        names.removed(page, entries.read().longest_room());
        assert_eq!(names.ask(page, name_hash(&name(1002))), Known::Lacks { free: 2 });
        for _ in 1..STALE {
            names.removed(page, entries.read().longest_room());
        }
        assert_eq!(names.ask(page, 1), Known::Nothing);
    }
}
