//! [`MemDevice`]: a device in memory, for tests and simulations.
//!
//! Sparse: blocks that were never written read as zeros and take no memory. Stores the pages it is given, so synthetic
//! and zero pages stay small, also synthetic ones that were written part by part. [`MemDevice::fork`] copies a device
//! in time proportional to its chunks, not its bytes: chunks are shared until one side writes.
//!
//! Every request ends before `submit` returns. A completed write is visible at once and never lost; crashes are the
//! business of `RecordingDevice` and `CrashImage`.

use crate::{Device, DeviceInfo, IoError, IoResult, Op, PageBuf, Request, errno};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::Arc;
use steadyfs_rt::{LockClass, RwLock};

const SHARDS: usize = 64;
/// Blocks per chunk, the unit of locking and sharing.
const CHUNK: usize = 64;
/// A byte that neither a structure nor a test's contents are full of.
const POISON: u8 = 0xDB;

/// Taken one at a time, by requests, under whatever locks the submitter holds.
static SHARD: LockClass = LockClass::new("device.mem", u16::MAX - 1);

type Chunk = [PageBuf; CHUNK];
type Chunks = HashMap<u64, Arc<Chunk>, BuildHasherDefault<ChunkHasher>>;

/// A sparse device in memory.
pub struct MemDevice {
    info: DeviceInfo,
    shards: Box<[RwLock<Chunks>]>,
    /// What discarded blocks read as.
    discarded: PageBuf,
}

impl MemDevice {
    /// A device of `blocks` blocks that all read as zeros.
    pub fn new(blocks: u64) -> Self {
        let name = "memory".into();
        let info = DeviceInfo { blocks, read_only: false, discard: true, synchronous: true, prefers_fua: false, name };
        let shards = (0..SHARDS).map(|_| RwLock::new(&SHARD, Chunks::default())).collect();
        MemDevice { info, shards, discarded: PageBuf::zeroed() }
    }

    /// The same device, whose discarded blocks read as bytes that nobody wrote, as they may.
    pub fn poisoning_discards(mut self) -> Self {
        self.discarded = PageBuf::from_slice(&[POISON; 4096]);
        self
    }

    /// A device of its own with the same contents. Writes that run meanwhile may or may not be in it.
    pub fn fork(&self) -> Self {
        let shards = self.shards.iter().map(|shard| RwLock::new(&SHARD, shard.read().clone())).collect();
        MemDevice { info: self.info.clone(), shards, discarded: self.discarded.clone() }
    }

    /// The same device, refusing every change.
    pub fn into_read_only(mut self) -> Self {
        self.info.read_only = true;
        self
    }

    /// The blocks from `block` on that are not known to be zero, in the first chunk that has some.
    fn first_held(&self, block: u64) -> Option<Range<u64>> {
        let (size, wanted) = (CHUNK as u64, block / CHUNK as u64);
        let mut chunks: Vec<u64> = Vec::new();
        for shard in &self.shards {
            chunks.extend(shard.read().keys().filter(|chunk| **chunk >= wanted));
        }
        chunks.sort_unstable();
        chunks.into_iter().find_map(|chunk| {
            let shard = self.shard(chunk).read();
            let pages = shard.get(&chunk)?;
            let is_held = |at: &u64| chunk * size + at >= block && !pages[*at as usize].is_zero_repr();
            let first = (0..size).find(is_held)?;
            let end = (first..size).find(|at| !is_held(at)).unwrap_or(size);
            Some(chunk * size + first..chunk * size + end)
        })
    }

    /// Numbers of the blocks that are not known to be zero, ascending.
    pub fn written_blocks(&self) -> Vec<u64> {
        let mut blocks = Vec::new();
        for shard in &self.shards {
            for (&chunk, pages) in shard.read().iter() {
                let written = pages.iter().enumerate().filter(|(_, page)| !page.is_zero_repr());
                blocks.extend(written.map(|(at, _)| chunk * CHUNK as u64 + at as u64));
            }
        }
        blocks.sort_unstable();
        blocks
    }

