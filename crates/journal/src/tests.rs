//! The lists against a log of all commits, in virtual time under many schedules; faults planted; what each form costs.

use crate::{Classes, CommitLists, Fault, Form, Item, Part};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use steadyfs_rt::sim::{SimConfig, SimFailure, run};
use steadyfs_rt::{Cost, JoinHandle, LockClass, Mutex, charge_n, now, sleep, spawn};

static PUSH: LockClass = LockClass::new("test.push", 10);
static OWN: LockClass = LockClass::new("test.item", 5).multi();
static CONTEXT: LockClass = LockClass::new("test.context", 20);
static LIST: LockClass = LockClass::new("test.list", 30).spinning();
static NOTES: LockClass = LockClass::new("test.notes", 40);
const CLASSES: Classes = Classes { context: &CONTEXT, list: &LIST };

const FORMS: [Form; 4] = [Form::Single, Form::Double, Form::PerCore { stride: 1 }, Form::PerCore { stride: 1 << 10 }];

/// The commits that a vector is the sum of: who committed, and its how manieth commit it was.
#[derive(Debug, Default)]
struct Vector(Vec<(u32, u32)>);

type Lists = CommitLists<Vector>;

/// The items of a batch, and the commits of each.
type ItemsOfBatch = Vec<(u32, Vec<(u32, u32)>)>;

/// What one writer did, for the judge: begun and ended in virtual nanoseconds, and which items it touched.
struct Committed {
    who: (u32, u32),
    began: u64,
    ended: u64,
    items: Vec<u32>,
}

/// The journal of a test: what was sealed is "on the disk".
struct Bed {
    lists: Lists,
    items: Vec<(Mutex<()>, Arc<Item<Vector>>)>,
    log: Mutex<Vec<Vec<(u32, Vector)>>>,
    notes: Mutex<Vec<Committed>>,
}

fn ns() -> u64 {
    now().as_nanos()
}

impl Bed {
    fn new(form: Form, fault: Option<Fault>, items: u32) -> Arc<Self> {
        let item = |key| (Mutex::new(&OWN, ()), Item::new(key));
        Arc::new(Bed {
            lists: CommitLists::new(form, CLASSES).with_fault(fault),
            items: (0..items).map(item).collect(),
            log: Mutex::new(&PUSH, Vec::new()),
            notes: Mutex::new(&NOTES, Vec::new()),
        })
    }

    /// One operation on these items, which add so many bytes each.
    fn commit(&self, who: (u32, u32), items: &[u32], bytes: i64) {
        let mut items = items.to_vec();
        items.sort_unstable();
        items.dedup();
        let _locks: Vec<_> = items.iter().map(|&item| self.items[item as usize].0.lock()).collect();
        let began = ns();
        let parts = items.iter().map(|&item| {
            charge_n(Cost::LogRecord, 3);
            Part { item: Arc::clone(&self.items[item as usize].1), what: who }
        });
        self.lists.commit(parts, |vector, who| {
            vector.0.push(who);
            bytes
        });
        self.notes.lock().push(Committed { who, began, ended: ns(), items });
    }

    /// Everything of `who` that was committed so far is in the log afterwards.
    fn sync(&self) {
        let mut log = self.log.lock();
        if let Some(sealed) = self.lists.seal() {
            log.push(sealed.items.into_iter().map(|(item, vector)| (item.key(), vector)).collect());
        }
    }

    /// Whether the log has the writer's last commit.
    fn has(&self, who: (u32, u32)) -> bool {
        self.log.lock().iter().flatten().any(|(_, vector)| vector.0.contains(&who))
    }

