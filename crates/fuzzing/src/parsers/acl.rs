//! POSIX ACLs in both forms. Input: a byte that says which form, two of a mode, then the value.

use super::BLOCK_MEMORY;
use crate::Target;
use crate::input::Input;
use steadyfs_format::xattr::{Acl, AclEntry, AclTag};

/// The target.
pub const TARGET: Target = Target { name: "acl", run, seeds, volume: false, memory: BLOCK_MEMORY };

fn seeds() -> Vec<Vec<u8>> {
    let entry = |tag, id| AclEntry { tag, perm: 6, id };
    let tags = [AclTag::UserObj, AclTag::User, AclTag::GroupObj, AclTag::Group, AclTag::Mask, AclTag::Other];
    let id = |tag| if matches!(tag, AclTag::User | AclTag::Group) { 1000 } else { u32::MAX };
    let acl = Acl::new(tags.into_iter().map(|tag| entry(tag, id(tag))).collect()).expect("POSIX allows it");
    vec![[&[0, 0xA4, 0x81], acl.to_disk().as_slice()].concat(), [&[1, 0xED, 0x41], acl.to_call().as_slice()].concat()]
}

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (call, mode, value) = (input.bool(), input.u16(), input.rest());
    let Ok(mut acl) = (if call { Acl::from_call(value) } else { Acl::from_disk(value) }) else { return };
    assert_eq!(Acl::from_disk(&acl.to_disk()).as_ref(), Ok(&acl));
    assert_eq!(Acl::from_call(&acl.to_call()).as_ref(), Ok(&acl));
    let (child, left) = acl.inherit(mode);
    assert_eq!(left & !mode, 0, "inheriting takes permissions away, never gives any");
    assert_eq!(child.entries().len(), acl.entries().len());
    acl.set_mode(mode);
    assert!(acl.is_mode_only() || acl.entries().len() > 3);
    assert_eq!(acl.mode(), mode & 0o777);
}
