//! POSIX access control lists: the disk's form, the system calls' form, and what a list means for a mode.
//!
//! On the disk entries without an id are short; in system calls all are long and the version is another. A list is
//! accepted from either side only if it is one that POSIX allows, so what is stored can always be read back.

use crate::error::FormatError;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum AclTag {
    /// The owner.
    UserObj = 0x01,
    /// A user by id.
    User = 0x02,
    /// The owning group.
    GroupObj = 0x04,
    /// A group by id.
    Group = 0x08,
    /// The most that group-class entries give.
    Mask = 0x10,
    /// Everybody else.
    Other = 0x20,
}

impl AclTag {
    const ALL: [Self; 6] = [Self::UserObj, Self::User, Self::GroupObj, Self::Group, Self::Mask, Self::Other];

    fn has_id(self) -> bool {
        matches!(self, Self::User | Self::Group)
    }
}

/// One entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// Whom it is about.
    pub tag: AclTag,
    /// Read 4, write 2, execute 1.
    pub perm: u16,
    /// The user or group of a [`AclTag::User`] or [`AclTag::Group`]; 2^32 - 1 otherwise.
    pub id: u32,
}

const DISK_VERSION: u32 = 1;
const CALL_VERSION: u32 = 2;
const NO_ID: u32 = u32::MAX;
const ACL: &str = "ACL";

/// A list that POSIX allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<AclEntry>);

impl Acl {
    /// A list of these entries.
    ///
    /// # Errors
    /// If POSIX does not allow it: owner, owning group and others exactly once, in the order of the tags, a mask if
    /// users or groups are named, no permission beyond 7.
    pub fn new(entries: Vec<AclEntry>) -> Result<Self, FormatError> {
        let count = |tag| entries.iter().filter(|entry| entry.tag == tag).count();
        let bad = |field, value: usize, rule| Err(FormatError::field(ACL, field, value as u64, rule));
        for tag in [AclTag::UserObj, AclTag::GroupObj, AclTag::Other] {
            if count(tag) != 1 {
                return bad("entries of one tag", count(tag), "is 1 for owner, group and others");
            }
        }
        let named = count(AclTag::User) + count(AclTag::Group);
        if count(AclTag::Mask) > 1 || named > 0 && count(AclTag::Mask) == 0 {
            return bad("masks", count(AclTag::Mask), "is 1 if users or groups are named, else 0 or 1");
        }
        if let Some(entry) = entries.iter().find(|entry| entry.perm > 7) {
            return bad("permissions", usize::from(entry.perm), "are at most 7");
        }
        if let Some(entry) = entries.iter().find(|entry| entry.tag.has_id() == (entry.id == NO_ID)) {
            return bad("id", entry.id as usize, "is given for named users and groups only");
        }
        if !entries.is_sorted_by_key(|entry| entry.tag) {
            return bad("entries", entries.len(), "are in the order of their tags");
        }
        Ok(Self(entries))
    }

    /// The entries.
    pub fn entries(&self) -> &[AclEntry] {
        &self.0
    }

    /// Reads a stored value.
    ///
    /// # Errors
    /// If it is no list, or one that POSIX does not allow.
    pub fn from_disk(value: &[u8]) -> Result<Self, FormatError> {
        let mut rest = expect_version(value, DISK_VERSION)?;
        let mut entries = Vec::new();
        while !rest.is_empty() {
            let (tag, perm) = take_head(&mut rest)?;
            let id = if tag.has_id() { u32::from_le_bytes(take(&mut rest)?) } else { NO_ID };
            entries.push(AclEntry { tag, perm, id });
        }
        Self::new(entries)
    }

