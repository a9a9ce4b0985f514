//! Keeps one message from filling the log: a device that refuses everything makes thousands in a second, all alike.
//!
//! The first [`FIRST`] warnings or errors of one place in the code are shown; after that one in [`INTERVAL`], with the
//! number of those that were left out. A place that was silent for [`INTERVAL`] begins again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Level, Metadata};

const FIRST: u64 = 10;
const INTERVAL: Duration = Duration::from_secs(10);

/// What one place has said.
struct Said {
    /// Messages since it was last silent.
    count: u64,
    /// Those of them that were left out and not told of.
    left_out: u64,
    shown: Instant,
    last: Instant,
}

/// Decides which messages are shown.
#[derive(Default)]
pub(super) struct Limit {
    said: Mutex<HashMap<Identifier, Said>>,
}

/// A message that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// How many like it were left out before it.
    pub(super) left_out: u64,
}

impl Shown {
    /// What stands behind the message.
    pub(super) fn note(self) -> String {
        match self.left_out {
            0 => String::new(),
            1 => " (one more like this was left out)".to_owned(),
            n => format!(" ({n} more like this were left out)"),
        }
    }
}

impl Limit {
    /// Whether a message is shown, and what is to be said with it.
    pub(super) fn admit(&self, meta: &Metadata<'_>) -> Option<Shown> {
        if *meta.level() > Level::WARN {
            return Some(Shown { left_out: 0 });
        }
        self.admit_at(meta.callsite(), Instant::now())
    }

    fn admit_at(&self, place: Identifier, now: Instant) -> Option<Shown> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let said = said.entry(place).or_insert(Said { count: 0, left_out: 0, shown: now, last: now });
        if now.duration_since(said.last) >= INTERVAL {
            said.count = 0;
        }
        said.last = now;
        said.count += 1;
        if said.count > FIRST && now.duration_since(said.shown) < INTERVAL {
            said.left_out += 1;
            return None;
        }
        said.shown = now;
        Some(Shown { left_out: std::mem::take(&mut said.left_out) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_becomes_a_line_in_ten_seconds_with_its_number() {
        let place = tracing::callsite!(name: "a", kind: tracing::metadata::Kind::EVENT, fields: one);
        let other = tracing::callsite!(name: "b", kind: tracing::metadata::Kind::EVENT, fields: one);
        let place = || tracing::Callsite::metadata(place).callsite();
        let (limit, start) = (Limit::default(), Instant::now());
        let at = |millis: u64| limit.admit_at(place(), start + Duration::from_millis(millis));
        let shown: Vec<u64> = (0..25_000).filter(|millis| at(*millis).is_some()).collect();
        assert_eq!(shown, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10_009, 20_009]);
        assert_eq!(at(30_009), Some(Shown { left_out: 4990 }));
        assert_eq!(limit.admit_at(tracing::Callsite::metadata(other).callsite(), start), Some(Shown { left_out: 0 }));
        let after: Vec<_> = (0..12).map(|i| at(60_000 + i)).collect();
        assert!(after[..10].iter().all(|shown| *shown == Some(Shown { left_out: 0 })) && after[10..] == [None; 2]);
    }
}
