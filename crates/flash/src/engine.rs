//! [`Engine`]: the device behind its lock: requests in, completions with their times out.
//!
//! Reads and flushes are booked when they arrive. Writes wait in one queue until the buffer and the translation layer
//! have room for their next page, so what is not in the device's buffer yet holds up nobody else: the future beyond a
//! buffer's worth is never booked.
//!
//! Kept true: time never falls within a run; every request leaves exactly one completion.

use crate::cells::{Cells, Promised};
use crate::checks::Checks;
use crate::contents::Contents;
use crate::ftl::{Action, Ftl, Migrating, ZoneCommand, ZoneError};
use crate::link::{Link, Towards};
use crate::media::Media;
use crate::nand::Source;
use crate::parameters::{Layer, Parameters};
use crate::promises::{Answers, Promise, PromiseId, Promises};
use crate::stats::{Second, Stats};
use crate::units::{PAGE, Time, nanos};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use steadyfs_device::{Done, IoResult, Ledger, Op, OpKind, PageBuf, Request, Sort, StreamHint, Upcall, ZoneState};

/// A request whose end is known.
pub(crate) struct Ended {
    pub(crate) at: Time,
    pub(crate) done: Done,
    pub(crate) result: IoResult,
    /// The promise that it waits for and reads can put off.
    pub(crate) promise: Option<PromiseId>,
}

impl Ended {
    fn new(at: Time, done: Done, result: IoResult) -> Self {
        Ended { at, done, result, promise: None }
    }
}

/// What changes the device, in the order in which it came.
enum Queued {
    Write(Write),
    Manage { arrived: Time, action: Action, block: u64, done: Done },
}

/// A write on its way into the buffer.
struct Write {
    arrived: Time,
    /// The translation layer has been asked, and its zone opened.
    begun: bool,
    /// Where an append went; its block is its zone's.
    append: Option<Arc<AtomicU64>>,
    next: u64,
    pages: std::vec::IntoIter<PageBuf>,
    count: u64,
    stream: usize,
    fua: bool,
    done: Done,
    /// When the last page has crossed the link.
    ready: Time,
}

/// [`crate::Interface`] in nanoseconds.
struct InterfaceTimes {
    read: [u64; 2],
    write: u64,
    write_page: u64,
    flush: u64,
    discard: u64,
    discard_page: u64,
    max_pages: u64,
}

/// What a host may ask: requests of the device trait, and what only zoned devices have.
pub(crate) enum Command {
    Request(Request),
    Append { zone: u64, pages: Vec<PageBuf>, hint: StreamHint, placed: Arc<AtomicU64>, done: Done },
    Manage { action: Action, block: u64, done: Done },
}

impl From<Request> for Command {
    fn from(request: Request) -> Self {
        Command::Request(request)
    }
}

/// See the head of the module.
pub(crate) struct Engine {
    parameters: Parameters,
    times: InterfaceTimes,
    media: Media,
    ftl: Box<dyn Ftl>,
    link: Link,
    promises: Promises,
    queue: VecDeque<Queued>,
    /// Requests beyond the queue's depth.
    outside: VecDeque<(Time, Command)>,
    inside: u32,
    clock: Time,
    stats: Stats,
    started: Option<Time>,
    /// The last request or answer.
    asked: Time,
    ended: Vec<Ended>,
    /// When the device is woken to go on by itself.
    alarm: Option<Time>,
    /// Copies that are in the series.
    copies_seen: u64,
    /// Whether an upcall is there, and whether a record waits for one.
    upcalls: (bool, bool),
    checks: Checks,
}

/// What comes of a call: requests whose end is known, when to call [`Engine::wake`], if that is news, and whether
/// somebody who waits for records should look.
pub(crate) struct Outcome {
    pub(crate) ended: Vec<Ended>,
    pub(crate) wake: Option<Time>,
    pub(crate) records: bool,
}

