//! The area of extended attributes. Input: one byte of choices, a name and a value to set, then the area.

use super::BLOCK_MEMORY;
use crate::Target;
use crate::input::Input;
use steadyfs_format::xattr::{self, Acl, XattrName, index};

/// The target.
pub const TARGET: Target = Target { name: "xattr", run, seeds, volume: false, memory: 2 * BLOCK_MEMORY };

/// Choice: make the magic right.
const REPAIR: u8 = 1;
const MAGIC: u32 = 0xF2F5_2011;

fn seeds() -> Vec<Vec<u8>> {
    let mut area = vec![0; 200 + 4072];
    let names = [(index::USER, &b"colour"[..]), (index::SECURITY, b"capability"), (index::POSIX_ACL_ACCESS, b"")];
    for (index, rest) in names {
        xattr::set(&mut area, XattrName { index, rest }, &[7; 300]).expect("there is room");
    }
    let prefix = [REPAIR, 1, 3, 20, 0];
    let seed = |length: usize| [&prefix[..], b"abc", &[9; 20], &area[..length]].concat();
    vec![seed(200), seed(1100), seed(area.len())]
}

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    // No prefix has the number 0: an entry that begins with it may look like the end of the list.
    let (choices, index) = (input.u8(), input.u8().max(1));
    let (name_len, value_len) = (usize::from(input.u8()), usize::from(input.u16()));
    let (rest, value) = (input.take(name_len), input.take(value_len));
    let mut area = input.rest().to_vec();
    if choices & REPAIR != 0 && area.len() >= 4 {
        area[..4].copy_from_slice(&MAGIC.to_le_bytes());
    }
    let name = XattrName { index, rest };
    read(&area);
    let before = area.clone();
    let sound = xattr::used(&area).is_ok();
    match xattr::set(&mut area, name, value) {
        Ok(()) => assert_eq!(xattr::get(&area, name), Ok(Some(value))),
        Err(_) => assert!(area == before, "a refused change changes nothing"),
    }
    read(&area);
    if let Ok(found) = xattr::remove(&mut area, name) {
        assert!(sound && (found || xattr::get(&before, name) == Ok(None)));
        assert!(xattr::used(&area).is_ok());
    }
    read(&area);
}

/// Everything that a reader of attributes does.
fn read(area: &[u8]) {
    for found in xattr::entries(area).flatten() {
        let inside = area.as_ptr_range();
        assert!(found.value.is_empty() || inside.contains(&found.value.as_ptr()));
        if let Some(full) = found.name.full() {
            let parsed = XattrName::parse(&full);
            assert!(parsed.is_none_or(|parsed| parsed.index == found.name.index));
        }
        let _ = Acl::from_disk(found.value);
    }
    assert!(xattr::used(area).is_ok_and(|used| used <= area.len().max(24)) || xattr::used(area).is_err());
}