    /// The value to store.
    pub fn to_disk(&self) -> Vec<u8> {
        let mut value = DISK_VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            value.extend((entry.tag as u16).to_le_bytes());
            value.extend(entry.perm.to_le_bytes());
            if entry.tag.has_id() {
                value.extend(entry.id.to_le_bytes());
            }
        }
        value
    }

    /// Reads a value as setxattr(2) gets it.
    ///
    /// # Errors
    /// If it is no list, or one that POSIX does not allow.
    pub fn from_call(value: &[u8]) -> Result<Self, FormatError> {
        let mut rest = expect_version(value, CALL_VERSION)?;
        let mut entries = Vec::new();
        while !rest.is_empty() {
            let (tag, perm) = take_head(&mut rest)?;
            let id = u32::from_le_bytes(take(&mut rest)?);
            // Callers may leave anything in the id of an entry that has none.
            entries.push(AclEntry { tag, perm, id: if tag.has_id() { id } else { NO_ID } });
        }
        Self::new(entries)
    }

    /// The value as getxattr(2) returns it.
    pub fn to_call(&self) -> Vec<u8> {
        let mut value = CALL_VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            value.extend((entry.tag as u16).to_le_bytes());
            value.extend(entry.perm.to_le_bytes());
            value.extend(entry.id.to_le_bytes());
        }
        value
    }

    /// The permission bits that stat(2) shows for a file with this list.
    pub fn mode(&self) -> u16 {
        let perm = |tag| self.0.iter().find(|entry| entry.tag == tag).map(|entry| entry.perm);
        let group = perm(AclTag::Mask).or(perm(AclTag::GroupObj));
        perm(AclTag::UserObj).unwrap_or(0) << 6 | group.unwrap_or(0) << 3 | perm(AclTag::Other).unwrap_or(0)
    }

    /// Whether the list says no more than a mode does, so that it need not be stored.
    pub fn is_mode_only(&self) -> bool {
        self.0.len() == 3
    }

    /// What chmod(2) does: owner and others get their bits, the mask (or, without one, the group) gets the group's.
    pub fn set_mode(&mut self, mode: u16) {
        let has_mask = self.0.iter().any(|entry| entry.tag == AclTag::Mask);
        for entry in &mut self.0 {
            match entry.tag {
                AclTag::UserObj => entry.perm = mode >> 6 & 7,
                AclTag::Mask => entry.perm = mode >> 3 & 7,
                AclTag::GroupObj if !has_mask => entry.perm = mode >> 3 & 7,
                AclTag::Other => entry.perm = mode & 7,
                AclTag::GroupObj | AclTag::User | AclTag::Group => {}
            }
        }
    }

    /// What a new file takes from its directory's default list: the list, and the permission bits left of those asked
    /// for.
    pub fn inherit(&self, mode: u16) -> (Self, u16) {
        let left = mode & 0o777 & self.mode();
        let mut list = self.clone();
        list.set_mode(left);
        (list, mode & !0o777 | left)
    }
}

fn expect_version(value: &[u8], version: u32) -> Result<&[u8], FormatError> {
    let mut rest = value;
    let found = u32::from_le_bytes(take(&mut rest)?);
    if found == version {
        Ok(rest)
    } else {
        Err(FormatError::field(ACL, "version", found, "is 1 on the disk, 2 in calls"))
    }
}

