//! Free node ids.
//!
//! Each NAT block is scanned once, when no free id is known, from the checkpoint's hint on; from then on its free ids
//! are known. Each core has ids at hand: those of a block that it scanned, or some that were freed. So cores take ids,
//! and write NAT blocks, without meeting each other. The block that a core is to scan is read before the lock of the
//! list is taken, so that cores which all begin wait for their reads side by side.
//!
//! An id freed since the last checkpoint is not given out before a checkpoint has written its NAT entry (format
//! section 4): until then it is *held*. Where free ids run out while some are held, it says so
//! ([`FreeNids::needs_release`]), and changes begin with a checkpoint. Kept true: an id is in at most one of {list, at
//! hand of a core, held, in use}; an id of a block not scanned yet is in no list, so the scan cannot find it twice.

use crate::error::{Error, Result};
use crate::locks;
use crate::volume::io::BlockIo;
use crate::volume::nodes::nat::Nat;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use steadyfs_format::Nid;
use steadyfs_format::numbers::NumberSet;
use steadyfs_rt::{Mutex, cpus, thread_number};

/// Ids for the changes under way: one takes an inode, a node of attributes, and up to four nodes for contents, its own
/// and its directory's.
const AT_HAND: usize = 32;

struct State {
    list: VecDeque<Nid>,
    scanned: Vec<bool>,
    scanned_count: u32,
    /// NAT block that the next scan reads.
    next: u32,
}

impl State {
    /// The next NAT block that nobody has scanned; others get other ones, while there are some. There is one.
    fn claim(&mut self) -> u32 {
        let blocks = self.scanned.len() as u32;
        while self.scanned[self.next as usize] {
            self.next = (self.next + 1) % blocks;
        }
        let block = self.next;
        self.next = (block + 1) % blocks;
        block
    }

    fn has_scanned_all(&self) -> bool {
        self.scanned_count as usize == self.scanned.len()
    }
}

/// The free ids that a core has at hand, on cache lines of their own.
#[repr(align(128))]
struct AtHand(Mutex<VecDeque<Nid>>);

/// Parts of the set of held ids: as many as a word has bits.
const SHARDS: usize = 64;
/// More lists than this are no gain.
const MOST_CORES: usize = 256;
/// Most ids that a core takes from the list at once.
const PORTION: usize = 64;

fn shard_of(nid: Nid) -> usize {
    nid.get() as usize % SHARDS
}

/// The allocator.
pub(crate) struct FreeNids {
    state: Mutex<State>,
    cores: Box<[AtHand]>,
    /// Freed since the snapshot of the last committed checkpoint.
    held: Box<[Mutex<NumberSet<Nid>>]>,
    /// A bit for each part that has some, changed under the lock of that part. Where names only come nobody looks at
    /// the parts.
    filled: AtomicU64,
    /// Few ids are left to take.
    is_scarce: AtomicBool,
    /// They are few, and a checkpoint would give more.
    needs_release: AtomicBool,
    /// Ids of a NAT block.
    per_block: u32,
}

impl FreeNids {
    /// Starts at the checkpoint's hint.
    pub(crate) fn new(hint: Nid, nat: &Nat) -> Self {
        let blocks = nat.block_count();
        let next = hint.get() / nat.per_block() % blocks;
        let state = State { list: VecDeque::new(), scanned: vec![false; blocks as usize], scanned_count: 0, next };
        let at_hand = || AtHand(Mutex::new(&locks::NID_AT_HAND, VecDeque::new()));
        FreeNids {
            state: Mutex::new(&locks::NID_LIST, state),
            cores: std::iter::repeat_with(at_hand).take(cpus().clamp(1, MOST_CORES)).collect(),
            held: (0..SHARDS).map(|_| Mutex::new(&locks::NID_HELD, NumberSet::default())).collect(),
            filled: AtomicU64::new(0),
            is_scarce: AtomicBool::new(false),
            needs_release: AtomicBool::new(false),
            per_block: nat.per_block(),
        }
    }

    /// Whether a change should begin with a checkpoint: free ids run out, and some wait for one. Each freed id asks for
    /// one checkpoint at most.
    pub(crate) fn needs_release(&self) -> bool {
        self.needs_release.load(SeqCst)
    }

    /// The ids at hand of the calling core.
    fn own(&self) -> &Mutex<VecDeque<Nid>> {
        &self.cores[thread_number() % self.cores.len()].0
    }

    fn shard(&self, nid: Nid) -> &Mutex<NumberSet<Nid>> {
        &self.held[shard_of(nid)]
    }

    /// Whether a part may have held ids. One that was held before the call is seen.
    fn is_filled(&self, shard: usize) -> bool {
        self.filled.load(SeqCst) >> shard & 1 != 0
    }

    fn is_held(&self, nid: Nid) -> bool {
        self.is_filled(shard_of(nid)) && self.shard(nid).lock().contains(&nid)
    }

