//! What a file of the load should hold, and the bytes that say who wrote them.
//!
//! A sector of 512 bytes has a version; from file, version and offset follow its bytes. A cell of 16 bytes reads {file,
//! version, number of the cell in the file}, so bytes of another file, of another place or of an older time are told
//! apart. Version 0 is zeros: a hole, or what was punched out.

use std::ops::Range;

pub(super) const SECTOR: u64 = 512;
pub(super) const PAGE: u64 = 4096;
const CELL: u64 = 16;

/// Writes the cells of a range of file `id` to `out`; `off` and its length are whole cells.
pub(super) fn fill(out: &mut [u8], id: u32, version: u32, off: u64) {
    if version == 0 {
        return out.fill(0);
    }
    let head = u64::from(id) | u64::from(version) << 32;
    for (cell, number) in out.chunks_exact_mut(CELL as usize).zip(off / CELL..) {
        cell[..8].copy_from_slice(&head.to_le_bytes());
        cell[8..].copy_from_slice(&number.to_le_bytes());
    }
}

/// Says what a cell is: for messages.
pub(super) fn describe(bytes: &[u8]) -> String {
    let word = |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
    match (word(0), word(8)) {
        (0, 0) => "zeros".to_owned(),
        (head, number) => {
            format!("version {} of file {}, offset {}", head >> 32, head & 0xFFFF_FFFF, number * CELL)
        }
    }
}

/// The version that the cell at `off` of file `id` shows; none if these bytes do not belong there.
pub(super) fn version_of(cell: &[u8], id: u32, off: u64) -> Option<u32> {
    if cell.iter().all(|&byte| byte == 0) {
        return Some(0);
    }
    let (head, number) = cell.split_at_checked(8)?;
    let (head, number) = (u64::from_le_bytes(head.try_into().ok()?), u64::from_le_bytes(number.try_into().ok()?));
    (head & 0xFFFF_FFFF == u64::from(id) && number == off / CELL).then_some((head >> 32) as u32)
}

/// A file that one writer has for itself.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) id: u32,
    pub(super) size: u64,
    /// Version of each sector, as far as the file may ever grow.
    sectors: Vec<u32>,
    /// Pages that take space.
    mapped: Vec<bool>,
}

impl Model {
    /// An empty file that may grow to `pages` pages.
    pub(super) fn new(id: u32, pages: u64) -> Self {
        let (sectors, mapped) = (vec![0; (pages * PAGE / SECTOR) as usize], vec![false; pages as usize]);
        Model { id, size: 0, sectors, mapped }
    }

    /// Pages it may grow to.
    pub(super) fn pages(&self) -> u64 {
        self.mapped.len() as u64
    }

    /// Pages of a range that take no space yet.
    pub(super) fn holes(&self, off: u64, len: u64) -> u64 {
        let pages = off / PAGE..(off + len).div_ceil(PAGE);
        pages.filter(|&page| !self.mapped[page as usize]).count() as u64
    }

    /// The first page from `from` on, and once around, that does or does not take space.
    pub(super) fn find(&self, from: u64, mapped: bool) -> Option<u64> {
        let pages = self.pages();
        (0..pages).map(|i| (from + i) % pages).find(|&page| self.mapped[page as usize] == mapped)
    }

    /// How many of up to `most` pages from `page` on do, or do not, take space.
    pub(super) fn run(&self, page: u64, mapped: bool, most: u64) -> u64 {
        let rest = self.mapped[page as usize..].iter().take(most as usize);
        rest.take_while(|&&is| is == mapped).count() as u64
    }

    /// Whole sectors were written.
    pub(super) fn write(&mut self, off: u64, len: u64, version: u32) {
        self.sectors[sectors(off, len)].fill(version);
        self.mapped[(off / PAGE) as usize..(off + len).div_ceil(PAGE) as usize].fill(true);
        self.size = self.size.max(off + len);
    }

    /// Whole sectors became zeros; whole pages gave their space back.
    pub(super) fn punch(&mut self, off: u64, len: u64) {
        let end = (off + len).min(self.size);
        if off >= end {
            return;
        }
        self.sectors[sectors(off, end - off)].fill(0);
        let whole = off.div_ceil(PAGE)..(off + len) / PAGE;
        self.unmap(whole);
    }

    /// The size changed, to whole sectors.
    pub(super) fn set_size(&mut self, size: u64) {
        if size < self.size {
            self.sectors[sectors(size, self.size - size)].fill(0);
            self.unmap(size.div_ceil(PAGE)..self.pages());
        }
        self.size = size;
    }

    fn unmap(&mut self, pages: Range<u64>) {
        if !pages.is_empty() {
            self.mapped[pages.start as usize..pages.end as usize].fill(false);
        }
    }

    /// What a read of a range within the size gives.
    pub(super) fn expect(&self, off: u64, out: &mut Vec<u8>, len: u64) {
        let first = off / SECTOR * SECTOR;
        let end = (off + len).next_multiple_of(SECTOR);
        out.resize((end - first) as usize, 0);
        let mut at = first;
        for sector in out.chunks_exact_mut(SECTOR as usize) {
            fill(sector, self.id, self.sectors[(at / SECTOR) as usize], at);
            at += SECTOR;
        }
        out.drain(..(off - first) as usize);
        out.truncate(len as usize);
    }
}

fn sectors(off: u64, len: u64) -> Range<usize> {
    (off / SECTOR) as usize..((off + len) / SECTOR) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_what_a_file_would_be() {
        let mut file = Model::new(7, 8);
        file.write(512, 8192, 1);
        file.write(4096, 512, 2);
        assert_eq!(
            (file.size, file.holes(0, 8 * PAGE), file.find(0, false), file.run(0, true, 9)),
            (8704, 5, Some(3), 3)
        );
        let mut seen = Vec::new();
        file.expect(500, &mut seen, 5000);
        assert_eq!(seen.len(), 5000);
        assert!(seen[..12].iter().all(|&byte| byte == 0));
        assert_eq!(version_of(&seen[12..28], 7, 512), Some(1));
        assert_eq!(version_of(&seen[12..28], 7, 528), None);
        assert_eq!(version_of(&seen[12..28], 8, 512), None);
        assert_eq!(version_of(&seen[4096 - 500..][..16], 7, 4096), Some(2));
        file.punch(0, 6144);
        assert_eq!((file.holes(0, 3 * PAGE), file.size), (1, 8704));
        file.set_size(4608);
        file.set_size(8192);
        file.expect(0, &mut seen, 8192);
        assert!(seen.iter().all(|&byte| byte == 0));
        assert_eq!(file.holes(0, 8 * PAGE), 7);
    }
}
