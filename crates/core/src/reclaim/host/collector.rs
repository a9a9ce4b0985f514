//! A collector: how it chooses victims, and where what it moves goes. `cleaner` and `moving` do the work.

use super::buffer::Buffer;
use super::crew::Crew;
use super::victim::Select;
use crate::error::Result;
use crate::volume::Volume;
use crate::volume::placement::places::Run;
use std::sync::Arc;
use steadyfs_format::summary::Summary;
use steadyfs_format::{Log, SegNo};

/// One that collects: a way to choose victims, and a place for what is moved.
pub(super) struct Collector {
    pub(super) select: Box<dyn Select>,
    pub(super) sink: Sink,
    /// Threads that clean a segment together with the collector; they put what they move into the cold data log.
    pub(super) crew: Option<Arc<Crew>>,
}

/// Where a collector puts the data that it moves.
pub(super) struct Sink {
    /// The streams of this collector; otherwise the cold data log, which others write to as well.
    collector: Option<usize>,
    /// The blocks read for it, and not yet written.
    pub(super) buffer: Arc<Buffer>,
}

impl Sink {
    /// The streams of a collector.
    pub(super) fn streams(collector: usize, buffer: Arc<Buffer>) -> Self {
        Sink { collector: Some(collector), buffer }
    }

    /// The cold data log.
    pub(super) fn cold_log(buffer: Arc<Buffer>) -> Self {
        Sink { collector: None, buffer }
    }

    /// Takes blocks for what lies in a segment now.
    pub(super) fn take(&self, vol: &Volume, from: SegNo, owners: &[Summary]) -> Result<Vec<Run>> {
        match self.collector {
            None => vol.segments().take_blocks(Log::ColdData, owners),
            Some(number) => vol
                .segments()
                .take_stream_blocks(vol.segments().streams.slot(number, vol.segments().table.passes(from)), owners),
        }
    }
}
