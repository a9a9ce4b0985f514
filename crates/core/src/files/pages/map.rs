//! The pages of one file in memory, as a plain data structure: which are there, dirty, on their way to the device,
//! recently used.
//!
//! Pages live in chunks of 32 with one bit mask per property, so that "the dirty pages of this range" is a few words to
//! look at. Chunks with dirty pages are listed, so that a sync of a large file that is cached looks at these alone.
//!
//! Kept true: dirty, flying and used pages are present, counts equal the masks, and the list has exactly the chunks
//! with dirty pages. A page on its way (*flying*) carries the token of the latest write that took it. Only the
//! completion with that token lands it. So a page that was meanwhile rewritten, written again, removed or put again is
//! never mistaken for the one that completed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use steadyfs_device::PageBuf;
use steadyfs_format::PageIndex;

/// Pages in a chunk.
const CHUNK: u64 = 32;

/// Names one submission of pages for writing.
pub(super) type Token = u32;

#[derive(Default)]
struct Chunk {
    pages: [Option<PageBuf>; CHUNK as usize],
    tokens: [Token; CHUNK as usize],
    present: u32,
    dirty: u32,
    flying: u32,
    used: u32,
}

/// The pages of a file.
#[derive(Default)]
pub(super) struct PageMap {
    chunks: BTreeMap<u64, Box<Chunk>>,
    /// Keys of the chunks with dirty pages.
    with_dirty: BTreeSet<u64>,
    count: u64,
    dirty: u64,
}

/// Pages removed, and how many of them were dirty.
#[derive(Clone, Copy, Default)]
struct Removed {
    pages: u64,
    dirty: u64,
}

/// Bits of the pages of chunk `key` that lie in `range`.
fn mask(key: u64, range: &Range<PageIndex>) -> u32 {
    let first = key * CHUNK;
    let from = range.start.get().saturating_sub(first).min(CHUNK);
    let to = range.end.get().saturating_sub(first).min(CHUNK);
    if from >= to {
        return 0;
    }
    let below = |n: u64| ((1u64 << n) - 1) as u32;
    below(to) & !below(from)
}

/// The set bits of a mask, lowest first.
fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(bit)
    })
}

fn split(page: PageIndex) -> (u64, usize) {
    (page.get() / CHUNK, (page.get() % CHUNK) as usize)
}

fn join(key: u64, bit: usize) -> PageIndex {
    PageIndex(key * CHUNK + bit as u64)
}

/// Keys of the chunks that a range of pages touches.
fn keys(range: &Range<PageIndex>) -> Range<u64> {
    let first = range.start.get() / CHUNK;
    first..range.end.get().div_ceil(CHUNK).max(first)
}

impl PageMap {
    /// Pages in memory.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Pages with contents that were not yet taken for writing.
    pub(super) fn dirty(&self) -> u64 {
        self.dirty
    }

    /// A page, which thereby counts as used.
    pub(super) fn get(&mut self, page: PageIndex) -> Option<&PageBuf> {
        let (key, bit) = split(page);
        let chunk = self.chunks.get_mut(&key)?;
        chunk.used |= chunk.present & 1 << bit;
        chunk.pages[bit].as_ref()
    }

    /// A page that is neither dirty nor on its way, which thereby counts as used.
    pub(super) fn get_landed(&mut self, page: PageIndex) -> Option<&PageBuf> {
        let (key, bit) = split(page);
        let chunk = self.chunks.get(&key)?;
        let landed = (chunk.dirty | chunk.flying) >> bit & 1 == 0;
        if landed { self.get(page) } else { None }
    }

    /// Whether a page is in memory.
    pub(super) fn contains(&self, page: PageIndex) -> bool {
        let (key, bit) = split(page);
        self.chunks.get(&key).is_some_and(|c| c.present & 1 << bit != 0)
    }

    /// A page to be changed in place: it becomes dirty.
    pub(super) fn get_dirty(&mut self, page: PageIndex) -> Option<&mut PageBuf> {
        let (key, bit) = split(page);
        let chunk = self.chunks.get_mut(&key)?;
        let buf = chunk.pages[bit].as_mut()?;
        self.dirty += u64::from(chunk.dirty & 1 << bit == 0);
        if chunk.dirty == 0 {
            self.with_dirty.insert(key);
        }
        chunk.dirty |= 1 << bit;
        chunk.used |= 1 << bit;
        assert!(chunk.dirty & !chunk.present == 0, "a page is dirty and not there");
        Some(buf)
    }

