//! Faults of the checkpoint: packs, flags, counters, logs, journals, orphans, nat_bits.

use super::{Base, Plant, check_plants};
use crate::editor::{Editor, Pack};
use steadyfs_core::fsck::Issue;
use steadyfs_format::block::BlockView;
use steadyfs_format::checkpoint::{CpFlags, LogPosition};
use steadyfs_format::dir::FileType;
use steadyfs_format::journal::{JOURNAL_BYTES, Journal};
use steadyfs_format::nat::NatEntry;
use steadyfs_format::node::{NodeBlock, NodeFooter, NodeOfs};
use steadyfs_format::records::{Record, VERSION_KEY, batch};
use steadyfs_format::sit::SitEntry;
use steadyfs_format::summary::{SUMMARY_BYTES, SummaryKind};
use steadyfs_format::superblock::QuotaKind;
use steadyfs_format::{AllocType, BLOCKS_PER_SEG, Ino, Lba, Log, Nid, Pack as Number, SegNo};

pub(super) const PLANTS: &[Plant] = &[
    ("NoCheckpoint", Base::Fresh, no_checkpoint),
    ("CheckpointPackTorn", Base::Plain, pack_torn),
    ("CheckpointPackLost", Base::Plain, pack_lost),
    ("CheckpointPackGone", Base::Plain, pack_gone),
    ("CheckpointHeaderDamaged", Base::Plain, |e| header_damaged(e, true)),
    ("CheckpointEndTorn", Base::Plain, |e| header_damaged(e, false)),
    ("CheckpointInvalid", Base::Plain, invalid),
    ("NotUnmounted", Base::Plain, not_unmounted),
    ("RollForwardPending", Base::Plain, roll_forward),
    ("JournalPending", Base::Plain, |e| journal(e, 1)),
    ("JournalDamaged", Base::Plain, |e| journal(e, 2)),
    ("JournalBreaksTree", Base::Plain, journal_breaks_tree),
    ("JournalMarked", Base::Plain, journal_marked),
    ("RollForwardLoop", Base::Plain, roll_forward_loop),
    ("MarkedError", Base::Plain, |e| flag(e, CpFlags::ERROR, |flags| Issue::MarkedError { flags })),
    ("MarkedFsck", Base::Plain, |e| flag(e, CpFlags::FSCK, |flags| Issue::MarkedFsck { flags })),
    ("ResizeInterrupted", Base::Plain, |e| flag(e, CpFlags::RESIZEFS, |flags| Issue::ResizeInterrupted { flags })),
    ("UnknownFlags", Base::Plain, |e| flag(e, CpFlags::from_bits(1 << 30), |_| Issue::UnknownFlags { flags: 1 << 30 })),
    ("QuotaStale", Base::Featured, quota_stale),
    ("QuotaStale", Base::Plain, |e| flag(e, CpFlags::QUOTA_NEED_FSCK, |flags| Issue::QuotaStale { flags })),
    ("ValidBlockCount", Base::Plain, valid_blocks),
    ("ValidNodeCount", Base::Plain, valid_nodes),
    ("ValidInodeCount", Base::Plain, valid_inodes),
    ("FreeSegmentCount", Base::Plain, free_segments),
    ("LogSegmentType", Base::Plain, log_segment_type),
    ("LogSummaryKind", Base::Plain, log_summary_kind),
    ("LogSummaryDamaged", Base::Plain, log_summary_damaged),
    ("LogNextUsed", Base::Plain, log_next_used),
    ("LogTailUsed", Base::Plain, log_tail_used),
    ("NextFreeNid", Base::Plain, next_free_nid),
    ("NatJournalDamaged", Base::Plain, nat_journal_damaged),
    ("SitJournalDamaged", Base::Plain, sit_journal_damaged),
    ("NatJournalOutside", Base::Plain, |e| nat_journal_outside(e, e.image_layout().max_nid())),
    ("NatJournalOutside", Base::Plain, |e| nat_journal_outside(e, Nid(0))),
    ("NatJournalTwice", Base::Plain, nat_journal_twice),
    ("SitJournalOutside", Base::Plain, sit_journal_outside),
    ("SitJournalTwice", Base::Plain, sit_journal_twice),
    ("NatBitsWrong", Base::Plain, nat_bits_wrong),
    ("OrphanMissing", Base::Plain, orphan_missing),
    ("OrphanTwice", Base::Plain, orphan_twice),
    ("OrphanLinks", Base::Plain, orphan_links),
    ("OrphanBlock", Base::Plain, orphan_block),
    ("OrphanCount", Base::Plain, orphan_count),
];

