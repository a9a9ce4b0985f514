//! The contract, tried: a small log-structured host works on the adversary, through power cuts, under many seeds, and
//! hosts that break one promise each are found out.

/// What the host is written against.
mod device {
    pub(super) use crate::migrating::{MigrationGeometry, Migrations, Move, Upcall};
    pub(super) use crate::{BLOCK_SIZE, Device, Op, PageBuf, StreamHint};
}
mod host;
mod kept;

use super::ledger::{Broken, Ledger, Step};
use super::*;
use crate::{BLOCK_SIZE, CrashImage, Device, MemDevice, PageBuf};
use host::{Fault, Host, Rng, Tried};
use std::panic::{AssertUnwindSafe, catch_unwind};

const ZONE: u64 = 16;

impl Tried for AdversaryDevice<MemDevice> {
    fn try_next(&self) -> Option<Upcall> {
        AdversaryDevice::try_next(self)
    }
    fn outstanding(&self) -> usize {
        AdversaryDevice::outstanding(self)
    }
    fn tick(&self) -> u64 {
        self.recorder().tick()
    }
}

fn geometry() -> MigrationGeometry {
    let (meta, zones) = (ZONE, 14);
    let (regular, gc) = (meta + zones * ZONE, meta + 2 * zones * ZONE);
    MigrationGeometry { zone: ZONE, meta: 0..meta, regular: meta..regular, gc: regular..gc, capacity: 8 * ZONE }
}

/// What the life of a host came to.
#[derive(Default)]
struct Life {
    served: u64,
    stale: u64,
    again: u64,
    with_outstanding: u64,
    leaked: usize,
}

/// Several sessions of a host, with a power cut at any moment of each but the last.
fn live(seed: u64, fault: Option<Fault>) -> Life {
    let mut rng = Rng(seed);
    let mut life = Life::default();
    let rules = |rng: &mut Rng| Adversary {
        seed: rng.next(),
        moves: 100 + rng.below(850),
        late: 1 + rng.below(12),
        records: 1 + rng.below(9) as usize,
        bound: 64,
    };
    let mut base = MemDevice::new(geometry().gc.end);
    let mut device = AdversaryDevice::new(base.fork(), geometry(), rules(&mut rng));
    let mut host = Host::format(&device, fault);
    for session in 0..4 {
        for _ in 0..60 + rng.below(60) {
            host.act(&device, &mut rng);
        }
        life.add(&host);
        if session == 3 {
            break;
        }
        let recorder = device.recorder();
        // Whatever was promised by then must be there; a cut before the first checkpoint of the session is one of the
        // last session, which has been tried.
        let at = host.first_promise() + rng.below(recorder.tick() - host.first_promise() + 1);
        let log = recorder.log();
        let mut image = CrashImage::new(&base, &log).at(at);
        for index in image.volatile() {
            image = match rng.below(3) {
                0 => image,
                1 => image.keep(index),
                _ => {
                    let half = rng.next();
                    image.tear(index, move |piece| half >> (piece % 64) & 1 == 0)
                }
            };
        }
        base = image.build();
        let promised = host.promised_at(at);
        device = device.after_cut(at, base.fork(), rules(&mut rng));
        life.with_outstanding += u64::from(device.outstanding() > 0);
        host = Host::recover(&device, fault, &promised);
    }
    host.settle(&device);
    life.add(&host);
    assert_eq!(device.outstanding(), 0, "a host that settles has nothing outstanding");
    host.compare(&device);
    life.leaked = device.held().len() - host.needs();
    life
}

impl Life {
    fn add(&mut self, host: &Host) {
        self.served += host.served_now;
        self.stale += host.stale;
        self.again += host.again;
    }
}

#[test]
fn a_host_that_keeps_its_promises_loses_and_leaks_nothing() {
    let mut sum = Life::default();
    for seed in 0..300 {
        let life = live(seed, None);
        assert_eq!(life.leaked, 0, "seed {seed}");
        sum.served += life.served;
        sum.stale += life.stale;
        sum.again += life.again;
        sum.with_outstanding += life.with_outstanding;
    }
    println!("{} records, {} stale, {} again, {} of 900 cuts", sum.served, sum.stale, sum.again, sum.with_outstanding);
    assert!(sum.served > 50_000 && sum.stale > 5_000 && sum.again > 30, "the adversary was idle");
    assert!(sum.with_outstanding > 600, "few cuts met outstanding records");
}

#[test]
fn each_broken_promise_is_found() {
    for fault in Fault::ALL {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        let found = (0..300).find(|&seed| {
            catch_unwind(AssertUnwindSafe(|| live(seed, Some(fault)))).map_or(true, |life| life.leaked > 0)
        });
        std::panic::set_hook(hook);
        println!("{fault:?} found at seed {found:?}");
        assert!(found.is_some(), "{fault:?} was not found");
    }
}

fn write(block: u64) -> Step {
    Step::Write(block, Sort::Data)
}

fn ledger() -> Ledger {
    let mut ledger = Ledger::new(geometry());
    take(&mut ledger, &[Step::Resume(0)]);
    assert!(!ledger.may_move(), "the host has not said what it needs");
    take(&mut ledger, &[Step::Complete(0)]);
    ledger
}

fn take(ledger: &mut Ledger, steps: &[Step]) {
    steps.iter().for_each(|step| ledger.take(*step).expect("a legal step"));
}

