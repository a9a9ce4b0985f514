//! Node blocks in memory: the cache, the lock of each node, and creating and freeing nodes.
//!
//! The bytes of a node block are the truth for everything in it: an inode's attributes, a direct node's addresses.
//! There is no second copy to keep in step; a thread that changes a node holds the checkpoint lock shared and the
//! node's write lock, so a checkpoint finds every node consistent.
//!
//! Kept true (format section 7):
//! - The NAT entry of a node changes only under the node's write lock.
//! - A dirty node is in the cache and known to [`Dirt`].
//! - A freed node is marked dead under its lock, and each thread that still holds it sees that.

use crate::error::{Error, Result};
use crate::locks;
use crate::volume::Volume;
use crate::volume::nodes::dirt::Dirt;
use crate::volume::nodes::disk_size::DiskSize;
use crate::volume::nodes::nat::NatInfo;
use crate::volume::second_chance::{LEAST, LOOKS, SHARDS, Seat, Seated, SecondChance, sweep};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use steadyfs_device::PageBuf;
use steadyfs_format::block::BlockView;
use steadyfs_format::node::{NodeBlock, NodeFooter, NodeOfs};
use steadyfs_format::{Block, Ino, Lba, Nid, ROOT_INO, Slot};
use steadyfs_rt::{Cost, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, SplitCount, charge};

/// Dirty nodes cannot leave memory. There may be this many times the clean ones that the cache holds: a few seconds'
/// work of one program, which the next checkpoint ends anyhow.
const MOST_DIRTY: usize = 2;
/// One of this many nodes that the cache holds may be read ahead at a time.
const AHEAD_SHARE: usize = 4;

type Shard = SecondChance<Nid, Node>;

/// A node block in memory.
pub(crate) struct Node {
    pub(crate) nid: Nid,
    body: RwLock<Body>,
    /// Of an inode: how much of its size the device may be told.
    pub(crate) disk_size: DiskSize,
    /// Used since the eviction hand last passed.
    used: AtomicBool,
    seat: Seat,
}

impl Seated for Node {
    fn seat(&self) -> &Seat {
        &self.seat
    }
}

struct Body {
    state: State,
    page: PageBuf,
    dirty: bool,
    /// Dirty with more than times: what `fdatasync` has to write.
    vital: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Loaded,
    /// Reading it failed; the next one who wants it tries again.
    Failed,
    /// The node was freed.
    Dead,
}

impl Body {
    fn load(&mut self, page: PageBuf) {
        (self.page, self.state) = (page, State::Loaded);
    }
}

/// The block that was read, if it is this node's.
fn checked(nid: Nid, info: &NatInfo, lba: Lba, mut page: PageBuf) -> Result<PageBuf> {
    let footer = NodeBlock::view(page.make_mut()).footer;
    if footer.nid() != nid || footer.ino() != info.ino {
        return Err(Error::corrupt(format!(
            "block {lba} should be node {nid} of inode {} but is node {} of inode {}",
            info.ino,
            footer.nid(),
            footer.ino()
        )));
    }
    // Who sees one half of this relies on the other: an inode is the node with its own number, at the root of the tree.
    if (footer.ofs() == NodeOfs::INODE) != (nid.as_ino() == info.ino) {
        let (ofs, ino) = (footer.ofs(), info.ino);
        return Err(Error::corrupt(format!("node {nid} of inode {ino} says that its place in the file is {ofs}")));
    }
    Ok(page)
}

impl Node {
    /// One that is still to be read.
    fn unread(nid: Nid) -> Arc<Self> {
        let body = Body { state: State::Failed, page: PageBuf::zeroed(), dirty: false, vital: false };
        Self::with_body(nid, body)
    }

    fn with_body(nid: Nid, body: Body) -> Arc<Self> {
        let (body, used) = (RwLock::new(&locks::NODE, body), AtomicBool::new(true));
        Arc::new(Node { nid, body, disk_size: DiskSize::new(), used, seat: Seat::default() })
    }