impl Engine {
    pub(crate) fn new(parameters: Parameters, media: Media, ftl: Box<dyn Ftl>) -> Self {
        let interface = &parameters.interface;
        let times = InterfaceTimes {
            read: interface.read.map(nanos),
            write: nanos(interface.write),
            write_page: nanos(interface.write_page),
            flush: nanos(interface.flush),
            discard: nanos(interface.discard),
            discard_page: nanos(interface.discard_page),
            max_pages: u64::from(interface.max_transfer) / PAGE,
        };
        Engine {
            link: Link::new(interface),
            promises: Promises::default(),
            parameters,
            times,
            media,
            ftl,
            queue: VecDeque::new(),
            outside: VecDeque::new(),
            inside: 0,
            clock: 0,
            stats: Stats::default(),
            started: None,
            asked: 0,
            ended: Vec::new(),
            alarm: None,
            copies_seen: 0,
            upcalls: (false, false),
            checks: Checks::default(),
        }
    }

    /// Takes requests in, and says which ends are known now.
    pub(crate) fn submit(&mut self, now: Time, batch: impl Iterator<Item = Command>) -> Outcome {
        self.begin(now);
        self.outside.extend(batch.map(|command| (self.clock, command)));
        self.go_on()
    }

    /// A request is answered; or it is to be answered later, if that has become so.
    pub(crate) fn answered(&mut self, now: Time, promise: Option<PromiseId>) -> Result<Outcome, Time> {
        self.begin(now);
        if let Some(later) = promise.and_then(|promise| self.promises.keep(promise, self.clock)) {
            return Err(later);
        }
        assert!(self.inside > 0, "an answer to no request");
        self.inside -= 1;
        self.asked = self.clock;
        if let Some(migrating) = self.ftl.migrating() {
            migrating.piggyback();
        }
        Ok(self.go_on())
    }

    /// The alarm for `at` has gone off.
    pub(crate) fn wake(&mut self, now: Time, at: Time) -> Outcome {
        self.begin(now);
        self.alarm = self.alarm.filter(|&alarm| alarm != at);
        self.go_on()
    }

    /// Time has come so far.
    fn begin(&mut self, now: Time) {
        let idle = self.inside == 0 && self.outside.is_empty();
        if now < self.clock && idle {
            self.restart(now);
        }
        self.clock = self.clock.max(now);
        self.ftl.advance(&mut self.media, self.clock);
    }

    /// Another run begins, with another clock: whatever was under way has long been done.
    fn restart(&mut self, now: Time) {
        self.ftl.advance(&mut self.media, Time::MAX);
        self.ftl.restart();
        self.media.nand.restart();
        self.media.cells.iter_mut().for_each(Cells::restart);
        self.media.buffer.restart();
        self.link.restart();
        self.clock = now;
        self.alarm = None;
        self.started = None;
        self.asked = now;
    }

