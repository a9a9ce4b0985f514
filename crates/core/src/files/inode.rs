//! Inodes in memory: the table, references to them, and loading one.
//!
//! An [`Inode`] holds what the inode block cannot: its lock, its cached pages, who uses it. The attributes themselves
//! are in the node block and nowhere else (see `node`).
//!
//! Kept true:
//! - An inode number has at most one [`Inode`] in memory.
//! - An inode with references, dirty pages, a pending deletion or something to log stays in the table.
//! - An inode whose last link and last reference are gone is queued for deletion, unless somebody outside knows it by
//!   number.

use crate::error::{Error, Result};
use crate::files::dir::names::Names;
use crate::files::errseq::{ErrorCursor, WriteErrors};
use crate::files::noted::logged::LogItem;
use crate::files::orphans::Orphans;
use crate::files::overwrites::Overwrites;
use crate::files::pages::{Budget, Pages};
use crate::gate::protect::FileLocks;
use crate::locks;
use crate::options::techniques::GcProtect;
use crate::volume::Volume;
use crate::volume::nodes::cache::Node;
use crate::volume::nodes::dirt::KnownBirth;
use crate::volume::nodes::disk_size::UNLIMITED;
use crate::volume::second_chance::{LEAST, LOOKS, SHARDS, Seat, Seated, SecondChance, sweep};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::Inode as RawInode;
use steadyfs_format::{Ino, Nid};
use steadyfs_rt::{Mutex, MutexGuard, RwLock, SharedLine, SplitCount, cpus, thread_number};

/// Parts of the queue: as many as a word has bits.
const QUEUES: usize = 64;

type Shard = SecondChance<Ino, Inode>;

/// An inode in memory.
pub(crate) struct Inode {
    pub(crate) ino: Ino,
    /// Regular file, directory, ...: never changes during the life of an inode.
    pub(crate) kind: FileType,
    /// The inode block, pinned in the node cache.
    pub(crate) node: Arc<Node>,
    /// `i_rwsem`: exclusive for changes of contents or size, shared for readers that need both to stand still.
    pub(crate) rwsem: RwLock<()>,
    pub(crate) pages: Pages,
    /// Direct I/O, and changes of contents, against collectors.
    pub(crate) gc: FileLocks,
    /// Of a directory: what its pages do not hold.
    pub(crate) names: Names,
    /// What the metadata journal is to say of it; made when there first is something.
    pub(crate) log: OnceLock<Arc<LogItem>>,
    /// Whether the checkpoint in force does not have it.
    pub(crate) birth: KnownBirth,
    /// It was made since the mount, and no fsync has put its contents into the chain.
    is_unsynced_new: AtomicBool,
    /// Of such a file: the first checkpoint that has the contents in its inode, by the number of freezes.
    contents_from: AtomicU64,
    /// Failed writes of the contents.
    pub(crate) write_errors: WriteErrors,
    pub(crate) overwrites: Overwrites,
    /// Pages that it may get dirty before its next writer sleeps for the flusher again. Changed under `rwsem`.
    pub(crate) turn: AtomicU64,
    users: AtomicU32,
    /// Link count reached zero: delete when the last user goes.
    pub(crate) unlinked: AtomicBool,
    /// The first checkpoint without its last name, by the number of freezes; 0 if it has one, or never had.
    nameless_from: AtomicU64,
    /// Somebody outside knows it by number: it is not deleted with the last user, and may leave memory. As the set of
    /// orphans says.
    held: AtomicBool,
    /// Somebody is deleting it: nobody gets a reference any more.
    dying: AtomicBool,
    /// Used since the eviction hand last passed.
    touched: AtomicBool,
    seat: Seat,
    queue: Arc<ReapShard>,
}

impl Seated for Inode {
    fn seat(&self) -> &Seat {
        &self.seat
    }
}

/// Inodes whose last user went while they had no link; and how many have users.
///
/// Every operation on names looks here, so an empty queue costs a look at one word that nobody writes. An inode that
/// nobody uses but who takes its last name does not come here ([`InodeTable::claim_own`]).
pub(crate) struct ReapQueue {
    shards: Box<[Arc<ReapShard>]>,
    shared: Arc<ReapShared>,
}

