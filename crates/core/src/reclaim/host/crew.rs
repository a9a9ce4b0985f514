//! One victim cleaned by several threads: P-GC ("parallel garbage collection", HotStorage '23).
//!
//! Victims come one after the other, as F2FS chooses them. If more than half of a segment's blocks are valid, the
//! segment is split into as many parts as there are threads, and all of them work, each on its part; the next step
//! comes when the last has ended. Otherwise the collector does the whole.
//!
//! Kept true: the parts of a segment are disjoint, so no two threads move a block; without threads (before they start,
//! and after they have been stopped) the collector does everything.

use crate::error::Result;
use crate::locks;
use crate::reclaim::live::Asking;
use crate::reclaim::report::GcReport;
use crate::volume::segments::table::BLOCKS;
use std::sync::Arc;
use steadyfs_format::SegNo;
use steadyfs_format::summary::SummaryBlock;
use steadyfs_rt::{Condvar, JoinHandle, Mutex, try_spawn_vital};

/// Moves these blocks of a segment, of which the summary says whose they are.
pub(super) trait Clean:
    Fn(SegNo, &SummaryBlock, &[u32], Asking) -> Result<GcReport> + Send + Sync + 'static
{
}

impl<F: Fn(SegNo, &SummaryBlock, &[u32], Asking) -> Result<GcReport> + Send + Sync + 'static> Clean for F {}

/// Threads that clean segments together.
pub(super) struct Crew {
    shared: Arc<Shared>,
    wanted: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    board: Mutex<Board>,
    work: Condvar,
    ended: Condvar,
}

/// The work to be done.
#[derive(Default)]
struct Board {
    threads: usize,
    stop: bool,
    job: Option<Arc<Job>>,
    /// Parts that nobody has begun, and parts that have not ended.
    open: usize,
    left: usize,
    outcome: Option<Result<GcReport>>,
}

/// A segment to clean.
struct Job {
    seg: SegNo,
    summary: SummaryBlock,
    /// Its valid blocks.
    offsets: Vec<u32>,
    parts: usize,
    asking: Asking,
}

impl Job {
    /// The blocks of one part.
    fn part(&self, number: usize) -> Vec<u32> {
        assert!(number < self.parts, "part {number} of {}", self.parts);
        let bound = |n: usize| (n * BLOCKS as usize / self.parts) as u32;
        let range = bound(number)..bound(number + 1);
        self.offsets.iter().copied().filter(|off| range.contains(off)).collect()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.dismiss();
    }
}

impl Crew {
    /// `threads` threads; none of them runs yet.
    pub(super) fn new(threads: usize) -> Arc<Self> {
        let shared = Shared {
            board: Mutex::new(&locks::GC_GATE, Board::default()),
            work: Condvar::new(),
            ended: Condvar::new(),
        };
        let threads_list = Mutex::new(&locks::STATE, Vec::new());
        Arc::new(Crew { shared: Arc::new(shared), wanted: threads, threads: threads_list })
    }

    /// Starts the threads; fewer if the system has no more. Each cleans its parts by `clean`.
    pub(super) fn start(&self, clean: impl Clean) {
        let clean = Arc::new(clean);
        for number in 0..self.wanted {
            let (shared, clean) = (Arc::clone(&self.shared), Arc::clone(&clean));
            match try_spawn_vital(&format!("steadyfs-pgc-{number}"), move || shared.run(&*clean)) {
                Ok(handle) => {
                    self.shared.board.lock().threads += 1;
                    self.threads.lock().push(handle);
                }
                Err(error) => tracing::warn!(%error, number, "a collector's thread could not be started"),
            }
        }
    }

    fn dismiss(&self) {
        let mut board = self.shared.board.lock();
        (board.stop, board.threads) = (true, 0);
        drop(board);
        self.shared.work.notify_all();
    }

    /// Ends the threads and waits for them.
    pub(super) fn stop(&self) {
        self.dismiss();
        let threads = std::mem::take(&mut *self.threads.lock());
        // A thread that holds the last reference to the volume must not wait for itself.
        for thread in threads.into_iter().filter(|thread| !thread.is_current()) {
            if let Err(panicked) = thread.join() {
                tracing::error!(%panicked, "a collector's thread panicked");
            }
        }
    }

    /// Moves these valid blocks of a segment; alone, by `clean`, if they are few or there are no threads.
    pub(super) fn clean(
        &self,
        seg: SegNo,
        summary: SummaryBlock,
        offsets: Vec<u32>,
        asking: Asking,
        clean: impl FnOnce(&SummaryBlock, &[u32]) -> Result<GcReport>,
    ) -> Result<GcReport> {
        let mut board = self.shared.board.lock();
        if board.threads == 0 || offsets.len() <= BLOCKS as usize / 2 {
            drop(board);
            return clean(&summary, &offsets);
        }
        assert!(board.job.is_none() && board.left == 0, "a crew is at work on another segment than {seg}");
        let parts = board.threads;
        board.job = Some(Arc::new(Job { seg, summary, offsets, parts, asking }));
        (board.open, board.left) = (parts, parts);
        board.outcome = Some(Ok(GcReport::default()));
        self.shared.work.notify_all();
        while board.left > 0 {
            self.shared.ended.wait(&mut board);
        }
        assert_eq!(board.open, 0, "a part of segment {seg} was never begun");
        board.job = None;
        board.outcome.take().unwrap_or_else(|| Ok(GcReport::default()))
    }
}

impl Shared {
    fn run(&self, clean: &impl Clean) {
        while let Some((job, number)) = self.next() {
            let ended = clean(job.seg, &job.summary, &job.part(number), job.asking);
            let mut board = self.board.lock();
            board.outcome = match (board.outcome.take(), ended) {
                (Some(Ok(mut sum)), Ok(part)) => {
                    sum.add(part);
                    Some(Ok(sum))
                }
                (Some(Err(first)), _) => Some(Err(first)),
                (_, ended) => Some(ended),
            };
            assert!(board.left > board.open, "more parts end than were begun");
            board.left -= 1;
            if board.left == 0 {
                self.ended.notify_all();
            }
        }
    }

    /// A part to do; `None` once there will be none. A part that was begun is done to its end.
    fn next(&self) -> Option<(Arc<Job>, usize)> {
        let mut board = self.board.lock();
        loop {
            if board.open > 0
                && let Some(job) = board.job.clone()
            {
                board.open -= 1;
                assert!(board.open < board.left && board.left <= job.parts, "parts of a segment were miscounted");
                return Some((job, board.open));
            }
            if board.stop {
                return None;
            }
            self.work.wait(&mut board);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadyfs_format::summary::SummaryKind;

    #[test]
    fn every_block_is_in_exactly_one_part() {
        let offsets: Vec<u32> = (0..BLOCKS).filter(|off| off % 3 != 0).collect();
        for parts in [1, 2, 7, 32, 600] {
            let summary = SummaryBlock::new(SummaryKind::Data);
            let job = Job { seg: SegNo::new(1), summary, offsets: offsets.clone(), parts, asking: Asking::Yes };
            let all: Vec<u32> = (0..parts).flat_map(|number| job.part(number)).collect();
            assert_eq!(all, offsets, "{parts} parts");
        }
    }
}
