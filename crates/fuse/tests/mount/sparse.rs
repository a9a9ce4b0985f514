//! Archives of files that are being written: `tar -S` takes what has a size and no block for one hole.

use crate::harness::{CACHES, Place, until};
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

/// Ways in which tar looks for holes.
const WAYS: [&[&str]; 2] = [&[], &["--hole-detection=raw"]];

/// What comes out of an archive of this file.
fn archived(path: &Path, how: &[&str]) -> Vec<u8> {
    let (dir, name) = (path.parent().unwrap(), path.file_name().unwrap());
    let packed = Command::new("tar").args(how).args(["-Sc", "-C"]).arg(dir).arg(name).output().expect("GNU tar");
    assert!(packed.status.success(), "{packed:?}");
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("archive");
    fs::write(&archive, packed.stdout).unwrap();
    let unpacked = Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(place.path()).status().unwrap();
    assert!(unpacked.success());
    fs::read(place.path().join(name)).unwrap()
}

/// Writes a file in one of the shapes that it may have.
fn write(file: &mut File, shape: usize) -> Vec<u8> {
    const MIB: usize = 1 << 20;
    let expected = match shape {
        0 => (0..3000).flat_map(|n| format!("line {n}\n").into_bytes()).collect(),
        1 => vec![7; 100_000],
        2 => [vec![0; 8 * MIB], vec![9; MIB]].concat(),
        3 => vec![5; 5000],
        _ => vec![3; 600],
    };
    match shape {
        0 => expected.split_inclusive(|byte| *byte == b'\n').for_each(|line| file.write_all(line).unwrap()),
        2 => file.write_all_at(&expected[8 * MIB..], 8 * MIB as u64).unwrap(),
        _ => file.write_all(&expected).unwrap(),
    }
    expected
}

#[test]
fn an_archive_holds_what_a_program_has_just_written() {
    let place = Place::new();
    place.mounted("", |_| {
        for (shape, how) in (0..5).flat_map(|shape| WAYS.map(|how| (shape, how))) {
            let (new, old) = (place.at(&format!("new{shape}{}", how.len())), place.at("old"));
            let mut file = File::create(&new).unwrap();
            let expected = write(&mut file, shape);
            assert!(archived(&new, how) == expected, "a new file, shape {shape} {how:?}");
            file.sync_all().unwrap();
            assert!(archived(&new, how) == expected, "a new file that was synced, shape {shape} {how:?}");
            drop(file);
            // The kernel knows of this one that it has no block.
            fs::write(&old, "").unwrap();
            until("the block that it may have had is gone", || fs::metadata(&old).unwrap().blocks() == 0);
            let mut file = File::options().write(true).open(&old).unwrap();
            let expected = write(&mut file, shape);
            assert!(archived(&old, how) == expected, "a file that was empty, shape {shape} {how:?}");
            // As it does of one that was just cut.
            file.set_len(0).unwrap();
            file.rewind().unwrap();
            let expected = write(&mut file, 1);
            assert!(archived(&old, how) == expected, "a file that was cut, {how:?}");
            drop(file);
            let mut file = File::create(&old).unwrap();
            let expected = write(&mut file, shape);
            assert!(archived(&old, how) == expected, "a file that was opened with O_TRUNC, shape {shape} {how:?}");
        }
    });
}

/// A file shows a block that it may not have only while it is open for writing.
#[test]
fn a_file_that_nobody_writes_shows_the_blocks_that_it_has() {
    let place = Place::new();
    // Where the kernel closes a file before the server hears of it, too.
    for options in CACHES.into_iter().flat_map(|cache| [cache.to_owned(), format!("{cache},noblkdev")]) {
        place.mounted(&options, |_| {
            let blocks = |name: &str| fs::metadata(place.at(name)).unwrap().blocks();
            for name in ["empty", "hole"] {
                let file = File::create(place.at(name)).unwrap();
                let open = if options.starts_with("writeback") { 1 } else { 0 };
                assert_eq!(blocks(name), open, "{options}: {name} is open");
                if name == "hole" {
                    file.set_len(8 << 20).unwrap();
                    assert_eq!(blocks(name), open, "{options}: a hole that is open");
                }
                drop(file);
                until("the block that it may have had is gone", || blocks(name) == 0);
                let reader = File::open(place.at(name)).unwrap();
                assert_eq!(blocks(name), 0, "{options}: {name} is read");
                drop(reader);
                fs::remove_file(place.at(name)).unwrap();
            }
        });
    }
}
