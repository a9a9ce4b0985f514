//! Reading back what was written: at once, from the device, and after a remount.

use super::*;
use crate::Error;
use crate::gate::Want;
use steadyfs_format::inode::flags;

/// Offsets around the borders of the regions of a node tree, for an inode with 864 slots (36 bytes of extra attributes,
/// 50 words of inline attributes).
const BORDERS: [u64; 6] = [
    864 * 4096,
    (864 + 1018) * 4096,
    (864 + 2 * 1018) * 4096,
    (864 + 2 * 1018 + 1018 * 1018) * 4096,
    (864 + 2 * 1018 + 2 * 1018 * 1018) * 4096,
    (864 + 2 * 1018 + 3 * 1018 * 1018) * 4096,
];

#[test]
fn small_files_stay_in_their_inode_and_leave_it_when_they_grow() {
    let device = fresh();
    let fs = mount(&device, "");
    let file = create(&fs, "small");
    let room = 4 * (923 - 9 - 50 - 1);
    let data = pattern(1, 5000);
    assert_eq!(fs.write(&file, 0, &data[..100]).unwrap(), 100);
    assert_eq!(fs.write(&file, 200, &data[200..room]).unwrap(), room - 200);
    assert_eq!(blocks(&file), 1, "inline data takes no block");
    let mut expected = data[..room].to_vec();
    expected[100..200].fill(0);
    assert_eq!(read_all(&fs, &file), expected);
    fs.write(&file, room as u64, &data[room..]).unwrap();
    assert_eq!(blocks(&file), 3, "the inode and two pages");
    expected.extend(&data[room..]);
    assert_eq!(read_all(&fs, &file), expected);
    fs.unmount().unwrap();
    let again = mount(&device, "");
    assert_eq!(read_all(&again, &open(&again, "small")), expected);
    unmount_and_check(again, &device);
}

/// Waits until the clock that files are stamped by has moved: it goes by the kernel's tick, of at most 10 ms.
fn next_tick() {
    steadyfs_rt::sleep(std::time::Duration::from_millis(20));
}

/// Who held the contents back has set the times when they were written.
#[test]
fn what_a_cache_held_back_leaves_the_times_alone() {
    let device = fresh();
    let fs = mount(&device, "");
    let file = create(&fs, "file");
    let times = || fs.attr(&file).map(|attr| (attr.mtime, attr.ctime)).unwrap();
    fs.write(&file, 0, &pattern(1, 100_000)).unwrap();
    let before = times();
    for direct in [false, true] {
        fs.write_back(&file, 0, &pattern(2, 8192), direct).unwrap();
        assert_eq!(times(), before, "direct: {direct}");
    }
    next_tick();
    fs.write(&file, 0, &pattern(3, 8192)).unwrap();
    assert_ne!(times(), before, "an ordinary write sets them");
    unmount_and_check(fs, &device);
}

#[test]
fn synthetic_pages_reach_the_device_and_move_there_as_they_are() {
    let device = fresh();
    let seed = |n: u64| (u128::from(n) << 64 | 0x5eed).to_le_bytes();
    let pages = |from: u64, count: u64| (from..from + count).map(|n| PageBuf::synthetic(seed(n))).collect::<Vec<_>>();
    let fs = mount(&device, "");
    let (buffered, direct) = (create(&fs, "buffered"), create(&fs, "direct"));
    assert_eq!(fs.write_pages(&buffered, PageIndex(3), &pages(0, 1200)).unwrap(), 1200 * 4096);
    assert_eq!(fs.write_pages(&buffered, PageIndex(900), &pages(5000, 2)).unwrap(), 2 * 4096);
    assert_eq!(fs.write_pages_direct(&direct, PageIndex(0), &pages(2000, 600)).unwrap(), 600 * 4096);
    assert_eq!(fs.write_pages_direct(&direct, PageIndex(599), &pages(6000, 2)).unwrap(), 2 * 4096);
    fs.sync().unwrap();
    fs.gc(8, crate::Urgency::Foreground).unwrap();
    assert!(fs.gc_totals().data_moved > 0);
    fs.unmount().unwrap();
    let kept = device.written_blocks().into_iter().filter(|b| device.read_one(*b).unwrap().synthetic_seed().is_some());
    assert!(kept.count() >= 1200 + 601, "pages lost their representation on the way");
    let again = mount(&device, "");
    let mut page = vec![0; 4096];
    for (file, index, n) in [("buffered", 3, 0), ("buffered", 901, 5001), ("direct", 598, 2598), ("direct", 600, 6001)]
    {
        assert_eq!(again.read(&open(&again, file), index * 4096, &mut page).unwrap(), 4096);
        assert_eq!(page, PageBuf::synthetic(seed(n)).to_array()[..], "{file}, page {index}");
    }
    unmount_and_check(again, &device);
}

