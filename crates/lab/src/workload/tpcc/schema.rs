//! The tables of TPC-C: how long their rows are, their keys, and what is in the rows that a program reads.
//!
//! The engine keeps no values, so what a row says follows from its key and the seed: an order's customer and lines, a
//! customer's name. Everything counts from 0. Clauses are those of the TPC-C specification, revision 5.11.

use crate::rng::{Rng, mix};

pub(super) const WAREHOUSE: usize = 0;
pub(super) const DISTRICT: usize = 1;
pub(super) const CUSTOMER: usize = 2;
pub(super) const HISTORY: usize = 3;
pub(super) const NEW_ORDER: usize = 4;
pub(super) const ORDER: usize = 5;
pub(super) const ORDER_LINE: usize = 6;
pub(super) const ITEM: usize = 7;
pub(super) const STOCK: usize = 8;
/// The index of customers by name.
pub(super) const BY_NAME: usize = 9;
/// The index of orders by customer, the newest first.
pub(super) const BY_CUSTOMER: usize = 10;
pub(super) const TABLES: usize = 11;

/// Bytes of a row, its key included (clause 1.2.1); of an index those of its columns and of the primary key.
const ROW_BYTES: [u64; TABLES] = [89, 95, 655, 46, 8, 24, 54, 82, 306, 39, 11];
/// Bytes of a key that the engine adds to each row by itself.
const KEY_BYTES: u64 = 20;

/// Rows of a warehouse, and items of all (clause 4.3.3).
pub(super) const DISTRICTS: u64 = 10;
pub(super) const CUSTOMERS: u64 = 3000;
pub(super) const ITEMS: u64 = 100_000;
/// Orders of a district after loading, and the first of them that is not delivered.
pub(super) const LOADED_ORDERS: u32 = 3000;
pub(super) const FIRST_NEW: u32 = 2100;
pub(super) const NAMES: u64 = 1000;
/// Lines of an order: from the first to the last, all equally likely.
const LINES: (u64, u64) = (5, 15);

/// Rows of a table after loading so many warehouses, nearly.
pub(super) fn loaded_rows(warehouses: u64) -> [u64; TABLES] {
    let districts = warehouses * DISTRICTS;
    let (customers, orders) = (districts * CUSTOMERS, districts * u64::from(LOADED_ORDERS));
    let new = districts * u64::from(LOADED_ORDERS - FIRST_NEW);
    let lines = orders * (LINES.0 + LINES.1) / 2;
    let stock = warehouses * ITEMS;
    [warehouses, districts, customers, customers, new, orders, lines, ITEMS, stock, customers, orders]
}

/// Bytes of each table's rows beside the key that the engine adds.
pub(super) fn row_bytes() -> [u64; TABLES] {
    ROW_BYTES.map(|bytes| bytes.saturating_sub(KEY_BYTES))
}

/// A district, counted over all warehouses.
pub(super) fn district(warehouse: u64, within: u64) -> u64 {
    warehouse * DISTRICTS + within
}

pub(super) fn customer_key(district: u64, customer: u64) -> u64 {
    district * CUSTOMERS + customer
}

pub(super) fn order_key(district: u64, order: u32) -> u64 {
    district << 32 | u64::from(order)
}

/// Of the first line; the others follow.
pub(super) fn line_key(district: u64, order: u32) -> u64 {
    order_key(district, order) << 4
}

pub(super) fn stock_key(warehouse: u64, item: u64) -> u64 {
    warehouse * ITEMS + item
}

pub(super) fn name_key(district: u64, name: u64, customer: u64) -> u64 {
    (district * NAMES + name) * CUSTOMERS + customer
}

/// Of an order in the index by customer.
pub(super) fn by_customer_key(district: u64, customer: u64, order: u32) -> u64 {
    customer_key(district, customer) << 32 | u64::from(u32::MAX - order)
}

/// A number by the rule of clause 2.1.6: not all are equally likely.
pub(super) fn nurand(rng: &mut Rng, a: u64, c: u64, count: u64) -> u64 {
    ((rng.below(a + 1) | rng.below(count)) + c) % count
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) customer: u64,
    /// The warehouse that supplies each line, and its item.
    pub(super) lines: Vec<(u64, u64)>,
}

/// What rows say.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    seed: u64,
    warehouses: u64,
    /// Constants of [`nurand`]: for customers, items, and names that are asked for.
    c_customer: u64,
    c_item: u64,
    c_name: u64,
    /// Customers of each name, in every district alike.
    by_name: Vec<Vec<u64>>,
}

impl Contents {
    pub(super) fn new(seed: u64, warehouses: u64) -> Self {
        let mut rng = Rng::new(seed, 0x5443_5043);
        let c_loaded = rng.below(256);
        // Clause 2.1.6.1: how far the constant for asking is from that for loading.
        let delta = loop {
            let delta = 65 + rng.below(55);
            if delta != 96 && delta != 112 {
                break delta;
            }
        };
        let c_name = if c_loaded >= delta { c_loaded - delta } else { c_loaded + delta };
        let drawn = |rng: &mut Rng, c| if c < NAMES { c } else { nurand(rng, 255, c_loaded, NAMES) };
        let mut by_name = vec![Vec::new(); NAMES as usize];
        (0..CUSTOMERS).for_each(|customer| by_name[drawn(&mut rng, customer) as usize].push(customer));
        let (c_customer, c_item) = (rng.below(1024), rng.below(8192));
        Contents { seed, warehouses, c_customer, c_item, c_name, by_name }
    }

