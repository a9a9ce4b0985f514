//! The client: terminals that do one transaction after the other, and judge what they read.

use super::known::Known;
use super::schema::{
    BY_CUSTOMER, BY_NAME, CUSTOMER, Contents, DISTRICT, DISTRICTS, FIRST_NEW, HISTORY, ITEM, ITEMS, NEW_ORDER, ORDER,
    ORDER_LINE, STOCK, TABLES, WAREHOUSE, by_customer_key, customer_key, district, line_key, name_key, order_key,
    stock_key,
};
use super::{Kind, Tpcc};
use crate::engine::{Engine, Transaction};
use crate::error::{Error, Result};
use crate::rng::Rng;
use crate::stage::{Stage, Tally};
use crate::workload::{Act, database};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_rt::{Instant, now, sleep};

/// Bytes of the columns that updates change (clause 1.3): sums of money have 8, counts and dates what they need.
const YTD: u64 = 8;
const NEXT_ORDER: u64 = 4;
const PAID: u64 = 20;
const CREDIT_DATA: u64 = 500;
const STOCKED: u64 = 10;
const CARRIER: u64 = 1;
const DELIVERED: u64 = 8;
const BALANCE: u64 = 10;
/// Orders that a stock-level looks at.
const RECENT: u32 = 20;

/// What the terminals share.
struct Shared {
    stage: Arc<Stage>,
    query: Duration,
    engine: Engine,
    known: Known,
    contents: Contents,
}

/// The workload.
pub(super) struct Terminals {
    stage: Arc<Stage>,
    options: Tpcc,
    shared: Option<Arc<Shared>>,
}

impl Terminals {
    pub(super) fn new(options: &Tpcc, stage: &Arc<Stage>) -> Self {
        Terminals { stage: Arc::clone(stage), options: options.clone(), shared: None }
    }
}

impl Act for Terminals {
    fn lay_out(&mut self) -> Result<()> {
        if let Some(ballast) = self.options.ballast {
            database::lay_out_ballast(&self.stage, ballast.bytes())?;
        }
        let warehouses = self.options.warehouses.into();
        let (known, contents) = (Known::new(warehouses), Contents::new(self.stage.seed, warehouses));
        let keys = |table| Box::new(known.rows(table, &contents).map(|(key, _)| key)) as Box<dyn Iterator<Item = u64>>;
        let engine = Engine::create(&self.stage, &self.options.engine(), (0..TABLES).map(keys).collect())?;
        self.stage.fs.sync().map_err(Error::core("syncing the volume"))?;
        let (stage, query) = (Arc::clone(&self.stage), Duration::from_micros(self.options.query_us.into()));
        self.shared = Some(Arc::new(Shared { stage, query, engine, known, contents }));
        Ok(())
    }

    fn amount(&self) -> u64 {
        0
    }

    fn seconds(&self) -> Option<f64> {
        Some(self.options.runtime)
    }

    fn work(&mut self) -> Result<Tally> {
        let Some(shared) = &self.shared else { return Err(Error::Check("nothing has been loaded".into())) };
        let end = self.stage.deadline(self.options.runtime);
        database::work(
            shared,
            |shared| &shared.engine,
            &self.stage,
            || {
                let start = |number| {
                    let terminal = Terminal::new(shared, number);
                    self.stage.start("tpcc", move || terminal.run(end))
                };
                (0..u64::from(self.options.threads)).map(start).collect()
            },
        )
    }

    fn verify(&mut self) -> Result<String> {
        let shared = self.shared.take().and_then(Arc::into_inner);
        let Some(mut shared) = shared else { return Err(Error::Check("a terminal has outlived the run".into())) };
        shared.engine.stop()?;
        let Shared { stage, engine, known, contents, .. } = &shared;
        let rows = |table| known.rows(table, contents).map(move |(key, version)| (table, key, version));
        let mut right = (0..TABLES).flat_map(rows);
        let mut count = 0u64;
        let compare = |table: usize, key: u64, version: u32| {
            count += 1;
            let expected = right.next();
            if expected == Some((table, key, version)) {
                return Ok(());
            }
            Err(Error::Check(format!("table {table} has row {key:x}, version {version}; expected {expected:x?}")))
        };
        let pages = engine.walk(compare, |bytes| stage.progress.advance(bytes))?;
        match right.next() {
            Some(missing) => Err(Error::Check(format!("row {missing:x?} is not there"))),
            None => Ok(format!("{count} rows in {pages} pages have the versions that were committed last")),
        }
    }
}

