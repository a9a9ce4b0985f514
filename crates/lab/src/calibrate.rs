//! What CPU work costs on this machine, beside the table that simulations use ([`Costs`]).
//!
//! Each kind of work is done many times in a loop, in the way that stands beside it in [`Price::how`]; the least of
//! several rounds counts, so that what else the machine does matters little. The default table is of kernels and of
//! other machines: this says how far away this one is, and gives a table for `machine.costs` if it is to be simulated.

use crate::rng::Rng;
use crate::spec::cost_name;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steadyfs_device::{Device, MemDevice, Op, Request};
use steadyfs_journal::{Classes, CommitLists, Form, Item, Part};
use steadyfs_rt::sim::Costs;
use steadyfs_rt::{Completion, Condvar, Cost, LockClass, Mutex, now, spawn};

/// The price of one kind of work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Price {
    /// The work, by the name that `machine.costs` uses.
    pub cost: String,
    /// Nanoseconds on this machine; none of what only a kernel does with pages.
    pub ns: Option<f64>,
    /// Nanoseconds in the default table.
    pub default_ns: u64,
    /// What was measured.
    pub how: &'static str,
}

/// Rounds of each loop: short ones, so that some of them are not interrupted on a busy machine.
const ROUNDS: u64 = 64;
const PAGE: usize = 4096;
/// Pages to choose from: 64 MiB, more than caches hold.
const PAGES: u64 = 16 << 10;

static LOCK: LockClass = LockClass::new("lab.calibrate", 0);
static CONTEXT: LockClass = LockClass::new("lab.calibrate.context", 1);
static LIST: LockClass = LockClass::new("lab.calibrate.list", 2).spinning();

/// Measures every price of work that is done here; takes a few seconds. Not inside a simulation, where nothing takes
/// time.
pub fn calibrate() -> Vec<Price> {
    assert!(!steadyfs_rt::sim::is_active(), "virtual time measures nothing");
    let defaults = Costs::default();
    Cost::ALL
        .into_iter()
        .map(|cost| {
            let (how, ns) = match measure(cost) {
                Some((how, ns)) => (how, Some(ns)),
                None => ("only a kernel does it: tools/real-f2fs-cpu.sh measures the real F2FS", None),
            };
            Price { cost: cost_name(cost), ns, default_ns: defaults.of(cost), how }
        })
        .collect()
}

fn measure(cost: Cost) -> Option<(&'static str, f64)> {
    Some(match cost {
        Cost::SyscallEntry => ("getppid", best(1 << 18, |_| rustix::process::getppid())),
        Cost::PageCopy => ("4 KiB from and to memory that no cache holds", page_copy()),
        Cost::PageZero => ("4 KiB of zeros to memory that no cache holds", page_zero()),
        Cost::Checksum => ("the format's checksum over a block", checksum()),
        Cost::RadixLookup => ("an ordered map of a million pages", ordered_lookup()),
        Cost::NodeLookup => ("a hash table of 64 Ki nodes behind a lock", node_lookup()),
        Cost::DentryScan => ("comparing a hash and a length, one entry after the other", dentry_scan()),
        Cost::BlockAlloc => ("a cursor behind a lock and a summary entry", block_alloc()),
        Cost::SegmentUpdate => ("two atomic changes of a table of 15,000 segments", segment_update()),
        Cost::VictimScan => ("one segment's word of such a table, in order", victim_scan()),
        Cost::BioSubmit => ("a read request to the memory device, from its making to its end", bio_submit()),
        Cost::BioComplete => ("completing a request that somebody asks for", bio_complete()),
        Cost::LockOp => ("a lock taken and released", lock_op()),
        Cost::SharedAtomic => ("an atomic addition while another core does the same", shared_atomic()),
        Cost::LogRecord => ("64 bytes or a record of a commit to the journal's lists", log_record()),
        Cost::WakeUp => ("notifying a thread that sleeps", wake_up()),
        Cost::PageWrite | Cost::PageWriteback | Cost::PageMove | Cost::NameChange => return None,
    })
}