    /// Whether a page is in memory and dirty.
    pub(super) fn is_dirty(&self, page: PageIndex) -> bool {
        let (key, bit) = split(page);
        self.chunks.get(&key).is_some_and(|c| c.dirty & 1 << bit != 0)
    }

    /// Puts a clean page where there is none; false if there was one, which stays.
    pub(super) fn put_clean(&mut self, page: PageIndex, buf: PageBuf) -> bool {
        let (key, bit) = split(page);
        let chunk = self.chunks.entry(key).or_default();
        if chunk.present & 1 << bit != 0 {
            return false;
        }
        chunk.pages[bit] = Some(buf);
        assert!((chunk.dirty | chunk.flying) >> bit & 1 == 0, "page {page:?} was dirty before it was there");
        chunk.present |= 1 << bit;
        self.count += 1;
        true
    }

    /// Puts or replaces a page, which is dirty then.
    pub(super) fn put_dirty(&mut self, page: PageIndex, buf: PageBuf) {
        let (key, bit) = split(page);
        let chunk = self.chunks.entry(key).or_default();
        self.count += u64::from(chunk.present & 1 << bit == 0);
        self.dirty += u64::from(chunk.dirty & 1 << bit == 0);
        if chunk.dirty == 0 {
            self.with_dirty.insert(key);
        }
        chunk.pages[bit] = Some(buf);
        chunk.present |= 1 << bit;
        chunk.dirty |= 1 << bit;
        chunk.used |= 1 << bit;
        assert!((chunk.dirty | chunk.flying | chunk.used) & !chunk.present == 0, "marks of a page that is not there");
    }

    /// Drops the pages of a range, dirty or not.
    pub(super) fn remove(&mut self, range: &Range<PageIndex>) {
        let mut out = Removed::default();
        let mut empty = Vec::new();
        for (&key, chunk) in self.chunks.range_mut(keys(range)) {
            let gone = mask(key, range) & chunk.present;
            out.pages += u64::from(gone.count_ones());
            let dirty = gone & chunk.dirty;
            out.dirty += u64::from(dirty.count_ones());
            chunk.drop_pages(gone);
            if dirty != 0 && chunk.dirty == 0 {
                self.with_dirty.remove(&key);
            }
            if chunk.present == 0 {
                empty.push(key);
            }
        }
        self.after_removal(&empty, out);
    }

    fn after_removal(&mut self, empty: &[u64], removed: Removed) {
        for key in empty {
            let chunk = self.chunks.remove(key);
            assert!(
                chunk.is_some_and(|c| (c.dirty | c.flying | c.used) == 0),
                "a chunk without pages has marks of some"
            );
        }
        assert!(removed.pages <= self.count && removed.dirty <= self.dirty, "a page map lost count");
        self.count -= removed.pages;
        self.dirty -= removed.dirty;
    }

    /// The first dirty page of a range.
    pub(super) fn next_dirty(&self, range: &Range<PageIndex>) -> Option<PageIndex> {
        self.with_dirty.range(keys(range)).find_map(|&key| {
            let dirty = self.chunks.get(&key)?.dirty & mask(key, range);
            (dirty != 0).then(|| join(key, dirty.trailing_zeros() as usize))
        })
    }

    /// Takes up to `max` dirty pages of a range for writing: they are clean and fly with `token` from here on.
    pub(super) fn take_dirty(
        &mut self,
        range: &Range<PageIndex>,
        max: usize,
        token: Token,
    ) -> Vec<(PageIndex, PageBuf)> {
        let mut out = Vec::new();
        let mut cleaned = Vec::new();
        for &key in self.with_dirty.range(keys(range)) {
            let Some(chunk) = self.chunks.get_mut(&key) else { continue };
            for bit in bits(chunk.dirty & mask(key, range)) {
                if out.len() == max {
                    break;
                }
                if let Some(buf) = &chunk.pages[bit] {
                    out.push((join(key, bit), buf.clone()));
                    chunk.dirty &= !(1 << bit);
                    chunk.flying |= 1 << bit;
                    chunk.tokens[bit] = token;
                }
            }
            if chunk.dirty == 0 {
                cleaned.push(key);
            }
            if out.len() == max {
                break;
            }
        }
        for key in cleaned {
            self.with_dirty.remove(&key);
        }
        assert!(self.dirty >= out.len() as u64, "more pages are taken to be written than are dirty");
        self.dirty -= out.len() as u64;
        out
    }