#[test]
fn each_is_found() {
    check_plants(PLANTS);
}

/// While the flag is set, the quota files may say what they like.
fn quota_stale(e: &Editor) -> Vec<Issue> {
    let (_, mut entries) = e.quota(QuotaKind::User);
    entries[0].usage.space += 4096;
    e.set_quota(QuotaKind::User, &entries);
    flag(e, CpFlags::QUOTA_NEED_FSCK, |flags| Issue::QuotaStale { flags })
}

#[test]
fn an_orphan_is_no_fault() {
    let editor = Editor::new(crate::images::plain());
    let orphan = editor.make_orphan("p", "other");
    editor.pack(|pack| pack.orphans = vec![orphan]);
    let report = crate::images::run(editor.dev.fork());
    assert_eq!((report.issues.as_slice(), report.counts.expect("walked").orphans), ([].as_slice(), 1));
}

fn no_checkpoint(e: &Editor) -> Vec<Issue> {
    for pack in Number::BOTH {
        // Both copies of each header: the first block, and the last of six.
        for number in [0, 5] {
            e.edit(e.image_layout().pack(pack) + number, |block| block[200] ^= 1);
        }
    }
    let packs = steadyfs_core::raw::Packs::read(&*e.dev, &e.image_layout());
    let [first, second] = Number::BOTH.map(|pack| packs.version(pack).expect_err("damaged").to_string());
    assert!(first.contains("checksum"), "{first}");
    vec![Issue::NoCheckpoint { first, second }]
}

fn pack_lost(e: &Editor) -> Vec<Issue> {
    let other = e.image().pack().other();
    e.edit(e.image_layout().pack(other), |block| block[600] ^= 1);
    let image = e.image();
    let reason = image.packs().version(other).expect_err("damaged").to_string();
    vec![Issue::CheckpointPackLost { pack: other.number(), reason }]
}

fn pack_gone(e: &Editor) -> Vec<Issue> {
    let other = e.image().pack().other();
    for number in 0..512 {
        e.edit(e.image_layout().pack(other) + number, |block| block.fill(0xA5));
    }
    let reason = e.image().packs().version(other).expect_err("destroyed").to_string();
    vec![Issue::CheckpointPackGone { pack: other.number(), reason }]
}

/// The first block of the pack in force is damaged, or the last one.
fn header_damaged(e: &Editor, first: bool) -> Vec<Issue> {
    let (image, layout) = (e.image(), e.image_layout());
    let (pack, last) = (image.pack(), image.checkpoint().header().pack_blocks() - 1);
    e.edit(layout.pack(pack) + if first { 0 } else { u64::from(last) }, |block| block[600] ^= 1);
    let reason = e.image().packs().damaged(pack).expect("one copy").1.to_string();
    let pack = pack.number();
    vec![match first {
        true => Issue::CheckpointHeaderDamaged { pack, reason },
        false => Issue::CheckpointEndTorn { pack, reason },
    }]
}

/// The next checkpoint was begun: its first block is there, its last one is not.
fn pack_torn(e: &Editor) -> Vec<Issue> {
    let (image, layout) = (e.image(), e.image_layout());
    let mut next = image.checkpoint().header().clone();
    next.set_version(next.version() + 1);
    next.seal();
    let other = image.pack().other();
    e.edit(layout.pack(other), |block| *block = next.to_block());
    let reason = e.image().packs().version(other).expect_err("torn").to_string();
    vec![Issue::CheckpointPackTorn { pack: other.number(), reason }]
}

fn invalid(e: &Editor) -> Vec<Issue> {
    let pack = e.image().pack().number();
    e.pack(|pack| pack.checkpoint.header_mut().set_overprov_segments(0));
    let reason = "checkpoint: overprov_segment_count = 0 breaks the rule: is more than 0".to_owned();
    vec![Issue::CheckpointInvalid { pack, reason }]
}

fn not_unmounted(e: &Editor) -> Vec<Issue> {
    let version = e.image().checkpoint().header().version();
    e.pack(|pack| {
        let header = pack.checkpoint.header_mut();
        header.set_flags(header.flags().difference(CpFlags::UMOUNT));
        pack.nodes = None;
    });
    vec![Issue::NotUnmounted { version }]
}

