//! Volumes with `journal=single`: what an fsync of anything made durable is there after a crash, without a checkpoint.

use crate::recovery::support::{
    DIR, FEATURES, FILE, Tree, Volume, assert_same, at, complaints, fresh, mount, recovered, seen, tree,
};
use std::sync::Arc;
use steadyfs_core::raw::Image;
use steadyfs_core::stats::VolumeStats;
use steadyfs_core::{Fs, InodeRef, NewInode, RenameFlags, SetAttr, XattrFlags};
use steadyfs_device::{Device, MemDevice, RecordingDevice};

fn on(args: &[&str], options: &str) -> Volume {
    let dev = Arc::new(fresh(args));
    let fs = mount(Arc::clone(&dev) as Arc<dyn Device>, &format!("journal=single{options}")).unwrap();
    Volume { dev, fs }
}

fn new(mode: u32) -> NewInode {
    NewInode { mode, ..NewInode::default() }
}

/// Checkpoints that fsyncs asked for, and fsyncs that the journal served.
fn served(fs: &Fs) -> (u64, u64) {
    let stats = fs.sync_stats();
    (stats.checkpoints.values().sum(), stats.journaled)
}

/// The tree without the sizes of directories: a replay lays their names out anew.
fn laid_out_anew(tree: Tree) -> Tree {
    let strip = |text: String| match text.find(") ").filter(|_| text.contains(" sectors, 0 None [")) {
        Some(at) => format!("{}{}", &text[..at], &text[text.find(" sectors").unwrap_or(at)..]),
        None => text,
    };
    tree.into_iter().map(|(path, text)| (path, strip(text))).collect()
}

/// The crashed volume shows what the one before the crash did, to readers and after a mount, and is stock then.
#[track_caller]
fn assert_recovers(v: &Volume, what: &str) {
    let (before, crashed) = (laid_out_anew(tree(&v.fs)), v.crash());
    assert!(Image::open(Arc::new(crashed.fork())).unwrap().superblocks().is_journaled(), "{what}: others refuse it");
    assert_same(&before, &laid_out_anew(seen(crashed.fork())), what);
    let (after, whole) = recovered(crashed);
    assert_same(&before, &laid_out_anew(after), what);
    assert_eq!(complaints(&whole), [""; 0], "{what}");
    assert!(!Image::open(Arc::new(whole)).unwrap().superblocks().is_journaled(), "{what}: a stock volume");
}

fn label(v: &Volume, path: &str, name: &[u8], size: usize) {
    v.fs.setxattr(&at(&v.fs, path), name, &vec![7; size], XattrFlags::default()).unwrap();
}