    /// Each commit is in one batch with all its items, in the order of each item; batches are in the order of last
    /// commits.
    fn judge(&self) {
        self.sync();
        assert_eq!(self.lists.bytes(), 0, "bytes are left");
        let (log, notes) = (self.log.lock(), self.notes.lock());
        let mut seen: HashMap<(u32, u32), (usize, HashSet<u32>)> = HashMap::new();
        for (batch, items) in log.iter().enumerate() {
            for (item, vector) in items {
                for who in &vector.0 {
                    let (first, touched) = seen.entry(*who).or_insert((batch, HashSet::new()));
                    assert_eq!(*first, batch, "commit {who:?} is in two batches");
                    assert!(touched.insert(*item), "commit {who:?} is twice in item {item}");
                }
            }
        }
        let times: HashMap<(u32, u32), &Committed> = notes.iter().map(|note| (note.who, note)).collect();
        for note in notes.iter() {
            let touched = seen.get(&note.who).map_or(0, |(_, touched)| touched.len());
            assert_eq!(touched, note.items.len(), "commit {:?} is in the log in part", note.who);
        }
        for items in log.iter() {
            let last = |vector: &Vector| times[vector.0.last().expect("a vector is of some commit")];
            for (earlier, later) in items.iter().zip(items.iter().skip(1)) {
                let (earlier, later) = (last(&earlier.1), last(&later.1));
                assert!(later.ended >= earlier.began, "{:?} comes before {:?}", earlier.who, later.who);
            }
        }
    }
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Writers commit to their own items and to shared ones, and sync now and then.
fn exercise(form: Form, fault: Option<Fault>, seed: u64) -> Result<(), SimFailure> {
    const WRITERS: u32 = 6;
    const COMMITS: u32 = 40;
    let config = SimConfig { cores: 1 + (seed % 8) as usize, seed: seed + 1, ..SimConfig::default() };
    let work = move || {
        let bed = Bed::new(form, fault, WRITERS * 4 + 4);
        let writer = |writer: u32| {
            let bed = Arc::clone(&bed);
            spawn("writer", move || {
                let mut state = seed * 31 + u64::from(writer);
                for number in 0..COMMITS {
                    let own = writer * 4 + random(&mut state) as u32 % 4;
                    let shared = WRITERS * 4 + random(&mut state) as u32 % 4;
                    let other = writer * 4 + random(&mut state) as u32 % 4;
                    let bytes = [0, 70, 900, 300][random(&mut state) as usize % 4];
                    let items: &[u32] = if number % 3 == 0 { &[own] } else { &[own, shared, other] };
                    bed.commit((writer, number), items, bytes);
                    if random(&mut state).is_multiple_of(4) {
                        bed.sync();
                        assert!(bed.has((writer, number)), "what was synced is not in the log");
                    }
                }
            })
        };
        let writers: Vec<JoinHandle<()>> = (0..WRITERS).map(writer).collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap_or_else(|panicked| panic!("{panicked}")));
        bed.judge();
    };
    run(config, work).map(drop)
}

#[test]
fn every_form_keeps_all_commits_whole_and_in_order() {
    for form in FORMS {
        for seed in 0..150 {
            exercise(form, None, seed).unwrap_or_else(|failure| panic!("{form:?}, seed {seed}: {failure}"));
        }
    }
}

#[test]
fn a_sequential_program_gives_the_same_batches_in_every_form() {
    let batches = |form| {
        let bed = Bed::new(form, None, 20);
        let mut state = 7;
        for number in 0..500 {
            let items: Vec<u32> = (0..3).map(|_| random(&mut state) as u32 % 20).collect();
            bed.commit((0, number), &items, 100);
            if random(&mut state).is_multiple_of(20) {
                bed.sync();
            }
        }
        bed.judge();
        let log = bed.log.lock();
        log.iter().map(|batch| batch.iter().map(|(item, all)| (*item, all.0.clone())).collect()).collect()
    };
    let single: Vec<ItemsOfBatch> = batches(Form::Single);
    assert!(single.len() > 10, "{}", single.len());
    FORMS.iter().for_each(|form| assert_eq!(batches(*form), single, "{form:?}"));
}

/// How many seeds it takes to find a fault.
#[track_caller]
fn is_found(fault: Fault, form: Form, words: &str) {
    // Panics are what is looked for.
    let found = (0..300).find_map(|seed| exercise(form, Some(fault), seed).err().map(|failure| (seed, failure)));
    let (seed, failure) = found.unwrap_or_else(|| panic!("{fault:?} was not found"));
    println!("{fault:?}: seed {seed}: {failure}");
    assert!(failure.to_string().contains(words), "{fault:?}: {failure}");
}

