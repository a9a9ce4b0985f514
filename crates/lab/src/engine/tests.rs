//! The engine against a map, with a small pool and a small log, and the order of its writes.

use super::files::Event;
use super::*;
use crate::progress::Progress;
use crate::rng::{Rng, mix};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use steadyfs_core::mkfs::{self, MkfsOptions};
use steadyfs_core::{Fs, MountOptions};
use steadyfs_device::MemDevice;
use steadyfs_rt::sim::{self, SimConfig};

fn config() -> Config {
    Config {
        tables: vec![1000],
        pool_pages: 40,
        log_files: 2,
        log_file_size: 256 << 10,
        durability: Durability::Synced,
        doublewrite: true,
        direct: false,
        cleaners: 2,
        fill: 0.7,
        journal: true,
    }
}

/// Runs `f` in a simulation with a volume.
fn on_a_volume<R: Send + 'static>(seed: u64, f: impl FnOnce(&Arc<Stage>) -> R + Send + 'static) -> R {
    let config = SimConfig { cores: 4, seed, ..SimConfig::default() };
    let report = sim::run(config, move || {
        let device = Arc::new(MemDevice::new((256 << 20) / 4096));
        mkfs::format(&*device, &MkfsOptions::new(*b"steadyfs-lab-vol", 0)).unwrap();
        let fs = Fs::mount(device, MountOptions::default()).unwrap();
        let stage = Stage::new(&fs, seed, &Arc::new(Progress::default()));
        let result = f(&stage);
        drop(stage);
        fs.unmount().unwrap();
        result
    });
    report.unwrap().value
}

/// Everything in the engine's files.
fn contents(engine: &Engine) -> BTreeMap<u64, u32> {
    let mut found = BTreeMap::new();
    let record = |_, key, version| {
        assert!(found.insert(key, version).is_none());
        Ok(())
    };
    engine.walk(record, |_| ()).unwrap();
    found
}

/// What a test does.
#[derive(Clone, Debug)]
enum Step {
    Insert(u16),
    Update(u16),
    Get(u16),
    Scan(u16, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => any::<u16>().prop_map(Step::Insert),
        3 => any::<u16>().prop_map(Step::Update),
        1 => any::<u16>().prop_map(Step::Get),
        1 => (any::<u16>(), any::<u8>()).prop_map(|(key, most)| Step::Scan(key, most)),
    ]
}

/// Keys that are spread like those of records, and few enough that they are met again.
fn key(of: u16) -> u64 {
    mix(u64::from(of % 3000))
}