/// The mean time of a step, in nanoseconds, in each of the rounds, which have `4 * n` steps together.
fn rounds<R>(n: u64, mut step: impl FnMut(u64) -> R) -> impl Iterator<Item = f64> {
    (0..ROUNDS).map(move |_| {
        let began = now();
        (0..(n / 16).max(1)).for_each(|i| drop(black_box(step(i))));
        began.elapsed().as_nanos() as f64 / (n / 16).max(1) as f64
    })
}

/// The least of the rounds.
fn best<R>(n: u64, step: impl FnMut(u64) -> R) -> f64 {
    rounds(n, step).fold(f64::INFINITY, f64::min)
}

/// The offset of a page chosen at random.
fn any_page(rng: &mut Rng) -> usize {
    rng.below(PAGES) as usize * PAGE
}

fn page_copy() -> f64 {
    let (from, mut to) = (vec![1u8; PAGES as usize * PAGE], vec![2u8; PAGES as usize * PAGE]);
    let mut rng = Rng::new(1, 1);
    best(1 << 15, |_| {
        let (a, b) = (any_page(&mut rng), any_page(&mut rng));
        // Nobody reads the copy: an optimizer that knew would not make it.
        black_box(&mut to[b..b + PAGE]).copy_from_slice(black_box(&from[a..a + PAGE]));
    })
}

fn page_zero() -> f64 {
    let mut to = vec![2u8; PAGES as usize * PAGE];
    let mut rng = Rng::new(1, 1);
    best(1 << 15, |_| {
        let at = any_page(&mut rng);
        black_box(&mut to[at..at + PAGE]).fill(0);
    })
}

fn checksum() -> f64 {
    let block = vec![7u8; PAGE];
    best(1 << 15, |_| steadyfs_format::crc::crc_magic(black_box(&block)))
}

fn ordered_lookup() -> f64 {
    let map: BTreeMap<u64, u64> = (0..1 << 20).map(|page| (page, page)).collect();
    let mut rng = Rng::new(1, 1);
    best(1 << 18, |_| map.get(&rng.below(1 << 20)).copied())
}

fn node_lookup() -> f64 {
    let map: HashMap<u32, Arc<u32>> = (0..1 << 16).map(|nid| (nid, Arc::new(nid))).collect();
    let map = Mutex::new(&LOCK, map);
    let mut rng = Rng::new(1, 1);
    best(1 << 18, |_| map.lock().get(&(rng.below(1 << 16) as u32)).cloned())
}

fn dentry_scan() -> f64 {
    let entries: Vec<(u32, u16)> = (0..214).map(|i| (i * 7919, 9)).collect();
    let missing = (3, 9);
    best(1 << 14, |_| entries.iter().position(|entry| *entry == black_box(missing))) / 214.0
}

fn block_alloc() -> f64 {
    let head = Mutex::new(&LOCK, (0usize, vec![0u8; 512 * 7]));
    best(1 << 18, |i| {
        let mut head = head.lock();
        let at = head.0;
        head.1[at * 7..at * 7 + 7].copy_from_slice(&i.to_le_bytes()[..7]);
        head.0 = (at + 1) % 512;
    })
}

fn table() -> Vec<AtomicU64> {
    (0..15_000).map(AtomicU64::new).collect()
}

fn segment_update() -> f64 {
    let (words, maps) = (table(), table());
    let mut rng = Rng::new(1, 1);
    best(1 << 18, |i| {
        let at = rng.below(15_000) as usize;
        maps[at].fetch_or(1 << (i % 64), Relaxed);
        words[at].fetch_add(1, Relaxed);
    })
}

fn victim_scan() -> f64 {
    let words = table();
    let least = || words.iter().map(|word| word.load(Relaxed) & 0xFFFF).min();
    best(1 << 8, |_| least()) / 15_000.0
}

fn bio_submit() -> f64 {
    let device = MemDevice::new(1 << 16);
    let mut rng = Rng::new(1, 1);
    best(1 << 16, |_| {
        let op = Op::Read { block: rng.below(1 << 16), count: 1 };
        device.submit(vec![Request::new(op, |result| drop(black_box(result)))]);
    })
}

