//! Closing streams within a change, so that what is free in their segments can be collected.

use crate::volume::Change;
use crate::volume::segments::Segments;

impl Segments {
    /// Closes every collector's stream, so that what is free in their segments can be collected.
    pub(crate) fn close_streams(&self, _change: &Change<'_>) {
        let own = &self.streams.slots[..self.streams.own_slots()];
        own.iter().for_each(|slot| self.close_stream(&mut slot.lock()));
    }

    /// The same for the logs for users' data, which go on where they were otherwise; how many it closed.
    pub(crate) fn close_data_logs(&self, _change: &Change<'_>) -> usize {
        let logs = self.streams.slots[self.streams.own_slots()..].iter();
        logs.filter(|slot| {
            let mut slot = slot.lock();
            let open = slot.is_some();
            self.close_stream(&mut slot);
            open
        })
        .count()
    }
}
