//! [`AdversaryDevice`]: a device without time that moves pages as inconveniently as it may.
//!
//! A seed decides which page moves at which moment, how late upcalls come and how long they are. It moves what was
//! written last, and what has moved last, more often than the rest: the block that a roll-forward chain starts with,
//! and chains of records, are such pages. What the host does wrong ends in a panic that names the broken promise; what
//! it reads from an address that leads nowhere are bytes that nobody wrote.
//!
//! Contents lie in the device inside, at the address that a page has now; a copy is a write with `fua` there. So the
//! log of the device inside ([`AdversaryDevice::recorder`]) and `CrashImage` tell what a power cut leaves of the
//! contents, and the steps of the ledger, each with its tick, what the device remembers then.
//!
//! Kept true: a page whose write has not ended does not move; a zone of the GC area is not bound again while a read of
//! it is under way. No lock is held while the device inside works.

use super::ledger::{Broken, Ledger, Step};
use super::{MigrationGeometry, Migrations, Move, Sort, UPCALL_RECORDS, Upcall};
use crate::{
    BLOCK_SIZE, Device, DeviceInfo, IoError, IoResult, Op, PageBuf, RecordingDevice, Request, StreamHint, errno,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_rt::{Condvar, LockClass, Mutex};

/// Held to look up addresses and to take a step, under whatever locks the submitter holds.
static STATE: LockClass = LockClass::new("device.migrations", u16::MAX - 5);

/// Held to hand in a part of a read.
static GATHER: LockClass = LockClass::new("device.gather", u16::MAX - 5);

/// After so long an idle device delivers what waits.
const DEADLINE: Duration = Duration::from_millis(50);

/// Free zones of the GC area below which those are emptied that hold least.
const SCARCE: u64 = 2;

/// A byte that neither a structure nor a test's contents are full of: what an address reads as that leads nowhere.
const NOWHERE: u8 = 0xDA;

/// How inconvenient a device is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adversary {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// Pages that move for 1000 blocks that the host writes to the regular area. Below 1000 a host that writes a block
    /// for each record comes to an end.
    pub moves: u64,
    /// After one batch of requests in this many, waiting records are delivered at once.
    pub late: u64,
    /// Most records of an upcall, at most [`UPCALL_RECORDS`].
    pub records: usize,
    /// Most outstanding records.
    pub bound: usize,
}

impl Adversary {
    /// Moves half as much as the host writes, in short upcalls that come late.
    pub fn new(seed: u64) -> Self {
        Adversary { seed, moves: 500, late: 4, records: 7, bound: 4096 }
    }
}

/// The device. See the head of the module.
pub struct AdversaryDevice<D> {
    shared: Arc<Shared<D>>,
}

struct Shared<D> {
    inner: RecordingDevice<D>,
    rules: Adversary,
    geometry: MigrationGeometry,
    /// What the device remembered when `steps` were none.
    base: Ledger,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    ledger: Ledger,
    /// Each with the tick of the recorder at which it was taken.
    steps: Vec<(u64, Step)>,
    random: u64,
    /// Thousandths of pages that are to move.
    debt: u64,
    /// How many waiting records may be delivered.
    due: usize,
    closed: bool,
    /// Blocks that the host is writing.
    writing: BTreeSet<u64>,
    /// Pages that are being copied, and whether their copies still count.
    copying: BTreeMap<u64, bool>,
    /// Where these copies go.
    landing: BTreeSet<u64>,
    /// Reads under way, by zone.
    reads: BTreeMap<u64, u64>,
    /// The page written last, and the address that the last move led to.
    newest: [Option<u64>; 2],
    /// Next block of the GC zone that is open for data, and of that for nodes.
    next: [Option<u64>; 2],
    /// Zones to be emptied.
    pressed: Vec<u64>,
}

impl State {
    fn chance(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.chance() % bound.max(1)
    }
}

fn breach(broken: &Broken) -> ! {
    panic!("the host broke its promises to a device that moves pages: {broken}")
}

