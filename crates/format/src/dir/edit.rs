//! Changing entries: insert, remove, retarget, and the move from an inline directory to a block.

use super::entries::{RECORD_LEN, SLOT_LEN, SlotRecord};
use super::{Dentries, DentryLayout, FileType, slots_for};
use crate::bitmap::lsb;
use crate::block::Block;
use crate::error::FormatError;
use crate::{Ino, inode};
use zerocopy::IntoBytes;

/// The entries in a dentry block or an inline directory, for changing them.
#[derive(Debug)]
pub struct DentriesMut<'a> {
    layout: DentryLayout,
    bytes: &'a mut [u8],
}

impl<'a> DentriesMut<'a> {
    /// The entries of a dentry block.
    pub fn block(block: &'a mut Block) -> Self {
        Self { layout: DentryLayout::BLOCK, bytes: block }
    }

    /// The entries of an inline directory (`Inode::inline_area_mut`).
    pub fn inline(area: &'a mut [u8]) -> Self {
        Self { layout: DentryLayout::inline(area.len()), bytes: area }
    }

    /// The same entries for reading.
    pub fn read(&self) -> Dentries<'_> {
        Dentries { layout: self.layout, bytes: self.bytes }
    }

    /// Adds an entry in the first room that is large enough, and returns its first slot.
    ///
    /// Whether the name is there already is the caller's to know.
    ///
    /// # Errors
    /// [`FormatError::Length`] for an empty name or one longer than 255 bytes; [`FormatError::NoRoom`] if no run of
    /// free slots is long enough.
    pub fn insert(&mut self, hash: u32, name: &[u8], ino: Ino, file_type: FileType) -> Result<u16, FormatError> {
        if name.is_empty() || name.len() > inode::MAX_NAME {
            return Err(FormatError::Length { what: "name", length: name.len(), min: 1, max: inode::MAX_NAME });
        }
        let need = slots_for(name.len());
        let Some(slot) = self.read().find_room(need) else {
            let free = (0..self.layout.slots()).filter(|&slot| !self.read().is_used(slot)).count();
            return Err(FormatError::NoRoom { structure: "directory block", need, free });
        };
        assert!(usize::from(slot) + need <= usize::from(self.layout.slots()), "the room lies within the slots");
        let names = self.layout.name_at(slot);
        self.bytes[names..names + need * SLOT_LEN].fill(0);
        self.bytes[names..names + name.len()].copy_from_slice(name);
        let first = SlotRecord {
            hash: hash.into(),
            ino: ino.get().into(),
            name_len: (name.len() as u16).into(),
            file_type: file_type.to_disk(),
        };
        self.put_record(slot, &first);
        for rest in 1..need as u16 {
            // Blank, so that no reader takes it for an entry of its own.
            self.put_record(slot + rest, &SlotRecord::default());
        }
        lsb::fill(self.bytes, usize::from(slot), need, true);
        Ok(slot)
    }

    /// Adds the entries that every directory begins with.
    ///
    /// # Errors
    /// As [`DentriesMut::insert`]: if the area has no room.
    pub fn insert_dots(&mut self, ino: Ino, parent: Ino) -> Result<(), FormatError> {
        self.insert(0, b".", ino, FileType::Dir)?;
        self.insert(0, b"..", parent, FileType::Dir)?;
        Ok(())
    }

    /// Removes the entry whose first slot this is; `false` if there is none.
    pub fn remove(&mut self, slot: u16) -> bool {
        let Some(need) = self.read().at(slot).map(|entry| entry.slots()) else {
            return false;
        };
        assert!(need > 0, "an entry takes at least one slot");
        lsb::fill(self.bytes, usize::from(slot), need, false);
        true
    }

    /// Makes the entry whose first slot this is refer to something else; `false` if there is none.
    pub fn set_target(&mut self, slot: u16, ino: Ino, file_type: FileType) -> bool {
        let Some((hash, name_len)) = self.read().at(slot).map(|entry| (entry.hash, entry.name.len())) else {
            return false;
        };
        let record = SlotRecord {
            hash: hash.into(),
            ino: ino.get().into(),
            name_len: (name_len as u16).into(),
            file_type: file_type.to_disk(),
        };
        self.put_record(slot, &record);
        true
    }

    /// Copies slot for slot from a smaller set of entries: an inline directory that becomes a block. Everything here is
    /// lost.
    ///
    /// # Panics
    /// If `from` has more slots.
    pub fn copy_slots(&mut self, from: Dentries<'_>) {
        let slots = from.layout().slots();
        assert!(slots <= self.layout.slots(), "{slots} slots do not fit {}", self.layout.slots());
        self.bytes.fill(0);
        let (records, names) = (usize::from(slots) * RECORD_LEN, usize::from(slots) * SLOT_LEN);
        let pairs = [
            (self.layout.record_at(0), from.layout.record_at(0), records),
            (self.layout.name_at(0), from.layout.name_at(0), names),
        ];
        for (to_at, from_at, length) in pairs {
            self.bytes[to_at..to_at + length].copy_from_slice(&from.bytes[from_at..from_at + length]);
        }
        for slot in 0..slots {
            lsb::put(self.bytes, usize::from(slot), from.is_used(slot));
        }
    }

    fn put_record(&mut self, slot: u16, record: &SlotRecord) {
        let at = self.layout.record_at(slot);
        self.bytes[at..at + RECORD_LEN].copy_from_slice(record.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::zeroed_block;
    use crate::dir::name_hash;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn fields_lie_where_the_format_says() {
        let mut block = zeroed_block();
        let mut entries = DentriesMut::block(&mut block);
        entries.insert_dots(Ino(9), Ino(3)).unwrap();
        entries.insert(0x0102, b"0123456789", Ino(7), FileType::Regular).unwrap();
        assert_eq!(block[0], 0b1111);
        assert_eq!(block[30 + 22..30 + 33], [2, 1, 0, 0, 7, 0, 0, 0, 10, 0, 1]);
        assert_eq!(&block[2384 + 16..2384 + 26], b"0123456789");
        assert_eq!((&block[2384..2385], &block[2384 + 8..2384 + 10]), (&b"."[..], &b".."[..]));
        // The two sizes of an inline directory that the format text gives.
        assert_eq!((DentryLayout::inline(3488).slots(), DentryLayout::inline(3452).slots()), (182, 180));
    }

    /// A writer other than ours may leave anything in the records behind a long name's first.
    #[test]
    fn the_records_behind_a_long_name_are_not_entries() {
        let mut block = zeroed_block();
        DentriesMut::block(&mut block).insert(1, &[b'x'; 30], Ino(7), FileType::Regular).unwrap();
        block.copy_within(30..30 + RECORD_LEN, 30 + RECORD_LEN);
        assert_eq!(Dentries::block(&block).iter().count(), 1);
    }

    proptest! {
        /// Random inserts and removes against a map, in a block and in inline areas of odd sizes.
        #[test]
        fn entries_agree_with_a_map(length in prop::option::of(0usize..3690), steps in prop::collection::vec((any::<bool>(), 0u8..30, 1usize..256), 1..80)) {
            let mut bytes = vec![0; length.unwrap_or(4096)];
            let layout = length.map_or(DentryLayout::BLOCK, DentryLayout::inline);
            let mut entries = DentriesMut { layout, bytes: &mut bytes };
            let mut model: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
            for (number, (insert, key, name_len)) in steps.into_iter().enumerate() {
                let name = vec![key + 1; if insert { name_len } else { 1 + usize::from(key) }];
                if insert && !model.contains_key(&name) {
                    if entries.insert(name_hash(&name), &name, Ino(number as u32), FileType::Regular).is_ok() {
                        model.insert(name, number as u32);
                    } else {
                        prop_assert!(entries.read().find_room(slots_for(name.len())).is_none());
                    }
                } else if let Some((name, _)) = model.pop_first() {
                    let slot = entries.read().find(name_hash(&name), &name).unwrap().slot;
                    prop_assert_eq!(entries.read().is_alone(slot), model.is_empty());
                    prop_assert!(entries.remove(slot) && !entries.remove(slot));
                    prop_assert!(!entries.read().is_alone(slot));
                }
                let found: BTreeMap<_, _> = entries.read().iter().map(|e| e.unwrap()).map(|e| (e.name.to_vec(), e.ino.0)).collect();
                prop_assert_eq!(&found, &model);
            }
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 4096), length in 0usize..3690) {
            let block: &Block = bytes.as_slice().try_into().unwrap();
            for entries in [Dentries::block(block), Dentries::inline(&bytes[..length])] {
                for entry in entries.iter().flatten() {
                    prop_assert!(usize::from(entry.slot) + entry.slots() <= usize::from(entries.layout().slots()));
                    prop_assert_eq!(entries.at(entry.slot), Some(entry));
                }
                let _ = (entries.find(1, b"x"), entries.find_room(3), entries.is_empty());
            }
        }

        #[test]
        fn a_full_inline_directory_moves_slot_for_slot(names in prop::collection::btree_set(prop::collection::vec(1u8.., 1..40), 0..60)) {
            let (mut area, mut block) = (vec![0; 3488], zeroed_block());
            let mut inline = DentriesMut::inline(&mut area);
            for name in &names {
                let _ = inline.insert(name_hash(name), name, Ino(5), FileType::Dir);
            }
            let mut moved = DentriesMut::block(&mut block);
            moved.copy_slots(inline.read());
            let list = |entries: Dentries<'_>| entries.iter().map(|e| e.unwrap()).map(|e| (e.slot, e.hash, e.name.to_vec())).collect::<Vec<_>>();
            prop_assert_eq!(list(moved.read()), list(inline.read()));
            if let Some((slot, hash, name)) = list(moved.read()).pop() {
                prop_assert!(moved.set_target(slot, Ino(77), FileType::Regular));
                let found = moved.read().find(hash, &name).unwrap();
                prop_assert_eq!((found.ino, found.file_type), (Ino(77), Some(FileType::Regular)));
            }
        }
    }
}
