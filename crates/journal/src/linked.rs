//! The members of a list in one linked list, under one lock: what is committed again moves to the tail.
//!
//! XFS' committed item list. Links are indices into a slab, which is emptied as a whole.

use crate::item::Item;
use crate::lists::Counts;
use std::sync::Arc;
use steadyfs_rt::{Cost, charge_n};

const NONE: usize = usize::MAX;

/// The members, in the order of their last commits.
pub(crate) struct Linked<T> {
    nodes: Vec<Node<T>>,
    head: usize,
    tail: usize,
    /// Bytes of their vectors, and what was committed.
    pub(crate) bytes: i64,
    pub(crate) counts: Counts,
}

struct Node<T> {
    item: Arc<Item<T>>,
    before: usize,
    behind: usize,
}

impl<T: Default> Linked<T> {
    pub(crate) fn new() -> Self {
        Linked { nodes: Vec::new(), head: NONE, tail: NONE, bytes: 0, counts: Counts::default() }
    }

    /// Adds an item at the tail of list number `list`.
    pub(crate) fn add(&mut self, list: usize, item: &Arc<Item<T>>) {
        let at = self.nodes.len();
        item.set_place(list, at);
        self.nodes.push(Node { item: Arc::clone(item), before: NONE, behind: NONE });
        self.append(at);
    }

    /// Moves a member to the tail.
    pub(crate) fn move_to_tail(&mut self, list: usize, item: &Arc<Item<T>>) {
        let at = item.place(list);
        assert!(Arc::ptr_eq(&self.nodes[at].item, item), "item {} is not where it says", item.key());
        if self.tail == at {
            return;
        }
        let Node { before, behind, .. } = self.nodes[at];
        // The lines of both neighbours, which other cores wrote last.
        charge_n(Cost::SharedAtomic, 2);
        match before {
            NONE => self.head = behind,
            before => self.nodes[before].behind = behind,
        }
        self.nodes[behind].before = before;
        self.append(at);
    }

    fn append(&mut self, at: usize) {
        // The line of the last member, and the list's own.
        charge_n(Cost::SharedAtomic, 2);
        let last = std::mem::replace(&mut self.tail, at);
        (self.nodes[at].before, self.nodes[at].behind) = (last, NONE);
        match last {
            NONE => self.head = at,
            last => self.nodes[last].behind = at,
        }
    }

    /// Takes all members out, the one first that was committed longest ago; and how many bytes they had.
    pub(crate) fn take(&mut self) -> (Vec<Arc<Item<T>>>, i64) {
        let fresh = Linked { counts: self.counts, ..Linked::new() };
        let Linked { nodes, head, bytes, .. } = std::mem::replace(self, fresh);
        let mut out = Vec::with_capacity(nodes.len());
        let mut at = head;
        while at != NONE {
            out.push(Arc::clone(&nodes[at].item));
            at = nodes[at].behind;
        }
        assert_eq!(out.len(), nodes.len(), "the list has lost members");
        (out, bytes)
    }
}
