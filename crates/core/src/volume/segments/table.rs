//! The segment table: which blocks are valid, and which state each segment is in.
//!
//! Per segment there is one packed word {valid count, OPEN, OWNED, PREFREE, generation} and a 512-bit validity map. The
//! word's *old* value, returned by each atomic change, alone decides state transitions, so exactly one thread owns each
//! of them:
//!
//! - a free segment is opened by a log (`open`), filled block by block (`mark_valid`) and closed (`close`);
//! - a thread that takes the count of a closed segment to zero, or closes a segment whose count is zero, makes it
//!   PREFREE;
//! - a checkpoint that commits turns the PREFREE segments it saw into free ones and raises their generation
//!   (`release`);
//! - with `mode=adaptive` a log may also open a used segment and fill its holes (`reopen`); which blocks are holes,
//!   `pinned` says.
//!
//! Kept true: outside a change in progress popcount(map) = count; a segment is in exactly one of free, open, prefree,
//! dirty or full; a free or prefree segment has count 0. Format section 5 (SIT).

use crate::bits::{AtomicBitmap, zeros};
use crate::volume::segments::locks::SegLocks;
use crate::volume::segments::pinned::{self, Loose, Map, PinnedBlocks};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::SeqCst};
use steadyfs_format::{Layout, Lba, Log, SecNo, SegNo};
use steadyfs_rt::{Cost, EventCount, charge};

/// Blocks in a segment.
pub(crate) const BLOCKS: u32 = 512;

const COUNT: u64 = 0xFFFF;
const OPEN: u64 = 1 << 16;
const OWNED: u64 = 1 << 17;
const PREFREE: u64 = 1 << 18;
const GENERATION_SHIFT: u32 = 32;

/// A decoded segment word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegState(u64);

impl SegState {
    /// Valid blocks, 0..=512.
    pub(crate) fn count(self) -> u32 {
        (self.0 & COUNT) as u32
    }
    /// A log writes here.
    pub(crate) fn is_open(self) -> bool {
        self.0 & OPEN != 0
    }
    /// A collector claimed it.
    pub(crate) fn is_owned(self) -> bool {
        self.0 & OWNED != 0
    }
    /// Empty, and free once the next checkpoint commits.
    pub(crate) fn is_prefree(self) -> bool {
        self.0 & PREFREE != 0
    }
    /// How often blocks of the segment could have come to hold something else since the mount: it was freed, or its
    /// holes could be filled, or a block was written in place.
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> GENERATION_SHIFT) as u32
    }
}

/// State of one segment as it is loaded from, and stored to, the SIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SitRecord {
    /// Log kind the segment was last opened for (0..=5 in log order).
    pub(crate) kind: u8,
    /// Validity, most significant bit first within each byte (as on disk).
    pub(crate) map: [u8; 64],
    /// Mean modification time, in the volume's elapsed seconds.
    pub(crate) mtime: u64,
}

/// The segments of the main area.
pub(crate) struct SegTable {
    words: Box<[AtomicU64]>,
    maps: Box<[AtomicU64]>,
    kinds: Box<[AtomicU8]>,
    mtimes: Box<[AtomicU64]>,
    /// How often collectors have moved the segment's blocks since the mount; 0 for blocks that logs have taken.
    passes: Box<[AtomicU8]>,
    layout: Layout,
    segs_per_sec: u32,
    /// Segments with changes that the committed checkpoint does not have.
    pub(crate) sit_dirty: AtomicBitmap,
    /// Closed segments with at least one valid and one invalid block: candidates for collection.
    pub(crate) dirty: AtomicBitmap,
    /// Empty segments that wait for a checkpoint.
    pub(crate) prefree: AtomicBitmap,
    /// Node segments that collection has cleaned since the last freeze: their nodes are dirty, so the next checkpoint
    /// empties them. Collection leaves them alone until then.
    pub(crate) awaiting: AtomicBitmap,
    /// Segments of which a collector could not read something: none tries again until they have been emptied otherwise.
    pub(crate) unreadable: AtomicBitmap,
    free: AtomicBitmap,
    /// Sections without any used segment. A thread that takes a section out of here owns it.
    free_sections: AtomicBitmap,
    /// Per section: segments that are not free (open, dirty, full or prefree).
    used_in_section: Box<[AtomicU32]>,
    /// Free sections that are not in the map for the moment: they are being discarded.
    hidden: AtomicU32,
    /// Told when hidden sections are back in the map.
    shown: EventCount,
    /// Where the next search for a free section starts.
    cursor: AtomicU32,
    /// Taken where the volume wants locks; nothing here needs them.
    pub(crate) locks: SegLocks,
    /// What must be neither written nor discarded, where logs fill the holes of used segments or dead runs are
    /// discarded; `None` where neither is.
    pinned: Option<PinnedBlocks>,
    /// Free sections are looked for from the first one on (F2FS' `alloc_mode=reuse`).
    from_first: bool,
    /// Sections that logs may take: those before this one.
    own_sections: usize,
    /// Sections from this one on do not become free by themselves when they are empty; those that are.
    emptied: Option<(usize, AtomicBitmap)>,
}

