//! [`EmulatedSsd`]: the device that others see, in front of an [`Engine`].
//!
//! Holds the engine's lock for the time of a call, and never while something of a caller runs. In virtual time a
//! completion is one event of the scheduler; no thread runs. In real time a timer thread sleeps until completions are
//! due.

use crate::checks::Report;
use crate::engine::{Command, Ended, Engine, Outcome};
use crate::events::Events;
use crate::ftl::{Action, Migrating, layer};
use crate::media::Media;
use crate::parameters::{Layer, ParameterError, Parameters};
use crate::stats::Stats;
use crate::units::{PAGE, Time};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use steadyfs_device::{
    Device, DeviceInfo, IoError, Migrations, Op, OpKind, PageBuf, Request, StreamHint, Upcall, Zone, ZoneGeometry,
    ZoneState, errno,
};
use steadyfs_rt::{Completion, EventCount, Leaf, now};

/// An SSD in memory that takes the time of a real one. See the head of the crate.
pub struct EmulatedSsd {
    parameters: Parameters,
    capacity: u64,
    shared: Arc<Shared>,
}

struct Shared {
    info: DeviceInfo,
    engine: Leaf<Engine>,
    /// Records are there that nobody has heard of.
    records: EventCount,
    events: Events,
}

impl EmulatedSsd {
    /// An empty SSD of `capacity` bytes with the translation layer that the parameters name. With an interval map the
    /// address space may be far larger than the capacity: writes beyond that are refused with ENOSPC.
    ///
    /// Page-mapped flash has the over-provisioning that the policy asks for, and at least the lines without which
    /// collection cannot work: on a device of few lines that is more. See [`Parameters::with_smaller_blocks`].
    ///
    /// # Errors
    /// Parameters or a capacity that cannot be.
    pub fn new(parameters: impl Into<Parameters>, capacity: u64) -> Result<Arc<Self>, ParameterError> {
        Self::build(parameters.into(), capacity)
    }

    /// A page-mapped SSD that keeps no contents.
    pub(crate) fn timing_only(parameters: Parameters, capacity: u64) -> Result<Arc<Self>, ParameterError> {
        if parameters.layer != Layer::PageMap {
            return Err(ParameterError::Zones("contents that lie on another device are page-mapped"));
        }
        let ssd = Self::build(parameters, capacity)?;
        ssd.shared.engine.with(Engine::forget_contents);
        Ok(ssd)
    }

    /// Fills a new device; see [`Engine::load`].
    pub(crate) fn load(&self, pages: Vec<(u64, PageBuf)>, full: &[u64]) {
        self.shared.engine.with(|engine| engine.load(pages, full));
    }

    fn build(parameters: Parameters, capacity: u64) -> Result<Arc<Self>, ParameterError> {
        parameters.validate()?;
        let (ftl, lines) = layer(&parameters, capacity)?;
        let media = Media::new(&parameters, lines);
        let info = DeviceInfo {
            blocks: parameters.addresses(capacity / PAGE),
            read_only: false,
            discard: ftl.takes_discards(),
            synchronous: false,
            prefers_fua: false,
            name: format!("emulated {}", parameters.name),
        };
        let engine = Leaf::new(Engine::new(parameters.clone(), media, ftl));
        let shared = Arc::new(Shared { info, engine, records: EventCount::new(), events: Events::new() });
        Ok(Arc::new(EmulatedSsd { parameters, capacity, shared }))
    }

