//! A queue of events in the order of time.
//!
//! A heap with four children to a node, in one array: half as deep as one with two, and the children compared share a
//! cache line or two. Entries are small and copied freely; what does not fit into one (a callback) lies beside it and
//! is referred to by its place.

use super::scheduler::TaskId;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Resume(TaskId),
    /// Ends the wait with this number.
    Wake(TaskId, u32),
    /// The same, because the time ran out.
    Timeout(TaskId, u32),
    /// The task has spun for long enough in the wait with this number, and goes to sleep.
    Sleep(TaskId, u32),
    /// The callback in this place.
    Call(u32),
}

/// When, with a number that decides between events of one time; and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    key: u128,
    action: Action,
}

/// The queue. Keys differ.
#[derive(Default)]
pub(super) struct Events {
    heap: Vec<Event>,
    /// The last one added. Most are added right before another is taken, and one walk through the heap does for both.
    last: Option<Event>,
    calls: Vec<Option<Box<dyn FnOnce()>>>,
    free: Vec<u32>,
}

const CHILDREN: usize = 4;

impl Events {
    /// Adds an event.
    pub(super) fn push(&mut self, at: u64, tie: u64, action: Action) {
        let event = Event { key: u128::from(at) << 64 | u128::from(tie), action };
        if let Some(before) = self.last.replace(event) {
            self.heap.push(before);
            self.rise(self.heap.len() - 1, before);
        }
    }

    /// Adds a callback.
    pub(super) fn push_call(&mut self, at: u64, tie: u64, f: Box<dyn FnOnce()>) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.calls.push(None);
            u32::try_from(self.calls.len() - 1).expect("fewer than 2^32 callbacks are due at once")
        });
        self.calls[place as usize] = Some(f);
        self.push(at, tie, Action::Call(place));
    }

    /// Takes the callback of an [`Action::Call`] that was popped.
    pub(super) fn take_call(&mut self, place: u32) -> Box<dyn FnOnce()> {
        self.free.push(place);
        self.calls[place as usize].take().expect("each callback is taken once")
    }

    /// When the next event is due.
    pub(super) fn next(&self) -> Option<u64> {
        let first = self.heap.first().into_iter().chain(&self.last).map(|event| event.key).min();
        first.map(|key| (key >> 64) as u64)
    }

    /// Takes the next event, with its time.
    pub(super) fn pop(&mut self) -> Option<(u64, Action)> {
        let next = match (self.heap.first().copied(), self.last.take()) {
            (None, last) => last?,
            (Some(first), Some(last)) if last.key < first.key => last,
            (Some(first), Some(last)) => {
                self.sink(last);
                first
            }
            (Some(first), None) => {
                let bottom = self.heap.pop()?;
                if !self.heap.is_empty() {
                    self.sink(bottom);
                }
                first
            }
        };
        Some(((next.key >> 64) as u64, next.action))
    }

    /// Finds the place for an event that belongs near the bottom: the hole sinks all the way, then the event rises.
    fn sink(&mut self, event: Event) {
        let heap = self.heap.as_mut_slice();
        let mut hole = 0;
        loop {
            let first = hole * CHILDREN + 1;
            // Whole families without a branch that could be guessed wrong.
            let least = if first + CHILDREN <= heap.len() {
                let earlier = |a: usize, b: usize| if heap[b].key < heap[a].key { b } else { a };
                earlier(earlier(first, first + 1), earlier(first + 2, first + 3))
            } else {
                match (first..heap.len()).min_by_key(|child| heap[*child].key) {
                    Some(child) => child,
                    None => break,
                }
            };
            heap[hole] = heap[least];
            hole = least;
        }
        self.rise(hole, event);
    }

    /// Finds the place for an event at the hole or above.
    fn rise(&mut self, mut hole: usize, event: Event) {
        while hole > 0 {
            let parent = (hole - 1) / CHILDREN;
            if self.heap[parent].key <= event.key {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = event;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_number() {
        let mut events = Events::default();
        let mut expected = std::collections::BTreeSet::new();
        let mut random = 1u64;
        for n in 0..20_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if random >> 62 == 0 {
                let first = expected.pop_first();
                assert_eq!(events.pop(), first.map(|(at, tie)| (at, Action::Resume(tie as TaskId))));
            } else {
                let at = random >> 40 & 0xff;
                events.push(at, n, Action::Resume(n as TaskId));
                expected.insert((at, n));
            }
            assert_eq!(events.next(), expected.first().map(|(at, _)| *at));
        }
        while let Some((at, tie)) = expected.pop_first() {
            assert_eq!(events.pop(), Some((at, Action::Resume(tie as TaskId))));
        }
        assert_eq!(events.pop(), None);
    }

    #[test]
    fn callbacks_are_kept_until_taken() {
        let mut events = Events::default();
        let called = std::rc::Rc::new(std::cell::Cell::new(0));
        for round in 0..3u64 {
            for n in 0..10u64 {
                let called = std::rc::Rc::clone(&called);
                events.push_call(10 - n, round, Box::new(move || called.set(called.get() * 11 % 1009 + n)));
            }
            for n in (0..10u64).rev() {
                let Some((at, Action::Call(place))) = events.pop() else { panic!("a callback") };
                assert_eq!(at, 10 - n);
                let before = called.get();
                events.take_call(place)();
                assert_eq!(called.get(), before * 11 % 1009 + n);
            }
        }
        assert_eq!(events.calls.len(), 10, "places are used again");
    }
}
