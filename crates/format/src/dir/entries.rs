//! Reading entries: dentry blocks and inline directories differ only in the number of slots and where the parts begin.
//!
//! A name takes as many consecutive 8-byte slots as it needs. The record of the first slot describes it; the others'
//! are blank. All reads stay in bounds whatever the bytes are: a malformed record is reported as such and skipped.

use super::FileType;
use crate::bitmap::lsb;
use crate::block::{BLOCK_SIZE, Block};
use crate::error::FormatError;
use crate::{Ino, inode};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Slots of a dentry block.
pub const BLOCK_SLOTS: u16 = 214;
/// Bytes of a name slot.
pub(super) const SLOT_LEN: usize = 8;
/// Bytes of an entry record.
pub(super) const RECORD_LEN: usize = 11;

/// Slots that a name of this length takes.
pub const fn slots_for(name_len: usize) -> usize {
    name_len.div_ceil(SLOT_LEN)
}

/// The bytes of an entry record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct SlotRecord {
    pub(super) hash: U32,
    pub(super) ino: U32,
    pub(super) name_len: U16,
    pub(super) file_type: u8,
}

const _: () = assert!(size_of::<SlotRecord>() == RECORD_LEN);
/// Where a record says how long the name is.
const NAME_LEN_AT: usize = std::mem::offset_of!(SlotRecord, name_len);

/// Where bitmap, records and names of a set of entries lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DentryLayout {
    slots: u16,
    records_at: usize,
    names_at: usize,
    length: usize,
}

impl DentryLayout {
    /// A dentry block.
    pub const BLOCK: Self = Self { slots: BLOCK_SLOTS, records_at: 30, names_at: 2384, length: BLOCK_SIZE };

    /// An inline directory in an area of this many bytes (`InodeShape::inline_len`).
    pub const fn inline(length: usize) -> Self {
        // Per slot one bit, a record and a name slot: 153 bits. Records and names end with the area, padding follows
        // the bitmap.
        let slots = 8 * length / (8 * (SLOT_LEN + RECORD_LEN) + 1);
        let names_at = length - slots * SLOT_LEN;
        Self { slots: slots as u16, records_at: names_at - slots * RECORD_LEN, names_at, length }
    }

    /// Slots for names.
    pub const fn slots(self) -> u16 {
        self.slots
    }

    /// Bytes of the whole area.
    pub const fn length(self) -> usize {
        self.length
    }

    pub(super) fn record_at(self, slot: u16) -> usize {
        self.records_at + usize::from(slot) * RECORD_LEN
    }

    pub(super) fn name_at(self, slot: u16) -> usize {
        self.names_at + usize::from(slot) * SLOT_LEN
    }
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// First slot.
    pub slot: u16,
    /// Stored hash of the name.
    pub hash: u32,
    /// What the name refers to.
    pub ino: Ino,
    /// Its kind; `None` for a byte that names none.
    pub file_type: Option<FileType>,
    /// The name: 1 to 255 bytes of any kind (see [`super::is_valid_name`]).
    pub name: &'a [u8],
}

impl DirEntry<'_> {
    /// Whether this is `.` or `..`.
    pub fn is_dot(&self) -> bool {
        self.name == b"." || self.name == b".."
    }

    /// Slots that the entry takes.
    pub fn slots(&self) -> usize {
        slots_for(self.name.len())
    }
}

/// The entries in a dentry block or an inline directory.
#[derive(Clone, Copy, Debug)]
pub struct Dentries<'a> {
    pub(super) layout: DentryLayout,
    pub(super) bytes: &'a [u8],
}

impl<'a> Dentries<'a> {
    /// The entries of a dentry block.
    pub fn block(block: &'a Block) -> Self {
        Self { layout: DentryLayout::BLOCK, bytes: block }
    }

    /// The entries of an inline directory (`Inode::inline_area`).
    pub fn inline(area: &'a [u8]) -> Self {
        Self { layout: DentryLayout::inline(area.len()), bytes: area }
    }

    /// How the area is divided.
    pub fn layout(&self) -> DentryLayout {
        self.layout
    }

    /// Whether a slot is taken.
    pub fn is_used(&self, slot: u16) -> bool {
        slot < self.layout.slots && lsb::get(self.bytes, usize::from(slot))
    }

    /// Every entry in slot order. A taken slot whose record is malformed gives an error once, and the walk goes on
    /// behind it.
    pub fn iter(&self) -> impl Iterator<Item = Result<DirEntry<'a>, FormatError>> + use<'a> {
        let (entries, mut slot) = (*self, 0);
        std::iter::from_fn(move || {
            while slot < entries.layout.slots {
                let at = slot;
                slot += 1;
                if !entries.is_used(at) {
                    continue;
                }
                match entries.parse(at) {
                    // A blank record: the rest of a name whose first slot was lost, or of one that is blank itself.
                    Ok(entry) if entry.name.is_empty() => continue,
                    Ok(entry) => {
                        slot = at + entry.slots() as u16;
                        return Some(Ok(entry));
                    }
                    Err(error) => return Some(Err(error)),
                }
            }
            None
        })
    }

