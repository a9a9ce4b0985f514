//! Names, directories, and how long an inode lives.

use super::*;
use crate::wire::abi::{BatchForgetIn, Dirent, ForgetOne, LinkIn, MkdirIn, MknodIn, Rename2In, RenameIn};
use crate::wire::flags::linux::{RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT};
use steadyfs_core::MountOptions;
use steadyfs_device::{Device, DeviceInfo, MemDevice, Op, Request};

const RW: OFlags = OFlags::RDWR;

impl Client {
    fn mkdir(&self, dir: u64, name: &[u8]) -> Result<EntryOut, Errno> {
        self.ask(Opcode::Mkdir, dir, &MkdirIn { mode: 0o755, umask: 0 }, &[name]).map(|body| one(&body))
    }

    fn rename2(&self, dir: u64, names: [&[u8]; 2], flags: u32) -> Body {
        self.ask(Opcode::Rename2, dir, &Rename2In { newdir: dir, flags, padding: 0 }, &names)
    }

    /// Everything in a directory with one reply of `size` bytes after the other: names, inode numbers, and node ids
    /// where there are.
    fn list(&self, opcode: Opcode, dir: u64, size: u32) -> Vec<(Vec<u8>, u64, u64)> {
        let lead = if opcode == Opcode::Readdirplus { size_of::<EntryOut>() } else { 0 };
        let (mut found, mut offset) = (Vec::new(), 0);
        loop {
            let body = self.ask(opcode, dir, &read_in(offset, size), &[]).unwrap();
            assert!(body.len() <= size as usize && body.len().is_multiple_of(8), "{} bytes for {size}", body.len());
            let mut rest = &body[..];
            if rest.is_empty() {
                return found;
            }
            while !rest.is_empty() {
                let node = if lead > 0 { one::<EntryOut>(rest).nodeid } else { 0 };
                let head: Dirent = one(&rest[lead..]);
                let start = lead + size_of::<Dirent>();
                let name = &rest[start..start + head.namelen as usize];
                found.push((name.to_vec(), head.ino, node));
                offset = head.off;
                rest = &rest[(start + name.len()).next_multiple_of(8)..];
            }
        }
    }
}

#[test]
fn made_things_are_found_under_the_same_number() {
    let client = Client::new();
    let (made, open) = client.create(ROOT, b"file", RW).unwrap();
    assert_eq!((made.attr.mode, made.attr.nlink, open.fh), (0o100_644, 1, 1));
    let found = client.lookup(ROOT, b"file").unwrap();
    assert_eq!((found.nodeid, found.generation, found.attr.ino), (made.nodeid, made.generation, made.nodeid));
    assert!(found.entry_valid > 0 && found.attr_valid > 0);
    let node = client
        .ask(Opcode::Mknod, ROOT, &MknodIn { mode: 0o020_600, rdev: 0x10_0803, umask: 0, padding: 0 }, &[b"dev"])
        .unwrap();
    assert_eq!((one::<EntryOut>(&node).attr.rdev, one::<EntryOut>(&node).attr.mode), (0x10_0803, 0o020_600));
    let link = client.ask(Opcode::Symlink, ROOT, &(), &[b"link", b"some/target"]).unwrap();
    assert_eq!(client.ask(Opcode::Readlink, one::<EntryOut>(&link).nodeid, &(), &[]).unwrap(), b"some/target");
    assert_eq!(client.create(ROOT, b"file", RW | OFlags::EXCL).unwrap_err(), Errno::EXIST);
    assert_eq!(client.create(ROOT, b"file", RW).unwrap().0.nodeid, made.nodeid);
}

#[test]
fn a_name_that_is_not_there_may_be_remembered() {
    let missing = Client::new().lookup(ROOT, b"nothing").unwrap();
    assert_eq!(missing.nodeid, 0);
    assert!(missing.entry_valid > 0);
}