    /// The write `token` of these pages has ended. Pages that it still stands for are on the device; if it failed they
    /// are dirty again. Returns how many became dirty.
    pub(super) fn land(&mut self, token: Token, pages: impl Iterator<Item = PageIndex>, failed: bool) -> u64 {
        let mut dirtied = 0;
        for page in pages {
            let (key, bit) = split(page);
            let Some(chunk) = self.chunks.get_mut(&key) else { continue };
            if chunk.flying & 1 << bit == 0 || chunk.tokens[bit] != token {
                continue;
            }
            assert!(chunk.present >> bit & 1 == 1, "page {page:?} landed and is not there");
            chunk.flying &= !(1 << bit);
            if failed && chunk.dirty & 1 << bit == 0 {
                self.with_dirty.insert(key);
                chunk.dirty |= 1 << bit;
                dirtied += 1;
            }
        }
        self.dirty += dirtied;
        assert!(self.dirty <= self.count, "{} of {} pages are dirty behind write {token}", self.dirty, self.count);
        dirtied
    }

    /// Drops up to about `max` clean pages that were not used since the last visit, looking at chunks from `hand` on;
    /// the others lose their used mark. Returns how many went, and where the next visit starts.
    pub(super) fn evict(&mut self, hand: u64, max: u64) -> (u64, u64) {
        let mut removed = Removed::default();
        let mut empty = Vec::new();
        let mut next = 0;
        let mut looked = 0;
        for (&key, chunk) in self.chunks.range_mut(hand..) {
            if looked >= max || removed.pages >= max {
                next = key;
                break;
            }
            looked += u64::from(chunk.present.count_ones());
            let gone = chunk.present & !chunk.dirty & !chunk.flying & !chunk.used;
            chunk.used = 0;
            removed.pages += u64::from(gone.count_ones());
            chunk.drop_pages(gone);
            if chunk.present == 0 {
                empty.push(key);
            }
        }
        self.after_removal(&empty, removed);
        (removed.pages, next)
    }

    /// Whether every page may be forgotten without losing anything.
    pub(super) fn is_disposable(&self) -> bool {
        self.dirty == 0 && self.chunks.values().all(|c| c.flying == 0)
    }
}

