//! Tests of chunk directories: the contract of file devices, what is removed and when, locks, creation cut short.

use super::*;
use crate::file::tests::{agree_with_model, dirs, page, step};
use proptest::prelude::*;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use steadyfs_rt::spawn;

const FAR: u64 = 1 << 61;

fn make(dir: &Path) -> PathBuf {
    let path = dir.join("image.d");
    ChunkDevice::create(&path, FAR).expect("an empty place");
    path
}

fn open(path: &Path) -> ChunkDevice {
    ChunkDevice::open(path, OpenOptions::default()).expect("a chunk directory")
}

fn files(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort();
    names
}

/// Bytes of the host, but for the marker's.
fn taken(path: &Path) -> u64 {
    let sizes = files(path).into_iter().filter(|name| name.len() == 12);
    sizes.map(|name| std::fs::metadata(path.join(name)).map(|meta| meta.blocks() * 512).unwrap_or(0)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// At the begin of the device, across the border of two chunks, and beyond what a file can be long.
    #[test]
    fn it_agrees_with_the_model(steps in proptest::collection::vec(step(), 1..40)) {
        for dir in dirs() {
            let path = make(dir.path());
            let starts = [0, 3 * CHUNK_BLOCKS - 20, (1 << 51) - 20];
            let device = open(&path);
            starts.iter().for_each(|&first| agree_with_model(&device, first, &steps));
            let before = starts.map(|first| device.read(first, 40).expect("in range"));
            drop(device);
            let device = open(&path);
            prop_assert_eq!(starts.map(|first| device.read(first, 40).expect("in range")), before);
            // All that is held is found, and nothing else.
            let mut from = 0;
            while let Some(held) = device.held_from(from).expect("hosts of tests can tell") {
                let near = |start: &u64| (*start..*start + 40).contains(&held.start);
                prop_assert!(starts.iter().any(near), "{held:?}");
                from = held.end;
            }
            device.discard(0, device.info().blocks).expect("in range");
            prop_assert_eq!(files(&path), ["steadyfs-chunks"]);
        }
    }
}

#[test]
fn a_chunk_is_removed_with_its_last_block_and_holes_come_back() {
    for dir in dirs() {
        let path = make(dir.path());
        let device = open(&path);
        for chunk in 0..6 {
            device.write(chunk * CHUNK_BLOCKS, vec![page(chunk as u8 + 1); 64]).expect("room");
        }
        device.flush().expect("flushes");
        assert_eq!((device.chunks().expect("reads"), taken(&path)), (6, 6 * 64 * 4096));
        device.discard(8, 48).expect("discards");
        device.discard(CHUNK_BLOCKS, 64).expect("discards");
        device.discard(2 * CHUNK_BLOCKS, 63).expect("discards");
        device.flush().expect("flushes");
        assert_eq!((device.chunks().expect("reads"), taken(&path)), (5, (16 + 1 + 3 * 64) * 4096));
        drop(device);
        // What was held is known again after a restart: the last block takes its chunk along.
        let device = open(&path);
        device.discard(2 * CHUNK_BLOCKS + 63, 1).expect("discards");
        assert_eq!(device.chunks().expect("reads"), 4);
        assert_eq!(device.read_one(2 * CHUNK_BLOCKS + 63).expect("reads"), PageBuf::zeroed());
        assert_eq!(device.held_from(9).expect("tells"), Some(56..64));
        device.write(2 * CHUNK_BLOCKS, vec![page(9)]).expect("a chunk that was removed is made anew");
        assert_eq!(device.read_one(2 * CHUNK_BLOCKS).expect("reads"), page(9));
        assert_eq!(device.read_one(FAR - 1).expect("reads"), PageBuf::zeroed());
        assert!(device.read_one(FAR).is_err(), "beyond the end");
    }
}

#[test]
fn one_process_serves_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = make(dir.path());
    let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
    let writer = open(&path);
    for options in [OpenOptions::default(), read_only] {
        let refused = ChunkDevice::open(&path, options).err();
        assert!(matches!(&refused, Some(OpenError::InUse { path: of }) if *of == path), "{refused:?}");
    }
    // Who looks despite of that sees chunks that come later.
    let looking = ChunkDevice::open(&path, OpenOptions { despite_writers: true, ..read_only }).expect("looks");
    writer.write(77, vec![page(7)]).expect("room");
    assert_eq!(looking.read_one(77).expect("reads"), page(7));
    assert_eq!(looking.write(77, vec![page(8)]).expect_err("it only looks").errno(), errno::EROFS);
    drop((writer, looking));
    let readers = [(); 2].map(|()| ChunkDevice::open(&path, read_only).expect("readers share"));
    assert!(ChunkDevice::open(&path, OpenOptions::default()).is_err());
    drop(readers);
    open(&path);
}

