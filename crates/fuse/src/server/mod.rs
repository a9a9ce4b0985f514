//! Requests in, replies out: what each message of the kernel means for the file system. Knows neither `/dev/fuse` nor
//! threads.
//!
//! [`Server::handle`] takes the bytes of one request and fills in the reply; any number of threads call it at once.
//! What only the kernel's side of the conversation can do is behind [`Kernel`], so that everything here is tested
//! without one. The handlers are methods of [`Call`], by subject: `names`, `dirs`, `attrs`, `files`, `xattrs`, `ioctl`;
//! `dispatch` chooses among them.
//!
//! Kept true:
//! - Of a request only counts and lost contents survive, in [`nodes::Nodes`]. Of an open file, the errors that it was
//!   told of do ([`handles::Handles`]).
//! - A handler that panics fails its request and nothing else.
//! - After [`Server::finish`] the file system is no longer touched.

mod attrs;
mod caller;
mod counts;
mod delayed;
mod dirs;
mod dirty;
mod dispatch;
mod farewell;
mod fetch;
mod files;
mod handles;
mod init;
mod ioctl;
mod lost;
mod names;
mod nodes;
mod policy;
mod reopen;
mod room;
mod service;
mod shutdown;
mod space;
mod stale;
mod stats;
#[cfg(test)]
pub(crate) mod tests;
mod traced;
mod xattrs;

pub(crate) use dispatch::{Handled, Waiter, is_large_background};
pub(crate) use farewell::END_ATTRIBUTE;
pub(crate) use init::{Greeting, MAX_WRITE};
pub(crate) use policy::Policy;
pub use reopen::{Access, Reopen, WRITABLE_ATTRIBUTE};
pub(crate) use room::Limit;
pub use stats::{CAPACITY_ATTRIBUTE, SEGMENTS_ATTRIBUTE, STATS_ATTRIBUTE};
pub use traced::TRACE_ATTRIBUTE;

use crate::error::errno;
use crate::wire::abi::InHeader;
use crate::wire::{ROOT_NODE, Reply};
use counts::Counts;
use farewell::Farewell;
use fetch::Fetches;
use handles::Handles;
use nodes::Nodes;
use room::Room;
use rustix::io::Errno;
use space::Unlinked;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use steadyfs_core::stats::ServingStats;
use steadyfs_core::{Fs, InodeRef};
use steadyfs_format::Ino;
use steadyfs_rt::{LockClass, Mutex, RwLock};
use steadyfs_trace::{Busy, Recorder};

/// One end at a time, so that others can wait for it.
static END: LockClass = LockClass::new("fuse_end_mutex", 1);
/// Held shared by each request, exclusively by the end.
static GATE: LockClass = LockClass::new("fuse_gate", 2);
/// Counts who waits for the kernel.
static FETCH: LockClass = LockClass::new("fuse_fetch_mutex", 3);
/// One deletion of unused inodes at a time, so that others can wait for its space.
static REAP: LockClass = LockClass::new("fuse_reap_mutex", 4);

/// What the kernel's side of the conversation does for a handler.
pub(crate) trait Kernel: Sync {
    /// Makes the kernel write back and drop what it caches of these bytes of a node, and drop its attributes. Returns
    /// when that is done.
    fn invalidate(&self, node: u64, range: Range<u64>);

    /// Makes the kernel ask for a node's attributes before it next goes by them. Waits for no other request.
    fn forget_attributes(&self, node: u64);

    /// The calling thread is about to wait for what may take other requests.
    fn waits(&self) {}

    /// Four bytes of the memory of the process that asks; `None` where this process may not see them. Waits until they
    /// are in memory, which may take other requests.
    fn memory_of(&self, caller: &InHeader, address: u64) -> Option<[u8; 4]> {
        self.waits();
        caller::memory(caller, address)
    }
}

/// A failed request: the errno to answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fail(pub(crate) Errno);

impl From<Errno> for Fail {
    fn from(errno: Errno) -> Self {
        Fail(errno)
    }
}

