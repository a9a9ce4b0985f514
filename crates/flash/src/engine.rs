//! [`Engine`]: the device behind its lock: requests in, completions with their times out.
//!
//! Reads and flushes are booked when they arrive. Writes wait in one queue until the buffer and the translation layer have room for their
//! next page, so what is not in the device's buffer yet holds up nobody else: the future beyond a buffer's worth is never booked.
//!
//! Kept true: time never falls within a run; every request leaves exactly one completion.

use crate::cells::Cells;
use crate::checks::Checks;
use crate::ftl::Ftl;
use crate::media::Media;
use crate::parameters::Parameters;
use crate::servers::Server;
use crate::stats::{Second, Stats};
use crate::units::{PAGE, Time, nanos};
use std::collections::VecDeque;
use steadyfs_device::{Done, IoResult, Op, PageBuf, Request, StreamHint, errno};

/// A request whose end is known.
pub(crate) struct Ended {
    pub(crate) at: Time,
    pub(crate) done: Done,
    pub(crate) result: IoResult,
}

/// A write on its way into the buffer.
struct Write {
    arrived: Time,
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
    page: u64,
    read: [u64; 2],
    write: u64,
    write_page: u64,
    flush: u64,
    discard: u64,
    discard_page: u64,
    max_pages: u64,
}

/// See the head of the module.
pub(crate) struct Engine {
    parameters: Parameters,
    times: InterfaceTimes,
    /// Capacity.
    pages: u64,
    media: Media,
    ftl: Box<dyn Ftl>,
    /// The link towards the device, and towards the host.
    link: (Server, Server),
    writes: VecDeque<Write>,
    /// Requests beyond the queue's depth.
    outside: VecDeque<(Time, Request)>,
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
    checks: Checks,
}

/// What comes of a call: requests whose end is known, and when to call [`Engine::wake`], if that is news.
pub(crate) struct Outcome {
    pub(crate) ended: Vec<Ended>,
    pub(crate) wake: Option<Time>,
}

impl Engine {
    pub(crate) fn new(parameters: Parameters, media: Media, ftl: Box<dyn Ftl>, pages: u64) -> Self {
        let interface = &parameters.interface;
        let times = InterfaceTimes {
            page: interface.link.nanos(PAGE),
            read: interface.read.map(nanos),
            write: nanos(interface.write),
            write_page: nanos(interface.write_page),
            flush: nanos(interface.flush),
            discard: nanos(interface.discard),
            discard_page: nanos(interface.discard_page),
            max_pages: u64::from(interface.max_transfer) / PAGE,
        };
        Engine {
            parameters,
            times,
            pages,
            media,
            ftl,
            link: (Server::default(), Server::default()),
            writes: VecDeque::new(),
            outside: VecDeque::new(),
            inside: 0,
            clock: 0,
            stats: Stats::default(),
            started: None,
            asked: 0,
            ended: Vec::new(),
            alarm: None,
            copies_seen: 0,
            checks: Checks::default(),
        }
    }

    /// Takes requests in, and says which ends are known now.
    pub(crate) fn submit(&mut self, now: Time, batch: impl Iterator<Item = Request>) -> Outcome {
        self.begin(now);
        for request in batch {
            if self.inside < self.parameters.interface.queue_depth {
                self.start(self.clock, request);
            } else {
                self.outside.push_back((self.clock, request));
            }
        }
        self.go_on()
    }

    /// A request has been answered.
    pub(crate) fn answered(&mut self, now: Time) -> Outcome {
        self.begin(now);
        assert!(self.inside > 0, "an answer to no request");
        self.inside -= 1;
        self.asked = self.clock;
        if let Some((arrived, request)) = self.outside.pop_front() {
            self.start(arrived, request);
        }
        self.go_on()
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
        self.link.0.restart();
        self.link.1.restart();
        self.clock = now;
        self.alarm = None;
        self.started = None;
        self.asked = now;
    }

