//! Giving memory back: a clock over all inodes with cached pages, and within each over its pages.
//!
//! A thread that added pages and finds the budget exceeded visits the inode that has waited longest, takes some of its
//! clean pages that were not used since the last visit, and sends it to the end of the ring.

use super::{Budget, PageCache};

/// Pages looked at per visit of an inode.
const VISIT: u64 = 256;

impl Budget {
    /// Gives clean pages back until the budget is kept, or nothing more can go (the rest is dirty or on its way).
    pub(crate) fn trim(&self) {
        if !self.is_over() {
            return;
        }
        // Twice round: the first visit may only take used marks away.
        let mut visits = 2 * (self.ring_len() + self.stats().cached / VISIT) + 8;
        while self.is_over() && visits > 0 {
            visits -= 1;
            let Some((key, inode)) = self.ring_first() else { return };
            PageCache { inode: &inode, budget: self }.visit(key);
        }
    }
}

impl PageCache<'_> {
    /// One visit of the eviction hand. `key` tells whether another thread has visited since the inode was chosen.
    fn visit(self, key: u64) {
        self.with(|s| {
            if s.ring_key != Some(key) {
                return;
            }
            let dirty = s.map.dirty();
            let (_, next) = s.map.evict(s.hand, VISIT);
            s.hand = next;
            assert_eq!(s.map.dirty(), dirty, "pages of inode {} went that nobody has written", self.inode.ino);
            if s.map.count() > 0 {
                s.ring_key = Some(self.budget.rotate_ring(key));
            }
        });
    }
}