/// A transaction under way, and what it has changed so far.
struct Statements<'a> {
    shared: &'a Shared,
    inner: Transaction<'a>,
    changes: BTreeMap<(usize, u64), u32>,
}

impl<'a> Statements<'a> {
    fn begin(shared: &'a Shared) -> Self {
        Statements { shared, inner: shared.engine.begin(), changes: BTreeMap::new() }
    }

    /// What a statement costs server and client, before it touches rows.
    fn statement(&self) {
        sleep(self.shared.query);
    }

    /// Reads a row without a lock.
    fn read(&self, table: usize, key: u64) -> Result<()> {
        let known = &self.shared.known;
        let least = known.settled(table, key);
        let found = self.shared.engine.get(table, key)?;
        let most = known.begun(table, key);
        if found.is_some_and(|version| (least..=most).contains(&version)) {
            return Ok(());
        }
        Err(wrong(table, key, &format!("has version {found:?} and should have {least} to {most}")))
    }

    /// Reads a row that nobody else may change before this transaction ends.
    fn read_for_update(&mut self, table: usize, key: u64) -> Result<()> {
        self.inner.lock(table, key);
        let right = self.shared.known.settled(table, key) + self.changes.get(&(table, key)).copied().unwrap_or(0);
        let found = self.shared.engine.get(table, key)?;
        if found == Some(right) {
            return Ok(());
        }
        Err(wrong(table, key, &format!("is held, has version {found:?}, and should have {right}")))
    }

    fn update(&mut self, table: usize, key: u64, changed: u64) -> Result<()> {
        self.inner.lock(table, key);
        let changes = self.changes.entry((table, key)).or_default();
        *changes += 1;
        self.shared.known.begin(table, key, self.shared.known.settled(table, key) + *changes);
        self.done(table, key, |inner| inner.update(table, key, changed))
    }

    fn insert(&mut self, table: usize, key: u64) -> Result<()> {
        self.done(table, key, |inner| inner.insert(table, key))
    }

    fn delete(&mut self, table: usize, key: u64) -> Result<()> {
        self.done(table, key, |inner| inner.delete(table, key))
    }

    fn done(
        &mut self,
        table: usize,
        key: u64,
        change: impl FnOnce(&mut Transaction<'a>) -> Result<bool>,
    ) -> Result<()> {
        if change(&mut self.inner)? { Ok(()) } else { Err(wrong(table, key, "cannot be changed so")) }
    }

    /// Reads rows from `first` on, which have to have neighbouring keys.
    fn read_run(&self, table: usize, first: u64, count: u64) -> Result<()> {
        let found = self.shared.engine.scan(table, first, count as usize)?;
        if found.iter().map(|(key, _)| *key).eq(first..first + count) {
            return Ok(());
        }
        Err(wrong(table, first, &format!("should be the first of {count}, found {found:x?}")))
    }

    /// Commits; `also` settles what is known beside versions, while rows are held.
    fn commit(self, also: impl FnOnce(&Known)) -> Result<()> {
        let (known, changes) = (&self.shared.known, self.changes);
        self.inner.commit(|| {
            changes.into_iter().for_each(|((table, key), count)| known.settle(table, key, count));
            also(known);
        })
    }

    fn rollback(self) -> Result<()> {
        self.inner.rollback()
    }
}

fn wrong(table: usize, key: u64, why: &str) -> Error {
    Error::Check(format!("row {key:x} of table {table} {why}"))
}

/// One terminal.
struct Terminal {
    shared: Arc<Shared>,
    rng: Rng,
    tally: Tally,
}

impl Terminal {
    fn new(shared: &Arc<Shared>, number: u64) -> Self {
        let rng = Rng::new(shared.stage.seed, number << 8 | 13);
        Terminal { shared: Arc::clone(shared), rng, tally: Tally::default() }
    }

