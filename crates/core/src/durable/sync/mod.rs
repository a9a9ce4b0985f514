//! fsync: making one file durable without a checkpoint (format section 12).
//!
//! The file's data is written first. Then its dirty direct nodes, xattr node and inode take places in the warm-node
//! log, which from the last checkpoint on is the chain that recovery follows. Only the last of them carries the fsync
//! mark, and it is submitted only when everything before it is durable; a crash at any moment thus leaves the file as
//! it was, or as it is now. On a volume with inode checksums the last one is always the inode, so that even a block
//! torn in the middle is recognised.
//!
//! Kept true: no node is written between a checkpoint's freeze and its commit; an fsync that finds one there waits for
//! it, and is done if the freeze came after its data. What recovery could not repeat makes a checkpoint instead:
//! [`route`] decides.

mod contents;
pub(crate) mod counters;
mod route;
mod timed;
mod together;
mod unsynced;

pub use counters::{Reason, SyncStats};

use crate::canary::Canary;
use crate::counters::Cause;
use crate::durable::Durable;
use crate::durable::journal::push::Pushed;
use crate::error::Result;
use crate::files::errseq::ErrorCursor;
use crate::files::file::{ALL_PAGES, Trigger};
use crate::files::inode::{Inode, InodeRef};
use crate::files::orphans::Orphan;
use crate::gate::Want;
use crate::options::FsyncMode;
use crate::volume::Change;
use crate::volume::io::{AllDurable, ChainTicket, Cut};
use crate::volume::nodes::cache::Node;
use crate::volume::nodes::dirt::{Marks, Standing};
use crate::volume::nodes::disk_size::UNLIMITED;
use crate::volume::nodes::write::{Batch, Placed};
use contents::ContentsOnDevice;
use route::Route;
use std::sync::Arc;
use steadyfs_format::Features;
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::Inode as RawInode;
use steadyfs_format::node::{NodeBlock, NodeKind, NodeOfs};
use together::Owed;

/// Fsyncs at a time that share flushes rather than write more.
const CROWD: usize = 16;

/// What an attempt to make a file durable came to.
enum Attempt<'v> {
    /// Nodes have taken their places; [`Durable::finish_chain`] does the rest.
    Placed(Box<Chained<'v>>),
    /// A checkpoint has committed that holds everything.
    Covered,
    /// A checkpoint is between freeze and commit.
    Wait,
    /// Only a checkpoint helps.
    Checkpoint(Reason),
    /// The file has no name by which anybody could find it after a crash.
    Nameless,
}

/// How a file is to be made durable: decided before its nodes have places.
struct Plan<'v> {
    /// How often the chain had broken before.
    breaks: u64,
    /// The route, which is not [`Route::Checkpoint`].
    route: Route,
    /// Contents that are owed to the device.
    owed: Owed<'v>,
    /// What the batch is to name, if there is one.
    contents: Option<ContentsOnDevice>,
}

/// Nodes on their way into the chain.
struct Chained<'v> {
    ticket: Arc<ChainTicket>,
    /// Nodes that are owed to the device.
    below: Batch<'v>,
    /// Contents that are owed, too.
    owed: Owed<'v>,
    /// The marked node, if there was anything to write.
    last: Option<Marked>,
    /// How often the chain had broken before the places were taken.
    breaks: u64,
    /// The route, which is not [`Route::Checkpoint`].
    route: Route,
}

/// The node with the mark.
struct Marked {
    placed: Placed,
    /// The cut from before the node got its place. Writes that it relies on were submitted earlier. Where a log is
    /// written in order, later ones may have to wait for it.
    before: Cut,
    /// The batch before it names all contents that it relies on.
    is_checked: bool,
}

impl Durable {
    /// See `Fs::fsync`.
    pub(crate) fn fsync(&self, file: &InodeRef, datasync: bool) -> Result<()> {
        self.fsync_open(file, datasync, &file.seen)
    }