impl From<steadyfs_core::Error> for Fail {
    fn from(error: steadyfs_core::Error) -> Self {
        let errno = errno(&error);
        let is_failure =
            (errno == Errno::IO || errno == Errno::UCLEAN) && !matches!(error, steadyfs_core::Error::ShutDown);
        if is_failure {
            tracing::error!("{error}");
        }
        Fail(errno)
    }
}

/// Result of a handler.
pub(crate) type Answer<T = ()> = Result<T, Fail>;

/// Whether there is (still) a file system.
enum State {
    Live(Arc<Fs>),
    /// How its end went.
    Ended(steadyfs_core::Result<()>),
}

/// What is to be done at the end.
pub(crate) type AtEnd = Box<dyn FnOnce() + Send>;

/// The file system, as the kernel sees it.
pub(crate) struct Server {
    state: RwLock<State>,
    counts: Arc<Counts>,
    /// Opens a volume that is served read-only for changes.
    reopen: OnceLock<Reopen>,
    /// It has done so.
    reopened: AtomicBool,
    /// Held by the end as long as it lasts.
    at_end: Mutex<Option<AtEnd>>,
    farewell: Farewell,
    fetches: Fetches,
    nodes: Arc<Nodes>,
    handles: Arc<Handles>,
    policy: Policy,
    room: Room,
    /// Abilities of the kernel that are used, as INIT named them.
    used: AtomicU64,
    /// Those that are asked for because of how it is mounted.
    wanted_too: AtomicU64,
    reaping: Mutex<()>,
    /// Deletions of unused inodes so far.
    reaps: AtomicU64,
    recorder: Recorder,
    /// What is recorded goes into a file of this process.
    to_file: AtomicBool,
    /// Some inode has a label of SELinux.
    labelled: AtomicBool,
    unlinked: Unlinked,
}

/// One request on its way through a handler.
struct Call<'a> {
    server: &'a Server,
    fs: &'a Fs,
    header: InHeader,
    kernel: &'a dyn Kernel,
    reply: &'a mut Reply,
}

impl Server {
    pub(crate) fn new(fs: Arc<Fs>, policy: Policy) -> Self {
        let counts = Arc::new(Counts::new());
        let (nodes, handles) = (Arc::new(Nodes::new()), Arc::new(Handles::new()));
        policy.set_aside(&fs);
        tell_counts(&fs, &counts, &nodes, &handles);
        Server {
            counts,
            state: RwLock::new(&GATE, State::Live(fs)),
            reopen: OnceLock::new(),
            reopened: AtomicBool::new(false),
            at_end: Mutex::new(&END, None),
            farewell: Farewell::new(),
            fetches: Fetches::new(),
            nodes,
            handles,
            policy,
            room: Room::new(),
            used: AtomicU64::new(0),
            wanted_too: AtomicU64::new(0),
            reaping: Mutex::new(&REAP, ()),
            reaps: AtomicU64::new(0),
            recorder: Recorder::default(),
            to_file: AtomicBool::new(false),
            labelled: AtomicBool::new(false),
            unlinked: Unlinked::new(),
        }
    }

    /// Ends the file system: waits for requests under way, lets go of everything, writes the last checkpoint and does
    /// what [`Server::at_end`] asked for. Requests that wait for the kernel (`fetch`) are refused instead. When it
    /// returns, whoever else may have called it, the device is closed, if nobody else holds the [`Fs`]. Later calls
    /// only say how that went.
    pub(crate) fn finish(&self) -> steadyfs_core::Result<()> {
        let mut at_end = self.at_end.lock();
        let (fs, ended) = {
            let mut state = self.state.write();
            let fs = match &*state {
                State::Live(fs) => Arc::clone(fs),
                State::Ended(result) => return result.clone(),
            };
            self.nodes.clear().into_iter().for_each(|ino| fs.release(Ino::new(ino)));
            let ended = fs.unmount();
            *state = State::Ended(ended.clone());
            (fs, ended)
        };
        // Whatever the kernel writes back now is refused, and so is whoever waited for that.
        self.fetches.end();
        // The volume is whole whatever comes now, and no request waits any more; but who sees the device free may rely
        // on all of it.
        self.recorder.stop();
        if let Some(work) = at_end.take() {
            work();
        }
        if Arc::strong_count(&fs) > 1 {
            tracing::debug!("the file system is still held after its end");
        }
        drop(fs);
        self.farewell.say(&ended);
        ended
    }

