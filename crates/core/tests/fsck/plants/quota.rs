//! Faults of quota files: their inodes, their trees, what they say.

use super::{Base, Plant, check_plants};
use crate::editor::Editor;
use steadyfs_core::fsck::Issue;
use steadyfs_format::Ino;
use steadyfs_format::quota::Usage;
use steadyfs_format::superblock::QuotaKind;

pub(super) const PLANTS: &[Plant] = &[
    ("QuotaMissing", Base::Featured, missing),
    ("QuotaType", Base::Featured, wrong_type),
    ("QuotaHeader", Base::Featured, magic),
    ("QuotaHeader", Base::Featured, version),
    ("QuotaHeader", Base::Featured, blocks_beyond_the_size),
    ("QuotaTree", Base::Featured, block_beyond_the_end),
    ("QuotaTree", Base::Featured, circle),
    ("QuotaTree", Base::Featured, entry_not_there),
    ("QuotaTree", Base::Featured, entry_not_named),
    ("QuotaUsage", Base::Featured, space),
    ("QuotaUsage", Base::Featured, inodes),
    ("QuotaUsage", Base::Featured, of_nobody),
    ("QuotaUsage", Base::Featured, owner_changed),
    ("QuotaEntryMissing", Base::Featured, entry_missing),
];

#[test]
fn each_is_found() {
    check_plants(PLANTS);
}

fn quota_ino(e: &Editor) -> Ino {
    e.quota(QuotaKind::User).0
}

fn missing(e: &Editor) -> Vec<Issue> {
    let (file, ino) = (quota_ino(e), e.unused_nid().as_ino());
    e.superblock(|raw| raw.qf_ino[0] = ino.get().into());
    // The file itself is nobody's now, and counts like any other.
    let issues = vec![Issue::QuotaMissing { ino, quota: "user" }, Issue::InodeUnreferenced { ino: file, links: 1 }];
    [issues, charged_to_root(e, file, QuotaKind::Group), charged_to_root(e, file, QuotaKind::Project)].concat()
}

fn wrong_type(e: &Editor) -> Vec<Issue> {
    let (file, ino) = (quota_ino(e), e.ino("p/fifo"));
    // A quota file needs no name, and is not charged.
    let blocks = e.read_inode(ino).0.blocks();
    assert_eq!((blocks, e.read_inode(ino).0.links()), (1, 1));
    e.superblock(|raw| raw.qf_ino[0] = ino.get().into());
    let links = Issue::InodeLinks { ino, stored: 1, found: 2 };
    let issues = vec![Issue::QuotaType { ino, quota: "user" }, Issue::InodeUnreferenced { ino: file, links: 1 }, links];
    let changed = |kind| {
        let mut issue = charged_to_root(e, file, kind);
        if let [Issue::QuotaUsage { found_inodes, .. }] = &mut issue[..] {
            *found_inodes -= 1;
        }
        // One inode came, one went; only the space differs.
        issue
    };
    [issues, changed(QuotaKind::Group), changed(QuotaKind::Project)].concat()
}

/// What is said when a file of root's is charged that was not.
fn charged_to_root(e: &Editor, file: Ino, kind: QuotaKind) -> Vec<Issue> {
    let (ino, entries) = e.quota(kind);
    let Usage { space, inodes } = entries[0].usage;
    let more = (e.read_inode(file).0.blocks() - 1) * 4096;
    vec![Issue::QuotaUsage {
        ino,
        quota: kind.name(),
        id: entries[0].id,
        stored_space: space,
        stored_inodes: inodes,
        found_space: space + more,
        found_inodes: inodes + 1,
    }]
}

fn header(e: &Editor, word: usize, value: u32, reason: &str) -> Vec<Issue> {
    let (ino, _) = e.quota(QuotaKind::Group);
    e.quota_words(QuotaKind::Group, &[(0, word, value)]);
    vec![Issue::QuotaHeader { ino, quota: "group", reason: reason.to_owned() }]
}

fn magic(e: &Editor) -> Vec<Issue> {
    let reason = "quota file: magic = 3653246737 breaks the rule: is that of its kind of quota";
    header(e, 0, 0xD9C0_1F11, reason)
}