#[test]
fn inline_data_moved_to_a_page_survives_a_crash_after_the_next_checkpoint() {
    let device = fresh();
    let fs = mount(&device, "");
    let file = create(&fs, "moved");
    fs.write(&file, 0, &pattern(2, 1000)).unwrap();
    fs.sync().unwrap();
    fs.write(&file, 100_000, b"x").unwrap();
    fs.durable.sync_checkpoint().unwrap(); // does not write file pages
    let crashed = mount(&Arc::new(device.fork()), "");
    let file = open(&crashed, "moved");
    let mut head = vec![0; 1000];
    crashed.read(&file, 0, &mut head).unwrap();
    assert_eq!(head, pattern(2, 1000));
}

#[test]
fn pages_on_both_sides_of_every_border_of_the_node_tree() {
    let device = fresh();
    let fs = mount(&device, "");
    let file = create(&fs, "sparse");
    for (i, border) in BORDERS.iter().enumerate() {
        assert_eq!(fs.write(&file, border - 5000, &pattern(i as u64, 10_000)).unwrap(), 10_000);
    }
    let end = fs.max_file_size();
    let last = end - 10;
    assert_eq!(fs.write(&file, last, &pattern(9, 100)).unwrap(), 10, "a write is cut at the largest size");
    assert!(matches!(fs.write(&file, end, b"x"), Err(Error::TooBig)));
    let check_contents = |fs: &Fs, file: &InodeRef| {
        assert_eq!(size(file), end);
        for (i, border) in BORDERS.iter().enumerate() {
            let mut back = vec![0xEE; 12_000];
            fs.read(file, border - 6000, &mut back).unwrap();
            assert_eq!(back[1000..11_000], pattern(i as u64, 10_000));
            assert!(back[..1000].iter().chain(&back[11_000..]).all(|byte| *byte == 0));
        }
        let mut back = vec![0xEE; 100];
        assert_eq!(fs.read(file, last, &mut back).unwrap(), 10);
        assert_eq!(back[..10], pattern(9, 100)[..10]);
    };
    check_contents(&fs, &file);
    fs.unmount().unwrap();
    let again = mount(&device, "");
    let file = open(&again, "sparse");
    check_contents(&again, &file);
    let before = again.statfs().blocks_free;
    again.files.set_size(&file.inode, 0).unwrap();
    assert_eq!(blocks(&file), 1, "no node of the tree is left");
    assert_eq!(again.statfs().blocks_free, before + 6 * 4 + 1 + NODES);
    unmount_and_check(again, &device);
}

/// Nodes of the file above: 2 direct; 2 indirect with 2 and 2 direct ones, ...; counted from the tree, not from the
/// program.
const NODES: u64 = {
    let direct = 2 /* nodes 1 and 2 */ + 2 /* first and last of subtree 1 */ + 2 /* of subtree 2 */ + 2 + 1 /* of the third */ + 1 /* the last page */;
    let indirect = 2 + 2 + 1;
    let double = 1;
    direct + indirect + double
};

#[test]
fn a_cut_file_shows_zeros_when_it_grows_again() {
    let device = fresh();
    let fs = mount(&device, "");
    for (name, len) in [("inline", 3000), ("paged", 40_000)] {
        let file = create(&fs, name);
        let data = pattern(3, len);
        fs.write(&file, 0, &data).unwrap();
        fs.fsync(&file, false).unwrap();
        fs.files.set_size(&file.inode, 1111).unwrap();
        fs.files.set_size(&file.inode, len as u64).unwrap();
        let mut expected = data.clone();
        expected[1111..].fill(0);
        assert_eq!(read_all(&fs, &file), expected);
        fs.files.set_size(&file.inode, 500).unwrap();
        fs.write(&file, 2000, b"end").unwrap();
        let back = read_all(&fs, &file);
        assert_eq!((&back[..500], &back[2000..]), (&data[..500], &b"end"[..]));
        assert!(back[500..2000].iter().all(|byte| *byte == 0));
    }
    unmount_and_check(fs, &device);
}

