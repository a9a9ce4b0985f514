//! Replay of batches that the tests write by hand, behind the checkpoint of a volume.

use crate::recovery::support::{
    DIR, FILE, Tree, Volume, assert_same, at, complaints, mount, read, recovered, refused, seen,
};
use std::sync::{Arc, LazyLock};
use steadyfs_core::raw::{Image, Superblocks};
use steadyfs_core::{Fs, XattrFlags};
use steadyfs_device::{Device, MemDevice, PageBuf};
use steadyfs_format::block::BlockView;
use steadyfs_format::crc::F2FS_MAGIC;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::Inode as RawInode;
use steadyfs_format::migrating::Regions;
use steadyfs_format::records::batch::{self, ContentsSum};
use steadyfs_format::records::{Birth, InodeRecord, JOURNAL_MAGIC, Record, VERSION_KEY};
use steadyfs_format::superblock::RawSuperBlock;
use steadyfs_format::xattr::{self, XattrName};
use steadyfs_format::{Block, Features, Ino, Lba, Log, SuperBlock};

/// A volume with two files and a directory, at its checkpoint; the same each time.
fn volume() -> MemDevice {
    static BASE: LazyLock<MemDevice> = LazyLock::new(base);
    BASE.fork()
}

fn base() -> MemDevice {
    let v = Volume::new(&[]);
    v.make("d", DIR);
    v.file("d/old", 3);
    v.file("other", 1);
    v.fs.setxattr(&at(&v.fs, "other"), b"user.x", b"before", XattrFlags::default()).unwrap();
    v.fs.unmount().unwrap();
    v.dev.fork()
}

/// Marks both copies of the superblock.
fn mark(dev: &MemDevice, copies: &[u64]) {
    let mut superblock = Image::open(Arc::new(dev.fork())).unwrap().superblock().clone();
    superblock.set_journaled(true);
    for &lba in copies {
        let mut page = dev.read_one(lba).unwrap();
        superblock.encode_into(page.make_mut());
        dev.write(lba, vec![page]).unwrap();
    }
}

/// Writes these blocks of batches where the chain begins.
fn lay(dev: &MemDevice, blocks: Vec<Block>) -> Vec<Lba> {
    mark(dev, &[1, 0]);
    let image = Image::open(Arc::new(dev.fork())).unwrap();
    let (at, seed) = (image.log_position(Log::WarmNode), image.superblock().inode_checksum_seed());
    let version = image.checkpoint().header().footer_version() ^ VERSION_KEY;
    let first = image.layout().lba_of(at.segment, at.next);
    assert!(usize::from(at.next) + blocks.len() < 512, "the blocks fit the segment");
    let lbas = (first.get()..).take(blocks.len()).map(Lba);
    let write = |(lba, mut block): (Lba, Block)| {
        batch::seal(&mut block, seed, version, lba + 1);
        dev.write(lba.get(), vec![PageBuf::from_slice(&block)]).unwrap();
        lba
    };
    lbas.zip(blocks).map(write).collect()
}

fn seed(dev: &MemDevice) -> u32 {
    Image::open(Arc::new(dev.fork())).unwrap().superblock().inode_checksum_seed()
}

/// The volume with one batch.
fn with(records: &[Record]) -> MemDevice {
    let dev = volume();
    lay(&dev, batch::encode(1, seed(&dev), records));
    dev
}

/// The record of an inode that the checkpoint has, changed.
fn record(path: &str, change: impl FnOnce(&mut InodeRecord)) -> Record {
    let dev = volume();
    let fs = mount(Arc::new(dev.fork().into_read_only()), "ro").unwrap();
    let ino = at(&fs, path).ino();
    let image = Image::open(Arc::new(dev)).unwrap();
    let block = image.read_block(image.nat(ino.nid()).unwrap().lba).unwrap();
    let mut inode =
        block.with(|block| InodeRecord::of(RawInode::view(block), image.superblock().features(), false)).unwrap();
    change(&mut inode);
    Record::Inode(ino, Box::new(inode))
}

fn ino(path: &str) -> Ino {
    let fs = mount(Arc::new(volume().into_read_only()), "ro").unwrap();
    at(&fs, path).ino()
}

