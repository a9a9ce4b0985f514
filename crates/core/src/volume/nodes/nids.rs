//! Free node ids.
//!
//! Each NAT block is scanned once, when the list runs dry, from the checkpoint's hint on; from then on the list knows
//! its free ids. An id freed since the last checkpoint is not given out before a checkpoint has written its NAT entry
//! (format section 4): until then it is *held*. Where free ids run out while some are held, it says so
//! ([`FreeNids::needs_release`]), and changes begin with a checkpoint. Kept true: an id is in at most one of {list,
//! held, in use}; an id of a block not scanned yet is never in the list, so the scan cannot find it twice.

use crate::error::{Error, Result};
use crate::locks;
use crate::volume::io::BlockIo;
use crate::volume::nodes::nat::Nat;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use steadyfs_format::Nid;
use steadyfs_rt::Mutex;

/// Ids for the changes under way: one takes an inode, a node of attributes, and up to four nodes for contents, its own
/// and its directory's.
const AT_HAND: usize = 32;

struct State {
    list: VecDeque<Nid>,
    /// Freed since the snapshot of the last committed checkpoint.
    held: HashSet<Nid>,
    scanned: Vec<bool>,
    scanned_count: u32,
    /// NAT block that the next scan reads.
    next: u32,
}

impl State {
    /// Whether few ids are left to take, and a checkpoint would give more.
    fn needs_release(&self) -> bool {
        self.list.len() < AT_HAND && self.scanned_count as usize == self.scanned.len() && !self.held.is_empty()
    }
}

/// The allocator.
pub(crate) struct FreeNids {
    state: Mutex<State>,
    /// [`State::needs_release`], for those who look without the lock.
    needs_release: AtomicBool,
    /// Ids of a NAT block.
    per_block: u32,
}

impl FreeNids {
    /// Starts at the checkpoint's hint.
    pub(crate) fn new(hint: Nid, nat: &Nat) -> Self {
        let blocks = nat.block_count();
        let next = hint.get() / nat.per_block() % blocks;
        let scanned = vec![false; blocks as usize];
        let state = State { list: VecDeque::new(), held: HashSet::new(), scanned, scanned_count: 0, next };
        FreeNids {
            state: Mutex::new(&locks::NID_LIST, state),
            needs_release: AtomicBool::new(false),
            per_block: nat.per_block(),
        }
    }

    /// Whether a change should begin with a checkpoint: free ids run out, and some wait for one. Each freed id asks for
    /// one checkpoint at most.
    pub(crate) fn needs_release(&self) -> bool {
        self.needs_release.load(SeqCst)
    }

    fn note(&self, s: &State) {
        let needs_release = s.needs_release();
        if self.needs_release.load(SeqCst) != needs_release {
            self.needs_release.store(needs_release, SeqCst);
        }
    }

    /// Takes a free id.
    pub(crate) fn take(&self, nat: &Nat, io: &BlockIo) -> Result<Nid> {
        let mut s = self.state.lock();
        while s.list.is_empty() {
            if s.scanned_count == nat.block_count() {
                self.note(&s);
                return Err(Error::NoSpace);
            }
            let block = s.next;
            s.next = (block + 1) % nat.block_count();
            if s.scanned[block as usize] {
                continue;
            }
            let found = nat.free_in_block(io, block)?;
            s.scanned[block as usize] = true;
            s.scanned_count += 1;
            assert!(s.scanned_count as usize <= s.scanned.len(), "a NAT block was scanned twice");
            let State { list, held, .. } = &mut *s;
            list.extend(found.into_iter().filter(|nid| !held.contains(nid)));
        }
        let nid = s.list.pop_front();
        assert!(nid.is_none_or(|nid| !s.held.contains(&nid)), "{nid:?} is given out before a checkpoint has freed it");
        self.note(&s);
        nid.ok_or(Error::NoSpace)
    }

    /// Takes this id, which the NAT says is free; false if it is held. Assign it before anything else takes ids.
    pub(crate) fn take_this(&self, nid: Nid) -> bool {
        let mut s = self.state.lock();
        s.list.retain(|free| *free != nid);
        self.note(&s);
        !s.held.contains(&nid)
    }

    /// Returns an id that was taken but never assigned.
    pub(crate) fn put_back(&self, nid: Nid) {
        let mut s = self.state.lock();
        assert!(!s.held.contains(&nid), "{nid:?} is put back and was freed");
        s.list.push_front(nid);
        self.note(&s);
    }

    /// An id is about to be freed; it is held until `release`. Comes before the NAT change, so that no scan finds it
    /// free.
    pub(crate) fn hold(&self, nid: Nid) {
        let mut s = self.state.lock();
        let fresh = s.held.insert(nid);
        self.note(&s);
        assert!(fresh, "{nid:?} freed twice");
    }

    /// The ids held now; call under the exclusive checkpoint lock, and give them to `release` when the checkpoint
    /// committed.
    pub(crate) fn held(&self) -> Vec<Nid> {
        let mut held: Vec<Nid> = self.state.lock().held.iter().copied().collect();
        held.sort_unstable();
        held
    }

    /// Makes held ids available again.
    pub(crate) fn release(&self, nids: &[Nid]) {
        let mut s = self.state.lock();
        for nid in nids {
            let was_held = s.held.remove(nid);
            assert!(was_held, "{nid:?} was not held");
            if s.scanned[(nid.get() / self.per_block) as usize] {
                s.list.push_back(*nid);
            }
        }
        self.note(&s);
    }

    /// Where a later mount may start to look for free ids.
    pub(crate) fn hint(&self) -> Nid {
        let s = self.state.lock();
        s.list.front().copied().unwrap_or(Nid((s.next * self.per_block).max(4)))
    }
}

#[cfg(test)]
mod tests {
    use crate::mkfs::{self, MkfsOptions};
    use crate::{Error, Fs, InodeRef, MountOptions, NewInode, Result};
    use std::sync::Arc;
    use steadyfs_device::MemDevice;

    fn make(fs: &Fs, name: &str) -> Result<InodeRef> {
        fs.create(&fs.root()?, name.as_bytes(), &NewInode { mode: 0o100_644, ..NewInode::default() })
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
