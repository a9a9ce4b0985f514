//! How long requests took, by operation: over the last interval, or since the mount where there is none; and which are
//! held up now.

use std::time::Duration;

use steadyfs_core::stats::{Latency, SlowRequest, VolumeStats};

use super::plain::time;

/// One operation.
pub(super) struct Row {
    pub(super) operation: String,
    /// Requests in a second; nothing if there is no interval.
    pub(super) rate: Option<f64>,
    pub(super) times: Latency,
}

impl Row {
    /// What the row says: requests, what half of them and 99 of 100 did not exceed, the longest.
    pub(super) fn words(&self) -> [String; 4] {
        let number = match self.rate {
            Some(rate) if rate < 9.95 => format!("{rate:.1}/s"),
            Some(rate) => format!("{rate:.0}/s"),
            None => self.times.count.to_string(),
        };
        [number, time(self.times.p50), time(self.times.p99), time(self.times.longest)]
    }
}

/// A request that is held up, in words: what, for how long, what it waits for, and who asks for what.
pub(super) fn held(request: &SlowRequest) -> [String; 4] {
    let lasted = time(Duration::from_micros(request.lasted_us));
    let cause = request.waits_for.as_deref().unwrap_or("-").to_owned();
    let who = format!("inode {}, user {}, process {}", request.inode, request.user, request.process);
    [request.operation.clone(), lasted, cause, who]
}

/// The operations that occurred, those first on which most time was spent.
pub(super) fn rows(now: &VolumeStats, before: Option<&VolumeStats>) -> Vec<Row> {
    let interval = before.and_then(|before| now.mounted_us.checked_sub(before.mounted_us)).filter(|us| *us > 0);
    let before = before.filter(|_| interval.is_some());
    let mut rows: Vec<Row> = now
        .serving
        .latency
        .iter()
        .filter_map(|(operation, all)| {
            let times = match before {
                Some(before) => all.since(before.serving.latency.get(operation).unwrap_or(&Latency::default())),
                None => *all,
            };
            let rate = interval.map(|us| times.count as f64 / Duration::from_micros(us).as_secs_f64());
            (times.count > 0).then(|| Row { operation: operation.clone(), rate, times })
        })
        .collect();
    rows.sort_by(|a, b| b.times.sum.cmp(&a.times.sum).then_with(|| a.operation.cmp(&b.operation)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadyfs_core::stats::Histogram;

    fn stats(us: u64, times: &[(&str, &Histogram)]) -> VolumeStats {
        let mut stats = VolumeStats { mounted_us: us, ..VolumeStats::default() };
        stats.serving.latency = times.iter().map(|(name, times)| ((*name).to_owned(), times.latency())).collect();
        stats
    }

    #[test]
    fn rows_are_those_of_the_interval_and_the_costliest_comes_first() {
        let (read, write, lookup) = (Histogram::new(), Histogram::new(), Histogram::new());
        (0..1000).for_each(|_| lookup.note(Duration::from_micros(3)));
        let before = stats(1_000_000, &[("lookup", &lookup)]);
        (0..50).for_each(|_| read.note(Duration::from_micros(90)));
        write.note(Duration::from_millis(70));
        let now = stats(3_000_000, &[("lookup", &lookup), ("read", &read), ("write", &write)]);
        let lately = rows(&now, Some(&before));
        let names = |rows: &[Row]| rows.iter().map(|row| row.operation.clone()).collect::<Vec<_>>();
        assert_eq!(names(&lately), ["write", "read"], "nobody looked a name up");
        assert_eq!(lately[0].words(), ["0.5/s", "70.0 ms", "70.0 ms", "70.0 ms"]);
        assert_eq!(lately[1].words()[0], "25/s");
        let all = rows(&now, None);
        assert_eq!(names(&all), ["write", "read", "lookup"]);
        assert_eq!(all[2].words()[0], "1000");
        // A look at a later mount is no interval.
        assert_eq!(names(&rows(&before, Some(&now))), ["lookup"]);
    }
}
