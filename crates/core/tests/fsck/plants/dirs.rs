//! Faults of directories and their entries.

use super::{Base, Plant, check_plants};
use crate::editor::{Editor, Entry};
use steadyfs_core::fsck::Issue;
use steadyfs_format::bitmap::lsb;
use steadyfs_format::dir::{FileType, bucket_of, bucket_of_page, name_hash};
use steadyfs_format::{Ino, PageIndex, ROOT_INO};

pub(super) const PLANTS: &[Plant] = &[
    ("RootNamed", Base::Plain, root_named),
    ("DirDepth", Base::Plain, depth),
    ("DirSize", Base::Plain, size_not_whole),
    ("DirSize", Base::Plain, size_too_small),
    ("DirParent", Base::Plain, parent),
    ("DirNames", Base::Plain, names),
    ("DotMissing", Base::Plain, |e| dot_missing(e, "p/empty", ".")),
    ("DotMissing", Base::Plain, |e| dot_missing(e, "p/big", "..")),
    ("DotTwice", Base::Plain, dot_twice),
    ("DotWrong", Base::Plain, |e| dot_wrong(e, ".", "p/dir/sub", ROOT_INO)),
    ("DotWrong", Base::Plain, |e| dot_wrong(e, "..", "p/dir", ROOT_INO)),
    ("DotWrong", Base::Plain, |e| dot_wrong(e, ".", "p/dir/sub", Ino(0))),
    ("DotWrong", Base::Plain, |e| dot_wrong(e, "..", "p/dir", Ino(0))),
    ("DentryNameLen", Base::Plain, name_too_long),
    ("DentryNameLen", Base::Plain, name_beyond_the_end),
    ("DentryNameLen", Base::Plain, name_empty),
    ("DentrySlots", Base::Plain, slots_free),
    ("DentrySlots", Base::Plain, slots_of_another),
    ("DentryName", Base::Plain, name_with_slash),
    ("DentryHash", Base::Plain, hash),
    ("DentryHash", Base::Plain, hash_of_dot),
    ("DentryBucket", Base::Plain, bucket),
    ("DentryLevel", Base::Plain, level),
    ("DentryIno", Base::Plain, ino_unused),
    ("DentryIno", Base::Plain, ino_of_a_node),
    ("DentryType", Base::Plain, type_of_another),
    ("DentryType", Base::Featured, type_unknown),
    ("DentryTwice", Base::Plain, twice),
];

#[test]
fn each_is_found() {
    check_plants(PLANTS);
}

/// Page of an entry as issues give it.
fn page_of(entry: &Entry) -> PageIndex {
    PageIndex(entry.page.unwrap_or(0).into())
}

fn root_named(e: &Editor) -> Vec<Issue> {
    let dir = e.ino("p/empty");
    e.add_name(dir, b"up", ROOT_INO, FileType::Dir);
    e.inode(ROOT_INO, |inode| inode.set_links(inode.links() - 1));
    vec![Issue::RootNamed { ino: ROOT_INO, dir }]
}

fn depth(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/big");
    e.inode(ino, |inode| inode.set_current_depth(64));
    vec![Issue::DirDepth { ino, depth: 64 }]
}

fn size_not_whole(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/big");
    let size = e.read_inode(ino).0.size();
    e.inode(ino, |inode| inode.set_size(size + 1));
    vec![Issue::DirSize { ino, size: size + 1, blocks: size / 4096 }]
}

fn size_too_small(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/big");
    let blocks = e.read_inode(ino).0.size() / 4096;
    e.inode(ino, |inode| inode.set_size(4096));
    vec![Issue::DirSize { ino, size: 4096, blocks }]
}

fn parent(e: &Editor) -> Vec<Issue> {
    let (ino, parent) = (e.ino("p/dir/sub"), e.ino("p/dir"));
    e.inode(ino, |inode| inode.set_pino(ROOT_INO));
    vec![Issue::DirParent { ino, stored: ROOT_INO.get(), parent }]
}

/// A second name in a directory with a lower number, so that the first one counts.
fn names(e: &Editor) -> Vec<Issue> {
    let [p, dir, sub] = ["p", "p/dir", "p/dir/sub"].map(|path| e.ino(path));
    assert!(p < dir);
    e.add_name(p, b"sub-too", sub, FileType::Dir);
    e.inode(sub, |inode| inode.set_links(inode.links() - 1));
    e.inode(p, |inode| inode.set_links(inode.links() + 1));
    vec![Issue::DirNames { ino: sub, names: 2 }]
}