    /// Has the end of the file system do this when nothing more is recorded, before the device is closed.
    pub(crate) fn at_end(&self, work: AtEnd) {
        *self.at_end.lock() = Some(work);
    }

    /// Has `limit` keep what the kernel may hold of writes below the room that there is, from now on.
    pub(crate) fn limit_dirty(&self, limit: Limit) {
        if let State::Live(fs) = &*self.state.read() {
            self.room.limit_by(limit, fs);
        }
    }

    /// What is counted of requests.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Begins to record for a file of this process, until the end of the file system.
    pub(crate) fn record(&self) -> Result<(), Busy> {
        self.recorder.start()?;
        self.to_file.store(true, SeqCst);
        Ok(())
    }

    /// What has been recorded.
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Makes every request wait while the guard lives.
    #[cfg(test)]
    pub(crate) fn stall(&self) -> impl Drop + '_ {
        struct Stalled<'a>(#[allow(dead_code)] steadyfs_rt::RwLockWriteGuard<'a, State>);
        impl Drop for Stalled<'_> {
            fn drop(&mut self) {}
        }
        Stalled(self.state.write())
    }

    /// Lets go of an inode without links that the kernel no longer knows, and deletes it if nobody else uses it.
    fn let_go(&self, fs: &Fs, held: Option<u32>) {
        if let Some(ino) = held {
            let _one_at_a_time = self.reaping.lock();
            fs.release(Ino::new(ino));
            // Somebody may have been told of it again meanwhile.
            if self.nodes.is_held(ino)
                && let Ok(inode) = fs.inode(Ino::new(ino))
            {
                fs.hold(&inode);
            }
            if let Err(error) = fs.reap()
                && !fs.is_shut_down()
            {
                tracing::error!("deleting a file that is no longer used: {error}");
            }
            self.reaps.fetch_add(1, SeqCst);
            self.unlinked.gone(ino);
        }
    }
}

impl Call<'_> {
    /// The inode that a node id stands for.
    ///
    /// # Errors
    /// `ESTALE` if there is none (any more).
    fn inode(&self, node: u64) -> Answer<InodeRef> {
        if node == ROOT_NODE {
            return Ok(self.fs.root()?);
        }
        let ino = u32::try_from(node).map_err(|_| Errno::STALE)?;
        self.fs.inode(Ino::new(ino)).map_err(|error| match error {
            steadyfs_core::Error::NotFound => Fail(Errno::STALE),
            error => error.into(),
        })
    }

    /// The inode the request is about.
    fn this(&self) -> Answer<InodeRef> {
        self.inode(self.header.nodeid)
    }
}

/// Has snapshots of a volume hold the counts.
fn tell_counts(fs: &Fs, counts: &Arc<Counts>, nodes: &Arc<Nodes>, handles: &Arc<Handles>) {
    let (counts, nodes, handles) = (Arc::clone(counts), Arc::clone(nodes), Arc::clone(handles));
    fs.set_serving(Box::new(move || {
        let (known, held) = nodes.counts();
        ServingStats {
            known_inodes: known as u64,
            held_inodes: held as u64,
            open_files: handles.count() as u64,
            ..counts.stats()
        }
    }));
}

/// The node id that the kernel uses for an inode.
fn node_of(ino: Ino) -> u64 {
    if ino == steadyfs_format::ROOT_INO { ROOT_NODE } else { u64::from(ino.get()) }
}
