//! Zoned block devices of the kernel: their geometry, their states, and their writes in order.
//!
//! The kernel speaks of zones in sectors of 512 bytes (`linux/blkzoned.h`) and gives the limits in sysfs. The system
//! calls stand behind [`ZoneCalls`], so that tests can answer them. Zones are opened by the first write to them; the
//! device closes by itself what it wants closed.
//!
//! Kept true: operations on a zone with a write pointer are done one after the other, in the order of their submission.

mod calls;
#[cfg(test)]
mod tests;

pub(super) use calls::{Manage, Reported, ZoneCalls};

use super::threads::{Perform, ThreadPool};
use crate::device::IoResult;
use crate::{BLOCK_SIZE, IoError, Op, OpKind, Request, Zone, ZoneGeometry, ZoneState, errno};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use steadyfs_rt::Leaf;

/// Sectors of a block.
const SECTORS: u64 = BLOCK_SIZE as u64 / 512;
/// Zones that are asked for in one call.
const REPORTED: u32 = 1024;

/// Limits that sysfs tells; 0 for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ZoneLimits {
    pub(super) max_open: u32,
    pub(super) max_active: u32,
}

/// How a zoned block device is divided. A last zone that is smaller than the others is left out.
///
/// # Errors
/// The device does not tell, or is divided in a way that no volume can use; why.
pub(super) fn geometry(calls: &dyn ZoneCalls, limits: ZoneLimits) -> Result<ZoneGeometry, String> {
    let told = |result: Result<u32, i32>| {
        result.map(u64::from).map_err(|errno| describe("it does not tell of its zones", errno))
    };
    let (sectors, zones) = (told(calls.zone_sectors())?, told(calls.zone_count())?);
    if sectors == 0 || !sectors.is_multiple_of(SECTORS) {
        return Err(format!("its zones have {sectors} sectors of 512 bytes, which are no whole blocks"));
    }
    let size = sectors / SECTORS;
    let all = report_all(calls, sectors, zones).map_err(|errno| describe("its zones cannot be listed", errno))?;
    let misplaced = all.iter().zip(0..).find(|(zone, number)| zone.start != number * sectors);
    if let Some((zone, number)) = misplaced {
        return Err(format!("it says that zone {number} begins at sector {}, and zones have {sectors}", zone.start));
    }
    let whole: Vec<&Reported> = all.iter().take_while(|zone| zone.len == sectors).collect();
    if whole.is_empty() || whole.len() + 1 < all.len() {
        return Err("its zones are not of one size".to_owned());
    }
    let conventional = whole.iter().take_while(|zone| zone.is_conventional()).count();
    let in_order = &whole[conventional..];
    if in_order.iter().any(|zone| zone.is_conventional()) {
        return Err("it has conventional zones behind others, and only those at its beginning can be used".to_owned());
    }
    let capacity = in_order.iter().map(|zone| zone.capacity.min(zone.len) / SECTORS).min().unwrap_or(size);
    Ok(ZoneGeometry {
        size,
        capacity,
        zones: whole.len() as u64,
        conventional: conventional as u64,
        max_open: limits.max_open,
        max_active: limits.max_active,
    })
}

fn describe(what: &str, errno: i32) -> String {
    format!("{what} ({})", std::io::Error::from_raw_os_error(errno))
}

fn report_all(calls: &dyn ZoneCalls, sectors: u64, zones: u64) -> Result<Vec<Reported>, i32> {
    let mut all: Vec<Reported> = Vec::new();
    while (all.len() as u64) < zones {
        let most = (zones - all.len() as u64).min(u64::from(REPORTED)) as u32; // fits: at most REPORTED
        let part = calls.report(all.len() as u64 * sectors, most)?;
        if part.is_empty() || part.len() > most as usize {
            return Err(errno::EIO);
        }
        all.extend(part);
    }
    Ok(all)
}

/// The state of zones that [`geometry`] knows.
pub(super) fn report(
    calls: &dyn ZoneCalls,
    geometry: &ZoneGeometry,
    first: u64,
    count: u64,
) -> Result<Vec<Zone>, IoError> {
    let fail = |errno: i32| IoError::from_errno(OpKind::ZoneReport, first, count, errno);
    if first.checked_add(count).is_none_or(|end| end > geometry.zones) {
        return Err(fail(errno::EINVAL));
    }
    let mut found = Vec::new();
    while (found.len() as u64) < count {
        let next = first + found.len() as u64;
        let most = (count - found.len() as u64).min(u64::from(REPORTED)) as u32; // fits: at most REPORTED
        let part = calls.report(next * geometry.size * SECTORS, most).map_err(fail)?;
        if part.is_empty() || part.len() > most as usize {
            let why = format!("the device tells of {} zones where {most} are", part.len());
            return Err(IoError::new(OpKind::ZoneReport, first, count, errno::EIO, why));
        }
        for (zone, number) in part.iter().zip(next..) {
            found.push(zone.read(number * geometry.size, geometry).ok_or_else(|| {
                let why = format!("the device tells of {zone:?} where zone {number} is");
                IoError::new(OpKind::ZoneReport, first, count, errno::EIO, why)
            })?);
        }
    }
    Ok(found)
}