    fn start(&mut self, arrived: Time, Request { op, done }: Request) {
        self.inside += 1;
        self.started.get_or_insert(arrived);
        self.asked = self.clock;
        match op {
            Op::Read { block, count } => self.read(arrived, block, count, done),
            Op::Write { block, pages, hint, fua } => {
                let (count, stream) = (pages.len() as u64, self.stream(hint));
                let pages = pages.into_iter();
                let ready = self.clock;
                self.writes.push_back(Write { arrived, next: block, pages, count, stream, fua, done, ready });
            }
            Op::Flush => self.flush(arrived, done),
            Op::Discard { block, count } => {
                for page in block..block + count {
                    self.ftl.discard(page);
                    self.media.contents.set(page, PageBuf::zeroed());
                    if let Some(cells) = &mut self.media.cells {
                        cells.discarded(page);
                    }
                }
                self.stats.discarded += count;
                let at = self.clock + self.times.discard + count * self.times.discard_page;
                self.ended.push(Ended { at, done, result: Ok(Vec::new()) });
            }
            op @ (Op::ZoneReset { .. } | Op::ZoneFinish { .. }) => {
                let result = Err(op.error(errno::EOPNOTSUPP));
                self.ended.push(Ended { at: self.clock, done, result });
            }
        }
    }

    /// The open line for what is written with this hint.
    fn stream(&self, hint: StreamHint) -> usize {
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
        let mut last = now;
        let mut page = block;
        while page < block + count {
            // What lies in one unit is sensed once.
            let place = self.ftl.locate(page);
            let mut run = 1;
            while place.is_some() && page + run < block + count && self.ftl.locate(page + run) == place {
                run += 1;
            }
            let (link, rate) = (&mut self.link.1, self.parameters.interface.link);
            let mut deliver = |at, bytes| last = last.max(link.book(now, at, rate.nanos(bytes)).1);
            match place {
                Some((line, unit)) => {
                    let source = crate::nand::Source::Host;
                    self.media.nand.read(now, line, unit, run as u32, source, deliver);
                }
                None => deliver(now, PAGE),
            }
            page += run;
        }
        let pages = (block..block + count).map(|page| self.media.contents.get(page)).collect();
        let at = last + self.times.read[usize::from(count * PAGE > 16 << 10)];
        self.stats.host_read += count;
        self.stats.read_latency.add(at - arrived);
        self.second(at).host_read += count;
        self.ended.push(Ended { at, done, result: Ok(pages) });
    }

    fn flush(&mut self, arrived: Time, done: Done) {
        let mut at = self.clock;
        if !self.parameters.power_loss_protection {
            at = at.max(self.ftl.flush(&mut self.media, self.clock, None));
        }
        at += self.times.flush;
        if let Some(cells) = &mut self.media.cells {
            cells.flushed(at);
        }
        self.stats.flushes += 1;
        self.stats.flush_latency.add(at - arrived);
        self.ended.push(Ended { at, done, result: Ok(Vec::new()) });
    }

    /// Does what can be done by now.
    fn go_on(&mut self) -> Outcome {
        let mut wait = None;
        while let Some(mut write) = self.writes.pop_front() {
            wait = self.accept(&mut write);
            if wait.is_some() {
                self.writes.push_front(write);
                break;
            }
            self.written(write);
        }
        let wait = wait.or_else(|| self.idle());
        assert!(wait.is_none_or(|at| at > self.clock), "waiting for what has been");
        let wake = wait.filter(|&at| self.alarm.is_none_or(|alarm| at < alarm));
        self.alarm = wake.or(self.alarm);
        let copied = self.media.nand.counters().gc_programmed;
        let news = copied - std::mem::replace(&mut self.copies_seen, copied);
        if news > 0 {
            self.second(self.clock).gc_copied += news;
        }
        Outcome { ended: std::mem::take(&mut self.ended), wake }
    }