    fn note(&self, s: &State) {
        let is_scarce = s.list.len() < AT_HAND && s.has_scanned_all();
        self.is_scarce.store(is_scarce, SeqCst);
        let needs_release = || is_scarce && self.filled.load(SeqCst) != 0;
        if !needs_release() {
            self.note_release(false);
        }
        // A thread that holds one after this look says so, see `hold`.
        if needs_release() {
            self.note_release(true);
        }
    }

    fn note_release(&self, needs_release: bool) {
        if self.needs_release.load(SeqCst) != needs_release {
            self.needs_release.store(needs_release, SeqCst);
        }
    }

    /// Takes a free id.
    pub(crate) fn take(&self, nat: &Nat, io: &BlockIo) -> Result<Nid> {
        let at_hand = self.own().lock().pop_front();
        let nid = at_hand.map_or_else(|| self.refill(nat, io), Ok)?;
        assert!(!self.is_held(nid), "{nid:?} is given out before a checkpoint has freed it");
        Ok(nid)
    }

    /// Gives the calling core free ids, and takes the first of them: those of a NAT block that nobody has scanned, or a
    /// part of those that are known.
    fn refill(&self, nat: &Nat, io: &BlockIo) -> Result<Nid> {
        let mut s = self.state.lock();
        let mut portion = VecDeque::new();
        while portion.is_empty() && s.list.is_empty() && !s.has_scanned_all() {
            let block = s.claim();
            drop(s);
            nat.load_block(io, block)?;
            s = self.state.lock();
            portion = self.scan(&mut s, nat, io, block)?;
        }
        if s.has_scanned_all() && s.list.len() < AT_HAND {
            // From here on the list is what there is, but for a little.
            s.list.append(&mut portion);
            self.gather(&mut s);
        }
        if portion.is_empty() {
            // Few at a time where there are few: nobody hoards what others look for.
            let count = (s.list.len() / (4 * self.cores.len())).clamp(1, PORTION);
            portion = (0..count).map_while(|_| s.list.pop_front()).collect();
        }
        self.note(&s);
        let first = portion.pop_front().ok_or(Error::NoSpace)?;
        // Under the lock of the list, or somebody might find no id anywhere.
        self.own().lock().append(&mut portion);
        Ok(first)
    }

    /// The free ids of a NAT block that was claimed; none if somebody has scanned it meanwhile.
    fn scan(&self, s: &mut State, nat: &Nat, io: &BlockIo, block: u32) -> Result<VecDeque<Nid>> {
        if s.scanned[block as usize] {
            return Ok(VecDeque::new());
        }
        let mut free = nat.free_in_block(io, block)?;
        s.scanned[block as usize] = true;
        s.scanned_count += 1;
        assert!(s.scanned_count as usize <= s.scanned.len(), "a NAT block was scanned twice");
        // A lock for each shard, not for each id.
        for (at, shard) in self.held.iter().enumerate().filter(|(at, _)| self.is_filled(*at)) {
            let held = shard.lock();
            free.retain(|nid| shard_of(*nid) != at || !held.contains(nid));
        }
        Ok(free.into())
    }

    /// Puts what cores have at hand into the list.
    fn gather(&self, s: &mut State) {
        self.cores.iter().for_each(|core| s.list.append(&mut core.0.lock()));
    }

    /// Takes this id, which the NAT says is free; false if it is held. Assign it before anything else takes ids.
    pub(crate) fn take_this(&self, nid: Nid) -> bool {
        let mut s = self.state.lock();
        self.cores.iter().for_each(|core| core.0.lock().retain(|free| *free != nid));
        s.list.retain(|free| *free != nid);
        self.note(&s);
        !self.is_held(nid)
    }

    /// Returns an id that was taken but never assigned.
    pub(crate) fn put_back(&self, nid: Nid) {
        assert!(!self.is_held(nid), "{nid:?} is put back and was freed");
        self.own().lock().push_front(nid);
    }

    /// An id is about to be freed; it is held until `release`. Comes before the NAT change, so that no scan finds it
    /// free.
    pub(crate) fn hold(&self, nid: Nid) {
        {
            let mut held = self.shard(nid).lock();
            let fresh = held.insert(nid);
            assert!(fresh, "{nid:?} freed twice");
            if !self.is_filled(shard_of(nid)) {
                self.filled.fetch_or(1 << shard_of(nid), SeqCst);
            }
        }
        // In this order: a thread that notes that ids are scarce sees this one, or is seen here.
        if self.is_scarce.load(SeqCst) {
            self.note_release(true);
        }
    }

    /// The ids held now; call under the exclusive checkpoint lock, and give them to `release` when the checkpoint
    /// committed.
    pub(crate) fn held(&self) -> Vec<Nid> {
        let mut held: Vec<Nid> =
            self.held.iter().flat_map(|shard| shard.lock().iter().copied().collect::<Vec<_>>()).collect();
        held.sort_unstable();
        held
    }

