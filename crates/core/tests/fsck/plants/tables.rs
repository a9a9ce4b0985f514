//! Faults of NAT, SIT and SSA, and of the blocks that they describe.

use super::{Base, Plant, check_plants};
use crate::editor::Editor;
use steadyfs_core::fsck::Issue;
use steadyfs_format::block::BlockView;
use steadyfs_format::nat::NatEntry;
use steadyfs_format::sit::{SitBlock, SitEntry};
use steadyfs_format::summary::{Summary, SummaryBlock, SummaryKind};
use steadyfs_format::{Ino, Lba, Log, Nid, SegNo, Slot};

pub(super) const PLANTS: &[Plant] = &[
    ("NatNullUsed", Base::Plain, null_used),
    ("NatReserved", Base::Plain, reserved),
    ("NatNoOwner", Base::Plain, no_owner),
    ("NatOutside", Base::Plain, outside),
    ("NatImpossible", Base::Plain, impossible),
    ("NatOwnerMissing", Base::Plain, owner_missing),
    ("SitType", Base::Plain, sit_type),
    ("SitCount", Base::Plain, sit_count),
    ("BlockNotValid", Base::Plain, not_valid_data),
    ("BlockNotValid", Base::Plain, not_valid_node),
    ("BlocksLeaked", Base::Plain, leaked),
    ("BlockShared", Base::Plain, shared_data),
    ("BlockShared", Base::Plain, shared_nodes),
    ("SegmentMixed", Base::Plain, mixed_data),
    ("SegmentMixed", Base::Plain, mixed_nodes),
    ("SummaryKind", Base::Plain, summary_kind),
    ("NodeSummary", Base::Plain, node_summary),
    ("DataSummary", Base::Plain, data_summary),
];

#[test]
fn each_is_found() {
    check_plants(PLANTS);
}

fn null_used(e: &Editor) -> Vec<Issue> {
    let lba = e.image_layout().main;
    e.edit_nat(Nid(0), |entry| entry.lba = lba);
    vec![Issue::NatNullUsed { nid: Nid(0), lba }]
}

fn reserved(e: &Editor) -> Vec<Issue> {
    e.edit_nat(Nid(2), |entry| *entry = NatEntry { version: 0, ino: Ino(7), lba: Lba(2) });
    vec![Issue::NatReserved { nid: Nid(2), owner: 7, block: 2 }]
}

/// The checkpoint's counters when the NAT has an entry more than it should.
fn one_node_more(e: &Editor) -> Vec<Issue> {
    let header = e.image().checkpoint().header().clone();
    let (blocks, nodes) = (header.valid_blocks(), u64::from(header.valid_nodes()));
    vec![
        Issue::ValidBlockCount { stored: blocks, found: blocks + 1 },
        Issue::ValidNodeCount { stored: nodes, found: nodes + 1 },
    ]
}

fn no_owner(e: &Editor) -> Vec<Issue> {
    let (nid, lba) = (e.unused_nid(), e.image_layout().main);
    e.edit_nat(nid, |entry| *entry = NatEntry { version: 0, ino: Ino(0), lba });
    [vec![Issue::NatNoOwner { nid, lba }], one_node_more(e)].concat()
}

fn owner_missing(e: &Editor) -> Vec<Issue> {
    let (nid, lba) = (e.unused_nid(), e.image_layout().main);
    let ino = Ino(e.image_layout().max_nid().get() - 1);
    e.edit_nat(nid, |entry| *entry = NatEntry { version: 0, ino, lba });
    [vec![Issue::NatOwnerMissing { nid, ino }], one_node_more(e)].concat()
}

fn outside(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("xattr/value-2000");
    let (inode, _) = e.read_inode(ino);
    let nid = inode.xattr_nid();
    let (at, lba) = (e.lba(nid), e.image_layout().main_end());
    e.edit_nat(nid, |entry| entry.lba = lba);
    let (segno, _) = e.segment_of(at);
    // The node is not read, so its block belongs to nobody and is not counted.
    vec![
        Issue::NatOutside { nid, ino, lba },
        Issue::InodeBlocks { ino, stored: inode.blocks(), found: inode.blocks() - 1 },
        Issue::BlocksLeaked { segno, lba: at, blocks: 1 },
    ]
}

