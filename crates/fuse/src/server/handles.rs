//! Open files: which write errors each has been told of, and how many each user has.
//!
//! A handle is a number that the kernel gives back with each request of the open file. Its lowest bit says whether the
//! file was opened for writing, so that most requests need no table; the rest is the key of its cursor. What it
//! remembers is memory of this process, which no limit on a user's own memory counts: so a user has only so many. Kept
//! true: a handle is here from the reply to its OPEN or CREATE until its RELEASE, and its seat is taken as long.

use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_core::ErrorCursor;
use steadyfs_rt::{LockClass, Mutex};

static HANDLES: LockClass = LockClass::new("fuse_handles_lock", 7);
static SEATS: LockClass = LockClass::new("fuse_seats_lock", 8);

const SHARDS: u64 = 16;
const WRITER: u64 = 1;

type Shard = HashMap<u64, Open>;

struct Open {
    cursor: Arc<ErrorCursor>,
    how: Opened,
    _seat: Seat,
}

/// Open files of each user who has some.
type Seats = Mutex<HashMap<u32, u32>>;

/// Leave for a user to have one more open file, until it is dropped.
pub(super) struct Seat {
    seats: Arc<Seats>,
    uid: u32,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.seats.lock();
        if let Some(taken) = seats.get_mut(&self.uid) {
            *taken -= 1;
            if *taken == 0 {
                seats.remove(&self.uid);
            }
        }
    }
}

/// How a file was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    /// It may be written.
    pub(super) writes: bool,
    /// The kernel caches what is read and written.
    pub(super) caches: bool,
    /// What the kernel writes back of it may take the space that is set aside.
    pub(super) entitled: bool,
}

/// The open files.
pub(crate) struct Handles {
    next: AtomicU64,
    shards: Box<[Mutex<Shard>]>,
    seats: Arc<Seats>,
}

/// Whether a handle is one of a file opened for writing.
pub(crate) fn writes(fh: u64) -> bool {
    fh & WRITER != 0
}

impl Handles {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(&HANDLES, HashMap::new())).collect();
        Handles { next: AtomicU64::new(0), shards, seats: Arc::new(Mutex::new(&SEATS, HashMap::new())) }
    }

    /// Leave for a user to open a file, if that leaves him with no more than `most`.
    ///
    /// # Errors
    /// `ENFILE`.
    pub(super) fn seat(&self, uid: u32, most: u32) -> Result<Seat, Errno> {
        let mut seats = self.seats.lock();
        let taken = seats.entry(uid).or_default();
        if *taken >= most && !steadyfs_rt::mutated("a-user-has-so-many-open-files") {
            return Err(Errno::NFILE);
        }
        *taken += 1;
        Ok(Seat { seats: Arc::clone(&self.seats), uid })
    }

    fn shard(&self, fh: u64) -> &Mutex<Shard> {
        &self.shards[(fh / 2 % SHARDS) as usize]
    }

    /// The handle of a file opened now.
    pub(super) fn open(&self, how: Opened, cursor: ErrorCursor, seat: Seat) -> u64 {
        let fh = self.next.fetch_add(1, SeqCst) * 2 + if how.writes { WRITER } else { 0 };
        let old = self.shard(fh).lock().insert(fh, Open { cursor: Arc::new(cursor), how, _seat: seat });
        assert!(old.is_none(), "a handle was given out twice");
        fh
    }

    /// What an open file was told of. `None` for handles that were never given out: directories have none.
    pub(crate) fn cursor(&self, fh: u64) -> Option<Arc<ErrorCursor>> {
        self.shard(fh).lock().get(&fh).map(|open| Arc::clone(&open.cursor))
    }

    /// Whether what the kernel writes back of an open file may take the space that is set aside.
    pub(super) fn is_entitled(&self, fh: u64) -> bool {
        self.shard(fh).lock().get(&fh).is_some_and(|open| open.how.entitled)
    }

    /// How many files are open.
    pub(super) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// The open file has gone; how it was opened.
    pub(super) fn close(&self, fh: u64) -> Option<Opened> {
        let open = self.shard(fh).lock().remove(&fh);
        open.map(|open| open.how)
    }
}