#[test]
fn numbers_lead_back_through_dots() {
    let client = Client::new();
    let (outer, inner) = (client.mkdir(ROOT, b"outer").unwrap(), client.mkdir(ROOT, b"outer2").unwrap());
    let deep = client.mkdir(outer.nodeid, b"deep").unwrap();
    assert_eq!(client.lookup(deep.nodeid, b".").unwrap().nodeid, deep.nodeid);
    assert_eq!(client.lookup(deep.nodeid, b"..").unwrap().nodeid, outer.nodeid);
    // The kernel's root has generation 0, and is not counted.
    let root = client.lookup(inner.nodeid, b"..").unwrap();
    assert_eq!((root.nodeid, root.generation), (ROOT, 0));
    assert_eq!(client.counts(), (3, 0));
    for nobody in [99_999, u64::MAX, 0] {
        assert_eq!(client.lookup(nobody, b".").unwrap_err(), Errno::STALE, "{nobody}");
        assert_eq!(client.attr(nobody).unwrap_err(), Errno::STALE);
    }
}

#[test]
fn counts_go_up_with_each_reply_and_down_with_forget() {
    let client = Client::new();
    let (file, open) = client.create(ROOT, b"file", OFlags::RDONLY).unwrap();
    client.ask(Opcode::Release, file.nodeid, &[open.fh, 0, 0], &[]).unwrap();
    client.lookup(ROOT, b"file").unwrap();
    let link = client.ask(Opcode::Link, ROOT, &LinkIn { oldnodeid: file.nodeid }, &[b"other"]).unwrap();
    assert_eq!(one::<EntryOut>(&link).attr.nlink, 2);
    client.forget(file.nodeid, 2);
    assert_eq!(client.counts(), (1, 0));
    client.forget(file.nodeid, 1);
    assert_eq!(client.counts(), (0, 0));
    // More than was given, and of what nobody knows: said, and survived.
    client.forget(file.nodeid, 5);
    client.forget(ROOT, 1);
    let (a, b) = (client.lookup(ROOT, b"file").unwrap(), client.mkdir(ROOT, b"dir").unwrap());
    let batch = [ForgetOne { nodeid: a.nodeid, nlookup: 1 }, ForgetOne { nodeid: b.nodeid, nlookup: 1 }];
    let body = [BatchForgetIn { count: 2, dummy: 0 }.as_bytes(), batch.as_bytes()].concat();
    assert_eq!(client.send(&client.message(Opcode::BatchForget as u32, 0, &body)), None);
    assert_eq!(client.counts(), (0, 0));
}

#[test]
fn an_unlinked_file_lives_until_it_is_forgotten() {
    let client = Client::new();
    let (file, _) = client.create(ROOT, b"file", RW).unwrap();
    client.write(file.nodeid, 0, b"contents", 0).unwrap();
    client.unlink(ROOT, b"file").unwrap();
    assert_eq!(client.counts(), (1, 1));
    assert_eq!(client.read(file.nodeid, 0, 100).unwrap(), b"contents");
    assert_eq!(client.attr(file.nodeid).unwrap().nlink, 0);
    client.write(file.nodeid, 8, b" more", 0).unwrap();
    client.forget(file.nodeid, 1);
    // Not before the file open for writing is closed too, though the kernel always does that first.
    assert_eq!(client.read(file.nodeid, 0, 100).unwrap(), b"contents more");
    client.ask(Opcode::Release, file.nodeid, &[1u64, 0, 0], &[]).unwrap();
    assert_eq!(client.counts(), (0, 0));
    assert_eq!(client.attr(file.nodeid).unwrap_err(), Errno::STALE);
}

