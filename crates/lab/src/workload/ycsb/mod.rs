//! YCSB's core workloads A to F, and updates only, over the database engine (`engine`).
//!
//! Records have the number in which they were loaded, and a key that is a hash of it, so that they lie in the tree in
//! random order, as with YCSB's hashed insert order. Each thread does its share of the operations; every version that
//! is read is compared with what was committed before and begun since, and in the end every record of the tree with the
//! updates that it has had.

mod choose;
mod run;

use super::database::{Server, check_counts, database_options, defaults};
use super::{Act, Options, Plan};
use crate::engine::Config;
use crate::spec::Size;
use crate::stage::Stage;
use choose::Distribution;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

database_options! {
    /// The options: those of YCSB by its names, and those of the server.
    pub(crate) struct Ycsb {
        load: Load,
        /// Records that are loaded.
        recordcount: u64,
        /// Operations of all threads together.
        operationcount: u64,
        /// Fields of a record, and bytes of each.
        #[serde(default = "ten")]
        fieldcount: u32,
        #[serde(default = "hundred")]
        fieldlength: u32,
        /// An update changes all fields, not one.
        #[serde(default)]
        writeallfields: bool,
        /// The share of reads of loads A and F, instead of a half.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        readproportion: Option<f64>,
        /// The load's own if not given.
        #[serde(default)]
        requestdistribution: Option<Distribution>,
        /// A scan has any length up to this, all equally likely.
        #[serde(default = "hundred")]
        maxscanlength: u32,
    }
    fill = "defaults::random_fill"
}

/// A mix of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Load {
    A,
    B,
    C,
    D,
    E,
    F,
    UpdateOnly,
}

/// Shares of operations.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mix {
    read: f64,
    update: f64,
    insert: f64,
    scan: f64,
    /// The rest: reads of a record that is updated next.
    distribution: Distribution,
}

fn ten() -> u32 {
    10
}

fn hundred() -> u32 {
    100
}

impl Load {
    /// As YCSB's files of the core workloads have it.
    fn mix(self) -> Mix {
        let zipfian = Mix { read: 0.0, update: 0.0, insert: 0.0, scan: 0.0, distribution: Distribution::Zipfian };
        match self {
            Load::A => Mix { read: 0.5, update: 0.5, ..zipfian },
            Load::B => Mix { read: 0.95, update: 0.05, ..zipfian },
            Load::C => Mix { read: 1.0, ..zipfian },
            Load::D => Mix { read: 0.95, insert: 0.05, distribution: Distribution::Latest, ..zipfian },
            Load::E => Mix { scan: 0.95, insert: 0.05, ..zipfian },
            Load::F => Mix { read: 0.5, ..zipfian },
            Load::UpdateOnly => Mix { update: 1.0, ..zipfian },
        }
    }
}

impl Ycsb {
    /// The same with fewer records and operations, a smaller pool and a smaller log.
    pub(super) fn scaled(mut self, factor: f64) -> Self {
        let part = |count: u64| ((count as f64 * factor).round() as u64).max(1);
        self.recordcount = part(self.recordcount);
        self.operationcount = part(self.operationcount);
        self.scale_server(factor);
        self.ballast = self.ballast.map(|size| size.times(factor, 4096));
        self
    }

    fn mix(&self) -> Mix {
        let mut mix = self.load.mix();
        if let Some(read) = self.readproportion {
            mix.read = read;
            mix.update = if self.load == Load::A { 1.0 - read } else { 0.0 };
        }
        Mix { distribution: self.requestdistribution.unwrap_or(mix.distribution), ..mix }
    }

    fn engine(&self) -> Config {
        self.server().engine(&[self.value()])
    }

    /// Bytes of a record's value.
    fn value(&self) -> u64 {
        u64::from(self.fieldcount) * u64::from(self.fieldlength)
    }

    /// Bytes of it that an update changes.
    fn changed(&self) -> u64 {
        if self.writeallfields { self.value() } else { self.fieldlength.into() }
    }
}

