//! Power cuts at any moment, also amid requests: what was promised is there, and nothing is there that was never
//! written.

use crate::common::{MIB, Random, assert_clean, page, small, timed};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_device::{Device, Op, PageBuf, Request, StreamHint};
use steadyfs_flash::{EmulatedSsd, Order, Parameters, Stats, Suspendable, Suspension};
use steadyfs_rt::{LockClass, Mutex, sleep};

static MODEL: LockClass = LockClass::new("test.model", 0);

/// What a block may hold.
#[derive(Clone, Default)]
struct History {
    /// Versions in the order of their submission (0: discarded), and whether they are complete.
    versions: Vec<(u64, bool)>,
    /// Versions before this one are gone.
    promised: usize,
}

impl History {
    fn allows(&self, number: u64, found: &PageBuf) -> bool {
        let holds = |&(version, _): &(u64, bool)| version == 0 || *found == page(number, version);
        let never = self.promised == 0 && *found == PageBuf::zeroed();
        never || self.versions[self.promised.saturating_sub(1)..].iter().any(holds)
    }

    /// The newest complete version, counted from 1; a discard promises nothing, and lets anything come back.
    fn complete(&self) -> usize {
        let newest = self.versions.iter().rposition(|&(_, complete)| complete);
        newest.filter(|&at| self.versions[at].0 != 0).map_or(0, |at| at + 1)
    }
}

type Model = Arc<Mutex<Vec<History>>>;

/// Submits without waiting; keeps the model.
fn submit(ssd: &EmulatedSsd, model: &Model, op: Op, version: u64) {
    let (block, count) = op.range();
    let range = block as usize..(block + count) as usize;
    let mut before = Vec::new();
    match &op {
        Op::Write { .. } => {
            for history in &mut model.lock()[range.clone()] {
                history.versions.push((version, false));
            }
        }
        Op::Discard { .. } => {
            for history in &mut model.lock()[range.clone()] {
                history.versions.push((0, true));
                history.promised = 0;
            }
        }
        _ => before = model.lock().iter().map(History::complete).collect(),
    }
    let fua = matches!(op, Op::Write { fua: true, .. });
    let model = Arc::clone(model);
    let done = move |result: steadyfs_device::IoResult| {
        assert!(result.is_ok(), "{result:?}");
        let mut model = model.lock();
        for history in &mut model[range] {
            let Some(at) = history.versions.iter().position(|&(v, _)| v == version) else { continue };
            history.versions[at].1 = true;
            let superseded = history.versions[at..].iter().any(|&(v, _)| v == 0);
            if fua && !superseded {
                history.promised = history.promised.max(at + 1);
            }
        }
        for (history, promised) in model.iter_mut().zip(before) {
            let discarded = history.versions[promised.saturating_sub(1)..].iter().any(|&(v, _)| v == 0);
            history.promised = if discarded { 0 } else { history.promised.max(promised) };
        }
    };
    ssd.submit(vec![Request::new(op, done)]);
}

/// Random requests, many at a time, and cuts between them. Blocks in flight are not written again, so that versions
/// have an order.
fn cuts(parameters: Parameters, seed: u64, steps: u64) -> (Arc<EmulatedSsd>, u64) {
    let ssd = EmulatedSsd::new(parameters, 16 * MIB).unwrap();
    let blocks = ssd.info().blocks;
    let model: Model = Arc::new(Mutex::new(&MODEL, vec![History::default(); blocks as usize]));
    let random = RefCell::new(Random(seed));
    let below = |n| random.borrow_mut().below(n);
    let mut lost = 0;
    for version in 1..=steps {
        let count = 1 + below(12);
        let block = below(blocks - count);
        let range = block as usize..(block + count) as usize;
        let in_flight = model.lock()[range].iter().any(|history| history.versions.last().is_some_and(|v| !v.1));
        match below(60) {
            _ if in_flight => sleep(Duration::from_micros(below(100))),
            0..50 => {
                let pages = (block..block + count).map(|number| page(number, version)).collect();
                let hint = [StreamHint::DataHot, StreamHint::DataWarm, StreamHint::NodeCold][below(3) as usize];
                submit(&ssd, &model, Op::Write { block, pages, hint, fua: below(30) == 0 }, version);
            }
            50..52 => submit(&ssd, &model, Op::Flush, version),
            52 => submit(&ssd, &model, Op::Discard { block, count }, version),
            53 => sleep(Duration::from_micros(below(3000))),
            _ => sleep(Duration::from_micros(below(200))),
        }
        if below(400) == 0 {
            lost += cut(&ssd, &model, seed ^ version);
        }
    }
    sleep(Duration::from_secs(1));
    assert_clean(&ssd);
    (ssd, lost)
}