    /// Does one operation.
    fn perform(&self, op: Op) -> IoResult {
        self.info.check(&op)?;
        match op {
            Op::Read { block, count } => Ok(self.load(block, count)),
            Op::Write { block, pages, .. } => {
                self.store(block, pages);
                Ok(Vec::new())
            }
            Op::Flush => Ok(Vec::new()),
            Op::Discard { block, count } => {
                self.clear(block, count);
                Ok(Vec::new())
            }
            Op::ZoneReset { .. } | Op::ZoneFinish { .. } => Err(op.error(errno::EOPNOTSUPP)),
        }
    }

    fn load(&self, block: u64, count: u64) -> Vec<PageBuf> {
        let mut pages = Vec::with_capacity(usize::try_from(count.min(1 << 20)).unwrap_or(0));
        for (chunk, from, to) in pieces(block, count) {
            match self.shard(chunk).read().get(&chunk) {
                Some(held) => pages.extend_from_slice(&held[from..to]),
                None => pages.extend(std::iter::repeat_n(PageBuf::zeroed(), to - from)),
            }
        }
        pages
    }

    fn store(&self, block: u64, pages: Vec<PageBuf>) {
        let count = pages.len() as u64;
        let mut pages = pages.into_iter();
        for (chunk, from, to) in pieces(block, count) {
            let mut shard = self.shard(chunk).write();
            let held = shard.entry(chunk).or_insert_with(|| Arc::new([const { PageBuf::zeroed() }; CHUNK]));
            for (slot, page) in Arc::make_mut(held)[from..to].iter_mut().zip(pages.by_ref()) {
                *slot = page.compacted();
            }
        }
        assert_eq!(pages.len(), 0, "every page of a write has found its block");
    }

    fn clear(&self, block: u64, count: u64) {
        if self.discarded.is_zero_repr() && count / CHUNK as u64 > 1 << 16 {
            return self.clear_many(block, count);
        }
        for (chunk, from, to) in pieces(block, count) {
            self.clear_in(&mut self.shard(chunk).write(), chunk, from, to);
        }
    }

    /// Clears a range with far more chunks than a sparse device is likely to hold: visits what is held instead of the
    /// range.
    fn clear_many(&self, block: u64, count: u64) {
        let end = block + count;
        for shard in &self.shards {
            let mut shard = shard.write();
            let chunks: Vec<u64> = shard.keys().copied().collect();
            for chunk in chunks {
                let start = chunk * CHUNK as u64;
                let from = block.clamp(start, start + CHUNK as u64) - start;
                let to = end.clamp(start, start + CHUNK as u64) - start;
                self.clear_in(&mut shard, chunk, from as usize, to as usize);
            }
        }
    }

    fn clear_in(&self, shard: &mut Chunks, chunk: u64, from: usize, to: usize) {
        if !self.discarded.is_zero_repr() {
            let held = shard.entry(chunk).or_insert_with(|| Arc::new([const { PageBuf::zeroed() }; CHUNK]));
            Arc::make_mut(held)[from..to].fill(self.discarded.clone());
        } else if to - from == CHUNK {
            shard.remove(&chunk);
        } else if let Some(held) = shard.get_mut(&chunk).filter(|_| from < to) {
            Arc::make_mut(held)[from..to].fill(PageBuf::zeroed());
        }
    }

    fn shard(&self, chunk: u64) -> &RwLock<Chunks> {
        &self.shards[(chunk % SHARDS as u64) as usize]
    }
}

impl Device for MemDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn held_from(&self, block: u64) -> Result<Option<Range<u64>>, IoError> {
        Ok(self.first_held(block))
    }

    fn submit(&self, batch: Vec<Request>) {
        for Request { op, done } in batch {
            done(self.perform(op));
        }
    }
}

/// Cuts a range at chunk borders: (chunk number, first slot, slot after the last).
fn pieces(block: u64, count: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let (size, end) = (CHUNK as u64, block + count);
    let mut next = block;
    std::iter::from_fn(move || {
        if next >= end {
            return None;
        }
        let (chunk, from) = (next / size, next % size);
        let to = size.min(from + (end - next));
        next += to - from;
        Some((chunk, from as usize, to as usize))
    })
}

/// Chunk numbers are their own hash after one multiplication; deterministic, so iteration order is the same in every
/// run.
#[derive(Default, Clone, Copy)]
struct ChunkHasher(u64);

