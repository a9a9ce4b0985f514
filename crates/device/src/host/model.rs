//! [`HostModel`]: a directory of a host in memory, for tests, and what a power cut of the host leaves of it.
//!
//! One clock orders everything: each operation has a tick at which it began and one at which it ended. After a cut,
//! each page of a file has one of several contents. It is the one that the last ended sync covered, or any that was
//! written there since, or was being written. The same holds for the length of a file. A sync covers operations that
//! had ended before it began, and holes only if it says so (fsync, not fdatasync). A name that was made, moved or
//! removed is there or not, unless a sync of the directory covers that. A host may do all of this, whatever its file
//! system: pages and names reach the disk in no order.
//!
//! A killed process takes nothing of it along: the next one that opens the directory sees all that had ended, durable
//! or not.
//!
//! Kept true: what changes something takes its time without the lock, and then happens at once.

use super::{Access, HostStat};
use crate::{BLOCK_SIZE, PageBuf};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_rt::{LockClass, Mutex, sleep};

/// Held for one step.
static STATE: LockClass = LockClass::new("device.host_model", u16::MAX - 3);

/// How long an operation takes at most, on a host that takes time.
const LONGEST_NS: u64 = 60_000;

/// A directory of a host. See the head of the module.
#[derive(Clone)]
pub struct HostModel(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    tick: u64,
    /// Decides how long operations take.
    pace: Option<Random>,
    /// A fault that builds for tests have is at work.
    #[cfg_attr(not(feature = "canary"), allow(dead_code, reason = "no fault is in this build"))]
    planted: bool,
    files: Vec<Held>,
    names: BTreeMap<String, usize>,
    /// As they were before the first of `changes`, durably.
    base: BTreeMap<String, usize>,
    changes: Vec<(Span, Change)>,
    syncs: Vec<Span>,
}

/// When something began and ended.
#[derive(Clone, Copy)]
struct Span {
    begun: u64,
    ended: u64,
}

enum Change {
    Made(String, usize),
    Moved(String, String, usize),
    Removed(String),
}

/// A file.
#[derive(Default)]
struct Held {
    pages: BTreeMap<u64, PageBuf>,
    length: u64,
    /// Before the first of all versions, durably.
    base: (BTreeMap<u64, PageBuf>, u64),
    /// What pages held since, in order; nothing is a hole.
    versions: BTreeMap<u64, Vec<(Span, Option<PageBuf>)>>,
    lengths: Vec<(Span, u64)>,
    /// Each with whether it covers holes.
    syncs: Vec<(Span, bool)>,
}

#[derive(Clone)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}

/// How much of what is not durable survives.
#[derive(Clone, Copy)]
enum Luck {
    Nothing,
    Everything,
    Anything,
}

impl Luck {
    fn of(random: &mut Random) -> Self {
        match random.below(4) {
            0 => Luck::Nothing,
            1 => Luck::Everything,
            _ => Luck::Anything,
        }
    }

    /// Which of `later` later versions is there; none if it is the durable one.
    fn pick(self, later: usize, random: &mut Random) -> Option<usize> {
        match self {
            Luck::Nothing => None,
            Luck::Everything => later.checked_sub(1),
            Luck::Anything => (random.below(later as u64 + 1) as usize).checked_sub(1),
        }
    }
}

/// When the last sync began that had ended by a moment: what had ended before is durable.
fn covered<'a>(syncs: impl Iterator<Item = &'a Span>, at: u64) -> u64 {
    syncs.filter(|sync| sync.ended <= at).map(|sync| sync.begun).max().unwrap_or(0)
}

impl Default for HostModel {
    fn default() -> Self {
        Self::new()
    }
}

impl HostModel {
    /// An empty directory, of a host that takes no time.
    pub fn new() -> Self {
        HostModel(Arc::new(Mutex::new(&STATE, State::default())))
    }

    /// From now on writes and syncs take as long as the seed says, or no time.
    pub fn take_time(&self, seed: Option<u64>) {
        self.0.lock().pace = seed.map(Random);
    }

    /// From now on the planted fault is at work, in builds that have one.
    pub fn plant(&self, is_planted: bool) {
        self.0.lock().planted = is_planted;
    }

    /// The latest tick: everything that happened has a tick up to it, everything that happens later a higher one.
    pub fn tick(&self) -> u64 {
        self.0.lock().tick
    }