    /// Locks the node for reading.
    pub(crate) fn read(&self) -> NodeRead<'_> {
        self.used.store(true, SeqCst);
        NodeRead { body: self.body.read() }
    }

    /// Nobody will use it soon: it goes first.
    pub(crate) fn expect_no_use(&self) {
        self.used.store(false, SeqCst);
    }

    /// Locks the node for changing. The caller holds the checkpoint lock shared if it goes on to edit.
    pub(crate) fn write<'a>(self: &'a Arc<Self>, cache: &'a NodeCache) -> NodeWrite<'a> {
        self.used.store(true, SeqCst);
        NodeWrite { body: self.body.write(), node: self, cache }
    }
}

/// Shared access to a node's bytes.
pub(crate) struct NodeRead<'a> {
    body: RwLockReadGuard<'a, Body>,
}

impl NodeRead<'_> {
    /// The block.
    pub(crate) fn bytes(&self) -> &Block {
        self.body.bytes()
    }

    /// Whether the node was freed meanwhile.
    pub(crate) fn is_dead(&self) -> bool {
        self.body.state != State::Loaded
    }
}

/// Exclusive access to a node.
pub(crate) struct NodeWrite<'a> {
    body: RwLockWriteGuard<'a, Body>,
    node: &'a Arc<Node>,
    cache: &'a NodeCache,
}

impl NodeWrite<'_> {
    /// The block.
    pub(crate) fn bytes(&self) -> &Block {
        self.body.bytes()
    }

    /// The block, to be changed: the node becomes dirty.
    pub(crate) fn edit(&mut self) -> &mut Block {
        self.body.vital = true;
        self.edit_times()
    }

    /// The block, to be changed in nothing but times: the node becomes dirty, but `fdatasync` need not write it.
    pub(crate) fn edit_times(&mut self) -> &mut Block {
        assert!(self.body.state == State::Loaded, "a freed node is changed: {:?}", self.node.nid);
        if !self.body.dirty {
            self.body.dirty = true;
            self.cache.dirt.add(self.body.owner(), self.node);
        }
        self.body.page.make_mut()
    }

    /// Whether the node was freed meanwhile.
    pub(crate) fn is_dead(&self) -> bool {
        self.body.state != State::Loaded
    }

    /// Whether the node has changes that are not on the device.
    pub(crate) fn is_dirty(&self) -> bool {
        self.body.dirty
    }

    /// Whether there are changes beyond times.
    pub(crate) fn is_vital(&self) -> bool {
        self.body.vital
    }

    /// The node id.
    pub(crate) fn nid(&self) -> Nid {
        self.node.nid
    }

    /// Makes the node dirty without changing it, so that it is written to a new place (collection of node segments).
    pub(crate) fn touch(&mut self) {
        self.edit();
    }

    /// Takes the block for writing: the node is clean from here on.
    pub(crate) fn take_for_write(&mut self, prepare: impl FnOnce(&mut Block)) -> PageBuf {
        assert!(self.body.dirty && self.body.state == State::Loaded);
        prepare(self.body.page.make_mut());
        self.body.dirty = false;
        self.body.vital = false;
        self.cache.dirt.remove(self.body.owner(), self.node.nid);
        self.body.page.clone()
    }

    /// Notes what the image of an inode that was just taken says of its size: `Some` of one that is not the true one.
    pub(crate) fn note_told_size(&self, less: Option<u64>) {
        if less.is_some() || self.node.disk_size.was_cut() {
            self.node.disk_size.note_told(less);
            self.cache.dirt.note_cut(self.body.owner(), self.node, less.is_some());
        }
    }
}

impl Body {
    fn bytes(&self) -> &Block {
        // Loading and creating both go through `make_mut`, after which a page is plain bytes for good.
        self.page.bytes().expect("node pages hold plain bytes")
    }