/// A new inode in `d`.
fn birth(ino: u32, mode: u16, links: u32, name: &str) -> Record {
    let Record::Inode(_, mut inode) = record("other", |_| ()) else { panic!("an inode") };
    (inode.attributes.mode, inode.attributes.links) = (mode, links);
    (inode.pino, inode.name) = (self::ino("d"), name.as_bytes().to_vec());
    let inline = if mode & 0o170_000 == 0o040_000 { 5 } else { 1 };
    let device = steadyfs_format::inode::DeviceNumber { major: 1, minor: 3 };
    inode.birth = Some(Birth { generation: 7, inline, dir_level: 0, extra_isize: 0, xattr_words: 0, device });
    Record::Inode(Ino(ino), inode)
}

fn name(dir: Ino, name: &str, target: Option<(Ino, FileType)>) -> Record {
    Record::Name { dir, name: name.as_bytes().to_vec(), target }
}

/// One of each: a file, a directory with a file, a symlink, a device; a rename; attributes; a removal.
fn everything() -> Vec<Record> {
    let d = ino("d");
    let mut list = vec![0; 64];
    xattr::set(&mut list, XattrName { index: 1, rest: b"x" }, b"after").unwrap();
    list.truncate(xattr::used(&list).unwrap());
    vec![
        birth(100, 0o100_644, 1, "file"),
        birth(101, 0o040_755, 2, "dir"),
        birth(102, 0o120_777, 1, "link"),
        birth(103, 0o020_600, 1, "null"),
        record("d", |d| d.attributes.links += 1),
        record("d/old", |old| {
            (old.attributes.mode, old.attributes.uid) = (0o100_600, 77);
            old.name = b"new".to_vec();
        }),
        record("other", |other| other.attributes.links = 0),
        name(d, "old", None),
        name(Ino(3), "other", None),
        name(d, "new", Some((ino("d/old"), FileType::Regular))),
        name(d, "file", Some((Ino(100), FileType::Regular))),
        name(d, "dir", Some((Ino(101), FileType::Dir))),
        name(Ino(101), "inside", Some((ino("d/old"), FileType::Regular))),
        name(d, "link", Some((Ino(102), FileType::Symlink))),
        name(d, "null", Some((Ino(103), FileType::CharDevice))),
        record("d/old", |old| {
            old.attributes.links = 2;
            (old.attributes.mode, old.attributes.uid) = (0o100_600, 77);
            (old.pino, old.name) = (Ino(101), b"inside".to_vec());
        }),
        Record::Xattrs(Ino(100), list),
        Record::Target(Ino(102), b"d/new".to_vec()),
        Record::Contents(Ino(100), b"small".to_vec()),
    ]
}

/// What everything leaves.
fn check(fs: &Fs) {
    assert_eq!(fs.attr(&at(fs, "d/new")).unwrap().nlink, 2);
    let old = fs.attr(&at(fs, "d/dir/inside")).unwrap();
    assert_eq!((old.mode, old.uid, old.size), (0o100_600, 77, 3 * 4096), "contents are as before");
    assert!(fs.lookup(&fs.root().unwrap(), b"other").is_err() && fs.lookup(&at(fs, "d"), b"old").is_err());
    assert_eq!(fs.getxattr(&at(fs, "d/file"), b"user.x").unwrap(), b"after");
    assert_eq!(fs.readlink(&at(fs, "d/link")).unwrap(), b"d/new");
    assert_eq!(read(fs, &at(fs, "d/file")).unwrap(), b"small");
    let null = fs.attr(&at(fs, "d/null")).unwrap();
    assert_eq!((null.rdev.major, null.rdev.minor, null.generation), (1, 3, 7));
    assert_eq!(fs.attr(&at(fs, "d/dir")).unwrap().nlink, 2);
}

#[test]
fn every_kind_of_record_is_replayed_for_readers_and_for_writers() {
    let dev = with(&everything());
    let shown = seen(dev.fork());
    let reader = mount(Arc::new(dev.fork().into_read_only()), "ro").unwrap();
    check(&reader);
    let told = reader.recovered().unwrap();
    assert_eq!((told.files, told.batches, told.records), (0, 1, everything().len() as u64));
    let (tree, whole) = recovered(dev);
    assert_same(&shown, &tree, "a mount for changes shows what a reader sees");
    assert_eq!(complaints(&whole), [""; 0]);
    let image = Image::open(Arc::new(whole.fork())).unwrap();
    assert!(!image.superblocks().is_journaled() && image.chain_summary().unwrap().is_empty(), "a stock volume");
}