impl<D: Device + 'static> AdversaryDevice<D> {
    /// A device that holds nothing, with its contents on `inner`.
    ///
    /// # Panics
    /// If the geometry is not one, or is larger than `inner`.
    pub fn new(inner: D, geometry: MigrationGeometry, rules: Adversary) -> Self {
        assert_eq!(geometry.fault(), None);
        Self::remembering(inner, Ledger::new(geometry), rules)
    }

    fn remembering(inner: D, ledger: Ledger, rules: Adversary) -> Self {
        let geometry = ledger.geometry().clone();
        assert!(geometry.gc.end <= inner.info().blocks, "the device inside is too small");
        assert!((1..=UPCALL_RECORDS).contains(&rules.records), "an upcall of {} records", rules.records);
        let state = State {
            ledger: ledger.clone(),
            steps: Vec::new(),
            random: rules.seed,
            debt: 0,
            due: 0,
            closed: false,
            writing: BTreeSet::new(),
            copying: BTreeMap::new(),
            landing: BTreeSet::new(),
            reads: BTreeMap::new(),
            newest: [None; 2],
            next: [None; 2],
            pressed: Vec::new(),
        };
        let shared = Shared {
            inner: RecordingDevice::new(inner),
            rules,
            geometry,
            base: ledger,
            state: Mutex::new(&STATE, state),
            changed: Condvar::new(),
        };
        AdversaryDevice { shared: Arc::new(shared) }
    }

    /// What changed the contents, for `CrashImage`.
    pub fn recorder(&self) -> &RecordingDevice<D> {
        &self.shared.inner
    }

    /// The device after a power cut at `tick` of the recorder. `image` holds the contents then.
    pub fn after_cut<E: Device + 'static>(&self, tick: u64, image: E, rules: Adversary) -> AdversaryDevice<E> {
        let mut ledger = self.shared.base.clone();
        let state = self.shared.state.lock();
        for (_, step) in state.steps.iter().filter(|(at, _)| *at <= tick) {
            if let Err(broken) = ledger.take(*step) {
                breach(&broken);
            }
        }
        drop(state);
        AdversaryDevice::remembering(image, ledger.cut(), rules)
    }

    /// Addresses of the regular and the GC area that hold a page, ascending.
    pub fn held(&self) -> Vec<u64> {
        self.shared.state.lock().ledger.live().iter().copied().collect()
    }

    /// Records that are not completed.
    pub fn outstanding(&self) -> usize {
        self.shared.state.lock().ledger.outstanding()
    }

    /// The next upcall, if one is there now.
    pub fn try_next(&self) -> Option<Upcall> {
        self.shared.upcall(&mut self.shared.state.lock())
    }
}

/// Where a part of a read comes from.
#[derive(Clone, Copy)]
enum Piece {
    At(u64, u64),
    Nowhere(u64),
}

/// Parts of a read that come one by one.
struct Gather {
    parts: Vec<Option<Vec<PageBuf>>>,
    failed: Option<IoError>,
    left: usize,
    done: Option<crate::Done>,
}