impl SegTable {
    /// A table of all-free segments for this layout.
    pub(crate) fn new(layout: &Layout, locks: SegLocks) -> Self {
        let n = layout.main_segments as usize;
        let sections = layout.sections as usize;
        SegTable {
            words: zeros(n),
            maps: zeros(n * 8),
            kinds: zeros(n),
            mtimes: zeros(n),
            passes: zeros(n),
            segs_per_sec: layout.segs_per_sec,
            layout: *layout,
            sit_dirty: AtomicBitmap::new(n),
            dirty: AtomicBitmap::new(n),
            prefree: AtomicBitmap::new(n),
            awaiting: AtomicBitmap::new(n),
            unreadable: AtomicBitmap::new(n),
            free: AtomicBitmap::full(n),
            free_sections: AtomicBitmap::full(sections),
            used_in_section: zeros(sections),
            hidden: AtomicU32::new(0),
            shown: EventCount::new(),
            cursor: AtomicU32::new(0),
            locks,
            pinned: None,
            from_first: false,
            own_sections: sections,
            emptied: None,
        }
    }

    /// The same table, for logs that also fill the holes of used segments, and that take the first free section there
    /// is rather than the next.
    pub(crate) fn with_reuse(self, from_first: bool) -> Self {
        SegTable { from_first, ..self.with_held() }
    }

    /// The same table, of which logs take the first `sections` sections only.
    pub(crate) fn with_own_sections(mut self, sections: u32) -> Self {
        self.own_sections = sections as usize;
        for section in self.own_sections..self.used_in_section.len() {
            self.free_sections.clear(section);
        }
        self
    }

    /// The same table, in which sections from `first` on that have become empty wait until somebody has taken them
    /// ([`SegTable::take_emptied`]) and given them back.
    pub(crate) fn with_emptied(self, first: SecNo) -> Self {
        let emptied = AtomicBitmap::new(self.used_in_section.len());
        SegTable { emptied: Some((first.index(), emptied)), ..self }
    }

    /// Takes the sections that have become empty. Each is to go back ([`SegTable::put_free_section_back`], or
    /// [`SegTable::put_emptied_back`]).
    pub(crate) fn take_emptied(&self) -> Vec<SecNo> {
        let Some((_, emptied)) = &self.emptied else { return Vec::new() };
        emptied.iter().filter(|section| emptied.clear(*section)).map(|section| SecNo::new(section as u32)).collect()
    }

    /// Has an empty section wait on.
    pub(crate) fn put_emptied_back(&self, section: SecNo) {
        if let Some((_, emptied)) = &self.emptied {
            emptied.set(section.index());
        }
    }

    /// The same table, which says of every block whether a checkpoint refers to it.
    pub(crate) fn with_held(mut self) -> Self {
        let segments = self.words.len();
        self.pinned.get_or_insert_with(|| PinnedBlocks::new(segments));
        self
    }

    /// Number of segments.
    pub(crate) fn len(&self) -> u32 {
        self.words.len() as u32
    }

    /// Installs a record read from the SIT while mounting; `open` says that a log's cursor is in this segment. Words
    /// that are zero already are not touched: a volume may have millions of segments that were never used.
    pub(crate) fn load(&self, seg: SegNo, record: &SitRecord, open: bool) {
        let i = seg.index();
        if record.kind != 0 {
            self.kinds[i].store(record.kind, SeqCst);
        }
        if record.mtime != 0 {
            self.mtimes[i].store(record.mtime, SeqCst);
        }
        if !open && record.map == [0; 64] {
            return;
        }
        let mut count = 0;
        for (w, bytes) in record.map.as_chunks::<8>().0.iter().enumerate() {
            let word = u64::from_be_bytes(*bytes);
            count += word.count_ones();
            self.maps[i * 8 + w].store(word, SeqCst);
            if let Some(pinned) = &self.pinned {
                pinned.pin(i * 8 + w, word);
            }
        }
        assert!(count <= BLOCKS);
        assert!(self.free.test(i), "segment {seg} loaded twice");
        let word = u64::from(count) | if open { OPEN } else { 0 };
        self.words[i].store(word, SeqCst);
        if count > 0 || open {
            self.take_segment(seg);
        }
        if !open && count > 0 && count < BLOCKS {
            self.dirty.set(i);
        }
    }

    /// The state of a segment at this moment.
    pub(crate) fn state(&self, seg: SegNo) -> SegState {
        SegState(self.words[seg.index()].load(SeqCst))
    }

    /// Log kind the segment was last opened for.
    pub(crate) fn kind(&self, seg: SegNo) -> u8 {
        self.kinds[seg.index()].load(SeqCst)
    }

