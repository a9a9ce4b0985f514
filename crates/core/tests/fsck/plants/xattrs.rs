//! Faults of extended attributes, in the inode and across the border to the xattr node.

use super::{Base, Plant, check_plants};
use crate::editor::Editor;
use steadyfs_core::fsck::Issue;
use steadyfs_format::Ino;
use steadyfs_format::inode::inline;

pub(super) const PLANTS: &[Plant] = &[
    ("XattrMagic", Base::Plain, magic),
    ("XattrOverrun", Base::Plain, overrun),
    ("XattrOverrun", Base::Plain, overrun_of_the_node),
    ("XattrTail", Base::Featured, tail),
    ("XattrName", Base::Plain, name),
    ("XattrName", Base::Plain, acl_with_a_name),
    ("XattrName", Base::Plain, name_with_a_nul),
    ("XattrAcl", Base::Plain, acl),
    ("XattrTwice", Base::Plain, twice),
];

#[test]
fn each_is_found() {
    check_plants(PLANTS);
}

/// A list with these entries: prefix, name, value.
fn list(entries: &[(u8, &str, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 24];
    bytes[..8].copy_from_slice(&[0x11, 0x20, 0xF5, 0xF2, 1, 0, 0, 0]);
    for (index, name, value) in entries {
        bytes.extend([*index, name.len() as u8, value.len() as u8, 0]);
        bytes.extend(name.as_bytes());
        bytes.extend(*value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

/// Puts bytes where the attributes of a file without any lie.
fn put(e: &Editor, bytes: &[u8]) -> Ino {
    let ino = e.ino("p/inline");
    e.shaped(ino, |inode, shape| {
        assert!(inode.has_inline(inline::XATTR));
        let area = inode.xattr_area_mut(shape);
        area.fill(0);
        area[..bytes.len()].copy_from_slice(bytes);
    });
    ino
}

fn magic(e: &Editor) -> Vec<Issue> {
    let mut bytes = list(&[(1, "a", b"b")]);
    bytes[0] = 0x12;
    vec![Issue::XattrMagic { ino: put(e, &bytes), found: 0xF2F5_2012 }]
}

fn overrun(e: &Editor) -> Vec<Issue> {
    // The area has 200 bytes.
    let bytes = list(&[(1, "a", &[7; 100]), (1, "b", &[7; 60])]);
    let mut bytes = bytes[..200.min(bytes.len())].to_vec();
    bytes[24 + 108 + 2] = 200;
    vec![Issue::XattrOverrun { ino: put(e, &bytes), offset: 132 }]
}

/// The list goes on in the node, whose payload is the end of it.
fn overrun_of_the_node(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("xattr/value-2000");
    let (inode, shape) = e.read_inode(ino);
    let inside = inode.xattr_area(shape).len();
    let at = inside + 4000;
    e.node(inode.xattr_nid(), |node| {
        // A well-formed attribute from the end of the others to byte `at`, and one that is too long behind it.
        let used = 24 + 4 + 1 + 2000;
        let first = usize::next_multiple_of(used, 4);
        let filler = (at - first - 4 - 1) as u16;
        let put = |payload: &mut [u8], at: usize, bytes: &[u8]| {
            payload[at - inside..at - inside + bytes.len()].copy_from_slice(bytes)
        };
        put(&mut node.payload, first, &[1, 1, filler as u8, (filler >> 8) as u8, b'f']);
        put(&mut node.payload, at, &[1, 1, 200, 0, b'g']);
    });
    assert!(at.is_multiple_of(4));
    vec![Issue::XattrOverrun { ino, offset: at as u32 }]
}

fn tail(e: &Editor) -> Vec<Issue> {
    let mut bytes = list(&[(1, "a", b"b")]);
    let offset = bytes.len() as u32 + 9;
    bytes.resize(bytes.len() + 9, 0);
    bytes.push(1);
    vec![Issue::XattrTail { ino: put(e, &bytes), offset }]
}

fn name(e: &Editor) -> Vec<Issue> {
    let bytes = list(&[(1, "a", b"b"), (8, "a", b"b")]);
    vec![Issue::XattrName { ino: put(e, &bytes), offset: 32, index: 8, length: 1 }]
}

fn acl_with_a_name(e: &Editor) -> Vec<Issue> {
    let bytes = list(&[(2, "a", b"b")]);
    vec![Issue::XattrName { ino: put(e, &bytes), offset: 24, index: 2, length: 1 }]
}

fn name_with_a_nul(e: &Editor) -> Vec<Issue> {
    let bytes = list(&[(1, "a\0b", b"b")]);
    vec![Issue::XattrName { ino: put(e, &bytes), offset: 24, index: 1, length: 3 }]
}

fn acl(e: &Editor) -> Vec<Issue> {
    let bytes = list(&[(2, "", &[9, 0, 0, 0])]);
    let reason = "ACL: version = 9 breaks the rule: is 1 on the disk, 2 in calls".to_owned();
    vec![Issue::XattrAcl { ino: put(e, &bytes), offset: 24, reason }]
}

fn twice(e: &Editor) -> Vec<Issue> {
    let bytes = list(&[(1, "a", b"b"), (4, "a", b"b"), (1, "a", b"c")]);
    vec![Issue::XattrTwice { ino: put(e, &bytes), offset: 40, index: 1, name: "a".to_owned() }]
}