    /// The entry whose first slot this is, if it is taken and sound.
    pub fn at(&self, slot: u16) -> Option<DirEntry<'a>> {
        let used = self.is_used(slot);
        used.then(|| self.parse(slot).ok()).flatten().filter(|entry| !entry.name.is_empty())
    }

    /// The entry with this name; malformed records are passed over.
    pub fn find(&self, hash: u32, name: &[u8]) -> Option<DirEntry<'a>> {
        self.with_hash(hash).find(|entry| entry.name == name)
    }

    /// The entries whose names have this hash; malformed records are passed over.
    pub fn with_hash(&self, hash: u32) -> impl Iterator<Item = DirEntry<'a>> + use<'a> {
        // Most blocks that a lookup visits do not hold the name: passing over them is what makes large directories
        // fast.
        let records = &self.bytes[self.layout.records_at..self.layout.names_at];
        let hash_bytes = hash.to_le_bytes();
        let may = records.chunks_exact(RECORD_LEN).any(|record| record[..4] == hash_bytes);
        let (entries, mut slot) = (*self, if may { 0 } else { self.layout.slots });
        std::iter::from_fn(move || {
            while slot < entries.layout.slots {
                let at = lsb::find(entries.bytes, slot.into(), entries.layout.slots.into(), true)? as u16;
                slot = at + entries.step(at);
                if entries.bytes[entries.layout.record_at(at)..][..4] != hash_bytes {
                    continue;
                }
                if let Ok(entry) = entries.parse(at)
                    && !entry.name.is_empty()
                {
                    return Some(entry);
                }
            }
            None
        })
    }

    /// The first run of `count` free slots.
    pub fn find_room(&self, count: usize) -> Option<u16> {
        let end = usize::from(self.layout.slots);
        let mut from = 0;
        loop {
            let free = lsb::find(self.bytes, from, end, false)?;
            let taken = lsb::find(self.bytes, free, end, true).unwrap_or(end);
            if taken - free >= count {
                return Some(free as u16);
            }
            from = taken;
        }
    }

    /// Slots in the longest run of free ones.
    pub fn longest_room(&self) -> usize {
        let end = usize::from(self.layout.slots);
        let (mut from, mut longest) = (0, 0);
        while let Some(free) = lsb::find(self.bytes, from, end, false) {
            from = lsb::find(self.bytes, free, end, true).unwrap_or(end);
            longest = longest.max(from - free);
        }
        longest
    }

    /// Whether nothing but the dot entries is here. Malformed records count as entries.
    pub fn is_empty(&self) -> bool {
        self.iter().all(|entry| entry.is_ok_and(|entry| entry.is_dot()))
    }

    /// Whether the entry whose first slot this is takes all the slots that are taken, so that the block may go with it.
    pub fn is_alone(&self, slot: u16) -> bool {
        let end = usize::from(self.layout.slots);
        let alone = |entry: DirEntry<'_>| {
            let behind = usize::from(slot) + entry.slots();
            lsb::find(self.bytes, 0, usize::from(slot), true).is_none()
                && lsb::find(self.bytes, behind, end, true).is_none()
        };
        self.at(slot).is_some_and(alone)
    }

    fn record(&self, slot: u16) -> SlotRecord {
        let at = self.layout.record_at(slot);
        SlotRecord::read_from_bytes(&self.bytes[at..at + RECORD_LEN]).unwrap_or_default()
    }

    /// From a taken slot, how far it is to where the next entry may begin: as [`Dentries::iter`] goes.
    fn step(&self, slot: u16) -> u16 {
        let at = self.layout.record_at(slot) + NAME_LEN_AT;
        let length = usize::from(u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]));
        let fits = length <= inode::MAX_NAME && usize::from(slot) + slots_for(length) <= usize::from(self.layout.slots);
        if length > 0 && fits { slots_for(length) as u16 } else { 1 }
    }

    fn parse(&self, slot: u16) -> Result<DirEntry<'a>, FormatError> {
        let record = self.record(slot);
        let length = usize::from(record.name_len.get());
        let fits = length <= inode::MAX_NAME && usize::from(slot) + slots_for(length) <= usize::from(self.layout.slots);
        if !fits {
            let rule = "is at most 255 and ends within the block";
            return Err(FormatError::field("directory entry", "name_len", record.name_len.get(), rule));
        }
        let at = self.layout.name_at(slot);
        Ok(DirEntry {
            slot,
            hash: record.hash.get(),
            ino: Ino(record.ino.get()),
            file_type: FileType::from_disk(record.file_type),
            name: &self.bytes[at..at + length],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::zeroed_block;
    use proptest::prelude::*;

    fn record() -> impl Strategy<Value = (u32, u16)> {
        (0..3u32, prop_oneof![0..30u16, 250..260u16, Just(u16::MAX)])
    }

    proptest! {
        /// Whatever the bytes are: the entries of a hash are those that the walk over all of them finds.
        #[test]
        fn entries_of_a_hash_are_those_of_the_walk(
            taken in prop::collection::vec(any::<u8>(), 27),
            records in prop::collection::vec(record(), usize::from(BLOCK_SLOTS)),
            hash in 0..3u32,
        ) {
            let mut block = zeroed_block();
            block[..27].copy_from_slice(&taken);
            for (slot, (hash, name_len)) in (0..).zip(records) {
                let record = SlotRecord { hash: hash.into(), name_len: name_len.into(), ..SlotRecord::default() };
                let at = DentryLayout::BLOCK.record_at(slot);
                block[at..at + RECORD_LEN].copy_from_slice(record.as_bytes());
            }
            let entries = Dentries::block(&block);
            let walked: Vec<_> = entries.iter().flatten().filter(|entry| entry.hash == hash).collect();
            prop_assert_eq!(entries.with_hash(hash).collect::<Vec<_>>(), walked);
        }
    }
}
