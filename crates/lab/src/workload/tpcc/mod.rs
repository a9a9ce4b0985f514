//! TPC-C's five transactions over the database engine (`engine`), as load for the file system below.
//!
//! Tables, row lengths, skew and the mix are those of the specification (revision 5.11): 45 % new-order, 43 % payment,
//! 4 % each of order-status, delivery and stock-level. A transaction has several statements and one commit; its rows
//! are locked until then, and one new-order in a hundred is rolled back. As in tpcc-mysql, which D2FS (FAST '25) uses,
//! nobody thinks or types between transactions, a terminal takes any warehouse, and two indices are kept beside the
//! tables. What is read is judged; in the end every row of every table has to have the version that was committed last.
//!
//! What it is not: a run that may be called TPC-C. Rows have lengths and versions, but no values; nothing is measured
//! against the response times and the pacing that the specification demands.

mod known;
mod run;
mod schema;

use super::database::{Server, check_counts, database_options, defaults};
use super::{Act, Options, Plan};
use crate::engine::Config;
use crate::spec::Size;
use crate::stage::Stage;
use std::sync::Arc;

database_options! {
    /// The options.
    pub(crate) struct Tpcc {
        /// The size of the database; smaller with the scale.
        warehouses: u32,
        /// Seconds; fewer with the scale.
        runtime: f64,
    }
    fill = "defaults::sequential_fill"
}

/// The transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

/// Transactions of each kind in a hundred (clause 5.2.3).
const MIX: [(Kind, u64); 5] =
    [(Kind::NewOrder, 45), (Kind::Payment, 43), (Kind::OrderStatus, 4), (Kind::Delivery, 4), (Kind::StockLevel, 4)];

impl Kind {
    /// Which comes for a number below 100.
    fn of(mut drawn: u64) -> Kind {
        for (kind, share) in MIX {
            if drawn < share {
                return kind;
            }
            drawn -= share;
        }
        unreachable!("the shares are a hundred together")
    }

    fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "new_order",
            Kind::Payment => "payment",
            Kind::OrderStatus => "order_status",
            Kind::Delivery => "delivery",
            Kind::StockLevel => "stock_level",
        }
    }
}

impl Tpcc {
    /// The same with fewer warehouses, for a shorter time. The ballast takes what rounding and the items, which are as
    /// many at any scale, change in the database: all files together are the scale's part of what they were.
    pub(super) fn scaled(mut self, factor: f64) -> Self {
        let whole = self.file_bytes() as f64 * factor;
        self.warehouses = ((f64::from(self.warehouses) * factor).round() as u32).max(1);
        self.runtime *= factor;
        self.scale_server(factor);
        let ballast = self.ballast.take();
        let rest = (whole as u64).saturating_sub(self.file_bytes()) / 4096 * 4096;
        self.ballast = ballast.filter(|_| rest > 0).map(|_| Size::of(rest));
        self
    }

    fn engine(&self) -> Config {
        self.server().engine(&schema::row_bytes())
    }
}

impl Options for Tpcc {
    fn check(&self) -> Result<(), String> {
        check_counts(&[("warehouses", self.warehouses.into(), 1 << 16)])?;
        if !(self.runtime > 0.0 && self.runtime < 1e6) {
            return Err(format!("workload.runtime: {} is no number of seconds above 0", self.runtime));
        }
        self.server().check()
    }

    fn file_bytes(&self) -> u64 {
        let rows = schema::loaded_rows(self.warehouses.into());
        self.engine().file_bytes(&rows) + self.ballast_bytes()
    }
}

impl Plan for Tpcc {
    fn act(&self, stage: &Arc<Stage>) -> Box<dyn Act> {
        Box::new(run::Terminals::new(self, stage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tpcc(text: &str) -> Tpcc {
        toml::from_str(&format!("warehouses = 1700\nruntime = 1800\n{text}")).unwrap()
    }

    #[test]
    fn the_mix_is_whole_and_a_scaled_database_fills_the_same_share() {
        assert_eq!(MIX.iter().map(|(_, share)| share).sum::<u64>(), 100);
        let kinds: Vec<Kind> = (0..100).map(Kind::of).collect();
        for (kind, share) in MIX {
            assert_eq!(kinds.iter().filter(|of| **of == kind).count() as u64, share, "{kind:?}");
        }
        // D2FS' paper has 155 GB for 1700 warehouses.
        let full = tpcc("threads = 15\nballast = '60G'");
        let database = full.file_bytes() - (60 << 30);
        assert!((database as f64 / 155e9 - 1.0).abs() < 0.03, "{database}");
        let whole = full.file_bytes() as f64;
        let small = full.scaled(1.0 / 256.0);
        assert_eq!((small.warehouses, small.runtime, small.check()), (7, 1800.0 / 256.0, Ok(())));
        assert!((small.file_bytes() as f64 * 256.0 / whole - 1.0).abs() < 0.001, "{}", small.file_bytes());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (text, part) in [
            ("threads = 0", "workload.threads"),
            ("threads = 4000", "workload.buffer_pool"),
            ("fill = 0.0", "workload.fill"),
            ("query_us = 0", "workload.query_us"),
        ] {
            let why = tpcc(text).check().unwrap_err();
            assert!(why.contains(part), "{why}");
        }
        assert!(Tpcc { warehouses: 0, ..tpcc("") }.check().unwrap_err().contains("workload.warehouses"));
        assert!(Tpcc { runtime: 0.0, ..tpcc("") }.check().unwrap_err().contains("workload.runtime"));
        let unknown = toml::from_str::<Tpcc>("warehouses = 1\nruntime = 1\nrecordcount = 1").unwrap_err().to_string();
        assert!(unknown.contains("recordcount") && unknown.contains("warehouses"), "{unknown}");
    }
}