    /// See `Fs::fsync_open`.
    pub(crate) fn fsync_open(&self, file: &InodeRef, datasync: bool, cursor: &ErrorCursor) -> Result<()> {
        if self.vol.read_only {
            return Ok(());
        }
        self.vol.check_running()?;
        let inode = &file.inode;
        let _syncing = self.files.journal.begin_sync();
        let overwrites = inode.overwrites.count();
        if let Some(end) = self.sync_together(inode, datasync) {
            let told = inode.write_errors.tell(cursor);
            end.and(told)?;
            inode.overwrites.synced(overwrites);
            return Ok(());
        }
        let written = self.files.writeback_for(inode, ALL_PAGES, Trigger::Sync { data_only: datasync });
        // Told even if there is more to say, so that the next call says only what is new.
        let told = inode.write_errors.tell(cursor);
        written.and(told)?;
        let (seen, _) = self.files.gate.progress();
        if self.make_durable(inode, datasync, seen)? {
            inode.overwrites.synced(overwrites);
        }
        Ok(())
    }

    /// Makes a file durable that has been written back; false if nobody could find it after a crash anyway. `seen` is
    /// the number of freezes when its data had been written.
    fn make_durable(&self, inode: &Arc<Inode>, datasync: bool, seen: u64) -> Result<bool> {
        loop {
            match self.attempt_fsync(inode, datasync, seen)? {
                Attempt::Placed(chained) => return self.finish(*chained).map(|()| true),
                Attempt::Covered => {
                    self.syncs.note_covered();
                    return Ok(true);
                }
                Attempt::Nameless => return Ok(false),
                // After one that failed, or an fsync that did, only another can help.
                Attempt::Wait if !self.checkpoints.wait() => return self.checkpoint(Cause::Fsync).map(|()| true),
                Attempt::Wait => {}
                Attempt::Checkpoint(reason) => {
                    self.syncs.note_checkpoint(reason);
                    return self.checkpoint(Cause::Fsync).map(|()| true);
                }
            }
        }
    }

    /// Makes nodes that have taken their places for an fsync durable, by a checkpoint if the chain does not help any
    /// more.
    fn finish(&self, chained: Chained<'_>) -> Result<()> {
        let route = chained.route;
        if self.end_chain(chained, Cause::Fsync)? {
            match route {
                Route::Journal(reason) => self.syncs.note_journaled(reason),
                Route::Chain | Route::Checkpoint(_) => self.syncs.note_chained(),
            }
        }
        Ok(())
    }

    /// See `Fs::sync_stats`.
    pub(crate) fn sync_stats(&self) -> SyncStats {
        self.syncs.read()
    }

