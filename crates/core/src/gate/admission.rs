//! Who has passed the gate and is about to take blocks.
//!
//! Free sections say nothing of writers who have passed the gate and have not placed anything yet: when room is
//! announced, all who waited for it look at the same free sections. The blocks that they may take count as needed until
//! they have taken them. So however many come at once, those that pass leave collection and the next checkpoint the
//! blocks that these need.
//!
//! Kept true: an admitted thread does not wait at the gate again before the admission is dropped, so that others may
//! wait for that.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_rt::{EventCount, SharedLine};

/// Tells those who wait for others to make room that there may be some.
pub(crate) type Announcer = Box<dyn Fn() + Send + Sync>;

/// All admissions of a volume.
pub(crate) struct Admissions {
    blocks: AtomicU64,
    /// How many wait at the gate, and may be waiting for these.
    awaited: AtomicU64,
    ended: EventCount,
    /// Of the count of blocks.
    line: SharedLine,
    /// For those who wait for something else than these.
    announcer: Option<Announcer>,
}

/// Somebody waits at the gate while this lives.
pub(crate) struct Awaiting<'a>(&'a Admissions);

impl Admissions {
    /// None yet. When one ends while somebody waits at the gate, `announcer` is called.
    pub(crate) fn new(announcer: Option<Announcer>) -> Self {
        Admissions {
            blocks: AtomicU64::new(0),
            awaited: AtomicU64::new(0),
            ended: EventCount::new(),
            line: SharedLine::default(),
            announcer,
        }
    }

    /// Blocks that those may take who have passed.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks.load(SeqCst)
    }

    /// To be called before the one who waits looks whether there is room.
    pub(crate) fn awaiting(&self) -> Awaiting<'_> {
        self.awaited.fetch_add(1, SeqCst);
        Awaiting(self)
    }

    /// Waits until some of them have ended; false if there is none.
    pub(crate) fn wait_for_some(&self) -> bool {
        let _awaiting = self.awaiting();
        let key = self.ended.listen();
        let some = self.blocks() > 0;
        if some {
            self.ended.wait(key);
        }
        some
    }
}

impl Drop for Awaiting<'_> {
    fn drop(&mut self) {
        let before = self.0.awaited.fetch_sub(1, SeqCst);
        assert!(before > 0, "more stop waiting at the gate than waited");
    }
}

/// Leave to take `blocks` blocks at most, which is over when this is dropped.
pub(crate) struct Admission<'a> {
    admissions: &'a Admissions,
    blocks: u64,
}

impl<'a> Admission<'a> {
    /// Whether there is room or not.
    pub(crate) fn new(admissions: &'a Admissions, blocks: u64) -> Self {
        if blocks > 0 {
            admissions.line.write();
            admissions.blocks.fetch_add(blocks, SeqCst);
        }
        Admission { admissions, blocks }
    }

    /// The admission, if there is room when these blocks are counted too. Other threads may see them counted for a
    /// moment also where there is none. One that collects alone may wait for their end then, and is told of it. For the
    /// thread that gets no room here may have to wait for that very one. Threads that wait for collectors are told of
    /// room by these.
    pub(crate) fn if_room(admissions: &'a Admissions, blocks: u64, has_room: impl FnOnce() -> bool) -> Option<Self> {
        let admission = Admission::new(admissions, blocks);
        if has_room() {
            return Some(admission);
        }
        admission.end();
        std::mem::forget(admission);
        None
    }
}

impl Admission<'_> {
    /// `blocks` blocks have been taken.
    ///
    /// # Panics
    /// If they are more than there was leave to take.
    pub(crate) fn used(&self, blocks: u64) {
        assert!(blocks <= self.blocks, "{blocks} blocks are taken, and there was leave to take {}", self.blocks);
    }

    /// Counts the blocks no more; true if somebody waits at the gate.
    fn end(&self) -> bool {
        let admissions = self.admissions;
        if self.blocks > 0 {
            admissions.line.write();
        }
        let before = admissions.blocks.fetch_sub(self.blocks, SeqCst);
        assert!(before >= self.blocks, "leave to take {} blocks ends, and all leave is for {before}", self.blocks);
        let awaited = self.blocks > 0 && admissions.awaited.load(SeqCst) > 0;
        if awaited {
            admissions.ended.notify_all();
        }
        awaited
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if self.blocks > 0
            && self.end()
            && let Some(announce) = &self.admissions.announcer
        {
            announce();
        }
    }
}