    /// The directory after a power cut at a tick; the seed decides about what was not durable.
    pub fn after_cut(&self, at: u64, seed: u64) -> HostModel {
        let (state, mut random) = (self.0.lock(), Random(seed));
        let names = state.names_after(at, &mut random);
        let mut left = State::default();
        let mut moved: BTreeMap<usize, usize> = BTreeMap::new();
        for (name, file) in names {
            let new = *moved.entry(file).or_insert_with(|| {
                left.files.push(state.files[file].after(at, &mut random));
                left.files.len() - 1
            });
            left.names.insert(name, new);
        }
        left.base = left.names.clone();
        HostModel(Arc::new(Mutex::new(&STATE, left)))
    }

    /// Begins an operation, and lets it take its time.
    fn begin(&self) -> u64 {
        let (begun, wait) = {
            let mut state = self.0.lock();
            state.tick += 1;
            (state.tick, state.pace.as_mut().map(|random| random.below(LONGEST_NS)))
        };
        wait.into_iter().for_each(|wait| sleep(Duration::from_nanos(wait)));
        begun
    }

    pub(super) fn open(&self, name: &str, access: Access) -> Result<ModelFile, Errno> {
        let mut state = self.0.lock();
        let file = match state.names.get(name) {
            Some(file) => *file,
            None if matches!(access, Access::Read | Access::Write) => return Err(Errno::NOENT),
            None => {
                state.files.push(Held::default());
                let file = state.files.len() - 1;
                state.names.insert(name.to_owned(), file);
                state.change(Change::Made(name.to_owned(), file));
                file
            }
        };
        drop(state);
        let file = ModelFile { host: self.clone(), file };
        if access == Access::Anew && file.stat().length > 0 {
            file.set_len(0);
        }
        Ok(file)
    }

    pub(super) fn unlink(&self, name: &str) -> Result<(), Errno> {
        let mut state = self.0.lock();
        state.names.remove(name).ok_or(Errno::NOENT)?;
        state.change(Change::Removed(name.to_owned()));
        Ok(())
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        let mut state = self.0.lock();
        let file = state.names.remove(from).ok_or(Errno::NOENT)?;
        state.names.insert(to.to_owned(), file);
        state.change(Change::Moved(from.to_owned(), to.to_owned(), file));
        Ok(())
    }

    pub(super) fn sync_names(&self) {
        let begun = self.begin();
        let mut state = self.0.lock();
        let span = state.end(begun);
        state.syncs.push(span);
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.0.lock().names.keys().cloned().collect()
    }

    pub(super) fn stat(&self, name: &str) -> Result<HostStat, Errno> {
        let state = self.0.lock();
        let file = *state.names.get(name).ok_or(Errno::NOENT)?;
        Ok(state.stat(file))
    }
}

impl State {
    fn end(&mut self, begun: u64) -> Span {
        self.tick += 1;
        Span { begun, ended: self.tick }
    }

    /// A change of names, which happens at once.
    fn change(&mut self, change: Change) {
        self.tick += 1;
        let span = self.end(self.tick);
        self.changes.push((span, change));
    }

    fn stat(&self, file: usize) -> HostStat {
        let held = &self.files[file];
        HostStat { file: [0, file as u64], length: held.length, is_hole: held.pages.is_empty() }
    }

    /// Which names a power cut leaves.
    fn names_after(&self, at: u64, random: &mut Random) -> BTreeMap<String, usize> {
        let (durable, luck, mut names) = (covered(self.syncs.iter(), at), Luck::of(random), self.base.clone());
        for (span, change) in self.changes.iter().filter(|(span, _)| span.begun <= at) {
            if span.ended >= durable && luck.pick(1, random).is_none() {
                continue;
            }
            match change {
                Change::Made(name, file) => _ = names.insert(name.clone(), *file),
                Change::Removed(name) => _ = names.remove(name),
                Change::Moved(from, to, file) => {
                    names.remove(from);
                    names.insert(to.clone(), *file);
                }
            }
        }
        names
    }
}