#[test]
fn removed_directories_and_replaced_files_live_as_long() {
    let client = Client::new();
    let dir = client.mkdir(ROOT, b"dir").unwrap();
    client.ask(Opcode::Rmdir, ROOT, &(), &[b"dir"]).unwrap();
    let (old, open) = client.create(ROOT, b"old", OFlags::RDONLY).unwrap();
    client.ask(Opcode::Release, old.nodeid, &[open.fh, 0, 0], &[]).unwrap();
    client.create(ROOT, b"new", OFlags::RDONLY).unwrap();
    client.ask(Opcode::Rename, ROOT, &RenameIn { newdir: ROOT }, &[b"new", b"old"]).unwrap();
    assert_eq!(client.counts(), (3, 2));
    for node in [dir.nodeid, old.nodeid] {
        assert_eq!(client.attr(node).unwrap().nlink, 0);
        client.forget(node, 1);
        assert_eq!(client.attr(node).unwrap_err(), Errno::STALE);
    }
}

#[test]
fn a_file_without_name_can_get_one() {
    let client = Client::new();
    let fixed = CreateIn { flags: RW.bits(), mode: 0o100_600, umask: 0, open_flags: 0 };
    let made = || {
        let reply = client.ask(Opcode::Tmpfile, ROOT, &fixed, &[b""]).unwrap();
        (one::<EntryOut>(&reply), one::<OpenOut>(&reply[size_of::<EntryOut>()..]).fh)
    };
    let ((kept, kept_fh), (lost, lost_fh)) = (made(), made());
    assert_eq!((kept.attr.nlink, client.counts()), (0, (2, 2)));
    client.ask(Opcode::Link, ROOT, &LinkIn { oldnodeid: kept.nodeid }, &[b"kept"]).unwrap();
    for (node, fh, count) in [(kept.nodeid, kept_fh, 2), (lost.nodeid, lost_fh, 1)] {
        client.ask(Opcode::Release, node, &[fh, 0, 0], &[]).unwrap();
        client.forget(node, count);
    }
    assert_eq!(client.lookup(ROOT, b"kept").unwrap().nodeid, kept.nodeid);
    assert_eq!(client.attr(lost.nodeid).unwrap_err(), Errno::STALE);
}

#[test]
fn rename_flags_are_honoured() {
    let client = Client::new();
    let (a, b) = (client.mkdir(ROOT, b"a").unwrap(), client.mkdir(ROOT, b"b").unwrap());
    assert_eq!(client.rename2(ROOT, [b"a", b"b"], RENAME_NOREPLACE).unwrap_err(), Errno::EXIST);
    client.rename2(ROOT, [b"a", b"b"], RENAME_EXCHANGE).unwrap();
    assert_eq!(client.lookup(ROOT, b"a").unwrap().nodeid, b.nodeid);
    client.rename2(ROOT, [b"a", b"b"], 0).unwrap();
    assert_eq!((client.lookup(ROOT, b"b").unwrap().nodeid, client.lookup(ROOT, b"a").unwrap().nodeid), (b.nodeid, 0));
    assert_eq!(client.attr(a.nodeid).unwrap().nlink, 0);
    assert_eq!(client.rename2(ROOT, [b"b", b"c"], 8).unwrap_err(), Errno::INVAL);
}

#[test]
fn a_rename_may_leave_a_whiteout_of_the_caller() {
    let client = Client::new();
    let a = client.mkdir(ROOT, b"a").unwrap();
    let refused = client.rename2(ROOT, [b"a", b"a"], RENAME_WHITEOUT | RENAME_EXCHANGE).unwrap_err();
    assert_eq!(refused, Errno::INVAL);
    client.rename2(ROOT, [b"a", b"b"], RENAME_WHITEOUT | RENAME_NOREPLACE).unwrap();
    assert_eq!(client.lookup(ROOT, b"b").unwrap().nodeid, a.nodeid);
    let left = client.lookup(ROOT, b"a").unwrap().attr;
    assert_eq!((left.mode, left.rdev, left.nlink), (0o020_000, 0, 1));
    assert_eq!(client.rename2(ROOT, [b"b", b"a"], RENAME_WHITEOUT | RENAME_NOREPLACE).unwrap_err(), Errno::EXIST);
    assert_eq!(client.rename2(ROOT, [b"b", b"a"], RENAME_WHITEOUT).unwrap_err(), Errno::NOTDIR);
}

