//! The entries of one directory, block by block.

use super::context::Context;
use super::dirs::FIRST_PAGE;
use super::inodes::{InodeInfo, Inodes};
use super::issue::Issue;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};
use std::sync::atomic::Ordering::Relaxed;
use steadyfs_format::bitmap::lsb;
use steadyfs_format::dir::{
    BLOCK_SLOTS, Bucket, DentryLayout, FileType, bucket_of, bucket_of_page, name_hash, slots_for,
};
use steadyfs_format::inode::MAX_NAME;
use steadyfs_format::{Ino, PageIndex, ROOT_INO};

/// Bytes of an entry record and of a name slot.
const RECORD: usize = 11;
const SLOT: usize = 8;
/// Most names for which there is memory before they are met.
const MOST_EXPECTED: usize = 4096;

/// A directory while its blocks are checked.
pub(super) struct Directory<'a> {
    ctx: &'a Context,
    inodes: &'a Inodes,
    index: u32,
    info: &'a InodeInfo,
    /// A 64-bit fingerprint of each name.
    names: HashSet<u64, BuildHasherDefault<Fingerprint>>,
    /// The bucket that the page at hand belongs to, if the directory has buckets.
    bucket: Option<Bucket>,
    /// How often "." and ".." were met.
    dots: [u32; 2],
}

const DOTS: [&str; 2] = [".", ".."];

/// The bytes of a block of entries, or of an inline directory.
#[derive(Clone, Copy)]
struct Area<'a> {
    bytes: &'a [u8],
    slots: u16,
    records_at: usize,
    names_at: usize,
}

/// One record.
struct Record {
    hash: u32,
    ino: u32,
    name_len: u16,
    file_type: u8,
}

impl<'a> Area<'a> {
    /// Names end with the area, records end where names begin.
    fn new(layout: DentryLayout, bytes: &'a [u8]) -> Self {
        let slots = layout.slots();
        let names_at = bytes.len() - usize::from(slots) * SLOT;
        Area { bytes, slots, records_at: names_at - usize::from(slots) * RECORD, names_at }
    }

    fn is_used(&self, slot: u16) -> bool {
        slot < self.slots && lsb::get(self.bytes, usize::from(slot))
    }

    fn record(&self, slot: u16) -> Record {
        let at = self.records_at + usize::from(slot) * RECORD;
        let byte = |offset: usize| self.bytes[at + offset];
        let word = |offset: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| byte(offset + i)));
        let name_len = u16::from_le_bytes([byte(8), byte(9)]);
        Record { hash: word(0), ino: word(4), name_len, file_type: byte(10) }
    }

    fn name(&self, slot: u16, length: usize) -> &'a [u8] {
        let at = self.names_at + usize::from(slot) * SLOT;
        &self.bytes[at..at + length]
    }
}

impl<'a> Directory<'a> {
    /// One with `pages` pages.
    pub(super) fn new(ctx: &'a Context, inodes: &'a Inodes, index: u32, info: &'a InodeInfo, pages: usize) -> Self {
        // Names of usual length fill a page like that, and larger directories are rare.
        let expected = (pages * usize::from(BLOCK_SLOTS) / 4).min(MOST_EXPECTED);
        let names = HashSet::with_capacity_and_hasher(expected, BuildHasherDefault::default());
        Directory { ctx, inodes, index, info, names, bucket: None, dots: [0; 2] }
    }

    /// Checks the entries of a page, or of the inline area (no page).
    pub(super) fn check(&mut self, page: Option<PageIndex>, layout: DentryLayout, bytes: &[u8]) {
        let area = Area::new(layout, bytes);
        let ino = self.info.ino;
        let at = page.unwrap_or(FIRST_PAGE);
        self.bucket = page.and_then(|page| bucket_of_page(page, self.info.dir_level));
        let mut slot = 0;
        while slot < area.slots {
            if !area.is_used(slot) {
                slot += 1;
                continue;
            }
            let record = area.record(slot);
            let length = usize::from(record.name_len);
            let need = slots_for(length) as u16;
            if length == 0 || length > MAX_NAME || slot + need > area.slots {
                self.ctx.add(Issue::DentryNameLen { ino, page: at, slot, found: record.name_len });
                slot += 1;
                continue;
            }
            let name = area.name(slot, length);
            let own = |slot: u16| area.is_used(slot) && area.record(slot).name_len == 0;
            if !(slot + 1..slot + need).all(own) {
                self.ctx.add(Issue::DentrySlots { ino, page: at, slot, name: lossy(name) });
            }
            self.entry(page, slot, &record, name);
            slot += need;
        }
    }

