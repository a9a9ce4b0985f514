//! Sections that are written in order, as zones are, and that have refused a write: on zoned devices, and on those that
//! move blocks by themselves.
//!
//! Such a section takes no more. Refused blocks stay in memory, and the next checkpoint moves them.
//!
//! Kept true: what comes goes to another section. Between two checkpoints that commit a bounded number of sections is
//! left so, for a device that fails as a whole would have them all.

use crate::volume::io::order::InOrder;
use crate::volume::segments::Segments;
use crate::volume::segments::logs::Head;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use steadyfs_device::IoError;
use steadyfs_format::{Lba, Log, SecNo, SegNo};

/// Most sections that are left between two checkpoints because they have refused something.
const MOST_LEFT: u32 = 8;

/// Sections that are written in order.
pub(crate) struct InTurn {
    order: Arc<InOrder>,
    sections: Range<u32>,
    /// How many more may be left.
    may_leave: AtomicU32,
}

impl InTurn {
    /// These sections, behind `order`.
    pub(crate) fn new(order: Arc<InOrder>, sections: Range<u32>) -> Self {
        InTurn { order, sections, may_leave: AtomicU32::new(MOST_LEFT) }
    }

    fn take_leave(&self) -> bool {
        self.may_leave.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok()
    }

    /// A checkpoint has committed.
    pub(super) fn committed(&self) {
        self.may_leave.store(MOST_LEFT, SeqCst);
    }
}

impl Segments {
    /// The first block of a section.
    pub(super) fn start_of(&self, section: SecNo) -> u64 {
        self.lba_of(self.layout.first_seg(section), 0).get()
    }

    /// The section of a segment, by its first block, if it is written in order.
    fn in_turn(&self, seg: SegNo) -> Option<(&InTurn, u64)> {
        let section = self.layout.sec_of(seg);
        let turn = self.medium.in_turn().filter(|turn| turn.sections.contains(&section.get()))?;
        Some((turn, self.start_of(section)))
    }

    /// Whether the segment's section has refused a write.
    pub(super) fn is_broken(&self, seg: SegNo) -> bool {
        self.fault_of(seg).is_some()
    }

    /// What the segment's section has refused a write with.
    pub(super) fn fault_of(&self, seg: SegNo) -> Option<IoError> {
        self.in_turn(seg).and_then(|(turn, start)| turn.order.fault(start))
    }

    /// Whether it has, and what comes may go to another one.
    pub(super) fn may_leave_broken(&self, seg: SegNo) -> bool {
        self.is_broken(seg) && self.medium.in_turn().is_some_and(InTurn::take_leave)
    }

    /// Has a log that stands in a section which has refused a write go on in another one, if it may and there is one.
    pub(super) fn leave_if_broken(&self, log: Log, head: &mut Head) {
        if self.may_leave_broken(head.seg) && self.leave_section(log, head).is_err() {
            tracing::error!(%log, "no free section for the log");
        }
    }

    /// The same for all logs; false if one of them stays.
    pub(crate) fn leave_broken_sections(&self) -> bool {
        Log::ALL.into_iter().all(|log| {
            let mut head = self.logs.head(log);
            self.leave_if_broken(log, &mut head);
            !self.is_broken(head.seg)
        })
    }

    /// The device takes the section of this segment from its beginning on, unless other segments of it are in use.
    pub(super) fn begin_section_anew(&self, seg: SegNo) {
        let Some((turn, start)) = self.in_turn(seg) else { return };
        if self.layout.segs_of(self.layout.sec_of(seg)).all(|other| other == seg || self.table.is_free(other)) {
            turn.order.begin_anew(start);
        }
    }

    /// Of blocks that were refused: how many places that is. All of a section that is written in order are one.
    pub(crate) fn bad_places(&self, blocks: &[Lba]) -> usize {
        let place = |lba: &Lba| match self.table.locate(*lba).and_then(|(seg, _)| self.in_turn(seg)) {
            Some((_, start)) => start,
            None => lba.get(),
        };
        let mut places: Vec<u64> = blocks.iter().map(place).collect();
        places.sort_unstable();
        places.dedup();
        places.len()
    }
}
