//! [`ZonedDevice`]: a zoned device in memory that is strict with its host, for tests.
//!
//! A zone is written at its write pointer and nowhere else, is emptied as a whole, and no more zones are partly written
//! than the device allows. What breaks a rule ends with the error that Linux makes of it, and is noted: a test asks in
//! the end whether there was anything ([`ZonedDevice::breaches`]). The first zones may be conventional. A zone that is
//! open is closed when another one needs its place; that costs nothing and breaks nothing.
//!
//! Every request ends before `submit` returns. What completed is safe after a flush; of the rest a power cut keeps in
//! each zone what lies before the first block it loses, and any part in conventional zones. No cut leaves more zones
//! partly written than the device allows: a zone that takes the place of another makes safe what was done in that one.

use crate::{
    Device, DeviceInfo, IoError, IoResult, MemDevice, Op, OpKind, PageBuf, Request, Zone, ZoneGeometry, ZoneState,
    errno,
};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use steadyfs_rt::{LockClass, Mutex};

/// Held for one request, around those of the memory below.
static STATE: LockClass = LockClass::new("device.zoned", u16::MAX - 7);

/// A zone that takes writes at its write pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sequential {
    state: ZoneState,
    /// Blocks written, or skipped by a finish.
    written: u64,
}

const EMPTY: Sequential = Sequential { state: ZoneState::Empty, written: 0 };

impl Sequential {
    fn is_active(self) -> bool {
        matches!(self.state, ZoneState::Open | ZoneState::Closed)
    }
}

/// What changed the device since the last flush.
enum Step {
    Write {
        block: u64,
        pages: Vec<PageBuf>,
        fua: bool,
    },
    Discard {
        block: u64,
        count: u64,
    },
    Reset {
        zone: usize,
    },
    Finish {
        zone: usize,
    },
    /// Another zone has the place of this one: what was done here is safe.
    Settled {
        zone: usize,
    },
}

/// The contents of the device.
struct Contents {
    memory: MemDevice,
    zones: Vec<Sequential>,
}

impl Contents {
    fn fork(&self) -> Self {
        Contents { memory: self.memory.fork(), zones: self.zones.clone() }
    }
}

struct State {
    now: Contents,
    /// What a power cut leaves in any case.
    safe: Contents,
    /// The steps that it may leave beside that.
    since: Vec<Step>,
    /// Zones that are open, the one that was opened first in front.
    open: VecDeque<usize>,
    breaches: Vec<String>,
    most_active: u32,
    resets: u64,
    finishes: u64,
}

/// What a zoned device was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ZoneCounts {
    /// The most zones that were open or closed at one time.
    pub most_active: u32,
    /// Zones that were emptied.
    pub resets: u64,
    /// Zones that were finished.
    pub finishes: u64,
}

/// A strict zoned device. See the head of the module.
pub struct ZonedDevice {
    info: DeviceInfo,
    geometry: ZoneGeometry,
    state: Mutex<State>,
}

impl ZonedDevice {
    /// A device that holds nothing.
    ///
    /// # Panics
    /// If the geometry is not one.
    pub fn new(geometry: ZoneGeometry) -> Self {
        let ZoneGeometry { size, capacity, zones, conventional, max_open, max_active } = geometry;
        assert!((1..=size).contains(&capacity) && conventional <= zones, "no zones: {geometry:?}");
        assert!(max_active == 0 || (1..=max_active).contains(&max_open), "no limits: {geometry:?}");
        let memory = MemDevice::new(size * zones);
        let zones = vec![EMPTY; (zones - conventional) as usize];
        Self::holding(geometry, Contents { memory, zones })
    }

    fn holding(geometry: ZoneGeometry, now: Contents) -> Self {
        let info = DeviceInfo {
            blocks: geometry.size * geometry.zones,
            read_only: false,
            discard: geometry.conventional > 0,
            synchronous: true,
            prefers_fua: false,
            name: "zoned memory".into(),
        };
        let state = State {
            safe: now.fork(),
            now,
            since: Vec::new(),
            open: VecDeque::new(),
            breaches: Vec::new(),
            most_active: 0,
            resets: 0,
            finishes: 0,
        };
        ZonedDevice { info, geometry, state: Mutex::new(&STATE, state) }
    }

