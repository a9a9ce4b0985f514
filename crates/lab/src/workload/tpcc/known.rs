//! What is known of the rows: versions that are settled and begun, orders of each district, payments.
//!
//! Kept true: a row's settled version is that of the last transaction that has ended with a commit; while a transaction
//! holds a row nobody else changes it. Reads without a lock may see what is not committed, so they are held to what was
//! settled before and begun since.

use super::schema::{
    BY_CUSTOMER, BY_NAME, CUSTOMER, Contents, DISTRICT, DISTRICTS, FIRST_NEW, HISTORY, ITEM, ITEMS, LOADED_ORDERS,
    NAMES, NEW_ORDER, ORDER, ORDER_LINE, STOCK, TABLES, WAREHOUSE, by_customer_key, line_key, loaded_rows, name_key,
    order_key,
};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Versions of the rows of a table, by key.
struct Versions {
    settled: Vec<AtomicU32>,
    begun: Vec<AtomicU32>,
}

impl Versions {
    fn new(rows: u64) -> Self {
        let zeros = || (0..rows).map(|_| AtomicU32::new(0)).collect();
        Versions { settled: zeros(), begun: zeros() }
    }
}

/// The orders of a district.
struct Orders {
    /// The number of the next.
    next: AtomicU32,
    /// The first that is not delivered.
    undelivered: AtomicU32,
}

/// See the head of the module.
pub(super) struct Known {
    /// Of tables whose rows are updated and stay.
    versions: [Option<Versions>; TABLES],
    orders: Vec<Orders>,
    history: AtomicU64,
}

impl Known {
    /// After loading.
    pub(super) fn new(warehouses: u64) -> Self {
        let rows = loaded_rows(warehouses);
        let updated = [WAREHOUSE, DISTRICT, CUSTOMER, STOCK];
        let versions = |table| updated.contains(&table).then(|| Versions::new(rows[table]));
        let orders = || Orders { next: LOADED_ORDERS.into(), undelivered: FIRST_NEW.into() };
        Known {
            versions: std::array::from_fn(versions),
            orders: (0..warehouses * DISTRICTS).map(|_| orders()).collect(),
            history: AtomicU64::new(rows[HISTORY]),
        }
    }

    /// The version that a row has for whoever holds it and has not changed it; 0 for rows that are never updated.
    pub(super) fn settled(&self, table: usize, key: u64) -> u32 {
        self.versions[table].as_ref().map_or(0, |known| known.settled[key as usize].load(Relaxed))
    }

    /// The highest version that a row can have had.
    pub(super) fn begun(&self, table: usize, key: u64) -> u32 {
        self.versions[table].as_ref().map_or(0, |known| known.begun[key as usize].load(Relaxed))
    }

    /// The holder of a row is about to make this version of it.
    pub(super) fn begin(&self, table: usize, key: u64, version: u32) {
        if let Some(known) = &self.versions[table] {
            known.begun[key as usize].fetch_max(version, Relaxed);
        }
    }

    /// The holder of a row has changed it so many times, and commits.
    pub(super) fn settle(&self, table: usize, key: u64, changes: u32) {
        if let Some(known) = &self.versions[table] {
            known.settled[key as usize].fetch_add(changes, Relaxed);
        }
    }

    /// The number of a district's next order.
    pub(super) fn next_order(&self, district: u64) -> u32 {
        self.orders[district as usize].next.load(Relaxed)
    }

    /// The holder of a district has made its next order, and commits.
    pub(super) fn settle_order(&self, district: u64) {
        self.orders[district as usize].next.fetch_add(1, Relaxed);
    }

    /// The first of a district's orders that is not delivered.
    pub(super) fn undelivered(&self, district: u64) -> u32 {
        self.orders[district as usize].undelivered.load(Relaxed)
    }

    /// Whoever delivers for a district has delivered its first order, and commits.
    pub(super) fn settle_delivery(&self, district: u64) {
        self.orders[district as usize].undelivered.fetch_add(1, Relaxed);
    }

    /// A new row of the history. Payments are never taken back.
    pub(super) fn next_history(&self) -> u64 {
        self.history.fetch_add(1, Relaxed)
    }

    /// An order's version, and that of its lines: they change once, when it is delivered.
    fn order_version(&self, district: u64, order: u32) -> u32 {
        u32::from((FIRST_NEW..self.undelivered(district)).contains(&order))
    }

    /// All rows that a table should have while nothing changes, in the order of their keys, with their versions.
    pub(super) fn rows<'a>(
        &'a self,
        table: usize,
        contents: &'a Contents,
    ) -> Box<dyn Iterator<Item = (u64, u32)> + 'a> {
        let districts = 0..self.orders.len() as u64;
        let orders = move |district| (0..self.next_order(district)).map(move |order| (district, order));
        let unchanged = |keys: std::ops::Range<u64>| keys.map(|key| (key, 0));
        match table {
            HISTORY => Box::new(unchanged(0..self.history.load(Relaxed))),
            ITEM => Box::new(unchanged(0..ITEMS)),
            NEW_ORDER => Box::new(districts.flat_map(move |district| {
                let new = self.undelivered(district)..self.next_order(district);
                new.map(move |order| (order_key(district, order), 0))
            })),
            ORDER => Box::new(
                districts
                    .flat_map(orders)
                    .map(move |(district, order)| (order_key(district, order), self.order_version(district, order))),
            ),
            ORDER_LINE => Box::new(districts.flat_map(orders).flat_map(move |(district, order)| {
                let (first, version) = (line_key(district, order), self.order_version(district, order));
                (0..contents.line_count(district, order)).map(move |line| (first + line, version))
            })),
            BY_NAME => Box::new(districts.flat_map(move |district| {
                let names = (0..NAMES).flat_map(move |name| contents.with_name(name).iter().map(move |c| (name, *c)));
                names.map(move |(name, customer)| (name_key(district, name, customer), 0))
            })),
            BY_CUSTOMER => Box::new(districts.flat_map(move |district| {
                let key = move |(district, order)| by_customer_key(district, contents.customer(district, order), order);
                let mut keys: Vec<u64> = orders(district).map(key).collect();
                keys.sort_unstable();
                keys.into_iter().map(|key| (key, 0))
            })),
            _ => {
                let all = self.versions[table].as_ref().map_or(0, |known| known.settled.len() as u64);
                Box::new((0..all).map(move |key| (key, self.settled(table, key))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::CUSTOMERS;
    use super::*;

    #[test]
    fn rows_rise_and_are_as_many_as_the_specification_says() {
        let (known, contents) = (Known::new(1), Contents::new(3, 1));
        for (table, expected) in loaded_rows(1).into_iter().enumerate() {
            let keys: Vec<u64> = known.rows(table, &contents).map(|(key, _)| key).collect();
            assert!(keys.is_sorted_by(|a, b| a < b), "table {table}");
            let off = keys.len() as f64 / expected as f64 - 1.0;
            // Lines are drawn; all else is exact.
            assert!(off.abs() < if table == ORDER_LINE { 0.01 } else { 1e-9 }, "table {table}: {}", keys.len());
        }
        assert_eq!(known.rows(CUSTOMER, &contents).count() as u64, DISTRICTS * CUSTOMERS);
        known.settle_order(3);
        known.settle_delivery(3);
        let of = |table| known.rows(table, &contents).filter(|(key, _)| key >> 32 == 3).collect::<Vec<_>>();
        assert_eq!((of(ORDER).len(), of(NEW_ORDER).len()), (3001, 900));
        assert_eq!(of(ORDER).iter().filter(|(_, version)| *version == 1).count(), 1);
    }
}