fn like_a_map(config: &Config, loaded: u16, steps: Vec<Step>) {
    let config = config.clone();
    on_a_volume(1, move |stage| {
        let mut model: BTreeMap<u64, u32> = (0..loaded).map(|n| (key(n), 0)).collect();
        let keys: Vec<u64> = model.keys().copied().collect();
        let mut engine = Engine::create(stage, &config, vec![Box::new(keys.into_iter())]).unwrap();
        for step in steps {
            match step {
                Step::Insert(n) => {
                    let new = !model.contains_key(&key(n));
                    assert_eq!(engine.insert(0, key(n)).unwrap(), new);
                    model.entry(key(n)).or_insert(0);
                }
                Step::Update(n) => {
                    let known = model.get_mut(&key(n)).map(|version| *version += 1).is_some();
                    assert_eq!(engine.update(0, key(n), 100).unwrap(), known);
                }
                Step::Get(n) => assert_eq!(engine.get(0, key(n)).unwrap(), model.get(&key(n)).copied()),
                Step::Scan(n, most) => {
                    let right: Vec<(u64, u32)> =
                        model.range(key(n)..).take(usize::from(most)).map(|(k, v)| (*k, *v)).collect();
                    assert_eq!(engine.scan(0, key(n), usize::from(most)).unwrap(), right);
                }
            }
        }
        engine.stop().unwrap();
        assert_eq!(contents(&engine), model);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_is_like_a_map(loaded in 0u16..600, steps in prop::collection::vec(step(), 1..1500)) {
        like_a_map(&config(), loaded, steps);
    }

    #[test]
    fn so_is_one_that_splits_inner_pages(steps in prop::collection::vec(step(), 1..1500), direct in any::<bool>()) {
        // Two records to a page: more than a thousand leaves, so that the root, which takes 488 of them, splits.
        let large = Config { tables: vec![7500], log_file_size: 2 << 20, direct, ..config() };
        like_a_map(&large, 0, (0..3000).map(Step::Insert).chain(steps).collect());
    }
}

/// Several tasks at once; each key's updates are counted.
fn many_tasks(config: &Config, seed: u64) -> (Vec<Event>, u64, u64) {
    let config = config.clone();
    on_a_volume(seed, move |stage| {
        let loaded: BTreeSet<u64> = (0..1000).map(key).collect();
        let engine = Arc::new(Engine::create(stage, &config, vec![Box::new(loaded.into_iter())]).unwrap());
        let tasks: Vec<_> = (0..8u64)
            .map(|number| {
                let engine = Arc::clone(&engine);
                spawn("worker", move || {
                    let mut rng = Rng::new(number, 3);
                    let mut done: BTreeMap<u64, u32> = BTreeMap::new();
                    for step in 0..400 {
                        let known = key(rng.below(1000) as u16);
                        assert!(engine.update(0, known, 100).unwrap());
                        *done.entry(known).or_default() += 1;
                        assert!(engine.get(0, known).unwrap().is_some_and(|version| version >= done[&known]));
                        if step % 4 == 0 {
                            // Each task has new keys of its own.
                            let new = mix(1 << 32 | number << 16 | step);
                            assert!(engine.insert(0, new).unwrap() && engine.get(0, new).unwrap() == Some(0));
                            done.insert(new, 0);
                        }
                    }
                    done
                })
            })
            .collect();
        let mut model: BTreeMap<u64, u32> = (0..1000).map(|n| (key(n), 0)).collect();
        for task in tasks {
            task.join().unwrap().into_iter().for_each(|(key, count)| *model.entry(key).or_default() += count);
        }
        let (syncs, misses) = engine.counts();
        let mut engine = Arc::into_inner(engine).unwrap();
        engine.stop().unwrap();
        assert_eq!(contents(&engine), model);
        let journal = engine.files.journal.as_ref().map(|journal| journal.lock().clone());
        (journal.unwrap_or_default(), syncs, misses)
    })
}

/// What is wrong with the order of writes and syncs.
fn judge(journal: &[Event], doublewrite: bool) -> std::result::Result<(), String> {
    let (mut synced, mut checkpoint) = (0, 0);
    let mut saved: BTreeSet<(PageNo, u32)> = BTreeSet::new();
    // Images on their way to their places, and what the log holds for them.
    let mut on_the_way: BTreeMap<PageNo, u64> = BTreeMap::new();
    let mut pages = 0;
    for event in journal {
        match event {
            Event::LogSynced(to) => synced = synced.max(*to),
            Event::Doublewritten(images) => saved.extend(images),
            Event::PageWrite { page, write, newest } => {
                if *newest > synced {
                    return Err(format!("page {page} is written with changes up to {newest}, the log is at {synced}"));
                }
                if doublewrite && !saved.contains(&(*page, *write)) {
                    return Err(format!("image {write} of page {page} is in no double-write area"));
                }
                on_the_way.insert(*page, *newest);
                pages += 1;
            }
            Event::DataSynced => on_the_way.clear(),
            Event::Checkpoint(lsn) => {
                if *lsn > synced || *lsn < checkpoint {
                    return Err(format!("a checkpoint at {lsn}, the log is synced to {synced}"));
                }
                if let Some((page, newest)) = on_the_way.iter().find(|(_, newest)| **newest <= *lsn) {
                    return Err(format!(
                        "a checkpoint at {lsn}, page {page} with changes up to {newest} is not synced"
                    ));
                }
                checkpoint = *lsn;
            }
        }
    }
    if pages < 100 { Err(format!("only {pages} pages were written")) } else { Ok(()) }
}

#[test]
fn writes_come_in_the_order_that_a_crash_needs() {
    for (seed, direct) in [(0, false), (1, true), (2, false)] {
        let (journal, ..) = many_tasks(&Config { direct, ..config() }, seed);
        assert_eq!(judge(&journal, true), Ok(()));
        let checkpoints = journal.iter().filter(|event| matches!(event, Event::Checkpoint(_))).count();
        assert!(checkpoints > 3, "the log goes round: {checkpoints} checkpoints");
        // The judge sees what is wrong.
        let without = |leave_out: fn(&Event) -> bool| {
            journal.iter().filter(|event| !leave_out(event)).cloned().collect::<Vec<_>>()
        };
        assert!(judge(&without(|event| matches!(event, Event::LogSynced(_))), true).is_err());
        assert!(judge(&without(|event| matches!(event, Event::Doublewritten(_))), true).is_err());
        assert!(judge(&without(|event| matches!(event, Event::DataSynced)), true).is_err());
    }
    let (journal, ..) = many_tasks(&Config { durability: Durability::Written, ..config() }, 4);
    assert_eq!(judge(&journal, true), Ok(()), "if commits only write the log");
    let (journal, ..) = many_tasks(&Config { doublewrite: false, ..config() }, 3);
    assert_eq!(judge(&journal, false), Ok(()));
    assert!(judge(&journal, true).is_err(), "without a double-write area there are no images in it");
}

#[test]
fn commits_share_syncs_and_small_pools_read_again() {
    let (_, syncs, misses) = many_tasks(&config(), 5);
    let commits = 8 * 500;
    assert!(syncs > 50 && syncs < commits * 9 / 10, "{syncs} syncs for {commits} commits");
    assert!(misses > 500, "{misses} pages read");
    let (_, lazy, _) = many_tasks(&Config { durability: Durability::Written, ..config() }, 5);
    assert!(lazy < syncs / 2, "{lazy} syncs if commits do not wait for them");
    let (.., fewer) = many_tasks(&Config { pool_pages: 400, ..config() }, 5);
    assert!(fewer < misses / 2, "{fewer} pages read into a large pool, {misses} into a small one");
}

/// Several tables in one data file, and transactions that others must not see in part.
#[test]
fn transactions_are_taken_back_as_a_whole_and_hold_their_rows() {
    let config = Config { tables: vec![1000, 10, 300], ..config() };
    on_a_volume(6, move |stage| {
        let keys: Vec<Box<dyn Iterator<Item = u64>>> = vec![Box::new(0..500), Box::new(0..2000), Box::new(0..0)];
        let engine = Arc::new(Engine::create(stage, &config, keys).unwrap());
        let tasks: Vec<_> = (0..6u64)
            .map(|number| {
                let engine = Arc::clone(&engine);
                spawn("worker", move || {
                    let mut rng = Rng::new(number, 9);
                    for step in 0..200 {
                        let mut both = engine.begin();
                        // A counter in two tables, whose versions are equal whenever nobody holds the first row.
                        let row = rng.below(3);
                        assert!(both.update(0, row, 8).unwrap());
                        sleep(Duration::from_micros(rng.below(200)));
                        assert!(both.update(1, row, 8).unwrap());
                        assert!(both.insert(2, number << 32 | step).unwrap() && !both.insert(2, number << 32).unwrap());
                        let (one, other) = (engine.get(0, row).unwrap(), engine.get(1, row).unwrap());
                        assert_eq!(one, other, "row {row} is held");
                        if step % 4 == 1 {
                            assert!(both.delete(1, 1000 + number * 100 + step / 4).unwrap());
                            both.rollback().unwrap();
                        } else {
                            both.commit(|| ()).unwrap();
                        }
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        let mut engine = Arc::into_inner(engine).unwrap();
        engine.stop().unwrap();
        let mut found = [0u64; 3];
        let mut updates = [0u64; 3];
        let count = |table: usize, _: u64, version: u32| {
            found[table] += 1;
            updates[table] += u64::from(version);
            Ok(())
        };
        engine.walk(count, |_| ()).unwrap();
        let kept = 6 * 150;
        assert_eq!((found, updates), ([500, 2000, kept], [kept, kept, 0]));
    });
}