impl Reported {
    /// In blocks; `None` if it contradicts the geometry.
    fn read(&self, start: u64, geometry: &ZoneGeometry) -> Option<Zone> {
        let state = self.state()?;
        let end = start + geometry.capacity;
        let write_pointer = match state {
            ZoneState::Conventional | ZoneState::Empty => start,
            // The kernel says nothing of use about the pointer of these.
            ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => end,
            ZoneState::Open | ZoneState::Closed if self.wp.is_multiple_of(SECTORS) => self.wp / SECTORS,
            ZoneState::Open | ZoneState::Closed => return None,
        };
        let fits = self.start == start * SECTORS && (start..=end).contains(&write_pointer);
        fits.then_some(Zone { start, write_pointer, state })
    }
}

/// Does operations on zones by the calls that there are for them.
struct ByCalls<C> {
    calls: Arc<C>,
    geometry: ZoneGeometry,
}

impl<C: ZoneCalls + Perform> Perform for ByCalls<C> {
    fn perform(&self, op: Op) -> IoResult {
        let (kind, (block, _)) = (op.kind(), op.range());
        let what = match op {
            Op::ZoneReset { .. } => Manage::Reset,
            Op::ZoneFinish { .. } => Manage::Finish,
            other => return self.calls.perform(other),
        };
        let size = self.geometry.size;
        if !block.is_multiple_of(size) || block / size < self.geometry.conventional {
            return Err(IoError::from_errno(kind, block, 1, errno::EINVAL));
        }
        let done = self.calls.manage(what, [block * SECTORS, size * SECTORS]);
        done.map(|()| Vec::new()).map_err(|errno| IoError::from_errno(kind, block, 1, errno))
    }
}

/// Writes, resets and finishes of zones in their order; everything else at once.
pub(super) struct InZones<C> {
    shared: Arc<Shared<C>>,
}

struct Shared<C> {
    calls: Arc<C>,
    pool: ThreadPool<ByCalls<C>>,
    geometry: ZoneGeometry,
    /// What waits in zones that are at work.
    waiting: Leaf<HashMap<u64, VecDeque<Request>>>,
}

impl<C: ZoneCalls + Perform> InZones<C> {
    /// Over what does the operations.
    pub(super) fn start(calls: &Arc<C>, geometry: ZoneGeometry) -> std::io::Result<Self> {
        let calls = Arc::clone(calls);
        let pool = ThreadPool::start(&Arc::new(ByCalls { calls: Arc::clone(&calls), geometry }))?;
        Ok(InZones { shared: Arc::new(Shared { calls, pool, geometry, waiting: Leaf::new(HashMap::new()) }) })
    }

    pub(super) fn geometry(&self) -> ZoneGeometry {
        self.shared.geometry
    }

    /// The state of zones.
    pub(super) fn report(&self, first: u64, count: u64) -> Result<Vec<Zone>, IoError> {
        report(&*self.shared.calls, &self.shared.geometry, first, count)
    }

    /// Queues requests whose ranges were checked.
    pub(super) fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            let Some(zone) = self.shared.zone_of(&request.op) else {
                self.shared.pool.submit(vec![request]);
                continue;
            };
            let due = self.shared.waiting.with(|waiting| match waiting.get_mut(&zone) {
                Some(queue) => {
                    queue.push_back(request);
                    None
                }
                None => {
                    waiting.insert(zone, VecDeque::new());
                    Some(request)
                }
            });
            due.into_iter().for_each(|request| self.shared.begin(zone, request));
        }
    }
}

impl<C: ZoneCalls + Perform> Shared<C> {
    /// The zone whose order matters to an operation.
    fn zone_of(&self, op: &Op) -> Option<u64> {
        let zone = op.range().0 / self.geometry.size;
        let in_order = matches!(op, Op::Write { .. } | Op::ZoneReset { .. } | Op::ZoneFinish { .. });
        (in_order && zone >= self.geometry.conventional).then_some(zone)
    }

    /// Has an operation done whose turn it is, and then the next.
    fn begin(self: &Arc<Self>, zone: u64, request: Request) {
        let (shared, Request { op, done }) = (Arc::clone(self), request);
        let ends = move |result: IoResult| {
            let next = shared.waiting.with(|waiting| {
                let next = waiting.get_mut(&zone).and_then(VecDeque::pop_front);
                if next.is_none() {
                    waiting.remove(&zone);
                }
                next
            });
            next.into_iter().for_each(|next| shared.begin(zone, next));
            // Before the submitter hears of it, who may wait for the device to be closed.
            drop(shared);
            done(result);
        };
        self.pool.submit(vec![Request::new(op, ends)]);
    }
}