fn bio_complete() -> f64 {
    best(1 << 16, |i| {
        let end = Completion::new();
        end.clone().complete(i);
        black_box(end.wait());
    })
}

fn lock_op() -> f64 {
    let lock = Mutex::new(&LOCK, 0u64);
    best(1 << 20, |i| *lock.lock() += i)
}

fn shared_atomic() -> f64 {
    let (counter, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let other = {
        let (counter, stop) = (Arc::clone(&counter), Arc::clone(&stop));
        spawn("lab-calibrate", move || {
            while stop.load(Relaxed) == 0 {
                counter.fetch_add(1, Relaxed);
            }
        })
    };
    // The least round would be one in which the other thread did not run.
    let mut rounds: Vec<f64> = rounds(1 << 18, |_| counter.fetch_add(1, Relaxed)).collect();
    rounds.sort_by(f64::total_cmp);
    let ns = rounds[rounds.len() / 2];
    stop.store(1, Relaxed);
    // It only counts: if it has failed, the figure is that of one core.
    let _ = other.join();
    ns
}

/// Commits of four inodes with 128 bytes each, which is three units an inode; the lists are sealed between rounds.
fn log_record() -> f64 {
    const COMMITS: usize = 32;
    let lists = CommitLists::new(Form::Single, Classes { context: &CONTEXT, list: &LIST });
    let inodes: Vec<Arc<Item<Vec<u8>>>> = (0..4 * COMMITS as u32).map(Item::new).collect();
    let round = |_| {
        let began = now();
        for changed in inodes.chunks(4) {
            let parts = changed.iter().map(|item| Part { item: Arc::clone(item), what: black_box([1u8; 128]) });
            lists.commit(parts, |vector: &mut Vec<u8>, bytes| {
                vector.extend_from_slice(&bytes);
                bytes.len() as i64
            });
        }
        let ns = began.elapsed().as_nanos() as f64 / (3 * inodes.len()) as f64;
        drop(black_box(lists.seal()));
        ns
    };
    (0..ROUNDS * 16).map(round).fold(f64::INFINITY, f64::min)
}

/// The other thread sleeps whenever it holds the lock's condition: it is notified with the lock free.
fn wake_up() -> f64 {
    let shared = Arc::new((Mutex::new(&LOCK, Turn::Asleep), Condvar::new(), Condvar::new()));
    let other = Arc::clone(&shared);
    let sleeper = spawn("lab-calibrate", move || {
        let (turn, wake, asleep) = &*other;
        let mut turn = turn.lock();
        while *turn != Turn::Over {
            *turn = Turn::Asleep;
            asleep.notify_one();
            wake.wait_while(&mut turn, |turn| *turn == Turn::Asleep);
        }
    });
    let (turn, wake, asleep) = &*shared;
    let once = || {
        let mut now_asleep = turn.lock();
        asleep.wait_while(&mut now_asleep, |turn| *turn != Turn::Asleep);
        *now_asleep = Turn::Awake;
        drop(now_asleep);
        let began = now();
        wake.notify_one();
        began.elapsed().as_nanos() as f64
    };
    let ns = (0..ROUNDS * 16).map(|_| once()).fold(f64::INFINITY, f64::min);
    *turn.lock() = Turn::Over;
    wake.notify_one();
    // It only sleeps and wakes.
    let _ = sleeper.join();
    ns
}

/// What the thread that is woken does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Asleep,
    Awake,
    Over,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_price_is_measured_and_none_is_absurd() {
        let prices = calibrate();
        assert_eq!(prices.len(), Cost::ALL.len());
        for price in &prices {
            let kernels = ["page_write", "page_writeback", "page_move", "name_change"].contains(&price.cost.as_str());
            assert_eq!(price.ns.is_none(), kernels, "{price:?}");
            assert!(price.ns.is_none_or(|ns| ns > 0.05 && ns < 1e6), "{price:?}");
        }
        let of = |name: &str| prices.iter().find(|price| price.cost == name).and_then(|price| price.ns).unwrap_or(0.0);
        assert!(of("page_copy") > of("lock_op"), "copying a page costs more than a lock");
    }
}
