//! Directory entries: a dentry block and an inline directory over the same bytes. Input: a slot, an inode number, a
//! name to look for, insert and remove, then the bytes.

use super::BLOCK_MEMORY;
use crate::Target;
use crate::input::Input;
use steadyfs_format::dir::{
    Dentries, DentriesMut, DentryLayout, FileType, bucket_of, bucket_of_page, is_valid_name, name_hash, slots_for,
};
use steadyfs_format::{BLOCK_SIZE, Ino, PageIndex, zeroed_block};

/// The target.
pub const TARGET: Target = Target { name: "dentries", run, seeds, volume: false, memory: BLOCK_MEMORY };

fn seeds() -> Vec<Vec<u8>> {
    let mut block = zeroed_block();
    let mut entries = DentriesMut::block(&mut block);
    entries.insert_dots(Ino(3), Ino(3)).expect("the block is empty");
    for number in 0..60u8 {
        let name = vec![b'a' + number % 26; usize::from(number) + 1];
        if entries.insert(name_hash(&name), &name, Ino(u32::from(number) + 4), FileType::Regular).is_err() {
            break;
        }
    }
    let name = [b'd'; 4];
    vec![[&[2, 0, 9, 0, 0, 0, 4][..], &name, &block].concat()]
}

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (slot, ino) = (input.u16(), Ino(input.u32()));
    let name_len = usize::from(input.u8());
    let name = input.take(name_len);
    let area = input.rest();
    let area = &area[..area.len().min(BLOCK_SIZE)];
    let mut block = Input::new(area).block();
    // The largest area that an inode has.
    let inline = &area[..area.len().min(4 * 922)];
    read(Dentries::block(&block), slot, name);
    read(Dentries::inline(inline), slot, name);
    let mut copy = inline.to_vec();
    let mut grown = zeroed_block();
    DentriesMut::block(&mut grown).copy_slots(Dentries::inline(&copy));
    read(Dentries::block(&grown), slot, name);
    change(DentriesMut::inline(&mut copy), slot, ino, name);
    change(DentriesMut::block(&mut block), slot, ino, name);
}

/// Everything that a reader of a directory does.
pub(crate) fn read(entries: Dentries<'_>, slot: u16, name: &[u8]) {
    let slots = usize::from(entries.layout().slots());
    let mut last = None;
    for entry in entries.iter().flatten() {
        assert!(last.is_none_or(|last| entry.slot > last), "a walk goes forward");
        last = Some(entry.slot);
        assert!(!entry.name.is_empty() && usize::from(entry.slot) + entry.slots() <= slots);
        assert_eq!(entries.at(entry.slot), Some(entry));
        let _ = (is_valid_name(entry.name), entry.is_dot(), entry.file_type);
        let level = entry.hash as u8 % 63;
        let bucket = bucket_of(entry.hash, level, entry.ino.get() as u8);
        assert_eq!(bucket_of_page(bucket.first, entry.ino.get() as u8), Some(bucket));
    }
    let _ = bucket_of_page(PageIndex(u64::from(slot)), name.len() as u8);
    let _ = (entries.at(slot), entries.is_used(slot), entries.is_empty(), entries.is_alone(slot));
    let _ = entries.find(name_hash(name), name);
    for count in [1, slots_for(name.len()), 32, slots] {
        assert!(entries.find_room(count).is_none_or(|at| usize::from(at) + count <= slots));
    }
    assert!(entries.layout().length() <= BLOCK_SIZE && entries.layout().slots() <= DentryLayout::BLOCK.slots());
}

/// Everything that a writer of a directory does.
fn change(mut entries: DentriesMut<'_>, slot: u16, ino: Ino, name: &[u8]) {
    if let Ok(at) = entries.insert(name_hash(name), name, ino, FileType::Regular) {
        let entry = entries.read().at(at).expect("just inserted");
        assert!(entry.name == name && entry.ino == ino);
    }
    if entries.set_target(slot, ino, FileType::Dir) {
        assert!(entries.read().at(slot).is_some_and(|entry| entry.ino == ino));
    }
    if entries.remove(slot) {
        assert!(entries.read().at(slot).is_none());
    }
    let first = |entries: Dentries<'_>| entries.iter().flatten().map(|entry| entry.slot).next();
    while let Some(slot) = first(entries.read()) {
        assert!(entries.remove(slot), "what a walk shows can be removed");
    }
    let _ = entries.insert_dots(ino, ino);
    read(entries.read(), slot, name);
}
