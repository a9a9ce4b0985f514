//! The client: threads that do operations on the engine and judge what they read.

use super::choose::Chooser;
use super::{Mix, Ycsb};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::rng::{Rng, mix};
use crate::stage::{Stage, Tally};
use crate::workload::Act;
use crate::workload::database;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use steadyfs_rt::{LockClass, Mutex, now, sleep};

/// The one table.
const TABLE: usize = 0;

static INSERTED: LockClass = LockClass::new("lab.ycsb.inserted", 0);

/// What is known of the records, by number: updates begun and updates committed.
struct Known {
    begun: Vec<AtomicU32>,
    committed: Vec<AtomicU32>,
    /// Records 0 to here, without it, are there; those above that are committed already wait for the ones before them.
    count: AtomicU64,
    inserted: Mutex<BTreeSet<u64>>,
    next: AtomicU64,
}

impl Known {
    fn new(records: u64, most: u64) -> Self {
        let zeros = || (0..most).map(|_| AtomicU32::new(0)).collect();
        Known {
            begun: zeros(),
            committed: zeros(),
            count: AtomicU64::new(records),
            inserted: Mutex::new(&INSERTED, BTreeSet::new()),
            next: AtomicU64::new(records),
        }
    }

    /// A record is there: it is counted when all before it are.
    fn insert(&self, record: u64) {
        let mut inserted = self.inserted.lock();
        inserted.insert(record);
        let mut count = self.count.load(Relaxed);
        while inserted.remove(&count) {
            count += 1;
        }
        self.count.store(count, Relaxed);
    }
}

/// What the threads share.
struct Shared {
    stage: Arc<Stage>,
    options: Ycsb,
    engine: Engine,
    known: Known,
}

/// The workload.
pub(super) struct Client {
    stage: Arc<Stage>,
    options: Ycsb,
    shared: Option<Arc<Shared>>,
}

/// The key of a record. Different records have different keys.
fn key(record: u64) -> u64 {
    mix(record)
}

impl Client {
    pub(super) fn new(options: &Ycsb, stage: &Arc<Stage>) -> Self {
        Client { stage: Arc::clone(stage), options: options.clone(), shared: None }
    }

    /// Records that there may be in the end.
    fn most(&self) -> u64 {
        let inserts = self.options.mix().insert * self.options.operationcount as f64;
        // Twice as many as are expected, as YCSB reckons.
        self.options.recordcount + (2.0 * inserts) as u64 + u64::from(self.options.threads)
    }
}

impl Act for Client {
    fn lay_out(&mut self) -> Result<()> {
        if let Some(ballast) = self.options.ballast {
            database::lay_out_ballast(&self.stage, ballast.bytes())?;
        }
        let records = self.options.recordcount;
        let mut keys: Vec<u64> = (0..records).map(key).collect();
        keys.sort_unstable();
        let engine = Engine::create(&self.stage, &self.options.engine(), vec![Box::new(keys.into_iter())])?;
        self.stage.fs.sync().map_err(Error::core("syncing the volume"))?;
        let (stage, options) = (Arc::clone(&self.stage), self.options.clone());
        let known = Known::new(records, self.most());
        self.shared = Some(Arc::new(Shared { stage, options, engine, known }));
        Ok(())
    }

    fn amount(&self) -> u64 {
        self.options.operationcount
    }

    fn work(&mut self) -> Result<Tally> {
        let Some(shared) = &self.shared else { return Err(Error::Check("nothing has been loaded".into())) };
        let (threads, all) = (u64::from(self.options.threads), self.options.operationcount);
        database::work(
            shared,
            |shared| &shared.engine,
            &self.stage,
            || {
                let start = |number| {
                    let shared = Arc::clone(shared);
                    let share = all / threads + u64::from(number < all % threads);
                    let most = self.most();
                    self.stage.start("ycsb", move || Thread::new(&shared, number, most).run(share))
                };
                (0..threads).map(start).collect()
            },
        )
    }