    /// Mean modification time of the segment, in elapsed seconds.
    pub(crate) fn mtime(&self, seg: SegNo) -> u64 {
        self.mtimes[seg.index()].load(SeqCst)
    }

    /// How often collectors have moved what the segment holds.
    pub(crate) fn passes(&self, seg: SegNo) -> u8 {
        self.passes[seg.index()].load(SeqCst)
    }

    /// Notes that an open segment takes blocks that collectors have moved `passes` times.
    pub(crate) fn note_passes(&self, seg: SegNo, passes: u8) {
        self.passes[seg.index()].store(passes, SeqCst);
    }

    /// Whether the block at `off` of the segment is valid now.
    pub(crate) fn is_valid(&self, seg: SegNo, off: u32) -> bool {
        let (w, mask) = Self::bit(seg, off);
        self.maps[w].load(SeqCst) & mask != 0
    }

    /// Offsets of the valid blocks of a segment, rising, as they are at this moment.
    pub(crate) fn valid_offsets(&self, seg: SegNo) -> Vec<u32> {
        let mut out = Vec::new();
        let _look = self.locks.look();
        for w in 0..8 {
            let mut word = self.maps[seg.index() * 8 + w].load(SeqCst);
            while word != 0 {
                let lead = word.leading_zeros();
                out.push(w as u32 * 64 + lead);
                word &= !(1 << (63 - lead));
            }
        }
        out
    }

    /// The on-disk map is most significant bit first, so block 0 is the top bit of the first word.
    fn bit(seg: SegNo, off: u32) -> (usize, u64) {
        assert!(off < BLOCKS);
        (seg.index() * 8 + off as usize / 64, 1 << (63 - off % 64))
    }

    /// Marks a block of an open segment valid. `now` is the volume's elapsed time in seconds.
    pub(crate) fn mark_valid(&self, seg: SegNo, off: u32, now: u64) {
        let i = seg.index();
        let (w, mask) = Self::bit(seg, off);
        let _change = self.locks.change();
        charge(Cost::SegmentUpdate);
        let old = self.maps[w].fetch_or(mask, SeqCst);
        assert!(old & mask == 0, "block {off} of segment {seg} allocated twice");
        if let Some(pinned) = &self.pinned {
            pinned.pin(w, mask);
        }
        let old = SegState(self.words[i].fetch_add(1, SeqCst));
        assert!(old.is_open() && old.count() < BLOCKS, "allocation in segment {seg} that no log has open");
        self.touch(i, old.count(), now);
    }

    /// Ages the segment's time towards `now`, weighted by its valid blocks.
    fn touch(&self, i: usize, count: u32, now: u64) {
        // Only an estimate for victim selection: a lost update between two threads is harmless.
        let mtime = self.mtimes[i].load(SeqCst);
        let mean = (mtime.saturating_mul(u64::from(count)).saturating_add(now)) / (u64::from(count) + 1);
        self.mtimes[i].store(mean, SeqCst);
        self.sit_dirty.set(i);
    }

    /// Marks a block invalid; false if it was not valid, which the caller reports as damage.
    #[must_use]
    pub(crate) fn invalidate(&self, seg: SegNo, off: u32, now: u64) -> bool {
        let i = seg.index();
        let (w, mask) = Self::bit(seg, off);
        let _change = self.locks.change();
        charge(Cost::SegmentUpdate);
        if self.maps[w].fetch_and(!mask, SeqCst) & mask == 0 {
            return false;
        }
        let old = SegState(self.words[i].fetch_sub(1, SeqCst));
        assert!(old.count() > 0 && !old.is_prefree(), "segment {seg} counts fewer blocks than its map");
        if let Some(pinned) = &self.pinned {
            pinned.note_loss(i);
        }
        self.touch(i, old.count() - 1, now);
        if !old.is_open() {
            self.after_loss(i, old.count() - 1);
        }
        true
    }

    /// Puts a closed segment that just lost a block (or was just closed) where its count says.
    fn after_loss(&self, i: usize, count: u32) {
        let _lists = self.locks.lists();
        match count {
            0 => {
                self.words[i].fetch_or(PREFREE, SeqCst);
                self.dirty.clear(i);
                let fresh = self.prefree.set(i);
                assert!(fresh, "segment {i} became prefree twice");
                self.awaiting.clear(i);
            }
            BLOCKS => {
                // A segment that was dirty when a log began to fill it is full now, unless it has just lost a block.
                self.dirty.clear(i);
                if (1..BLOCKS).contains(&SegState(self.words[i].load(SeqCst)).count()) {
                    self.dirty.set(i);
                }
            }
            _ => {
                self.dirty.set(i);
                // A racing thread may have emptied the segment between our count and this set.
                let now = SegState(self.words[i].load(SeqCst));
                if now.is_prefree() || now.count() == 0 {
                    self.dirty.clear(i);
                }
            }
        }
    }