#[test]
fn creation_cut_short_leaves_nothing_or_the_device() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image.d");
    let refused = |path: &Path| ChunkDevice::open(path, OpenOptions::default()).err().map(|e| e.to_string());
    std::fs::create_dir(&path).expect("a directory");
    assert!(refused(&path).is_some_and(|e| e.contains("a directory")) && !ChunkDevice::is_at(&path));
    std::fs::write(path.join("steadyfs-chunks.new"), "steadyfs chu").expect("writes");
    assert!(refused(&path).is_some_and(|e| e.contains("never completed")) && ChunkDevice::is_at(&path));
    ChunkDevice::create(&path, 1 << 18).expect("begun before");
    assert_eq!(open(&path).info().blocks, 1 << 18);
    assert!(ChunkDevice::create(&path, 1 << 18).is_err_and(|e| e.to_string().contains("not empty")));
    for text in ["", "steadyfs chunks 1\nblocks 0\nchunk_blocks 16384\n", "steadyfs chunks 2\nblocks 9\n"] {
        std::fs::write(path.join("steadyfs-chunks"), text).expect("writes");
        assert!(refused(&path).is_some_and(|e| e.contains("does not say")), "{text}");
    }
    assert!(ChunkDevice::create(dir.path().join("none"), 0).is_err());
}

/// Whoever has found a chunk before it went does not write to what was removed.
#[test]
fn a_chunk_that_has_gone_takes_no_write() {
    let dir = tempfile::tempdir().expect("a directory");
    let device = open(&make(dir.path()));
    device.write(0, vec![page(1)]).expect("room");
    let chunk = device.chunks.table.find(0).expect("opens").expect("it is there");
    device.discard(0, 1).expect("discards");
    assert!(!chunk.claim(1, 1), "it is gone");
    device.write(1, vec![page(2)]).expect("room");
    assert_eq!((device.read_one(0).expect("reads"), device.read_one(1).expect("reads")), (PageBuf::zeroed(), page(2)));
    assert!(device.chunks.table.find(0).expect("opens").expect("it is there").claim(2, 1), "another one");
}

