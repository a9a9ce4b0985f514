//! Free node ids.
//!
//! Each NAT block is scanned once, when the list runs dry, from the checkpoint's hint on; from then on the list knows its free
//! ids. An id freed since the last checkpoint is not given out before a checkpoint has written its NAT entry (format section
//! 4): until then it is *held*. Kept true: an id is in at most one of {list, held, in use}; an id of a block not scanned yet is
//! never in the list, so the scan cannot find it twice.

use crate::error::{Error, Result};
use crate::io::BlockIo;
use crate::locks;
use crate::nat::Nat;
use std::collections::{HashSet, VecDeque};
use steadyfs_format::Nid;
use steadyfs_format::nat::ENTRIES_PER_BLOCK;
use steadyfs_rt::Mutex;

const PER_BLOCK: u32 = ENTRIES_PER_BLOCK as u32;

struct State {
    list: VecDeque<Nid>,
    /// Freed since the snapshot of the last committed checkpoint.
    held: HashSet<Nid>,
    scanned: Vec<bool>,
    scanned_count: u32,
    /// NAT block that the next scan reads.
    next: u32,
}

/// The allocator.
pub(crate) struct FreeNids {
    state: Mutex<State>,
}

impl FreeNids {
    /// Starts at the checkpoint's hint.
    pub(crate) fn new(hint: Nid, nat: &Nat) -> Self {
        let blocks = nat.block_count();
        let next = (hint.get() / PER_BLOCK) % blocks;
        let scanned = vec![false; blocks as usize];
        let state = State { list: VecDeque::new(), held: HashSet::new(), scanned, scanned_count: 0, next };
        FreeNids { state: Mutex::new(&locks::NID_LIST, state) }
    }

    /// Takes a free id.
    pub(crate) fn take(&self, nat: &Nat, io: &BlockIo) -> Result<Nid> {
        let mut s = self.state.lock();
        while s.list.is_empty() {
            if s.scanned_count == nat.block_count() {
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
            let State { list, held, .. } = &mut *s;
            list.extend(found.into_iter().filter(|nid| !held.contains(nid)));
        }
        s.list.pop_front().ok_or(Error::NoSpace)
    }

    /// Takes this id, which the NAT says is free; false if it is held. Assign it before anything else takes ids.
    pub(crate) fn take_this(&self, nid: Nid) -> bool {
        let mut s = self.state.lock();
        s.list.retain(|free| *free != nid);
        !s.held.contains(&nid)
    }

    /// Returns an id that was taken but never assigned.
    pub(crate) fn put_back(&self, nid: Nid) {
        self.state.lock().list.push_front(nid);
    }

    /// An id is about to be freed; it is held until `release`. Comes before the NAT change, so that no scan finds it free.
    pub(crate) fn hold(&self, nid: Nid) {
        let fresh = self.state.lock().held.insert(nid);
        assert!(fresh, "{nid:?} freed twice");
    }

    /// The ids held now; call under the exclusive checkpoint lock, and give them to `release` when the checkpoint committed.
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
            if s.scanned[(nid.get() / PER_BLOCK) as usize] {
                s.list.push_back(*nid);
            }
        }
    }

    /// Where a later mount may start to look for free ids.
    pub(crate) fn hint(&self) -> Nid {
        let s = self.state.lock();
        s.list.front().copied().unwrap_or(Nid((s.next * PER_BLOCK).max(4)))
    }
}