/// The same with the address that a slot of a node has while its block was never written.
fn impossible(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("xattr/value-2000");
    let (inode, _) = e.read_inode(ino);
    let nid = inode.xattr_nid();
    let at = e.lba(nid);
    e.flush_journals();
    let image = e.image();
    let (block, index) = image.layout().nat_place(nid);
    e.edit(image.nat_lba(block), |bytes| bytes[index * 9 + 5..index * 9 + 9].fill(0xFF));
    let (segno, _) = e.segment_of(at);
    vec![
        Issue::NatImpossible { nid, ino, address: u32::MAX.into() },
        Issue::InodeBlocks { ino, stored: inode.blocks(), found: inode.blocks() - 1 },
        Issue::BlocksLeaked { segno, lba: at, blocks: 1 },
    ]
}

/// Overwrites bytes of a segment's SIT entry as it lies on the disk.
fn raw_sit(e: &Editor, segno: SegNo, change: impl FnOnce(&mut [u8])) {
    e.flush_journals();
    let image = e.image();
    let (block, index) = image.layout().sit_place(segno);
    let size = size_of::<SitEntry>();
    e.edit(image.sit_lba(block), |bytes| change(&mut bytes[index * size..(index + 1) * size]));
    let _ = SitBlock::view(&e.block(image.sit_lba(block)));
}

fn sit_type(e: &Editor) -> Vec<Issue> {
    let segno = e.closed_segment(Log::WarmData, 512);
    raw_sit(e, segno, |entry| entry[1] |= 7 << 2);
    vec![Issue::SitType { segno, found: 7 }]
}

fn sit_count(e: &Editor) -> Vec<Issue> {
    let segno = e.closed_segment(Log::WarmData, 512);
    raw_sit(e, segno, |entry| entry[0] += 3);
    vec![Issue::SitCount { segno, stored: 515, found: 512 }]
}

fn not_valid_data(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/large");
    let (_, lba) = e.first_block(ino);
    e.set_valid(lba, false);
    vec![Issue::BlockNotValid { ino, nid: ino.nid(), lba }]
}

fn not_valid_node(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/inline");
    let lba = e.lba(ino.nid());
    e.set_valid(lba, false);
    vec![Issue::BlockNotValid { ino, nid: ino.nid(), lba }]
}

fn leaked(e: &Editor) -> Vec<Issue> {
    let image = e.image();
    let sit = image.load_sit().expect("readable");
    let partly = |entry: &SitEntry| entry.log() == Some(Log::WarmNode) && (1..512).contains(&entry.valid_blocks());
    let found = sit.iter().position(partly).expect("a segment with free blocks");
    let segno = SegNo(found as u32);
    // The last block, so that no log minds.
    let lba = image.layout().lba_of(segno, 511);
    let issue = Issue::BlocksLeaked { segno, lba, blocks: 1 };
    match image.log_at(segno) {
        None => {
            e.set_valid(lba, true);
            vec![issue]
        }
        Some(log) => {
            e.set_valid(lba, true);
            vec![issue, Issue::LogTailUsed { log, segno, blocks: 1 }]
        }
    }
}

/// One file's block is put into a slot of another, whose inode lies behind: it is met second.
fn shared_data(e: &Editor) -> Vec<Issue> {
    let mut files = [e.ino("p/data"), e.ino("p/other")];
    files.sort_by_key(|ino| e.lba(ino.nid()));
    let [first, second] = files;
    let (_, lba) = e.first_block(first);
    let (slot, lost) = e.first_block(second);
    e.shaped(second, |inode, shape| {
        inode.set_slot(shape, slot, Slot::At(lba));
        inode.set_extent(Default::default());
    });
    let (segno, _) = e.segment_of(lost);
    let shared = Issue::BlockShared { ino: second, nid: second.nid(), lba };
    vec![shared, Issue::BlocksLeaked { segno, lba: lost, blocks: 1 }]
}