/// A part of the queue. Each inode in memory has a reference to its own, so the count of these is no line of all cores.
struct ReapShard {
    inos: Mutex<Vec<Ino>>,
    bit: u64,
    /// Of the count of references.
    line: SharedLine,
    shared: Arc<ReapShared>,
}

struct ReapShared {
    /// A bit for each shard that has some.
    filled: AtomicU64,
    line: SharedLine,
    /// Inodes with users.
    in_use: SplitCount,
}

impl ReapQueue {
    fn new(limit: usize) -> Self {
        let in_use = SplitCount::for_limit(limit);
        let shared = Arc::new(ReapShared { filled: AtomicU64::new(0), line: SharedLine::new(), in_use });
        let shard = |at: usize| {
            let (inos, shared) = (Mutex::new(&locks::REAP, Vec::new()), Arc::clone(&shared));
            Arc::new(ReapShard { inos, bit: 1 << at, line: SharedLine::new(), shared })
        };
        ReapQueue { shards: (0..QUEUES).map(shard).collect(), shared }
    }

    fn shard(&self, ino: Ino) -> Arc<ReapShard> {
        let shard = &self.shards[ino.index() % QUEUES];
        shard.line.write();
        Arc::clone(shard)
    }

    /// Inodes to delete, leaving an empty queue.
    pub(crate) fn take(&self) -> Vec<Ino> {
        if self.shared.filled.load(SeqCst) == 0 {
            return Vec::new();
        }
        self.shared.line.write();
        let filled = self.shared.filled.swap(0, SeqCst);
        let of = |shard: &&Arc<ReapShard>| filled & shard.bit != 0;
        self.shards.iter().filter(of).flat_map(|shard| std::mem::take(&mut *shard.inos.lock())).collect()
    }
}

impl ReapShard {
    fn push(&self, ino: Ino) {
        self.inos.lock().push(ino);
        // After that: who finds the bit finds the inode.
        self.shared.line.write();
        self.shared.filled.fetch_or(self.bit, SeqCst);
    }
}

/// A counted reference to an inode. While one lives the inode is not deleted, even without links.
pub struct InodeRef {
    pub(crate) inode: Arc<Inode>,
    /// Write errors that the holder knows of.
    pub(crate) seen: ErrorCursor,
}

impl InodeRef {
    /// The inode number.
    pub fn ino(&self) -> Ino {
        self.inode.ino
    }

    /// Regular file, directory, ...
    pub fn kind(&self) -> FileType {
        self.inode.kind
    }
}

impl InodeRef {
    /// A cursor over the file's write errors for who opens it now. The reference has one of its own, which `Fs::fsync`
    /// uses.
    pub fn error_cursor(&self) -> ErrorCursor {
        self.inode.write_errors.cursor()
    }

    /// What a close reports: a write of the file's contents that has failed since the cursor last learnt of one.
    /// Nothing is written.
    ///
    /// # Errors
    /// That failure, once per cursor.
    pub fn take_write_error(&self, cursor: &ErrorCursor) -> Result<()> {
        self.inode.write_errors.tell(cursor)
    }
}

impl Clone for InodeRef {
    fn clone(&self) -> Self {
        let before = self.inode.users.fetch_add(1, SeqCst);
        assert!(before > 0, "a reference to inode {} is copied that was not counted", self.inode.ino);
        InodeRef { inode: Arc::clone(&self.inode), seen: self.seen.clone() }
    }
}

impl Drop for InodeRef {
    fn drop(&mut self) {
        let before = self.inode.users.fetch_sub(1, SeqCst);
        assert!(before > 0, "inode {} has fewer users than none", self.inode.ino);
        let last = before == 1;
        if last {
            self.inode.queue.shared.in_use.add(-1);
        }
        // A dying one was claimed by who had this reference.
        if last && self.inode.is_to_be_deleted() && !self.inode.dying.load(SeqCst) {
            self.inode.queue.push(self.inode.ino);
        }
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        // The reference to the queue.
        self.queue.line.write();
    }
}

impl std::fmt::Debug for InodeRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InodeRef({:?}, {:?})", self.inode.ino, self.inode.kind)
    }
}

