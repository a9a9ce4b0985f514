//! The course of the measured phase: counters at every sample, and figures of parts of it that amounts bound.
//!
//! A bound lies between two samples, nearly always: what the counters were there is taken from the straight line
//! between them.

use super::phases::named;
use super::sample::Snapshot;
use crate::spec::{Span, Window};

/// Counters in the order of time.
#[derive(Default)]
pub(super) struct Course(pub(super) Vec<Snapshot>);

/// Counters at a bound.
#[derive(Clone, Copy)]
struct At {
    seconds: f64,
    written: f64,
    device: f64,
    host_programmed: f64,
    programmed: f64,
}

impl At {
    fn of(snapshot: &Snapshot) -> Self {
        At {
            seconds: snapshot.at.as_nanos() as f64 / 1e9,
            written: snapshot.written as f64,
            device: snapshot.device_written as f64 * 4096.0,
            host_programmed: snapshot.flash.host_programmed as f64,
            programmed: snapshot.flash.programmed as f64,
        }
    }

    fn amount(&self, span: Span) -> f64 {
        match span {
            Span::Device => self.device,
            Span::Jobs => self.written,
        }
    }

    /// So far on the way to another.
    fn towards(self, other: At, share: f64) -> At {
        let between = |from: f64, to: f64| from + (to - from) * share;
        At {
            seconds: between(self.seconds, other.seconds),
            written: between(self.written, other.written),
            device: between(self.device, other.device),
            host_programmed: between(self.host_programmed, other.host_programmed),
            programmed: between(self.programmed, other.programmed),
        }
    }
}

impl Course {
    /// The interval, counted from 0, in which a device that moves blocks begins to tell so; none if it never does, or
    /// did before.
    pub(super) fn first_upcall(&self) -> Option<usize> {
        let told = self.0.iter().position(|snapshot| snapshot.upcalls > 0)?;
        told.checked_sub(1)
    }

    /// Counters when so much had been written since the beginning; none if it never came to that.
    fn at(&self, span: Span, amount: f64) -> Option<At> {
        let first = At::of(self.0.first()?);
        let wanted = first.amount(span) + amount;
        let mut before = first;
        for snapshot in &self.0 {
            let after = At::of(snapshot);
            let (low, high) = (before.amount(span), after.amount(span));
            if high >= wanted {
                let share = if high > low { (wanted - low) / (high - low) } else { 0.0 };
                return Some(before.towards(after, share));
            }
            before = after;
        }
        None
    }

    /// Figures of one part.
    fn part(&self, name: &str, span: Span, from: f64, to: f64) -> Vec<(String, f64)> {
        let Some((from, to)) = self.at(span, from).zip(self.at(span, to)) else { return Vec::new() };
        let written = to.written - from.written;
        let mut out = vec![(format!("{name}_kiops"), written / 4096e3 / (to.seconds - from.seconds).max(1e-9))];
        if written > 0.0 {
            out.push((format!("{name}_waf"), (to.device - from.device) / written));
            let programmed = (to.programmed - from.programmed) * 4096.0;
            out.extend((programmed > 0.0).then(|| (format!("{name}_total_waf"), programmed / written)));
        }
        if to.host_programmed > from.host_programmed {
            let share = (to.programmed - from.programmed) / (to.host_programmed - from.host_programmed);
            out.push((format!("{name}_flash_waf"), share));
        }
        out
    }

    /// Figures of every window, as far as the phase has come to it.
    pub(super) fn windows(&self, windows: &[Window]) -> Vec<(String, f64)> {
        let bytes = |window: &Window| (window.from.bytes() as f64, window.to.bytes() as f64);
        let part = |window: &Window| {
            let (from, to) = bytes(window);
            self.part(&window.name, window.of, from, to)
        };
        windows.iter().flat_map(part).collect()
    }

    /// Figures of the first and the last tenth of what the jobs wrote.
    pub(super) fn tenths(&self) -> Vec<(String, f64)> {
        let Some((first, last)) = self.0.first().zip(self.0.last()) else { return Vec::new() };
        let all = (last.written - first.written) as f64;
        let early = self.part("first_tenth", Span::Jobs, 0.0, all / 10.0);
        let late = self.part("last_tenth", Span::Jobs, all * 0.9, all);
        let mut out: Vec<(String, f64)> = match (early.first(), late.first()) {
            (Some((_, early)), Some((_, late))) if all > 0.0 => {
                named([("last_to_first_tenth", late / early.max(1e-9))]).collect()
            }
            _ => return Vec::new(),
        };
        out.extend(early.into_iter().chain(late));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::FlashNow;
    use super::*;
    use std::time::Duration;
    use steadyfs_rt::Instant;

    /// Ten seconds: two pages a second, of which the flash writes none more, then one page a second and three for each.
    fn course() -> Course {
        let snapshot = |second: u64| {
            let written = 100 + 2 * second.min(5) + second.saturating_sub(5);
            let copies = 2 * second.saturating_sub(5);
            Snapshot {
                at: Instant::from_nanos(7_000_000_000 + second * 1_000_000_000),
                written: written * 4096,
                read: 0,
                device_written: 2 * written,
                device_read: 0,
                cpu: Duration::ZERO,
                upcalls: second.saturating_sub(5),
                flash: FlashNow { host_programmed: written, programmed: written + copies, map_bytes: 0 },
            }
        };
        Course((0..=10).map(snapshot).collect())
    }

    #[test]
    fn collection_begins_with_the_first_message_and_not_before_the_course() {
        let Course(snapshots) = course();
        // Interval 5 is from the sixth snapshot to the seventh.
        assert_eq!(Course(snapshots.clone()).first_upcall(), Some(5));
        assert_eq!(Course(snapshots[..6].to_vec()).first_upcall(), None, "it never begins");
        assert_eq!(Course(snapshots[7..].to_vec()).first_upcall(), None, "it began before");
    }

    #[test]
    fn parts_are_cut_at_amounts_between_samples() {
        let (course, get) = (course(), |figures: &[(String, f64)], name: &str| {
            figures.iter().find(|(known, _)| known == name).map(|(_, value)| (value * 1e6).round() / 1e6)
        });
        let tenths = course.tenths();
        // Fifteen pages in all: the first one and a half take 0.75 s, the last 1.5 s.
        assert_eq!(get(&tenths, "first_tenth_kiops"), Some(0.002));
        assert_eq!(get(&tenths, "last_tenth_kiops"), Some(0.001));
        assert_eq!(get(&tenths, "last_to_first_tenth"), Some(0.5));
        assert_eq!(get(&tenths, "last_tenth_flash_waf"), Some(3.0));
        let window = |of: Span, from: u64, to: u64| {
            let (name, from, to) = ("w".to_owned(), crate::spec::Size::of(from), crate::spec::Size::of(to));
            course.windows(&[Window { name, of, from, to }])
        };
        // Two pages from the ninth on, which is between two samples: half a second at the old rate, one at the new one.
        let across = window(Span::Jobs, 9 * 4096, 11 * 4096);
        assert_eq!(get(&across, "w_kiops"), Some(0.001333));
        assert_eq!((get(&across, "w_flash_waf"), get(&across, "w_waf")), (Some(2.0), Some(2.0)));
        assert_eq!(window(Span::Device, 18 * 4096, 22 * 4096), across, "twice as much reaches the device");
        assert!(window(Span::Jobs, 8 * 4096, 16 * 4096).is_empty(), "it did not come so far");
    }
}