fn take_head(rest: &mut &[u8]) -> Result<(AclTag, u16), FormatError> {
    let (tag, perm) = (u16::from_le_bytes(take(rest)?), u16::from_le_bytes(take(rest)?));
    match AclTag::ALL.into_iter().find(|known| *known as u16 == tag) {
        Some(tag) => Ok((tag, perm)),
        None => Err(FormatError::field(ACL, "tag", tag, "is one that POSIX defines")),
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], FormatError> {
    match rest.split_first_chunk() {
        Some((bytes, tail)) => {
            *rest = tail;
            Ok(*bytes)
        }
        None => Err(FormatError::field(ACL, "bytes left", rest.len() as u64, "is that of whole entries")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(tag: AclTag, perm: u16, id: u32) -> AclEntry {
        AclEntry { tag, perm, id }
    }

    fn sample() -> Acl {
        let entries = vec![
            entry(AclTag::UserObj, 7, NO_ID),
            entry(AclTag::User, 5, 1000),
            entry(AclTag::GroupObj, 4, NO_ID),
            entry(AclTag::Mask, 6, NO_ID),
            entry(AclTag::Other, 1, NO_ID),
        ];
        Acl::new(entries).unwrap()
    }

    #[test]
    fn both_forms_byte_for_byte() {
        let disk = [1, 0, 0, 0, 1, 0, 7, 0, 2, 0, 5, 0, 0xe8, 3, 0, 0, 4, 0, 4, 0, 0x10, 0, 6, 0, 0x20, 0, 1, 0];
        assert_eq!(sample().to_disk(), disk);
        let call = sample().to_call();
        assert_eq!((call.len(), &call[..12]), (4 + 5 * 8, &[2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255][..]));
        assert_eq!((Acl::from_disk(&disk), Acl::from_call(&call)), (Ok(sample()), Ok(sample())));
    }

    #[test]
    fn lists_that_posix_does_not_allow_are_refused() {
        let without = |tag| Acl::new(sample().0.into_iter().filter(|entry| entry.tag != tag).collect());
        for tag in [AclTag::UserObj, AclTag::GroupObj, AclTag::Other, AclTag::Mask] {
            assert!(without(tag).is_err(), "{tag:?}");
        }
        assert!(without(AclTag::User).is_ok());
        let mut entries = sample().0;
        entries.swap(0, 1);
        assert!(Acl::new(entries).is_err());
        let mut entries = sample().0;
        entries[0].perm = 8;
        assert!(Acl::new(entries).is_err());
        assert!(Acl::from_disk(&sample().to_call()).is_err() && Acl::from_disk(b"").is_err());
    }

    #[test]
    fn modes_and_inheritance() {
        let mut acl = sample();
        assert_eq!((acl.mode(), acl.is_mode_only()), (0o761, false));
        let (child, mode) = acl.inherit(0o100_666);
        assert_eq!((mode, child.mode()), (0o100_660, 0o660));
        assert_eq!(child.entries()[2].perm, 4, "with a mask the group entry stays");
        acl.set_mode(0o640);
        assert_eq!(acl.mode(), 0o640);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_list_or_an_error(bytes in prop::collection::vec(0u8..9, 0..80), disk: bool) {
            let parsed = if disk { Acl::from_disk(&bytes) } else { Acl::from_call(&bytes) };
            if let Ok(acl) = parsed {
                prop_assert_eq!(Acl::from_disk(&acl.to_disk()), Ok(acl.clone()));
                prop_assert_eq!(Acl::from_call(&acl.to_call()), Ok(acl));
            }
        }

        #[test]
        fn lists_survive_both_round_trips(users in prop::collection::vec((0u16..8, 0u32..u32::MAX), 0..5), groups in prop::collection::vec((0u16..8, 0u32..u32::MAX), 0..5), perms: [u8; 4], mode in 0u16..0o1000) {
            let [owner, group, mask, other] = perms.map(|perm| u16::from(perm & 7));
            let mut entries = vec![entry(AclTag::UserObj, owner, NO_ID)];
            entries.extend(users.into_iter().map(|(perm, id)| entry(AclTag::User, perm, id)));
            entries.push(entry(AclTag::GroupObj, group, NO_ID));
            entries.extend(groups.into_iter().map(|(perm, id)| entry(AclTag::Group, perm, id)));
            entries.extend([entry(AclTag::Mask, mask, NO_ID), entry(AclTag::Other, other, NO_ID)]);
            let mut acl = Acl::new(entries).unwrap();
            prop_assert_eq!(Acl::from_disk(&acl.to_disk()), Ok(acl.clone()));
            prop_assert_eq!(Acl::from_call(&acl.to_call()), Ok(acl.clone()));
            acl.set_mode(mode);
            prop_assert_eq!(acl.mode(), mode);
        }
    }
}