    /// The inode that the node belongs to.
    fn owner(&self) -> Ino {
        NodeBlock::view(self.bytes()).footer.ino()
    }
}

/// The cached nodes of a volume.
pub(crate) struct NodeCache {
    shards: Box<[Mutex<Shard>]>,
    pub(crate) dirt: Dirt,
    cached: SplitCount,
    /// Most nodes to keep when they are clean.
    limit: usize,
}

impl NodeCache {
    /// A cache that keeps at most about `limit` clean nodes.
    pub(crate) fn new(limit: usize) -> Self {
        NodeCache {
            shards: (0..SHARDS).map(|_| Mutex::new(&locks::NODE_TABLE, Shard::default())).collect(),
            dirt: Dirt::new(),
            cached: SplitCount::for_limit(limit),
            limit: limit.max(LEAST),
        }
    }

    /// Nodes with changes that are not on the device.
    pub(crate) fn dirty_count(&self) -> usize {
        self.dirt.count()
    }

    /// No fewer than [`NodeCache::dirty_count`], for who asks often.
    pub(crate) fn dirty_at_most(&self) -> usize {
        self.dirt.at_most()
    }

    /// Whether too many are dirty for anybody to make more before they are written.
    pub(crate) fn has_too_many_dirty(&self) -> bool {
        let most = MOST_DIRTY * self.limit;
        self.dirty_at_most() > most && self.dirty_count() > most && !steadyfs_rt::mutated("dirty-nodes-are-bounded")
    }

    /// Nodes in memory.
    pub(crate) fn cached_count(&self) -> usize {
        self.cached.total() as usize
    }

    /// Most clean nodes to keep.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    fn shard(&self, nid: Nid) -> &Mutex<Shard> {
        &self.shards[nid.index() % SHARDS]
    }

    fn find(&self, nid: Nid) -> Option<Arc<Node>> {
        self.shard(nid).lock().get(nid).cloned()
    }

    /// Puts a node into the table; false if there is one with its number.
    fn insert(&self, node: &Arc<Node>) -> bool {
        let shard = self.shard(node.nid).lock();
        if shard.get(node.nid).is_some() {
            return false;
        }
        self.put(shard, node);
        true
    }

    /// Puts a node into its part, and drops others there that nobody holds, where there are too many.
    fn put(&self, mut shard: MutexGuard<'_, Shard>, node: &Arc<Node>) {
        let old = shard.insert(node.nid, Arc::clone(node));
        if old.is_none() {
            self.cached.add(1);
        }
        let too_many = self.cached.estimate() as usize > self.limit;
        let gone = if too_many { self.drop_some(&mut shard, LOOKS) } else { Vec::new() };
        // Their memory goes when others can have the part.
        drop(shard);
        drop((old, gone));
    }

    fn remove(&self, node: &Arc<Node>) {
        let mut shard = self.shard(node.nid).lock();
        if shard.get(node.nid).is_some_and(|n| Arc::ptr_eq(n, node)) {
            shard.remove(node.nid);
            self.cached.add(-1);
        }
    }

    /// Drops clean nodes that nobody holds until the cache is within its limit, giving recently used ones a second
    /// chance. For who has the time: it looks at each node twice, a few at a time.
    pub(crate) fn shrink(&self) {
        sweep(&self.shards, || self.cached_count() > self.limit, |shard, most| self.drop_some(shard, most));
    }

    /// The next few nodes of a part: clean ones that nobody holds, and nobody has used since the last look, leave.
    fn drop_some(&self, shard: &mut Shard, most: usize) -> Vec<Arc<Node>> {
        // Only the table holds a node whose count is one, and clones are made under this lock, so nobody can be using
        // it.
        let gone = shard.go_on(most, |node| {
            Arc::strong_count(node) > 1
                || node.used.swap(false, SeqCst)
                || node.body.try_read().is_none_or(|body| body.dirty)
        });
        self.cached.add(-(gone.len() as i64));
        gone
    }
}

