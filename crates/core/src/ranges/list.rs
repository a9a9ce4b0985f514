//! A lock-free list of held and wanted ranges, newest first.
//!
//! An element is linked at the head, so what stands behind it came before it and nothing is ever put there. Its holder
//! deletes it by a mark, the lowest bit of its own pointer to the next; a thread that walks past a marked element
//! unlinks it and retires its memory. Kept true:
//!
//! - a pointer with a mark never changes again, so nothing is unlinked behind an element that is being unlinked itself;
//! - only who unlinks an element retires it, once, and never before it is marked; nobody holds it then;
//! - an element that was linked is never linked again: who has to try again makes a new one;
//! - between `pin` and the end of that guard nobody waits, and no lock is taken.
//!
//! All orderings are `SeqCst`: a thread that deletes and then sees no waiter is sure that the waiter sees the deletion
//! (`table`).
#![allow(unsafe_code, reason = "a list that many threads change without a lock owns its elements by pointers")]

use super::sync::{AtomicPtr, Guard, Liveness, pin, retire};
use std::cell::Cell;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::SeqCst;

/// One range in one bucket.
struct Element {
    start: u64,
    end: u64,
    write: bool,
    /// The element that came before it, and the mark.
    next: AtomicPtr<Element>,
    /// What the same holder has in another bucket. Only the holder looks.
    sibling: Cell<Option<OwnedElement>>,
    liveness: Liveness,
}

/// An element that its holder has not deleted: it is in memory. Deleting it takes this away.
pub(super) struct OwnedElement(NonNull<Element>);

// SAFETY: it is a right to delete the element, once; any thread may have it, and what it points at is shared between
// threads by design.
unsafe impl Send for OwnedElement {}
// SAFETY: sharing it gives nothing but reads of fields that never change, and of an atomic; the cell is looked at by
// who takes the right away.
unsafe impl Sync for OwnedElement {}

const MARK: usize = 1;

fn marked(pointer: *mut Element) -> bool {
    pointer.addr() & MARK != 0
}

fn with_mark(pointer: *mut Element) -> *mut Element {
    pointer.map_addr(|addr| addr | MARK)
}

fn without_mark(pointer: *mut Element) -> *mut Element {
    pointer.map_addr(|addr| addr & !MARK)
}

impl Element {
    fn conflicts(&self, range: &Range<u64>, write: bool) -> bool {
        (self.write || write) && self.start < range.end && range.start < self.end
    }
}

/// A bucket.
pub(super) struct List {
    head: AtomicPtr<Element>,
}