/// Every block of what a cut leaves holds what it may. How many do not hold their newest version.
fn cut(ssd: &EmulatedSsd, model: &Model, seed: u64) -> u64 {
    let left = ssd.after_power_cut(seed).expect("cells are remembered");
    let model = model.lock().clone();
    let found = left.read(0, left.info().blocks).unwrap();
    let mut lost = 0;
    for (number, (history, found)) in (0u64..).zip(model.iter().zip(&found)) {
        let History { versions, promised } = history;
        assert!(history.allows(number, found), "seed {seed}, block {number}: {found:?}, {promised} of {versions:?}");
        lost += u64::from(versions.last().is_some_and(|&(version, _)| version != 0 && *found != page(number, version)));
    }
    assert_clean(&left);
    lost
}

/// What is promised is there after cuts while the device collects, and what is not may be lost.
fn many_cuts(parameters: Parameters, seed: u64) -> Stats {
    let (stats, lost) = timed(move || {
        let (ssd, lost) = cuts(Parameters { remember_cells: true, ..parameters }, seed, 20_000);
        (ssd.stats(), lost)
    });
    assert!(stats.gc_programmed > 5000 && lost > 500, "{lost} versions lost\n{stats}");
    stats
}

#[test]
fn a_power_cut_leaves_what_was_promised() {
    for (seed, streams) in [(1, 1), (2, 3), (3, 2)] {
        let mut parameters = small();
        parameters.policy.streams = streams;
        many_cuts(parameters, seed);
    }
}

/// Reads of the collector suspend programs and erases, among them those that flushes, FUA and erases wait for: what was
/// promised is there all the same.
#[test]
fn a_power_cut_amid_suspended_programs_leaves_what_was_promised() {
    for (seed, limit) in [(4, 1), (5, 16)] {
        let mut parameters = small();
        let program = Duration::from_micros(10);
        parameters.suspension =
            Suspension { what: Suspendable::Both, program, erase: Duration::ZERO, limit, ..parameters.suspension };
        let stats = many_cuts(parameters, seed);
        assert!(stats.suspended.0 > 500, "{:?}", stats.suspended);
    }
}

/// The same where they only go before programs and erases that have not begun.
#[test]
fn a_power_cut_amid_programs_that_wait_for_reads_leaves_what_was_promised() {
    for (seed, limit) in [(4, 1), (5, 16)] {
        let mut parameters = small();
        parameters.suspension = Suspension { order: Order::ReadFirst, limit, ..parameters.suspension };
        many_cuts(parameters, seed);
    }
}

#[test]
fn capacitors_keep_what_was_accepted() {
    timed(|| {
        let mut parameters = small();
        parameters.power_loss_protection = true;
        let ssd = EmulatedSsd::new(parameters, 16 * MIB).unwrap();
        ssd.write(5, crate::common::pages(5, 3, 1)).unwrap();
        let left = ssd.after_power_cut(1).unwrap();
        assert_eq!(left.read(5, 3).unwrap(), crate::common::pages(5, 3, 1));
        assert!(EmulatedSsd::new(small(), 16 * MIB).unwrap().after_power_cut(1).is_none(), "nobody has taken notes");
    });
}

/// What survived one cut survives the next, and the device found can be used as any other.
#[test]
fn cuts_can_follow_each_other() {
    timed(|| {
        let mut parameters = small();
        parameters.remember_cells = true;
        let mut ssd = EmulatedSsd::new(parameters, 16 * MIB).unwrap();
        for version in 1..=20 {
            ssd.write(0, crate::common::pages(0, 100, version)).unwrap();
            ssd.flush().unwrap();
            ssd.write(100, crate::common::pages(100, 50, version)).unwrap();
            ssd = ssd.after_power_cut(version).unwrap();
            assert_eq!(ssd.read(0, 100).unwrap(), crate::common::pages(0, 100, version));
        }
        assert_clean(&ssd);
    });
}