    fn run(mut self, end: Instant) -> Result<Tally> {
        while self.shared.stage.goes_on(Some(end)) {
            let kind = Kind::of(self.rng.below(100));
            let began = now();
            match kind {
                Kind::NewOrder => self.new_order()?,
                Kind::Payment => self.payment()?,
                Kind::OrderStatus => self.order_status()?,
                Kind::Delivery => self.delivery()?,
                Kind::StockLevel => self.stock_level()?,
            }
            self.tally.record(kind.name(), began.elapsed());
        }
        Ok(self.tally)
    }

    fn any_warehouse(&mut self) -> u64 {
        self.rng.below(self.shared.contents.warehouses())
    }

    /// Clause 2.4.
    fn new_order(&mut self) -> Result<()> {
        let (warehouse, within) = (self.any_warehouse(), self.rng.below(DISTRICTS));
        let fails = self.rng.below(100) == 0;
        let shared = Arc::clone(&self.shared);
        let home = district(warehouse, within);
        let mut all = Statements::begin(&shared);
        all.statement();
        all.read(WAREHOUSE, warehouse)?;
        all.statement();
        all.read_for_update(DISTRICT, home)?;
        all.statement();
        all.update(DISTRICT, home, NEXT_ORDER)?;
        let number = shared.known.next_order(home);
        let order = shared.contents.order(home, number);
        all.statement();
        all.read(CUSTOMER, customer_key(home, order.customer))?;
        all.statement();
        all.insert(ORDER, order_key(home, number))?;
        all.insert(BY_CUSTOMER, by_customer_key(home, order.customer, number))?;
        all.statement();
        all.insert(NEW_ORDER, order_key(home, number))?;
        let last = order.lines.len() - 1;
        for (line, (supplier, item)) in order.lines.into_iter().enumerate() {
            all.statement();
            if fails && line == last {
                // Nobody has such an item.
                if shared.engine.get(ITEM, ITEMS)?.is_some() {
                    return Err(wrong(ITEM, ITEMS, "should not be there"));
                }
                self.tally.add("rolled_back", 1);
                return all.rollback();
            }
            all.read(ITEM, item)?;
            all.statement();
            all.read_for_update(STOCK, stock_key(supplier, item))?;
            all.statement();
            all.update(STOCK, stock_key(supplier, item), STOCKED)?;
            all.statement();
            all.insert(ORDER_LINE, line_key(home, number) + line as u64)?;
        }
        all.commit(|known| known.settle_order(home))
    }

    /// A customer of a district, by name or by number, with what it takes to find them.
    fn find_customer(&mut self, all: &Statements<'_>, of: u64) -> Result<u64> {
        let contents = &self.shared.contents;
        if self.rng.below(100) >= 60 {
            return Ok(contents.any_customer(&mut self.rng));
        }
        let name = contents.any_name(&mut self.rng);
        let customers = contents.with_name(name);
        all.statement();
        let found = self.shared.engine.scan(BY_NAME, name_key(of, name, 0), customers.len())?;
        if !found.iter().map(|(key, _)| *key).eq(customers.iter().map(|c| name_key(of, name, *c))) {
            return Err(wrong(BY_NAME, name_key(of, name, 0), &format!("should have {customers:?}, found {found:x?}")));
        }
        for customer in customers {
            all.read(CUSTOMER, customer_key(of, *customer))?;
        }
        Ok(customers[(customers.len() - 1) / 2])
    }

    /// Clause 2.5.
    fn payment(&mut self) -> Result<()> {
        let (warehouse, within) = (self.any_warehouse(), self.rng.below(DISTRICTS));
        let shared = Arc::clone(&self.shared);
        let home = district(warehouse, within);
        // 15 in a hundred pay elsewhere.
        let of = match self.rng.below(100) {
            0..85 => home,
            _ => district(shared.contents.other_warehouse(&mut self.rng, warehouse), self.rng.below(DISTRICTS)),
        };
        let mut all = Statements::begin(&shared);
        for (table, key) in [(WAREHOUSE, warehouse), (DISTRICT, home)] {
            all.statement();
            all.update(table, key, YTD)?;
            all.statement();
            all.read_for_update(table, key)?;
        }
        let customer = self.find_customer(&all, of)?;
        let key = customer_key(of, customer);
        all.statement();
        all.read_for_update(CUSTOMER, key)?;
        all.statement();
        let data = if shared.contents.has_bad_credit(of, customer) { CREDIT_DATA } else { 0 };
        all.update(CUSTOMER, key, PAID + data)?;
        all.statement();
        all.insert(HISTORY, shared.known.next_history())?;
        all.commit(|_| ())
    }