    /// The device as it would be found if the power failed now; `seed` chooses what is lost. This one goes on
    /// undisturbed.
    pub fn after_power_cut(&self, seed: u64) -> Self {
        let mut random = seed;
        let mut below = move |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        let state = self.state.lock();
        let mut found = state.safe.fork();
        // A zone keeps what came before the first loss.
        let mut ended = vec![false; found.zones.len()];
        let safe_up_to = |zone: usize| {
            let is_safe = |step: &Step| match step {
                Step::Write { fua, .. } => *fua && self.changed_by(step) == Some(zone),
                Step::Settled { zone: settled } => *settled == zone,
                _ => false,
            };
            state.since.iter().rposition(is_safe)
        };
        for (at, step) in state.since.iter().enumerate() {
            match (self.changed_by(step), step) {
                (None, Step::Write { fua: true, .. }) => self.apply(&mut found, step, u64::MAX),
                (None, _) if below(2) == 0 => {}
                (None, _) => self.apply(&mut found, step, u64::MAX),
                (Some(zone), _) if ended[zone] => {}
                (Some(zone), _) if safe_up_to(zone).is_some_and(|safe| at <= safe) || below(4) > 0 => {
                    self.apply(&mut found, step, u64::MAX);
                }
                (Some(zone), Step::Write { pages, .. }) => {
                    self.apply(&mut found, step, below(pages.len() as u64));
                    ended[zone] = true;
                }
                (Some(zone), _) => ended[zone] = true,
            }
        }
        for zone in found.zones.iter_mut().filter(|zone| zone.state == ZoneState::Open) {
            zone.state = ZoneState::Closed;
        }
        Self::holding(self.geometry, found)
    }

    /// What the host did that a zone does not take, so far.
    pub fn breaches(&self) -> Vec<String> {
        self.state.lock().breaches.clone()
    }

    /// The requests so far.
    pub fn counts(&self) -> ZoneCounts {
        let state = self.state.lock();
        ZoneCounts { most_active: state.most_active, resets: state.resets, finishes: state.finishes }
    }

    /// Lets a zone wear out: from now on it is [`ZoneState::ReadOnly`] or [`ZoneState::Offline`].
    ///
    /// # Panics
    /// If no such zone takes writes at a pointer.
    pub fn wear_out(&self, start: u64, to: ZoneState) {
        let zone = self.sequential(start).filter(|_| start.is_multiple_of(self.geometry.size));
        let mut state = self.state.lock();
        let zone = zone.unwrap_or_else(|| panic!("no sequential zone starts at block {start}"));
        state.open.retain(|open| *open != zone);
        for contents in [true, false] {
            let zones = if contents { &mut state.now.zones } else { &mut state.safe.zones };
            zones[zone].state = to;
        }
    }

    /// The contents of the device, as one without zones has it.
    pub fn contents(&self) -> MemDevice {
        self.state.lock().now.memory.fork()
    }

    /// Number, behind the conventional ones, of the zone that a block is in.
    fn sequential(&self, block: u64) -> Option<usize> {
        (block / self.geometry.size).checked_sub(self.geometry.conventional).map(|zone| zone as usize)
    }

    fn start(&self, zone: usize) -> u64 {
        (self.geometry.conventional + zone as u64) * self.geometry.size
    }

    /// The zone with a write pointer that a step is about.
    fn changed_by(&self, step: &Step) -> Option<usize> {
        match step {
            Step::Write { block, .. } | Step::Discard { block, .. } => self.sequential(*block),
            Step::Reset { zone } | Step::Finish { zone } | Step::Settled { zone } => Some(*zone),
        }
    }

    /// Comes before a zone begins to be written: zones that are full or empty, and that a power cut could leave partly
    /// written, settle if there could be too many then.
    fn settle(&self, state: &mut State) {
        let mut unsettled = BTreeSet::new();
        for step in &state.since {
            match (self.changed_by(step), step) {
                (Some(zone), Step::Settled { .. }) => drop(unsettled.remove(&zone)),
                (Some(zone), _) => drop(unsettled.insert(zone)),
                (None, _) => {}
            }
        }
        unsettled.retain(|zone| !state.now.zones[*zone].is_active());
        if state.active() + unsettled.len() as u32 >= self.geometry.max_active {
            state.since.extend(unsettled.into_iter().map(|zone| Step::Settled { zone }));
        }
    }

    /// Does a step, of a write the first `most` blocks.
    fn apply(&self, contents: &mut Contents, step: &Step, most: u64) {
        let done = match step {
            Step::Write { block, pages, .. } => {
                let count = most.min(pages.len() as u64);
                if let Some(zone) = self.sequential(*block).filter(|_| count > 0) {
                    let zone = &mut contents.zones[zone];
                    zone.written += count;
                    let is_full = zone.written == self.geometry.capacity;
                    zone.state = if is_full { ZoneState::Full } else { ZoneState::Open };
                }
                contents.memory.write(*block, pages[..count as usize].to_vec())
            }
            Step::Discard { block, count } => contents.memory.discard(*block, *count),
            Step::Reset { zone } => {
                contents.zones[*zone] = EMPTY;
                contents.memory.discard(self.start(*zone), self.geometry.size)
            }
            Step::Finish { zone } => {
                contents.zones[*zone] = Sequential { state: ZoneState::Full, written: self.geometry.capacity };
                Ok(())
            }
            Step::Settled { .. } => Ok(()),
        };
        assert!(done.is_ok(), "memory refuses what the device took: {done:?}");
    }

