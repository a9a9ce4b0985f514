//! Takes operations from the threads of a mount, and gives them to whoever writes them down.
//!
//! Kept true: a thread that records never waits but for the few instructions of another that does the same; memory is
//! bounded, and what does not fit is dropped and counted; a recording that nobody reads ends by itself.

use crate::file;
use crate::record::{Name, Record};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_rt::{Instant, LockClass, Mutex, now};

/// Held for a few instructions; nothing is taken under it.
static PENDING: LockClass = LockClass::new("trace_pending_lock", 97);
/// Frames that wait to be read: one reader at a time.
static FRAMES: LockClass = LockClass::new("trace_frames_mutex", 96);

/// Records that wait to be written, at most: 8 MB.
const CAPACITY: usize = 1 << 16;
/// After this long without a reader a recording ends.
const PATIENCE: Duration = Duration::from_secs(30);

/// Somebody records already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mount is being recorded already")]
pub struct Busy;

/// See the head of the module.
pub struct Recorder {
    on: AtomicBool,
    capacity: usize,
    pending: Mutex<Pending>,
    frames: Mutex<VecDeque<Vec<u8>>>,
}

struct Pending {
    records: Vec<Record>,
    dropped: u64,
    /// Of these, how many the reader has been told of.
    told: u64,
    began: Instant,
    read: Instant,
    key: RandomState,
}

impl Pending {
    fn new(room: usize) -> Self {
        let (records, key) = (Vec::with_capacity(room), RandomState::new());
        Pending { records, dropped: 0, told: 0, began: now(), read: now(), key }
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder::new(CAPACITY)
    }
}

impl Recorder {
    /// One that is off, and keeps so many records at most for its reader.
    pub fn new(capacity: usize) -> Self {
        let pending = Pending::new(0);
        Recorder {
            on: AtomicBool::new(false),
            capacity,
            pending: Mutex::new(&PENDING, pending),
            frames: Mutex::new(&FRAMES, VecDeque::new()),
        }
    }

    /// Whether operations are recorded.
    pub fn is_on(&self) -> bool {
        self.on.load(SeqCst)
    }

    /// Begins a recording, with a new key for names.
    ///
    /// # Errors
    /// [`Busy`].
    pub fn start(&self) -> Result<(), Busy> {
        let mut frames = self.frames.lock();
        let mut pending = self.pending.lock();
        if self.is_on() {
            return Err(Busy);
        }
        frames.clear();
        *pending = Pending::new(self.capacity);
        self.on.store(true, SeqCst);
        Ok(())
    }

    /// Ends the recording; what is there can still be read.
    pub fn stop(&self) {
        self.on.store(false, SeqCst);
    }

    /// A name of a directory as a number.
    pub fn name(&self, dir: u64, name: &[u8]) -> Name {
        let key = self.pending.lock().key.clone();
        Name::new(key.hash_one((dir, name)), name.len())
    }

    /// Adds an operation that began at `start` and has just ended, or drops it.
    pub fn push(&self, mut record: Record, start: Instant) {
        let mut pending = self.pending.lock();
        // It may have begun before the recording, or another one may have begun since.
        if !self.is_on() || start < pending.began {
            return;
        }
        if pending.records.len() >= self.capacity {
            pending.dropped += 1;
            if pending.read.elapsed() > PATIENCE {
                self.stop();
                pending.records = Vec::new();
            }
            return;
        }
        record.start_ns = start.saturating_since(pending.began).as_nanos() as u64;
        record.duration_ns = start.elapsed().as_nanos() as u64;
        pending.records.push(record);
    }

    /// The next bytes of the file, at most `most` of them and whole frames; none if nothing waits.
    pub fn drain(&self, most: usize) -> Vec<u8> {
        let mut frames = self.frames.lock();
        if frames.is_empty() {
            // Before the lock is taken: who records is not to wait for memory.
            let fresh = Vec::with_capacity(if self.is_on() { self.capacity } else { 0 });
            let (records, dropped) = {
                let mut pending = self.pending.lock();
                pending.read = now();
                let news = pending.dropped > pending.told;
                pending.told = pending.dropped;
                let records = if pending.records.is_empty() && !news {
                    return Vec::new();
                } else {
                    std::mem::replace(&mut pending.records, fresh)
                };
                (records, pending.dropped)
            };
            let mut at = 0;
            loop {
                let mut bytes = Vec::new();
                at += file::frame(&records[at..], dropped, most.min(32 << 10), &mut bytes);
                frames.push_back(bytes);
                if at >= records.len() {
                    break;
                }
            }
        }
        let mut out = Vec::new();
        while let Some(first) = frames.front()
            && out.len() + first.len() <= most
        {
            out.extend(frames.pop_front().unwrap_or_default());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{Header, Trace, read, write_header};
    use crate::record::Op;

    fn all(recorder: &Recorder) -> Trace {
        let mut out = Vec::new();
        write_header(&mut out, &Header { began: 0, cache: 0 }).unwrap();
        loop {
            let bytes = recorder.drain(64 << 10);
            if bytes.is_empty() {
                return read(&mut &out[..]).unwrap();
            }
            assert!(bytes.len() <= 64 << 10);
            out.extend(bytes);
        }
    }

    #[test]
    fn what_is_recorded_is_read_in_order() {
        let recorder = Recorder::default();
        recorder.push(Record::new(Op::Read, 1, 1), now());
        assert!(recorder.drain(1 << 16).is_empty(), "it is off");
        recorder.start().unwrap();
        assert_eq!(recorder.start(), Err(Busy));
        for i in 0..20_000 {
            recorder.push(Record { offset: i, ..Record::new(Op::Read, 1, 1) }, now());
        }
        recorder.stop();
        recorder.push(Record::new(Op::Write, 1, 1), now());
        let trace = all(&recorder);
        assert!(trace.records.iter().map(|record| record.offset).eq(0..20_000));
        assert!(trace.records.windows(2).all(|pair| pair[0].start_ns <= pair[1].start_ns));
        assert_eq!(trace.dropped, 0);
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let recorder = Recorder::new(10);
        recorder.start().unwrap();
        (0..25).for_each(|i| recorder.push(Record { offset: i, ..Record::new(Op::Read, 1, 1) }, now()));
        let first = all(&recorder);
        assert_eq!((first.records.len(), first.dropped), (10, 15));
        (0..3).for_each(|_| recorder.push(Record::new(Op::Read, 1, 1), now()));
        assert_eq!((all(&recorder).records.len(), recorder.drain(100).len()), (3, 0));
        // Also when nothing is left but the count.
        (0..12).for_each(|_| recorder.push(Record::new(Op::Read, 1, 1), now()));
        let last = all(&recorder);
        assert_eq!((last.records.len(), last.dropped), (10, 17));
        recorder.stop();
        recorder.start().unwrap();
        assert_eq!(all(&recorder).dropped, 0, "another recording");
    }

    #[test]
    fn names_are_numbers_that_depend_on_directory_and_key() {
        let recorder = Recorder::default();
        recorder.start().unwrap();
        let name = recorder.name(1, b"secret");
        assert_eq!(name, recorder.name(1, b"secret"));
        assert!(name != recorder.name(2, b"secret") && name != recorder.name(1, b"secreu"));
        recorder.stop();
        recorder.start().unwrap();
        assert_ne!(name, recorder.name(1, b"secret"), "the key is another one");
    }
}