#[test]
fn to_replay_twice_is_to_replay_once() {
    let once = recovered(with(&everything())).0;
    let twice = everything().into_iter().chain(everything()).collect::<Vec<_>>();
    assert_same(&once, &recovered(with(&twice)).0, "in one batch");
    let dev = volume();
    let blocks = [1, 2].into_iter().flat_map(|sequence| batch::encode(sequence, seed(&dev), &everything()));
    lay(&dev, blocks.collect());
    assert_same(&once, &recovered(dev).0, "in two");
}

/// An fsync that waited for no flush of its contents promised nothing if they are missing, and nobody behind it did.
#[test]
fn a_batch_whose_contents_did_not_arrive_ends_the_chain() {
    let layout = *Image::open(Arc::new(volume())).unwrap().layout();
    let free = Lba(layout.main_end().get() - 1);
    let page = [0x5a; 4096];
    let uids = |lba: Lba, written: &[u8; 4096]| {
        let dev = volume();
        dev.write(free.get(), vec![PageBuf::from_slice(written)]).unwrap();
        let owned = |uid| vec![record("d/old", |old| old.attributes.uid = uid)];
        let contents = [ContentsSum::of(lba, &page, seed(&dev))];
        let (first, second, third) = (owned(5), owned(6), owned(7));
        let blocks = [
            batch::encode(1, seed(&dev), &first),
            batch::encode_with(2, seed(&dev), &second, &contents),
            batch::encode(3, seed(&dev), &third),
        ];
        lay(&dev, blocks.concat());
        let uid = |fs: &Fs| fs.attr(&at(fs, "d/old")).unwrap().uid;
        let shown = uid(&mount(Arc::new(dev.fork().into_read_only()), "ro").unwrap());
        let (_, whole) = recovered(dev);
        (shown, uid(&mount(Arc::new(whole), "").unwrap()))
    };
    assert_eq!(uids(free, &page), (7, 7), "they are there");
    let mut torn = page;
    torn[4095] = 0;
    assert_eq!(uids(free, &torn), (5, 5), "they are not");
    assert_eq!(uids(Lba(1), &page), (5, 5), "no contents lie there");
    assert_eq!(uids(layout.main_end(), &page), (5, 5), "nor behind the volume");
}

/// A batch of several blocks counts only if all are whole; what is behind a torn one is gone, too.
#[test]
fn a_torn_block_ends_the_chain() {
    let dev = volume();
    let many: Vec<Record> = (0..600).map(|n| name(Ino(3), &format!("no such name {n}"), None)).collect();
    let first = [many, vec![name(Ino(3), "other", None), record("other", |other| other.attributes.links = 0)]].concat();
    let second = vec![record("d/old", |old| old.attributes.uid = 5)];
    let blocks = [batch::encode(1, seed(&dev), &first), batch::encode(2, seed(&dev), &second)].concat();
    let before: Tree = seen(dev.fork());
    let lbas = lay(&dev, blocks);
    assert!(lbas.len() > 3);
    let uid = |dev: MemDevice| {
        let fs = mount(Arc::new(dev.into_read_only()), "ro").unwrap();
        let gone = fs.lookup(&fs.root().unwrap(), b"other").is_err();
        (gone, fs.attr(&at(&fs, "d/old")).unwrap().uid)
    };
    assert_eq!(uid(dev.fork()), (true, 5));
    for (torn, &lba) in lbas.iter().enumerate() {
        let dev = dev.fork();
        let mut page = dev.read_one(lba.get()).unwrap();
        page.make_mut()[2048..].fill(0);
        dev.write(lba.get(), vec![page]).unwrap();
        if torn + 1 == lbas.len() {
            assert_eq!(uid(dev), (true, 0), "the first batch is whole");
        } else {
            assert_same(&before, &seen(dev), &format!("block {torn} is torn"));
        }
    }
}