    fn perform(&self, op: Op) -> IoResult {
        self.info.check(&op)?;
        let mut state = self.state.lock();
        let (block, count) = op.range();
        let step = match op {
            Op::Read { .. } => return self.look(&state, block, count),
            Op::Flush => {
                state.safe = state.now.fork();
                state.since.clear();
                return Ok(Vec::new());
            }
            Op::Write { block, pages, fua, .. } => {
                self.may_write(&mut state, block, count)?;
                Step::Write { block, pages, fua }
            }
            Op::Discard { .. } if block + count <= self.start(0) => Step::Discard { block, count },
            Op::Discard { .. } => {
                return Err(state.breach(OpKind::Discard, block, count, errno::EOPNOTSUPP, "a zone is discarded"));
            }
            Op::ZoneReset { .. } | Op::ZoneFinish { .. } => match self.may_manage(&mut state, &op)? {
                Some(step) => step,
                None => return Ok(Vec::new()),
            },
        };
        self.apply(&mut state.now, &step, u64::MAX);
        state.since.push(step);
        let active = state.now.zones.iter().filter(|zone| zone.is_active()).count() as u32;
        state.most_active = state.most_active.max(active);
        assert!(self.geometry.max_active == 0 || active <= self.geometry.max_active, "{active} zones are active");
        let zones = std::mem::take(&mut state.open);
        state.open = zones.into_iter().filter(|zone| state.now.zones[*zone].state == ZoneState::Open).collect();
        Ok(Vec::new())
    }

    fn look(&self, state: &State, block: u64, count: u64) -> IoResult {
        let last = block + count.max(1) - 1;
        let zones = (block / self.geometry.size..=last / self.geometry.size)
            .filter_map(|zone| self.sequential(zone * self.geometry.size));
        for zone in zones {
            if state.now.zones[zone].state == ZoneState::Offline {
                return Err(IoError::new(OpKind::Read, block, count, errno::EIO, "Zone Is Offline"));
            }
        }
        state.now.memory.read(block, count)
    }

    /// Refuses a write that its zone does not take; else opens the zone.
    fn may_write(&self, state: &mut State, block: u64, count: u64) -> Result<(), IoError> {
        let Some(number) = self.sequential(block) else {
            return match block + count <= self.start(0) {
                true => Ok(()),
                false => Err(state.breach(OpKind::Write, block, count, errno::EIO, "Zone Boundary Error")),
            };
        };
        let (zone, at) = (state.now.zones[number], block - self.start(number));
        let limits = self.geometry;
        let refused = match zone.state {
            ZoneState::ReadOnly => {
                return Err(IoError::new(OpKind::Write, block, count, errno::EIO, "Zone Is Read Only"));
            }
            ZoneState::Offline => return Err(IoError::new(OpKind::Write, block, count, errno::EIO, "Zone Is Offline")),
            ZoneState::Full => Some((errno::EIO, "Zone Is Full")),
            _ if at != zone.written => Some((errno::EIO, "Zone Invalid Write")),
            _ if at + count > limits.capacity => Some((errno::EIO, "Zone Boundary Error")),
            ZoneState::Empty if limits.max_active > 0 && state.active() == limits.max_active => {
                Some((errno::EOVERFLOW, "Too Many Active Zones"))
            }
            _ => None,
        };
        if let Some((errno, why)) = refused {
            return Err(state.breach(OpKind::Write, block, count, errno, why));
        }
        if zone.state == ZoneState::Empty && limits.max_active > 0 {
            self.settle(state);
        }
        if zone.state != ZoneState::Open && count > 0 {
            if limits.max_open > 0
                && state.open.len() as u32 == limits.max_open
                && let Some(oldest) = state.open.pop_front()
            {
                state.now.zones[oldest].state = ZoneState::Closed;
            }
            state.open.push_back(number);
        }
        Ok(())
    }