    fn start(&mut self, arrived: Time, command: Command) {
        self.inside += 1;
        self.started.get_or_insert(arrived);
        self.asked = self.clock;
        match command {
            Command::Append { zone, pages, hint, placed, done } => {
                self.enqueue(arrived, zone, pages, hint, false, Some(placed), done);
            }
            Command::Manage { action, block, done } => {
                self.queue.push_back(Queued::Manage { arrived, action, block, done });
            }
            Command::Request(Request { op, done }) => match op {
                Op::Read { block, count } => self.read(arrived, block, count, done),
                Op::Write { block, pages, hint, fua } => self.enqueue(arrived, block, pages, hint, fua, None, done),
                Op::Flush => self.flush(arrived, done),
                Op::Discard { block, count } => self.discard(block, count, done),
                Op::ZoneReset { block } => {
                    self.queue.push_back(Queued::Manage { arrived, action: Action::Reset, block, done });
                }
                Op::ZoneFinish { block } => {
                    self.queue.push_back(Queued::Manage { arrived, action: Action::Finish, block, done });
                }
            },
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they are the parts of a request")]
    fn enqueue(
        &mut self,
        arrived: Time,
        next: u64,
        pages: Vec<PageBuf>,
        hint: StreamHint,
        fua: bool,
        append: Option<Arc<AtomicU64>>,
        done: Done,
    ) {
        let (count, stream) = (pages.len() as u64, self.stream(hint));
        let (pages, ready) = (pages.into_iter(), self.clock);
        let write = Write { arrived, begun: false, append, next, pages, count, stream, fua, done, ready };
        self.queue.push_back(Queued::Write(write));
    }

    fn discard(&mut self, block: u64, count: u64, done: Done) {
        let media = &mut self.media;
        let looked_at = self.ftl.discard(block, count, &mut |page| media.forget(page, false));
        self.stats.discarded += count;
        let at = self.clock + self.times.discard + looked_at * self.times.discard_page;
        self.ended.push(Ended::new(at, done, Ok(Vec::new())));
    }

    /// The open line for what is written with this hint.
    fn stream(&self, hint: StreamHint) -> usize {
        if matches!(self.parameters.layer, Layer::Migrating(_)) {
            return Sort::of(hint) as usize;
        }
        use StreamHint::{DataCold, DataHot, DataWarm, MetaHot, MetaWarm, NodeHot, NodeWarm};
        match (self.parameters.policy.streams, hint) {
            (2, DataHot | DataWarm | DataCold) | (3, DataHot | NodeHot | MetaHot) => 0,
            (2, _) | (3, DataWarm | NodeWarm | MetaWarm) => 1,
            (3, _) => 2,
            _ => 0,
        }
    }

    fn read(&mut self, arrived: Time, block: u64, count: u64, done: Done) {
        let now = self.clock;
        if let Err(error) = self.ftl.readable(block, count) {
            let result = Err(error.of(OpKind::Read, block, count));
            self.ended.push(Ended::new(now + self.times.read[0], done, result));
            return;
        }
        let mut last = now;
        let mut page = block;
        while page < block + count {
            // What lies in one unit is sensed once.
            let place = self.ftl.locate(page);
            let mut run = 1;
            while place.is_some() && page + run < block + count && self.ftl.locate(page + run) == place {
                run += 1;
            }
            let link = &mut self.link;
            let mut deliver = |at, bytes| last = last.max(link.book(now, at, Towards::Host, bytes));
            match place {
                Some(at) => {
                    self.media.read(now, at, run as u32, Source::Host, deliver);
                }
                None => deliver(now, PAGE),
            }
            page += run;
        }
        let pages = (block..block + count).map(|page| self.media.contents.get(self.ftl.resolve(page))).collect();
        let at = last + self.times.read[usize::from(count * PAGE > 16 << 10)];
        self.stats.host_read += count;
        self.stats.read_latency.add(at - arrived);
        self.second(at).host_read += count;
        self.ended.push(Ended::new(at, done, Ok(pages)));
    }

    fn flush(&mut self, arrived: Time, done: Done) {
        let mut at = self.clock;
        if !self.parameters.power_loss_protection {
            at = at.max(self.ftl.flush(&mut self.media, self.clock, None));
        }
        at += self.times.flush;
        let promised = self.media.cells.as_mut().map(|cells| cells.flushed(at));
        self.stats.flushes += 1;
        self.stats.flush_latency.add(at - arrived);
        let promise = self.promise(Answers::Flush, (arrived, at), self.times.flush, promised);
        self.ended.push(Ended { promise, ..Ended::new(at, done, Ok(Vec::new())) });
    }

    /// An answer at `at` that waits for what has been told to the chips: `None` if that cannot become later.
    fn promise(
        &mut self,
        answers: Answers,
        (arrived, at): (Time, Time),
        after: u64,
        promised: Option<Promised>,
    ) -> Option<PromiseId> {
        if self.parameters.power_loss_protection || !self.parameters.suspension.delays_programs() {
            return None;
        }
        let told = self.media.nand.told();
        Some(self.promises.make(Promise { answers, arrived, at, after, told, promised }))
    }

    /// Reads have put off programs: what was promised by their end is promised for later.
    fn put_off(&mut self) {
        for late in self.media.take_late() {
            for (before, promise) in self.promises.put_off(&late) {
                let latency = match promise.answers {
                    Answers::Flush => &mut self.stats.flush_latency,
                    Answers::Write => &mut self.stats.write_latency,
                };
                latency.later(before - promise.arrived, promise.at - promise.arrived);
                if let (Some(cells), Some(promised)) = (&mut self.media.cells, &promise.promised) {
                    cells.later(promised, promise.at);
                }
            }
        }
    }

    /// Does what can be done by now: nothing, while the firmware is busy with itself.
    fn go_on(&mut self) -> Outcome {
        let busy = Some(self.ftl.firmware_until()).filter(|&until| until > self.clock);
        let wait = busy.or_else(|| self.work());
        assert!(wait.is_none_or(|at| at > self.clock), "waiting for what has been");
        // What waits for the host goes on with the host's next call.
        let wake = wait.filter(|&at| at < Time::MAX && self.alarm.is_none_or(|alarm| at < alarm));
        self.alarm = wake.or(self.alarm);
        self.put_off();
        let records = self.news();
        let copied = self.media.nand.counters().gc_programmed;
        let news = copied - std::mem::replace(&mut self.copies_seen, copied);
        if news > 0 {
            self.second(self.clock).gc_copied += news;
        }
        Outcome { ended: std::mem::take(&mut self.ended), wake, records }
    }

    /// Takes requests in as far as the queue is deep, and writes as far as there is room. When to go on.
    fn work(&mut self) -> Option<Time> {
        while self.inside < self.parameters.interface.queue_depth
            && let Some((arrived, command)) = self.outside.pop_front()
        {
            self.start(arrived, command);
        }
        let mut wait = None;
        while let Some(queued) = self.queue.pop_front() {
            match queued {
                Queued::Manage { arrived, action, block, done } => self.manage(arrived, action, block, done),
                Queued::Write(write) => {
                    let Some(mut write) = self.open(write) else { continue };
                    wait = self.accept(&mut write);
                    if wait.is_some() {
                        self.queue.push_front(Queued::Write(write));
                        break;
                    }
                    self.written(write);
                }
            }
        }
        wait.or_else(|| self.idle())
    }

    /// An idle device collects; when to go on with that.
    fn idle(&mut self) -> Option<Time> {
        if self.inside > 0 || !self.ftl.wants_idle() {
            return None;
        }
        let from = self.asked + nanos(self.parameters.policy.idle);
        if self.clock < from { Some(from) } else { self.ftl.idle(&mut self.media, self.clock) }
    }

    /// Asks the translation layer whether a write may begin, once; `None` if it refuses.
    fn open(&mut self, mut write: Write) -> Option<Write> {
        if write.begun {
            return Some(write);
        }
        let kind = if write.append.is_some() { OpKind::ZoneAppend } else { OpKind::Write };
        match self.ftl.begin(write.next, write.count, write.append.is_some(), write.stream) {
            Ok(first) => {
                write.begun = true;
                write.next = first;
                if let Some(placed) = &write.append {
                    placed.store(first, Ordering::Relaxed);
                }
                Some(write)
            }
            Err(error) => {
                let result = Err(error.of(kind, write.next, write.count));
                self.ended.push(Ended::new(self.clock + self.times.write, write.done, result));
                None
            }
        }
    }

    /// Changes a zone's state.
    fn manage(&mut self, arrived: Time, action: Action, block: u64, done: Done) {
        let result = self.ftl.manage(&mut self.media, self.clock, ZoneCommand::Action(action, block));
        let result = result.map(|()| Vec::new()).map_err(|error| error.of(action.kind(), block, 1));
        let at = self.clock + self.times.discard;
        self.stats.zone_latency.add(at - arrived);
        self.ended.push(Ended::new(at, done, result));
    }

    /// Whether there is an upcall, or a record that waits for one, and was none before.
    fn news(&mut self) -> bool {
        let before = self.upcalls;
        let Some(migrating) = self.ftl.migrating() else { return false };
        self.upcalls = (migrating.has_upcall(), migrating.has_waiting());
        (self.upcalls.0 && !before.0) || (self.upcalls.1 && !before.1)
    }

    /// Asks a layer that moves pages for something; what waited for the host goes on. `None` if it is another layer.
    pub(crate) fn records<R>(
        &mut self,
        now: Time,
        ask: impl FnOnce(&mut Migrating, &mut Media, Time) -> R,
    ) -> Option<(R, Outcome)> {
        self.begin(now);
        let answer = ask(self.ftl.migrating()?, &mut self.media, self.clock);
        Some((answer, self.go_on()))
    }

    /// Looks at a layer that moves pages, as it was left. `None` if it is another layer.
    pub(crate) fn of_records<R>(&mut self, look: impl FnOnce(&Migrating) -> R) -> Option<R> {
        self.ftl.migrating().map(|migrating| look(migrating))
    }

    /// The next upcall, and when it has crossed the link: it fills a page.
    pub(crate) fn upcall(&mut self, now: Time) -> Option<(Upcall, Time)> {
        self.begin(now);
        let upcall = self.ftl.migrating()?.upcall()?;
        self.news();
        let at = self.link.book(self.clock, self.clock, Towards::Host, PAGE);
        Some((upcall, at))
    }

    /// What a power cut now leaves of a layer that moves pages: its memory, and what is left at which address.
    pub(crate) fn remembered(
        &mut self,
        now: Time,
        chance: impl FnMut() -> bool,
    ) -> Option<(Ledger, BTreeMap<u64, PageBuf>)> {
        self.begin(now);
        let ledger = self.ftl.migrating()?.remembered();
        let first = ledger.geometry().meta.end;
        let left = if self.parameters.power_loss_protection {
            ledger.live().iter().map(|page| (*page, self.media.contents.get(*page))).collect()
        } else {
            self.media.cells.as_ref()?.survivors_in_place(self.clock, first, chance)
        };
        Some((ledger, left))
    }

    /// Fills an empty device with what another one held; after [`Engine::load`].
    pub(crate) fn restore(&mut self, ledger: Ledger, contents: &BTreeMap<u64, PageBuf>) {
        let Some(migrating) = self.ftl.migrating() else { return };
        self.clock = migrating.restore(&mut self.media, self.clock, ledger, contents);
        if let Some(cells) = &mut self.media.cells {
            cells.flushed(self.clock);
        }
        self.restart(0);
    }

    /// The translation layer as it is at this time.
    pub(crate) fn ftl(&mut self, now: Time) -> &dyn Ftl {
        self.begin(now);
        &*self.ftl
    }

    /// Lets the flash below a zone wear out, at once.
    ///
    /// # Errors
    /// What the zone has against it.
    pub(crate) fn wear_out(&mut self, now: Time, zone: u64, to: ZoneState) -> Result<(), ZoneError> {
        self.begin(now);
        self.ftl.manage(&mut self.media, self.clock, ZoneCommand::WearOut(zone, to))
    }

    /// Takes the pages of a write into the buffer, as far as there is room. When to go on, if pages are left.
    fn accept(&mut self, write: &mut Write) -> Option<Time> {
        let now = self.clock;
        while write.pages.len() > 0 {
            if self.media.buffer.room(now) == 0 {
                let end = self.media.buffer.next_end();
                return Some(end.unwrap_or_else(|| panic!("a full buffer that nothing leaves")));
            }
            if let Err(at) = self.ftl.make_room(&mut self.media, now, write.next, write.stream) {
                return Some(at);
            }
            let Some(page) = write.pages.next() else { break };
            write.ready = self.link.book(now, now, Towards::Device, PAGE);
            self.put(write.next, page, write.ready, write.stream);
            write.next += 1;
        }
        None
    }

    /// Takes a page into the buffer, where there is room, and gives it its place.
    fn put(&mut self, page: u64, contents: PageBuf, ready: Time, stream: usize) {
        self.media.buffer.accept();
        self.media.contents.set(page, contents.compacted());
        if let Some(cells) = &mut self.media.cells {
            cells.written(page);
        }
        self.ftl.write(&mut self.media, self.clock, ready, page, stream);
    }

    /// All pages of a write are in the buffer.
    fn written(&mut self, write: Write) {
        let pages = write.count.min(self.times.max_pages);
        let mut at = write.ready + self.times.write + pages * self.times.write_page;
        if write.fua && !self.parameters.power_loss_protection && write.count > 0 {
            at = at.max(self.ftl.flush(&mut self.media, self.clock, Some(write.stream)));
        }
        let cells = self.media.cells.as_mut().filter(|_| write.fua);
        let promised = cells.map(|cells| cells.fua(at, write.next - write.count..write.next));
        let promise = write.fua.then(|| self.promise(Answers::Write, (write.arrived, at), 0, promised)).flatten();
        self.stats.host_written += write.count;
        self.stats.write_latency.add(at - write.arrived);
        self.second(at).host_written += write.count;
        self.ended.push(Ended { promise, ..Ended::new(at, write.done, Ok(Vec::new())) });
    }

    fn second(&mut self, at: Time) -> &mut Second {
        let second = (at.saturating_sub(self.started.unwrap_or(0)) / 1_000_000_000) as usize;
        if self.stats.series.len() <= second {
            self.stats.series.resize(second + 1, Second::default());
        }
        &mut self.stats.series[second]
    }

    /// What a power cut now would leave, by page; `chance` decides what of the rest survives. `None` if that is not
    /// known.
    pub(crate) fn survivors(&mut self, now: Time, chance: impl FnMut() -> bool) -> Option<Vec<(u64, PageBuf)>> {
        self.begin(now);
        if self.parameters.power_loss_protection {
            let mapped = |from| self.ftl.next_mapped(from);
            let written = std::iter::successors(mapped(0), |&page| mapped(page + 1));
            return Some(written.map(|page| (page, self.media.contents.get(page))).collect());
        }
        Some(self.media.cells.as_ref()?.survivors(self.clock, chance))
    }

    /// Contents are somebody else's business.
    pub(crate) fn forget_contents(&mut self) {
        self.media.contents = Contents::none();
    }

    /// Fills an empty device that nobody uses yet, and lets time begin behind that. Of a zone that is what lies before
    /// the first page that is missing; zones that start at the blocks in `full` get no more.
    pub(crate) fn load(&mut self, mut pages: Vec<(u64, PageBuf)>, full: &[u64]) {
        if self.ftl.zones().is_some() {
            // Full zones first: while they are loaded they are active, and as many others may be as are allowed.
            pages.sort_by_key(|&(page, _)| (self.ftl.zone_of(page).is_some_and(|zone| !full.contains(&zone)), page));
        }
        let mut last = None;
        for (page, contents) in pages {
            let zone = self.ftl.zone_of(page);
            if last != zone {
                self.settle(last, full);
                last = zone;
            }
            if self.ftl.begin(page, 1, false, 0).is_err() {
                continue;
            }
            loop {
                self.ftl.advance(&mut self.media, self.clock);
                let ended = (self.media.buffer.room(self.clock) == 0).then(|| self.media.buffer.next_end()).flatten();
                match ended.or_else(|| self.ftl.make_room(&mut self.media, self.clock, page, 0).err()) {
                    Some(at) => self.clock = at,
                    None => break,
                }
            }
            self.put(page, contents, self.clock, 0);
        }
        self.settle(last, full);
        for &zone in full {
            self.settle(Some(zone), full);
        }
        let end = self.ftl.flush(&mut self.media, self.clock, None);
        if let Some(cells) = &mut self.media.cells {
            cells.flushed(end);
        }
        self.clock = end;
        self.restart(0);
    }

    /// A zone has been loaded: it was full, or is closed, as a power cut leaves zones that were open.
    fn settle(&mut self, zone: Option<u64>, full: &[u64]) {
        let Some(zone) = zone else { return };
        let action = if full.contains(&zone) { Action::Finish } else { Action::Close };
        // A zone that has become full of itself needs neither.
        let _ = self.ftl.manage(&mut self.media, self.clock, ZoneCommand::Action(action, zone));
    }

    /// The work done.
    pub(crate) fn stats(&self) -> Stats {
        let counters = self.media.nand.counters();
        let erases = self.media.nand.lines().iter().map(|line| line.erases);
        let (channels_busy_ns, chips_busy_ns) = self.media.nand.busy();
        Stats {
            host_programmed: counters.host_programmed,
            gc_programmed: counters.gc_programmed,
            meta_programmed: counters.meta_programmed,
            padding: counters.padding,
            flash_read: counters.host_read,
            gc_read: counters.gc_read,
            lines_erased: counters.lines_erased,
            gc_busy_ns: counters.gc_busy_ns,
            erases: (erases.clone().min().unwrap_or(0), erases.max().unwrap_or(0)),
            space: self.ftl.space(&self.media.nand),
            buffered: self.media.buffer.held(),
            map: self.ftl.map(),
            span_ns: (self.started.unwrap_or(self.clock), self.clock),
            channels_busy_ns,
            chips_busy_ns,
            link_busy_ns: self.link.busy(),
            suspended: self.media.nand.suspended(),
            ..self.stats.clone()
        }
    }

    /// Every rule that does not hold.
    pub(crate) fn check(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        self.ftl.check(&self.media.nand, &mut found);
        self.checks.look(&self.media, &mut found);
        if !self.link.adds_up() {
            found.push(format!("the link was busy for {:?} ns, and booked for others", self.link.busy()));
        }
        found
    }
}