/// Writes a node at the position of the warm node log, with the marks of an fsync.
fn chain_node(e: &Editor, fsync: bool, next: impl FnOnce(Lba) -> Lba) -> Lba {
    let image = e.image();
    let at = image.log_position(Log::WarmNode);
    let lba = image.layout().lba_of(at.segment, at.next);
    let mut footer = NodeFooter::new(Nid(4), Ino(4), NodeOfs::INODE, true);
    footer.set_fsync(fsync);
    footer.set_chain(image.checkpoint().header().footer_version(), next(lba));
    e.edit(lba, |block| NodeBlock::view_mut(block).footer = footer);
    lba
}

fn roll_forward(e: &Editor) -> Vec<Issue> {
    chain_node(e, true, |lba| lba + 1);
    vec![Issue::RollForwardPending { nodes: 1, files: 1 }]
}

/// Marks the superblock as that of a volume with a journal.
fn mark(e: &Editor) {
    let mut superblock = e.image().superblock().clone();
    superblock.set_journaled(true);
    for lba in [0, 1] {
        e.edit(Lba(lba), |block| superblock.encode_into(block));
    }
}

/// A batch with this number behind the checkpoint.
fn journal(e: &Editor, sequence: u64) -> Vec<Issue> {
    lay(e, sequence, Record::Name { dir: Ino(3), name: b"gone".to_vec(), target: None });
    if sequence == 1 { vec![Issue::JournalPending { batches: 1, records: 1 }] } else { vec![Issue::JournalDamaged {}] }
}

/// A second name for a directory.
fn journal_breaks_tree(e: &Editor) -> Vec<Issue> {
    lay(e, 1, Record::Name { dir: Ino(3), name: b"again".to_vec(), target: Some((e.ino("p/empty"), FileType::Dir)) });
    let links = e.read_inode(Ino(3)).0.links();
    let reason = format!("the journal gives inode 3 {links} links, where its directories make {}", links + 1);
    vec![Issue::JournalBreaksTree { reason }]
}

/// Puts a batch of one record behind the checkpoint.
fn lay(e: &Editor, sequence: u64, record: Record) {
    mark(e);
    let image = e.image();
    let (at, seed) = (image.log_position(Log::WarmNode), image.superblock().inode_checksum_seed());
    let lba = image.layout().lba_of(at.segment, at.next);
    let mut block = batch::encode(sequence, seed, &[record])[0];
    batch::seal(&mut block, seed, image.checkpoint().header().footer_version() ^ VERSION_KEY, lba + 1);
    e.edit(lba, |there| *there = block);
}

fn journal_marked(e: &Editor) -> Vec<Issue> {
    mark(e);
    vec![Issue::JournalMarked {}]
}

fn roll_forward_loop(e: &Editor) -> Vec<Issue> {
    let lba = chain_node(e, false, |lba| lba);
    vec![Issue::RollForwardLoop { lba }]
}

fn flag(e: &Editor, flag: CpFlags, issue: fn(u32) -> Issue) -> Vec<Issue> {
    let mut flags = CpFlags::NONE;
    e.pack(|pack| {
        let header = pack.checkpoint.header_mut();
        flags = header.flags() | flag;
        header.set_flags(flags);
    });
    vec![issue(flags.bits())]
}

fn valid_blocks(e: &Editor) -> Vec<Issue> {
    let found = e.image().checkpoint().header().valid_blocks();
    e.pack(|pack| pack.checkpoint.header_mut().set_valid_blocks(found + 5));
    vec![Issue::ValidBlockCount { stored: found + 5, found }]
}

fn valid_nodes(e: &Editor) -> Vec<Issue> {
    let found = e.image().checkpoint().header().valid_nodes();
    e.pack(|pack| pack.checkpoint.header_mut().set_valid_nodes(found - 1));
    vec![Issue::ValidNodeCount { stored: u64::from(found) - 1, found: found.into() }]
}

fn valid_inodes(e: &Editor) -> Vec<Issue> {
    let found = e.image().checkpoint().header().valid_inodes();
    e.pack(|pack| pack.checkpoint.header_mut().set_valid_inodes(found - 1));
    vec![Issue::ValidInodeCount { stored: u64::from(found) - 1, found: found.into() }]
}

fn free_segments(e: &Editor) -> Vec<Issue> {
    let found = e.image().checkpoint().header().free_segments();
    e.pack(|pack| pack.checkpoint.header_mut().set_free_segments(found + 1));
    vec![Issue::FreeSegmentCount { stored: u64::from(found) + 1, found: found.into() }]
}