    /// Refuses what a zone is not to be asked; `None` if there is nothing to do.
    fn may_manage(&self, state: &mut State, op: &Op) -> Result<Option<Step>, IoError> {
        let (block, _) = op.range();
        let Some(zone) = self.sequential(block).filter(|zone| self.start(*zone) == block) else {
            return Err(state.breach(op.kind(), block, 1, errno::EINVAL, "Invalid Field in Command"));
        };
        let is_reset = matches!(op, Op::ZoneReset { .. });
        match state.now.zones[zone].state {
            ZoneState::ReadOnly => Err(IoError::new(op.kind(), block, 1, errno::EIO, "Zone Is Read Only")),
            ZoneState::Offline => Err(IoError::new(op.kind(), block, 1, errno::EIO, "Zone Is Offline")),
            ZoneState::Empty if is_reset => Ok(None),
            ZoneState::Full if !is_reset => Ok(None),
            _ if is_reset => {
                state.resets += 1;
                Ok(Some(Step::Reset { zone }))
            }
            _ => {
                state.finishes += 1;
                Ok(Some(Step::Finish { zone }))
            }
        }
    }
}

impl State {
    fn active(&self) -> u32 {
        self.now.zones.iter().filter(|zone| zone.is_active()).count() as u32
    }

    /// Notes what the host should not have asked.
    fn breach(&mut self, kind: OpKind, block: u64, count: u64, errno: i32, why: &str) -> IoError {
        let error = IoError::new(kind, block, count, errno, why);
        self.breaches.push(error.to_string());
        error
    }
}