    /// Closes a log's segment.
    pub(crate) fn close(&self, seg: SegNo) {
        let i = seg.index();
        let _change = self.locks.change();
        let old = SegState(self.words[i].fetch_and(!OPEN, SeqCst));
        assert!(old.is_open(), "segment {seg} closed twice");
        self.after_loss(i, old.count());
    }

    /// Opens a free segment for a log of this kind: the next one of `after`'s section if there is one, else the first
    /// of a free section. `None` when no section is free. A log has the section it writes to for itself, so only the
    /// choice of a fresh one is contended.
    pub(crate) fn open(&self, after: Option<SegNo>, kind: u8) -> Option<SegNo> {
        let next = after.and_then(|seg| self.open_next(seg, kind));
        next.or_else(|| self.free_section().map(|seg| self.open_free(seg, kind)))
    }

    /// Opens the segment after one that is still open, if there is one in its section.
    pub(crate) fn open_next(&self, seg: SegNo, kind: u8) -> Option<SegNo> {
        self.next_in_section(seg).map(|seg| self.open_free(seg, kind))
    }

    fn open_free(&self, seg: SegNo, kind: u8) -> SegNo {
        self.take_segment(seg);
        let i = seg.index();
        let old = SegState(self.words[i].fetch_or(OPEN, SeqCst));
        assert!(old.count() == 0 && !old.is_open() && !old.is_prefree(), "segment {seg} is not free: {old:?}");
        self.kinds[i].store(kind, SeqCst);
        self.mtimes[i].store(0, SeqCst);
        self.passes[i].store(0, SeqCst);
        self.unreadable.clear(i);
        self.sit_dirty.set(i);
        seg
    }

    fn next_in_section(&self, seg: SegNo) -> Option<SegNo> {
        let next = seg.index() + 1;
        let same = !next.is_multiple_of(self.segs_per_sec as usize) && next < self.words.len();
        (same && self.free.test(next)).then(|| SegNo::new(next as u32))
    }

    /// Takes a free section out of the map and returns its first segment. Of several threads that want the same one,
    /// the bit decides.
    fn free_section(&self) -> Option<SegNo> {
        loop {
            let found = self.find_free_section();
            if found.is_some() || self.hidden.load(SeqCst) == 0 {
                return found.or_else(|| self.find_free_section());
            }
            // Nearly full, and what is left is being discarded: better late than no room.
            let key = self.shown.listen();
            if self.hidden.load(SeqCst) > 0 && self.free_sections.count() == 0 {
                self.shown.wait(key);
            }
        }
    }

    fn find_free_section(&self) -> Option<SegNo> {
        let start = if self.from_first { 0 } else { self.cursor.load(SeqCst) as usize };
        // Twice around: a section that became free behind the first search is not missed by much.
        for from in [start, 0, 0] {
            let mut at = from;
            while let Some(section) = self.free_sections.next_set(at) {
                if self.free_sections.clear(section) {
                    let next = (section + 1) % self.used_in_section.len();
                    self.cursor.store(next as u32, SeqCst);
                    return Some(SegNo::new(section as u32 * self.segs_per_sec));
                }
                at = section + 1;
            }
        }
        None
    }

    /// Takes the first free section from `from` on out of the map; no log opens it until
    /// [`SegTable::put_free_section_back`].
    pub(crate) fn take_free_section(&self, from: SecNo) -> Option<SecNo> {
        let mut at = from.get() as usize;
        loop {
            let section = SecNo::new(self.free_sections.next_set(at)? as u32);
            if self.take_section_if_free(section) {
                return Some(section);
            }
            at = section.get() as usize + 1;
        }
    }

    /// As [`SegTable::take_free_section`], this one; false if it is not free.
    pub(crate) fn take_section_if_free(&self, section: SecNo) -> bool {
        self.free_sections.clear(section.get() as usize)
    }

    /// Gives a section back that was taken and not used.
    pub(crate) fn put_free_section_back(&self, section: SecNo) {
        let section = section.get() as usize;
        assert!(self.used_in_section[section].load(SeqCst) == 0, "section {section} was used while it was taken");
        let was_taken = self.free_sections.set(section);
        assert!(was_taken, "section {section} was not taken");
    }

    /// Takes a free section that nobody is to open for a moment; false if it is not free. It counts as free all the
    /// time, and who finds no other waits for [`SegTable::show_section`].
    pub(crate) fn hide_section(&self, section: SecNo) -> bool {
        self.hidden.fetch_add(1, SeqCst);
        let hides = self.free_sections.clear(section.index());
        if !hides {
            self.end_hiding();
        }
        hides
    }

    /// Gives a hidden section back.
    pub(crate) fn show_section(&self, section: SecNo) {
        self.put_free_section_back(section);
        self.end_hiding();
    }