impl<D: Device + 'static> Shared<D> {
    /// Takes a step. Ticks ascend with the steps, for the lock is held.
    fn take(&self, state: &mut State, step: Step) {
        if let Err(broken) = state.ledger.take(step) {
            breach(&broken);
        }
        state.steps.push((self.inner.tick(), step));
    }

    fn read(self: &Arc<Self>, block: u64, count: u64, done: crate::Done, passed: &mut Vec<Request>) {
        let pieces = self.pieces(block, count);
        let mut parts = Vec::with_capacity(pieces.len());
        let mut asked = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            match *piece {
                Piece::Nowhere(count) => {
                    parts.push(Some(vec![PageBuf::from_slice(&[NOWHERE; BLOCK_SIZE]); count as usize]));
                }
                Piece::At(block, count) => {
                    parts.push(None);
                    asked.push((number, block, count));
                }
            }
        }
        let gather = Gather { parts, failed: None, left: asked.len(), done: Some(done) };
        if asked.is_empty() {
            return gather.end();
        }
        let gather = Arc::new(Mutex::new(&GATHER, gather));
        for (number, block, count) in asked {
            let (gather, shared) = (Arc::clone(&gather), Arc::clone(self));
            passed.push(Request::new(Op::Read { block, count }, move |result| {
                shared.read_ended(block, count);
                let mut all = gather.lock();
                match result {
                    Ok(pages) => all.parts[number] = Some(pages),
                    Err(error) => all.failed = Some(error),
                }
                all.left -= 1;
                let over = (all.left == 0).then(|| all.over());
                drop(all);
                if let Some(over) = over {
                    over.end();
                }
            }));
        }
    }

    /// Where the pages of a range are now, neighbours together.
    fn pieces(&self, block: u64, count: u64) -> Vec<Piece> {
        let mut state = self.state.lock();
        let mut pieces: Vec<Piece> = Vec::new();
        for block in block..block + count {
            let at = match self.geometry.is_mapped(block) {
                true => state.ledger.resolve(block),
                false => Some(block),
            };
            if let Some(at) = at {
                *state.reads.entry(self.geometry.zone_of(at)).or_default() += 1;
            }
            match (pieces.last_mut(), at) {
                (Some(Piece::At(first, count)), Some(at)) if *first + *count == at => *count += 1,
                (Some(Piece::Nowhere(count)), None) => *count += 1,
                (_, Some(at)) => pieces.push(Piece::At(at, 1)),
                (_, None) => pieces.push(Piece::Nowhere(1)),
            }
        }
        pieces
    }

    fn read_ended(&self, block: u64, count: u64) {
        let mut state = self.state.lock();
        for block in block..block + count {
            let zone = self.geometry.zone_of(block);
            let under_way = state.reads.get_mut(&zone).expect("a read that ends has begun");
            *under_way -= 1;
            if *under_way == 0 {
                state.reads.remove(&zone);
            }
        }
    }

    fn write(self: &Arc<Self>, block: u64, op: Op, done: crate::Done, passed: &mut Vec<Request>) {
        let blocks = block..block + op.range().1;
        let mapped = blocks.clone().filter(|block| self.geometry.is_mapped(*block)).count() as u64;
        if mapped == 0 {
            return passed.push(Request { op, done });
        }
        assert_eq!(mapped, op.range().1, "a write to two areas of the device: block {block}");
        let mut state = self.state.lock();
        let sort = match &op {
            Op::Write { hint, .. } => Sort::of(*hint),
            _ => Sort::Data,
        };
        if state.ledger.refuses(block) {
            drop(state);
            return Request { op, done }.fail(crate::errno::EIO);
        }
        for block in blocks.clone() {
            self.take(&mut state, Step::Write(block, sort));
            state.writing.insert(block);
            state.newest[0] = Some(block);
        }
        state.debt += mapped * self.rules.moves;
        drop(state);
        let shared = Arc::clone(self);
        passed.push(Request::new(op, move |result| {
            let mut state = shared.state.lock();
            for block in blocks {
                assert!(state.writing.remove(&block), "a write ends once");
                match &result {
                    Ok(_) => {}
                    Err(error) if error.is_passing() => shared.take(&mut state, Step::Unwritten(block)),
                    Err(_) => shared.take(&mut state, Step::Refused(block)),
                }
            }
            drop(state);
            done(result);
        }));
    }

    fn discard(&self, block: u64, count: u64, done: crate::Done, passed: &mut Vec<Request>) {
        let mut state = self.state.lock();
        for block in (block..block + count).filter(|block| self.geometry.is_mapped(*block)) {
            if let Some(page) = state.ledger.resolve(block)
                && let Some(counts) = state.copying.get_mut(&page)
            {
                *counts = false;
            }
            self.take(&mut state, Step::Discard(block));
        }
        drop(state);
        let meta = (block + count).min(self.geometry.meta.end).saturating_sub(block);
        match meta {
            0 => done(Ok(Vec::new())),
            count => passed.push(Request { op: Op::Discard { block, count }, done }),
        }
    }

    /// Moves as many pages as it owes, if it may.
    fn act(self: &Arc<Self>) {
        let mut copies = Vec::new();
        let mut state = self.state.lock();
        while state.debt >= 1000 && state.ledger.may_move() && !state.closed {
            state.debt -= 1000;
            if state.ledger.outstanding() + copies.len() >= self.rules.bound {
                break;
            }
            let Some(from) = self.choose(&mut state) else { break };
            let sort = state.ledger.sort_of(from);
            let Some(to) = self.destination(&mut state, sort) else { break };
            state.copying.insert(from, true);
            copies.push(Move { from, to });
        }
        let waiting = state.ledger.waiting();
        if waiting > 0 && (waiting >= self.rules.records || state.below(self.rules.late) == 0) {
            state.due = waiting;
            self.changed.notify_all();
        }
        drop(state);
        copies.into_iter().for_each(|copy| self.copy(copy));
    }

    /// A page that may move: of a zone that is to be emptied, or of one of the GC area where few are free; else one in
    /// four times the newest, one in four times the one moved last.
    fn choose(&self, state: &mut State) -> Option<u64> {
        if let Some(page) = self.of_pressed(state) {
            return Some(page);
        }
        let at = self.geometry.regular.start + state.below(self.geometry.gc.end - self.geometry.regular.start);
        let wanted = match state.below(4) {
            0 => state.newest[0],
            1 => state.newest[1],
            _ => None,
        };
        let may = |page: &u64| !state.writing.contains(page) && !state.copying.contains_key(page);
        let live = state.ledger.live();
        let wanted = wanted.and_then(|page| state.ledger.resolve(page)).filter(may);
        wanted
            .or_else(|| live.range(at..).find(|page| may(page)).or_else(|| live.iter().find(|page| may(page))).copied())
    }

    /// A page of the zones that are to be emptied, of which there is always one when the GC area gets scattered.
    fn of_pressed(&self, state: &mut State) -> Option<u64> {
        let zone = self.geometry.zone;
        let may = |state: &State, page: &u64| !state.writing.contains(page) && !state.copying.contains_key(page);
        if state.pressed.is_empty() {
            let gc = || self.geometry.gc.clone().step_by(zone as usize);
            let free = gc().filter(|start| state.ledger.is_free(*start)).count() as u64;
            let open = |start: &u64| state.next.iter().flatten().any(|next| self.geometry.zone_of(*next) == *start);
            let sparse = |start: &u64| (1..zone).contains(&state.ledger.live_in(*start)) && !open(start);
            if free <= SCARCE {
                let victim = gc().filter(sparse).min_by_key(|start| state.ledger.live_in(*start));
                state.pressed.extend(victim);
            }
        }
        while let Some(start) = state.pressed.last().copied() {
            let page = state.ledger.live().range(start..start + zone).find(|page| may(state, page)).copied();
            if page.is_some() {
                return page;
            }
            state.pressed.pop();
        }
        None
    }

    /// The next block of the GC area for pages of this sort.
    fn destination(&self, state: &mut State, sort: Sort) -> Option<u64> {
        let zone = self.geometry.zone;
        let to = match state.next[sort as usize] {
            Some(next) => next,
            None => {
                let open = |start: u64| state.next.iter().flatten().any(|next| self.geometry.zone_of(*next) == start);
                let busy = |start: u64| open(start) || state.landing.range(start..start + zone).next().is_some();
                let free =
                    |start: &u64| state.ledger.is_free(*start) && !state.reads.contains_key(start) && !busy(*start);
                self.geometry.gc.clone().step_by(zone as usize).find(free)?
            }
        };
        state.next[sort as usize] = Some(to + 1).filter(|next| !next.is_multiple_of(zone));
        // So that the zone is not taken for a free one.
        state.landing.insert(to);
        Some(to)
    }

    fn copy(self: &Arc<Self>, copy: Move) {
        let shared = Arc::clone(self);
        let read = Op::Read { block: copy.from, count: 1 };
        self.inner.submit(vec![Request::new(read, move |result| match result {
            Ok(pages) => {
                let write = Op::Write { block: copy.to, pages, hint: StreamHint::DataCold, fua: true };
                let landing = Arc::clone(&shared);
                shared.inner.submit(vec![Request::new(write, move |result| landing.copied(copy, result.is_ok()))]);
            }
            Err(_) => shared.copied(copy, false),
        })]);
    }

    /// The page lives at its new address from here on, unless it was discarded meanwhile.
    fn copied(&self, copy: Move, well: bool) {
        let mut state = self.state.lock();
        let counts = state.copying.remove(&copy.from);
        assert!(counts.is_some() && state.landing.remove(&copy.to), "a copy ends once");
        if well && counts == Some(true) {
            self.take(&mut state, Step::Moved(copy));
            state.newest[1] = Some(copy.to);
        }
    }

    fn upcall(&self, state: &mut State) -> Option<Upcall> {
        if state.ledger.unheard().is_none() {
            state.due = state.due.min(state.ledger.waiting());
            let most = state.due.min(self.rules.records);
            let count = 1 + state.below(most as u64) as usize;
            if most == 0 || !state.ledger.may_move() {
                return None;
            }
            state.due -= count;
            self.take(state, Step::Deliver(count));
        }
        let mut upcall = state.ledger.unheard()?;
        upcall.urgent = state.ledger.outstanding() * 2 >= self.rules.bound;
        self.take(state, Step::Hear(upcall.moves.len()));
        Some(upcall)
    }
}