impl Hasher for ChunkHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(byte: u8) -> PageBuf {
        PageBuf::from_slice(&[byte; 4096])
    }

    #[test]
    fn unwritten_blocks_are_zero_and_written_ones_come_back() {
        let device = MemDevice::new(1 << 40);
        device.write(62, (1..=4).map(page).collect()).expect("in range");
        let read = device.read(60, 8).expect("in range");
        let zero = PageBuf::zeroed();
        assert_eq!(read, [zero.clone(), zero.clone(), page(1), page(2), page(3), page(4), zero.clone(), zero]);
        assert_eq!(device.written_blocks(), [62, 63, 64, 65]);
        device.write((1 << 40) - 1, vec![page(9)]).expect("the last block");
        assert_eq!(device.read_one((1 << 40) - 1).expect("in range"), page(9));
    }

    #[test]
    fn ranges_and_read_only_are_checked() {
        let device = MemDevice::new(10);
        for (block, count) in [(10, 1), (9, 2), (u64::MAX, 2), (0, 11)] {
            let error = device.read(block, count).expect_err("outside");
            assert_eq!(
                (error.errno(), error.op, error.block, error.count),
                (errno::EINVAL, crate::OpKind::Read, block, count)
            );
        }
        let device = device.into_read_only();
        assert_eq!(device.write(0, vec![page(1)]).expect_err("read-only").errno(), errno::EROFS);
        assert_eq!(device.discard(0, 1).expect_err("read-only").errno(), errno::EROFS);
        assert!(device.flush().is_ok() && device.read_one(0).is_ok());
    }

    #[test]
    fn forks_are_independent() {
        let device = MemDevice::new(100);
        device.write(0, vec![page(1), page(2)]).expect("in range");
        let fork = device.fork();
        device.write(0, vec![page(3)]).expect("in range");
        fork.discard(1, 1).expect("in range");
        assert_eq!(fork.read(0, 2).expect("in range"), [page(1), PageBuf::zeroed()]);
        assert_eq!(device.read(0, 2).expect("in range"), [page(3), page(2)]);
    }

    #[test]
    fn poisoned_blocks_read_as_nobody_wrote_them_until_they_are_written() {
        let device = MemDevice::new(1000).poisoning_discards();
        device.write(70, vec![PageBuf::from_slice(&[7; 4096]); 3]).expect("in range");
        device.discard(71, 200).expect("in range");
        let first = |device: &MemDevice, block| device.read_one(block).expect("in range").to_array()[0];
        let fork = device.fork();
        device.write(72, vec![PageBuf::from_slice(&[8; 4096])]).expect("in range");
        assert_eq!([69, 70, 71, 72, 270, 271].map(|block| first(&device, block)), [0, 7, POISON, 8, POISON, 0]);
        fork.discard(70, 1).expect("in range");
        assert_eq!([first(&fork, 70), first(&fork, 72), first(&device, 70)], [POISON, POISON, 7]);
    }

    #[test]
    fn what_is_held_is_told_in_runs() {
        let device = MemDevice::new(1 << 40);
        assert_eq!(device.held_from(0), Ok(None));
        device.write(62, vec![page(1), page(2), page(3)]).expect("in range");
        device.write(1 << 39, vec![page(4)]).expect("in range");
        device.discard(63, 1).expect("in range");
        let mut runs = Vec::new();
        let mut next = 0;
        while let Some(run) = device.held_from(next).expect("told") {
            next = run.end;
            runs.push(run);
        }
        assert_eq!(runs, [62..63, 64..65, 1 << 39..(1 << 39) + 1]);
    }

    #[test]
    fn discards_clear_exactly_their_range() {
        for blocks in [300, 1 << 40] {
            let device = MemDevice::new(blocks);
            device.write(0, (0..200).map(|i| page(i as u8 + 1)).collect()).expect("in range");
            let end = if blocks == 300 { 180 } else { blocks };
            device.discard(3, end - 3).expect("in range");
            let mut left = vec![0, 1, 2];
            left.extend(end.min(200)..200);
            assert_eq!(device.written_blocks(), left);
        }
    }
}