impl Inode {
    /// References held by users of the file system.
    pub(crate) fn users(&self) -> u32 {
        self.users.load(SeqCst)
    }

    /// Notes that its last name has gone, under the change that took it, behind `frozen` freezes.
    pub(crate) fn lose_last_name(&self, frozen: u64) {
        self.nameless_from.store(frozen + 1, SeqCst);
        self.unlinked.store(true, SeqCst);
    }

    /// Whether it goes with its last user.
    fn is_to_be_deleted(&self) -> bool {
        self.unlinked.load(SeqCst) && !self.held.load(SeqCst)
    }

    /// Somebody outside knows it by number. Returns what has to be remembered of it if it leaves memory.
    pub(super) fn hold(&self) -> u64 {
        assert!(self.users() > 0, "inode {} is held by who has no reference", self.ino);
        self.held.store(true, SeqCst);
        self.nameless_from.load(SeqCst)
    }

    /// Nobody outside knows it by number any more.
    pub(super) fn let_go(&self) {
        self.held.store(false, SeqCst);
    }

    /// It is back in memory, without a name, and what [`Inode::hold`] gave was remembered.
    pub(super) fn recall_held(&self, nameless_from: u64) {
        assert_eq!(self.users(), 0, "inode {} is used before it is known to be held", self.ino);
        self.nameless_from.store(nameless_from, SeqCst);
        self.held.store(true, SeqCst);
        self.unlinked.store(true, SeqCst);
    }

    /// Whether it had a name in the checkpoint with this number, and has none any more.
    pub(crate) fn had_name_at(&self, checkpoint: u64) -> bool {
        checkpoint < self.nameless_from.load(SeqCst)
    }

    /// Whether it was made since the mount, and no fsync has put its contents into the chain.
    pub(crate) fn is_unsynced_new(&self) -> bool {
        self.is_unsynced_new.load(Relaxed)
    }

    /// Notes a write to contents in the inode, under its change, behind `frozen` freezes.
    pub(crate) fn note_contents(&self, frozen: u64) {
        self.contents_from.store(frozen + 1, Relaxed);
    }

    /// Whether a batch has to carry contents in the inode: only the checkpoint that comes after `frozen` freezes has
    /// them.
    pub(crate) fn has_new_contents(&self, frozen: u64) -> bool {
        self.is_unsynced_new() && self.contents_from.load(Relaxed) > frozen
    }

    /// Whether the journal was told of contents of it, and tells of them no more: a batch or a checkpoint took them.
    pub(crate) fn had_contents(&self) -> bool {
        self.contents_from.load(Relaxed) > 0 && !self.is_logged()
    }

    /// The chain has its contents as they are, behind all that was noted of it.
    pub(crate) fn note_chained(&self) {
        // Most are not new; their line stays everybody's.
        if self.is_unsynced_new() {
            self.is_unsynced_new.store(false, Relaxed);
        }
    }

    /// Whether the metadata journal has something to say of it: then it stays in the table, so that there is one item.
    fn is_logged(&self) -> bool {
        self.log.get().is_some_and(|item| item.is_pending())
    }

    /// What the metadata journal is to say of it.
    pub(crate) fn log_item(&self) -> &Arc<LogItem> {
        self.log.get_or_init(|| LogItem::new(self.ino.get()))
    }
}

/// The inodes in memory.
pub(crate) struct InodeTable {
    shards: Box<[Mutex<Shard>]>,
    cached: SplitCount,
    /// Most inodes to keep without users.
    limit: usize,
    protect: GcProtect,
    pub(crate) queue: ReapQueue,
    generations: Box<[Generation]>,
}

/// Generation of the next new inode that a core makes, on cache lines of its own.
#[repr(align(128))]
struct Generation(AtomicU32);

/// Places for more cores are no gain.
const MOST_CORES: usize = 256;