#[test]
fn planted_faults_are_found() {
    let cores = Form::PerCore { stride: 1 << 10 };
    is_found(Fault::StaleSequence, Form::Double, "");
    is_found(Fault::NoDrain, Form::Double, "");
    is_found(Fault::NoDrain, cores, "");
    is_found(Fault::ZeroDelta, Form::Single, "what was synced is not in the log");
    is_found(Fault::LostRelog, Form::Double, "in the log");
    is_found(Fault::ReversedOrder, cores, "out of order");
    is_found(Fault::LateEstimate, cores, "are no estimate");
}

/// What so many commits of private items by each of so many writers take, in nanoseconds each, all writers together.
fn price(form: Form, writers: u32, pushes: bool) -> (u64, Prices) {
    const COMMITS: u32 = 300;
    let config = SimConfig { cores: writers as usize + 2, ..SimConfig::default() };
    let work = move || {
        let bed = Bed::new(form, None, writers * 8);
        let began = now();
        let pusher = pushes.then(|| {
            let bed = Arc::clone(&bed);
            spawn("pusher", move || {
                loop {
                    sleep(std::time::Duration::from_micros(50));
                    bed.sync();
                }
            })
        });
        let writer = |writer: u32| {
            let bed = Arc::clone(&bed);
            spawn("writer", move || {
                let mut longest = 0;
                for number in 0..COMMITS {
                    let began = ns();
                    let item = &bed.items[(writer * 8 + number % 8) as usize].1;
                    let part = Part { item: Arc::clone(item), what: (writer, number) };
                    bed.lists.commit([part], |vector, _| {
                        vector.0.truncate(0);
                        200
                    });
                    longest = longest.max(ns() - began);
                    charge_n(Cost::PageCopy, 8);
                }
                longest
            })
        };
        let writers: Vec<_> = (0..writers).map(writer).collect();
        let longest = writers.into_iter().map(|writer| writer.join().expect("no panic")).max().unwrap_or(0);
        drop(pusher);
        (began.elapsed().as_nanos() as u64, longest, bed.lists.stats().space_updates)
    };
    let (all, longest, updates) = run(config, work).expect("sense").value;
    (all / u64::from(writers * COMMITS), Prices { longest, updates })
}

/// The longest commit, and updates of the global count.
struct Prices {
    longest: u64,
    updates: u64,
}

#[test]
fn lists_of_cores_scale_where_one_list_does_not() {
    for form in FORMS {
        let prices = [1, 4, 16, 48, 112].map(|writers| price(form, writers, false).0);
        println!("{form:?}: {prices:?} ns a commit with 1, 4, 16, 48, 112 writers");
    }
    let at = |form, writers| price(form, writers, false).0;
    let (single, cores) = (Form::Single, Form::PerCore { stride: 1 << 13 });
    assert!(at(single, 112) * 10 > at(single, 16) * 9, "one list stops scaling");
    assert!(at(cores, 112) * 4 < at(cores, 16), "lists of cores go on");
    assert!(at(cores, 112) * 2 < at(single, 112));
}

#[test]
fn commits_do_not_wait_for_a_seal_of_the_other_list() {
    let longest = |form| price(form, 16, true).1.longest;
    let (single, double) = (longest(Form::Single), longest(Form::Double));
    println!("longest commit with pushes: single {single} ns, double {double} ns");
    assert!(single > 2 * double, "single {single} ns, double {double} ns");
}

#[test]
fn strides_spare_writes_of_the_global_count() {
    let updates = |stride| price(Form::PerCore { stride }, 16, true).1.updates;
    let (each, strided) = (updates(1), updates(1 << 13));
    println!("updates: {each} with strides of 1 byte, {strided} with 8 KiB");
    assert!(strided * 3 <= each && strided > 0);
}