    fn end_hiding(&self) {
        let before = self.hidden.fetch_sub(1, SeqCst);
        assert!(before > 0, "more sections come back than were hidden");
        self.shown.notify_all();
    }

    /// Whether all of a section is free, and nobody has taken it.
    pub(crate) fn is_free_section(&self, section: SecNo) -> bool {
        self.free_sections.test(section.index())
    }

    fn take_segment(&self, seg: SegNo) {
        let was_free = self.free.clear(seg.index());
        assert!(was_free, "segment {seg} taken twice");
        let section = seg.index() / self.segs_per_sec as usize;
        let used = self.used_in_section[section].fetch_add(1, SeqCst);
        assert!(used < self.segs_per_sec, "section {section} has more segments in use than segments");
        if used == 0 {
            self.free_sections.clear(section);
        }
    }

    /// Frees a prefree segment once the checkpoint that saw it empty has committed. False if a collector owns it: it
    /// stays prefree for a later checkpoint, so that its owner never sees it reused underneath.
    pub(crate) fn release(&self, seg: SegNo) -> bool {
        let i = seg.index();
        let old = self.state(seg);
        assert!(old.is_prefree() && !old.is_open() && old.count() == 0, "segment {seg} is not prefree: {old:?}");
        if old.is_owned() && !steadyfs_rt::mutated("an-owned-segment-stays-prefree") {
            return false;
        }
        let next = u64::from(old.generation().wrapping_add(1)) << GENERATION_SHIFT;
        if self.words[i].compare_exchange(old.0, next, SeqCst, SeqCst).is_err() {
            return false; // a collector claimed it just now
        }
        let was_waiting = self.prefree.clear(i);
        assert!(was_waiting, "segment {seg} becomes free and did not wait for it");
        let fresh = self.free.set(i);
        assert!(fresh, "segment {seg} was free and prefree");
        let section = i / self.segs_per_sec as usize;
        let used = self.used_in_section[section].fetch_sub(1, SeqCst);
        assert!(used > 0, "section {section} has fewer segments in use than none");
        // The last one out: no log is in the section, for a log's segment is in use.
        if used == 1 && section < self.own_sections {
            match &self.emptied {
                Some((first, emptied)) if section >= *first => emptied.set(section),
                _ => self.free_sections.set(section),
            };
        }
        true
    }

    /// Keeps a free segment from being opened before the next checkpoint has committed, which frees it again: something
    /// that recovery may need lies there. `kind` says what. A segment that is not free is left alone: no log will open
    /// it.
    pub(crate) fn pin(&self, seg: SegNo, kind: Log) {
        let i = seg.index();
        if !self.is_free(seg) {
            return;
        }
        self.take_segment(seg);
        self.kinds[i].store(kind.number(), SeqCst);
        let old = SegState(self.words[i].fetch_or(PREFREE, SeqCst));
        assert!(old.count() == 0 && !old.is_open() && !old.is_prefree(), "segment {seg} is not free: {old:?}");
        let fresh = self.prefree.set(i);
        assert!(fresh, "segment {seg} was waiting already");
        self.sit_dirty.set(i);
    }

    /// Marks valid a data block that was written after the last checkpoint, where no log of this mount has put it
    /// (roll-forward recovery). The block is invalid now. False if the segment holds nodes, or did when it was last in
    /// use: nothing has changed then.
    #[must_use]
    pub(crate) fn adopt(&self, seg: SegNo, off: u32, now: u64) -> bool {
        self.pin(seg, Log::WarmData);
        if self.kind(seg) >= Log::HotNode.number() {
            return false;
        }
        let came = self.come(seg, off, now);
        assert!(came, "block {off} of segment {seg} is valid already");
        true
    }

    /// Marks valid a block that a device has moved to a segment of its own, which no log has. False if the segment
    /// holds blocks of the other sort, or something lies there: nothing has changed then. One that waits for its
    /// release may hold either.
    #[must_use]
    pub(crate) fn land(&self, seg: SegNo, off: u32, kind: Log, now: u64) -> bool {
        let i = seg.index();
        if self.is_free(seg) {
            self.take_segment(seg);
            self.kinds[i].store(kind.number(), SeqCst);
            self.mtimes[i].store(0, SeqCst);
            self.passes[i].store(0, SeqCst);
            self.unreadable.clear(i);
        }
        if self.holds_nodes(seg) != kind.is_node() {
            if self.state(seg).count() > 0 {
                return false;
            }
            self.kinds[i].store(kind.number(), SeqCst);
        }
        self.come(seg, off, now)
    }

    /// Whether what a segment holds, or held last, are nodes.
    pub(crate) fn holds_nodes(&self, seg: SegNo) -> bool {
        self.kind(seg) >= Log::HotNode.number()
    }

