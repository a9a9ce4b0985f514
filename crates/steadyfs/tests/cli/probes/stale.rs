//! What deleted files held, and what one's own files held before: nobody sees it where zeros have to be.
//!
//! Each answer is how many pieces of 4 KiB, at most, hold something else than zeros where only zeros may be: read
//! through the cache, again when the cache has forgotten them, and past it.

use super::calls::*;
use super::ground::Ground;
use super::{Probe, Where};
use rustix::fs::{Advice, FallocateFlags, OFlags, SeekFrom, fadvise, fallocate, fsync, ftruncate};
use rustix::io::{Errno, pread, pwrite};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;

type Row = (&'static str, fn(&Ground) -> Answer, Answer);

const ROWS: &[Row] = &[
    ("what is allocated", |ground| allocated(ground, FallocateFlags::empty(), 8 * MIB), OK),
    ("what is allocated behind the end", |ground| allocated(ground, FallocateFlags::KEEP_SIZE, 4 * MIB), OK),
    ("what is zeroed behind the end", |ground| allocated(ground, FallocateFlags::ZERO_RANGE, 4 * MIB), OK),
    ("what is allocated without a name", allocated_nameless, OK),
    ("a byte in each allocated page", |ground| bytes(ground, true, 512), OK),
    ("a byte in each page of a hole", |ground| bytes(ground, false, 512), OK),
    ("a sector in each allocated page", |ground| sectors(ground, true), OK),
    ("a sector in each page of a hole", |ground| sectors(ground, false), OK),
    ("the end moved within a page and back", |ground| each(ground, 32, cut_and_grown), OK),
    ("the end moved up from nothing", grown, OK),
    ("a range that was zeroed", |ground| cleared(ground, FallocateFlags::ZERO_RANGE), OK),
    ("a range that was punched", |ground| cleared(ground, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE), OK),
    ("short files that grow", |ground| each(ground, 32, short_and_grown), OK),
    ("short files that are written behind their end", |ground| each(ground, 32, short_and_written), OK),
    ("behind the end of mapped files", |ground| each(ground, 32, mapped), OK),
    ("a mapping of what is allocated", mapped_allocated, OK),
    ("a copy of a hole", |ground| copied(ground, false), OK),
    ("a copy of what is allocated", |ground| copied(ground, true), OK),
    ("sent from what is allocated", sent, OK),
    ("an end in an allocated page", ended, OK),
    ("where data is in what is allocated", no_data, Err(Errno::NXIO)),
];

/// A buffer that direct requests can use.
struct Aligned(Vec<u8>, usize);

impl Aligned {
    fn new(len: usize, byte: u8) -> Self {
        let room = vec![byte; len + PAGE];
        let at = room.as_ptr().align_offset(PAGE);
        Aligned(room, at)
    }

    fn of(&mut self, len: usize) -> &mut [u8] {
        &mut self.0[self.1..][..len]
    }
}

pub(super) fn writes_past_the_cache(path: &Path, at: u64, len: usize) -> Result<usize, Errno> {
    pwrite(file(path, WRITE | OFlags::DIRECT)?, Aligned::new(len, b'o').of(len), at)
}

/// All of a file.
fn whole(file: &File) -> Result<Vec<u8>, Errno> {
    let (mut all, mut piece) = (Vec::new(), Aligned::new(MIB, 0));
    loop {
        match pread(file, piece.of(MIB), all.len() as u64)? {
            0 => return Ok(all),
            len => all.extend_from_slice(&piece.of(MIB)[..len]),
        }
    }
}

/// How many pieces of ranges hold something else than zeros, in any way to read them.
fn leaked_around(path: &Path, zeros: &[Range<usize>]) -> Answer {
    let open = file(path, READ)?;
    let cached = whole(&open)?;
    fsync(&open)?;
    fadvise(&open, 0, None, Advice::DontNeed)?;
    let again = whole(&open)?;
    let direct = whole(&file(path, READ | OFlags::DIRECT)?)?;
    let count = |bytes: &[u8]| -> Answer {
        require(zeros.last().is_none_or(|last| last.end <= bytes.len()))?;
        let parts = zeros.iter().flat_map(|range| bytes[range.clone()].chunks(PAGE));
        Ok(parts.filter(|part| **part != [0; PAGE][..part.len()]).count() as u64)
    };
    Ok(count(&cached)? + count(&again)? + count(&direct)?)
}

/// The same of one range.
fn leaked(path: &Path, zeros: Range<usize>) -> Answer {
    leaked_around(path, std::slice::from_ref(&zeros))
}

/// How many bytes are not zero.
fn not_zero(bytes: &[u8]) -> Answer {
    Ok(bytes.iter().filter(|byte| **byte != 0).count() as u64)
}

/// A new file.
fn empty(ground: &Ground) -> Result<(PathBuf, File), Errno> {
    let path = ground.fresh();
    let open = file(&path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
    Ok((path, open))
}

/// A new file of a length, allocated or not.
fn of_length(ground: &Ground, is_allocated: bool, len: usize) -> Result<(PathBuf, File), Errno> {
    let (path, open) = empty(ground)?;
    if is_allocated { fallocate(&open, FallocateFlags::empty(), 0, len as u64) } else { ftruncate(&open, len as u64) }?;
    Ok((path, open))
}

/// A file that holds a letter, on the device.
fn written(ground: &Ground, len: usize) -> Result<(PathBuf, File), Errno> {
    let path = ground.mine_with(&vec![b'o'; len]);
    let open = file(&path, OFlags::RDWR)?;
    fsync(&open)?;
    Ok((path, open))
}

fn each(ground: &Ground, times: usize, probe: fn(&Ground, usize) -> Answer) -> Answer {
    (0..times).try_fold(0, |sum, n| Ok(sum + probe(ground, n)?))
}

fn allocated(ground: &Ground, how: FallocateFlags, len: usize) -> Answer {
    let (path, open) = empty(ground)?;
    fallocate(&open, how, 0, len as u64)?;
    ftruncate(&open, len as u64)?;
    let hits = leaked(&path, 0..len);
    unlinks(&path)?;
    hits
}

fn allocated_nameless(ground: &Ground) -> Answer {
    let open = file(&ground.at("own"), OFlags::TMPFILE | OFlags::RDWR)?;
    fallocate(&open, FallocateFlags::empty(), 0, 4 * MIB as u64)?;
    fsync(&open)?;
    leaked(through(&open).as_ref(), 0..4 * MIB)
}

/// Writes one byte into each page.
fn bytes(ground: &Ground, is_allocated: bool, pages: usize) -> Answer {
    let (path, open) = of_length(ground, is_allocated, pages * PAGE)?;
    for page in 0..pages {
        pwrite(&open, b"o", (page * PAGE) as u64)?;
    }
    let hits = leaked_around(&path, &(0..pages).map(|page| page * PAGE + 1..(page + 1) * PAGE).collect::<Vec<_>>())?;
    require((0..pages).all(|page| pread(&open, &mut [0], (page * PAGE) as u64) == Ok(1)))?;
    Ok(hits)
}

/// Writes one sector into each page, past the cache.
fn sectors(ground: &Ground, is_allocated: bool) -> Answer {
    const PAGES: usize = 64;
    let (path, _) = of_length(ground, is_allocated, PAGES * PAGE)?;
    for page in 0..PAGES {
        require(writes_past_the_cache(&path, (page * PAGE + 1024) as u64, 512)? == 512)?;
    }
    let around = |page: usize| [page * PAGE..page * PAGE + 1024, page * PAGE + 1536..(page + 1) * PAGE];
    leaked_around(&path, &(0..PAGES).flat_map(around).collect::<Vec<_>>())
}

fn cut_and_grown(ground: &Ground, n: usize) -> Answer {
    let (path, open) = written(ground, 2 * PAGE)?;
    let end = 1 + n * 250;
    ftruncate(&open, end as u64)?;
    ftruncate(&open, 3 * PAGE as u64)?;
    leaked(&path, end..3 * PAGE)
}

fn grown(ground: &Ground) -> Answer {
    let (path, _) = of_length(ground, false, MIB)?;
    leaked(&path, 0..MIB)
}

fn cleared(ground: &Ground, how: FallocateFlags) -> Answer {
    let (path, open) = written(ground, 64 << 10)?;
    fallocate(&open, how, 1000, 50_000)?;
    let hits = leaked(&path, 1000..51_000)?;
    let all = whole(&open)?;
    require(all[..1000] == [b'o'; 1000] && all[51_000..].iter().all(|byte| *byte == b'o'))?;
    Ok(hits)
}

/// A file that is shorter than a page, most of them than an inode.
fn short(ground: &Ground, n: usize) -> Result<(PathBuf, File, usize), Errno> {
    let len = 1 + n * 125;
    let (path, open) = written(ground, len)?;
    Ok((path, open, len))
}

fn short_and_grown(ground: &Ground, n: usize) -> Answer {
    let (path, open, len) = short(ground, n)?;
    ftruncate(&open, 2 * PAGE as u64)?;
    leaked(&path, len..2 * PAGE)
}

fn short_and_written(ground: &Ground, n: usize) -> Answer {
    let (path, open, len) = short(ground, n)?;
    pwrite(&open, b"o", 5000)?;
    leaked(&path, len..5000)
}

/// Bytes of a file as a mapping has them.
fn mapping(ground: &Ground, path: &Path, len: usize) -> Result<Vec<u8>, Errno> {
    let bytes = ground.ask(&["map", path.to_str().unwrap(), &len.to_string()])?;
    require(bytes.len() == len)?;
    Ok(bytes)
}

fn mapped(ground: &Ground, n: usize) -> Answer {
    let (path, open, len) = short(ground, n)?;
    fadvise(&open, 0, None, Advice::DontNeed)?;
    let bytes = mapping(ground, &path, PAGE)?;
    require(bytes[..len].iter().all(|byte| *byte == b'o'))?;
    not_zero(&bytes[len..])
}

fn mapped_allocated(ground: &Ground) -> Answer {
    let (path, open) = of_length(ground, true, 16 * PAGE)?;
    pwrite(&open, b"o", 5 * PAGE as u64)?;
    let bytes = mapping(ground, &path, 16 * PAGE)?;
    require(bytes[5 * PAGE] == b'o')?;
    Ok(not_zero(&bytes)? - 1)
}

fn copied(ground: &Ground, is_allocated: bool) -> Answer {
    let (_, from) = of_length(ground, is_allocated, MIB)?;
    let (path, to) = empty(ground)?;
    let (mut at, mut into) = (0, 0);
    while at < MIB as u64 {
        let copied = rustix::fs::copy_file_range(&from, Some(&mut at), &to, Some(&mut into), MIB)?;
        require(copied > 0)?;
    }
    leaked(&path, 0..MIB)
}

fn sent(ground: &Ground) -> Answer {
    let (_, from) = of_length(ground, true, MIB)?;
    let (path, to) = empty(ground)?;
    let mut at = 0;
    while at < MIB as u64 {
        require(rustix::fs::sendfile(&to, &from, Some(&mut at), MIB)? > 0)?;
    }
    leaked(&path, 0..MIB)
}

fn ended(ground: &Ground) -> Answer {
    let (path, open) = empty(ground)?;
    fallocate(&open, FallocateFlags::KEEP_SIZE, 0, 8 * PAGE as u64)?;
    pwrite(&open, b"o", 5000)?;
    ftruncate(&open, 8 * PAGE as u64)?;
    leaked_around(&path, &[0..5000, 5001..8 * PAGE])
}

/// What was never written counts as a hole.
fn no_data(ground: &Ground) -> Answer {
    let (_, open) = of_length(ground, true, MIB)?;
    rustix::fs::seek(&open, SeekFrom::Data(0))
}

pub(super) fn table() -> Vec<Probe> {
    ROWS.iter().map(|row| Probe::row(row, Where::Everywhere)).collect()
}
