//! Partition tables of disks, MBR and GPT: as much of them as it takes to find a volume in one.
//!
//! Kept true: whatever a table says, reading it ends soon and takes little memory. Entries are counted, each link
//! between extended partitions is followed once, sums are checked for overflow. Where a partition lies is what the
//! table says: it may be beyond the disk, or overlap others, which the one who opens it has to check.

use std::collections::HashSet;

use steadyfs_device::{BLOCK_SIZE, Device, IoError};

/// Most partitions of a table.
const MOST: usize = 1024;
/// Most bytes of the entries of a GPT: 1024 of the largest that are in use.
const MOST_BYTES: u64 = 1 << 20;
/// Bytes of a sector, as MBR counts; GPT counts in those of the disk.
const SECTOR: u64 = 512;

/// What a table says of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    /// Its number, as Linux counts.
    pub(crate) number: u32,
    /// Where it starts on the disk, in bytes.
    pub(crate) start: u64,
    /// How long it is, in bytes; 0 if the table makes no sense.
    pub(crate) bytes: u64,
    /// Its name, or its type if it has none.
    pub(crate) label: String,
}

impl Partition {
    /// The byte behind it.
    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes)
    }

    fn new(number: usize, (first, sectors): (u64, u64), sector: u64, label: String) -> Self {
        let place = first.checked_mul(sector).zip(sectors.checked_mul(sector));
        let (start, bytes) = place.unwrap_or((u64::MAX, 0));
        Partition { number: u32::try_from(number).unwrap_or(u32::MAX), start, bytes, label }
    }
}

/// The partitions of a disk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// `MBR` or `GPT`.
    pub(crate) scheme: &'static str,
    /// In the order of the table.
    pub(crate) partitions: Vec<Partition>,
}

/// The partition table of a disk. `None` if it has none that is whole: a GPT counts with its checksums only.
pub(crate) fn read(disk: &dyn Device) -> Result<Option<Table>, IoError> {
    let Some(first) = bytes(disk, 0, SECTOR as usize)? else { return Ok(None) };
    let entries = entries(&first);
    let protective = |entries: &[Entry; 4]| entries.iter().any(|entry| entry.kind == GPT_INSIDE);
    if entries.as_ref().is_none_or(protective) {
        for sector in [SECTOR, BLOCK_SIZE as u64] {
            if let Some(partitions) = gpt(disk, sector)? {
                return Ok(Some(Table { scheme: "GPT", partitions }));
            }
        }
        return Ok(None);
    }
    let Some(entries) = entries else { return Ok(None) };
    let partitions = mbr(disk, &entries)?;
    Ok(Some(Table { scheme: "MBR", partitions }).filter(|table| !table.partitions.is_empty()))
}

/// Bytes of the disk; `None` beyond its end.
fn bytes(disk: &dyn Device, at: u64, len: usize) -> Result<Option<Vec<u8>>, IoError> {
    let block = BLOCK_SIZE as u64;
    let end = at.checked_add(len as u64).map(|end| end.div_ceil(block));
    let Some(end) = end.filter(|end| *end <= disk.info().blocks) else { return Ok(None) };
    let mut bytes = Vec::with_capacity(len + 2 * BLOCK_SIZE);
    for page in disk.read(at / block, end - at / block)? {
        page.with(|page| bytes.extend_from_slice(page));
    }
    let skip = (at % block) as usize;
    Ok(Some(bytes[skip..skip + len].to_vec()))
}

/// A little-endian number.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The type of the entry with which an MBR says that there is a GPT.
const GPT_INSIDE: u8 = 0xEE;

/// An entry of an MBR, in sectors.
#[derive(Clone, Copy)]
struct Entry {
    kind: u8,
    start: u64,
    sectors: u64,
}

impl Entry {
    fn is_extended(self) -> bool {
        matches!(self.kind, 0x05 | 0x0F | 0x85) && self.sectors > 0
    }

    fn is_used(self) -> bool {
        self.kind != 0 && self.sectors > 0 && !self.is_extended()
    }

    fn partition(self, number: usize, from: u64) -> Partition {
        let place = (from.saturating_add(self.start), self.sectors);
        Partition::new(number, place, SECTOR, format!("type {:#04x}", self.kind))
    }
}

/// The entries of a boot sector; `None` if it is none. The mark at its end alone may be any boot loader's.
fn entries(sector: &[u8]) -> Option<[Entry; 4]> {
    let entry = |n: usize| {
        let entry = &sector[446 + 16 * n..462 + 16 * n];
        Entry { kind: entry[4], start: number(entry, 8, 4), sectors: number(entry, 12, 4) }
    };
    let sound = (0..4).all(|n| sector[446 + 16 * n] & 0x7F == 0);
    (sector[510..512] == [0x55, 0xAA] && sound).then(|| [entry(0), entry(1), entry(2), entry(3)])
}