    /// Makes held ids available again.
    pub(crate) fn release(&self, nids: &[Nid]) {
        let mut s = self.state.lock();
        for nid in nids {
            let mut held = self.shard(*nid).lock();
            assert!(held.remove(nid), "{nid:?} was not held");
            if held.is_empty() {
                self.filled.fetch_and(!(1 << shard_of(*nid)), SeqCst);
            }
            drop(held);
            if s.scanned[(nid.get() / self.per_block) as usize] {
                s.list.push_back(*nid);
            }
        }
        self.note(&s);
    }

    /// Where a later mount may start to look for free ids.
    pub(crate) fn hint(&self) -> Nid {
        let at_hand = self.cores.iter().find_map(|core| core.0.lock().front().copied());
        let s = self.state.lock();
        let listed = at_hand.or(s.list.front().copied());
        listed.unwrap_or(Nid((s.next * self.per_block).max(4)))
    }
}

#[cfg(test)]
mod tests {
    use crate::mkfs::{self, MkfsOptions};
    use crate::{Error, Fs, InodeRef, MountOptions, NewInode, Result};
    use std::collections::HashSet;
    use std::sync::Arc;
    use steadyfs_device::MemDevice;
    use steadyfs_format::Nid;
    use steadyfs_rt::sim::{SimConfig, run};
    use steadyfs_rt::spawn;

    fn make(fs: &Fs, name: &str) -> Result<InodeRef> {
        fs.create(&fs.root()?, name.as_bytes(), &NewInode { mode: 0o100_644, ..NewInode::default() })
    }

    /// Tasks on many cores that take all there are: each id once, and none is left over at some core.
    #[test]
    fn cores_share_the_ids_and_leave_none() {
        for seed in 0..10 {
            let config = SimConfig { cores: 8, seed, ..SimConfig::default() };
            let work = || {
                let device = MemDevice::new((64 << 20) / 4096);
                mkfs::format(&device, &MkfsOptions::new([7; 16], 0)).unwrap();
                let quiet = MountOptions { background_gc: false, commit_seconds: Some(0), ..MountOptions::default() };
                let fs = Fs::mount(Arc::new(device), quiet).unwrap();
                let taker = |_| {
                    let fs = Arc::clone(&fs);
                    spawn("taker", move || {
                        std::iter::from_fn(|| fs.vol.nids.take(&fs.vol.nat, &fs.vol.io).ok()).collect()
                    })
                };
                let takers: Vec<_> = (0..8).map(taker).collect();
                let taken: Vec<Vec<Nid>> = takers.into_iter().map(|taker| taker.join().unwrap()).collect();
                let all: HashSet<Nid> = taken.iter().flatten().copied().collect();
                assert_eq!(all.len(), taken.iter().map(Vec::len).sum::<usize>(), "an id was given out twice");
                let free = fs.vol.nat.max_nid() as usize - 3 - 1;
                assert_eq!(all.len(), free, "ids are left");
                assert!(taken.iter().filter(|own| own.len() > 100).count() > 1, "one took nearly all");
            };
            run(config, work).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        }
    }

    #[test]
    fn freed_ids_are_given_out_when_no_others_are_left() {
        let device = MemDevice::new((64 << 20) / 4096);
        mkfs::format(&device, &MkfsOptions::new([7; 16], 0)).unwrap();
        let quiet = MountOptions { background_gc: false, commit_seconds: Some(0), ..MountOptions::default() };
        let fs = Fs::mount(Arc::new(device), quiet).unwrap();
        for n in 0..100 {
            make(&fs, &format!("old {n}")).unwrap();
        }
        fs.sync().unwrap();
        // A volume with fewer ids than blocks: all of the others are gone.
        while fs.vol.nids.take(&fs.vol.nat, &fs.vol.io).is_ok() {}
        assert!(matches!(make(&fs, "too many"), Err(Error::NoSpace)));
        let checkpoints = fs.checkpoint_stats().committed;
        for n in 0..100 {
            fs.unlink(&fs.root().unwrap(), format!("old {n}").as_bytes()).unwrap();
        }
        for n in 0..100 {
            make(&fs, &format!("new {n}")).unwrap_or_else(|e| panic!("file {n} of 100: {e}"));
        }
        assert!(matches!(make(&fs, "too many"), Err(Error::NoSpace)));
        // A direct node of a file wants an id, too.
        fs.unlink(&fs.root().unwrap(), b"new 0").unwrap();
        let file = fs.lookup(&fs.root().unwrap(), b"new 1").unwrap();
        fs.write(&file, 2000 * 4096, &[1; 4096]).unwrap();
        let made = fs.checkpoint_stats().committed - checkpoints;
        assert!(made <= 101, "{made} checkpoints for 101 ids");
    }
}
