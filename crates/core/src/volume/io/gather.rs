//! Data writes that are made one after the other and submitted together: those whose blocks lie side by side as one
//! request, as a log gives them out.
//!
//! A node has the addresses of some hundred pages of a file, and pages are placed node by node. Of a file that is
//! written here and there, each node has one page to write, and each page would be a request of its own.
//!
//! Kept true: a write that is gathered is in flight for everybody else ([`crate::volume::io`]). So a thread submits
//! what it gathered before it waits for anybody who might wait for that write. Nobody waits for data writes with a lock
//! of a node or a log: summaries, which are written under these, are never gathered.

use steadyfs_device::{Done, IoResult, Op, PageBuf, Request, StreamHint};

/// The most that is gathered: as much as makes a request cheap, and no more, for the device has nothing to do
/// meanwhile.
const MOST_PAGES: usize = 64;

/// Writes that are owed to the device.
#[derive(Default)]
pub(crate) struct Gathered {
    runs: Vec<Run>,
    pages: usize,
}

/// Writes of neighbouring blocks.
struct Run {
    block: u64,
    pages: Vec<PageBuf>,
    hint: StreamHint,
    /// Told of the end, in their order.
    ends: Vec<Done>,
}

impl Gathered {
    /// One more write. Returns what is to be submitted now.
    pub(crate) fn add(&mut self, request: Request) -> Vec<Request> {
        let Request { op: Op::Write { block, pages, hint, fua: false }, done } = request else {
            let mut due = self.take();
            due.push(request);
            return due;
        };
        assert!(!pages.is_empty(), "a write of nothing at block {block}");
        self.pages += pages.len();
        // Not the last alone: pages of one file may go to two logs by turns.
        match self.runs.iter_mut().rev().find(|run| run.hint == hint && run.end() == block) {
            Some(run) => {
                run.pages.extend(pages);
                run.ends.push(done);
            }
            None => self.runs.push(Run { block, pages, hint, ends: vec![done] }),
        }
        if self.pages < MOST_PAGES { Vec::new() } else { self.take() }
    }

    /// All that is owed.
    pub(crate) fn take(&mut self) -> Vec<Request> {
        let pages: usize = self.runs.iter().map(|run| run.pages.len()).sum();
        assert_eq!(std::mem::take(&mut self.pages), pages, "gathered pages were miscounted");
        self.runs.drain(..).map(Run::into_request).collect()
    }
}

impl Run {
    /// The block behind the last.
    fn end(&self) -> u64 {
        self.block + self.pages.len() as u64
    }

    fn into_request(self) -> Request {
        let Run { block, pages, hint, ends } = self;
        // A write brings nothing but its end.
        let tell = move |result: IoResult| ends.into_iter().for_each(|end| end(result.clone()));
        Request::new(Op::Write { block, pages, hint, fua: false }, tell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use steadyfs_device::{IoError, OpKind, errno};

    fn write(block: u64, count: usize, hint: StreamHint, ended: &Arc<AtomicUsize>) -> Request {
        let ended = Arc::clone(ended);
        let op = Op::Write { block, pages: vec![PageBuf::zeroed(); count], hint, fua: false };
        Request::new(op, move |result| {
            ended.fetch_add(if result.is_ok() { 1 } else { 100 }, SeqCst);
        })
    }

    #[test]
    fn neighbours_become_one_request_and_each_hears_of_its_end() {
        use StreamHint::{DataCold, DataWarm};
        let (mut gathered, ended) = (Gathered::default(), Arc::default());
        for (block, count, hint) in
            [(10, 1, DataWarm), (11, 3, DataWarm), (14, 1, DataCold), (20, 2, DataCold), (19, 1, DataCold)]
        {
            assert!(gathered.add(write(block, count, hint, &ended)).is_empty());
        }
        let due = gathered.take();
        let ranges: Vec<_> = due.iter().map(|request| request.op.range()).collect();
        assert_eq!(ranges, [(10, 4), (14, 1), (20, 2), (19, 1)]);
        for (at, request) in due.into_iter().enumerate() {
            let error = IoError::from_errno(OpKind::Write, 10, 4, errno::EIO);
            (request.done)(if at == 0 { Err(error) } else { Ok(Vec::new()) });
        }
        assert_eq!(ended.load(SeqCst), 2 * 100 + 3);
        assert!(gathered.take().is_empty());
    }

    #[test]
    fn two_logs_by_turns_are_two_requests() {
        use StreamHint::{DataHot, DataWarm};
        let (mut gathered, ended) = (Gathered::default(), Arc::default());
        for at in 0..10 {
            assert!(gathered.add(write(100 + at, 1, DataWarm, &ended)).is_empty());
            assert!(gathered.add(write(500 + at, 1, DataHot, &ended)).is_empty());
        }
        let ranges: Vec<_> = gathered.take().iter().map(|request| request.op.range()).collect();
        assert_eq!(ranges, [(100, 10), (500, 10)]);
    }

    #[test]
    fn no_more_is_held_back_than_makes_a_large_request() {
        let (mut gathered, ended) = (Gathered::default(), Arc::default());
        let due: Vec<_> =
            (0..200).map(|block| gathered.add(write(block, 1, StreamHint::DataWarm, &ended)).len()).collect();
        let when: Vec<usize> = (0..200).filter(|at| due[*at] > 0).collect();
        assert_eq!(when, [63, 127, 191]);
        assert_eq!(gathered.take()[0].op.range(), (192, 8));
        // What is no such write is not held back, and does not overtake what came before it.
        assert!(gathered.add(write(5, 1, StreamHint::DataWarm, &ended)).is_empty());
        let flush = Request::new(Op::Flush, |_| ());
        assert_eq!(
            gathered.add(flush).iter().map(|request| request.op.kind()).collect::<Vec<_>>(),
            [OpKind::Write, OpKind::Flush]
        );
    }
}
