//! The page pool: 4 KiB pages, aligned to 4 KiB for direct I/O, with a reference count each, at 1.6 % overhead.
//!
//! Pages are carved from 256 KiB chunks aligned to their size, 64 slots each. Slot 0 is the chunk's header, with one
//! 64-byte line per slot. Line 0 is for the chunk itself (owner shard, bitmap of free slots), and line `i` for the
//! reference count of slot `i`. So threads that count references of neighbouring pages do not share a line. A page's
//! chunk is found by masking its address.
//!
//! Chunks belong to shards; a thread allocates from one shard and a page returns to the shard of its chunk. A chunk
//! with no page in use is given back to the system, except [`RETAIN`] per shard and about [`RETAINED`] altogether, and
//! half of those each time somebody says that time has passed ([`trim`]). Of chunks in which some pages are in use, the
//! system then gets back the slots that were free the time before, too: a few pages that live long, such as those of
//! nodes, would otherwise hold a chunk each.
//!
//! Keeps true: every slot is initialised memory from the moment its chunk exists. Pages handed out hold zeros or what
//! they held last, never uninitialised bytes. A slot is free in the bitmap, or has a reference count of at least one,
//! never both.
#![allow(unsafe_code)] // raw memory with its own reference counts

use std::alloc::{Layout, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};

use crate::{BLOCK_SIZE, memory};
use steadyfs_rt::Leaf;

const SLOTS: usize = 64;
const CHUNK: usize = SLOTS * BLOCK_SIZE;
const LINE: usize = BLOCK_SIZE / SLOTS;
/// Free bitmap of a chunk that has no page in use: all slots but the header.
const ALL_FREE: u64 = !1;
const SHARDS: usize = 16;
/// Wholly free chunks that a shard keeps for the next allocation (16 shards x 16 x 256 KiB = 64 MiB at most).
const RETAIN: usize = 16;
/// Wholly free chunks up to which shards keep more (256 MiB), unless [`retain`] was called: to take new memory costs
/// more than to copy into it.
const RETAIN_ALL: usize = 1024;
static RETAINED: AtomicUsize = AtomicUsize::new(RETAIN_ALL);

/// Wholly free chunks of all shards.
static FREE_CHUNKS: AtomicUsize = AtomicUsize::new(0);
/// Chunks of all shards.
static CHUNKS: AtomicUsize = AtomicUsize::new(0);
/// Free slots of all chunks for which there is no memory at the moment.
static ABSENT: AtomicUsize = AtomicUsize::new(0);
/// Chunks of a shard that are looked through at a time: others wait for the shard meanwhile.
const AT_A_TIME: usize = 32;

/// Memory that the pages of this process take, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageMemory {
    /// Held for pages, used or not.
    pub held: u64,
    /// Part of it: in pieces without a page in use, kept for the next ones.
    pub kept_free: u64,
}

/// The memory of all pages now.
pub fn page_memory() -> PageMemory {
    let chunks = |count: &AtomicUsize| (count.load(Ordering::Relaxed) * CHUNK) as u64;
    let absent = (ABSENT.load(Ordering::Relaxed) * BLOCK_SIZE) as u64;
    let held = chunks(&CHUNKS).saturating_sub(absent);
    PageMemory { held, kept_free: chunks(&FREE_CHUNKS).min(held) }
}

/// From now on about `bytes` bytes without a page in use are kept for the next pages of this process; 256 MiB unless
/// this is called. Each mount calls this, so what the limit allows stays: a mount after another one finds it.
pub fn retain(bytes: u64) {
    let chunks = usize::try_from(bytes).unwrap_or(usize::MAX) / CHUNK;
    RETAINED.store(chunks, Ordering::Relaxed);
    if FREE_CHUNKS.load(Ordering::Relaxed) > chunks {
        keep_in_each_shard(|_| chunks / SHARDS);
    }
}

/// Gives half of what is kept without a page in use back to the system, and what was free beside used pages since the
/// last call. For who calls this now and then it falls when it is not needed.
pub fn trim() {
    keep_in_each_shard(|free| free / 2);
    for pool in &POOLS {
        let mut next = Some(0);
        while let Some(from) = next {
            next = pool.with_quietly(|shard| shard.release_idle(from));
        }
    }
}

/// Gives wholly free chunks back: `most` says of each shard how many of its free ones stay.
fn keep_in_each_shard(most: impl Fn(usize) -> usize) {
    for pool in &POOLS {
        pool.with_quietly(|shard| shard.keep_free(most(shard.free_chunks)));
    }
}

