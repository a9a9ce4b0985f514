//! How often a workload did what, and how long each took.

use crate::histogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// Times of operations by kind. Names of kinds become parts of names of figures: `read_latency_p99_us`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    kinds: BTreeMap<&'static str, Histogram>,
    /// Other things that were counted.
    counts: BTreeMap<&'static str, u64>,
    /// Figures of the whole workload.
    figures: BTreeMap<&'static str, f64>,
}

impl Tally {
    /// Counts one operation.
    pub(crate) fn record(&mut self, kind: &'static str, time: Duration) {
        self.kinds.entry(kind).or_default().record(time);
    }

    /// Counts something that is no operation; it becomes a figure of this name.
    pub(crate) fn add(&mut self, what: &'static str, many: u64) {
        *self.counts.entry(what).or_default() += many;
    }

    /// Notes a figure of the whole workload.
    pub(crate) fn set(&mut self, what: &'static str, value: f64) {
        self.figures.insert(what, value);
    }

    /// Adds another's counts.
    pub(crate) fn merge(&mut self, other: &Tally) {
        for (kind, times) in &other.kinds {
            self.kinds.entry(kind).or_default().merge(times);
        }
        for (what, many) in &other.counts {
            self.add(what, *many);
        }
        self.figures.extend(&other.figures);
    }

    /// Operations of one kind.
    #[cfg(test)]
    pub(crate) fn count(&self, kind: &str) -> u64 {
        self.kinds.get(kind).map_or(0, Histogram::count)
    }

    /// The distribution of latencies: of all operations (`all`), and of each kind.
    pub(crate) fn curves(&self) -> BTreeMap<String, Vec<(f64, f64)>> {
        let mut out: BTreeMap<_, _> =
            self.kinds.iter().map(|(kind, times)| ((*kind).to_owned(), curve(times))).collect();
        out.insert("all".into(), curve(&self.together()));
        out
    }

    fn together(&self) -> Histogram {
        let mut all = Histogram::default();
        self.kinds.values().for_each(|times| all.merge(times));
        all
    }

    /// Figures of a phase that took so many seconds: of all operations together, then of each kind.
    pub(crate) fn metrics(&self, seconds: f64) -> BTreeMap<String, f64> {
        let all = self.together();
        let mut out: BTreeMap<String, f64> = latencies("", &all).collect();
        if let Some(worse) = Some(all.quantile_us(0.999) / all.quantile_us(0.5)).filter(|worse| worse.is_finite()) {
            out.insert("latency_p999_to_p50".into(), worse);
        }
        out.insert("ios".into(), all.count() as f64);
        out.insert("iops".into(), all.count() as f64 / seconds);
        for (kind, times) in &self.kinds {
            out.extend(latencies(&format!("{kind}_"), times));
            out.insert(format!("{kind}_ops"), times.count() as f64);
            out.insert(format!("{kind}_ops_s"), times.count() as f64 / seconds);
        }
        out.extend(self.counts.iter().map(|(what, many)| ((*what).to_owned(), *many as f64)));
        out.extend(self.figures.iter().map(|(what, value)| ((*what).to_owned(), *value)));
        out
    }
}

/// Shares of operations for which latencies are kept: hundredths, and the ends.
fn shares() -> impl Iterator<Item = f64> {
    (1..100).map(|part| f64::from(part) / 100.0).chain([0.995, 0.999, 0.9995, 0.9999, 0.99999, 1.0])
}

fn curve(times: &Histogram) -> Vec<(f64, f64)> {
    shares().map(|share| (share, times.quantile_us(share))).collect()
}

fn latencies(prefix: &str, times: &Histogram) -> impl Iterator<Item = (String, f64)> {
    [
        ("mean", times.mean_us()),
        ("p50", times.quantile_us(0.5)),
        ("p95", times.quantile_us(0.95)),
        ("p99", times.quantile_us(0.99)),
        ("p999", times.quantile_us(0.999)),
        ("max", times.max_us()),
    ]
    .map(|(name, value)| (format!("{prefix}latency_{name}_us"), value))
    .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_apart_and_together() {
        let (mut one, mut other) = (Tally::default(), Tally::default());
        one.record("read", Duration::from_micros(1));
        other.record("read", Duration::from_micros(1));
        other.record("update", Duration::from_micros(100));
        one.add("skipped", 2);
        other.add("skipped", 3);
        one.merge(&other);
        let figures = one.metrics(2.0);
        let curves = one.curves();
        assert_eq!(curves["all"].iter().find(|(share, _)| *share == 0.6).map(|(_, us)| us.trunc()), Some(1.0));
        assert_eq!((curves["all"].last(), curves["update"].len()), (Some(&(1.0, 100.0)), 105));
        assert_eq!((one.count("read"), one.count("update"), one.count("scan")), (2, 1, 0));
        for (name, value) in [
            ("ios", 3.0),
            ("iops", 1.5),
            ("latency_mean_us", 34.0),
            ("latency_max_us", 100.0),
            ("read_ops_s", 1.0),
            ("read_latency_max_us", 1.0),
            ("update_ops", 1.0),
            ("skipped", 5.0),
            ("update_latency_mean_us", 100.0),
        ] {
            assert_eq!(figures[name], value, "{name}");
        }
    }
}