    /// A block comes to a segment, other than from its log; false if there is one.
    fn come(&self, seg: SegNo, off: u32, now: u64) -> bool {
        let i = seg.index();
        let (w, mask) = Self::bit(seg, off);
        let old = self.maps[w].fetch_or(mask, SeqCst);
        if old & mask != 0 {
            return false;
        }
        if let Some(pinned) = &self.pinned {
            pinned.pin(w, mask);
        }
        let old = SegState(self.words[i].fetch_and(!PREFREE, SeqCst));
        if old.is_prefree() {
            self.prefree.clear(i);
        }
        let old = SegState(self.words[i].fetch_add(1, SeqCst));
        assert!(old.count() < BLOCKS && !old.is_owned(), "segment {seg} takes no block: {old:?}");
        self.touch(i, old.count(), now);
        if !old.is_open() {
            if old.count() + 1 < BLOCKS {
                self.dirty.set(i)
            } else {
                self.dirty.clear(i)
            };
        }
        true
    }

    /// Opens a used segment that was found to be of the kind `was`, for a log of another or the same, to fill its
    /// holes. False if a collector or another log has it, or if what was found has changed: another log filled it and
    /// left it, or it was freed and written again.
    pub(crate) fn reopen(&self, seg: SegNo, was: u8, kind: u8) -> bool {
        let i = seg.index();
        let opened = {
            let _change = self.locks.change();
            self.words[i].fetch_update(SeqCst, SeqCst, |w| {
                let count = (w & COUNT) as u32;
                (w & (OWNED | OPEN | PREFREE) == 0 && (1..BLOCKS).contains(&count)).then_some(w | OPEN)
            })
        };
        if opened.is_err() {
            return false;
        }
        // From here on no other log changes its kind, or takes a block of it.
        if self.kind(seg) != was || self.pinned_count(seg) == BLOCKS {
            self.close(seg);
            return false;
        }
        let _lists = self.locks.lists();
        // A thread that loses a block of it just now may put it back here; an open segment is nobody's candidate.
        self.dirty.clear(i);
        self.kinds[i].store(kind, SeqCst);
        self.sit_dirty.set(i);
        true
    }

    /// What of a segment must not be written.
    pub(crate) fn pinned(&self, seg: SegNo) -> Map {
        match &self.pinned {
            Some(pinned) => pinned.map(seg),
            None => self.valid_map(seg),
        }
    }

    fn valid_map(&self, seg: SegNo) -> Map {
        std::array::from_fn(|w| self.maps[seg.index() * 8 + w].load(SeqCst))
    }

    /// How many blocks of a segment must not be written.
    pub(crate) fn pinned_count(&self, seg: SegNo) -> u32 {
        pinned::count(&self.pinned(seg))
    }

    /// The first block of a segment, from `from` on, that may be written, and how many of them lie side by side.
    pub(crate) fn hole(&self, seg: SegNo, from: u32) -> Option<(u32, u32)> {
        pinned::hole(&self.pinned(seg), from)
    }

    /// Blocks that are not valid now, and may be written when the checkpoint that sees that has committed. Under the
    /// exclusive checkpoint lock.
    pub(crate) fn take_loose(&self) -> Loose {
        self.pinned.as_ref().map_or_else(Vec::new, |pinned| pinned.take_loose(|seg| self.valid_map(seg)))
    }

    /// That checkpoint has failed.
    pub(crate) fn put_loose_back(&self, loose: &Loose) {
        if let Some(pinned) = &self.pinned {
            pinned.put_back(loose);
        }
    }

    /// That checkpoint has committed. Before [`SegTable::release`], so that a free segment holds nothing.
    pub(crate) fn unpin(&self, loose: &Loose) {
        let Some(pinned) = &self.pinned else { return };
        for (seg, map) in loose {
            // First: a reader that has seen the old contents of such a block sees that there may be others.
            self.renew(*seg);
            pinned.unpin(*seg, map);
        }
    }

    /// Says that blocks of the segment may hold something else from now on: a thread that read one before reads again.
    pub(crate) fn renew(&self, seg: SegNo) {
        self.words[seg.index()].fetch_add(1 << GENERATION_SHIFT, SeqCst);
    }

    /// Claims a segment for a collector; false if another has it, or if it is open, prefree or free.
    pub(crate) fn claim(&self, seg: SegNo) -> bool {
        let word = &self.words[seg.index()];
        word.fetch_update(SeqCst, SeqCst, |w| {
            (w & (OWNED | OPEN | PREFREE) == 0 && w & COUNT != 0).then_some(w | OWNED)
        })
        .is_ok()
    }

    /// Gives a claimed segment back.
    pub(crate) fn unclaim(&self, seg: SegNo) {
        let old = SegState(self.words[seg.index()].fetch_and(!OWNED, SeqCst));
        assert!(old.is_owned(), "segment {seg} was not claimed");
    }