impl Device for ZonedDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn submit(&self, batch: Vec<Request>) {
        for Request { op, done } in batch {
            done(self.perform(op));
        }
    }

    fn zones(&self) -> Option<ZoneGeometry> {
        Some(self.geometry)
    }

    fn zone_report(&self, first: u64, count: u64) -> Result<Vec<Zone>, IoError> {
        if first.checked_add(count).is_none_or(|end| end > self.geometry.zones) {
            return Err(IoError::from_errno(OpKind::ZoneReport, first, count, errno::EINVAL));
        }
        let state = self.state.lock();
        let report = |number: u64| {
            let start = number * self.geometry.size;
            match self.sequential(start).map(|zone| state.now.zones[zone]) {
                None => Zone { start, write_pointer: start, state: ZoneState::Conventional },
                Some(zone) => Zone { start, write_pointer: start + zone.written, state: zone.state },
            }
        };
        Ok((first..first + count).map(report).collect())
    }

    fn held_from(&self, block: u64) -> Result<Option<Range<u64>>, IoError> {
        self.state.lock().now.memory.held_from(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StreamHint;

    const SIZE: u64 = 8;

    fn device(max_open: u32, max_active: u32) -> ZonedDevice {
        ZonedDevice::new(ZoneGeometry { size: SIZE, capacity: SIZE, zones: 8, conventional: 2, max_open, max_active })
    }

    fn pages(count: u64, byte: u8) -> Vec<PageBuf> {
        vec![PageBuf::from_slice(&[byte; 4096]); count as usize]
    }

    fn byte(device: &ZonedDevice, block: u64) -> u8 {
        device.read_one(block).unwrap().to_array()[0]
    }

    fn zone(device: &ZonedDevice, number: u64) -> (u64, ZoneState) {
        let zone = device.zone_report(number, 1).unwrap()[0];
        (zone.write_pointer - zone.start, zone.state)
    }

    #[test]
    fn what_breaks_a_rule_is_refused_and_noted() {
        let device = device(2, 3);
        let mut breaches = 0;
        let mut refused = |result: Result<(), IoError>, words: &str, errno: i32| {
            let error = result.unwrap_err();
            assert_eq!((error.cause.as_str(), error.errno()), (words, errno));
            breaches += 1;
            assert_eq!(device.breaches().len(), breaches);
        };
        device.write(5, pages(9, 1)).unwrap();
        refused(device.write(14, pages(4, 1)), "Zone Boundary Error", errno::EIO);
        refused(device.write(17, pages(1, 1)), "Zone Invalid Write", errno::EIO);
        device.write(16, pages(3, 1)).unwrap();
        refused(device.write(18, pages(1, 1)), "Zone Invalid Write", errno::EIO);
        refused(device.write(19, pages(6, 1)), "Zone Boundary Error", errno::EIO);
        device.write(24, pages(1, 1)).unwrap();
        device.write(32, pages(1, 1)).unwrap();
        assert_eq!([2, 3, 4].map(|at| zone(&device, at).1), [ZoneState::Closed, ZoneState::Open, ZoneState::Open]);
        refused(device.write(40, pages(1, 1)), "Too Many Active Zones", errno::EOVERFLOW);
        device.write(19, pages(5, 1)).unwrap();
        assert_eq!(zone(&device, 2), (8, ZoneState::Full));
        refused(device.write(16, pages(1, 1)), "Zone Is Full", errno::EIO);
        device.write(40, pages(1, 1)).unwrap();
        refused(device.discard(16, 8), "a zone is discarded", errno::EOPNOTSUPP);
        refused(device.run(Op::ZoneReset { block: 17 }).map(drop), "Invalid Field in Command", errno::EINVAL);
        refused(device.run(Op::ZoneFinish { block: 0 }).map(drop), "Invalid Field in Command", errno::EINVAL);
        assert_eq!(device.counts(), ZoneCounts { most_active: 3, resets: 0, finishes: 0 });
    }

    #[test]
    fn resets_empty_and_finishes_fill() {
        let device = device(0, 0);
        device.write(16, pages(2, 7)).unwrap();
        device.run(Op::ZoneFinish { block: 16 }).unwrap();
        assert_eq!((zone(&device, 2), byte(&device, 17), byte(&device, 18)), ((8, ZoneState::Full), 7, 0));
        device.run(Op::ZoneReset { block: 16 }).unwrap();
        assert_eq!((zone(&device, 2), byte(&device, 17)), ((0, ZoneState::Empty), 0));
        device.write(16, pages(1, 8)).unwrap();
        device.wear_out(16, ZoneState::ReadOnly);
        assert!(device.write(17, pages(1, 1)).is_err() && device.run(Op::ZoneReset { block: 16 }).is_err());
        assert_eq!(byte(&device, 16), 8);
        device.wear_out(16, ZoneState::Offline);
        assert!(device.read_one(16).is_err());
        assert_eq!(device.breaches(), [""; 0], "nobody can know that a zone wears out");
    }

    /// A device cannot keep more zones partly written than it has places for, whatever it loses.
    #[test]
    fn no_power_cut_leaves_more_zones_active_than_allowed() {
        let active = |device: &ZonedDevice| device.state.lock().active();
        let (mut lost, mut most) = (0, 0);
        for seed in 0..200 {
            let device = device(3, 3);
            device.write(16, pages(2, 1)).unwrap();
            device.write(24, pages(2, 1)).unwrap();
            device.flush().unwrap();
            device.run(Op::ZoneFinish { block: 16 }).unwrap();
            device.write(26, pages(6, 2)).unwrap();
            lost += usize::from(zone(&device.after_power_cut(seed), 2).1 != ZoneState::Full);
            for start in [32, 40, 48] {
                device.write(start, pages(2, 3)).unwrap();
                most = most.max(active(&device.after_power_cut(seed)));
            }
            device.run(Op::ZoneReset { block: 48 }).unwrap();
            device.write(56, pages(2, 3)).unwrap();
            most = most.max(active(&device.after_power_cut(seed)));
        }
        assert!(lost > 20, "what nobody needed to settle can be lost: {lost}");
        assert_eq!(most, 3);
    }

    #[test]
    fn a_power_cut_keeps_the_beginning_of_what_came_since_the_flush() {
        let write = |device: &ZonedDevice, block, byte, fua| {
            let op = Op::Write { block, pages: pages(1, byte), hint: StreamHint::DataWarm, fua };
            device.run(op).unwrap();
        };
        let (mut lengths, mut torn) = ([0; 5], 0);
        for seed in 0..200 {
            let device = device(4, 4);
            device.write(16, pages(2, 1)).unwrap();
            device.write(0, pages(3, 1)).unwrap();
            device.flush().unwrap();
            device.write(18, pages(2, 2)).unwrap();
            write(&device, 0, 2, false);
            write(&device, 1, 2, true);
            write(&device, 24, 2, true);
            device.write(20, pages(2, 2)).unwrap();
            device.run(Op::ZoneReset { block: 16 }).unwrap();
            let found = device.after_power_cut(seed);
            assert_eq!((byte(&found, 1), byte(&found, 2), byte(&found, 24)), (2, 1, 2));
            let (written, state) = zone(&found, 2);
            assert_eq!(state, if written == 0 { ZoneState::Empty } else { ZoneState::Closed });
            for at in 0..6 {
                let expected = if at >= written { 0 } else { 1 + at / 2 };
                assert_eq!(u64::from(byte(&found, 16 + at)).min(1), expected.min(1), "seed {seed}, block {at}");
            }
            assert_eq!(zone(&device, 2).0, 0, "the device goes on");
            lengths[if written == 0 { 0 } else { written as usize - 2 }] += 1;
            torn += usize::from(byte(&found, 0) == 1);
        }
        assert!(lengths.iter().all(|count| *count > 2), "{lengths:?}");
        assert!((60..140).contains(&torn), "{torn}");
    }
}