impl Chunk {
    fn drop_pages(&mut self, gone: u32) {
        assert!(gone & !self.present == 0, "pages go that are not there");
        for bit in bits(gone) {
            self.pages[bit] = None;
        }
        for set in [&mut self.present, &mut self.dirty, &mut self.flying, &mut self.used] {
            *set &= !gone;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn buf(n: u8) -> PageBuf {
        PageBuf::from_slice(&[n])
    }

    fn range(from: u64, to: u64) -> Range<PageIndex> {
        PageIndex(from)..PageIndex(to)
    }

    #[test]
    fn a_rewritten_page_is_not_landed_by_the_older_write() {
        let mut map = PageMap::default();
        map.put_dirty(PageIndex(7), buf(1));
        assert_eq!(map.take_dirty(&range(0, 100), 10, 1).len(), 1);
        assert!(!map.is_disposable(), "a flying page must stay");
        map.put_dirty(PageIndex(7), buf(2));
        assert_eq!(map.take_dirty(&range(0, 100), 10, 2).len(), 1);
        assert_eq!(map.land(1, [PageIndex(7)].into_iter(), true), 0, "a newer write stands for the page");
        assert!(!map.is_disposable());
        assert_eq!(map.land(2, [PageIndex(7)].into_iter(), true), 1, "the failed write makes it dirty again");
        assert_eq!((map.dirty(), map.is_dirty(PageIndex(7))), (1, true));
    }

    #[test]
    fn a_page_put_anew_is_not_landed_by_the_write_of_the_removed_one() {
        let mut map = PageMap::default();
        map.put_dirty(PageIndex(40), buf(1));
        map.take_dirty(&range(0, 100), 10, 5);
        map.remove(&range(0, 100));
        assert_eq!((map.count(), map.dirty()), (0, 0));
        map.put_dirty(PageIndex(40), buf(2));
        assert_eq!(map.land(5, [PageIndex(40)].into_iter(), false), 0);
        assert_eq!((map.count(), map.dirty()), (1, 1));
    }

    #[test]
    fn eviction_spares_used_dirty_and_flying_pages() {
        let mut map = PageMap::default();
        for i in 0..4 {
            map.put_clean(PageIndex(i), buf(0));
        }
        map.get(PageIndex(1));
        map.put_dirty(PageIndex(2), buf(2));
        map.put_dirty(PageIndex(3), buf(3));
        map.take_dirty(&range(3, 4), 1, 9);
        assert_eq!(map.evict(0, 100), (1, 0));
        assert!(!map.contains(PageIndex(0)));
        assert_eq!(map.evict(0, 100), (1, 0), "page 1 had its second chance; page 3 is still on its way");
        map.land(9, [PageIndex(3)].into_iter(), false);
        assert_eq!(map.evict(0, 100).0, 1);
        assert_eq!((map.count(), map.dirty()), (1, 1));
    }

    #[derive(Clone, Debug)]
    enum Op {
        Clean(u64),
        Dirty(u64),
        Remove(u64, u64),
        Take(u64, u64, usize),
        Land(u64, bool),
        Evict(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        let page = 0u64..100;
        prop_oneof![
            page.clone().prop_map(Op::Clean),
            page.clone().prop_map(Op::Dirty),
            (page.clone(), 0u64..70).prop_map(|(p, n)| Op::Remove(p, p + n)),
            (page.clone(), 0u64..70, 1usize..20).prop_map(|(p, n, max)| Op::Take(p, p + n, max)),
            (0u64..20, any::<bool>()).prop_map(|(back, failed)| Op::Land(back, failed)),
            (0u64..40).prop_map(Op::Evict),
        ]
    }

    /// What the map should hold for a page: contents, dirty, token of the write in flight.
    #[derive(Clone, Debug, PartialEq)]
    struct Model {
        byte: u8,
        dirty: bool,
        token: Option<Token>,
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_model(ops in prop::collection::vec(op(), 0..120)) {
            let mut map = PageMap::default();
            let mut model: BTreeMap<u64, Model> = BTreeMap::new();
            let mut flights: Vec<(Token, Vec<PageIndex>)> = Vec::new();
            for (n, op) in ops.into_iter().enumerate() {
                let byte = n as u8;
                match op {
                    Op::Clean(p) => {
                        let put = map.put_clean(PageIndex(p), buf(byte));
                        prop_assert_eq!(put, !model.contains_key(&p));
                        model.entry(p).or_insert(Model { byte, dirty: false, token: None });
                    }
                    Op::Dirty(p) => {
                        let old = model.get(&p).cloned();
                        map.put_dirty(PageIndex(p), buf(byte));
                        model.insert(p, Model { byte, dirty: true, token: old.and_then(|m| m.token) });
                    }
                    Op::Remove(from, to) => {
                        map.remove(&range(from, to));
                        model.retain(|p, _| !(from..to).contains(p));
                    }
                    Op::Take(from, to, max) => {
                        let token = n as Token;
                        let taken = map.take_dirty(&range(from, to), max, token);
                        let expected: Vec<u64> =
                            model.iter().filter(|(p, m)| (from..to).contains(p) && m.dirty).map(|(p, _)| *p).take(max).collect();
                        prop_assert_eq!(taken.iter().map(|(p, _)| p.get()).collect::<Vec<_>>(), expected);
                        for (p, page) in &taken {
                            let m = model.get_mut(&p.get()).unwrap();
                            prop_assert_eq!(page, &buf(m.byte));
                            (m.dirty, m.token) = (false, Some(token));
                        }
                        flights.push((token, taken.into_iter().map(|(p, _)| p).collect()));
                    }
                    Op::Land(which, failed) => {
                        if flights.is_empty() { continue }
                        let (token, pages) = flights.remove(which as usize % flights.len());
                        for p in &pages {
                            if let Some(m) = model.get_mut(&p.get()).filter(|m| m.token == Some(token)) {
                                m.token = None;
                                m.dirty |= failed;
                            }
                        }
                        map.land(token, pages.into_iter(), failed);
                    }
                    Op::Evict(max) => {
                        map.evict(0, max);
                        let gone: Vec<u64> = model.keys().copied().filter(|p| !map.contains(PageIndex(*p))).collect();
                        for p in gone {
                            let m = model.remove(&p).unwrap();
                            prop_assert!(!m.dirty && m.token.is_none(), "evicted page {} was needed", p);
                        }
                    }
                }
                prop_assert_eq!(map.count(), model.len() as u64);
                prop_assert_eq!(map.dirty(), model.values().filter(|m| m.dirty).count() as u64);
                prop_assert_eq!(map.is_disposable(), model.values().all(|m| !m.dirty && m.token.is_none()));
                let first = model.iter().find(|(_, m)| m.dirty).map(|(p, _)| PageIndex(*p));
                prop_assert_eq!(map.next_dirty(&range(0, 1000)), first);
                let listed = map.chunks.iter().filter(|(_, chunk)| chunk.dirty != 0).map(|(key, _)| *key);
                prop_assert_eq!(map.with_dirty.iter().copied().collect::<Vec<_>>(), listed.collect::<Vec<_>>());
            }
            for (p, m) in &model {
                prop_assert_eq!(map.get(PageIndex(*p)), Some(&buf(m.byte)));
            }
        }
    }
}