impl Gather {
    /// Its parts, to be ended without its lock.
    fn over(&mut self) -> Gather {
        Gather { parts: std::mem::take(&mut self.parts), failed: self.failed.take(), left: 0, done: self.done.take() }
    }

    fn end(self) {
        let result: IoResult = match self.failed {
            Some(error) => Err(error),
            None => Ok(self.parts.into_iter().flatten().flatten().collect()),
        };
        if let Some(done) = self.done {
            done(result);
        }
    }
}

impl<D: Device + 'static> Device for AdversaryDevice<D> {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { blocks: self.shared.geometry.gc.end, discard: true, ..self.shared.inner.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        let info = self.info();
        let mut passed = Vec::with_capacity(batch.len());
        for Request { op, done } in batch {
            if let Err(error) = info.check(&op) {
                done(Err(error));
                continue;
            }
            match op {
                Op::Read { block, count } => self.shared.read(block, count, done, &mut passed),
                Op::Write { block, .. } => self.shared.write(block, op, done, &mut passed),
                Op::Discard { block, count } => self.shared.discard(block, count, done, &mut passed),
                Op::Flush => passed.push(Request { op, done }),
                Op::ZoneReset { .. } | Op::ZoneFinish { .. } => Request { op, done }.fail(errno::EOPNOTSUPP),
            }
        }
        self.shared.inner.submit(passed);
        self.shared.act();
    }

    fn migrations(&self) -> Option<&dyn Migrations> {
        Some(self)
    }
}