fn version(e: &Editor) -> Vec<Issue> {
    header(e, 1, 0, "quota file: version = 0 breaks the rule: is 1")
}

fn blocks_beyond_the_size(e: &Editor) -> Vec<Issue> {
    header(e, 5, 1 << 31, "quota file: blocks = 2147483648 breaks the rule: is within the size of the file")
}

fn tree(e: &Editor, word: (u32, usize, u32), block: u32, reason: &'static str) -> Vec<Issue> {
    let (ino, _) = e.quota(QuotaKind::Project);
    e.quota_words(QuotaKind::Project, &[word]);
    vec![Issue::QuotaTree { ino, quota: "project", block, reason }]
}

fn block_beyond_the_end(e: &Editor) -> Vec<Issue> {
    tree(e, (1, 255, 9999), 9999, "the file does not have so many blocks")
}

fn circle(e: &Editor) -> Vec<Issue> {
    tree(e, (2, 255, 1), 1, "the block is in the tree twice")
}

/// Projects are the one of number 0, whose way is along the blocks 1 to 5.
fn entry_not_there(e: &Editor) -> Vec<Issue> {
    tree(e, (4, 9, 5), 5, "an entry that the tree names is not there")
}

fn entry_not_named(e: &Editor) -> Vec<Issue> {
    // Another entry in the block of the first, with an id that the tree does not know.
    let other = 4 + 18; // words: behind the header of the block and the first entry
    tree(e, (5, other, 77), 5, "an entry is not where the tree looks for it")
}

fn usage(e: &Editor, kind: QuotaKind, change: impl FnOnce(&mut Usage)) -> Vec<Issue> {
    let (ino, mut entries) = e.quota(kind);
    let found = entries[1].usage;
    change(&mut entries[1].usage);
    let stored = entries[1].usage;
    e.set_quota(kind, &entries);
    vec![Issue::QuotaUsage {
        ino,
        quota: kind.name(),
        id: entries[1].id,
        stored_space: stored.space,
        stored_inodes: stored.inodes,
        found_space: found.space,
        found_inodes: found.inodes,
    }]
}

fn space(e: &Editor) -> Vec<Issue> {
    usage(e, QuotaKind::User, |usage| usage.space += 4096)
}

fn inodes(e: &Editor) -> Vec<Issue> {
    usage(e, QuotaKind::Group, |usage| usage.inodes -= 1)
}

/// An entry of somebody who has no files.
fn of_nobody(e: &Editor) -> Vec<Issue> {
    let (ino, mut entries) = e.quota(QuotaKind::User);
    let last = entries.last_mut().expect("users");
    let (id, old) = (last.id - 1, *last);
    last.id = id;
    e.set_quota(QuotaKind::User, &entries);
    let Usage { space, inodes } = old.usage;
    vec![
        Issue::QuotaUsage {
            ino,
            quota: "user",
            id,
            stored_space: space,
            stored_inodes: inodes,
            found_space: 0,
            found_inodes: 0,
        },
        Issue::QuotaEntryMissing { ino, quota: "user", id: old.id, found_space: space, found_inodes: inodes },
    ]
}

/// A file that changed hands behind the quota's back.
fn owner_changed(e: &Editor) -> Vec<Issue> {
    let file = e.ino("p/data");
    let space = (e.read_inode(file).0.blocks() - 1) * 4096;
    e.inode(file, |inode| inode.set_gid(31));
    let (ino, entries) = e.quota(QuotaKind::Group);
    let usage = entries[0].usage;
    vec![
        Issue::QuotaUsage {
            ino,
            quota: "group",
            id: 0,
            stored_space: usage.space,
            stored_inodes: usage.inodes,
            found_space: usage.space - space,
            found_inodes: usage.inodes - 1,
        },
        Issue::QuotaEntryMissing { ino, quota: "group", id: 31, found_space: space, found_inodes: 1 },
    ]
}

fn entry_missing(e: &Editor) -> Vec<Issue> {
    let (ino, mut entries) = e.quota(QuotaKind::User);
    let gone = entries.remove(1);
    e.set_quota(QuotaKind::User, &entries);
    let Usage { space: found_space, inodes: found_inodes } = gone.usage;
    vec![Issue::QuotaEntryMissing { ino, quota: "user", id: gone.id, found_space, found_inodes }]
}
