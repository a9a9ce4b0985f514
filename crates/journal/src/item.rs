//! An item of the log, and its vectors.
//!
//! Kept true: an item is a member of a list once at most, and is one exactly while its vector there is not empty. A
//! thread that commits it holds the item's own lock, which is the caller's (an inode's), and shares the list's context.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use steadyfs_rt::Leaf;

/// When an item was last committed: a time, and the place among the parts of that commit.
pub(crate) type Stamp = (u64, u32);

/// Something that operations change and that has a vector in each of two lists.
#[derive(Debug)]
pub struct Item<T> {
    key: u32,
    slots: [Leaf<ItemSlot<T>>; 2],
    /// Whether the vector of each slot is there, for who only wants to know that.
    filled: [AtomicBool; 2],
}

#[derive(Debug)]
struct ItemSlot<T> {
    vector: Option<T>,
    stamp: Stamp,
    /// Where it stands in a linked list.
    place: usize,
}

/// What merging a part into a vector came to.
pub(crate) struct Merged<R> {
    /// The vector was empty before.
    pub(crate) is_first: bool,
    /// What the caller's merge returned.
    pub(crate) result: R,
}

impl<T: Default> Item<T> {
    /// An item that nobody has committed, with the caller's number for it.
    pub fn new(key: u32) -> Arc<Self> {
        let slot = || Leaf::new(ItemSlot { vector: None, stamp: (0, 0), place: 0 });
        Arc::new(Item { key, slots: [slot(), slot()], filled: Default::default() })
    }

    /// The caller's number for it.
    pub fn key(&self) -> u32 {
        self.key
    }

    /// Whether some list has it.
    pub fn is_pending(&self) -> bool {
        self.filled.iter().any(|filled| filled.load(SeqCst))
    }

    pub(crate) fn is_member(&self, list: usize) -> bool {
        self.filled[list].load(SeqCst)
    }

    pub(crate) fn merge<R>(&self, list: usize, stamp: Stamp, merge: impl FnOnce(&mut T) -> R) -> Merged<R> {
        self.slots[list].with(|slot| {
            let is_first = slot.vector.is_none();
            assert!(is_first || slot.stamp <= stamp, "item {} was committed later than now", self.key);
            slot.stamp = stamp;
            if is_first {
                self.filled[list].store(true, SeqCst);
            }
            Merged { is_first, result: merge(slot.vector.get_or_insert_default()) }
        })
    }

    pub(crate) fn place(&self, list: usize) -> usize {
        self.slots[list].with(|slot| slot.place)
    }

    pub(crate) fn set_place(&self, list: usize, place: usize) {
        self.slots[list].with(|slot| slot.place = place);
    }

    pub(crate) fn stamp(&self, list: usize) -> Stamp {
        self.slots[list].with(|slot| slot.stamp)
    }

    /// Takes the vector out: the item is no member any more.
    pub(crate) fn detach(&self, list: usize) -> Option<T> {
        self.slots[list].with(|slot| {
            self.filled[list].store(false, SeqCst);
            slot.vector.take()
        })
    }
}