    pub(super) fn warehouses(&self) -> u64 {
        self.warehouses
    }

    pub(super) fn any_customer(&self, rng: &mut Rng) -> u64 {
        nurand(rng, 1023, self.c_customer, CUSTOMERS)
    }

    pub(super) fn any_name(&self, rng: &mut Rng) -> u64 {
        nurand(rng, 255, self.c_name, NAMES)
    }

    /// Another warehouse, if there is one.
    pub(super) fn other_warehouse(&self, rng: &mut Rng, than: u64) -> u64 {
        match self.warehouses {
            1 => than,
            all => (than + 1 + rng.below(all - 1)) % all,
        }
    }

    /// Customers with a name, in order; at least one.
    pub(super) fn with_name(&self, name: u64) -> &[u64] {
        &self.by_name[name as usize]
    }

    /// One customer in ten, whose data becomes longer with each payment.
    pub(super) fn has_bad_credit(&self, district: u64, customer: u64) -> bool {
        mix(self.seed ^ customer_key(district, customer) << 1).is_multiple_of(10)
    }

    fn rng(&self, district: u64, order: u32) -> Rng {
        Rng::new(self.seed, order_key(district, order) << 4 | 11)
    }

    pub(super) fn line_count(&self, district: u64, order: u32) -> u64 {
        LINES.0 + self.rng(district, order).below(LINES.1 - LINES.0 + 1)
    }

    /// Of the orders that are loaded each customer has one.
    pub(super) fn customer(&self, district: u64, order: u32) -> u64 {
        if order < LOADED_ORDERS {
            // 7 and its powers have no divisor of 3000 = 2^3 * 3 * 5^3.
            let (factor, offset) = (7u64.pow(1 + (district % 8) as u32), mix(self.seed ^ district) % CUSTOMERS);
            return (u64::from(order) * factor + offset) % CUSTOMERS;
        }
        let mut rng = self.rng(district, order);
        rng.next();
        self.any_customer(&mut rng)
    }

    pub(super) fn order(&self, district: u64, order: u32) -> Order {
        let (count, customer) = (self.line_count(district, order), self.customer(district, order));
        let (mut rng, home) = (self.rng(district, order), district / DISTRICTS);
        // Behind the draws of the count and the customer.
        for _ in 0..3 {
            rng.next();
        }
        let mut line = || {
            let item = nurand(&mut rng, 8191, self.c_item, ITEMS);
            let remote = rng.below(100) == 0;
            (if remote { self.other_warehouse(&mut rng, home) } else { home }, item)
        };
        let mut lines: Vec<(u64, u64)> = (0..count).map(|_| line()).collect();
        // Whoever locks rows of stock does so in one order.
        lines.sort_unstable();
        Order { customer, lines }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_warehouse_has_the_bytes_of_the_specification() {
        // Clause 4.2.2: kilobytes of the rows of each table for a warehouse, and of all items.
        let kb = [0.089, 0.950, 19_650.0, 1380.0, 72.0, 720.0, 16_200.0, 8200.0, 30_600.0];
        for (table, ((rows, bytes), kb)) in loaded_rows(1).into_iter().zip(ROW_BYTES).zip(kb).enumerate() {
            assert_eq!((rows * bytes) as f64 / 1000.0, kb, "table {table}");
        }
    }

    #[test]
    fn numbers_are_skewed_as_nurand_says_and_orders_follow_from_their_number() {
        let contents = Contents::new(1, 4);
        let (mut rng, mut counts) = (Rng::new(2, 2), vec![0u64; CUSTOMERS as usize]);
        (0..300_000).for_each(|_| counts[contents.any_customer(&mut rng) as usize] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // Ten bits, each set three times in four: numbers with many bits are the likely ones.
        let head: u64 = counts[..300].iter().sum();
        assert!((0.35..0.65).contains(&(head as f64 / 300_000.0)), "a tenth of the customers has {head}");
        assert!(counts.iter().filter(|count| **count == 0).count() < 300);
        let customers: BTreeSet<u64> = (0..LOADED_ORDERS).map(|order| contents.customer(17, order)).collect();
        assert_eq!(customers.len() as u64, CUSTOMERS, "each has one of the orders that are loaded");
        let (mut lines, mut remote) = (0, 0);
        for order in LOADED_ORDERS..LOADED_ORDERS + 4000 {
            let made = contents.order(17, order);
            assert_eq!(made, contents.order(17, order));
            assert_eq!(made.lines.len() as u64, contents.line_count(17, order));
            assert!((5..=15).contains(&made.lines.len()) && made.lines.is_sorted());
            lines += made.lines.len();
            remote += made.lines.iter().filter(|(warehouse, _)| *warehouse != 1).count();
        }
        assert!((lines as f64 / 40_000.0 - 1.0).abs() < 0.02, "{lines} lines");
        assert!((remote as f64 / lines as f64 - 0.01).abs() < 0.003, "{remote} of {lines} lines are from elsewhere");
        let names: usize = (0..NAMES).map(|name| contents.with_name(name).len()).sum();
        assert!(names as u64 == CUSTOMERS && (0..NAMES).all(|name| !contents.with_name(name).is_empty()));
    }
}