#[test]
fn an_interrupted_cut_is_finished_before_the_file_grows() {
    const OLD: u64 = (864 + 3 * 1018) * 4096;
    let device = fresh();
    let fs = mount(&device, "");
    let cut = create(&fs, "cut");
    fs.write(&cut, 0, &pattern(4, OLD as usize)).unwrap();
    fs.fsync(&cut, false).unwrap();
    {
        let change = fs.files.gate.begin(Want::default()).unwrap();
        fs.vol
            .edit_inode(&change, &cut.inode, |raw| {
                raw.set_size(5000);
                raw.set_advise(raw.advise() | steadyfs_format::inode::advise::TRUNC);
            })
            .unwrap();
    }
    // Crashes after each piece of the cut, and before the first.
    let mut at = Some(PageIndex(2));
    while let Some(from) = at {
        fs.durable.sync_checkpoint().unwrap();
        let crashed = Arc::new(device.fork());
        check(&crashed);
        let again = mount(&crashed, "");
        let file = open(&again, "cut");
        again.write(&file, OLD - 1000, &pattern(5, 1000)).unwrap();
        let back = read_all(&again, &file);
        let end = (OLD - 1000) as usize;
        assert_eq!((&back[..5000], &back[end..]), (&pattern(4, 5000)[..], &pattern(5, 1000)[..]));
        assert!(back[5000..end].iter().all(|byte| *byte == 0), "what lay beyond the end shows");
        assert_eq!(blocks(&file), 1 + 2 + 1 + 2, "two pages, the last page, and two nodes for that");
        unmount_and_check(again, &crashed);
        let change = fs.files.gate.begin(Want::default()).unwrap();
        at = fs.files.free_some(&change, &cut.inode, from).unwrap();
    }
}

#[test]
fn blocks_beyond_the_end_never_show() {
    let device = fresh();
    let fs = mount(&device, "");
    let shorten = |file: &InodeRef| {
        // Another implementation may crash between setting a size and freeing what lies behind it.
        fs.fsync(file, false).unwrap();
        fs.files.budget.cache(&file.inode).remove(crate::files::file::writeback::ALL_PAGES);
        let change = fs.files.gate.begin(Want::default()).unwrap();
        fs.vol.edit_inode(&change, &file.inode, |raw| raw.set_size(5000)).unwrap();
    };
    type Grow = fn(&Fs, &InodeRef);
    let ways: [(&str, Grow); 5] = [
        ("a write", |fs, file| assert_eq!(fs.write(file, 39_999, b"x").unwrap(), 1)),
        ("a direct write", |fs, file| assert_eq!(fs.write_direct(file, 36_864, &[b'x'; 4096]).unwrap(), 4096)),
        ("a larger size", |fs, file| fs.files.set_size(&file.inode, 40_000).unwrap()),
        ("allocation", |fs, file| {
            fs.fallocate(file, crate::FallocMode::Allocate { keep_size: false }, 30_000, 10_000).unwrap();
        }),
        ("zeroing", |fs, file| {
            fs.fallocate(file, crate::FallocMode::ZeroRange { keep_size: false }, 30_000, 10_000).unwrap();
        }),
    ];
    for (name, grow) in ways {
        let file = create(&fs, name);
        fs.write(&file, 0, &pattern(6, 60_000)).unwrap();
        shorten(&file);
        grow(&fs, &file);
        let back = read_all(&fs, &file);
        assert_eq!(back[..5000], pattern(6, 60_000)[..5000]);
        let shown = back[5000..].iter().filter(|byte| ![0, b'x'].contains(byte)).count();
        assert_eq!(shown, 0, "{name} shows what lay beyond the end");
    }
    unmount_and_check(fs, &device);
}

