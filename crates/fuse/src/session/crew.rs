//! The threads that serve requests: few while requests are short, more while they wait.
//!
//! Each thread reads a request, handles it and sends the reply. One does so as long as it keeps up; [`pace`] says why,
//! and when another joins. The others rest, or are started when they are first needed. A request can wait long (for
//! space, for the device), and some can only end when another is served: so a supervisor sends one more whenever nobody
//! is waiting for requests and nothing gets done.
//!
//! Kept true: a thread rests only while another one waits for requests or handles one; not more than [`Limits::keep`]
//! threads stay; whoever makes the kernel send requests from inside a request is not counted against the limit; when
//! the last thread has left, and not before, the end is announced.

mod pace;

use super::channel::{Channel, Dropped};
use crate::server::{Handled, Kernel, MAX_WRITE, Server, Waiter};
use crate::wire::{Notice, Reply};
use pace::Pace;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_rt::{Condvar, LockClass, Mutex, cpus, now, sleep, try_spawn};

static CREW: LockClass = LockClass::new("fuse_crew_mutex", 95);

/// How long nothing may get done before a thread is added.
const PATIENCE: Duration = Duration::from_millis(2);

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
    /// The mount is gone: nobody rests any more.
    over: bool,
    error: Option<rustix::io::Errno>,
}

/// The threads of one mount.
pub(crate) struct Crew {
    channel: Channel,
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
    /// Starts serving, with at most `most` threads.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn start(
        channel: Channel,
        server: Arc<Server>,
        most: usize,
        ended: Ended,
    ) -> std::io::Result<Arc<Self>> {
        let most = most.max(1);
        let limits = Limits { keep: cpus().clamp(2, 8).min(most), most };
        let crew = Arc::new(Crew {
            channel,
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
            crew.add()
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
        let (mut buf, mut reply) = (Channel::buffer(), Reply::new(MAX_WRITE as usize + 4096));
        let mut pace = Pace::default();
        let error = loop {
            self.idle.fetch_add(1, SeqCst);
            let asked = now();
            let received = self.channel.receive(&mut buf);
            let waited = asked.elapsed();
            if self.idle.fetch_sub(1, SeqCst) == 1 {
                self.look();
            }
            match received {
                Ok(Some(len)) => {
                    let request = buf.bytes(len);
                    if pace.arrived(waited, Waiter::of(request)) && self.idle.load(SeqCst) == 0 {
                        self.call(self.limits.keep);
                    }
                    if self.server.handle(request, &mut reply, self) == Handled::Reply {
                        self.channel.send(&mut reply);
                    }
                    for notice in reply.take_notices() {
                        self.tell(notice);
                    }
                }
                Ok(None) => break None,
                Err(errno) => break Some(errno),
            }
            self.handled.fetch_add(1, SeqCst);
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
            (count.threads == 0).then_some(count.error)
        };
        if let Some(error) = last {
            self.look();
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
                while !self.watched.load(SeqCst) && count.threads > 0 {
                    self.watch.wait(&mut count);
                }
                if count.threads == 0 {
                    return;
                }
            }
            // While requests come it looks again and again: to be woken anew for each would cost more.
            loop {
                let handled = self.handled.load(SeqCst);
                sleep(PATIENCE);
                if self.count.lock().threads == 0 {
                    return;
                }
                let nothing_done = self.handled.load(SeqCst) == handled;
                match self.idle.load(SeqCst) {
                    0 if nothing_done => self.call(self.allowed()),
                    0 => {}
                    _ if nothing_done => break,
                    _ => {}
                }
            }
            self.watched.store(false, SeqCst);
            // Whoever became busy before the store did not wake anybody.
            if self.idle.load(SeqCst) == 0 {
                self.watched.store(true, SeqCst);
            }
        }
    }

    fn tell(self: &Arc<Self>, notice: Notice) {
        match notice {
            Notice::ForgetAttributes { node } => self.channel.invalidate(node, Dropped::Attributes),
            Notice::DropContents { node, range } => {
                self.nested(|| self.channel.invalidate(node, Dropped::Contents(range)));
            }
            Notice::ForgetName { parent, name } => self.nested(|| self.channel.forget_name(parent, &name)),
        }
    }

    /// Waits for the kernel, which may wait for another request: there is a thread for that.
    fn nested(self: &Arc<Self>, wait: impl FnOnce()) {
        self.nested.fetch_add(1, SeqCst);
        if self.idle.load(SeqCst) == 0 {
            self.call(self.allowed());
        }
        self.server.wait_for_kernel(wait);
        self.nested.fetch_sub(1, SeqCst);
    }

    /// How many threads there may be now.
    fn allowed(&self) -> usize {
        self.limits.most + self.nested.load(SeqCst)
    }
}

impl Kernel for Arc<Crew> {
    fn invalidate(&self, node: u64) {
        self.nested(|| self.channel.invalidate(node, Dropped::Contents(0..u64::MAX)));
    }

    fn forget_attributes(&self, node: u64) {
        self.channel.invalidate(node, Dropped::Attributes);
    }
}

#[cfg(test)]
mod tests;