/// Gives a directory an ACL for what is made in it, by which this user may read there: `struct posix_acl_xattr_header`.
fn let_read(v: &Volume, path: &str, user: u32) {
    let entries = [(1, 7, u32::MAX), (2, 5, user), (4, 5, u32::MAX), (0x10, 5, u32::MAX), (0x20, 0, u32::MAX)];
    let entry = |(tag, permissions, id): (u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let acl = [2_u32.to_le_bytes().to_vec(), entries.into_iter().flat_map(entry).collect()].concat();
    v.fs.setxattr(&at(&v.fs, path), b"system.posix_acl_default", &acl, XattrFlags::default()).unwrap();
}

/// What it is, the directory to sync after it, and how it is done.
type Operation = (&'static str, &'static str, fn(&Volume));

/// Operations on names and attributes; after each the directory that it names is synced, and the volume crashes.
fn operations() -> Vec<Operation> {
    [on_names(), on_attributes_and_many_names()].concat()
}

fn on_names() -> Vec<Operation> {
    vec![
        ("create", "", |v| drop(v.make("new", FILE))),
        ("mkdir", "", |v| drop(v.make("dir", DIR))),
        ("create in a new directory", "dir", |v| drop(v.make("dir/a", FILE))),
        ("mkdir in it", "dir", |v| drop(v.make("dir/sub", DIR))),
        ("symlink", "dir", |v| drop(v.fs.symlink(&at(&v.fs, "dir"), b"link", b"../new", &new(0)).unwrap())),
        ("long symlink", "dir", |v| {
            drop(v.fs.symlink(&at(&v.fs, "dir"), b"long", &[b'x'; 4000], &new(0)).unwrap());
        }),
        ("fifo", "dir", |v| drop(v.make("dir/fifo", 0o010_600))),
        ("device", "dir", |v| {
            let device = steadyfs_format::inode::DeviceNumber { major: 300, minor: 7 };
            let order = NewInode { rdev: device, ..new(0o060_600) };
            drop(v.fs.create(&at(&v.fs, "dir"), b"disk", &order).unwrap());
        }),
        ("link", "", |v| v.fs.link(&at(&v.fs, "old"), &at(&v.fs, "dir"), b"second").unwrap()),
        ("unlink", "dir", |v| v.fs.unlink(&at(&v.fs, "dir"), b"second").unwrap()),
        ("unlink of the last name", "", |v| v.fs.unlink(&v.fs.root().unwrap(), b"victim").unwrap()),
        ("rename", "", |v| {
            v.fs.rename(&v.fs.root().unwrap(), b"old", &at(&v.fs, "dir"), b"moved", RenameFlags::Replace).unwrap();
        }),
        ("rename over", "dir", |v| {
            v.fsync(&at(&v.fs, "dir/moved"));
            v.fs.rename(&at(&v.fs, "dir"), b"moved", &v.fs.root().unwrap(), b"other", RenameFlags::Replace).unwrap();
        }),
        ("rename of a directory", "", |v| {
            v.fs.rename(&at(&v.fs, "dir"), b"sub", &v.fs.root().unwrap(), b"sub", RenameFlags::Replace).unwrap();
        }),
        ("exchange of a directory and a file", "dir", |v| {
            let (root, dir) = (v.fs.root().unwrap(), at(&v.fs, "dir"));
            v.fs.rename(&root, b"sub", &dir, b"fifo", RenameFlags::Exchange).unwrap();
        }),
        ("whiteout", "", |v| {
            let (root, dir) = (v.fs.root().unwrap(), at(&v.fs, "dir"));
            v.fs.rename_whiteout(&root, b"new", &dir, b"gone", RenameFlags::Replace, &new(0)).unwrap();
        }),
        ("rmdir", "dir", |v| v.fs.rmdir(&at(&v.fs, "dir"), b"fifo").unwrap()),
    ]
}

fn on_attributes_and_many_names() -> Vec<Operation> {
    vec![
        ("chmod and chown", "dir", |v| {
            let set = SetAttr { mode: Some(0o711), uid: Some(5), ..SetAttr::default() };
            v.fs.setattr(&at(&v.fs, "dir"), &set).unwrap();
        }),
        ("xattr of a directory", "dir", |v| label(v, "dir", b"user.a", 30)),
        ("ACL of a directory", "dir", |v| let_read(v, "dir", 1000)),
        ("large xattr", "dir", |v| label(v, "dir", b"user.b", 3000)),
        ("xattr removed", "dir", |v| v.fs.removexattr(&at(&v.fs, "dir"), b"user.b").unwrap()),
        ("xattr of a new file", "dir", |v| label(v, "dir/a", b"user.c", 100)),
        ("many names", "dir", |v| {
            for n in 0..300 {
                v.make(&format!("dir/a rather long name to fill pages with {n}"), FILE);
            }
        }),
        ("many names gone", "dir", |v| {
            for n in (0..300).filter(|n| n % 7 != 0) {
                let name = format!("a rather long name to fill pages with {n}");
                v.fs.unlink(&at(&v.fs, "dir"), name.as_bytes()).unwrap();
            }
        }),
        ("the same name again", "", |v| {
            v.fs.unlink(&v.fs.root().unwrap(), b"other").unwrap();
            v.make("other", DIR);
        }),
        ("came and went", "", |v| {
            v.make("short", DIR);
            v.make("short/lived", FILE);
            v.fs.unlink(&at(&v.fs, "short"), b"lived").unwrap();
            v.fs.rmdir(&v.fs.root().unwrap(), b"short").unwrap();
        }),
        ("tmpfile with a name", "dir", |v| {
            let file = v.fs.tmpfile(&at(&v.fs, "dir"), &new(FILE)).unwrap();
            v.fill(&file, 0, 5, b't');
            v.fsync(&file);
            v.fs.link(&file, &at(&v.fs, "dir"), b"named").unwrap();
        }),
    ]
}

fn old(v: &Volume) {
    for name in ["old", "other", "victim"] {
        v.file(name, 4);
    }
    v.fs.sync().unwrap();
}

fn every_operation(args: &[&str], options: &str) {
    let v = on(args, options);
    old(&v);
    let (checkpoints, _) = served(&v.fs);
    for (what, dir, run) in operations() {
        run(&v);
        v.fsync(&at(&v.fs, dir));
        assert_recovers(&v, what);
    }
    assert_eq!(served(&v.fs), (checkpoints, operations().len() as u64 + 2));
    // All of it again, in one batch.
    let all = on(args, options);
    old(&all);
    operations().into_iter().for_each(|(_, _, run)| run(&all));
    all.fsync(&all.fs.root().unwrap());
    assert_recovers(&all, "all at once");
    all.fs.unmount().unwrap();
    let image = Image::open(all.dev.clone()).unwrap();
    assert!(!image.superblocks().is_journaled(), "a clean end leaves a stock volume");
    assert_eq!(complaints(&all.dev), [""; 0]);
}

#[test]
fn every_operation_is_durable_with_its_directory() {
    every_operation(&[], "");
}

#[test]
fn with_rich_inodes_that_are_not_inline() {
    every_operation(FEATURES, ",noinline_data,noinline_dentry,noinline_xattr");
}

#[test]
fn in_the_holes_of_used_segments() {
    every_operation(FEATURES, ",mode=adaptive,ssr=eager");
}

#[test]
fn with_two_lists_in_turn() {
    every_operation(&[], ",journal=double");
}

#[test]
fn with_a_list_on_each_core() {
    every_operation(FEATURES, ",journal=percore,journal.stride=1");
}

/// Contents and names in turn: each fsync finds what the other ones left in the chain.
#[test]
fn contents_and_names_in_turn() {
    ["", ",journal=percore"].into_iter().for_each(take_turns);
}

fn take_turns(options: &str) {
    let v = on(FEATURES, options);
    old(&v);
    let root = v.fs.root().unwrap();
    for round in 0..20u8 {
        let name = format!("file {round}");
        let file = v.file(&name, 3);
        v.fsync(&file);
        assert_recovers(&v, "a new file");
        v.fs.link(&file, &root, format!("link {round}").as_bytes()).unwrap();
        v.fill(&file, 1, 4, round);
        v.fsync(&file);
        assert_recovers(&v, "two names");
        v.fs.unlink(&root, name.as_bytes()).unwrap();
        v.fs.setattr(&file, &SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
        v.fsync(&root);
        assert_recovers(&v, "the other name");
        v.fill(&file, 2, 1, b'!');
        v.fsync(&file);
        v.fs.rename(&root, format!("link {round}").as_bytes(), &root, b"other", RenameFlags::Replace).unwrap();
        v.fsync(&file);
        assert_recovers(&v, "in the place of another");
        if round % 5 == 4 {
            v.fs.sync().unwrap();
        }
    }
    assert_eq!(served(&v.fs).0, 0, "{:?}", v.fs.sync_stats());
}

/// A file that takes another's name with contents that were never synced keeps them: those of a small file go before
/// the name, and a checkpoint has those of a large one.
#[test]
fn contents_count_before_a_rename() {
    for (pages, checkpoints) in [(6, 0), (32, 0), (33, 1), (2000, 1)] {
        for (how, name) in [(RenameFlags::Replace, "other"), (RenameFlags::Exchange, "victim")] {
            let v = on(&[], "");
            old(&v);
            let root = v.fs.root().unwrap();
            v.file("fresh", pages);
            v.fs.rename(&root, b"fresh", &root, name.as_bytes(), how).unwrap();
            v.fsync(&root);
            assert_recovers(&v, "never synced");
            assert_eq!(served(&v.fs).0, checkpoints, "{pages} pages, {how:?}");
        }
    }
}

fn numbers(v: &Volume) -> VolumeStats {
    v.fs.stats()
}

/// What a number of calls cost in flushes and checkpoints.
fn cost(options: &str, rounds: u64, prepare: impl Fn(&Volume), round: impl Fn(&Volume, u64)) -> (u64, u64) {
    // So large that the segments that die meanwhile are few for it: many would make a checkpoint, if the machine is so
    // slow that the housekeeper looks.
    let dev = Arc::new(crate::common::mkfs(2048, &[]));
    let fs = mount(Arc::clone(&dev) as Arc<dyn Device>, options).unwrap();
    let v = Volume { dev, fs };
    prepare(&v);
    v.fs.sync().unwrap();
    let before = numbers(&v);
    (0..rounds).for_each(|n| round(&v, n));
    let after = numbers(&v);
    let shown = (tree(&v.fs), seen(v.crash()));
    assert_same(&shown.0, &shown.1, "everything was acknowledged");
    (after.io.flushes - before.io.flushes, after.checkpoints.committed - before.checkpoints.committed)
}

fn save(v: &Volume, tmp: &str, name: &str, n: u64) {
    let root = v.fs.root().unwrap();
    let file = v.file(tmp, 1 + n % 3);
    v.fsync(&file);
    v.fs.rename(&root, tmp.as_bytes(), &root, name.as_bytes(), RenameFlags::Replace).unwrap();
    v.fsync(&root);
}

type Round = fn(&Volume, u64);

/// The patterns for which an fsync is a checkpoint without the journal, and how many fsyncs they have: each flushes the
/// device once.
fn patterns() -> [(&'static str, u64, Round); 6] {
    [
        ("safe save", 2, |v, n| save(v, &format!("tmp {n}"), "file", n)),
        ("lock file", 2, |v, n| save(v, "file.lock", "file", n)),
        ("hard links", 1, |v, n| {
            let file = at(&v.fs, "linked");
            v.fill(&file, n % 7, 1, n as u8);
            v.fsync(&file);
        }),
        ("unsynced index and safe save", 2, |v, n| {
            let root = v.fs.root().unwrap();
            v.file("index.lock", 1 + n % 5);
            v.fs.rename(&root, b"index.lock", &root, b"file", RenameFlags::Replace).unwrap();
            save(v, "branch.lock", "branch", n);
        }),
        ("ACLs of directories", 1, |v, n| {
            let_read(v, "labelled", n as u32);
            v.fsync(&at(&v.fs, "labelled"));
        }),
        ("new directories", 1, |v, n| {
            v.make(&format!("dir {n}"), DIR);
            let file = v.file(&format!("dir {n}/first"), 1);
            v.fsync(&file);
        }),
    ]
}

fn linked(v: &Volume) {
    let file: InodeRef = v.file("linked", 7);
    v.fs.link(&file, &v.fs.root().unwrap(), b"again").unwrap();
    v.file("file", 2);
    v.make("labelled", DIR);
}

#[test]
fn a_thousand_saves_make_no_checkpoint() {
    for (what, fsyncs, round) in patterns() {
        // What the timers add depends on how long the machine takes: contents of 30 seconds ago make a checkpoint.
        let (flushes, checkpoints) = cost("journal=single,journal.commit=0,commit=0", 1000, linked, round);
        assert_eq!(checkpoints, 0, "{what}");
        assert_eq!(flushes, 1000 * fsyncs, "{what}");
        let (_, without) = cost("", 20, linked, round);
        assert!(without >= 19, "{what}: only {without} checkpoints without the journal");
    }
}

/// Threads that make files, label them and sync their directories, far more than a small journal holds: it is emptied
/// by checkpoints, nobody hangs, and what was synced is there.
#[test]
fn a_small_journal_is_emptied_and_never_hangs() {
    const THREADS: usize = 4;
    const FILES: usize = 1500;
    for form in ["single", "double", "percore"] {
        let dev = Arc::new(crate::common::mkfs(256, &[]));
        let fs = mount(Arc::clone(&dev) as Arc<dyn Device>, &format!("journal={form},journal.size=8M")).unwrap();
        let v = Volume { dev, fs };
        let dirs: Vec<InodeRef> = (0..THREADS).map(|n| v.make(&format!("d{n}"), DIR)).collect();
        let work = |dir: &InodeRef| {
            for n in 0..FILES {
                let file = v.fs.create(dir, format!("file {n}").as_bytes(), &new(FILE)).unwrap();
                v.fs.setxattr(&file, b"user.long", &[7; 3000], XattrFlags::default()).unwrap();
                if n % 250 == 249 {
                    v.fsync(dir);
                }
            }
        };
        std::thread::scope(|threads| dirs.iter().for_each(|dir| drop(threads.spawn(|| work(dir)))));
        let stats = v.fs.sync_stats();
        let full = stats.checkpoints["journal"] + v.fs.checkpoint_stats().causes["backlog"];
        assert!(full > 0, "{form}: it was never full: {stats:?}");
        assert!(stats.journaled > 0, "{form}: it never served: {stats:?}");
        let shown = tree(&v.fs);
        assert_same(&laid_out_anew(shown), &laid_out_anew(seen(v.crash())), form);
    }
}

/// Contents that fit the inode, of files that were made and never synced: however they got them and their names, also
/// where a checkpoint came between file and contents. An fsync of something else is enough.
#[test]
fn small_new_files_have_their_contents_when_they_have_their_names() {
    for args in [&[][..], FEATURES] {
        let v = on(args, "");
        let root = v.fs.root().unwrap();
        let put = |path: &str, bytes: &[u8]| {
            let file = v.make(path, FILE);
            v.fs.write(&file, 0, bytes).unwrap();
            file
        };
        v.make("early", FILE);
        let handle = v.fs.tmpfile(&root, &new(FILE)).unwrap();
        v.fs.sync().unwrap();
        v.fs.write(&at(&v.fs, "early"), 0, b"written behind a checkpoint").unwrap();
        put("moved.lock", b"ref: refs/heads/master");
        v.fs.rename(&root, b"moved.lock", &root, b"moved", RenameFlags::NoReplace).unwrap();
        let grown = put("grown", &[1; 2000]);
        v.fs.append(&grown, &[2; 1000]).unwrap();
        v.fs.setattr(&grown, &SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
        v.fs.write(&handle, 0, b"without a name").unwrap();
        v.fs.link(&handle, &root, b"linked").unwrap();
        let fresh = v.fs.tmpfile(&root, &new(FILE)).unwrap();
        v.fs.write(&fresh, 0, b"new, and without a name").unwrap();
        v.fs.link(&fresh, &root, b"linked too").unwrap();
        v.fs.symlink(&root, b"link", b"where/it/leads", &new(0o777)).unwrap();
        put("zeros", &[0; 700]);
        put("synced", b"first");
        v.fsync(&at(&v.fs, "synced"));
        let before = served(&v.fs);
        v.fsync(&v.make("d", DIR));
        assert_eq!((served(&v.fs).0, before.0), (0, 0), "no checkpoint did it");
        assert_recovers(&v, "small files");
        // What a batch does not carry: contents that went, and those of a file that outgrew its inode.
        let truncate = SetAttr { size: Some(0), ..SetAttr::default() };
        v.fs.setattr(&at(&v.fs, "moved"), &truncate).unwrap();
        put("large", &[3; 9000]);
        v.fsync(&root);
        let crashed = mount(Arc::new(v.crash()), "").unwrap();
        let size = |name: &str| crashed.attr(&at(&crashed, name)).unwrap().size;
        assert_eq!((size("moved"), size("large")), (22, 0));
    }
}

/// Whoever syncs beside somebody who overwrites new files carries their contents once.
#[test]
fn a_batch_carries_contents_of_a_new_file_once() {
    const OTHERS: usize = 500;
    let v = on(&[], "");
    let put = |n: usize, byte: u8| {
        assert_eq!(v.fs.write(&at(&v.fs, &format!("other {n}")), 0, &[byte; 100]).unwrap(), 100);
    };
    for n in 0..OTHERS {
        v.make(&format!("other {n}"), FILE);
        put(n, 1);
    }
    v.fsync(&v.make("first", DIR));
    let before = numbers(&v).journal.blocks;
    for turn in 2..5 {
        (0..OTHERS).for_each(|n| put(n, turn));
        v.fsync(&v.make(&format!("dir {turn}"), DIR));
    }
    let blocks = numbers(&v).journal.blocks - before;
    assert!(blocks <= 6, "{blocks} blocks for three directories");
    assert_eq!(served(&v.fs).0, 0, "no checkpoint did it");
    let crashed = mount(Arc::new(v.crash()), "").unwrap();
    for n in 0..OTHERS {
        let mut contents = [0; 100];
        crashed.read(&at(&crashed, &format!("other {n}")), 0, &mut contents).unwrap();
        assert_eq!(contents, [1; 100], "file {n} has the contents that came with its name");
    }
}

/// A name that takes the place of another comes with all contents, also those that came behind the batch that had the
/// first.
#[test]
fn a_rename_comes_behind_contents_that_no_batch_carries_again() {
    let v = on(&[], "");
    let root = v.fs.root().unwrap();
    let file = v.make("file", FILE);
    v.fs.write(&file, 0, b"old").unwrap();
    v.fsync(&file);
    let new = v.make("file.lock", FILE);
    v.fs.write(&new, 0, b"the first half").unwrap();
    v.fsync(&v.make("d", DIR));
    v.fs.append(&new, b" and the second").unwrap();
    v.fs.rename(&root, b"file.lock", &root, b"file", RenameFlags::Replace).unwrap();
    v.fsync(&v.make("d2", DIR));
    let crashed = mount(Arc::new(v.crash()), "").unwrap();
    let mut contents = [0; 29];
    assert_eq!(crashed.read(&at(&crashed, "file"), 0, &mut contents).unwrap(), 29);
    assert_eq!(&contents, b"the first half and the second");
}

/// Nothing touches the superblock of a volume without a journal.
#[test]
fn a_volume_without_a_journal_keeps_its_superblock() {
    let dev = Arc::new(RecordingDevice::new(fresh(&[])));
    let fs = mount(Arc::clone(&dev) as Arc<dyn Device>, "").unwrap();
    let v = fs.create(&fs.root().unwrap(), b"a", &new(FILE)).unwrap();
    fs.fsync(&v, false).unwrap();
    drop(v);
    fs.unmount().unwrap();
    assert_eq!(fs.journal_stats(), steadyfs_core::JournalStats::default());
    assert!(dev.log().iter().all(|record| record.extent.0 > 1 || record.extent.1 == 0), "blocks 0 and 1");
}

/// Changing the option in turn: each mount replays what the one before it left.
#[test]
fn mounts_with_and_without_a_journal_take_turns() {
    let mut dev: MemDevice = fresh(FEATURES);
    for (n, options) in ["journal=single", "", "journal=double", "journal=percore", ""].into_iter().enumerate() {
        let shared = Arc::new(dev);
        let fs = mount(Arc::clone(&shared) as Arc<dyn Device>, options).unwrap();
        let v = Volume { dev: shared, fs };
        let dir = v.make(&format!("dir {n}"), DIR);
        let file = v.file(&format!("dir {n}/file"), 3);
        v.fsync(&file);
        v.fsync(&dir);
        let shown = tree(&v.fs);
        assert_eq!(shown.len(), 1 + 2 * (n + 1), "all of the mounts before");
        dev = v.crash();
        assert_same(&shown, &seen(dev.fork()), options);
    }
}