impl Volume {
    /// The node with this id, from the cache or the device. Its footer is checked against the NAT.
    pub(crate) fn node(&self, nid: Nid) -> Result<Arc<Node>> {
        charge(Cost::NodeLookup);
        loop {
            if let Some(node) = self.nodes.find(nid) {
                let state = node.read().body.state;
                match state {
                    State::Loaded => return Ok(node),
                    State::Dead => return Err(Error::NotFound),
                    State::Failed => self.nodes.remove(&node),
                }
            }
            if let Some(node) = self.load_node(nid)? {
                return Ok(node);
            }
        }
    }

    /// Reads those of these nodes into the cache that are not there, at the same time. What cannot be read is left to
    /// who needs it.
    ///
    /// As for one alone, who wants a node meanwhile waits at its lock, so nobody gives it another place between the
    /// look at the NAT and the end of the read.
    pub(crate) fn read_nodes_ahead(&self, nids: impl Iterator<Item = Nid>) {
        let absent = nids.filter(|nid| self.nodes.find(*nid).is_none());
        // More would drive each other out of the cache before they are used.
        let nodes: Vec<Arc<Node>> = absent.take(self.nodes.limit() / AHEAD_SHARE).map(Node::unread).collect();
        if nodes.len() < 2 {
            return;
        }
        // Locked before others can find them, so this waits for no node.
        let locked = nodes.iter().map(|node| (node, node.body.write()));
        let inserted: Vec<_> = locked.filter(|(node, _)| self.nodes.insert(node)).collect();
        let mut placed = Vec::with_capacity(inserted.len());
        for (node, body) in inserted {
            match self.place_of(node.nid) {
                Ok((info, lba)) => placed.push((lba, info, node, body)),
                Err(_) => self.nodes.remove(node),
            }
        }
        placed.sort_unstable_by_key(|(lba, ..)| *lba);
        let runs: Vec<(Lba, u32)> =
            placed.chunk_by(|a, b| a.0 + 1 == b.0).map(|run| (run[0].0, run.len() as u32)).collect();
        let mut placed = placed.into_iter();
        for ((_, count), pages) in runs.iter().zip(self.io.read_runs(&runs)) {
            let mut pages = pages.into_iter().flatten();
            for (lba, info, node, mut body) in placed.by_ref().take(*count as usize) {
                match pages.next().map(|page| self.checked(node.nid, &info, lba, page)) {
                    Some(Ok(page)) => body.load(page),
                    Some(Err(_)) | None => self.nodes.remove(node),
                }
            }
        }
    }

    /// Reads a node into the cache; `None` if another thread was first.
    fn load_node(&self, nid: Nid) -> Result<Option<Arc<Node>>> {
        let node = Node::unread(nid);
        // A thread that finds the node in the table waits at its lock until it is loaded.
        let mut body = node.body.write();
        if !self.nodes.insert(&node) {
            return Ok(None);
        }
        match self.read_node_block(nid) {
            Ok(page) => {
                body.load(page);
                drop(body);
                Ok(Some(node))
            }
            Err(e) => {
                self.nodes.remove(&node);
                Err(e)
            }
        }
    }

    fn read_node_block(&self, nid: Nid) -> Result<PageBuf> {
        let (info, lba) = self.place_of(nid)?;
        self.checked(nid, &info, lba, self.io.read_block(lba)?)
    }

    fn checked(&self, nid: Nid, info: &NatInfo, lba: Lba, page: PageBuf) -> Result<PageBuf> {
        self.placement.verify_node(&page, lba)?;
        checked(nid, info, lba, page)
    }