    /// An idle device collects; when to go on with that.
    fn idle(&mut self) -> Option<Time> {
        if self.inside > 0 || !self.ftl.wants_idle() {
            return None;
        }
        let from = self.asked + nanos(self.parameters.policy.idle);
        if self.clock < from { Some(from) } else { self.ftl.idle(&mut self.media, self.clock) }
    }

    /// Takes the pages of a write into the buffer, as far as there is room. When to go on, if pages are left.
    fn accept(&mut self, write: &mut Write) -> Option<Time> {
        let now = self.clock;
        while write.pages.len() > 0 {
            if self.media.buffer.room(now) == 0 {
                let end = self.media.buffer.next_end();
                return Some(end.unwrap_or_else(|| panic!("a full buffer that nothing leaves")));
            }
            if let Err(at) = self.ftl.make_room(&mut self.media, now, write.stream) {
                return Some(at);
            }
            let Some(page) = write.pages.next() else { break };
            write.ready = self.link.0.book(now, now, self.times.page).1;
            self.put(write.next, page, write.ready, write.stream);
            write.next += 1;
        }
        None
    }

    /// Takes a page into the buffer, where there is room, and gives it its place.
    fn put(&mut self, page: u64, contents: PageBuf, ready: Time, stream: usize) {
        self.media.buffer.accept();
        self.media.contents.set(page, contents);
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
        if let Some(cells) = self.media.cells.as_mut().filter(|_| write.fua) {
            cells.fua(at, write.next - write.count..write.next);
        }
        self.stats.host_written += write.count;
        self.stats.write_latency.add(at - write.arrived);
        self.second(at).host_written += write.count;
        self.ended.push(Ended { at, done: write.done, result: Ok(Vec::new()) });
    }

    fn second(&mut self, at: Time) -> &mut Second {
        let second = (at.saturating_sub(self.started.unwrap_or(0)) / 1_000_000_000) as usize;
        if self.stats.series.len() <= second {
            self.stats.series.resize(second + 1, Second::default());
        }
        &mut self.stats.series[second]
    }

    /// What a power cut now would leave, by page; `chance` decides what of the rest survives. `None` if that is not known.
    pub(crate) fn survivors(&mut self, now: Time, chance: impl FnMut() -> bool) -> Option<Vec<(u64, PageBuf)>> {
        self.begin(now);
        if self.parameters.power_loss_protection {
            return Some((0..self.pages).map(|page| (page, self.media.contents.get(page))).collect());
        }
        Some(self.media.cells.as_ref()?.survivors(self.clock, chance))
    }

    /// Fills an empty device that nobody uses yet, and lets time begin behind that.
    pub(crate) fn load(&mut self, pages: impl Iterator<Item = (u64, PageBuf)>) {
        for (page, contents) in pages {
            loop {
                self.ftl.advance(&mut self.media, self.clock);
                let ended = (self.media.buffer.room(self.clock) == 0).then(|| self.media.buffer.next_end()).flatten();
                match ended.or_else(|| self.ftl.make_room(&mut self.media, self.clock, 0).err()) {
                    Some(at) => self.clock = at,
                    None => break,
                }
            }
            self.put(page, contents, self.clock, 0);
        }
        let end = self.ftl.flush(&mut self.media, self.clock, None);
        if let Some(cells) = &mut self.media.cells {
            cells.flushed(end);
        }
        self.clock = end;
        self.restart(0);
    }

    /// What has been done.
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
            erases: (erases.clone().min().unwrap_or(0), erases.max().unwrap_or(0)),
            space: self.ftl.space(&self.media.nand),
            buffered: self.media.buffer.held(),
            map_bytes: self.ftl.map_bytes(),
            span_ns: (self.started.unwrap_or(self.clock), self.clock),
            channels_busy_ns,
            chips_busy_ns,
            link_busy_ns: (self.link.0.busy(), self.link.1.busy()),
            ..self.stats.clone()
        }
    }

    /// Every rule that does not hold.
    pub(crate) fn check(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        self.ftl.check(&self.media.nand, &mut found);
        self.checks.look(&self.media, &mut found);
        found
    }
}
