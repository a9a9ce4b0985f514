//! [`MapNode`]: the leaves of the tree: where some thousands of neighbouring pages lie.
//!
//! An array holds runs: a header, which says for which page the run begins, and a word for each page from there on. The
//! span of the node is cut into regions of one size, and a directory names for each region the run that its pages lie
//! in. A new node is one region and one run over everything. A compacted one has no words for holes: what lies before
//! its first valid page and after its last is cut off, holes of the region's size or longer part runs, and shorter ones
//! keep their words. Because no hole between two runs is shorter than a region, no region touches two runs, and one
//! entry of the directory is enough.
//!
//! Kept true: the bitmap says which pages are mapped, and words of others mean nothing.

use crate::ftl::map::UNMAPPED;

/// Bytes of a node beside bitmap, directory and array: ten words, for its start, span, region size, counts of valid and
/// written pages, byte size, compactions, the two pointers and its parent.
const HEADER: u64 = 40;

/// See the head of the module. Offsets count pages from the first that the node could hold.
#[derive(Debug)]
pub(super) struct MapNode {
    /// First page, and number of pages, between which all mapped ones lie.
    start: u32,
    span: u32,
    /// Pages of a region.
    region: u32,
    /// Index of a header for each region; of a region without mapped pages anything.
    directory: Vec<u32>,
    array: Vec<u32>,
    /// Bit i stands for page start + i.
    bitmap: Vec<u64>,
    valid: u32,
    /// Pages that were written for the first time.
    written: u32,
}

/// What a node would be if it were compacted.
#[derive(Debug)]
pub(super) struct Plan {
    start: u32,
    span: u32,
    region: u32,
    /// First page and length.
    runs: Vec<(u32, u32)>,
}

impl Plan {
    /// Bytes that it would take.
    pub(super) fn bytes(&self) -> u64 {
        let words: u64 = self.runs.iter().map(|&(_, length)| u64::from(length) + 1).sum();
        bytes(self.span, self.span.div_ceil(self.region) as usize, words)
    }
}

/// Bytes of a node: 2 for each entry of the directory while they reach over the array.
fn bytes(span: u32, regions: usize, words: u64) -> u64 {
    let index = if words <= 1 << 16 { 2 } else { 4 };
    HEADER + u64::from(span).div_ceil(8) + regions as u64 * index + words * 4
}

impl MapNode {
    /// A node for `pages` pages, none of them mapped.
    pub(super) fn new(pages: u32) -> Self {
        let mut array = vec![UNMAPPED; pages as usize + 1];
        array[0] = 0;
        MapNode {
            start: 0,
            span: pages,
            region: pages,
            directory: vec![0],
            array,
            bitmap: vec![0; pages.div_ceil(64) as usize],
            valid: 0,
            written: 0,
        }
    }

    /// Bytes that a node takes before it is compacted.
    pub(super) fn full_bytes(pages: u32) -> u64 {
        bytes(pages, 1, u64::from(pages) + 1)
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        bytes(self.span, self.directory.len(), self.array.len() as u64)
    }

    /// Mapped pages.
    pub(super) fn valid(&self) -> u32 {
        self.valid
    }

    /// Pages that were written at some time, at most all of them.
    pub(super) fn written(&self) -> u32 {
        self.written
    }

    /// Pages that a scan looks at.
    pub(super) fn span(&self) -> u32 {
        self.span
    }

    /// The bit of a page, if there is one.
    fn bit(&self, offset: u32) -> Option<usize> {
        offset.checked_sub(self.start).filter(|&at| at < self.span).map(|at| at as usize)
    }

    fn is_set(&self, bit: usize) -> bool {
        self.bitmap[bit / 64] >> (bit % 64) & 1 == 1
    }

    /// The word of a page that lies in the run which the directory names for its region.
    fn word(&self, offset: u32) -> usize {
        let header = self.directory[((offset - self.start) / self.region) as usize] as usize;
        header + 1 + (offset - self.array[header]) as usize
    }

    /// Where a page lies.
    pub(super) fn get(&self, offset: u32) -> u32 {
        match self.bit(offset) {
            Some(bit) if self.is_set(bit) => self.array[self.word(offset)],
            _ => UNMAPPED,
        }
    }

