//! A number as it is exported: what follows the name of its statistic, and its labels.

use crate::waits::{LATENCY_LIMITS_US, Latency, micros};

/// One number as it is exported.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What follows the name of the statistic: of histograms only.
    pub end: &'static str,
    /// Labels and their values.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub number: f64,
}

/// A histogram in the form of Prometheus: how many did not exceed each limit, their sum and their number.
pub(super) fn distribution(label: &'static str, value: &str, latency: &Latency) -> Vec<Sample> {
    let sample = |end, limit: Option<String>, number| {
        let limit = limit.map(|limit| ("le", limit));
        Sample { end, labels: [(label, value.to_owned())].into_iter().chain(limit).collect(), number }
    };
    let mut below = 0;
    let limits = LATENCY_LIMITS_US.iter().map(|us| (*us as f64 / 1e6).to_string()).chain(["+Inf".to_owned()]);
    let buckets = limits.zip(latency.within).map(|(limit, count)| {
        below += count;
        sample("_bucket", Some(limit), below as f64)
    });
    let mut samples: Vec<Sample> = buckets.collect();
    samples.push(sample("_sum", None, micros::of(latency.sum) as f64 / 1e6));
    samples.push(sample("_count", None, latency.count as f64));
    samples
}