impl List {
    /// An empty one.
    pub(super) fn new() -> Self {
        List { head: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Puts a range in, whatever is there. It is held when [`List::is_first`] says so.
    pub(super) fn push(&self, range: &Range<u64>, write: bool, sibling: Option<OwnedElement>) -> OwnedElement {
        let _guard = pin();
        let element = make(range, write, sibling);
        let mut head = self.head.load(SeqCst);
        loop {
            // SAFETY: nobody else knows the element before the exchange below succeeds.
            unsafe { element.as_ref() }.next.store(head, SeqCst);
            match self.head.compare_exchange(head, element.as_ptr(), SeqCst, SeqCst) {
                Ok(_) => return OwnedElement(element),
                Err(now) => head = now,
            }
        }
    }

    /// Puts a range in if nothing conflicts with it, not even what waits; it is held then. Otherwise nothing has been
    /// put in, and the sibling comes back.
    pub(super) fn push_if_free(
        &self,
        range: &Range<u64>,
        write: bool,
        sibling: Option<OwnedElement>,
    ) -> Result<OwnedElement, Option<OwnedElement>> {
        let guard = pin();
        let mut head = self.head.load(SeqCst);
        if self.conflict(&self.head, range, write, &guard) {
            return Err(sibling);
        }
        let element = make(range, write, sibling);
        loop {
            // SAFETY: as in `push`; it was not linked yet.
            unsafe { element.as_ref() }.next.store(head, SeqCst);
            // Success means that nothing was put in since this head was read, before the look at what is behind it.
            match self.head.compare_exchange(head, element.as_ptr(), SeqCst, SeqCst) {
                Ok(_) => return Ok(OwnedElement(element)),
                Err(now) => head = now,
            }
            if self.conflict(&self.head, range, write, &guard) {
                // SAFETY: it was never linked, so it is ours alone.
                return Err(unsafe { Box::from_raw(element.as_ptr()) }.sibling.take());
            }
        }
    }

    /// Whether nothing that came before an element conflicts with it.
    pub(super) fn is_first(&self, held: &OwnedElement) -> bool {
        let guard = pin();
        // SAFETY: what is held is in memory.
        let element = unsafe { held.0.as_ref() };
        element.liveness.check();
        !self.conflict(&element.next, &(element.start..element.end), element.write, &guard)
    }

    /// Whether an element behind `from` conflicts; unlinks those that were deleted on the way.
    fn conflict(&self, from: &AtomicPtr<Element>, range: &Range<u64>, write: bool, guard: &Guard) -> bool {
        'again: loop {
            let mut link = from;
            let mut at = link.load(SeqCst);
            loop {
                assert!(!marked(at), "somebody deleted what another holds");
                // SAFETY: it was linked when this thread was pinned already, so it is not freed before the guard ends.
                let Some(element) = (unsafe { at.as_ref() }) else { return false };
                element.liveness.check();
                let next = element.next.load(SeqCst);
                if marked(next) {
                    let behind = without_mark(next);
                    if link.compare_exchange(at, behind, SeqCst, SeqCst).is_err() {
                        // Something new at the head, or the element before was deleted.
                        continue 'again;
                    }
                    let gone = Retired(at);
                    // SAFETY: it is marked, so its holder is done with it, and it has just been taken out of the list
                    // by this thread alone: only who is pinned now can still see it.
                    unsafe { retire(guard, &element.liveness, move || gone.free()) };
                    at = behind;
                    continue;
                }
                if element.conflicts(range, write) {
                    return true;
                }
                // If it is deleted now, what is behind it is still what came before it, and unlinking there fails.
                (link, at) = (&element.next, next);
            }
        }
    }

    /// Deletes an element, and gives back what the same holder has elsewhere.
    pub(super) fn delete(held: OwnedElement) -> Option<OwnedElement> {
        // SAFETY: what is held is in memory until the mark is there, and is not looked at from then on.
        let element = unsafe { held.0.as_ref() };
        element.liveness.check();
        // Nobody else looks at the sibling.
        let (sibling, next) = (element.sibling.take(), &element.next);
        let mut seen = next.load(SeqCst);
        loop {
            assert!(!marked(seen), "an element is deleted twice");
            match next.compare_exchange(seen, with_mark(seen), SeqCst, SeqCst) {
                Ok(_) => return sibling,
                // What came next was unlinked.
                Err(now) => seen = now,
            }
        }
    }

    /// Elements that are linked, and how many of them are deleted.
    pub(super) fn count(&self) -> (usize, usize) {
        let _guard = pin();
        let (mut linked, mut deleted) = (0, 0);
        let mut at = self.head.load(SeqCst);
        // SAFETY: as in `conflict`; pointers of deleted elements still lead to what was linked when this thread was
        // pinned already.
        while let Some(element) = unsafe { without_mark(at).as_ref() } {
            at = element.next.load(SeqCst);
            linked += 1;
            deleted += usize::from(marked(at));
        }
        (linked, deleted)
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // Deleted ones that nobody has walked past, and those whose guards were forgotten.
        let mut at = without_mark(self.head.load(SeqCst));
        while !at.is_null() {
            // SAFETY: nobody else has the list any more, and what was unlinked is not in it.
            let element = unsafe { Box::from_raw(at) };
            at = without_mark(element.next.load(SeqCst));
        }
    }
}

fn make(range: &Range<u64>, write: bool, sibling: Option<OwnedElement>) -> NonNull<Element> {
    let next = AtomicPtr::new(std::ptr::null_mut());
    let element = Element {
        start: range.start,
        end: range.end,
        write,
        next,
        sibling: Cell::new(sibling),
        liveness: Liveness::new(),
    };
    NonNull::from(Box::leak(Box::new(element)))
}

/// An element on its way out.
struct Retired(*mut Element);

// SAFETY: it is the only pointer that will free the element, whichever thread does so.
unsafe impl Send for Retired {}

impl Retired {
    fn free(self) {
        // SAFETY: made by `make`, and freed here alone.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