/// Taken under any other lock and takes none. Memory is below all that is simulated, and shared by simulations on
/// several threads.
static POOLS: [Leaf<Shard>; SHARDS] = [const { Leaf::new(Shard { usable: Vec::new(), free_chunks: 0 }) }; SHARDS];

/// The chunks of a shard that have a free slot. Full ones are on no list; their pages lead back to them.
struct Shard {
    usable: Vec<Chunk>,
    free_chunks: usize,
}

/// A chunk, by the address of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk(NonNull<ChunkHeader>);

// SAFETY: a chunk is memory that no thread owns; its header is touched only under the lock of its shard.
unsafe impl Send for Chunk {}

/// Line 0 of a chunk. Protected by the lock of shard `shard`; `shard` itself never changes.
#[repr(C)]
struct ChunkHeader {
    free: u64,
    /// Those of the free slots that were free at the last look, too.
    idle: u64,
    /// Those of the idle slots for which there is no memory until they are used.
    absent: u64,
    /// Index in the shard's `usable` list, while `free` is not 0.
    at: usize,
    shard: usize,
}

const _: () = assert!(size_of::<ChunkHeader>() <= LINE && size_of::<AtomicU32>() <= LINE);

/// What to say that there is no memory for.
const LAYOUT: Layout = match Layout::from_size_align(CHUNK, CHUNK) {
    Ok(layout) => layout,
    Err(_) => panic!("chunk size is a power of two"),
};

/// A counted reference to one page of the pool.
pub(crate) struct PageRef(NonNull<[u8; BLOCK_SIZE]>);

// SAFETY: the bytes are only written through `get_mut`, which requires the sole reference; the count is atomic.
unsafe impl Send for PageRef {}
// SAFETY: as above.
unsafe impl Sync for PageRef {}

impl PageRef {
    /// A page with one reference. Its contents are zeros or whatever an earlier owner left: the caller overwrites all
    /// of it.
    pub(crate) fn new_stale() -> Self {
        let (chunk, slot) = POOLS[home_shard()].with_quietly(Shard::take_slot);
        // SAFETY: `slot` < SLOTS, so the address lies inside the chunk.
        let page = PageRef(unsafe { chunk.0.cast::<[u8; BLOCK_SIZE]>().add(slot) });
        let before = page.count().swap(1, Ordering::Relaxed);
        assert_eq!(before, 0, "a free page has no references");
        page
    }

    /// The bytes.
    #[inline]
    pub(crate) fn get(&self) -> &[u8; BLOCK_SIZE] {
        // SAFETY: the slot is initialised and stays allocated while this reference counts; writers hold the sole
        // reference.
        unsafe { self.0.as_ref() }
    }

    /// True if this is the only reference. Stays true while it is borrowed exclusively.
    #[inline]
    pub(crate) fn is_sole(&self) -> bool {
        // Acquire pairs with the Release of dropped references: what they read, they have read.
        self.count().load(Ordering::Acquire) == 1
    }

    /// The bytes for writing, if this is the only reference.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> Option<&mut [u8; BLOCK_SIZE]> {
        if !self.is_sole() {
            return None;
        }
        // SAFETY: the only reference is borrowed exclusively, so nobody can read, write or clone it meanwhile.
        Some(unsafe { self.0.as_mut() })
    }

    /// True if both are references to one page.
    #[inline]
    pub(crate) fn same(&self, other: &PageRef) -> bool {
        self.0 == other.0
    }

    fn chunk(&self) -> Chunk {
        let address = self.0.cast::<ChunkHeader>().as_ptr().map_addr(|address| address & !(CHUNK - 1));
        // SAFETY: the chunk of a live page starts at a non-null address.
        Chunk(unsafe { NonNull::new_unchecked(address) })
    }

    fn slot(&self) -> usize {
        (self.0.addr().get() % CHUNK) / BLOCK_SIZE
    }

    #[inline]
    fn count(&self) -> &AtomicU32 {
        // SAFETY: line `slot` of the header page is inside the chunk, aligned, initialised, and only ever used as this
        // counter.
        unsafe { self.chunk().0.cast::<u8>().add(self.slot() * LINE).cast::<AtomicU32>().as_ref() }
    }

    #[cold]
    fn release(&self) {
        let chunk = self.chunk();
        // SAFETY: the chunk is allocated while this page is not free, and `shard` is written only before its first page
        // exists.
        let home = unsafe { (*chunk.0.as_ptr()).shard };
        POOLS[home].with_quietly(|shard| shard.return_slot(chunk, self.slot()));
    }
}