#[test]
fn directories_are_listed_whole_whatever_the_buffer() {
    let client = Client::new();
    let names: Vec<Vec<u8>> = (0..50).map(|n| format!("{n}-{}", "x".repeat(n * 5)).into_bytes()).collect();
    for name in &names {
        client.mkdir(ROOT, name).unwrap();
    }
    let dots = [b".".to_vec(), b"..".to_vec()];
    let mut expected: Vec<Vec<u8>> = names.iter().cloned().chain(dots.clone()).collect();
    expected.sort();
    let (plain, plus) = (Opcode::Readdir, Opcode::Readdirplus);
    for (opcode, size) in [(plain, 4096), (plain, 296), (plus, 4096), (plus, 424)] {
        let before = client.counts();
        let listed = client.list(opcode, ROOT, size);
        let mut found: Vec<Vec<u8>> = listed.iter().map(|(name, ..)| name.clone()).collect();
        found.sort();
        assert_eq!(found, expected, "with {opcode:?} and {size} bytes");
        assert_eq!(client.counts(), before);
        for (name, ino, node) in listed {
            let attributes = opcode == plus && !dots.contains(&name);
            assert_eq!(node, if attributes { ino } else { 0 }, "{}", String::from_utf8_lossy(&name));
        }
    }
    // Once made, and once for each of two listings with attributes: no more, no less.
    let (node, name) = (client.lookup(ROOT, &names[7]).unwrap().nodeid, &names[7]);
    client.forget(node, 4);
    assert_eq!(client.counts().0, names.len() - 1);
    client.lookup(ROOT, name).unwrap();
    assert_eq!(client.counts().0, names.len());
}

#[test]
fn the_caller_owns_what_it_makes() {
    let mut client = Client::new();
    client.uid = 1234;
    let made = client.mkdir(ROOT, b"mine").unwrap();
    assert_eq!((made.attr.uid, made.attr.gid), (1234, 100));
    let shown = Client::with(|options| (options.uid, options.gid, options.umask) = (Some(7), Some(8), Some(0o027)));
    let made = shown.mkdir(ROOT, b"shown").unwrap();
    assert_eq!((made.attr.uid, made.attr.gid, made.attr.mode), (7, 8, 0o040_750));
    assert_eq!(shown.attr(ROOT).unwrap().uid, 7);
}

/// A device that counts the reads of another.
struct Counting(MemDevice, AtomicU64);

impl Device for Counting {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }

    fn submit(&self, batch: Vec<Request>) {
        let reads = batch.iter().filter(|request| matches!(request.op, Op::Read { .. })).count();
        self.1.fetch_add(reads as u64, SeqCst);
        self.0.submit(batch);
    }
}

/// Their inodes lie side by side: one read brings many.
#[test]
fn a_listing_with_attributes_reads_its_inodes_together() {
    const FILES: u64 = 400;
    let device = Arc::new(Counting(volume::device(), AtomicU64::new(0)));
    let mount = || Fs::mount(Arc::clone(&device) as Arc<dyn Device>, MountOptions::default()).expect("mounts");
    let options = FuseOptions::new("image");
    let client = Client::over(mount(), &options);
    for n in 0..FILES {
        let (made, _) = client.create(ROOT, format!("file {n}").as_bytes(), RW).unwrap();
        client.forget(made.nodeid, 1);
    }
    client.server.finish().unwrap();
    drop(client);
    let client = Client::over(mount(), &options);
    let before = device.1.load(SeqCst);
    let listed = client.list(Opcode::Readdirplus, ROOT, 1 << 19);
    let reads = device.1.load(SeqCst) - before;
    assert_eq!(listed.iter().filter(|(.., node)| *node != 0).count() as u64, FILES);
    assert!(reads < FILES / 4, "{reads} reads for {FILES} inodes");
}