#[test]
fn gaps_and_contradictions_are_damage_and_nothing_is_written() {
    let d = ino("d");
    let gap = |sequences: &[u64]| {
        let dev = volume();
        let record = [name(d, "old", None)];
        let blocks = sequences.iter().flat_map(|&sequence| batch::encode(sequence, seed(&dev), &record));
        lay(&dev, blocks.collect());
        refused(dev)
    };
    for sequences in [&[2][..], &[1, 3], &[1, 1], &[0]] {
        assert!(gap(sequences).contains("sequence"), "{sequences:?}");
    }
    // A block of the middle, the first one, or the last one of a batch before another is not there.
    let many: Vec<Record> = (0..400).map(|n| name(d, &format!("no such name {n}"), None)).collect();
    for missing in [1, 0, 2] {
        let dev = volume();
        let mut blocks = batch::encode(1, seed(&dev), &many);
        assert_eq!(blocks.len(), 3);
        blocks.remove(missing);
        blocks.extend(batch::encode(2, seed(&dev), &[name(d, "old", None)]));
        lay(&dev, blocks);
        let text = refused(dev);
        assert!(text.contains(if missing == 2 { "sequence" } else { "number" }), "{missing}: {text}");
    }
    let file = Some((ino("other"), FileType::Regular));
    for (why, records) in [
        ("does not exist", vec![name(Ino(200), "x", None)]),
        ("does not exist", vec![name(d, "x", Some((Ino(200), FileType::Regular)))]),
        ("another kind of file", vec![name(ino("other"), "x", file)]),
        ("another kind of file", vec![name(d, "x", Some((ino("other"), FileType::Dir)))]),
        ("another kind of file", vec![record("other", |other| other.attributes.mode = 0o040_755)]),
        ("another kind of file", vec![Record::Target(ino("other"), b"x".to_vec())]),
        ("which the checkpoint has", vec![birth(ino("other").get(), 0o100_644, 1, "x")]),
        ("without a target", vec![birth(100, 0o120_777, 1, "x"), name(d, "x", Some((Ino(100), FileType::Symlink)))]),
        ("removes the root", vec![record("", |root| root.attributes.links = 0)]),
        ("has directory", vec![record("d", |d| d.pino = Ino(1))]),
    ] {
        let text = refused(with(&records));
        assert!(text.contains(why), "{why}: {text}");
    }
}

/// Batches whose records are sound each, and whose replay would leave no tree: mounts refuse them, and the checker says
/// so before.
#[test]
fn a_journal_that_breaks_the_tree_is_refused() {
    let (d, other) = (ino("d"), (ino("other"), FileType::Regular));
    let dir = |ino: Ino| Some((ino, FileType::Dir));
    let grown = |links: u32| record("d", move |d| d.attributes.links += links);
    let born = [birth(101, 0o040_755, 2, "e"), name(d, "e", dir(Ino(101)))];
    let with_born = |more: Vec<Record>| [born.to_vec(), more].concat();
    let moved = |pino: Ino| record("d", move |d| (d.pino, d.attributes.links) = (pino, 3));
    let root = |links: u32| record("", move |root| root.attributes.links -= links);
    let fuller = record("", |root| root.attributes.links += 1);
    let [down, up] = [name(d, "e", dir(Ino(101))), name(Ino(101), "d", dir(d))];
    let below = [birth(101, 0o040_755, 3, "e"), down, moved(Ino(101)), root(1), name(Ino(3), "d", None), up];
    for (why, records) in [
        ("and 2 names: a directory has one", with_born(vec![grown(1), name(Ino(101), "loop", dir(d))])),
        ("and 2 names: a directory has one", vec![fuller, name(Ino(3), "also", dir(d))]),
        ("where its directories make 4", vec![name(Ino(3), "also", dir(d))]),
        ("which does not exist", vec![name(Ino(3), "mid", Some((Ino(900), FileType::Regular)))]),
        ("1 links, and 0 names", vec![name(Ino(3), "other", None)]),
        ("1 links, and 2 names", vec![name(d, "twice", Some(other))]),
        ("4294967295 links", vec![record("other", |other| other.attributes.links = u32::MAX)]),
        ("1 links, and 0 names", vec![birth(100, 0o100_644, 1, "nowhere")]),
        ("where its directories make 3", born.to_vec()),
        ("below itself", below.to_vec()),
        ("and its name in", vec![record("d", |d| d.pino = Ino(101))]),
        ("which is gone", with_born(vec![birth(101, 0o040_755, 0, "e"), name(Ino(101), "x", Some(other))])),
        ("two kinds of file", vec![birth(100, 0o100_644, 1, "x"), birth(100, 0o040_755, 2, "x")]),
    ] {
        let dev = with(&records);
        let found = complaints(&dev);
        assert!(found.iter().any(|what| what.starts_with("JournalBreaksTree")), "{why}: {found:?}");
        let text = refused(dev);
        assert!(text.contains(why), "{why}: {text}");
    }
    // What the replay alone can tell.
    let removed = vec![record("d", |d| d.attributes.links = 0), name(Ino(3), "d", None), root(1)];
    assert!(refused(with(&removed)).contains("which has names"));
}

