//! A device that ends its requests later, on other threads, and out of order: what a real one does, on a busy day.

use std::sync::Arc;
use std::time::Duration;
use steadyfs_device::{Device, DeviceInfo, MemDevice, Request};
use steadyfs_rt::queue::Queue;
use steadyfs_rt::{JoinHandle, sleep, spawn};

/// Threads that serve requests.
const SERVERS: u64 = 3;

pub(super) struct Lagging {
    inner: Arc<MemDevice>,
    queue: Arc<Queue<Request>>,
    servers: Vec<JoinHandle<()>>,
}

impl Lagging {
    pub(super) fn new(inner: Arc<MemDevice>) -> Self {
        let queue: Arc<Queue<Request>> = Arc::new(Queue::unbounded());
        let servers = (0..SERVERS).map(|n| {
            let (inner, queue) = (Arc::clone(&inner), Arc::clone(&queue));
            spawn("lagging", move || {
                let mut served = n;
                while let Some(request) = queue.pop() {
                    served += 1;
                    if served % 5 == 0 {
                        sleep(Duration::from_micros(served * 37 % 500));
                    }
                    inner.submit(vec![request]);
                }
            })
        });
        let servers = servers.collect();
        Lagging { inner, queue, servers }
    }
}

impl Drop for Lagging {
    fn drop(&mut self) {
        self.queue.close();
        for server in self.servers.drain(..) {
            server.join().unwrap();
        }
    }
}

impl Device for Lagging {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { synchronous: false, ..self.inner.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            assert!(self.queue.push(request).is_ok(), "the device is used after its end");
        }
    }
}
