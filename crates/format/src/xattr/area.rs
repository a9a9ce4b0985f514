//! The list of entries: walk, look up, replace, remove.
//!
//! Keeps: entries are packed from the header on, each padded with zeros to 4 bytes, and everything behind the last one
//! is zero. To replace is to remove and to append.

use super::XattrName;
use crate::error::FormatError;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic number of a list.
const MAGIC: u32 = 0xF2F5_2011;
/// Bytes of the list's header: magic, reference count, 16 spare bytes.
const HEADER: usize = 24;
/// Bytes of an entry before its name.
const ENTRY: usize = 4;
const ALIGN: usize = 4;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawEntry {
    index: u8,
    name_len: u8,
    value_size: U16,
}

const _: () = assert!(size_of::<RawEntry>() == ENTRY);

/// An extended attribute in its area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xattr<'a> {
    /// Its name.
    pub name: XattrName<'a>,
    /// Its value as stored; ACLs have a form of their own on the disk ([`super::Acl`]).
    pub value: &'a [u8],
}

/// The attributes in an area, in the order in which they are stored; after an error nothing follows.
pub fn entries(area: &[u8]) -> impl Iterator<Item = Result<Xattr<'_>, FormatError>> {
    Walk { area, at: start(area) }.map(|found| found.map(|(_, xattr)| xattr))
}

/// The value of an attribute.
///
/// # Errors
/// If the list is damaged before the attribute is found.
pub fn get<'a>(area: &'a [u8], name: XattrName<'_>) -> Result<Option<&'a [u8]>, FormatError> {
    for xattr in entries(area) {
        let xattr = xattr?;
        if xattr.name == name {
            return Ok(Some(xattr.value));
        }
    }
    Ok(None)
}

/// Bytes of the area in use, header included; 0 if there are no attributes.
///
/// # Errors
/// If the list is damaged.
pub fn used(area: &[u8]) -> Result<usize, FormatError> {
    let end = end(area)?;
    Ok(if end == HEADER { 0 } else { end })
}

/// Whether the area holds a list without faults and nothing behind it, or nothing at all.
pub fn is_whole(area: &[u8]) -> bool {
    let end = if start(area).is_some() { end(area) } else { Ok(0) };
    end.is_ok_and(|end| area[end..].iter().all(|byte| *byte == 0))
}

/// Adds an attribute, or replaces its value: of every entry of that name, should a damaged list have several. Nothing
/// has changed after an error.
///
/// # Errors
/// [`FormatError::NoRoom`] if the area is too small; [`FormatError::Length`] for a name over 255 or a value over 65,535
/// bytes; or the list is damaged.
pub fn set(area: &mut [u8], name: XattrName<'_>, value: &[u8]) -> Result<(), FormatError> {
    let Ok(name_len) = u8::try_from(name.rest.len()) else {
        return Err(FormatError::Length { what: "xattr name", length: name.rest.len(), min: 0, max: 255 });
    };
    let Ok(value_size) = u16::try_from(value.len()) else {
        return Err(FormatError::Length { what: "xattr value", length: value.len(), min: 0, max: 65_535 });
    };
    let old = find(area, name)?.map_or(0, |(from, to)| to - from);
    let (size, end) = (padded(name.rest.len(), value.len()), end(area)?);
    let free = (area.len() + old).saturating_sub(end);
    if size > free {
        return Err(FormatError::NoRoom { structure: "xattr area", need: size, free });
    }
    remove(area, name)?;
    let at = self::end(area)?;
    assert!(at + size <= area.len(), "the entry fits: its room was counted");
    if start(area).is_none() {
        area[..HEADER].fill(0);
        area[..4].copy_from_slice(&MAGIC.to_le_bytes());
        area[4..8].copy_from_slice(&1u32.to_le_bytes());
    }
    // Zeros to the end: what a damaged or foreign writer left behind the list must not be taken for entries.
    area[at..].fill(0);
    let raw = RawEntry { index: name.index, name_len, value_size: value_size.into() };
    area[at..at + ENTRY].copy_from_slice(raw.as_bytes());
    let name_at = at + ENTRY;
    area[name_at..name_at + name.rest.len()].copy_from_slice(name.rest);
    let value_at = name_at + name.rest.len();
    area[value_at..value_at + value.len()].copy_from_slice(value);
    Ok(())
}

