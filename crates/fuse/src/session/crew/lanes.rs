//! The threads of the kernel's queues, where requests come through io_uring.
//!
//! Each has a lane of one queue and stays on the queue's processor, except in a row of large requests ([`Place`]).
//! There are a few of each queue, and more where all of them are busy and nothing gets done. They stay until the mount
//! ends: a lane that is not needed sleeps in the kernel, and is the last that it wakes.

use super::Crew;
use crate::server::is_large_background;
use crate::session::lane::Lane;
use crate::session::ring::{Rings, Transport, WhyDevice};
use std::sync::Arc;
use steadyfs_rt::{keep_off, now, pin, try_spawn};

/// Where the thread of a lane runs, judged by what it meets itself.
///
/// On its queue's processor it wakes no other. But while it copies a megabyte that the kernel reads ahead, or writes
/// back, it keeps off that processor the program that copies the one before. So in a row of such requests it runs on
/// any other processor, until another sort of request comes.
#[derive(Debug, Default)]
struct Place {
    /// Large requests in a row.
    large: u32,
}

/// What a thread does about its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Stay,
    /// It runs on any other.
    Leave,
    /// It goes back to its queue's.
    Return,
}

impl Place {
    /// From this many large requests in a row on, the thread is elsewhere.
    const ROW: u32 = 2;

    fn met(&mut self, is_large: bool) -> Step {
        let row = if is_large { self.large.saturating_add(1) } else { 0 };
        let before = std::mem::replace(&mut self.large, row);
        match (before, row) {
            (Self::ROW.., 0) => Step::Return,
            (_, Self::ROW) => Step::Leave,
            _ => Step::Stay,
        }
    }
}

impl Crew {
    /// Whether requests come through io_uring.
    pub(super) fn is_on_rings(&self) -> bool {
        self.rings.as_ref().is_some_and(|rings| !rings.has_failed())
    }

    /// Starts the lanes that each queue begins with.
    pub(super) fn start_lanes(self: &Arc<Self>) -> std::io::Result<()> {
        let Some(rings) = &self.rings else {
            return Ok(());
        };
        rings.take_spare().into_iter().try_for_each(|(queue, lane)| self.start_lane(queue, lane))
    }

    fn start_lane(self: &Arc<Self>, queue: usize, lane: impl Lane + Send + 'static) -> std::io::Result<()> {
        self.count.lock().lanes += 1;
        let crew = Arc::clone(self);
        let started = try_spawn(&format!("fuse-cpu{queue}"), move || crew.serve_queue(queue, lane));
        started.map(drop).inspect_err(|_| self.lane_left())
    }

    /// What the thread of a lane does.
    fn serve_queue(self: &Arc<Self>, queue: usize, mut lane: impl Lane) {
        let Some(rings) = &self.rings else {
            return self.lane_left();
        };
        crate::mount::become_io_flusher();
        // A processor that this process may not use makes no requests that wait for another's.
        let _ = pin(queue);
        let mut place = Place::default();
        let error = loop {
            rings.begin_wait(queue);
            let taken = lane.next();
            if rings.end_wait(queue) {
                self.look();
            }
            match taken {
                Ok(Some((request, reply))) => {
                    let in_service = self.server.counts().arrived(request, now());
                    match place.met(is_large_background(request)) {
                        Step::Stay => {}
                        Step::Leave => {
                            let _ = keep_off(queue);
                        }
                        Step::Return => {
                            let _ = pin(queue);
                        }
                    }
                    let handled = self.server.handle(request, reply, self);
                    let notices = lane.answer(handled);
                    drop(in_service);
                    for notice in notices {
                        let crew = Arc::clone(self);
                        self.herald.send(Box::new(move || crew.tell(notice)));
                    }
                }
                Ok(None) => break None,
                Err(errno) => break Some(errno),
            }
            rings.done(queue);
        };
        if let Some(errno) = error {
            tracing::warn!("requests of processor {queue} cannot be taken through io_uring: {errno}");
            if rings.fail_unless_started() {
                self.server.counts().set_transport(Transport::Device(WhyDevice::Refused).name());
            }
        }
        self.lane_left();
    }

    fn lane_left(&self) {
        let last = {
            let mut count = self.count.lock();
            assert!(count.lanes > 0, "a lane left that was not there");
            count.lanes -= 1;
            count.is_nobody().then_some(count.error)
        };
        self.end_if_last(last);
    }