    /// Sections without any used segment, also those that are hidden.
    pub(crate) fn free_sections(&self) -> u64 {
        self.free_sections.count() as u64 + u64::from(self.hidden.load(SeqCst))
    }

    /// Segments that are free now.
    pub(crate) fn free_segments(&self) -> u64 {
        self.free.count() as u64
    }

    /// Whether the segment is free now.
    pub(crate) fn is_free(&self, seg: SegNo) -> bool {
        self.free.test(seg.index())
    }

    /// The record that a checkpoint writes. Call under the exclusive checkpoint lock: no change is in progress then,
    /// and the count must equal the map.
    pub(crate) fn record(&self, seg: SegNo) -> SitRecord {
        let i = seg.index();
        let mut map = [0u8; 64];
        let mut count = 0;
        for w in 0..8 {
            let word = self.maps[i * 8 + w].load(SeqCst);
            count += word.count_ones();
            map[w * 8..w * 8 + 8].copy_from_slice(&word.to_be_bytes());
        }
        assert_eq!(count, self.state(seg).count(), "segment {seg}: map and count differ");
        SitRecord { kind: self.kind(seg), map, mtime: self.mtime(seg) }
    }

    /// Segment and offset of a main-area address.
    pub(crate) fn locate(&self, lba: Lba) -> Option<(SegNo, u32)> {
        self.layout.seg_of(lba).map(|(seg, off)| (seg, u32::from(off)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::options::techniques::GcOptions;
    use std::sync::Arc;

    /// A volume of 12 segments in sections of 3.
    fn table() -> SegTable {
        table_of(&GcOptions::default())
    }

    pub(crate) fn table_of(options: &GcOptions) -> SegTable {
        SegTable::new(&layout(), SegLocks::new(options))
    }

    /// Of 12 segments in sections of 3.
    pub(crate) fn layout() -> Layout {
        Layout {
            block_count: 100 * 512,
            segment_count: 20,
            segment0: Lba(512),
            cp: Lba(512),
            sit: Lba(1536),
            nat: Lba(2560),
            ssa: Lba(3584),
            main: Lba(4096),
            sit_segments: 2,
            nat_segments: 2,
            ssa_segments: 1,
            main_segments: 12,
            sections: 4,
            segs_per_sec: 3,
            secs_per_zone: 1,
            cp_payload: 0,
            width: steadyfs_format::Width::Four,
        }
    }

    #[test]
    fn a_log_fills_its_section_before_it_takes_another() {
        let t = table();
        let a = t.open(None, 1).unwrap();
        let b = t.open(None, 4).unwrap();
        assert_eq!((a.get(), b.get(), t.free_sections(), t.free_segments()), (0, 3, 2, 10));
        let next = t.open(Some(a), 1).unwrap();
        assert_eq!((next.get(), t.free_sections()), (1, 2));
        let last = t.open(Some(next), 1).unwrap();
        assert_eq!(t.open(Some(last), 1).unwrap().get(), 6, "the section is used up");
        assert_eq!(t.kind(last), 1);
    }

    #[test]
    fn a_found_segment_is_opened_only_while_it_is_what_was_found() {
        let (warm, cold) = (1, 2);
        let t = table();
        let seg = t.open(None, warm).unwrap();
        (0..BLOCKS).for_each(|off| t.mark_valid(seg, off, 5));
        t.close(seg);
        assert!(!t.reopen(seg, warm, cold), "another log has filled it meanwhile");
        assert!(t.invalidate(seg, 7, 9));
        assert!(!t.reopen(seg, cold, cold), "freed and written anew as something else");
        assert!(t.dirty.test(seg.index()) && !t.state(seg).is_open() && t.kind(seg) == warm, "left as it was");
        assert!(t.reopen(seg, warm, cold));
        assert!(t.state(seg).is_open() && t.kind(seg) == cold && !t.dirty.test(seg.index()));
        assert!(!t.reopen(seg, cold, cold), "it is a log's");
    }

    /// What the last checkpoint refers to is no hole, though it is not valid any more.
    #[test]
    fn a_segment_whose_invalid_blocks_are_held_is_not_opened() {
        let t = table().with_reuse(true);
        let seg = t.open(None, 1).unwrap();
        (0..BLOCKS).for_each(|off| t.mark_valid(seg, off, 5));
        t.close(seg);
        assert!(t.invalidate(seg, 7, 9));
        assert!(!t.reopen(seg, 1, 1) && !t.state(seg).is_open() && t.dirty.test(seg.index()));
        let loose = t.take_loose();
        t.unpin(&loose);
        assert!(t.reopen(seg, 1, 1));
    }

    #[test]
    fn an_emptied_segment_is_reused_only_after_release() {
        let t = table();
        let seg = t.open(None, 1).unwrap();
        for off in 0..BLOCKS {
            t.mark_valid(seg, off, 5);
        }
        t.close(seg);
        assert!(!t.dirty.test(seg.index()), "a full segment is no candidate");
        assert!(t.invalidate(seg, 7, 9));
        assert!(!t.invalidate(seg, 7, 9), "the second time is reported");
        assert!(t.dirty.test(seg.index()));
        assert_eq!(t.valid_offsets(seg).len(), 511);
        for off in (0..BLOCKS).filter(|&o| o != 7) {
            assert!(t.invalidate(seg, off, 9));
        }
        assert!(t.state(seg).is_prefree() && t.prefree.test(seg.index()) && !t.dirty.test(seg.index()));
        assert!(!t.is_free(seg) && !t.claim(seg));
        assert!(t.release(seg));
        assert!(t.is_free(seg) && t.state(seg).generation() == 1 && t.free_sections() == 4);
    }

    #[test]
    fn an_owned_segment_is_not_released_under_its_owner() {
        let t = table();
        let seg = t.open(None, 1).unwrap();
        t.mark_valid(seg, 0, 1);
        assert!(!t.claim(seg), "an open segment is not to be claimed");
        t.close(seg);
        assert!(t.claim(seg) && !t.claim(seg));
        assert!(t.invalidate(seg, 0, 1));
        assert!(!t.release(seg));
        t.unclaim(seg);
        assert!(t.release(seg));
    }

    #[test]
    fn records_keep_the_disk_order_of_bits() {
        let t = table();
        let mut map = [0u8; 64];
        map[0] = 0x81;
        map[63] = 0x01;
        let record = SitRecord { kind: 2, map, mtime: 77 };
        t.load(SegNo::new(4), &record, false);
        assert_eq!(t.valid_offsets(SegNo::new(4)), [0, 7, 511]);
        assert!(t.is_valid(SegNo::new(4), 7) && !t.is_valid(SegNo::new(4), 6));
        assert_eq!(t.record(SegNo::new(4)), record);
        assert_eq!((t.free_segments(), t.free_sections()), (11, 3));
    }

    #[test]
    fn a_pinned_segment_is_neither_opened_nor_lost() {
        let t = table();
        for seg in [0, 1, 3, 6, 9] {
            t.pin(SegNo::new(seg), Log::WarmNode);
        }
        assert_eq!(t.open(None, 1), None, "every section has a pinned segment");
        assert!(!t.adopt(SegNo::new(1), 4, 1), "nodes lie there");
        for seg in t.prefree.iter().collect::<Vec<_>>() {
            assert!(t.release(SegNo::new(seg as u32)));
        }
        assert_eq!((t.free_sections(), t.free_segments()), (4, 12));
    }

    #[test]
    fn an_adopted_block_makes_its_segment_a_used_one() {
        let t = table();
        let seg = SegNo::new(5);
        assert!(t.adopt(seg, 7, 1) && t.adopt(seg, 8, 1));
        assert_eq!((t.valid_offsets(seg), t.kind(seg)), (vec![7, 8], Log::WarmData.number()));
        assert!(!t.state(seg).is_prefree() && t.dirty.test(5) && !t.is_free(seg));
        assert!(t.invalidate(seg, 7, 1) && t.invalidate(seg, 8, 1));
        assert!(t.state(seg).is_prefree() && t.prefree.test(5), "it waits for the checkpoint");
        assert!(t.adopt(seg, 9, 1), "a block may come to it even so");
        assert!(!t.state(seg).is_prefree() && !t.prefree.test(5) && t.dirty.test(5));
        let open = t.open(None, Log::ColdData.number()).unwrap();
        t.mark_valid(open, 0, 1);
        assert!(t.adopt(open, 3, 1) && t.state(open).is_open() && !t.dirty.test(open.index()));
    }

    #[test]
    fn closing_an_empty_segment_makes_it_prefree() {
        let t = table();
        let seg = t.open(None, 0).unwrap();
        t.mark_valid(seg, 0, 1);
        assert!(t.invalidate(seg, 0, 1));
        assert!(!t.state(seg).is_prefree(), "a log is still in it");
        t.close(seg);
        assert!(t.state(seg).is_prefree());
    }

    /// So many sections, and so often, that threads meet at some of them however late one begins.
    #[test]
    fn of_threads_that_want_the_same_free_section_one_gets_it() {
        const SECTIONS: u32 = 200_000;
        let layout = Layout { main_segments: SECTIONS, sections: SECTIONS, segs_per_sec: 1, ..layout() };
        for _ in 0..6 {
            let table = Arc::new(SegTable::new(&layout, SegLocks::new(&GcOptions::default())));
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let table = Arc::clone(&table);
                    // Opening a segment that is open panics.
                    steadyfs_rt::spawn("opener", move || std::iter::from_fn(|| table.open(None, 0)).count())
                })
                .collect();
            let opened: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!((opened, table.free_sections(), table.free_segments()), (SECTIONS as usize, 0, 0));
        }
    }
}