/// Partitions 1 to 4 of an MBR, and those in its extended ones from 5 on.
fn mbr(disk: &dyn Device, primary: &[Entry; 4]) -> Result<Vec<Partition>, IoError> {
    let used = primary.iter().zip(1..).filter(|(entry, _)| entry.is_used());
    let mut found: Vec<Partition> = used.map(|(entry, number)| entry.partition(number, 0)).collect();
    let mut next = 5;
    for extended in primary.iter().filter(|entry| entry.is_extended()) {
        let (mut visited, mut at) = (HashSet::new(), extended.start);
        // Each table holds one partition and leads to the next table, both relative: one to itself, one to the first.
        while visited.len() < MOST && visited.insert(at) {
            let Some(sector) = bytes(disk, at.saturating_mul(SECTOR), SECTOR as usize)? else { break };
            let Some(entries) = entries(&sector) else { break };
            for entry in entries.iter().take(2).filter(|entry| entry.is_used()) {
                found.push(entry.partition(next, at));
                next += 1;
            }
            match entries.iter().take(2).find(|entry| entry.is_extended()) {
                Some(link) => at = extended.start.saturating_add(link.start),
                None => break,
            }
        }
    }
    found.truncate(MOST);
    Ok(found)
}

/// The partitions of a GPT, by its first header, or by the one at the end of the disk if the first is damaged.
fn gpt(disk: &dyn Device, sector: u64) -> Result<Option<Vec<Partition>>, IoError> {
    let sectors = disk.info().blocks.saturating_mul(BLOCK_SIZE as u64) / sector;
    for at in [1, sectors.saturating_sub(1)] {
        if let Some(found) = gpt_of(disk, at, sector)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn gpt_of(disk: &dyn Device, at: u64, sector: u64) -> Result<Option<Vec<Partition>>, IoError> {
    let Some(mut header) = bytes(disk, at.saturating_mul(sector), SECTOR as usize)? else { return Ok(None) };
    let length = number(&header, 12, 4) as usize;
    if header[..8] != *b"EFI PART" || !(92..=header.len()).contains(&length) {
        return Ok(None);
    }
    let sum = number(&header, 16, 4);
    header[16..20].fill(0);
    let (count, size) = (number(&header, 80, 4), number(&header, 84, 4));
    let sound = u64::from(crc32fast::hash(&header[..length])) == sum && number(&header, 24, 8) == at;
    if !sound || !size.is_power_of_two() || !(128..=4096).contains(&size) || count > MOST_BYTES / size {
        return Ok(None);
    }
    let from = number(&header, 72, 8).saturating_mul(sector);
    let Some(table) = bytes(disk, from, (count * size) as usize)? else { return Ok(None) };
    if u64::from(crc32fast::hash(&table)) != number(&header, 88, 4) {
        return Ok(None);
    }
    let used = table.chunks_exact(size as usize).zip(1..).filter(|(entry, _)| entry[..16] != [0; 16]);
    Ok(Some(used.take(MOST).map(|(entry, number)| gpt_entry(entry, number, sector)).collect()))
}

fn gpt_entry(entry: &[u8], count: usize, sector: u64) -> Partition {
    let (first, last) = (number(entry, 32, 8), number(entry, 40, 8));
    // The last sector belongs to it.
    let sectors = last.checked_sub(first).and_then(|sectors| sectors.checked_add(1)).unwrap_or(0);
    let units: Vec<u16> =
        entry[56..128].chunks(2).map(|unit| number(unit, 0, 2) as u16).take_while(|u| *u != 0).collect();
    let label = match String::from_utf16_lossy(&units) {
        name if name.is_empty() => format!("type {}", guid(entry)),
        name => format!("`{name}`"),
    };
    Partition::new(count, (first, sectors), sector, label)
}

/// A GUID as it is written: its first three numbers are little-endian.
fn guid(bytes: &[u8]) -> String {
    let (a, b, c) = (number(bytes, 0, 4), number(bytes, 4, 2), number(bytes, 6, 2));
    let rest: String = bytes[8..16].iter().map(|byte| format!("{byte:02X}")).collect();
    format!("{a:08X}-{b:04X}-{c:04X}-{}-{}", &rest[..4], &rest[4..])
}

#[cfg(test)]
mod tests;