fn log_segment_type(e: &Editor) -> Vec<Issue> {
    let segno = e.image().log_position(Log::HotNode).segment;
    e.edit_sit(segno, |entry| SitEntry::new(Log::ColdNode, *entry.valid_map(), entry.mtime()));
    vec![Issue::LogSegmentType { log: Log::HotNode, segno, found: 5 }]
}

fn log_summary_kind(e: &Editor) -> Vec<Issue> {
    let segno = e.image().log_position(Log::HotNode).segment;
    e.pack(|pack| pack.nodes.as_mut().expect("unmounted")[0].set_kind(SummaryKind::Data));
    vec![Issue::LogSummaryKind { log: Log::HotNode, segno, found: 0 }]
}

/// The block of the pack in force that holds a data log's summary (all of them, in the compact form), and where the
/// journal of the log begins in it.
fn summary_place(e: &Editor, log: Log) -> (Lba, usize) {
    let image = e.image();
    let first = image.layout().pack(image.pack()) + u64::from(image.checkpoint().pack_map().data_summaries.start);
    match image.checkpoint().header().flags().contains(CpFlags::COMPACT_SUM) {
        true => (first, if log == Log::HotData { 0 } else { JOURNAL_BYTES }),
        false => (first + log.index() as u64, BLOCKS_PER_SEG as usize * SUMMARY_BYTES),
    }
}

fn log_summary_damaged(e: &Editor) -> Vec<Issue> {
    // Summaries of logs that reuse segments do not fit the compact form, which has no types.
    e.pack(|pack| {
        for log in [Log::HotData, Log::WarmData] {
            let at = pack.checkpoint.header().log(log);
            pack.checkpoint.header_mut().set_log(log, LogPosition { alloc: AllocType::Ssr, ..at });
        }
    });
    let (lba, journal) = summary_place(e, Log::WarmData);
    e.edit(lba, |block| block[journal + JOURNAL_BYTES] = 7);
    let segno = e.image().log_position(Log::WarmData).segment;
    let reason = "summary block: entry_type = 7 breaks the rule: is 0 (data) or 1 (node)".to_owned();
    vec![Issue::LogSummaryDamaged { log: Log::WarmData, segno, reason }]
}

/// Empties the journals, and makes that of a log count more entries than there can be.
fn impossible_count(e: &Editor, log: Log, count: u16) -> u32 {
    e.flush_journals();
    let (lba, journal) = summary_place(e, log);
    e.edit(lba, |block| block[journal..journal + 2].copy_from_slice(&count.to_le_bytes()));
    e.image().pack().number()
}

fn nat_journal_damaged(e: &Editor) -> Vec<Issue> {
    let pack = impossible_count(e, Log::HotData, 39);
    let reason = "NAT journal: count = 39 breaks the rule: is at most 38 (NAT) or 6 (SIT)".to_owned();
    vec![Issue::NatJournalDamaged { pack, reason }]
}

fn sit_journal_damaged(e: &Editor) -> Vec<Issue> {
    let pack = impossible_count(e, Log::ColdData, 7);
    let reason = "SIT journal: count = 7 breaks the rule: is at most 38 (NAT) or 6 (SIT)".to_owned();
    vec![Issue::SitJournalDamaged { pack, reason }]
}

fn log_next_used(e: &Editor) -> Vec<Issue> {
    let image = e.image();
    let LogPosition { segment: segno, next, .. } = image.log_position(Log::WarmData);
    let lba = image.layout().lba_of(segno, next);
    e.set_valid(lba, true);
    // The block belongs to nobody.
    vec![Issue::LogNextUsed { log: Log::WarmData, segno, lba }, Issue::BlocksLeaked { segno, lba, blocks: 1 }]
}

fn log_tail_used(e: &Editor) -> Vec<Issue> {
    let image = e.image();
    let LogPosition { segment: segno, next, .. } = image.log_position(Log::WarmData);
    assert!(u32::from(next) + 3 < BLOCKS_PER_SEG);
    let lba = image.layout().lba_of(segno, next + 1);
    e.set_valid(lba, true);
    e.set_valid(lba + 1, true);
    // The blocks belong to nobody.
    let leaked = Issue::BlocksLeaked { segno, lba, blocks: 2 };
    vec![Issue::LogTailUsed { log: Log::WarmData, segno, blocks: 2 }, leaked]
}

fn next_free_nid(e: &Editor) -> Vec<Issue> {
    let max = e.image_layout().max_nid();
    e.pack(|pack| pack.checkpoint.header_mut().set_next_free_nid(max));
    vec![Issue::NextFreeNid { nid: max, max: max.get() }]
}

