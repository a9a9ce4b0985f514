//! Faults of nodes: their places in the tree and their footers.

use super::{Base, Plant, check_plants};
use crate::editor::Editor;
use steadyfs_core::fsck::Issue;
use steadyfs_format::inode::Inode;
use steadyfs_format::node::NodeOfs;
use steadyfs_format::{Ino, Nid};

pub(super) const PLANTS: &[Plant] = &[
    ("NodeIdInvalid", Base::Plain, |e| invalid(e, Nid(2))),
    ("NodeIdInvalid", Base::Plain, |e| invalid(e, e.image_layout().max_nid())),
    ("NodeIdInvalid", Base::Plain, |e| invalid(e, e.ino("p/data").nid())),
    ("NodeMissing", Base::Plain, missing),
    ("NodeForeign", Base::Plain, foreign),
    ("NodeShared", Base::Plain, shared),
    ("NodeUnreferenced", Base::Plain, unreferenced),
    ("NodeReplaced", Base::Plain, |e| replaced(e, 0)),
    ("NodeReplaced", Base::Plain, |e| replaced(e, 0xA5)),
    ("NodeFooterNid", Base::Plain, footer_nid),
    ("NodeFooterIno", Base::Plain, footer_ino),
    ("NodeFooterOfs", Base::Plain, footer_ofs),
    ("NodeFooterOfs", Base::Plain, inode_footer_ofs),
    ("NodeColdMark", Base::Plain, cold_mark),
];

#[test]
fn each_is_found() {
    check_plants(PLANTS);
}

/// Names a node in the inode of a file without nodes below.
fn name_child(e: &Editor, child: Nid) -> Ino {
    let ino = e.ino("p/data");
    e.inode(ino, |inode| {
        assert!(inode.children()[1].is_null());
        inode.set_child(1, child);
    });
    ino
}

fn invalid(e: &Editor, child: Nid) -> Vec<Issue> {
    let ino = name_child(e, child);
    vec![Issue::NodeIdInvalid { ino, parent: ino.nid(), ofs: NodeOfs::new(2), found: child.get() }]
}

fn missing(e: &Editor) -> Vec<Issue> {
    let nid = e.unused_nid();
    vec![Issue::NodeMissing { ino: name_child(e, nid), nid, ofs: NodeOfs::new(2) }]
}

fn foreign(e: &Editor) -> Vec<Issue> {
    let owner = e.ino("p/large");
    let nid = e.read_inode(owner).0.children()[0];
    vec![Issue::NodeForeign { ino: name_child(e, nid), nid, ofs: NodeOfs::new(2), owner: owner.get() }]
}

fn shared(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/large");
    let [first, _, indirect, third, _] = e.read_inode(ino).0.children();
    assert!(!indirect.is_null() && third.is_null(), "the file has one indirect node");
    e.inode(ino, |inode| inode.set_child(3, first));
    // Met at its own offset first.
    vec![Issue::NodeShared { ino, nid: first, ofs: NodeOfs::INDIRECT_2 }]
}

fn unreferenced(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("xattr/value-2000");
    let inode: Inode = e.read_inode(ino).0;
    let (nid, blocks) = (inode.xattr_nid(), inode.blocks());
    let lba = e.lba(nid);
    e.inode(ino, |inode| inode.set_xattr_nid(Nid(0)));
    let (segno, _) = e.segment_of(lba);
    // The node is not counted, its block belongs to nobody, and the list in the inode goes on in the node.
    vec![
        Issue::NodeUnreferenced { ino, nid },
        Issue::InodeBlocks { ino, stored: blocks, found: blocks - 1 },
        Issue::BlocksLeaked { segno, lba, blocks: 1 },
        Issue::XattrOverrun { ino, offset: 24 },
    ]
}

/// A direct node of a file with several.
fn some_node(e: &Editor) -> (Ino, Nid) {
    let ino = e.ino("p/large");
    (ino, e.read_inode(ino).0.children()[1])
}

/// Nothing of a block that is not the node is judged.
fn replaced(e: &Editor, fill: u8) -> Vec<Issue> {
    let ino = e.ino("p/short");
    let (nid, lba) = (ino.nid(), e.lba(ino.nid()));
    e.edit(lba, |block| block.fill(fill));
    let found = u32::from_le_bytes([fill; 4]);
    vec![Issue::NodeReplaced { ino, nid, lba, found, owner: found }]
}

fn footer_nid(e: &Editor) -> Vec<Issue> {
    let (ino, nid) = some_node(e);
    e.node(nid, |node| node.footer.set_nid(Nid(77)));
    vec![Issue::NodeFooterNid { ino, nid, lba: e.lba(nid), found: 77 }]
}

fn footer_ino(e: &Editor) -> Vec<Issue> {
    let (ino, nid) = some_node(e);
    e.node(nid, |node| node.footer.set_ino(Ino(78)));
    vec![Issue::NodeFooterIno { ino, nid, lba: e.lba(nid), found: 78 }]
}

fn footer_ofs(e: &Editor) -> Vec<Issue> {
    let (ino, nid) = some_node(e);
    e.node(nid, |node| node.footer.set_ofs(NodeOfs::new(1)));
    vec![Issue::NodeFooterOfs { ino, nid, expected: NodeOfs::new(2), found: NodeOfs::new(1) }]
}

fn inode_footer_ofs(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/inline");
    e.inode(ino, |inode| inode.footer.set_ofs(NodeOfs::XATTR));
    vec![Issue::NodeFooterOfs { ino, nid: ino.nid(), expected: NodeOfs::INODE, found: NodeOfs::XATTR }]
}

fn cold_mark(e: &Editor) -> Vec<Issue> {
    let (ino, nid) = some_node(e);
    e.node(nid, |node| node.footer.set_cold(false));
    vec![Issue::NodeColdMark { ino, nid, found: 0 }]
}