    /// Begins to make the file durable by its [`Route`], if none of the other ends of an attempt comes first. `seen` is
    /// the number of freezes when its data had been written.
    fn attempt_fsync(&self, inode: &Arc<Inode>, datasync: bool, seen: u64) -> Result<Attempt<'_>> {
        // Nodes of one file go together: nobody changes size, map or names meanwhile.
        let _file = inode.rwsem.read();
        let change = self.files.gate.begin(Want::default())?;
        // Before the progress, see there.
        let breaks = self.checkpoints.breaks();
        match self.files.gate.progress() {
            (frozen, done) if frozen != done && self.vol.io.planted.is(Canary::AbsorbEarly) => {
                return Ok(Attempt::Covered);
            }
            (frozen, done) if frozen != done => {
                assert!(done < frozen, "checkpoint {done} committed, and only {frozen} froze");
                return Ok(Attempt::Wait);
            }
            (_, done) if done > seen => return Ok(Attempt::Covered),
            _ => {}
        }
        if inode.read(RawInode::links)? == 0 && !self.may_be_found(inode) {
            return Ok(Attempt::Nameless);
        }
        let route = self.fsync_route(inode)?;
        if let Route::Checkpoint(reason) = route {
            return Ok(Attempt::Checkpoint(reason));
        }
        let owed = Owed::none(&self.vol);
        let contents = self.checked_contents(inode, datasync, route, &owed)?;
        Ok(match self.place_chain(&change, inode, datasync, Plan { breaks, route, owed, contents })? {
            Some(chained) => Attempt::Placed(Box::new(chained)),
            None => Attempt::Checkpoint(Reason::Journal),
        })
    }

    /// Whether somebody may find a file without a name after a crash. The checkpoint lock is held shared, and no
    /// checkpoint is on its way.
    fn may_be_found(&self, inode: &Inode) -> bool {
        if self.vol.io.planted.is(Canary::NamelessSkip) {
            return false;
        }
        // With a journal a name may come later, and be durable without a checkpoint: then the contents have to be.
        let may_be_named = self.files.journal.is_on()
            && !steadyfs_rt::mutated("nameless-files-may-get-a-name")
            && self.files.orphans.get(inode.ino) == Some(Orphan::Unnamed);
        // A crash may bring the last name back, and with it older contents, unless its removal is durable, too.
        let (_, done) = self.files.gate.progress();
        let Standing { born, introduced, .. } = self.vol.nodes.dirt.standing(inode.ino);
        let is_known = !born || introduced || self.files.journal.is_on();
        may_be_named || is_known && inode.had_name_at(done)
    }

    /// What recovery needs to check the contents of a file that takes this route, if that spares a flush.
    fn checked_contents(
        &self,
        inode: &Arc<Inode>,
        datasync: bool,
        route: Route,
        owed: &Owed<'_>,
    ) -> Result<Option<ContentsOnDevice>> {
        // A batch for the contents alone costs a block. Where many share each flush, a flush costs less.
        let is_dear = !self.files.journal.has_some() && self.files.journal.syncs() > CROWD;
        if is_dear || !matches!(route, Route::Journal(_)) || !self.inode_goes_along(inode, datasync) {
            return Ok(None);
        }
        self.contents_on_device(inode, owed)
    }

    /// Gives what the journal has noted, if there is one, and then the file's dirty nodes their places, the last one
    /// with the mark. `None` if the journal says that only a checkpoint helps.
    fn place_chain<'v>(
        &'v self,
        change: &Change<'_>,
        inode: &Arc<Inode>,
        datasync: bool,
        plan: Plan<'v>,
    ) -> Result<Option<Chained<'v>>> {
        let Plan { breaks, route, owed, contents } = plan;
        assert!(!matches!(route, Route::Checkpoint(_)), "nodes get places for an fsync that only a checkpoint helps");
        let ticket = self.vol.io.enter_chain();
        let mut batch = Batch::new(&self.vol, Arc::clone(&ticket));
        if matches!(route, Route::Journal(_)) {
            let sums = contents.as_ref().map_or(&[][..], |contents| &contents.sums);
            if self.push_journal(change, sums, &mut batch)? == Pushed::Not {
                batch.submit();
                return Ok(None);
            }
        }
        // Of a file that is gone the journal says so, and its contents do not matter.
        if inode.kind != FileType::Regular || inode.had_name_at(self.files.gate.progress().1) {
            return Ok(Some(Chained { ticket, below: batch, owed, last: None, breaks, route }));
        }
        let last = self.place_nodes(change, inode, datasync, contents.as_ref(), &mut batch);
        match last {
            Ok(last) => Ok(Some(Chained { ticket, below: batch, owed, last, breaks, route })),
            Err(error) => {
                batch.submit();
                Err(error)
            }
        }
    }

    fn place_nodes(
        &self,
        change: &Change<'_>,
        inode: &Arc<Inode>,
        datasync: bool,
        contents: Option<&ContentsOnDevice>,
        batch: &mut Batch<'_>,
    ) -> Result<Option<Marked>> {
        let checksums = self.vol.sb.features().contains(Features::INODE_CHECKSUM);
        // Contents that are placed from here on may be in nodes that are written here or not, so the inode must not
        // cover them.
        let end = inode.node.disk_size.limit();
        let nodes = self.vol.nodes.dirt.of(inode.ino);
        let mut below: Vec<&Arc<Node>> = nodes.iter().filter(|node| is_chained(node)).collect();
        let sealed = checksums && !below.is_empty();
        let whole = sealed || end != UNLIMITED || self.inode_goes_along(inode, datasync);
        // Without the inode the last of the others carries the mark.
        let marked = if whole { None } else { below.pop() };
        let contents = contents.filter(|_| below.is_empty() && marked.is_none());
        for node in below {
            if let Some(Marked { placed, .. }) = self.place_dirty(change, node, Marks::default())? {
                batch.push(placed);
            }
        }
        if let Some(node) = marked
            && let Some(marked) = self.place_dirty(change, node, Marks { fsync: true, dentry: false })?
        {
            return Ok(Some(marked));
        }
        // A checkpoint may have written some of the nodes meanwhile; they lie in the chain without a mark behind them.
        let standing = self.vol.nodes.dirt.standing(inode.ino);
        let contents = contents.filter(|_| !standing.unmarked || steadyfs_rt::mutated("unmarked-nodes-are-flushed"));
        if whole || standing.unmarked {
            self.place_inode(change, inode, standing, end, contents).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Whether the inode has to be in the chain for its own sake.
    fn inode_goes_along(&self, inode: &Inode, datasync: bool) -> bool {
        let Standing { born, introduced, .. } = self.vol.nodes.dirt.standing(inode.ino);
        let guard = inode.node.write(&self.vol.nodes);
        let changed = guard.is_dirty() && (guard.is_vital() || !datasync) || inode.node.disk_size.is_behind();
        changed || (born && !introduced && !self.files.journal.is_on())
    }

    fn place_dirty(&self, change: &Change<'_>, node: &Arc<Node>, marks: Marks) -> Result<Option<Marked>> {
        let mut guard = node.write(&self.vol.nodes);
        if guard.is_dead() || !guard.is_dirty() {
            return Ok(None);
        }
        let before = self.vol.io.cut();
        let placed = self.vol.place_node(change, node, &mut guard, self.checkpoints.stamp(), marks, UNLIMITED)?;
        Ok(Some(Marked { placed, before, is_checked: false }))
    }

    /// Gives the inode block its marked place, dirty or not, with a size of at most `end`. The batch before it names
    /// these contents.
    fn place_inode(
        &self,
        change: &Change<'_>,
        inode: &Inode,
        standing: Standing,
        end: u64,
        contents: Option<&ContentsOnDevice>,
    ) -> Result<Marked> {
        let mut guard = inode.node.write(&self.vol.nodes);
        if guard.is_dead() {
            return Err(crate::error::Error::NotFound);
        }
        assert!(standing.born || !standing.introduced, "the name of an old inode {} is in the chain", inode.ino);
        guard.touch();
        let is_checked = match contents {
            Some(contents) => {
                self.vol.points_at(guard.bytes(), contents)? || steadyfs_rt::mutated("inode-points-at-what-was-named")
            }
            None => false,
        };
        // The journal has its name.
        let marks = Marks { fsync: true, dentry: standing.born && !self.files.journal.is_on() };
        let before = self.vol.io.cut();
        let placed = self.vol.place_node(change, &inode.node, &mut guard, self.checkpoints.stamp(), marks, end)?;
        inode.note_chained();
        Ok(Marked { placed, before, is_checked })
    }

    /// Finishes what has its places, or makes a checkpoint for this cause if the chain broke meanwhile; whether it was
    /// the chain.
    fn end_chain(&self, chained: Chained<'_>, cause: Cause) -> Result<bool> {
        // A failure leaves a gap in the chain, or something that may not be on the device: nothing can build on it.
        let whole = self.finish_chain(chained).inspect_err(|e| {
            self.checkpoints.break_chain();
            self.vol.checkpoint_failed(e);
        })?;
        if !whole {
            self.checkpoint(cause)?;
        }
        Ok(whole)
    }

    /// Writes the nodes and makes durable what the marked one relies on, then that node, then the chain up to it. If
    /// recovery can check what that node relies on, it goes with the others. Where nothing else is left to flush, the
    /// last write is durable by itself. This thread waits for all of it, so it writes too: to wake another and to be
    /// woken takes longer than most writes.
    ///
    /// False if the chain broke meanwhile, by another fsync that failed or a checkpoint that gave refused blocks up:
    /// then only a checkpoint helps.
    fn finish_chain(&self, chained: Chained<'_>) -> Result<bool> {
        let io = &self.vol.io;
        let Chained { ticket, mut below, owed, mut last, breaks, route } = chained;
        let whole = || self.checkpoints.breaks() == breaks;
        if let Some(checked) = last.take_if(|last| last.is_checked && whole()) {
            below.push(checked.placed);
        }
        let early = matches!(route, Route::Journal(_)) && io.planted.is(Canary::EarlyAck);
        let alone = || self.alone(&ticket).filter(|_| !early);
        let durably = if last.is_none() { alone() } else { None };
        let mut is_durable = durably.is_some();
        is_durable &= below.write_with(owed.take(), durably);
        let mut before = Ok(());
        if let Some(Marked { placed: last, before: earlier, .. }) = last {
            // Everything that the nodes point at was submitted before they got their places, whichever thread wrote it.
            let flush = || if steadyfs_rt::mutated("mark-comes-behind-a-flush") { Ok(()) } else { self.chain_flush() };
            before = io.drain_to(earlier).and_then(|()| flush());
            // After a failure too, for the node has its place; but then recovery must not go by it.
            let counts = before.is_ok() && whole();
            let last = if counts {
                last
            } else {
                // Before the ticket is gone: others who wait for it build on this place.
                if !steadyfs_rt::mutated("refused-mark-breaks-the-chain-first") {
                    self.checkpoints.break_chain();
                }
                self.vol.without_mark(last)
            };
            let mut batch = Batch::new(&self.vol, Arc::clone(&ticket));
            batch.push(last);
            is_durable = match alone().filter(|_| counts) {
                Some(alone) => batch.write_with(Vec::new(), Some(alone)),
                None => {
                    batch.submit_and_help();
                    false
                }
            };
        }
        drop(ticket);
        if is_durable {
            assert!(!early && before.is_ok(), "what the last write relies on is not durable, and nobody flushes");
            return Ok(whole());
        }
        if !steadyfs_rt::mutated("fsync-waits-for-the-chain") {
            io.wait_chain()?;
        }
        before?;
        if !whole() && !steadyfs_rt::mutated("broken-chain-is-no-fsync") {
            return Ok(false);
        }
        if early || steadyfs_rt::mutated("fsync-ends-with-a-flush") {
            Ok(true)
        } else {
            self.chain_flush().map(|()| true)
        }
    }

    /// See [`BlockIo::alone`](crate::volume::io::BlockIo::alone).
    fn alone(&self, ticket: &ChainTicket) -> Option<AllDurable> {
        if self.files.options.fsync_mode == FsyncMode::NoBarrier { None } else { self.vol.io.alone(ticket) }
    }

    fn chain_flush(&self) -> Result<()> {
        if self.files.options.fsync_mode == FsyncMode::NoBarrier { Ok(()) } else { self.vol.io.flush() }
    }
}

/// Whether fsync writes this node: direct nodes and xattr nodes; indirect ones are rebuilt by recovery, and the inode
/// comes last.
fn is_chained(node: &Arc<Node>) -> bool {
    let guard = node.read();
    let ofs = NodeBlock::view(guard.bytes()).footer.ofs();
    ofs != NodeOfs::INODE && !matches!(ofs.kind(), NodeKind::Indirect | NodeKind::DoubleIndirect)
}