impl InodeTable {
    /// A table that keeps at most about `limit` unused inodes.
    pub(crate) fn new(limit: usize, protect: GcProtect) -> Self {
        let cores = cpus().clamp(1, MOST_CORES) as u32;
        let now = steadyfs_rt::wall_clock().nsec;
        // Far apart, by the golden ratio.
        let first = |core: u32| Generation(AtomicU32::new(now.wrapping_add(core).wrapping_mul(0x9E37_79B1)));
        let generations = (0..cores).map(first).collect();
        InodeTable {
            protect,
            shards: (0..SHARDS).map(|_| Mutex::new(&locks::INODE_TABLE, Shard::default())).collect(),
            cached: SplitCount::for_limit(limit),
            limit: limit.max(LEAST),
            queue: ReapQueue::new(limit),
            generations,
        }
    }

    fn shard(&self, ino: Ino) -> &Mutex<Shard> {
        &self.shards[ino.index() % SHARDS]
    }

    /// A reference to a cached inode; an error if it is being deleted.
    pub(crate) fn find(&self, ino: Ino) -> Result<Option<InodeRef>> {
        let shard = self.shard(ino).lock();
        match shard.get(ino) {
            Some(inode) if inode.dying.load(SeqCst) => Err(Error::NotFound),
            found => Ok(found.map(Self::reference)),
        }
    }

    /// The inode if it is in memory, for a look at it only: it is not a reference, and may be deleted meanwhile.
    pub(crate) fn peek(&self, ino: Ino) -> Option<Arc<Inode>> {
        self.shard(ino).lock().get(ino).filter(|inode| !inode.dying.load(SeqCst)).cloned()
    }

    /// Files whose size the device may not be told yet.
    pub(crate) fn growing(&self) -> Vec<Arc<Inode>> {
        let grows = |inode: &&Arc<Inode>| inode.node.disk_size.limit() != UNLIMITED;
        self.shards.iter().flat_map(|shard| shard.lock().values().filter(grows).cloned().collect::<Vec<_>>()).collect()
    }

    /// Claims an inode for deletion: it has no link and nobody uses it, and from here on nobody can.
    pub(crate) fn claim(&self, ino: Ino) -> Option<Arc<Inode>> {
        let shard = self.shard(ino).lock();
        let inode = shard.get(ino)?;
        let unused = inode.users() == 0 && inode.is_to_be_deleted();
        (unused && !inode.dying.swap(true, SeqCst)).then(|| Arc::clone(inode))
    }

    /// Gives a reference back. If it was the last one to an inode without a link, the inode is claimed for deletion, as
    /// by [`InodeTable::claim`], and does not go through the queue.
    pub(crate) fn claim_own(&self, own: InodeRef) -> Option<Arc<Inode>> {
        let inode = Arc::clone(&own.inode);
        let claimed = {
            let _shard = self.shard(inode.ino).lock();
            // Who has no reference gets one under this lock only, and not from here on. Where this is the only one,
            // nobody copies one.
            let unused = inode.users() == 1 && inode.is_to_be_deleted();
            unused && !inode.dying.swap(true, SeqCst)
        };
        drop(own);
        claimed.then_some(inode)
    }

    /// A number for a new inode that an earlier one under the same inode number most likely did not have.
    pub(crate) fn next_generation(&self) -> u32 {
        self.generations[thread_number() % self.generations.len()].0.fetch_add(1, SeqCst)
    }

    /// Counts under the shard's lock, so that eviction sees it.
    fn reference(inode: &Arc<Inode>) -> InodeRef {
        assert!(!inode.dying.load(SeqCst), "inode {} gets a user while it is deleted", inode.ino);
        if inode.users.fetch_add(1, SeqCst) == 0 {
            inode.queue.shared.in_use.add(1);
        }
        inode.touched.store(true, SeqCst);
        InodeRef { inode: Arc::clone(inode), seen: inode.write_errors.cursor() }
    }

    /// Adds the inode of a node that was just made. Whatever is here under its number belongs to a node that was freed.
    pub(crate) fn insert_new(&self, budget: &Budget, node: Arc<Node>, kind: FileType) -> InodeRef {
        let inode = self.new_inode(node, kind);
        inode.is_unsynced_new.store(true, Relaxed);
        let out = Self::reference(&inode);
        self.add(self.shard(inode.ino).lock(), inode, budget);
        out
    }