fn dot_missing(e: &Editor, path: &str, name: &'static str) -> Vec<Issue> {
    let ino = e.ino(path);
    e.remove_name(ino, name);
    vec![Issue::DotMissing { ino, name }]
}

fn dot_twice(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/empty");
    let first = e.entry(ino, ".");
    e.dentries(ino, first.page, |entries| entries.insert(0, b".", ino, FileType::Dir)).expect("there is room");
    vec![Issue::DotTwice { ino, name: "." }]
}

fn dot_wrong(e: &Editor, name: &'static str, expected: &str, found: Ino) -> Vec<Issue> {
    let (ino, expected) = (e.ino("p/dir/sub"), e.ino(expected));
    let entry = e.entry(ino, name);
    e.dentries(ino, entry.page, |entries| entries.set_target(entry.slot, found, FileType::Dir));
    vec![Issue::DotWrong { ino, name, found: found.get(), expected: expected.get() }]
}

/// A name more for an ordinary file, of this many bytes, in a directory with room. Returns directory, file and entry.
fn extra_name(e: &Editor, name: &str) -> (Ino, Ino, Entry) {
    let (dir, file) = (e.ino("p/empty"), e.ino("p/other"));
    e.add_name(dir, name.as_bytes(), file, FileType::Regular);
    let entry = e.entry(dir, name);
    (dir, file, entry)
}

fn set_name_len(e: &Editor, dir: Ino, entry: &Entry, length: u16) {
    e.record(dir, entry.page, entry.slot, |record| record[8..10].copy_from_slice(&length.to_le_bytes()));
}

/// The name does not count any more.
fn without_link(e: &Editor, file: Ino) {
    e.inode(file, |inode| inode.set_links(inode.links() - 1));
}

fn name_too_long(e: &Editor) -> Vec<Issue> {
    let (ino, file, entry) = extra_name(e, "seven77");
    set_name_len(e, ino, &entry, 256);
    without_link(e, file);
    vec![Issue::DentryNameLen { ino, page: page_of(&entry), slot: entry.slot, found: 256 }]
}

/// The last slot of the area says that its name goes on.
fn name_beyond_the_end(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/empty");
    let slots = e.dentries(ino, None, |entries| entries.read().layout().slots());
    let entry = Entry { name: Vec::new(), ino, page: None, slot: slots - 1 };
    e.area(ino, None, |area| lsb::put(area, entry.slot.into(), true));
    set_name_len(e, ino, &entry, 9);
    vec![Issue::DentryNameLen { ino, page: page_of(&entry), slot: entry.slot, found: 9 }]
}

fn name_empty(e: &Editor) -> Vec<Issue> {
    let (ino, file, entry) = extra_name(e, "seven77");
    set_name_len(e, ino, &entry, 0);
    without_link(e, file);
    vec![Issue::DentryNameLen { ino, page: page_of(&entry), slot: entry.slot, found: 0 }]
}

fn slots_free(e: &Editor) -> Vec<Issue> {
    let name = "a name of four slots, 31 bytes.";
    let (ino, _, entry) = extra_name(e, name);
    e.area(ino, entry.page, |area| lsb::put(area, usize::from(entry.slot) + 2, false));
    vec![Issue::DentrySlots { ino, page: page_of(&entry), slot: entry.slot, name: name.to_owned() }]
}

fn slots_of_another(e: &Editor) -> Vec<Issue> {
    let name = "a name of four slots, 31 bytes.";
    let (ino, _, entry) = extra_name(e, name);
    let second = Entry { slot: entry.slot + 1, ..entry.clone() };
    set_name_len(e, ino, &second, 3);
    vec![Issue::DentrySlots { ino, page: page_of(&entry), slot: entry.slot, name: name.to_owned() }]
}

fn name_with_slash(e: &Editor) -> Vec<Issue> {
    let (ino, _, entry) = extra_name(e, "a/b");
    vec![Issue::DentryName { ino, page: page_of(&entry), slot: entry.slot, name: "a/b".to_owned() }]
}

