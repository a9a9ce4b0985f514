//! The bytes that a choice leaves on the device, known by their digest.
//!
//! Neighbouring choices leave nearly the same: what is common to two of them in a row is applied once, and the rest of
//! the former is taken back.

use crate::states::{Choice, Tear};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use steadyfs_device::{CrashImage, Device, MemDevice, Op, PIECE_SIZE, PIECES, PageBuf, Record};

/// A hash of all blocks that differ from the base: the sum of a hash of each.
pub(crate) type Digest = u128;

/// One record that took effect, whole or torn.
type Applied = (usize, Option<Tear>);

/// The contents of a block.
type Held = (u64, PageBuf);

/// The device after some records of a log.
pub(crate) struct Disk<'a> {
    base: &'a MemDevice,
    records: &'a [Record],
    /// The base's blocks that are not zero, in rising order.
    held: Vec<u64>,
    /// Hashes of the base's blocks, and of the records' pages: by record and page.
    base_hashes: HashMap<u64, u64>,
    hashes: HashMap<(usize, usize), u64>,
    /// What records changed.
    blocks: BTreeMap<u64, Held>,
    digest: Digest,
    /// What took effect, in order, each with the length of `before` at that moment.
    applied: Vec<(Applied, usize)>,
    /// What changed blocks held before, in order.
    before: Vec<(u64, Option<Held>)>,
}

impl<'a> Disk<'a> {
    /// The base as it is.
    pub(crate) fn new(base: &'a MemDevice, records: &'a [Record]) -> Self {
        Disk {
            base,
            records,
            held: base.written_blocks(),
            base_hashes: HashMap::new(),
            hashes: HashMap::new(),
            blocks: BTreeMap::new(),
            digest: 0,
            applied: Vec::new(),
            before: Vec::new(),
        }
    }

    /// The digest of what the choice leaves.
    pub(crate) fn after(&mut self, choice: &Choice) -> Digest {
        let wanted = self.effects(choice);
        let common = self.applied.iter().zip(&wanted).take_while(|((done, _), wanted)| done == *wanted).count();
        self.take_back(common);
        for &(index, tear) in &wanted[common..] {
            self.applied.push(((index, tear), self.before.len()));
            self.apply(index, tear);
        }
        self.digest
    }

    /// The records that take effect, in order.
    fn effects(&self, choice: &Choice) -> Vec<Applied> {
        let volatile = CrashImage::new(self.base, self.records).at(choice.tick()).volatile();
        let (mut volatile, mut kept) = (volatile.iter().peekable(), choice.kept().iter().peekable());
        let mut out = Vec::new();
        for (index, _) in self.records.iter().enumerate().take_while(|(_, record)| record.submitted <= choice.tick()) {
            let is_volatile = volatile.next_if_eq(&&index).is_some();
            let is_kept = kept.next_if_eq(&&index).is_some();
            let torn = choice.torn().filter(|(torn, _)| *torn == index);
            if !is_volatile || is_kept || torn.is_some() {
                out.push((index, torn.filter(|_| is_volatile).map(|(_, tear)| tear)));
            }
        }
        out
    }

    fn take_back(&mut self, common: usize) {
        let Some(&(_, mark)) = self.applied.get(common) else { return };
        self.applied.truncate(common);
        for (block, held) in self.before.split_off(mark).into_iter().rev() {
            self.put(block, held);
        }
    }

    fn apply(&mut self, index: usize, tear: Option<Tear>) {
        let records = self.records;
        let (first, count) = records[index].extent;
        match &records[index].op {
            Op::Write { pages, .. } => {
                for (at, page) in pages.iter().enumerate() {
                    let block = first + at as u64;
                    let held = match tear {
                        Some(tear) => self.torn(block, page, at, tear),
                        None => (*self.hashes.entry((index, at)).or_insert_with(|| hash_of(page)), page.clone()),
                    };
                    self.change(block, held);
                }
            }
            Op::Discard { .. } => {
                // Not block by block: a discard may be as long as the device.
                let from = self.held.partition_point(|block| *block < first);
                let held = self.held[from..].iter().take_while(|block| **block - first < count);
                let changed = self.blocks.range(first..first.saturating_add(count)).map(|(block, _)| block);
                let blocks: Vec<u64> = held.chain(changed).copied().collect();
                let zero = PageBuf::zeroed();
                let hash = hash_of(&zero);
                blocks.into_iter().for_each(|block| self.change(block, (hash, zero.clone())));
            }
            _ => {}
        }
    }

    fn change(&mut self, block: u64, held: Held) {
        let before = self.put(block, Some(held));
        self.before.push((block, before));
    }

    /// Puts the contents of a block, or the base's; returns those of before.
    fn put(&mut self, block: u64, held: Option<Held>) -> Option<Held> {
        let now = held.as_ref().map(|(hash, _)| *hash);
        let before = match held {
            Some(held) => self.blocks.insert(block, held),
            None => self.blocks.remove(&block),
        };
        let then = before.as_ref().map(|(hash, _)| *hash);
        self.digest = self.digest.wrapping_sub(self.share(block, then)).wrapping_add(self.share(block, now));
        before
    }

