//! What a thread waits for, where others see it: [`waiting_for`] says it, [`cause_at`] asks.
//!
//! A thread that others may ask about takes a place ([`waiting_place`]) and keeps it until it ends. Kept true: a place
//! has one thread at a time; a thread without one leaves no trace, and pays a look at a thread-local word; nobody takes
//! a lock here. In a simulation nothing is noted.

use crate::sim;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitCause {
    /// Room: collection has to make some, or does in this very thread.
    Room,
    /// The end of a freeze: a checkpoint takes its snapshot.
    Freeze,
    /// The commit of a checkpoint that another thread makes.
    Commit,
    /// A lock, where none of the other causes is known.
    Lock,
    /// The device: what was asked of it has not ended.
    Device,
    /// The kernel, which has to write back or to forget something.
    Kernel,
}

impl WaitCause {
    /// All of them.
    pub const ALL: [WaitCause; 6] =
        [WaitCause::Room, WaitCause::Freeze, WaitCause::Commit, WaitCause::Lock, WaitCause::Device, WaitCause::Kernel];

    /// Its name, in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            WaitCause::Room => "room",
            WaitCause::Freeze => "freeze",
            WaitCause::Commit => "commit",
            WaitCause::Lock => "lock",
            WaitCause::Device => "device",
            WaitCause::Kernel => "kernel",
        }
    }
}

/// Threads that have a place at the same time; of more nothing is known.
pub const WAITING_PLACES: usize = 512;

/// A place, on a cache line of its own.
#[repr(align(64))]
struct Place(AtomicU8);

/// Of a place: no thread has it.
const FREE: u8 = 0;
/// Of a place: its thread waits for nothing that is known. Above it stand the causes.
const AWAKE: u8 = 1;

static PLACES: [Place; WAITING_PLACES] = [const { Place(AtomicU8::new(FREE)) }; WAITING_PLACES];

/// The place of a thread, which is free again when the thread ends.
struct Own(Cell<Option<usize>>);

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(place) = self.0.take() {
            PLACES[place].0.store(FREE, Relaxed);
        }
    }
}

thread_local! {
    static OWN: Own = const { Own(Cell::new(None)) };
}

/// The calling thread's place, which it takes with the first call; `None` if all are taken, or in a simulation.
pub fn waiting_place() -> Option<usize> {
    if sim::is_active() {
        return None;
    }
    let take = |own: &Own| {
        let free = |place: &&Place| place.0.compare_exchange(FREE, AWAKE, Relaxed, Relaxed).is_ok();
        let place = own.0.get().or_else(|| PLACES.iter().position(|place| free(&place)));
        own.0.set(place);
        place
    };
    OWN.try_with(take).ok().flatten()
}

/// What the thread at a place waits for, as far as that is known.
pub fn cause_at(place: usize) -> Option<WaitCause> {
    let now = PLACES.get(place)?.0.load(Relaxed);
    now.checked_sub(AWAKE + 1).and_then(|cause| WaitCause::ALL.get(usize::from(cause))).copied()
}

/// The calling thread waits for something while this lives.
#[must_use = "the wait ends at once if this is dropped"]
pub struct Waiting {
    /// Its place, and what stood there before.
    before: Option<(usize, u8)>,
    not_send: PhantomData<*mut ()>,
}

/// Says that the calling thread waits for this until what it returns is dropped. A wait inside another one counts
/// before it, but for a lock: that is how the other one waits.
pub fn waiting_for(cause: WaitCause) -> Waiting {
    let place = if sim::is_active() { None } else { OWN.try_with(|own| own.0.get()).ok().flatten() };
    let before = place.map(|place| (place, PLACES[place].0.load(Relaxed)));
    let before = before.filter(|(_, earlier)| cause != WaitCause::Lock || *earlier == AWAKE);
    if let Some((place, _)) = before {
        PLACES[place].0.store(AWAKE + 1 + cause as u8, Relaxed);
    }
    Waiting { before, not_send: PhantomData }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((place, earlier)) = self.before {
            PLACES[place].0.store(earlier, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{SimConfig, run};
    use crate::{LockClass, Mutex, RwLock, sleep, spawn};
    use std::sync::Arc;
    use std::time::Duration;

    static CLASS: LockClass = LockClass::new("test.cause", 0);

    #[test]
    fn causes_have_their_numbers() {
        for (number, cause) in WaitCause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, number, "{}", cause.name());
        }
    }

    #[test]
    fn the_innermost_cause_counts_and_a_lock_gives_way() {
        spawn("waits", || {
            assert!(waiting_for(WaitCause::Device).before.is_none(), "nobody asks about this thread");
            let place = waiting_place().expect("there is room");
            assert_eq!((waiting_place(), cause_at(place)), (Some(place), None));
            {
                let _room = waiting_for(WaitCause::Room);
                assert_eq!(cause_at(place), Some(WaitCause::Room));
                {
                    let _device = waiting_for(WaitCause::Device);
                    let _lock = waiting_for(WaitCause::Lock);
                    assert_eq!(cause_at(place), Some(WaitCause::Device));
                }
                assert_eq!(cause_at(place), Some(WaitCause::Room));
            }
            let _lock = waiting_for(WaitCause::Lock);
            assert_eq!((cause_at(place), cause_at(WAITING_PLACES)), (Some(WaitCause::Lock), None));
        })
        .join()
        .expect("no panic");
    }

    /// Waits until a thread that stands at a place waits for a lock.
    fn waits_for_a_lock(place: usize) {
        let patience = (0..2000).any(|_| {
            sleep(Duration::from_millis(5));
            cause_at(place) == Some(WaitCause::Lock)
        });
        assert!(patience, "{:?}", cause_at(place));
    }

    #[test]
    fn whoever_waits_for_a_lock_is_seen() {
        let (mutex, rwlock) = (Arc::new(Mutex::new(&CLASS, 0)), Arc::new(RwLock::new(&CLASS, ())));
        let (held, read) = (mutex.lock(), rwlock.read());
        let (one, other) = (Arc::clone(&mutex), Arc::clone(&rwlock));
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = spawn("waiter", move || {
            let _sent = tell.send(waiting_place().expect("there is room"));
            *one.lock() += 1;
            drop(other.write());
            cause_at(waiting_place().expect("there is room"))
        });
        let place = told.recv().expect("a place");
        waits_for_a_lock(place);
        drop(held);
        // Behind the one is the other.
        while *mutex.lock() == 0 {
            sleep(Duration::from_millis(1));
        }
        waits_for_a_lock(place);
        drop(read);
        assert_eq!(waiter.join(), Ok(None));
    }

    #[test]
    fn a_simulation_notes_nothing() {
        let asked = run(SimConfig { cores: 1, seed: 1, ..SimConfig::default() }, || {
            assert_eq!(waiting_place(), None);
            assert!(waiting_for(WaitCause::Device).before.is_none());
        });
        assert!(asked.is_ok());
    }
}
