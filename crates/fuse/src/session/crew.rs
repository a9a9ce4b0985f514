//! The threads that serve requests: few while requests are short, more while they wait.
//!
//! Each thread takes a request from its lane, handles it and sends the reply. Of those that read `/dev/fuse` one does
//! so as long as it keeps up; [`pace`] says why, and when another joins. The others rest, or are started when they are
//! first needed. Where requests come through io_uring, [`lanes`] has the threads of the queues beside them. A request
//! can wait long (for space, for the device), and some can only end when another is served. So a supervisor looks at
//! `/dev/fuse` and at each queue. It sends one more thread whenever nobody is waiting for requests and nothing gets
//! done.
//!
//! Kept true:
//! - A thread rests only while another one waits for requests or handles one.
//! - Not more than [`Limits::keep`] threads stay. A thread that makes the kernel send requests from inside a request is
//!   not counted against the limit.
//! - A lane of a queue tells the kernel nothing itself, a herald does.
//! - When the last thread has left, and not before, the end is announced.

mod lanes;
mod pace;

use super::channel::Channel;
use super::device::DeviceLane;
use super::herald::Herald;
use super::lane::Lane;
use super::ring::Rings;
use crate::server::{Kernel, Server, Waiter};
use crate::wire::Notice;
use pace::Pace;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_rt::{Completion, Condvar, LockClass, Mutex, WaitCause, cpus, now, sleep, try_spawn, waiting_for};

static CREW: LockClass = LockClass::new("fuse_crew_mutex", 95);

/// How long nothing may get done before a thread is added.
const PATIENCE: Duration = Duration::from_millis(2);

/// Where requests come through io_uring: how long what the kernel asks to forget may gather, for one message.
const GATHER: Duration = Duration::from_millis(1);

/// Called once, when the mount is gone and the last thread has left; with the reason if it was an error.
pub(super) type Ended = Box<dyn Fn(Option<rustix::io::Errno>) + Send + Sync>;

/// How many threads there are.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// As many stay once they are there.
    keep: usize,
    most: usize,
}

#[derive(Default)]
struct Count {
    threads: usize,
    /// Of these, how many rest.
    resting: usize,
    /// Of these, how many have been called.
    called: usize,
    /// Threads of queues.
    lanes: usize,
    /// The mount is gone: nobody rests any more.
    over: bool,
    error: Option<rustix::io::Errno>,
}

impl Count {
    /// Nobody serves any more.
    fn is_nobody(&self) -> bool {
        self.threads + self.lanes == 0
    }
}

/// The threads of one mount.
pub(crate) struct Crew {
    channel: Arc<Channel>,
    /// The kernel's queues, where requests come through io_uring.
    rings: Option<Rings>,
    herald: Arc<Herald>,
    server: Arc<Server>,
    limits: Limits,
    /// Threads that wait for a request.
    idle: AtomicUsize,
    /// Threads that wait for the kernel inside a request.
    nested: AtomicUsize,
    /// Requests handled.
    handled: AtomicU64,
    count: Mutex<Count>,
    /// Wakes threads that rest.
    call: Condvar,
    /// The supervisor is looking.
    watched: AtomicBool,
    watch: Condvar,
    ended: Ended,
}