    /// Says what is missing once all pages were checked.
    pub(super) fn finish(self) {
        let ino = self.info.ino;
        for (name, count) in DOTS.into_iter().zip(self.dots) {
            match count {
                0 if self.info.may_lack_dots() || self.info.links == 0 => {}
                0 => self.ctx.add(Issue::DotMissing { ino, name }),
                1 => {}
                _ => self.ctx.add(Issue::DotTwice { ino, name }),
            }
        }
    }

    fn entry(&mut self, page: Option<PageIndex>, slot: u16, record: &Record, name: &[u8]) {
        if let Some(dot) = DOTS.iter().position(|dot| dot.as_bytes() == name) {
            return self.dot_entry(dot, record);
        }
        let ino = self.info.ino;
        if !self.info.is_encrypted() && name.iter().any(|&byte| byte == b'/' || byte == 0) {
            let page = page.unwrap_or(FIRST_PAGE);
            self.ctx.add(Issue::DentryName { ino, page, slot, name: lossy(name) });
        }
        if !self.names.insert(fingerprint(name)) {
            self.ctx.add(Issue::DentryTwice { ino, name: lossy(name) });
        }
        self.check_place(page, record, name);
        self.check_target(record, name);
    }

    /// What ".." must be is known once all directories were checked.
    fn dot_entry(&mut self, dot: usize, record: &Record) {
        let (ino, name) = (self.info.ino, DOTS[dot]);
        self.dots[dot] += 1;
        if dot == 1 {
            self.inodes.counters(self.index).dotdot.store(record.ino, Relaxed);
            if record.ino == 0 {
                // The right number is not known yet, but no directory has this number.
                self.ctx.add(Issue::DotWrong { ino, name, found: 0, expected: self.info.pino.get() });
            }
        } else if record.ino != ino.get() {
            self.ctx.add(Issue::DotWrong { ino, name, found: record.ino, expected: ino.get() });
        }
        if record.file_type != FileType::Dir.to_disk() {
            let (stored, expected) = (record.file_type, FileType::Dir.to_disk());
            self.ctx.add(Issue::DentryType { ino, name: name.to_owned(), target: record.ino, stored, expected });
        }
        if record.hash != 0 {
            self.ctx.add(Issue::DentryHash { ino, name: name.to_owned(), stored: record.hash, computed: 0 });
        }
    }

    /// Whether the name is where it is looked for: hash, level and bucket.
    fn check_place(&self, page: Option<PageIndex>, record: &Record, name: &[u8]) {
        let ino = self.info.ino;
        let computed = if self.info.is_casefolded() { record.hash } else { name_hash(name) };
        if record.hash != computed {
            self.ctx.add(Issue::DentryHash { ino, name: lossy(name), stored: record.hash, computed });
        }
        let Some(page) = page else { return };
        let depth = self.info.depth;
        match self.bucket {
            Some(bucket) if u32::from(bucket.level) < depth => {
                if bucket_of(computed, bucket.level, self.info.dir_level) != bucket {
                    self.ctx.add(Issue::DentryBucket { ino, page, name: lossy(name) });
                }
            }
            _ => self.ctx.add(Issue::DentryLevel { ino, page, name: lossy(name), depth }),
        }
    }

    /// Whether the entry names an inode, and of the right kind; counts the name.
    fn check_target(&self, record: &Record, name: &[u8]) {
        let (ino, target) = (self.info.ino, Ino(record.ino));
        if target == ROOT_INO {
            return self.ctx.add(Issue::RootNamed { ino: target, dir: ino });
        }
        let Some(index) = self.ctx.nids.inode_index(target) else {
            return self.ctx.add(Issue::DentryIno { ino, name: lossy(name), target: record.ino });
        };
        let counters = self.inodes.counters(index);
        counters.names.fetch_add(1, Relaxed);
        let Some(kind) = self.inodes.info(index).and_then(|info| info.kind) else { return };
        if kind == FileType::Dir {
            counters.parent.fetch_max(ino.get(), Relaxed);
            self.inodes.counters(self.index).subdirs.fetch_add(1, Relaxed);
        }
        if FileType::from_disk(record.file_type) != Some(kind) {
            let (stored, expected) = (record.file_type, kind.to_disk());
            self.ctx.add(Issue::DentryType { ino, name: lossy(name), target: record.ino, stored, expected });
        }
    }
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// The same in every run. That two names share one by accident is as likely as a bit flip in memory; that someone makes
/// two such names on purpose costs him 2^32 tries and us a wrong line in the report.
fn fingerprint(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name);
    hasher.finish()
}

/// Passes fingerprints through: they are hashes already.
#[derive(Default)]
struct Fingerprint(u64);

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}