impl Clone for PageRef {
    #[inline]
    fn clone(&self) -> Self {
        let before = self.count().fetch_add(1, Ordering::Relaxed);
        assert!(before < u32::MAX / 2, "too many references to one page");
        PageRef(self.0)
    }
}

impl Drop for PageRef {
    #[inline]
    fn drop(&mut self) {
        if self.count().fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            self.release();
        }
    }
}

impl Shard {
    /// Takes a free slot of this (locked) shard.
    fn take_slot(&mut self) -> (Chunk, usize) {
        let chunk = match self.usable.last() {
            Some(&chunk) => chunk,
            None => self.add_chunk(),
        };
        // SAFETY: `chunk` is on this shard's list, so it is allocated, and its header is ours under the shard's lock.
        let header = unsafe { &mut *chunk.0.as_ptr() };
        let present = header.free & !header.absent;
        let slot = if present == 0 { header.free } else { present }.trailing_zeros() as usize;
        assert!(slot > 0 && slot < SLOTS, "a chunk on the usable list has a free slot");
        if header.free == ALL_FREE {
            self.free_chunks -= 1;
            FREE_CHUNKS.fetch_sub(1, Ordering::Relaxed);
        }
        header.free &= !(1 << slot);
        header.idle &= !(1 << slot);
        if header.absent & (1 << slot) != 0 {
            header.absent &= !(1 << slot);
            ABSENT.fetch_sub(1, Ordering::Relaxed);
        }
        if header.free == 0 {
            self.usable.pop();
        }
        (chunk, slot)
    }

    /// Takes a slot of one of this (locked) shard's chunks back.
    fn return_slot(&mut self, chunk: Chunk, slot: usize) {
        // SAFETY: a page of the chunk was in use until now, so it is allocated, and its header is ours under the
        // shard's lock.
        let header = unsafe { &mut *chunk.0.as_ptr() };
        let bit = 1u64 << slot;
        assert_eq!(header.free & bit, 0, "a page is freed once");
        if header.free == 0 {
            header.at = self.usable.len();
            self.usable.push(chunk);
        }
        header.free |= bit;
        if header.free == ALL_FREE {
            self.retire(chunk);
        }
    }

    /// Adds a wholly free chunk to this (locked) shard.
    fn add_chunk(&mut self) -> Chunk {
        let Some(memory) = memory::map(CHUNK) else { handle_alloc_error(LAYOUT) };
        let header = memory.cast::<ChunkHeader>();
        // SAFETY: fresh memory of at least that size, aligned to far more.
        unsafe {
            header.write(ChunkHeader { free: ALL_FREE, idle: 0, absent: 0, at: self.usable.len(), shard: home_shard() })
        };
        self.usable.push(Chunk(header));
        self.free_chunks += 1;
        FREE_CHUNKS.fetch_add(1, Ordering::Relaxed);
        CHUNKS.fetch_add(1, Ordering::Relaxed);
        Chunk(header)
    }

    /// Gives wholly free chunks back until no more than `most` are left.
    fn keep_free(&mut self, most: usize) {
        let mut at = self.usable.len();
        while self.free_chunks > most && at > 0 {
            at -= 1;
            let chunk = self.usable[at];
            // SAFETY: a listed chunk is allocated, and its header is ours under the shard's lock.
            if unsafe { (*chunk.0.as_ptr()).free } == ALL_FREE {
                self.free_chunks -= 1;
                FREE_CHUNKS.fetch_sub(1, Ordering::Relaxed);
                self.unmap(chunk);
            }
        }
    }

    /// Gives the memory of free slots back that were free at the last look, in some chunks of which pages are in use:
    /// those on the list from `from` on. Where to go on; `None` at the end.
    fn release_idle(&mut self, from: usize) -> Option<usize> {
        let end = self.usable.len().min(from + AT_A_TIME);
        for &chunk in self.usable.get(from..end).unwrap_or_default() {
            // SAFETY: a listed chunk is allocated, and its header is ours under the shard's lock.
            let header = unsafe { &mut *chunk.0.as_ptr() };
            // A chunk that is wholly free is another matter.
            let mut going = if header.free == ALL_FREE { 0 } else { header.idle & !header.absent };
            header.idle = header.free;
            while going != 0 {
                let first = going.trailing_zeros() as usize;
                let count = (!(going >> first)).trailing_zeros() as usize;
                let run = u64::MAX >> (SLOTS - count) << first;
                going &= !run;
                // SAFETY: these slots lie in the chunk; they are free, so nobody relies on what they hold.
                let released =
                    unsafe { memory::release(chunk.0.cast::<u8>().add(first * BLOCK_SIZE), count * BLOCK_SIZE) };
                if released {
                    header.absent |= run;
                    ABSENT.fetch_add(count, Ordering::Relaxed);
                }
            }
        }
        (end < self.usable.len()).then_some(end)
    }