impl Crew {
    /// Starts serving, with at most `most` threads, and through these queues if the kernel has been told of them.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn start(
        channel: Channel,
        rings: Option<Rings>,
        server: Arc<Server>,
        most: usize,
        ended: Ended,
    ) -> std::io::Result<Arc<Self>> {
        let most = most.max(1);
        let limits = Limits { keep: cpus().clamp(2, 8).min(most), most };
        let crew = Arc::new(Crew {
            channel: Arc::new(channel),
            rings,
            herald: Herald::new(),
            server,
            limits,
            idle: AtomicUsize::new(0),
            nested: AtomicUsize::new(0),
            handled: AtomicU64::new(0),
            count: Mutex::new(&CREW, Count::default()),
            call: Condvar::new(),
            watched: AtomicBool::new(false),
            watch: Condvar::new(),
            ended,
        });
        let supervised = Arc::clone(&crew);
        // First the supervisor: it ends when no thread is left, so there has to be one before it looks.
        crew.count.lock().threads = 1;
        let started: std::io::Result<()> = (|| {
            try_spawn("fuse-crew", move || supervised.supervise())?;
            crew.add()?;
            crew.start_lanes()
        })();
        crew.leave(None);
        started.map(|()| crew)
    }

    /// Starts a thread.
    fn add(self: &Arc<Self>) -> std::io::Result<()> {
        let number = {
            let mut count = self.count.lock();
            count.threads += 1;
            count.threads
        };
        let crew = Arc::clone(self);
        match try_spawn(&format!("fuse-{number}"), move || crew.serve()) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.leave(None);
                Err(error)
            }
        }
    }

    /// What each thread does.
    fn serve(self: &Arc<Self>) {
        crate::mount::become_io_flusher();
        let mut lane = DeviceLane::new(Arc::clone(&self.channel));
        let mut pace = Pace::default();
        let error = loop {
            self.idle.fetch_add(1, SeqCst);
            let asked = now();
            let taken = lane.next();
            let arrived = now();
            if self.idle.fetch_sub(1, SeqCst) == 1 {
                self.look();
            }
            match taken {
                Ok(Some((request, reply))) => {
                    let in_service = self.server.counts().arrived(request, arrived);
                    if pace.arrived(arrived - asked, Waiter::of(request)) && self.idle.load(SeqCst) == 0 {
                        self.call(self.limits.keep);
                    }
                    let handled = self.server.handle(request, reply, self);
                    let notices = lane.answer(handled);
                    drop(in_service);
                    notices.into_iter().for_each(|notice| self.tell(notice));
                }
                Ok(None) => break None,
                Err(errno) => break Some(errno),
            }
            self.handled.fetch_add(1, SeqCst);
            if self.is_on_rings() {
                sleep(GATHER);
            }
            if pace.done(self.idle.load(SeqCst) > 0) && !self.rest() {
                return;
            }
        };
        self.count.lock().over = true;
        self.call.notify_all();
        self.leave(error);
    }

    /// Sends one more thread to read requests: one that rests, or a new one if there are fewer than `most`.
    fn call(self: &Arc<Self>, most: usize) {
        let threads = {
            let mut count = self.count.lock();
            if count.called < count.resting {
                count.called += 1;
                self.call.notify_one();
                return;
            }
            count.threads
        };
        if (1..most).contains(&threads)
            && let Err(error) = self.add()
        {
            tracing::warn!("cannot start a thread: {error}");
        }
    }

    /// Lets the calling thread rest until it is called. False: enough others rest, it is to leave and no longer
    /// counted.
    fn rest(&self) -> bool {
        let mut count = self.count.lock();
        assert!(count.called <= count.resting && count.resting < count.threads, "more threads rest than there are");
        if count.threads > self.limits.keep {
            count.threads -= 1;
            return false;
        }
        count.resting += 1;
        while count.called == 0 && !count.over {
            self.call.wait(&mut count);
        }
        count.resting -= 1;
        count.called = count.called.saturating_sub(1);
        true
    }

    /// Takes a thread off the count; the last one ends the crew.
    fn leave(&self, error: Option<rustix::io::Errno>) {
        let last = {
            let mut count = self.count.lock();
            assert!(count.threads > 0, "a thread left that was not there");
            count.threads -= 1;
            count.error = count.error.or(error);
            count.is_nobody().then_some(count.error)
        };
        self.end_if_last(last);
    }

    /// Ends the crew, if the thread that has just left was the last.
    fn end_if_last(&self, last: Option<Option<rustix::io::Errno>>) {
        if let Some(error) = last {
            self.look();
            self.herald.end();
            (self.ended)(error);
        }
    }

    /// Makes the supervisor look.
    fn look(&self) {
        if !self.watched.swap(true, SeqCst) {
            // Under the lock, so that it does not fall asleep between its check and this.
            let _count = self.count.lock();
            self.watch.notify_one();
        }
    }

    /// Sends one more thread whenever all are busy and nothing gets done.
    fn supervise(self: Arc<Self>) {
        loop {
            {
                let mut count = self.count.lock();
                while !self.watched.load(SeqCst) && !count.is_nobody() {
                    self.watch.wait(&mut count);
                }
                if count.is_nobody() {
                    return;
                }
            }
            // While requests come it looks again and again: to be woken for each would cost more.
            loop {
                let (handled, queues) = (self.handled.load(SeqCst), self.queues_handled());
                sleep(PATIENCE);
                if self.count.lock().is_nobody() {
                    return;
                }
                let nothing_done = self.handled.load(SeqCst) == handled;
                let nobody_waits = self.idle.load(SeqCst) == 0;
                if nothing_done && nobody_waits {
                    self.call(self.allowed());
                }
                let queues_are_calm = self.relieve(&queues);
                if nothing_done && !nobody_waits && queues_are_calm {
                    break;
                }
            }
            self.watched.store(false, SeqCst);
            // A thread that became busy before the store did not wake anybody.
            if self.idle.load(SeqCst) == 0 || self.has_busy_queue() {
                self.watched.store(true, SeqCst);
            }
        }
    }

    /// Tells the kernel something, from a thread that may.
    fn tell(self: &Arc<Self>, notice: Notice) {
        match notice {
            Notice::ForgetAttributes { .. } => self.channel.tell(notice),
            // The kernel waits for requests of others, or may have to.
            Notice::DropContents { .. } | Notice::ForgetName { .. } => {
                self.nested.fetch_add(1, SeqCst);
                self.waits();
                self.server.wait_for_kernel(|| self.channel.tell(notice));
                self.nested.fetch_sub(1, SeqCst);
            }
        }
    }

    /// As [`Crew::tell`], from a thread that may have to leave it to a herald; returns when it is done.
    fn have_told(self: &Arc<Self>, notice: Notice) {
        let _waiting = waiting_for(WaitCause::Kernel);
        if !self.is_on_rings() {
            return self.tell(notice);
        }
        self.waits();
        let (crew, done) = (Arc::clone(self), Completion::new());
        let told = done.clone();
        let is_sent = self.herald.send(Box::new(move || {
            crew.tell(notice);
            told.complete(());
        }));
        if is_sent {
            done.wait();
        }
    }

    /// How many threads there may be now.
    fn allowed(&self) -> usize {
        self.limits.most + self.nested.load(SeqCst)
    }
}

impl Kernel for Arc<Crew> {
    fn invalidate(&self, node: u64, range: Range<u64>) {
        self.have_told(Notice::DropContents { node, range });
    }

    fn forget_attributes(&self, node: u64) {
        self.have_told(Notice::ForgetAttributes { node });
    }

    /// Sees to it that somebody waits for requests meanwhile.
    fn waits(&self) {
        if self.is_on_rings() {
            self.fill_queues();
        } else if self.idle.load(SeqCst) == 0 {
            self.call(self.allowed());
        }
    }
}

#[cfg(test)]
mod tests;