    /// The device as it would be found if the power failed now: another one, with what was promised and any part of the
    /// rest, chosen by `seed`. This one goes on undisturbed. The map is built again, and counts what it holds as
    /// written. Zones keep what lies before the first page that is lost; those that were open are closed. A device that
    /// moves pages remembers where they are, and its records.
    ///
    /// `None` if the flash's contents are not known: see [`Parameters::remember_cells`]. With capacitors everything
    /// accepted survives.
    pub fn after_power_cut(&self, seed: u64) -> Option<Arc<Self>> {
        let mut random = seed;
        let mut chance = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 63 == 0
        };
        let time = now().as_nanos();
        let (survivors, full, remembered) = self.shared.engine.with(|engine| {
            let survivors = engine.survivors(time, &mut chance);
            (survivors, engine.ftl(time).full_zones(), engine.remembered(time, &mut chance))
        });
        let mut survivors = survivors?;
        if let Some((ledger, _)) = &remembered {
            survivors.retain(|(page, _)| *page < ledger.geometry().meta.end);
        }
        let found = Self::build(self.parameters.clone(), self.capacity).unwrap_or_else(|e| unreachable!("{e}"));
        found.load(survivors, &full);
        if let Some((ledger, contents)) = remembered {
            found.shared.engine.with(|engine| engine.restore(ledger, &contents));
        }
        Some(found)
    }

    /// Adds pages at the write pointer of the zone that starts at `zone`, and waits. The block where they went.
    ///
    /// # Errors
    /// What the zone has against it; see [`crate::ZoneLimits`].
    pub fn zone_append(&self, zone: u64, pages: Vec<PageBuf>, hint: StreamHint) -> Result<u64, IoError> {
        let (completion, placed) = (Completion::new(), Arc::new(AtomicU64::new(0)));
        let (waiter, place, count) = (completion.clone(), Arc::clone(&placed), pages.len() as u64);
        self.in_range(OpKind::ZoneAppend, zone, count)?;
        let done = Box::new(move |result| completion.complete(result));
        self.shared.submit([Command::Append { zone, pages, hint, placed, done }].into_iter());
        waiter.wait().map(|_| place.load(Ordering::Relaxed))
    }

    /// Opens the zone that starts at `zone` until it is closed, finished, full or reset: no other zone's writes close
    /// it.
    ///
    /// # Errors
    /// What the zone has against it.
    pub fn zone_open(&self, zone: u64) -> Result<(), IoError> {
        self.manage(Action::Open, zone)
    }

    /// Closes an open zone.
    ///
    /// # Errors
    /// What the zone has against it.
    pub fn zone_close(&self, zone: u64) -> Result<(), IoError> {
        self.manage(Action::Close, zone)
    }

    fn manage(&self, action: Action, block: u64) -> Result<(), IoError> {
        self.in_range(action.kind(), block, 1)?;
        let completion = Completion::new();
        let waiter = completion.clone();
        let done = Box::new(move |result| completion.complete(result));
        self.shared.submit([Command::Manage { action, block, done }].into_iter());
        waiter.wait().map(drop)
    }

    /// Lets the flash below a zone wear out: from now on it is [`ZoneState::ReadOnly`] or [`ZoneState::Offline`].
    ///
    /// # Errors
    /// EINVAL for any other state, and for blocks where no zone starts.
    pub fn wear_out_zone(&self, zone: u64, to: ZoneState) -> Result<(), IoError> {
        self.in_range(OpKind::ZoneReport, zone, 1)?;
        let result = self.shared.engine.with(|engine| engine.wear_out(now().as_nanos(), zone, to));
        result.map_err(|error| error.of(OpKind::ZoneReport, zone, 1))
    }

    fn in_range(&self, kind: OpKind, block: u64, count: u64) -> Result<(), IoError> {
        let error = |error: IoError| IoError { op: kind, ..error };
        self.shared.info.check(&Op::Read { block, count }).map_err(error)
    }

    /// Asks a device that moves pages for something; `None` if it is another one.
    pub(crate) fn records<R>(&self, ask: impl FnOnce(&mut Migrating, &mut Media, Time) -> R) -> Option<R> {
        let (answer, outcome) = self.shared.engine.with(|engine| engine.records(now().as_nanos(), ask))?;
        self.shared.carry_out(outcome);
        Some(answer)
    }

    /// Looks at such a device.
    pub(crate) fn of_records<R>(&self, look: impl FnOnce(&Migrating) -> R) -> Option<R> {
        self.shared.engine.with(|engine| engine.of_records(look))
    }

    /// The next upcall of such a device, and when it arrives.
    pub(crate) fn upcall(&self) -> Option<(Upcall, Time)> {
        self.shared.engine.with(|engine| engine.upcall(now().as_nanos()))
    }

    /// Is notified when there are records that nobody has heard of, and when the session ends.
    pub(crate) fn news_of_records(&self) -> &EventCount {
        &self.shared.records
    }

    /// The parameters that it was made from.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// What the device has done so far.
    pub fn stats(&self) -> Stats {
        self.shared.engine.with(|engine| engine.stats())
    }

    /// Looks at every rule that the emulator must keep. Takes time in proportion to the flash.
    pub fn check(&self) -> Report {
        Report { found: self.shared.engine.with(Engine::check) }
    }
}