    /// A page lies somewhere else now; a node that was compacted, and has no word for it, becomes a full one. Where it
    /// lay.
    pub(super) fn set(&mut self, offset: u32, at: u32, pages: u32) -> u32 {
        let mapped = self.bit(offset).is_some_and(|bit| self.is_set(bit));
        if !mapped && (self.span, self.region) != (pages, pages) {
            *self = self.expanded(pages);
        }
        let word = self.word(offset);
        let old = std::mem::replace(&mut self.array[word], at);
        if mapped {
            return old;
        }
        let bit = (offset - self.start) as usize;
        self.bitmap[bit / 64] |= 1 << (bit % 64);
        self.valid += 1;
        self.written = (self.written + 1).min(pages);
        UNMAPPED
    }

    /// A page lies nowhere now. Where it lay.
    pub(super) fn unset(&mut self, offset: u32) -> u32 {
        let Some(bit) = self.bit(offset).filter(|&bit| self.is_set(bit)) else { return UNMAPPED };
        self.bitmap[bit / 64] &= !(1 << (bit % 64));
        self.valid -= 1;
        self.array[self.word(offset)]
    }

    /// The first mapped page from `offset` on.
    pub(super) fn next(&self, offset: u32) -> Option<u32> {
        let from = offset.max(self.start) - self.start;
        if from >= self.span {
            return None;
        }
        let mut word = from as usize / 64;
        let mut bits = self.bitmap[word] & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.bitmap.get(word)?;
        }
        Some(self.start + word as u32 * 64 + bits.trailing_zeros())
    }

    /// The first page from `offset` on that is not mapped, at most the end of the span.
    fn next_hole(&self, offset: u32) -> u32 {
        let (mut at, end) = (offset, self.start + self.span);
        while at < end {
            let bit = (at - self.start) as usize;
            let run = (!(self.bitmap[bit / 64] >> (bit % 64))).trailing_zeros().min(64 - (bit % 64) as u32);
            at += run;
            if run < 64 - (bit % 64) as u32 {
                break;
            }
        }
        at.min(end)
    }

    /// The node without words for holes of `smallest` pages or more; a node without mapped pages is none.
    pub(super) fn plan(&self, smallest: u32) -> Option<Plan> {
        let start = self.next(0)?;
        let mut runs: Vec<(u32, u32)> = Vec::new();
        let mut region = u32::MAX;
        let mut at = Some(start);
        while let Some(first) = at {
            let end = self.next_hole(first);
            match runs.last_mut() {
                Some((run, length)) if first - (*run + *length) < smallest => *length = end - *run,
                before => {
                    region = before.map_or(region, |&mut (run, length)| region.min(first - (run + length)));
                    runs.push((first, end - first));
                }
            }
            at = self.next(end);
        }
        let (last, length) = runs[runs.len() - 1];
        let span = last + length - start;
        Some(Plan { start, span, region: region.min(span), runs })
    }

    /// Becomes what was planned, since when nothing has changed.
    pub(super) fn compact(&mut self, plan: &Plan) {
        let &Plan { start, span, region, ref runs } = plan;
        let mut array = Vec::with_capacity(runs.iter().map(|&(_, length)| length as usize + 1).sum());
        let mut directory = vec![0; span.div_ceil(region) as usize];
        let mut bitmap = vec![0u64; span.div_ceil(64) as usize];
        for &(first, length) in runs {
            let header = array.len() as u32;
            array.push(first);
            for offset in first..first + length {
                let at = self.get(offset);
                array.push(at);
                if at != UNMAPPED {
                    let bit = (offset - start) as usize;
                    bitmap[bit / 64] |= 1 << (bit % 64);
                }
            }
            let regions = (first - start) / region..=(first + length - 1 - start) / region;
            directory[*regions.start() as usize..=*regions.end() as usize].fill(header);
        }
        *self = MapNode { start, span, region, directory, array, bitmap, ..*self };
    }

    /// The same with a word for every page.
    fn expanded(&self, pages: u32) -> Self {
        let mut full = MapNode::new(pages);
        let mut at = self.next(0);
        while let Some(offset) = at {
            full.set(offset, self.get(offset), pages);
            at = self.next(offset + 1);
        }
        full.written = self.written;
        full
    }

    /// Adds a line for every rule that does not hold.
    pub(super) fn check(&self, number: u64, found: &mut Vec<String>) {
        let mapped: u32 = self.bitmap.iter().map(|word| word.count_ones()).sum();
        if mapped != self.valid {
            found.push(format!("map node {number} has {mapped} mapped pages, {} were counted", self.valid));
        }
        let mut at = self.next(0);
        while let Some(offset) = at {
            let header = self.directory[((offset - self.start) / self.region) as usize] as usize;
            let first = self.array[header];
            if first > offset || self.word(offset) >= self.array.len() {
                found.push(format!("map node {number}: page {offset} is sought in the run from {first}"));
                return;
            }
            at = self.next(offset + 1);
        }
    }
}