    /// A block's part of the digest; none if it holds what the base holds.
    fn share(&mut self, block: u64, hash: Option<u64>) -> Digest {
        let base = self.base;
        let mut of_base =
            || *self.base_hashes.entry(block).or_insert_with(|| hash_of(&base.read_one(block).unwrap_or_default()));
        let Some(hash) = hash.filter(|hash| *hash != of_base()) else { return 0 };
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, block, hash).hash(&mut hasher);
            Digest::from(hasher.finish())
        };
        half(0) << 64 | half(1)
    }

    fn torn(&self, block: u64, page: &PageBuf, at: usize, tear: Tear) -> Held {
        let old = match self.blocks.get(&block) {
            Some((_, page)) => page.clone(),
            None => self.base.read_one(block).unwrap_or_default(),
        };
        let (mut mixed, new) = (old.to_array(), page.to_array());
        for piece in (0..PIECES).filter(|piece| tear.keeps(at * PIECES + piece)) {
            let range = piece * PIECE_SIZE..(piece + 1) * PIECE_SIZE;
            mixed[range.clone()].copy_from_slice(&new[range]);
        }
        let page = PageBuf::from_slice(&mixed[..]);
        (hash_of(&page), page)
    }
}

fn hash_of(page: &PageBuf) -> u64 {
    let mut hasher = DefaultHasher::new();
    page.with(|bytes| bytes[..].hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use steadyfs_device::{FaultyDevice, RecordingDevice, Request};

    const BLOCKS: u64 = 12;

    /// Writes of few contents to few blocks, discards and flushes, on a device that holds something.
    fn log(rng: &mut Rng) -> (MemDevice, Vec<Record>) {
        let page = |byte: u64| PageBuf::from_slice(&[byte as u8; 4096]);
        let base = MemDevice::new(BLOCKS);
        (0..BLOCKS / 2).for_each(|block| base.write(block, vec![page(block % 3)]).expect("in range"));
        let device = RecordingDevice::new(FaultyDevice::new(base.fork()));
        for _ in 0..40 {
            let (block, count) = (rng.below(BLOCKS - 2), 1 + rng.below(3));
            let op = match rng.below(8) {
                0 => Op::Flush,
                1 | 2 => Op::Discard { block, count },
                _ => Op::Write {
                    block,
                    pages: (0..count).map(|_| page(rng.below(4))).collect(),
                    hint: steadyfs_device::StreamHint::DataWarm,
                    fua: rng.below(8) == 0,
                },
            };
            device.submit(vec![Request::new(op, |_| ())]);
        }
        (base, device.take_log())
    }

    /// Whatever comes after whatever: two choices have one digest if they leave the same bytes, and only then.
    #[test]
    fn digests_are_those_of_the_bytes_that_choices_leave() {
        for seed in 0..20 {
            let rng = &mut Rng::new(seed);
            let (base, records) = log(rng);
            let last = records.iter().filter_map(|record| record.completed).max().expect("all have ended");
            let mut disk = Disk::new(&base, &records);
            let (mut by_digest, mut by_bytes, mut same) = (HashMap::new(), HashMap::new(), 0);
            for _ in 0..400 {
                let tick = rng.below(last + 1);
                let volatile = CrashImage::new(&base, &records).at(tick).volatile();
                let share = rng.below(9);
                let mut kept: Vec<usize> = volatile.into_iter().filter(|_| rng.below(8) < share).collect();
                let written = |index: &usize| matches!(records[*index].op, Op::Write { .. });
                let torn = kept.iter().copied().find(|index| written(index) && rng.below(4) == 0);
                let torn = torn.map(|index| (index, Tear::Some(rng.next())));
                if rng.below(2) == 0 {
                    kept.retain(|index| torn.is_none_or(|(torn, _)| torn != *index));
                }
                let mut image = CrashImage::new(&base, &records).at(tick);
                image = kept.iter().fold(image, |image, index| image.keep(*index));
                if let Some((index, tear)) = torn {
                    image = image.tear(index, move |piece| tear.keeps(piece));
                }
                let left = image.build();
                let bytes: Vec<u8> =
                    (0..BLOCKS).flat_map(|block| left.read_one(block).expect("in range").to_array().to_vec()).collect();
                let digest = disk.after(&Choice::new(tick, kept, torn));
                same += usize::from(by_bytes.contains_key(&bytes));
                assert_eq!(*by_digest.entry(digest).or_insert_with(|| bytes.clone()), bytes, "seed {seed}: one digest");
                assert_eq!(*by_bytes.entry(bytes).or_insert(digest), digest, "seed {seed}: the same bytes");
            }
            assert!(same > 20 && by_bytes.len() > 50, "seed {seed}: {same} again of {}", by_bytes.len());
        }
    }
}