    /// Handles a chunk that has just become wholly free: keeps it, or gives it back to the system.
    fn retire(&mut self, chunk: Chunk) {
        let retained = RETAINED.load(Ordering::Relaxed);
        if self.free_chunks < RETAIN.min(retained / SHARDS) || FREE_CHUNKS.load(Ordering::Relaxed) < retained {
            self.free_chunks += 1;
            FREE_CHUNKS.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.unmap(chunk);
    }

    /// Gives a wholly free chunk, which is not counted among those that are kept, back to the system.
    fn unmap(&mut self, chunk: Chunk) {
        // SAFETY: the header is ours under the shard's lock, which the caller holds.
        let (at, absent) = unsafe { ((*chunk.0.as_ptr()).at, (*chunk.0.as_ptr()).absent) };
        assert!(self.usable.get(at) == Some(&chunk), "a chunk with free slots is on the list where it says");
        self.usable.swap_remove(at);
        if let Some(moved) = self.usable.get(at) {
            // SAFETY: as above; the moved chunk belongs to the same shard.
            unsafe { (*moved.0.as_ptr()).at = at };
        }
        // SAFETY: mapped with this size; no slot is in use and the list has forgotten it, so no pointer to it remains.
        unsafe { memory::unmap(chunk.0.cast(), CHUNK) };
        CHUNKS.fetch_sub(1, Ordering::Relaxed);
        ABSENT.fetch_sub(absent.count_ones() as usize, Ordering::Relaxed);
    }
}

/// The shard this thread allocates from; threads are dealt to shards in turn.
fn home_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static HOME: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    HOME.with(|home| {
        if home.get() == usize::MAX {
            home.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        home.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_distinct_and_reused() {
        steadyfs_rt::spawn("pool", || {
            let pages: Vec<PageRef> = (0..1000).map(|_| PageRef::new_stale()).collect();
            let mut addresses: Vec<usize> = pages.iter().map(|page| page.0.addr().get()).collect();
            assert!(addresses.iter().all(|address| address % BLOCK_SIZE == 0 && address % CHUNK != 0));
            addresses.sort_unstable();
            addresses.dedup();
            assert_eq!(addresses.len(), 1000);
            drop(pages);
            let again = PageRef::new_stale();
            assert!(addresses.binary_search(&again.0.addr().get()).is_ok(), "a freed page is used again");
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn retention_is_bounded_and_lists_stay_consistent() {
        steadyfs_rt::spawn("pool", || {
            let mut pages: Vec<PageRef> = (0..SLOTS * (RETAIN_ALL + 100)).map(|_| PageRef::new_stale()).collect();
            // Free in an order that empties chunks from the middle of the list.
            let half = pages.split_off(pages.len() / 2);
            drop(half);
            pages.reverse();
            drop(pages);
            POOLS[home_shard()].with_quietly(|shard| {
                assert!(shard.free_chunks <= RETAIN_ALL, "{} free chunks kept", shard.free_chunks);
                for (at, chunk) in shard.usable.iter().enumerate() {
                    // SAFETY: listed chunks are allocated and the shard is locked.
                    let header = unsafe { &*chunk.0.as_ptr() };
                    assert!(header.at == at && header.free != 0);
                }
            });
        })
        .join()
        .expect("no panic");
    }

    /// Alone in a process, since other tests take and free pages of the same pools.
    #[test]
    fn a_limit_that_allows_what_is_kept_gives_nothing_back() {
        const ALONE: &str = "STEADYFS_TEST_ALONE";
        const NAME: &str = "pool::tests::a_limit_that_allows_what_is_kept_gives_nothing_back";
        if std::env::var_os(ALONE).is_none() {
            let mut alone = std::process::Command::new(std::env::current_exe().expect("path of this program"));
            let ended = alone.args(["--exact", NAME]).env(ALONE, "1").status().expect("starts");
            assert!(ended.success(), "failed in a process of its own");
            return;
        }
        drop((0..(SLOTS - 1) * 200).map(|_| PageRef::new_stale()).collect::<Vec<_>>());
        let kept = page_memory().kept_free;
        assert_eq!(kept, 200 * CHUNK as u64, "all of one shard");
        retain((RETAIN_ALL * CHUNK) as u64);
        assert_eq!(page_memory().kept_free, kept, "a second mount finds the memory of the first");
        retain((32 * CHUNK) as u64);
        assert!(page_memory().kept_free <= (32 * CHUNK) as u64);
    }

    #[test]
    fn what_is_kept_free_is_given_back() {
        // One of its own: other tests use the shards of the pool.
        let mut shard = Shard { usable: Vec::new(), free_chunks: 0 };
        let slots: Vec<(Chunk, usize)> = (0..(SLOTS - 1) * 40).map(|_| shard.take_slot()).collect();
        let (last, others) = slots.split_last().expect("many");
        others.iter().for_each(|(chunk, slot)| shard.return_slot(*chunk, *slot));
        let kept = shard.free_chunks;
        assert!(page_memory().held >= (kept * CHUNK) as u64);
        shard.keep_free(kept / 2);
        assert_eq!((shard.free_chunks, shard.usable.len()), (kept / 2, kept / 2 + 1));
        for (at, chunk) in shard.usable.iter().enumerate() {
            // SAFETY: listed chunks are allocated, and nobody else has this shard.
            assert_eq!(unsafe { &*chunk.0.as_ptr() }.at, at);
        }
        shard.keep_free(0);
        assert_eq!(shard.usable, [last.0], "a page of it is in use");
        shard.return_slot(last.0, last.1);
        shard.keep_free(0);
        assert!(shard.usable.is_empty() && shard.free_chunks == 0);
    }

    #[test]
    fn what_is_free_beside_used_pages_is_given_back() {
        const CHUNKS: usize = AT_A_TIME + 8;
        // One of its own: other tests use the shards of the pool.
        let mut shard = Shard { usable: Vec::new(), free_chunks: 0 };
        // SAFETY: each slot lies in its chunk, which is allocated, and is used by this test alone.
        let bytes =
            |(chunk, slot): (Chunk, usize)| unsafe { &mut *chunk.0.cast::<[u8; BLOCK_SIZE]>().add(slot).as_ptr() };
        let look = |shard: &mut Shard| {
            let mut next = Some(0);
            while let Some(from) = next {
                next = shard.release_idle(from);
            }
            // SAFETY: listed chunks are allocated, and nobody else has this shard.
            shard.usable.iter().map(|chunk| unsafe { &*chunk.0.as_ptr() }.absent.count_ones() as usize).sum::<usize>()
        };
        let slots: Vec<(Chunk, usize)> = (0..(SLOTS - 1) * CHUNKS).map(|_| shard.take_slot()).collect();
        slots.iter().for_each(|slot| bytes(*slot).fill(9));
        // One page of each chunk lives on.
        let lives = |slot: &&(Chunk, usize)| slot.1 == 30;
        slots.iter().filter(|slot| !lives(slot)).for_each(|(chunk, slot)| shard.return_slot(*chunk, *slot));
        assert_eq!(look(&mut shard), 0, "used a moment ago");
        assert_eq!(look(&mut shard), CHUNKS * (SLOTS - 2));
        assert!(slots.iter().filter(lives).all(|slot| *bytes(*slot) == [9; BLOCK_SIZE]));
        // What is used again is there, and others are not counted as idle for it.
        let again = shard.take_slot();
        assert_eq!(*bytes(again), [0; BLOCK_SIZE], "it took no memory meanwhile");
        assert_eq!(look(&mut shard), CHUNKS * (SLOTS - 2) - 1);
        shard.return_slot(again.0, again.1);
        slots.iter().filter(lives).for_each(|(chunk, slot)| shard.return_slot(*chunk, *slot));
        shard.keep_free(0);
        assert!(shard.usable.is_empty());
    }

    #[test]
    fn counts_follow_clones_across_threads() {
        let mut page = PageRef::new_stale();
        page.get_mut().expect("sole reference").fill(7);
        let clones: Vec<_> = (0..4)
            .map(|_| {
                let page = page.clone();
                steadyfs_rt::spawn("clone", move || (0..10_000).all(|_| page.clone().get()[9] == 7))
            })
            .collect();
        assert!(clones.into_iter().all(|clone| clone.join() == Ok(true)));
        assert!(page.get_mut().is_some(), "all clones are gone");
        let clone = page.clone();
        assert!(page.get_mut().is_none() && clone.same(&page));
    }
}