impl Shared {
    fn submit(self: &Arc<Self>, commands: impl Iterator<Item = Command>) {
        let outcome = self.engine.with(|engine| engine.submit(now().as_nanos(), commands));
        self.carry_out(outcome);
    }

    fn carry_out(self: &Arc<Self>, Outcome { ended, wake, records }: Outcome) {
        if records {
            self.records.notify_all();
        }
        if let Some(at) = wake {
            let shared = Arc::clone(self);
            self.events.at(at, Box::new(move || shared.wake(at)));
        }
        ended.into_iter().for_each(|ended| self.answer(ended));
    }

    /// Answers a request when its time has come, which can become later until then.
    fn answer(self: &Arc<Self>, ended: Ended) {
        let shared = Arc::clone(self);
        let call = move || match shared.engine.with(|engine| engine.answered(now().as_nanos(), ended.promise)) {
            Ok(outcome) => {
                shared.carry_out(outcome);
                (ended.done)(ended.result);
            }
            Err(at) => shared.answer(Ended { at, ..ended }),
        };
        self.events.at(ended.at, Box::new(call));
    }

    fn wake(self: &Arc<Self>, at: Time) {
        let outcome = self.engine.with(|engine| engine.wake(now().as_nanos(), at));
        self.carry_out(outcome);
    }
}

impl Device for EmulatedSsd {
    fn info(&self) -> DeviceInfo {
        self.shared.info.clone()
    }

    fn submit(&self, batch: Vec<Request>) {
        let mut refused = Vec::new();
        let accepted = batch.into_iter().filter_map(|request| match self.shared.info.check(&request.op) {
            Ok(()) => Some(Command::Request(request)),
            Err(error) => {
                refused.push((request.done, error));
                None
            }
        });
        self.shared.submit(accepted);
        for (done, error) in refused {
            done(Err(error));
        }
    }

    fn held_from(&self, block: u64) -> Result<Option<Range<u64>>, IoError> {
        let held = |engine: &mut Engine| {
            let ftl = engine.ftl(now().as_nanos());
            let first = ftl.next_mapped(block)?;
            let mut end = first + 1;
            while ftl.next_mapped(end) == Some(end) {
                end += 1;
            }
            Some(first..end)
        };
        Ok(self.shared.engine.with(held))
    }

    fn migrations(&self) -> Option<&dyn Migrations> {
        matches!(self.parameters.layer, Layer::Migrating(_)).then_some(self as &dyn Migrations)
    }

    fn zones(&self) -> Option<ZoneGeometry> {
        self.shared.engine.with(|engine| engine.ftl(now().as_nanos()).zones())
    }

    fn zone_report(&self, first: u64, count: u64) -> Result<Vec<Zone>, IoError> {
        let error = |errno| IoError::from_errno(OpKind::ZoneReport, first, count, errno);
        let zones = self.zones().ok_or_else(|| error(errno::EOPNOTSUPP))?;
        if first.checked_add(count).is_none_or(|end| end > zones.zones) {
            return Err(error(errno::EINVAL));
        }
        let report = |engine: &mut Engine| {
            let ftl = engine.ftl(now().as_nanos());
            (first..first + count).filter_map(|number| ftl.report(number)).collect()
        };
        Ok(self.shared.engine.with(report))
    }
}