/// Two ids for one node: the second one's node is lost, and what is found in its place is another.
fn shared_nodes(e: &Editor) -> Vec<Issue> {
    let [first, second] = ["xattr/value-1000", "xattr/value-2000"].map(|path| e.ino(path));
    let [one, two] = [first, second].map(|ino| e.read_inode(ino).0.xattr_nid());
    let (lba, lost) = (e.lba(one), e.lba(two));
    e.edit_nat(two, |entry| entry.lba = lba);
    let (segno, _) = e.segment_of(lost);
    // Within a block items come in the order of their ids.
    let (ino, nid, other_ino, other) = if one < two { (second, two, first, one) } else { (first, one, second, two) };
    let right = ino == first;
    let mut issues = vec![Issue::BlockShared { ino, nid, lba }, Issue::BlocksLeaked { segno, lba: lost, blocks: 1 }];
    let (wrong_ino, wrong) = if right { (other_ino, other) } else { (ino, nid) };
    issues.push(Issue::NodeReplaced { ino: wrong_ino, nid: wrong, lba, found: one.get(), owner: first.get() });
    if right {
        issues.push(Issue::NodeSummary { nid: other, lba, found: one.get() });
    }
    issues
}

fn mixed_data(e: &Editor) -> Vec<Issue> {
    let segno = e.closed_segment(Log::WarmData, 512);
    e.edit_sit(segno, |entry| SitEntry::new(Log::WarmNode, *entry.valid_map(), entry.mtime()));
    vec![Issue::SegmentMixed { segno, found: 4, holds: "data" }]
}

fn mixed_nodes(e: &Editor) -> Vec<Issue> {
    let segno = e.closed_segment(Log::WarmNode, 300);
    e.edit_sit(segno, |entry| SitEntry::new(Log::ColdData, *entry.valid_map(), entry.mtime()));
    vec![Issue::SegmentMixed { segno, found: 2, holds: "nodes" }]
}

fn edit_ssa(e: &Editor, segno: SegNo, change: impl FnOnce(&mut SummaryBlock)) {
    let lba = e.image_layout().ssa_lba(segno).expect("the volume has an SSA");
    e.edit(lba, |block| change(SummaryBlock::view_mut(block)));
}

fn summary_kind(e: &Editor) -> Vec<Issue> {
    let segno = e.closed_segment(Log::WarmData, 512);
    edit_ssa(e, segno, |summary| summary.set_kind(SummaryKind::Node));
    vec![Issue::SummaryKind { segno, found: 1, holds: "data" }]
}

fn node_summary(e: &Editor) -> Vec<Issue> {
    let segno = e.closed_segment(Log::WarmNode, 300);
    let offset = (0..512).find(|offset| e.sit(segno).is_valid(*offset)).expect("it holds nodes");
    let mut nid = Nid(0);
    edit_ssa(e, segno, |summary| {
        nid = summary.get(offset).nid;
        summary.set(offset, Summary::of_node(Nid(1)));
    });
    vec![Issue::NodeSummary { nid, lba: e.image_layout().lba_of(segno, offset), found: 1 }]
}

fn data_summary(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/large");
    let (inode, _) = e.read_inode(ino);
    let nid = inode.children()[0];
    let lba = e.direct(nid).slot(5).lba().expect("the file has no holes");
    let (segno, offset) = e.segment_of(lba);
    assert_eq!(e.image().log_at(segno), None, "the file fills segments");
    let mut right = Summary::default();
    edit_ssa(e, segno, |summary| {
        right = summary.get(offset);
        summary.set(offset, Summary { nid, version: right.version.wrapping_add(1), ofs_in_node: 6 });
    });
    let Summary { version, ofs_in_node: slot, .. } = right;
    let (found_nid, found_slot, found_version) = (nid.get(), 6, version.wrapping_add(1));
    vec![Issue::DataSummary { ino, nid, lba, slot, version, found_nid, found_slot, found_version }]
}