/// A power cut between the two copies: the first one counts, whichever it is, and there is nothing to replay.
#[test]
fn mixed_copies_of_the_superblock_are_a_volume() {
    let before = seen(volume());
    for copies in [&[0][..], &[1], &[0, 1]] {
        let dev = volume();
        mark(&dev, copies);
        assert_same(&before, &seen(dev.fork()), "a reader");
        let (tree, whole) = recovered(dev.fork());
        assert_same(&before, &tree, "a mount");
        let image = Image::open(Arc::new(whole)).unwrap();
        assert_eq!((image.superblocks().is_journaled(), image.superblocks().first_difference()), (false, None));
        let with = mount(Arc::new(dev.fork()), "journal=single").unwrap();
        assert_same(&before, &crate::recovery::support::tree(&with), "a mount with a journal");
    }
}

/// The mark that has a magic number of its own is read, also beside today's, and gives way to it.
#[test]
fn an_old_mark_is_replayed_and_replaced() {
    let records = everything();
    let expected = recovered(with(&records)).0;
    for olds in [&[0u64][..], &[1], &[0, 1]] {
        let dev = with(&records);
        for &lba in olds {
            let mut page = dev.read_one(lba).unwrap();
            let mut raw = RawSuperBlock::read(&page.to_array());
            (raw.magic, raw.log_sectorsize) = (JOURNAL_MAGIC.into(), 9.into());
            raw.write(page.make_mut());
            dev.write(lba, vec![page]).unwrap();
        }
        let image = Image::open(Arc::new(dev.fork())).unwrap();
        assert_eq!((image.superblocks().is_journaled(), image.superblocks().first_difference()), (true, None));
        for (options, marked) in [("", false), ("journal=single", true)] {
            let dev = Arc::new(dev.fork());
            let fs = mount(Arc::clone(&dev) as Arc<dyn Device>, options).unwrap();
            assert_same(&expected, &crate::recovery::support::tree(&fs), "the batch counts");
            for lba in [0, 1] {
                let raw = RawSuperBlock::read(&dev.read_one(lba).unwrap().to_array());
                assert_eq!((raw.magic.get(), raw.is_marked()), (F2FS_MAGIC, marked), "{olds:?} {options}");
            }
        }
    }
}

/// A copy of another kind beside a marked one is nobody's work, and no reason to fall over.
#[test]
fn a_copy_of_a_d2fs_volume_beside_a_marked_one_is_overwritten() {
    let dev = volume();
    mark(&dev, &[0]);
    let mut page = dev.read_one(1).unwrap();
    let mut raw = RawSuperBlock::read(&page.to_array());
    let layout = *SuperBlock::new(raw.clone()).unwrap().layout();
    let regions = Regions { regular_sections: layout.sections / 2, capacity: 4096 };
    regions.store(&mut raw);
    raw.write(page.make_mut());
    dev.write(1, vec![page]).unwrap();
    let read = |dev: &MemDevice| Superblocks::read(dev).copy(1).unwrap().regions().copied();
    assert_eq!(read(&dev), Some(regions));
    assert!(Superblocks::read(&dev).first_difference().is_some());
    for options in ["", "journal=single"] {
        let dev = Arc::new(dev.fork());
        drop(mount(Arc::clone(&dev) as Arc<dyn Device>, options).unwrap());
        assert_eq!(read(&dev), None, "{options}");
    }
}

/// What carries the mark of a journal has keyed version words: what does not match is no chain.
#[test]
fn a_chain_counts_only_under_its_own_superblock() {
    let v = Volume::new(&[]);
    let file = v.make("f", FILE);
    v.fs.sync().unwrap();
    v.fill(&file, 0, 2, b'x');
    v.fsync(&file);
    let dev = v.crash();
    assert!(Image::open(Arc::new(dev.fork())).unwrap().has_fsync_chain().unwrap());
    mark(&dev, &[0, 1]);
    assert!(!Image::open(Arc::new(dev.fork())).unwrap().has_fsync_chain().unwrap());
    assert_eq!(Image::open(Arc::new(dev)).unwrap().superblock().features(), Features::NONE);
}