impl Held {
    /// What a power cut leaves of it.
    fn after(&self, at: u64, random: &mut Random) -> Held {
        let contents = covered(self.syncs.iter().map(|(span, _)| span), at);
        let holes = covered(self.syncs.iter().filter(|(_, holes)| *holes).map(|(span, _)| span), at);
        let luck = Luck::of(random);
        let (mut pages, mut length) = self.base.clone();
        for (page, versions) in &self.versions {
            let begun: Vec<_> = versions.iter().filter(|(span, _)| span.begun <= at).collect();
            let is_durable =
                |(span, page): &&(Span, Option<PageBuf>)| span.ended < if page.is_some() { contents } else { holes };
            let later = begun.iter().rposition(is_durable).map_or(0, |last| last + 1);
            let picked = luck.pick(begun.len() - later, random).map(|at| later + at).or(later.checked_sub(1));
            match picked.map(|at| &begun[at].1) {
                Some(Some(held)) => _ = pages.insert(*page, held.clone()),
                Some(None) => _ = pages.remove(page),
                None => {}
            }
        }
        let begun: Vec<_> = self.lengths.iter().filter(|(span, _)| span.begun <= at).collect();
        let later = begun.iter().rposition(|(span, _)| span.ended < contents).map_or(0, |last| last + 1);
        let picked = luck.pick(begun.len() - later, random).map(|at| later + at).or(later.checked_sub(1));
        length = picked.map_or(length, |at| begun[at].1);
        cut(&mut pages, length);
        Held { base: (pages.clone(), length), pages, length, ..Held::default() }
    }
}

/// Takes away what lies behind the end.
fn cut(pages: &mut BTreeMap<u64, PageBuf>, length: u64) {
    let (whole, rest) = (length / BLOCK_SIZE as u64, (length % BLOCK_SIZE as u64) as usize);
    pages.retain(|page, _| *page < whole || *page == whole && rest > 0);
    if let Some(last) = pages.get_mut(&whole).filter(|_| rest > 0) {
        last.make_mut()[rest..].fill(0);
    }
}

/// A file that is open.
pub(crate) struct ModelFile {
    host: HostModel,
    file: usize,
}

impl ModelFile {
    pub(super) fn stat(&self) -> HostStat {
        self.host.0.lock().stat(self.file)
    }

    #[cfg(feature = "canary")]
    pub(super) fn marks_early(&self) -> bool {
        self.host.0.lock().planted
    }

    pub(super) fn read(&self, block: u64, count: u64) -> Vec<PageBuf> {
        let state = self.host.0.lock();
        let held = &state.files[self.file].pages;
        (block..block + count).map(|page| held.get(&page).cloned().unwrap_or_default()).collect()
    }

    pub(super) fn write(&self, block: u64, pages: &[PageBuf]) {
        let begun = self.host.begin();
        let mut state = self.host.0.lock();
        let span = state.end(begun);
        let held = &mut state.files[self.file];
        for (page, contents) in (block..).zip(pages) {
            held.pages.insert(page, contents.clone());
            held.versions.entry(page).or_default().push((span, Some(contents.clone())));
        }
        held.reach(span, (block + pages.len() as u64) * BLOCK_SIZE as u64);
    }

    pub(super) fn write_bytes(&self, bytes: &[u8], offset: u64) {
        let begun = self.host.begin();
        let mut state = self.host.0.lock();
        let span = state.end(begun);
        let held = &mut state.files[self.file];
        let size = BLOCK_SIZE as u64;
        let end = offset + bytes.len() as u64;
        for page in offset / size..end.div_ceil(size) {
            let (from, to) = (offset.max(page * size), end.min((page + 1) * size));
            let mut contents = held.pages.get(&page).cloned().unwrap_or_default();
            let place = (from - page * size) as usize..(to - page * size) as usize;
            contents.make_mut()[place].copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
            held.pages.insert(page, contents.clone());
            held.versions.entry(page).or_default().push((span, Some(contents)));
        }
        held.reach(span, end);
    }

    pub(super) fn punch(&self, range: Range<u64>) {
        let mut state = self.host.0.lock();
        state.tick += 1;
        let begun = state.tick;
        let span = state.end(begun);
        let held = &mut state.files[self.file];
        held.punch(span, range);
    }

    pub(super) fn set_len(&self, bytes: u64) {
        let mut state = self.host.0.lock();
        state.tick += 1;
        let begun = state.tick;
        let span = state.end(begun);
        let held = &mut state.files[self.file];
        held.punch(span, bytes.div_ceil(BLOCK_SIZE as u64)..u64::MAX);
        cut(&mut held.pages, bytes);
        held.length = bytes;
        held.lengths.push((span, bytes));
    }

    pub(super) fn sync(&self, holes: bool) {
        let begun = self.host.begin();
        let mut state = self.host.0.lock();
        let span = state.end(begun);
        state.files[self.file].syncs.push((span, holes));
    }

