//! [`Queue`]: work handed from many producers to many consumers, in order, bounded or not, with an end.
//!
//! Written on [`Mutex`] and [`Condvar`] alone, so it works in every backend.

use crate::{Condvar, LockClass, Mutex, now};
use std::collections::VecDeque;
use std::time::Duration;

static QUEUE: LockClass = LockClass::new("rt.queue", 0);

/// A first-in first-out queue. After [`Queue::close`] nothing enters; what is inside can still be taken.
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<State<T>>,
    capacity: usize,
    not_empty: Condvar,
    not_full: Condvar,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    closed: bool,
}

impl<T> Queue<T> {
    /// An empty queue in which `capacity` items wait at most; producers wait when it is full.
    ///
    /// # Panics
    /// If `capacity` is 0.
    pub fn bounded(capacity: usize) -> Self {
        assert!(capacity > 0, "a queue that holds nothing passes nothing on");
        let state = Mutex::new(&QUEUE, State { items: VecDeque::new(), closed: false });
        Queue { state, capacity, not_empty: Condvar::new(), not_full: Condvar::new() }
    }

    /// An empty queue without a limit: producers never wait. For producers that are also consumers, or are limited
    /// elsewhere.
    pub fn unbounded() -> Self {
        Self::bounded(usize::MAX)
    }

    /// Appends `item`, waiting while the queue is full; gives the item back if the queue is closed.
    pub fn push(&self, item: T) -> Result<(), T> {
        let mut state = self.state.lock();
        self.not_full.wait_while(&mut state, |state| !state.closed && state.items.len() >= self.capacity);
        if state.closed {
            return Err(item);
        }
        state.items.push_back(item);
        drop(state);
        self.not_empty.notify_one();
        Ok(())
    }

    /// Appends `item` if there is room; gives it back if the queue is full or closed.
    pub fn try_push(&self, item: T) -> Result<(), T> {
        let mut state = self.state.lock();
        if state.closed || state.items.len() >= self.capacity {
            return Err(item);
        }
        state.items.push_back(item);
        drop(state);
        self.not_empty.notify_one();
        Ok(())
    }

    /// Takes the oldest item, waiting for one; `None` once the queue is closed and empty.
    pub fn pop(&self) -> Option<T> {
        let mut state = self.state.lock();
        self.not_empty.wait_while(&mut state, |state| !state.closed && state.items.is_empty());
        let item = state.items.pop_front();
        drop(state);
        self.not_full.notify_one();
        item
    }

    /// Like [`Queue::pop`] for at most `timeout`; `None` also when the time ran out.
    pub fn pop_timeout(&self, timeout: Duration) -> Option<T> {
        let deadline = now() + timeout;
        let mut state = self.state.lock();
        while state.items.is_empty() && !state.closed {
            let left = deadline - now();
            if left.is_zero() {
                return None;
            }
            self.not_empty.wait_timeout(&mut state, left);
        }
        let item = state.items.pop_front();
        drop(state);
        self.not_full.notify_one();
        item
    }

    /// Takes the oldest item if there is one.
    pub fn try_pop(&self) -> Option<T> {
        let item = self.state.lock().items.pop_front()?;
        self.not_full.notify_one();
        Some(item)
    }

    /// Ends the queue: producers are refused, consumers drain what is left and then get `None`.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.not_empty.notify_all();
        self.not_full.notify_all();
    }

    /// True after [`Queue::close`].
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Number of items waiting; may change at once.
    pub fn len(&self) -> usize {
        self.state.lock().items.len()
    }

    /// True if no item waits; may change at once.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sleep, spawn};
    use std::sync::Arc;

    #[test]
    fn every_item_arrives_once() {
        let queue = Arc::new(Queue::bounded(4));
        let producers: Vec<_> = (0..3u64)
            .map(|p| {
                let queue = Arc::clone(&queue);
                spawn("producer", move || (0..1000).all(|i| queue.push(p * 1000 + i).is_ok()))
            })
            .collect();
        let consumers: Vec<_> = (0..2)
            .map(|_| {
                let queue = Arc::clone(&queue);
                spawn("consumer", move || std::iter::from_fn(|| queue.pop()).collect::<Vec<u64>>())
            })
            .collect();
        assert!(producers.into_iter().all(|p| p.join() == Ok(true)));
        queue.close();
        let mut all: Vec<u64> = consumers.into_iter().flat_map(|c| c.join().expect("no panic")).collect();
        all.sort_unstable();
        assert_eq!(all, (0..3000).collect::<Vec<_>>());
    }

    #[test]
    fn bounds_and_closing() {
        let queue = Arc::new(Queue::bounded(1));
        assert_eq!(queue.pop_timeout(Duration::from_millis(2)), None);
        assert_eq!(queue.try_push(1), Ok(()));
        assert_eq!(queue.try_push(2), Err(2));
        let other = Arc::clone(&queue);
        let blocked = spawn("blocked", move || other.push(3));
        sleep(Duration::from_millis(10));
        assert_eq!(queue.len(), 1, "the producer waits for room");
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(blocked.join(), Ok(Ok(())));
        queue.close();
        assert_eq!(queue.push(4), Err(4));
        assert_eq!(queue.try_pop(), Some(3));
        assert_eq!((queue.pop(), queue.is_closed(), queue.is_empty()), (None, true, true));
    }
}