fn hash(e: &Editor) -> Vec<Issue> {
    let (ino, _, entry) = extra_name(e, "name");
    e.record(ino, entry.page, entry.slot, |record| record[0] ^= 1);
    let computed = name_hash(b"name");
    vec![Issue::DentryHash { ino, name: "name".to_owned(), stored: computed ^ 1, computed }]
}

fn hash_of_dot(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/empty");
    let entry = e.entry(ino, "..");
    e.record(ino, entry.page, entry.slot, |record| record[0] = 1);
    vec![Issue::DentryHash { ino, name: "..".to_owned(), stored: 1, computed: 0 }]
}

/// A page of the large directory on a level with several buckets, with its number.
fn deep_page(e: &Editor) -> (Ino, Entry) {
    let ino = e.ino("p/big");
    let is_deep = |entry: &Entry| entry.page.is_some_and(|page| page >= 2);
    (ino, e.entries(ino).into_iter().find(is_deep).expect("the directory has more than one level"))
}

/// A name changes into one of the same length that belongs in another bucket.
fn bucket(e: &Editor) -> Vec<Issue> {
    let (ino, entry) = deep_page(e);
    let page = page_of(&entry);
    let level = e.read_inode(ino).0.dir_level();
    let right = bucket_of_page(page, level).expect("a bucket");
    let length = entry.name.len();
    let candidates = (0..).map(|number| format!("{number:0length$}"));
    let wrong = |name: &String| bucket_of(name_hash(name.as_bytes()), right.level, level) != right;
    let name = candidates.into_iter().find(wrong).expect("half of all names");
    e.area(ino, entry.page, |area| {
        let at = area.len() - 214 * 8 + usize::from(entry.slot) * 8;
        area[at..at + length].copy_from_slice(name.as_bytes());
    });
    e.record(ino, entry.page, entry.slot, |record| {
        record[..4].copy_from_slice(&name_hash(name.as_bytes()).to_le_bytes())
    });
    vec![Issue::DentryBucket { ino, page, name }]
}

fn level(e: &Editor) -> Vec<Issue> {
    let ino = e.ino("p/big");
    e.inode(ino, |inode| inode.set_current_depth(1));
    let deep = e.entries(ino).into_iter().filter(|entry| page_of(entry) >= PageIndex(2));
    let name = |entry: &Entry| String::from_utf8(entry.name.clone()).expect("ASCII");
    let issues: Vec<_> =
        deep.map(|entry| Issue::DentryLevel { ino, page: page_of(&entry), name: name(&entry), depth: 1 }).collect();
    assert!(issues.len() > 200);
    issues
}

fn ino_unused(e: &Editor) -> Vec<Issue> {
    let (dir, target) = (e.ino("p/empty"), e.unused_nid().as_ino());
    e.dentries(dir, None, |entries| entries.insert(name_hash(b"x"), b"x", target, FileType::Regular))
        .expect("there is room");
    vec![Issue::DentryIno { ino: dir, name: "x".to_owned(), target: target.get() }]
}

fn ino_of_a_node(e: &Editor) -> Vec<Issue> {
    let dir = e.ino("p/empty");
    let target = e.read_inode(e.ino("p/large")).0.children()[0].as_ino();
    e.dentries(dir, None, |entries| entries.insert(name_hash(b"x"), b"x", target, FileType::Regular))
        .expect("there is room");
    vec![Issue::DentryIno { ino: dir, name: "x".to_owned(), target: target.get() }]
}

fn type_of_another(e: &Editor) -> Vec<Issue> {
    let (ino, file, entry) = extra_name(e, "name");
    e.record(ino, entry.page, entry.slot, |record| record[10] = FileType::Socket.to_disk());
    vec![Issue::DentryType { ino, name: "name".to_owned(), target: file.get(), stored: 6, expected: 1 }]
}

fn type_unknown(e: &Editor) -> Vec<Issue> {
    let (ino, file, entry) = extra_name(e, "name");
    e.record(ino, entry.page, entry.slot, |record| record[10] = 9);
    vec![Issue::DentryType { ino, name: "name".to_owned(), target: file.get(), stored: 9, expected: 1 }]
}

fn twice(e: &Editor) -> Vec<Issue> {
    let (ino, file, _) = extra_name(e, "name");
    e.add_name(ino, b"name", file, FileType::Regular);
    vec![Issue::DentryTwice { ino, name: "name".to_owned() }]
}
