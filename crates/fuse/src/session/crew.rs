//! The threads that serve requests: few while requests are short, more while they wait.
//!
//! Each thread reads a request, handles it and sends the reply. The kernel wakes waiting threads in turn, so every thread more than
//! needed costs cache misses; but a request can wait long (for space, for the device), and some can only end when another is served. So
//! there are a few threads always, and a supervisor adds one whenever nobody is waiting for requests and nothing gets done.
//!
//! Kept true: at least [`Limits::always`] threads serve until the mount is gone; whoever makes the kernel send requests from inside a request is not counted
//! against the limit; when the last thread has left, and not before, the end is announced.

use super::channel::Channel;
use crate::server::{Handled, Kernel, MAX_WRITE, Server};
use crate::wire::Reply;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_rt::{Condvar, LockClass, Mutex, cpus, sleep, try_spawn};

static CREW: LockClass = LockClass::new("fuse_crew_mutex", 95);

/// How long nothing may get done before a thread is added.
const PATIENCE: Duration = Duration::from_millis(2);

/// Called once, when the mount is gone and the last thread has left; with the reason if it was an error.
pub(super) type Ended = Box<dyn Fn(Option<rustix::io::Errno>) + Send + Sync>;

/// How many threads there are.
#[derive(Clone, Copy, Debug)]
struct Limits {
    always: usize,
    most: usize,
}

struct Count {
    threads: usize,
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
        let limits = Limits { always: cpus().clamp(2, 8).min(most), most };
        let crew = Arc::new(Crew {
            channel,
            server,
            limits,
            idle: AtomicUsize::new(0),
            nested: AtomicUsize::new(0),
            handled: AtomicU64::new(0),
            count: Mutex::new(&CREW, Count { threads: 0, error: None }),
            watched: AtomicBool::new(false),
            watch: Condvar::new(),
            ended,
        });
        let supervised = Arc::clone(&crew);
        // First the supervisor: it ends when no thread is left, so there has to be one before it looks.
        crew.count.lock().threads = 1;
        let started: std::io::Result<()> = (|| {
            try_spawn("fuse-crew", move || supervised.supervise())?;
            for _ in 0..limits.always {
                crew.add()?;
            }
            Ok(())
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
    fn serve(&self) {
        crate::mount::become_io_flusher();
        let (mut buf, mut reply) = (Channel::buffer(), Reply::new(MAX_WRITE as usize + 4096));
        let error = loop {
            self.idle.fetch_add(1, SeqCst);
            let received = self.channel.receive(&mut buf);
            if self.idle.fetch_sub(1, SeqCst) == 1 {
                self.look();
            }
            match received {
                Ok(Some(len)) => {
                    if self.server.handle(buf.bytes(len), &mut reply, self) == Handled::Reply {
                        self.channel.send(&mut reply);
                    }
                }
                Ok(None) => break None,
                Err(errno) => break Some(errno),
            }
            self.handled.fetch_add(1, SeqCst);
            if self.idle.load(SeqCst) > self.limits.always && self.is_spare() {
                return;
            }
        };
        self.leave(error);
    }

    /// Lets the calling thread go if enough others are there.
    fn is_spare(&self) -> bool {
        let mut count = self.count.lock();
        let spare = count.threads > self.limits.always;
        if spare {
            count.threads -= 1;
        }
        spare
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

    /// Adds a thread whenever all are busy and nothing gets done.
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
            while self.idle.load(SeqCst) == 0 {
                let handled = self.handled.load(SeqCst);
                sleep(PATIENCE);
                let threads = self.count.lock().threads;
                if threads == 0 {
                    return;
                }
                let stuck = self.idle.load(SeqCst) == 0 && self.handled.load(SeqCst) == handled;
                let allowed = self.limits.most + self.nested.load(SeqCst);
                if stuck
                    && threads < allowed
                    && let Err(error) = self.add()
                {
                    tracing::warn!("cannot start a thread: {error}");
                }
            }
            self.watched.store(false, SeqCst);
            // Whoever became busy before the store did not wake anybody.
            if self.idle.load(SeqCst) == 0 {
                self.watched.store(true, SeqCst);
            }
        }
    }
}

impl Kernel for Crew {
    fn invalidate(&self, node: u64) {
        self.nested.fetch_add(1, SeqCst);
        self.channel.invalidate(node);
        self.nested.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests;