impl Options for Ycsb {
    fn check(&self) -> Result<(), String> {
        check_counts(&[
            ("recordcount", self.recordcount, 1 << 31),
            ("operationcount", self.operationcount, 1 << 40),
            ("fieldcount", u64::from(self.fieldcount), 1 << 12),
            ("fieldlength", u64::from(self.fieldlength), 1 << 12),
            ("maxscanlength", u64::from(self.maxscanlength), 1 << 16),
        ])?;
        self.server().check()?;
        if self.engine().records_per_page(0) < 2 {
            return Err("workload.fieldlength: a page of 16 KiB has to hold two records".into());
        }
        let halves = matches!(self.load, Load::A | Load::F);
        if self.readproportion.is_some_and(|share| !halves || !(0.0..=1.0).contains(&share)) {
            return Err("workload.readproportion is a share of loads a and f, from 0 to 1".into());
        }
        Ok(())
    }

    fn file_bytes(&self) -> u64 {
        self.engine().file_bytes(&[self.recordcount]) + self.ballast_bytes()
    }
}

impl Plan for Ycsb {
    fn act(&self, stage: &Arc<Stage>) -> Box<dyn Act> {
        Box::new(run::Client::new(self, stage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ycsb(text: &str) -> Ycsb {
        toml::from_str(&format!("recordcount = 6500000\noperationcount = 2000000\n{text}")).unwrap()
    }

    #[test]
    fn mixes_are_whole_and_records_of_a_kilobyte_are_fifteen_to_a_page() {
        for load in [Load::A, Load::B, Load::C, Load::D, Load::E, Load::F, Load::UpdateOnly] {
            let Mix { read, update, insert, scan, .. } = load.mix();
            let rest = if load == Load::F { 0.5 } else { 0.0 };
            assert_eq!(read + update + insert + scan + rest, 1.0, "{load:?}");
        }
        let few = |load: &str| ycsb(&format!("load = '{load}'\nreadproportion = 0.25")).mix();
        assert_eq!([few("a"), few("f")].map(|mix| (mix.read, mix.update)), [(0.25, 0.75), (0.25, 0.0)]);
        let a = ycsb("load = 'a'");
        assert_eq!((a.engine().records_per_page(0), a.changed()), (15, 100));
        // 6.5 million records, 10 of them in a page of 16 KiB.
        assert!((a.file_bytes() as f64 / 10.65e9 - 1.0).abs() < 0.03, "{}", a.file_bytes());
        let small = a.scaled(1.0 / 64.0);
        assert_eq!((small.recordcount, small.operationcount), (101_563, 31_250));
        assert_eq!(small.buffer_pool.bytes(), 2 << 20);
        assert_eq!(small.check(), Ok(()));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (text, part) in [
            ("load = 'a'\nthreads = 0", "workload.threads"),
            ("load = 'a'\nthreads = 4000", "workload.buffer_pool"),
            ("load = 'a'\nfieldlength = 1000", "workload.fieldlength"),
            ("load = 'a'\nflush_log_at_trx_commit = 3", "workload.flush_log_at_trx_commit"),
            ("load = 'a'\nredo_file_size = '1000'", "workload.redo_file_size"),
            ("load = 'a'\nfill = 1.5", "workload.fill"),
        ] {
            let why = ycsb(text).check().unwrap_err();
            assert!(why.contains(part), "{why}");
        }
        let unknown: Result<Ycsb, _> =
            toml::from_str("load = 'a'\nrecordcount = 1\noperationcount = 1\nupdateproportion = 1");
        let e = unknown.unwrap_err().to_string();
        assert!(e.contains("updateproportion") && e.contains("readproportion"), "{e}");
        let e = toml::from_str::<Ycsb>("load = 'g'\nrecordcount = 1\noperationcount = 1").unwrap_err().to_string();
        assert!(e.contains("`g`") && e.contains("update-only"), "{e}");
    }
}
