//! The engine of a file device that hands requests to a pool of threads with system calls.
//!
//! For kernels without io_uring, and for files whose system calls may block while the submitter should not. The queue
//! is unbounded, since completions run on the pool's threads and may submit more; callers limit what they have in
//! flight.

use super::raw::RawFile;
use crate::Request;
use std::io;
use std::sync::Arc;
use steadyfs_rt::queue::Queue;
use steadyfs_rt::{JoinHandle, cpus, try_spawn_vital};

/// Enough to keep a solid-state drive busy with waiting threads, few enough to start quickly.
fn pool_size() -> usize {
    (2 * cpus()).clamp(4, 16)
}

/// A pool of threads that perform requests.
pub(super) struct ThreadPool {
    queue: Arc<Queue<Request>>,
    threads: Vec<JoinHandle<()>>,
}

impl ThreadPool {
    /// Starts the threads; fails only if not even one could be started.
    pub(super) fn start(raw: &Arc<RawFile>) -> io::Result<Self> {
        let queue = Arc::new(Queue::unbounded());
        let mut threads = Vec::new();
        for _ in 0..pool_size() {
            let (queue, raw): (Arc<Queue<Request>>, _) = (Arc::clone(&queue), Arc::clone(raw));
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
        Ok(ThreadPool { queue, threads })
    }

    /// Queues requests whose ranges were checked.
    pub(super) fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            let refused = self.queue.push(request);
            assert!(refused.is_ok(), "the queue is closed only when the pool is dropped");
        }
    }
}

impl Drop for ThreadPool {
    /// Waits until every request has ended, unless a completion drops the device: its thread cannot wait for itself.
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..).filter(|thread| !thread.is_current()) {
            // A panic in a completion ends the process, so there is none to hear of.
            let _ = thread.join();
        }
    }
}