    fn verify(&mut self) -> Result<String> {
        let shared = self.shared.take().and_then(Arc::into_inner);
        let Some(mut shared) = shared else { return Err(Error::Check("a thread has outlived the run".into())) };
        shared.engine.stop()?;
        let known = &shared.known;
        let waiting = known.inserted.lock().len();
        let count = known.count.load(Relaxed);
        let mut right: Vec<(u64, u32)> = (0..count).map(|record| (key(record), record as u32)).collect();
        right.sort_unstable();
        let mut at = 0usize;
        let compare = |_: usize, key: u64, version: u32| {
            let expected = right.get(at).map(|(key, record)| (*key, known.committed[*record as usize].load(Relaxed)));
            at += 1;
            if expected == Some((key, version)) {
                return Ok(());
            }
            Err(Error::Check(format!("record {at} of the tree is {key:x}, version {version}; expected {expected:x?}")))
        };
        let progress = &shared.stage.progress;
        let pages = shared.engine.walk(compare, |bytes| progress.advance(bytes))?;
        if at != right.len() || waiting > 0 {
            return Err(Error::Check(format!("{at} records are there, {} should be, {waiting} more", right.len())));
        }
        Ok(format!("{at} records in {pages} pages have the versions that were committed last"))
    }
}

/// One thread.
struct Thread {
    shared: Arc<Shared>,
    chooser: Chooser,
    mix: Mix,
    tally: Tally,
}

impl Thread {
    fn new(shared: &Arc<Shared>, number: u64, most: u64) -> Self {
        let rng = Rng::new(shared.stage.seed, number << 8 | 7);
        let mix = shared.options.mix();
        let chooser = Chooser::new(rng, mix.distribution, most);
        Thread { shared: Arc::clone(shared), chooser, mix, tally: Tally::default() }
    }

    fn run(mut self, operations: u64) -> Result<Tally> {
        for _ in 0..operations {
            if !self.shared.stage.goes_on(None) {
                break;
            }
            let began = now();
            sleep(Duration::from_micros(self.shared.options.query_us.into()));
            let kind = self.one()?;
            self.tally.record(kind, began.elapsed());
            self.shared.stage.progress.advance(1);
        }
        Ok(self.tally)
    }

    fn one(&mut self) -> Result<&'static str> {
        let Mix { read, update, insert, scan, .. } = self.mix;
        let drawn = self.chooser.unit();
        if drawn < read {
            let record = self.choose();
            self.read(record)?;
            return Ok("read");
        }
        if drawn < read + update {
            let record = self.choose();
            self.update(record)?;
            return Ok("update");
        }
        if drawn < read + update + insert {
            self.insert()?;
            return Ok("insert");
        }
        if drawn < read + update + insert + scan {
            self.scan()?;
            return Ok("scan");
        }
        let record = self.choose();
        self.read(record)?;
        self.update(record)?;
        Ok("read_modify_write")
    }

    fn choose(&mut self) -> u64 {
        let count = self.shared.known.count.load(Relaxed);
        self.chooser.next(count)
    }

    fn read(&self, record: u64) -> Result<()> {
        let known = &self.shared.known;
        let least = known.committed[record as usize].load(Relaxed);
        let found = self.shared.engine.get(TABLE, key(record))?;
        let most = known.begun[record as usize].load(Relaxed);
        if found.is_some_and(|version| (least..=most).contains(&version)) {
            return Ok(());
        }
        Err(Error::Check(format!("record {record} has version {found:?} and should have {least} to {most}")))
    }

    fn update(&mut self, record: u64) -> Result<()> {
        let known = &self.shared.known;
        known.begun[record as usize].fetch_add(1, Relaxed);
        if !self.shared.engine.update(TABLE, key(record), self.shared.options.changed())? {
            return Err(Error::Check(format!("record {record} is not there")));
        }
        known.committed[record as usize].fetch_add(1, Relaxed);
        Ok(())
    }

    fn insert(&mut self) -> Result<()> {
        let known = &self.shared.known;
        let record = known.next.fetch_add(1, Relaxed);
        if record >= known.begun.len() as u64 {
            return Err(Error::Check(format!("record {record} is one more than there is room for")));
        }
        if !self.shared.engine.insert(TABLE, key(record))? {
            return Err(Error::Check(format!("record {record} is there already")));
        }
        known.insert(record);
        Ok(())
    }

    fn scan(&mut self) -> Result<()> {
        let record = self.choose();
        let most = self.chooser.length(self.shared.options.maxscanlength.into()) as usize;
        let found = self.shared.engine.scan(TABLE, key(record), most)?;
        let sorted = found.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if found.first().map(|(key, _)| *key) != Some(key(record)) || !sorted || found.len() > most {
            return Err(Error::Check(format!("a scan of {most} records from {record} on gives {}", found.len())));
        }
        self.tally.add("records_scanned", found.len() as u64);
        Ok(())
    }
}