    /// Clause 2.6. Of the newest order of a customer all is judged, unless its transaction is still under way.
    fn order_status(&mut self) -> Result<()> {
        let (warehouse, within) = (self.any_warehouse(), self.rng.below(DISTRICTS));
        let shared = Arc::clone(&self.shared);
        let home = district(warehouse, within);
        let all = Statements::begin(&shared);
        let customer = self.find_customer(&all, home)?;
        let key = customer_key(home, customer);
        all.statement();
        all.read(CUSTOMER, key)?;
        all.statement();
        let newest = shared.engine.scan(BY_CUSTOMER, key << 32, 1)?;
        let Some((found, _)) = newest.first().filter(|(found, _)| found >> 32 == key) else {
            return Err(wrong(BY_CUSTOMER, key << 32, &format!("is no customer's, found {newest:x?}")));
        };
        let number = u32::MAX - *found as u32;
        if number >= shared.known.next_order(home) {
            return all.commit(|_| ());
        }
        if shared.contents.customer(home, number) != customer {
            return Err(wrong(BY_CUSTOMER, *found, "is another customer's"));
        }
        let version = shared.engine.get(ORDER, order_key(home, number))?;
        if version.is_none_or(|version| version > u32::from(number >= FIRST_NEW)) {
            return Err(wrong(ORDER, order_key(home, number), &format!("has version {version:?}")));
        }
        all.statement();
        all.read_run(ORDER_LINE, line_key(home, number), shared.contents.line_count(home, number))?;
        all.commit(|_| ())
    }

    /// Clause 2.7, at once and not deferred: the first order of each district that is not delivered.
    fn delivery(&mut self) -> Result<()> {
        let warehouse = self.any_warehouse();
        let shared = Arc::clone(&self.shared);
        let (known, contents) = (&shared.known, &shared.contents);
        let mut all = Statements::begin(&shared);
        let mut delivered = Vec::new();
        for within in 0..DISTRICTS {
            let home = district(warehouse, within);
            all.statement();
            // In place of a lock on the gap before the first order: who delivers for a district does so alone.
            all.inner.lock(NEW_ORDER, order_key(home, u32::MAX));
            let number = known.undelivered(home);
            if number >= known.next_order(home) {
                self.tally.add("deliveries_skipped", 1);
                continue;
            }
            all.read_run(NEW_ORDER, order_key(home, number), 1)?;
            all.statement();
            all.delete(NEW_ORDER, order_key(home, number))?;
            all.statement();
            all.read(ORDER, order_key(home, number))?;
            all.statement();
            all.update(ORDER, order_key(home, number), CARRIER)?;
            all.statement();
            for line in 0..contents.line_count(home, number) {
                all.update(ORDER_LINE, line_key(home, number) + line, DELIVERED)?;
            }
            all.statement();
            all.read_run(ORDER_LINE, line_key(home, number), contents.line_count(home, number))?;
            all.statement();
            all.update(CUSTOMER, customer_key(home, contents.customer(home, number)), BALANCE)?;
            delivered.push(home);
        }
        all.commit(|known| delivered.into_iter().for_each(|home| known.settle_delivery(home)))
    }

    /// Clause 2.8: the stock of all items of a district's last orders.
    fn stock_level(&mut self) -> Result<()> {
        let (warehouse, within) = (self.any_warehouse(), self.rng.below(DISTRICTS));
        let shared = Arc::clone(&self.shared);
        let home = district(warehouse, within);
        let all = Statements::begin(&shared);
        all.statement();
        all.read(DISTRICT, home)?;
        let next = shared.known.next_order(home);
        all.statement();
        let mut items = BTreeSet::new();
        for number in next.saturating_sub(RECENT)..next {
            let lines = shared.contents.order(home, number).lines;
            all.read_run(ORDER_LINE, line_key(home, number), lines.len() as u64)?;
            items.extend(lines.into_iter().map(|(_, item)| item));
        }
        for item in items {
            all.read(STOCK, stock_key(warehouse, item))?;
        }
        all.commit(|_| ())
    }
}
