//! Directories of every size, and readers that go on while entries come and go.

use crate::names::support::{DIR, FILE, FULL, Volume, names, new};
use std::collections::BTreeSet;

fn name(n: u32) -> Vec<u8> {
    format!("entry-{n:06}").into_bytes()
}

#[test]
fn a_directory_grows_through_all_its_forms_and_shrinks_again() {
    for (args, options) in [(&[][..], ""), (&["-O", FULL][..], ""), (&[][..], "noinline_dentry")] {
        let mut v = Volume::new(256, args, options);
        let root = v.fs.root().unwrap();
        let dir = v.fs.create(&root, b"big", &new(DIR)).unwrap();
        let empty = v.fs.attr(&dir).unwrap();
        let mut made = 0;
        for count in [50, 100, 200, 500, 3000, 10_000] {
            for n in made..count {
                v.fs.create(&dir, &name(n), &new(FILE)).unwrap();
            }
            made = count;
            let listed: BTreeSet<Vec<u8>> = names(&v.fs, &dir).into_iter().collect();
            assert_eq!(listed.len(), count as usize + 2);
            assert!((0..count).all(|n| listed.contains(&name(n))));
        }
        drop((root, dir));
        v.remount();
        let (root, dir) = (v.fs.root().unwrap(), v.at("big"));
        assert_eq!(names(&v.fs, &dir).len(), made as usize + 2);
        for n in 0..made {
            v.fs.lookup(&dir, &name(n)).unwrap();
            v.fs.unlink(&dir, &name(n)).unwrap();
        }
        assert_eq!(names(&v.fs, &dir), [b".".to_vec(), b"..".to_vec()]);
        let shrunk = v.fs.attr(&dir).unwrap();
        assert_eq!(shrunk.blocks, 8, "only the block of the dot entries is left");
        assert!(shrunk.size >= empty.size);
        v.remount();
        drop((root, dir));
        let root = v.fs.root().unwrap();
        v.fs.rmdir(&root, b"big").unwrap();
        v.finish();
    }
}

/// Reads a directory in batches; between them `meddle` changes it. Returns what was seen, in order.
fn read_in_batches(v: &Volume, batch: usize, mut meddle: impl FnMut(usize)) -> Vec<Vec<u8>> {
    let dir = v.at("d");
    let (mut seen, mut cookie, mut round) = (Vec::new(), 0, 0);
    loop {
        let mut left = batch;
        let before = seen.len();
        v.fs.readdir(&dir, cookie, &mut |entry| {
            if left == 0 {
                return false;
            }
            left -= 1;
            cookie = entry.next_cookie;
            seen.push(entry.name.to_vec());
            true
        })
        .unwrap();
        if seen.len() == before {
            return seen;
        }
        meddle(round);
        round += 1;
    }
}

#[test]
fn a_reader_sees_what_stays_exactly_once() {
    for stay in [20, 120, 600] {
        let v = Volume::new(128, &[], "");
        let root = v.fs.root().unwrap();
        let dir = v.fs.create(&root, b"d", &new(DIR)).unwrap();
        for n in 0..stay {
            v.fs.create(&dir, &name(n), &new(FILE)).unwrap();
            v.fs.create(&dir, &name(100_000 + n), &new(FILE)).unwrap();
        }
        // Between batches half the entries go, many new ones come, and the directory changes its form.
        let seen = read_in_batches(&v, 7, |round| {
            let round = round as u32;
            if round < stay {
                v.fs.unlink(&dir, &name(100_000 + round)).unwrap();
            }
            for n in 0..30.min(600 / (round + 1)) {
                v.fs.create(&dir, &name(200_000 + round * 100 + n), &new(FILE)).unwrap();
            }
        });
        let stayed: Vec<_> = seen.iter().filter(|seen| **seen < name(100_000)).cloned().collect();
        let unique: BTreeSet<_> = stayed.iter().cloned().collect();
        assert_eq!((stayed.len(), unique.len()), (stay as usize + 2, stay as usize + 2));
        v.finish();
    }
}

#[test]
fn a_refused_entry_comes_again() {
    let v = Volume::new(64, &[], "");
    let root = v.fs.root().unwrap();
    let dir = v.fs.create(&root, b"d", &new(DIR)).unwrap();
    for n in 0..5 {
        v.fs.create(&dir, &name(n), &new(FILE)).unwrap();
    }
    assert_eq!(read_in_batches(&v, 1, |_| ()).len(), 7);
}

/// How many entries the large directory has: `STEADYFS_DIR_ENTRIES`, for measuring with more.
fn large() -> u32 {
    std::env::var("STEADYFS_DIR_ENTRIES").ok().and_then(|n| n.parse().ok()).unwrap_or(60_000)
}

#[test]
fn a_large_directory_is_compact_and_quick() {
    let count = large();
    let v = Volume::new(1024, &[], "");
    let root = v.fs.root().unwrap();
    let dir = v.fs.create(&root, b"d", &new(DIR)).unwrap();
    let target = v.fs.create(&root, b"target", &new(FILE)).unwrap();
    let timed = |what: &str, f: &mut dyn FnMut(u32)| {
        let began = steadyfs_rt::now();
        (0..count).for_each(f);
        println!("{what}: {:?} per entry of {count}", began.elapsed() / count);
    };
    timed("link", &mut |n| v.fs.link(&target, &dir, &name(n)).unwrap());
    timed("find", &mut |n| assert_eq!(v.fs.lookup(&dir, &name(n)).unwrap().ino(), target.ino()));
    timed("miss", &mut |n| assert!(v.fs.lookup(&dir, &name(count + n)).is_err()));
    let listed = names(&v.fs, &dir).len();
    assert_eq!((listed, v.fs.attr(&target).unwrap().nlink), (count as usize + 2, count + 1));
    // Two slots per name of 13 bytes: at the least this many blocks. Levels fill up before the next begins, so it is
    // not many more.
    let least = u64::from(count) * 2 / 214;
    let blocks = v.fs.attr(&dir).unwrap().blocks / 8;
    assert!(blocks >= least && blocks <= 2 * least, "{blocks} blocks for what fits {least}");
    timed("unlink", &mut |n| v.fs.unlink(&dir, &name(n)).unwrap());
    assert_eq!(v.fs.attr(&dir).unwrap().blocks, 8);
    v.fs.rmdir(&root, b"d").unwrap();
    drop((root, dir, target));
    v.finish();
}