    /// Adds an inode, and drops others of its part that nobody uses, where there are too many.
    fn add(&self, mut shard: MutexGuard<'_, Shard>, inode: Arc<Inode>, budget: &Budget) {
        let old = shard.insert(inode.ino, inode);
        if old.is_none() {
            self.cached.add(1);
        }
        let gone =
            if self.unused_about() > self.limit { self.drop_some(&mut shard, LOOKS, budget) } else { Vec::new() };
        // Their memory goes when others can have the part.
        drop(shard);
        drop((old, gone));
    }

    /// Adds the inode of a node that was read, unless another thread was first; an error if that inode is being
    /// deleted.
    fn insert_loaded(&self, budget: &Budget, orphans: &Orphans, node: &Arc<Node>, kind: FileType) -> Result<InodeRef> {
        let ino = node.nid.as_ino();
        let shard = self.shard(ino).lock();
        match shard.get(ino) {
            Some(inode) if inode.dying.load(SeqCst) => Err(Error::NotFound),
            Some(inode) => Ok(Self::reference(inode)),
            None => {
                let inode = self.new_inode(Arc::clone(node), kind);
                orphans.remind(&inode);
                let out = Self::reference(&inode);
                self.add(shard, inode, budget);
                Ok(out)
            }
        }
    }

    fn new_inode(&self, node: Arc<Node>, kind: FileType) -> Arc<Inode> {
        Arc::new(Inode {
            ino: node.nid.as_ino(),
            kind,
            rwsem: RwLock::new(&locks::INODE, ()),
            pages: Pages::new(),
            gc: FileLocks::new(self.protect),
            names: Names::new(kind == FileType::Dir),
            log: OnceLock::new(),
            birth: KnownBirth::default(),
            is_unsynced_new: AtomicBool::new(false),
            contents_from: AtomicU64::new(0),
            write_errors: WriteErrors::new(),
            overwrites: Overwrites::default(),
            turn: AtomicU64::new(0),
            users: AtomicU32::new(0),
            unlinked: AtomicBool::new(false),
            nameless_from: AtomicU64::new(0),
            held: AtomicBool::new(false),
            dying: AtomicBool::new(false),
            touched: AtomicBool::new(true),
            seat: Seat::default(),
            queue: self.queue.shard(node.nid.as_ino()),
            node,
        })
    }

    /// Forgets a deleted inode.
    pub(crate) fn remove(&self, inode: &Arc<Inode>) {
        let mut shard = self.shard(inode.ino).lock();
        if shard.get(inode.ino).is_some_and(|known| Arc::ptr_eq(known, inode)) {
            shard.remove(inode.ino);
            self.cached.add(-1);
        }
    }

    /// Inodes in memory that nobody uses: an estimate, for users come and go.
    fn unused(&self) -> usize {
        usize::try_from(self.cached.sum() - self.queue.shared.in_use.sum()).unwrap_or(0)
    }

    /// As [`InodeTable::unused`], but for what cores have not told.
    fn unused_about(&self) -> usize {
        self.cached.estimate().saturating_sub(self.queue.shared.in_use.estimate()) as usize
    }

    /// Drops inodes that nobody uses until the table is within its limit; their clean pages go with them. Those in use
    /// do not count. For who has the time: it looks at each inode twice, a few at a time.
    pub(crate) fn shrink(&self, budget: &Budget) {
        sweep(&self.shards, || self.unused() > self.limit, |shard, most| self.drop_some(shard, most, budget));
    }

    /// The next few inodes of a part: those that nobody uses, and nobody has used since the last look, leave.
    fn drop_some(&self, shard: &mut Shard, most: usize, budget: &Budget) -> Vec<Arc<Inode>> {
        let gone = shard.go_on(most, |inode| {
            inode.users() > 0
                || inode.is_logged()
                || inode.is_to_be_deleted()
                || inode.touched.swap(false, SeqCst)
                || !inode.pages.drop_all_if_clean(budget)
        });
        for inode in &gone {
            assert!(inode.users() == 0, "inode {} leaves the table while it has users", inode.ino);
            // It has had its second chance here.
            inode.node.expect_no_use();
        }
        self.cached.add(-(gone.len() as i64));
        gone
    }
}