/// Removes an attribute, and every other entry of that name; `false` if it is not there. A list without entries keeps
/// its header.
///
/// # Errors
/// If the list is damaged.
pub fn remove(area: &mut [u8], name: XattrName<'_>) -> Result<bool, FormatError> {
    let mut end = end(area)?;
    let mut removed = false;
    while let Some((from, to)) = find(area, name)? {
        assert!(from < to && to <= end, "the entry lies in the list");
        area.copy_within(to..end, from);
        end -= to - from;
        area[end..].fill(0);
        removed = true;
    }
    Ok(removed)
}

/// Where the first entry of a list would be; `None` if the area has no list.
fn start(area: &[u8]) -> Option<usize> {
    let (magic, _) = U32::read_from_prefix(area).ok()?;
    (magic.get() == MAGIC && area.len() >= HEADER).then_some(HEADER)
}

/// Where the next entry would be appended.
fn end(area: &[u8]) -> Result<usize, FormatError> {
    Walk { area, at: start(area) }.try_fold(HEADER, |_, found| found.map(|((_, to), _)| to))
}

/// First byte and end of an attribute's entry.
fn find(area: &[u8], name: XattrName<'_>) -> Result<Option<(usize, usize)>, FormatError> {
    for found in (Walk { area, at: start(area) }) {
        let (place, xattr) = found?;
        if xattr.name == name {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

fn padded(name_len: usize, value_len: usize) -> usize {
    (ENTRY + name_len + value_len).next_multiple_of(ALIGN)
}

/// A walk over the entries with their places.
struct Walk<'a> {
    area: &'a [u8],
    /// Where the next entry begins; `None` once the walk is over.
    at: Option<usize>,
}

impl<'a> Iterator for Walk<'a> {
    type Item = Result<((usize, usize), Xattr<'a>), FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let from = self.at.take()?;
        // The list ends with a zero word or, if it fills the area, with the area.
        let (raw, _) = RawEntry::read_from_prefix(self.area.get(from..)?).ok()?;
        if raw.as_bytes() == [0; ENTRY] {
            return None;
        }
        let (name_len, value_len) = (usize::from(raw.name_len), usize::from(raw.value_size.get()));
        let to = from + padded(name_len, value_len);
        let Some(bytes) = self.area.get(from + ENTRY..to) else {
            let rule = "ends within the area";
            return Some(Err(FormatError::field("xattr entry", "value_size", raw.value_size.get(), rule)));
        };
        self.at = Some(to);
        let (name, rest) = bytes.split_at(name_len);
        let name = XattrName { index: raw.index, rest: name };
        Some(Ok(((from, to), Xattr { name, value: &rest[..value_len] })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn user(rest: &[u8]) -> XattrName<'_> {
        XattrName { index: 1, rest }
    }

    #[test]
    fn fields_lie_where_the_format_says() {
        let mut area = vec![0; 64];
        set(&mut area, user(b"ab"), b"xyz").unwrap();
        assert_eq!(area[..8], [0x11, 0x20, 0xf5, 0xf2, 1, 0, 0, 0]);
        assert_eq!(area[24..36], [1, 2, 3, 0, b'a', b'b', b'x', b'y', b'z', 0, 0, 0]);
        assert_eq!(used(&area), Ok(36));
        assert_eq!(remove(&mut area, user(b"ab")), Ok(true));
        assert_eq!((used(&area), remove(&mut area, user(b"ab"))), (Ok(0), Ok(false)));
        assert!(area[24..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn an_area_is_whole_or_not() {
        let mut area = vec![0; 100];
        assert!(is_whole(&area) && is_whole(&[]));
        set(&mut area, user(b"ab"), b"xyz").unwrap();
        assert!(is_whole(&area));
        area[99] = 1;
        assert!(!is_whole(&area), "something lies behind the list");
        area[99] = 0;
        assert!(!is_whole(&area[..32]), "the list is cut short");
        remove(&mut area, user(b"ab")).unwrap();
        assert!(is_whole(&area), "an empty list is a list");
        area[0] = 0;
        assert!(!is_whole(&area), "no list, but bytes");
    }

    #[test]
    fn bytes_left_behind_the_list_do_not_become_entries() {
        let mut area = vec![0; 100];
        set(&mut area, user(b"a"), b"1").unwrap();
        area[40..].fill(7);
        set(&mut area, user(b"b"), b"2").unwrap();
        assert_eq!((entries(&area).count(), used(&area)), (2, Ok(40)));
        assert!(area[40..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_name_that_is_there_twice_is_replaced_and_removed_twice() {
        let twice = || {
            let mut area = vec![0; 100];
            set(&mut area, user(b"a"), b"1").unwrap();
            set(&mut area, user(b"b"), b"2").unwrap();
            set(&mut area, user(b"c"), b"3").unwrap();
            let name = area.iter().position(|byte| *byte == b'c').unwrap();
            area[name] = b'a';
            area
        };
        let mut area = twice();
        set(&mut area, user(b"a"), b"new").unwrap();
        assert_eq!((get(&area, user(b"a")), entries(&area).count()), (Ok(Some(&b"new"[..])), 2));
        let mut area = twice();
        assert_eq!(remove(&mut area, user(b"a")), Ok(true));
        assert_eq!((get(&area, user(b"a")), entries(&area).count()), (Ok(None), 1));
    }

    #[test]
    fn an_area_can_be_filled_to_its_last_byte_and_not_beyond() {
        let mut area = vec![0; 24 + 4 + 1 + 7];
        assert!(matches!(set(&mut area, user(b"a"), &[1; 8]), Err(FormatError::NoRoom { need: 16, free: 12, .. })));
        assert!(area.iter().all(|&byte| byte == 0));
        set(&mut area, user(b"a"), &[1; 7]).unwrap();
        assert_eq!(used(&area), Ok(36));
        // A replacement may use the room of what it replaces; one that fails leaves the old value.
        set(&mut area, user(b"a"), &[2; 7]).unwrap();
        assert!(set(&mut area, user(b"a"), &[3; 8]).is_err());
        assert_eq!(get(&area, user(b"a")), Ok(Some(&[2; 7][..])));
        assert!(set(&mut [0; 8], user(b"a"), b"").is_err());
        assert!(set(&mut [], user(b"a"), b"").is_err());
    }

    proptest! {
        #[test]
        fn a_list_agrees_with_a_model(length in 0usize..600, steps in prop::collection::vec((any::<bool>(), 1u8..12, prop::collection::vec(any::<u8>(), 0..60)), 1..60)) {
            let mut area = vec![0; length];
            // In the order in which the entries must be stored.
            let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            for (put, key, value) in steps {
                let name = vec![key; usize::from(key)];
                if put {
                    if set(&mut area, user(&name), &value).is_ok() {
                        model.retain(|(known, _)| *known != name);
                        model.push((name, value));
                    }
                } else {
                    let known = model.iter().position(|(known, _)| *known == name);
                    prop_assert_eq!(remove(&mut area, user(&name)), Ok(known.is_some()));
                    known.map(|at| model.remove(at));
                }
                let found: Vec<_> = entries(&area).map(|x| x.unwrap()).map(|x| (x.name.rest.to_vec(), x.value.to_vec())).collect();
                prop_assert_eq!(&found, &model);
                let end = used(&area).unwrap();
                prop_assert!(area[end.max(24).min(length)..].iter().all(|&byte| byte == 0));
            }
        }

        #[test]
        fn any_bytes_are_read_without_harm(mut area in prop::collection::vec(any::<u8>(), 0..300), magic: bool, key in prop::collection::vec(any::<u8>(), 0..4)) {
            if magic && area.len() >= 4 {
                area[..4].copy_from_slice(&MAGIC.to_le_bytes());
            }
            let _ = (entries(&area).count(), get(&area, user(&key)).is_ok(), used(&area).is_ok());
            let before = area.clone();
            if set(&mut area, user(&key), b"value").is_err() {
                prop_assert_eq!(&area, &before);
            }
            let _ = remove(&mut area, user(&key));
        }
    }
}