/// Writers and discards of one chunk that comes and goes; each thread has blocks of its own.
#[test]
fn a_chunk_that_goes_takes_no_write_along() {
    for dir in dirs() {
        let device = Arc::new(open(&make(dir.path())));
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let device = Arc::clone(&device);
                spawn("test", move || {
                    for round in 0..60u64 {
                        // More chunks than are kept open.
                        let block = round % 5 * CHUNK_BLOCKS + thread * 7;
                        let pages: Vec<PageBuf> = (0..3).map(|at| page((round * 4 + thread + at) as u8)).collect();
                        device.write(block, pages.clone()).expect("room");
                        if round % 16 == 0 {
                            device.flush().expect("flushes");
                        }
                        assert_eq!(device.read(block, 3).expect("reads"), pages, "round {round} of thread {thread}");
                        device.discard(block, 3).expect("discards");
                        assert_eq!(device.read(block, 3).expect("reads"), vec![PageBuf::zeroed(); 3]);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(device.chunks().expect("reads"), 0);
        device.flush().expect("flushes");
    }
}

/// What ended before a flush began is covered, though another flush came between the claim and the write.
#[test]
fn a_flush_beside_a_write_leaves_it_to_the_next() {
    let dir = tempfile::tempdir().expect("a directory");
    let device = open(&make(dir.path()));
    device.write(0, vec![page(1)]).expect("room");
    let chunk = device.chunks.table.find(0).expect("opens").expect("it is there");
    assert!(chunk.claim(5, 1));
    device.flush().expect("somebody else's");
    assert!(!chunk.is_dirty());
    chunk.write(5, &[page(9)]).expect("room");
    assert!(chunk.is_dirty(), "the next flush would pass it over");
    device.flush().expect("flushes");
    assert!(!chunk.is_dirty());
}

/// A process that was killed may have left contents and names that only the system's cache has.
#[test]
fn the_first_flush_covers_what_an_earlier_process_left() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = make(dir.path());
    open(&path).write(7, vec![page(7)]).expect("room");
    let device = open(&path);
    assert!(device.chunks.table.is_changed(), "the name of the file");
    assert_eq!(device.read_one(7).expect("reads"), page(7));
    let chunk = device.chunks.table.find(0).expect("opens").expect("it is there");
    assert!(chunk.is_dirty());
    device.flush().expect("flushes");
    assert!(!chunk.is_dirty() && !device.chunks.table.is_changed());
}

#[test]
fn a_flush_notices_that_a_file_was_removed_or_cut_short() {
    type Harm = fn(&Path);
    let harms: [(Harm, &str); 3] = [
        (|file| std::fs::remove_file(file).expect("removed"), "was removed"),
        (|file| std::fs::rename(file, file.with_extension("old")).expect("renamed"), "was removed"),
        (|file| drop(std::fs::File::create(file).expect("cut")), "was cut short"),
    ];
    for (harm, what) in harms {
        for fua in [false, true] {
            let dir = tempfile::tempdir().expect("a directory");
            let path = make(dir.path());
            let device = open(&path);
            device.write(0, vec![page(1); 9]).expect("room");
            device.write(CHUNK_BLOCKS, vec![page(1)]).expect("room");
            device.flush().expect("flushes");
            harm(&path.join("000000000000"));
            device.flush().expect("nothing was written since");
            let op = Op::Write { block: 3, pages: vec![page(2)], hint: crate::StreamHint::DataWarm, fua };
            let flushed = device.run(op).and_then(|_| device.flush()).expect_err("it is lost");
            assert!(flushed.op == OpKind::Flush && flushed.errno() == errno::EIO, "{flushed}");
            assert!(flushed.cause.contains("000000000000") && flushed.cause.contains(what), "{flushed}");
            // Nobody is told that all is well, whoever asks.
            device.write(CHUNK_BLOCKS, vec![page(3)]).expect("room");
            assert_eq!(device.flush().expect_err("what was lost is lost").cause, flushed.cause);
        }
    }
}

#[test]
fn a_file_that_was_removed_while_it_was_closed_is_not_made_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = make(dir.path());
    let device = open(&path);
    for chunk in 0..6 {
        device.write(chunk * CHUNK_BLOCKS, vec![page(1)]).expect("room");
    }
    std::fs::remove_file(path.join("000000000000")).expect("removed");
    for error in [device.read_one(0).map(drop), device.write(0, vec![page(2)])] {
        let error = error.expect_err("it was there");
        assert!(error.errno() == errno::EIO && error.cause.contains("was removed"), "{error}");
    }
    assert!(!path.join("000000000000").exists());
    device.flush().expect("others are sound");
}

#[test]
fn chunks_leave_others_of_the_process_their_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = make(dir.path());
    let few = |files| open::within(&path, files).err().map(|error| error.to_string());
    assert!(few(31).is_some_and(|error| error.contains("32 open files") && error.contains("ulimit -n")));
    assert_eq!(few(32), None);
}