#[test]
fn files_that_must_not_change_do_not() {
    let device = fresh();
    let fs = mount(&device, "");
    let file = create(&fs, "fixed");
    fs.write(&file, 0, b"text").unwrap();
    let set_flags = |bits| {
        let change = fs.files.gate.begin(Want::default()).unwrap();
        fs.vol.edit_inode(&change, &file.inode, |raw| raw.set_flags(bits)).unwrap();
    };
    set_flags(flags::APPEND);
    assert!(matches!(fs.write(&file, 0, b"x"), Err(Error::NotPermitted)));
    assert_eq!(fs.append(&file, b"!").unwrap(), (4, 1));
    set_flags(flags::IMMUTABLE);
    assert!(matches!(fs.append(&file, b"x"), Err(Error::NotPermitted)));
    {
        let empty = create(&fs, "empty");
        let change = fs.files.gate.begin(Want::default()).unwrap();
        fs.vol.edit_inode(&change, &empty.inode, |raw| raw.set_flags(flags::APPEND)).unwrap();
        drop(change);
        assert!(matches!(fs.files.set_size(&empty.inode, 10), Err(Error::NotPermitted)), "only writing appends");
    }
    assert!(matches!(fs.files.set_size(&file.inode, 0), Err(Error::NotPermitted)));
    set_flags(0);
    assert_eq!(read_all(&fs, &file), b"text!");
    let root = fs.root().unwrap();
    assert!(matches!(fs.read(&root, 0, &mut [0; 10]), Err(Error::IsDirectory)));
    assert!(matches!(fs.write(&root, 0, b"x"), Err(Error::IsDirectory)));
    fs.unmount().unwrap();
    let ro = mount(&device, "ro");
    let file = open(&ro, "fixed");
    assert_eq!(read_all(&ro, &file), b"text!");
    assert!(matches!(ro.write(&file, 0, b"x"), Err(Error::ReadOnly(_))));
}

#[test]
fn deleting_contents_gives_every_block_back() {
    let device = fresh();
    let fs = mount(&device, "");
    let file = create(&fs, "gone");
    let before = fs.vol.space.counts();
    for border in BORDERS {
        fs.write(&file, border - 100, &[7; 9000]).unwrap();
    }
    fs.sync().unwrap();
    fs.write(&file, 0, &[8; 100_000]).unwrap();
    fs.files.drop_contents(&file.inode).unwrap();
    assert_eq!(fs.vol.space.counts(), before);
    assert_eq!((blocks(&file), fs.cache_stats().dirty), (1, 0));
}

#[test]
fn times_move_with_contents() {
    let fs = mount(&fresh(), "");
    let file = create(&fs, "times");
    let times = || file.inode.read(|raw| (raw.mtime(), raw.ctime())).unwrap();
    let mut before = times();
    let mut expect_move = |what: &str| {
        let now = times();
        assert!(now.0 > before.0 && now.1 > before.1, "{what} leaves the times alone");
        before = now;
        next_tick();
    };
    next_tick();
    fs.write(&file, 0, b"inline").unwrap();
    expect_move("an inline write");
    fs.write(&file, 10_000, b"paged").unwrap();
    expect_move("a paged write");
    fs.files.set_size(&file.inode, 3).unwrap();
    expect_move("a cut");
    fs.files.set_size(&file.inode, 30_000).unwrap();
    expect_move("growth");
    fs.fallocate(&file, crate::FallocMode::PunchHole, 0, 4096).unwrap();
    expect_move("a punched hole");
}

/// Nodes are written by checkpoints too, before they freeze. An inode that lies on the device already, in no
/// checkpoint, still has to be in the chain before an fdatasync returns, or recovery would not know the file.
#[test]
fn a_new_file_whose_inode_was_written_ahead_survives_by_an_fdatasync() {
    // Without checksums of inodes, which would have the inode written with its nodes in any case.
    let device = volume(96, &[]);
    let fs = mount(&device, "");
    let root = fs.root().unwrap();
    let new = crate::NewInode { mode: 0o100_644, ..crate::NewInode::default() };
    let file = fs.create(&root, b"new", &new).unwrap();
    for page in 0..1200 {
        assert_eq!(fs.write(&file, page * 4096, &[1; 4096]).unwrap(), 4096);
    }
    fs.files.writeback(&file.inode, crate::files::file::ALL_PAGES).unwrap();
    fs.vol.write_dirty_nodes(&fs.vol.begin_change().unwrap(), fs.durable.checkpoints.stamp()).unwrap();
    // Times left alone, so that the inode stays clean.
    let (at, page) = (1100 * 4096, [2; 4096]);
    fs.write_back(&file, at, &page, false).unwrap();
    let chained = fs.sync_stats().chained;
    fs.fsync(&file, true).unwrap();
    assert_eq!(fs.sync_stats().chained, chained + 1, "a checkpoint would have saved it");
    let again = Fs::mount(Arc::new(device.fork()), MountOptions::default()).unwrap();
    let mut found = [0; 4096];
    let file = again.lookup(&again.root().unwrap(), b"new").unwrap();
    assert_eq!(again.read(&file, at, &mut found).unwrap(), 4096);
    assert!(found == page);
}