    /// Adds a lane to each queue that has no idle one.
    pub(super) fn fill_queues(self: &Arc<Self>) {
        if let Some(rings) = &self.rings {
            rings.busy().into_iter().for_each(|queue| self.add_lane(rings, queue));
        }
    }

    fn add_lane(self: &Arc<Self>, rings: &Rings, queue: usize) {
        if self.count.lock().lanes >= self.allowed() {
            return;
        }
        let added = rings.new_lane(queue).and_then(|lane| self.start_lane(queue, lane));
        if let Err(error) = added {
            tracing::warn!("cannot add a thread for processor {queue}: {error}");
        }
    }

    /// Requests handled, by queue.
    pub(super) fn queues_handled(&self) -> Vec<u64> {
        self.rings.as_ref().map(Rings::handled).unwrap_or_default()
    }

    /// Adds a lane to each queue without an idle one in which nothing was done since `before`. True: all have one, and
    /// nothing was done in any.
    pub(super) fn relieve(self: &Arc<Self>, before: &[u64]) -> bool {
        let Some(rings) = self.rings.as_ref().filter(|_| self.is_on_rings()) else {
            return true;
        };
        let (busy, now) = (rings.busy(), rings.handled());
        for queue in busy.iter().filter(|queue| before.get(**queue) == now.get(**queue)) {
            self.add_lane(rings, *queue);
        }
        busy.is_empty() && before == now
    }

    /// Whether a queue has no idle lane.
    pub(super) fn has_busy_queue(&self) -> bool {
        self.is_on_rings() && self.rings.as_ref().is_some_and(|rings| !rings.busy().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Handled;
    use crate::server::tests::{message, volume};
    use crate::session::crew::tests::{latency, start_on};
    use crate::wire::{Notice, Opcode, Reply};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;
    use steadyfs_rt::sleep;

    /// A lane whose kernel is a test.
    struct Told {
        requests: Receiver<Vec<u8>>,
        answered: Sender<Handled>,
        request: Vec<u8>,
        reply: Reply,
    }

    impl Lane for Told {
        fn next(&mut self) -> rustix::io::Result<Option<(&[u8], &mut Reply)>> {
            let Ok(request) = self.requests.recv() else { return Ok(None) };
            self.request = request;
            Ok(Some((&self.request, &mut self.reply)))
        }

        fn answer(&mut self, handled: Handled) -> Vec<Notice> {
            let _sent = self.answered.send(handled);
            self.reply.take_notices()
        }
    }

    #[test]
    fn requests_of_a_queue_are_timed_and_seen_in_service() {
        let kernel = start_on(volume::small(), 4, 1);
        let ((ask, requests), (answered, answers)) = (channel(), channel());
        let lane = Told { requests, answered, request: Vec::new(), reply: Reply::new(4096) };
        kernel.crew.start_lane(0, lane).expect("a thread");
        let stalled = kernel.server.stall();
        ask.send(message(1, 1000, Opcode::Getattr as u32, 1, &[0; 16])).expect("it listens");
        let patience = Duration::from_secs(20);
        let start = now();
        while kernel.server.counts().stats().slow.is_empty() {
            assert!(start.elapsed() < patience, "nothing is slow");
            sleep(Duration::from_millis(5));
        }
        let stats = kernel.server.counts().stats();
        assert_eq!((stats.slow[0].user, stats.slow[0].waits_for.as_deref()), (1000, Some("lock")));
        assert_eq!(latency(&kernel, "getattr").count, 0);
        drop(stalled);
        assert_eq!(answers.recv_timeout(patience), Ok(Handled::Reply));
        while latency(&kernel, "getattr").count == 0 {
            assert!(start.elapsed() < patience, "it was not timed");
            sleep(Duration::from_millis(1));
        }
        assert!(kernel.server.counts().stats().in_service.is_empty());
        drop(ask);
        assert_eq!(kernel.hang_up(), None);
    }

    #[test]
    fn a_thread_leaves_its_processor_in_a_row_of_large_requests_only() {
        let mut place = Place::default();
        let mut steps = |row: &[bool]| row.iter().map(|large| place.met(*large)).collect::<Vec<_>>();
        let (stay, leave, back) = (Step::Stay, Step::Leave, Step::Return);
        assert_eq!(steps(&[false, true, false, true, false]), [stay; 5], "files of one large piece each");
        assert_eq!(steps(&[true, true, true, true]), [stay, leave, stay, stay]);
        assert_eq!(steps(&[false, false, true, true, false]), [back, stay, stay, leave, back]);
    }
}