#[test]
fn chains_lead_to_the_end_until_they_are_completed() {
    let (mut ledger, gc) = (ledger(), geometry().gc.start);
    let moved = |from, to| Step::Moved(Move { from, to });
    take(&mut ledger, &[write(ZONE), moved(ZONE, gc), Step::Deliver(1), Step::Hear(1), moved(gc, gc + 1)]);
    assert_eq!([ZONE, gc, gc + 1].map(|block| ledger.resolve(block)), [Some(gc + 1); 3]);
    take(&mut ledger, &[Step::Complete(1)]);
    assert_eq!([ZONE, gc, gc + 1].map(|block| ledger.resolve(block)), [None, Some(gc + 1), Some(gc + 1)]);
    // A waiting record becomes one with the next, which is the last then.
    take(&mut ledger, &[moved(gc + 1, gc + 2)]);
    assert_eq!((ledger.outstanding(), ledger.resolve(gc)), (1, Some(gc + 2)));
    take(&mut ledger, &[Step::Discard(gc)]);
    assert_eq!((ledger.outstanding(), ledger.live().len()), (0, 0), "a waiting record of a dead page vanishes");
}

#[test]
fn delivered_records_of_dead_pages_stay_and_come_again_after_a_cut() {
    let (mut ledger, gc) = (ledger(), geometry().gc.start);
    let record = Move { from: ZONE, to: gc };
    take(&mut ledger, &[write(ZONE), Step::Moved(record), Step::Deliver(1), Step::Hear(1), Step::Discard(ZONE)]);
    assert_eq!((ledger.outstanding(), ledger.resolve(ZONE), ledger.may_move()), (1, None, true));
    let mut ledger = ledger.cut();
    assert_eq!(ledger.unheard(), None, "nothing is delivered before a session begins");
    take(&mut ledger, &[Step::Resume(1)]);
    assert_eq!(ledger.unheard(), Some(Upcall { first: 1, moves: vec![record], urgent: false }));
    assert!(!ledger.may_move());
    take(&mut ledger, &[Step::Hear(1), Step::Complete(1)]);
    assert!(ledger.may_move() && ledger.outstanding() == 0);
}

#[test]
fn a_broken_promise_has_its_name() {
    let gc = geometry().gc.start;
    let moved = Step::Moved(Move { from: ZONE, to: gc });
    let broken = |steps: &[Step], last: Step| {
        let mut ledger = ledger();
        take(&mut ledger, steps);
        ledger.take(last).expect_err("it is broken")
    };
    assert_eq!(broken(&[], write(gc)), Broken::GcWrite(gc));
    assert_eq!(broken(&[], write(ZONE + 1)), Broken::OutOfOrder { at: ZONE + 1, next: ZONE });
    assert_eq!(broken(&[write(ZONE)], Step::Write(ZONE + 1, Sort::Node)), Broken::Mixed(ZONE + 1));
    assert_eq!(broken(&[write(ZONE)], write(ZONE)), Broken::ZoneInUse { zone: ZONE, live: 1 });
    let named = [write(ZONE), moved, Step::Deliver(1), Step::Hear(1)];
    assert_eq!(broken(&named, write(ZONE)), Broken::ZoneNamed { zone: ZONE, ends: 1 });
    assert_eq!(broken(&named, Step::Complete(2)), Broken::CompletedUnheard { up_to: 2, delivered: 1 });
    assert_eq!(broken(&named, Step::Resume(2)), Broken::ServedUnheard { served: 2, delivered: 1 });
    let completed = [&named[..], &[Step::Complete(1)]].concat();
    assert_eq!(broken(&completed, Step::Resume(0)), Broken::CompletedEarly { served: 0, completed: 1 });
    let full: Vec<Step> = (ZONE..9 * ZONE).map(write).collect();
    assert_eq!(broken(&full, write(9 * ZONE)), Broken::Full(8 * ZONE));
}

#[test]
fn a_read_gathers_what_lies_apart_and_finds_nothing_where_nothing_is() {
    let device = AdversaryDevice::new(MemDevice::new(geometry().gc.end), geometry(), Adversary::new(3));
    let migrations = device.migrations().expect("it moves pages");
    assert_eq!(migrations.resume(0), 0);
    migrations.complete(0);
    let page = |byte: u8| PageBuf::from_slice(&[byte; BLOCK_SIZE]);
    device.write(ZONE, (1..=8).map(page).collect()).expect("in range");
    device.write(0, vec![page(99)]).expect("in range");
    assert!(device.held().iter().any(|block| geometry().gc.contains(block)), "nothing has moved");
    let read = device.read(ZONE, 9).expect("in range");
    assert_eq!(read[..8], (1..=8).map(page).collect::<Vec<_>>());
    assert!(![PageBuf::zeroed(), page(1)].contains(&read[8]));
    assert_eq!(device.read_one(0).expect("in range"), page(99));
    device.discard(ZONE, 8).expect("in range");
    assert_eq!((device.held(), device.read_one(ZONE).expect("in range")), (vec![], read[8].clone()));
}

#[test]
fn an_idle_device_delivers_what_waits_and_a_closed_one_ends_the_wait() {
    let rules = Adversary { late: u64::MAX, records: 200, moves: 999, ..Adversary::new(5) };
    let device = AdversaryDevice::new(MemDevice::new(geometry().gc.end), geometry(), rules);
    let migrations = device.migrations().expect("it moves pages");
    migrations.resume(0);
    migrations.complete(0);
    device.write(ZONE, vec![PageBuf::zeroed(); 12]).expect("in range");
    assert_eq!(device.try_next(), None);
    let upcall = migrations.next().expect("the device is open");
    assert_eq!((upcall.first, upcall.urgent), (1, false));
    migrations.close();
    assert_eq!(migrations.next(), None);
}