fn edit_nat_journal(pack: &mut Pack, change: impl FnOnce(&mut Vec<(Nid, NatEntry)>)) {
    let mut entries = pack.data[0].journal.nat().expect("sound");
    change(&mut entries);
    pack.data[0].journal = Journal::from_nat(&entries).expect("there is room");
}

fn edit_sit_journal(pack: &mut Pack, change: impl FnOnce(&mut Vec<(SegNo, SitEntry)>)) {
    let mut entries = pack.data[2].journal.sit().expect("sound");
    change(&mut entries);
    pack.data[2].journal = Journal::from_sit(&entries).expect("there is room");
}

fn nat_journal_outside(e: &Editor, nid: Nid) -> Vec<Issue> {
    e.flush_journals();
    e.pack(|pack| edit_nat_journal(pack, |entries| entries.push((nid, NatEntry::default()))));
    vec![Issue::NatJournalOutside { nid }]
}

fn nat_journal_twice(e: &Editor) -> Vec<Issue> {
    let nid = e.ino("p/inline").nid();
    let entry = e.nat(nid);
    e.flush_journals();
    // The first one counts; the second one, which says that the id is free, does not.
    e.pack(|pack| edit_nat_journal(pack, |entries| entries.extend([(nid, entry), (nid, NatEntry::default())])));
    vec![Issue::NatJournalTwice { nid }]
}

fn sit_journal_outside(e: &Editor) -> Vec<Issue> {
    let segno = SegNo(e.image_layout().main_segments);
    e.flush_journals();
    e.pack(|pack| edit_sit_journal(pack, |entries| entries.push((segno, SitEntry::default()))));
    vec![Issue::SitJournalOutside { segno }]
}

fn sit_journal_twice(e: &Editor) -> Vec<Issue> {
    let segno = e.closed_segment(Log::WarmData, 512);
    let entry = e.sit(segno);
    e.flush_journals();
    // The last one counts; the first one, which says that the segment is empty, does not.
    e.pack(|pack| edit_sit_journal(pack, |entries| entries.extend([(segno, SitEntry::default()), (segno, entry)])));
    vec![Issue::SitJournalTwice { segno }]
}

fn nat_bits_wrong(e: &Editor) -> Vec<Issue> {
    let layout = e.image_layout();
    let block = layout.pack(e.image().pack()) + u64::from(BLOCKS_PER_SEG - layout.nat_bits_blocks());
    assert!(e.image().nat_bits().expect("readable").is_some(), "Linux wrote nat_bits when it unmounted");
    // Block 2 of the NAT is not full, but the bitmap says so.
    e.edit(block, |bytes| bytes[8] ^= 1 << 2);
    vec![Issue::NatBitsWrong { block: 2, bitmap: "full", stored: 1 }]
}

fn orphan_missing(e: &Editor) -> Vec<Issue> {
    let ino = e.unused_nid().as_ino();
    e.pack(|pack| pack.orphans = vec![ino]);
    vec![Issue::OrphanMissing { ino }]
}

fn orphan_twice(e: &Editor) -> Vec<Issue> {
    let ino = e.make_orphan("p", "inline");
    e.pack(|pack| pack.orphans = vec![ino, ino]);
    vec![Issue::OrphanTwice { ino }]
}

fn orphan_links(e: &Editor) -> Vec<Issue> {
    let ino = e.make_orphan("p", "inline");
    e.inode(ino, |inode| inode.set_links(1));
    e.pack(|pack| pack.orphans = vec![ino]);
    vec![Issue::OrphanLinks { ino, links: 1 }]
}

fn orphan_block(e: &Editor) -> Vec<Issue> {
    let ino = e.make_orphan("p", "inline");
    e.pack(|pack| pack.orphans = vec![ino]);
    let lba = e.image().orphan_blocks().next().expect("one block");
    e.edit(lba, |block| block[4084] = 2);
    vec![Issue::OrphanBlock { lba, index: 2, count: 1 }]
}

fn orphan_count(e: &Editor) -> Vec<Issue> {
    let ino = e.make_orphan("p", "inline");
    e.pack(|pack| pack.orphans = vec![ino]);
    let lba = e.image().orphan_blocks().next().expect("one block");
    e.edit(lba, |block| block[4088..4092].copy_from_slice(&1021u32.to_le_bytes()));
    let reason = "orphan block: entry_count = 1021 breaks the rule: is at most 1020".to_owned();
    // Who is on the list is not known any more.
    vec![Issue::OrphanCount { reason }, Issue::InodeUnreferenced { ino, links: 0 }]
}