    pub(super) fn held_from(&self, block: u64, blocks: u64) -> Option<Range<u64>> {
        let state = self.host.0.lock();
        let mut held = state.files[self.file].pages.range(block..).map(|(page, _)| *page).filter(|page| *page < blocks);
        let first = held.next()?;
        Some(
            first..held.zip(first + 1..).take_while(|(page, next)| page == next).last().map_or(first, |(at, _)| at) + 1,
        )
    }

    pub(super) fn read_all(&self) -> Vec<u8> {
        let length = self.stat().length;
        let pages = self.read(0, length.div_ceil(BLOCK_SIZE as u64));
        let mut bytes: Vec<u8> = pages.iter().flat_map(|page| page.to_array().to_vec()).collect();
        bytes.truncate(length as usize);
        bytes
    }
}

impl Held {
    fn reach(&mut self, span: Span, end: u64) {
        if end > self.length {
            self.length = end;
            self.lengths.push((span, end));
        }
    }

    fn punch(&mut self, span: Span, range: Range<u64>) {
        let gone: Vec<u64> = self.pages.range(range).map(|(page, _)| *page).collect();
        for page in gone {
            self.pages.remove(&page);
            self.versions.entry(page).or_default().push((span, None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(byte: u8) -> PageBuf {
        PageBuf::from_slice(&[byte; BLOCK_SIZE])
    }

    /// What cuts at this tick leave of some pages of a file, each once; nothing if the file is not there.
    fn left(host: &HostModel, name: &str, at: u64, pages: u64) -> Vec<Option<Vec<u8>>> {
        let mut found: Vec<_> = (0..400)
            .map(|seed| {
                let file = host.after_cut(at, seed).open(name, Access::Read).ok()?;
                Some(file.read(0, pages).iter().map(|page| page.to_array()[0]).collect())
            })
            .collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn a_cut_takes_what_no_sync_covers_and_nothing_else() {
        let host = HostModel::new();
        let file = host.open("a", Access::Make).unwrap();
        file.write(0, &[page(1), page(2)]);
        assert_eq!(left(&host, "a", host.tick(), 2).first(), Some(&None), "its name");
        host.sync_names();
        assert_eq!(left(&host, "a", host.tick(), 2).len(), 4, "pages in any subset");
        file.sync(false);
        assert_eq!(left(&host, "a", host.tick(), 2), [Some(vec![1, 2])]);
        let synced = host.tick();
        file.write(1, &[page(3)]);
        file.punch(0..1);
        file.sync(false);
        assert_eq!(left(&host, "a", synced, 2), [Some(vec![1, 2])], "of that moment");
        assert_eq!(left(&host, "a", host.tick(), 2), [Some(vec![0, 3]), Some(vec![1, 3])], "a hole may be undone");
        file.sync(true);
        host.rename("a", "b").unwrap();
        assert_eq!(left(&host, "a", host.tick(), 2), [None, Some(vec![0, 3])]);
        host.sync_names();
        assert_eq!(left(&host, "a", host.tick(), 2), [None]);
        assert_eq!(left(&host, "b", host.tick(), 2), [Some(vec![0, 3])]);
    }

    #[test]
    fn a_sync_covers_what_had_ended_when_it_began() {
        let host = HostModel::new();
        let file = host.open("a", Access::Make).unwrap();
        host.sync_names();
        let begun = host.begin();
        file.write(0, &[page(7)]);
        let mut state = host.0.lock();
        let span = state.end(begun);
        state.files[0].syncs.push((span, true));
        drop(state);
        assert_eq!(left(&host, "a", host.tick(), 1), [Some(vec![0]), Some(vec![7])]);
    }

    #[test]
    fn bytes_that_are_appended_reach_the_disk_page_by_page() {
        let host = HostModel::new();
        let file = host.open("a", Access::Make).unwrap();
        host.sync_names();
        file.write_bytes(&[1; 3000], 0);
        file.sync(false);
        file.write_bytes(&[2; 3000], 3000);
        let lengths: std::collections::BTreeSet<(usize, u8)> = (0..400)
            .map(|seed| {
                let file = host.after_cut(host.tick(), seed).open("a", Access::Read).unwrap();
                let bytes = file.read_all();
                assert_eq!(bytes[2999], 1);
                (bytes.len(), bytes.last().copied().unwrap_or(0))
            })
            .collect();
        assert_eq!(lengths, [(3000, 1), (6000, 0), (6000, 2)].into());
    }
}
