//! The engine of file devices and chunk directories that hands requests to a pool of threads with system calls.
//!
//! For kernels without io_uring, and for files whose system calls may block while the submitter should not. The queue
//! is unbounded, since completions run on the pool's threads and may submit more; callers limit what they have in
//! flight.

use super::raw::RawFile;
use crate::device::IoResult;
use crate::{Op, Request};
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use steadyfs_rt::queue::Queue;
use steadyfs_rt::{JoinHandle, cpus, try_spawn_vital};

/// Enough to keep a solid-state drive busy with waiting threads, few enough to start quickly.
fn pool_size() -> usize {
    (2 * cpus()).clamp(4, 16)
}

/// Where requests end in system calls.
pub(crate) trait Perform: Send + Sync + 'static {
    /// Does one operation whose range was checked.
    fn perform(&self, op: Op) -> IoResult;
}

impl Perform for RawFile {
    fn perform(&self, op: Op) -> IoResult {
        RawFile::perform(self, op)
    }
}

/// A pool of threads that perform requests.
pub(crate) struct ThreadPool<P> {
    queue: Arc<Queue<Request>>,
    threads: Vec<JoinHandle<()>>,
    _on: PhantomData<fn(P)>,
}

impl<P: Perform> ThreadPool<P> {
    /// Starts the threads; fails only if not even one could be started.
    pub(crate) fn start(raw: &Arc<P>) -> io::Result<Self> {
        let queue = Arc::new(Queue::unbounded());
        let mut threads = Vec::new();
        for _ in 0..pool_size() {
            let (queue, raw): (Arc<Queue<Request>>, Arc<P>) = (Arc::clone(&queue), Arc::clone(raw));
            let started = try_spawn_vital("device-pool", move || {
                while let Some(Request { op, done }) = queue.pop() {
                    done(raw.perform(op));
                }
            });
            match started {
                Ok(thread) => threads.push(thread),
                Err(error) if threads.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(ThreadPool { queue, threads, _on: PhantomData })
    }

    /// Queues requests whose ranges were checked.
    pub(crate) fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            let refused = self.queue.push(request);
            assert!(refused.is_ok(), "the queue is closed only when the pool is dropped");
        }
    }
}

impl<P> Drop for ThreadPool<P> {
    /// Waits until every request has ended, unless a completion drops the device: its thread cannot wait for itself.
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..).filter(|thread| !thread.is_current()) {
            // A panic in a completion ends the process, so there is none to hear of.
            let _ = thread.join();
        }
    }
}