    /// Where a node is.
    pub(crate) fn place_of(&self, nid: Nid) -> Result<(NatInfo, Lba)> {
        let info = self.nat.get(&self.io, nid)?;
        let Slot::At(lba) = info.addr else {
            return Err(Error::NotFound);
        };
        if !self.placement.is_address(lba) {
            return Err(Error::corrupt(format!("the NAT puts node {nid} at block {lba}, outside the main area")));
        }
        Ok((info, lba))
    }

    /// Creates a node of `ino` at node offset `ofs`; its block is zero but for the footer. `cold` is the mark that
    /// every node of a non-directory carries.
    pub(crate) fn new_node(&self, ino: Ino, ofs: NodeOfs, cold: bool) -> Result<Arc<Node>> {
        self.space.reserve_node(false)?;
        let nid = self.take_nid(false)?;
        self.insert_new_node(nid, ino, ofs, cold)
    }

    /// Creates the node of a new inode.
    pub(crate) fn new_inode_node(&self, cold: bool) -> Result<Arc<Node>> {
        self.space.reserve_node(true)?;
        let nid = self.take_nid(true)?;
        self.insert_new_node(nid, nid.as_ino(), NodeOfs::INODE, cold)
    }

    /// Creates the node of an inode that has this number (roll-forward recovery).
    ///
    /// # Errors
    /// Damage, if the number is in use or cannot be an inode's.
    pub(crate) fn new_inode_node_at(&self, ino: Ino, cold: bool) -> Result<Arc<Node>> {
        let nid = ino.nid();
        let taken = ino > ROOT_INO && self.nat.get(&self.io, nid)?.addr == Slot::Hole && self.nids.take_this(nid);
        if !taken {
            return Err(Error::corrupt(format!("no inode can have the number {ino}")));
        }
        self.space.reserve_node(true)?;
        self.insert_new_node(nid, ino, NodeOfs::INODE, cold)
    }

    fn take_nid(&self, inode: bool) -> Result<Nid> {
        self.nids.take(&self.nat, &self.io).inspect_err(|_| self.space.release_node(inode))
    }

    fn insert_new_node(&self, nid: Nid, ino: Ino, ofs: NodeOfs, cold: bool) -> Result<Arc<Node>> {
        let assigned = self.nat.assign(&self.io, nid, ino);
        if let Err(e) = assigned {
            self.nids.put_back(nid);
            self.space.release_node(nid.as_ino() == ino);
            return Err(e);
        }
        charge(Cost::PageZero);
        let mut page = PageBuf::zeroed();
        NodeBlock::view_mut(page.make_mut()).footer = NodeFooter::new(nid, ino, ofs, cold);
        let body = Body { state: State::Loaded, page, dirty: true, vital: true };
        let node = Node::with_body(nid, body);
        // A thread that followed a stray link to the free id may be looking for it at this moment. It holds a node that
        // is not loaded, and finds no address in the NAT. It takes back only what it put into the table itself.
        self.nodes.put(self.nodes.shard(nid).lock(), &node);
        if nid.as_ino() == ino {
            self.nodes.dirt.note_birth(ino);
        }
        self.nodes.dirt.add(ino, &node);
        Ok(node)
    }

    /// Frees a node: its id, its block and its space. The checkpoint lock is held shared.
    pub(crate) fn free_node(&self, mut node: NodeWrite<'_>) -> Result<()> {
        assert!(!node.is_dead(), "{:?} freed twice", node.nid());
        let inode = NodeBlock::view(node.bytes()).footer.ofs() == NodeOfs::INODE;
        let old = self.nat.free(&self.io, node.nid(), || self.nids.hold(node.nid()))?;
        self.invalidate(old)?;
        if let Slot::At(_) = old {
            self.nodes.dirt.note_reduction(node.body.owner());
        }
        node.note_told_size(None);
        node.body.state = State::Dead;
        if std::mem::take(&mut node.body.dirty) {
            self.nodes.dirt.remove(node.body.owner(), node.nid());
        }
        self.nodes.remove(node.node);
        self.space.release_node(inode);
        Ok(())
    }
}