impl<D: Device + 'static> Migrations for AdversaryDevice<D> {
    fn geometry(&self) -> MigrationGeometry {
        self.shared.geometry.clone()
    }

    fn next(&self) -> Option<Upcall> {
        let mut state = self.shared.state.lock();
        while !state.closed {
            if let Some(upcall) = self.shared.upcall(&mut state) {
                return Some(upcall);
            }
            if state.ledger.waiting() == 0 {
                self.shared.changed.wait(&mut state);
            } else if self.shared.changed.wait_timeout(&mut state, DEADLINE) {
                state.due = state.ledger.waiting();
            }
        }
        None
    }

    fn complete(&self, up_to: u64) {
        self.shared.take(&mut self.shared.state.lock(), Step::Complete(up_to));
    }

    fn resume(&self, served: u64) -> u64 {
        let mut state = self.shared.state.lock();
        self.shared.take(&mut state, Step::Resume(served));
        state.closed = false;
        self.shared.changed.notify_all();
        state.ledger.last_delivered()
    }

    fn completed(&self) -> u64 {
        self.shared.state.lock().ledger.completed()
    }

    fn deliver(&self) -> u64 {
        let mut state = self.shared.state.lock();
        if state.ledger.may_move() && state.ledger.waiting() > 0 {
            let waiting = state.ledger.waiting();
            self.shared.take(&mut state, Step::Deliver(waiting));
            self.shared.changed.notify_all();
        }
        state.ledger.last_delivered()
    }

    fn delivered(&self) -> u64 {
        self.shared.state.lock().ledger.last_delivered()
    }

    /// It copies beside the writes, and none of them waits for that.
    fn room(&self) -> u64 {
        u64::MAX
    }

    fn press(&self) {
        let mut state = self.shared.state.lock();
        // The zones of the regular area that cost least, as many as fit one.
        let (zone, regular) = (self.shared.geometry.zone, self.shared.geometry.regular.clone());
        let mut victims: Vec<(u64, u64)> = regular
            .step_by(zone as usize)
            .map(|start| (state.ledger.live_in(start), start))
            .filter(|(live, start)| *live > 0 && state.ledger.is_full(*start))
            .collect();
        victims.sort_unstable();
        let mut room = zone;
        let fits = |(live, _): &&(u64, u64)| {
            let fits = *live <= room;
            room = room.saturating_sub(*live);
            fits
        };
        let chosen: Vec<u64> = victims.iter().take_while(fits).map(|(_, start)| *start).collect();
        state.pressed.extend(chosen);
        state.debt += zone * 1000;
        drop(state);
        self.shared.act();
        self.deliver();
    }

    fn close(&self) {
        self.shared.state.lock().closed = true;
        self.shared.changed.notify_all();
    }
}