impl InodeTable {
    /// A reference to the inode with this number; see `Files::inode`.
    pub(crate) fn get(&self, vol: &Volume, budget: &Budget, orphans: &Orphans, ino: Ino) -> Result<InodeRef> {
        if let Some(found) = self.find(ino)? {
            return Ok(found);
        }
        if ino.get() < steadyfs_format::ROOT_INO.get() {
            return Err(Error::NotFound);
        }
        self.load(vol, budget, orphans, ino, |raw| raw.links() > 0 || orphans.is_held(ino))
    }

    /// Brings an orphan that the last mount left into memory, to be deleted.
    pub(crate) fn load_orphan(&self, vol: &Volume, budget: &Budget, orphans: &Orphans, ino: Ino) -> Result<InodeRef> {
        let found = self.load(vol, budget, orphans, ino, |raw| raw.links() == 0)?;
        found.inode.unlinked.store(true, SeqCst);
        Ok(found)
    }

    fn load(
        &self,
        vol: &Volume,
        budget: &Budget,
        orphans: &Orphans,
        ino: Ino,
        wanted: impl FnOnce(&RawInode) -> bool,
    ) -> Result<InodeRef> {
        let node = vol.node(Nid::from(ino))?;
        let kind = {
            let guard = node.read();
            if guard.is_dead() {
                return Err(Error::NotFound);
            }
            let raw = RawInode::view(guard.bytes());
            if raw.footer.ino() != ino {
                return Err(Error::corrupt(format!("node {ino} is not an inode but a part of {}", raw.footer.ino())));
            }
            raw.validate(vol.sb.features())?;
            if !wanted(raw) {
                return Err(Error::NotFound);
            }
            raw.file_type()
                .ok_or_else(|| Error::corrupt(format!("inode {ino} has the impossible mode {:o}", raw.mode())))?
        };
        let found = self.insert_loaded(budget, orphans, &node, kind)?;
        // The inode may have been deleted since its block was looked at: then it must not stay in the table.
        if found.inode.node.read().is_dead() {
            self.remove(&found.inode);
            return Err(Error::NotFound);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mkfs::{self, MkfsOptions};
    use crate::stats::Cause;
    use crate::{Fs, MountOptions, NewInode};
    use steadyfs_device::MemDevice;
    use steadyfs_rt::sim::{SimConfig, run};

    /// A volume of 256 MiB that does nothing by itself, with so much memory for nodes.
    fn volume(node_cache: &str) -> Arc<Fs> {
        let device = MemDevice::new((256 << 20) / 4096);
        mkfs::format(&device, &MkfsOptions::new([7; 16], 0)).unwrap();
        let options = MountOptions::parse(&format!("node_cache={node_cache},background_gc=off,commit=0")).unwrap();
        Fs::mount(Arc::new(device), options).unwrap()
    }

    /// Beyond the limit a new file has others leave, a few at a time: one creation costs little more than another.
    #[test]
    fn nobody_who_makes_a_file_looks_through_the_whole_table() {
        let work = || {
            let fs = volume("16M");
            let (root, limit) = (fs.root().unwrap(), fs.files.inodes.limit);
            let make = |n: usize| {
                let began = steadyfs_rt::now();
                let new = NewInode { mode: 0o100_644, ..NewInode::default() };
                drop(fs.create(&root, n.to_string().as_bytes(), &new).unwrap());
                began.elapsed()
            };
            let longest = (0..2 * limit).map(make).max().unwrap();
            let walk = limit as u32 * std::time::Duration::from_nanos(80);
            assert!(longest < walk / 4, "{longest:?} for one file, and a look at each inode takes {walk:?}");
            assert!(fs.files.inodes.unused() <= limit + limit / 4, "{} inodes of {limit}", fs.files.inodes.unused());
            drop(root);
            fs.unmount().unwrap();
        };
        run(SimConfig { cores: 2, ..SimConfig::default() }, work).unwrap();
    }

    /// Whoever keeps files without a name by their numbers pins no memory for them; they live until they are let go.
    #[test]
    fn files_without_a_name_leave_memory_and_live_while_they_are_held() {
        let fs = volume("4M");
        let (root, limit) = (fs.root().unwrap(), fs.vol.nodes.limit());
        let new = NewInode { mode: 0o100_644, ..NewInode::default() };
        let free = fs.statfs().files_free;
        let make = |n: usize| {
            let file = match n % 2 {
                0 => fs.tmpfile(&root, &new).unwrap(),
                _ => {
                    drop(fs.create(&root, b"file", &new).unwrap());
                    fs.unlink_held(&root, b"file").unwrap().expect("the only name")
                }
            };
            fs.write(&file, 0, &n.to_le_bytes()).unwrap();
            fs.hold(&file);
            if n.is_multiple_of(200) {
                fs.sync().unwrap();
            }
            file.ino()
        };
        let inos: Vec<_> = (0..4 * limit).map(make).collect();
        fs.sync().unwrap();
        fs.files.inodes.shrink(&fs.files.budget);
        fs.vol.nodes.shrink();
        assert!(fs.files.inodes.unused() <= limit && fs.vol.nodes.cached_count() <= limit + 64);
        fs.reap().unwrap();
        for (n, ino) in inos.iter().enumerate() {
            let file = fs.inode(*ino).unwrap();
            let mut bytes = [0; 8];
            assert_eq!(fs.read(&file, 0, &mut bytes).unwrap(), 8);
            assert_eq!((usize::from_le_bytes(bytes), fs.attr(&file).unwrap().nlink), (n, 0));
        }
        // One that never had a name may get one, and is like any other from then on.
        fs.link(&fs.inode(inos[0]).unwrap(), &root, b"named").unwrap();
        assert!(matches!(fs.link(&fs.inode(inos[1]).unwrap(), &root, b"no"), Err(Error::NotFound)));
        inos.iter().for_each(|ino| fs.release(*ino));
        fs.reap().unwrap();
        assert!(inos[1..].iter().all(|ino| matches!(fs.inode(*ino), Err(Error::NotFound))));
        assert_eq!((fs.statfs().files_free, fs.orphan_stats().listed), (free - 1, 0));
        fs.unlink(&root, b"named").unwrap();
        assert_eq!(fs.statfs().files_free, free);
        drop(root);
        fs.unmount().unwrap();
    }

    /// What is dirty cannot leave memory, and the housekeeper looks once in a second: whoever makes more waits.
    #[test]
    fn dirty_nodes_are_bounded_where_nobody_syncs() {
        let fs = volume("1M");
        let (root, limit) = (fs.root().unwrap(), fs.vol.nodes.limit());
        let mut most = 0;
        for n in 0..5 * limit {
            let new = NewInode { mode: 0o100_644, ..NewInode::default() };
            drop(fs.create(&root, n.to_string().as_bytes(), &new).unwrap());
            most = most.max(fs.vol.nodes.dirty_count());
        }
        assert!(most <= 2 * limit + 8, "{most} dirty nodes, and the cache holds {limit}");
        assert!(fs.checkpoint_stats().causes[Cause::Backlog.name()] >= 1);
        drop(root);
        fs.unmount().unwrap();
    }

    #[test]
    fn who_only_makes_files_keeps_to_the_limits_of_the_caches() {
        let fs = volume("4M");
        let (root, limit) = (fs.root().unwrap(), fs.vol.nodes.limit());
        let make = |n: usize| {
            let new = NewInode { mode: 0o100_644, ..NewInode::default() };
            drop(fs.create(&root, n.to_string().as_bytes(), &new).unwrap());
            if n.is_multiple_of(200) {
                fs.sync().unwrap();
            }
            (fs.vol.nodes.cached_count(), fs.files.inodes.unused())
        };
        let (nodes, inodes): (Vec<_>, Vec<_>) = (0..5 * limit).map(make).unzip();
        let slack = limit / 8 + 200;
        assert!(nodes.iter().all(|nodes| *nodes <= 2 * limit + slack), "{:?} nodes of {limit}", nodes.iter().max());
        assert!(inodes.iter().all(|inodes| *inodes <= limit + slack), "{:?} inodes of {limit}", inodes.iter().max());
        fs.sync().unwrap();
        fs.files.inodes.shrink(&fs.files.budget);
        fs.vol.nodes.shrink();
        assert!(fs.files.inodes.unused() <= limit && fs.vol.nodes.cached_count() <= limit + 64);
        drop(root);
        fs.unmount().unwrap();
    }
}
