//! A snapshot as Prometheus' text exposition format, version 0.0.4:
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>.
//!
//! Kept true: every name begins with `steadyfs_` and has a HELP and a TYPE line before its samples; counters end in
//! `_total`, and only they; label values are known words and numbers, which need no escapes. Which numbers there are
//! is a table of the core.

use std::fmt::Write;

use steadyfs_core::stats::{Kind, STATISTICS, SegmentMap, VolumeStats};

/// The exposition of a snapshot: family after family, those without a sample left out.
pub(super) fn render(stats: &VolumeStats, map: &SegmentMap) -> String {
    let mut text = String::with_capacity(16 << 10);
    for statistic in &STATISTICS {
        let samples = statistic.samples(stats, map);
        if samples.is_empty() {
            continue;
        }
        let (name, label) = (statistic.full_name(), statistic.label());
        let kind = match statistic.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", statistic.help);
        for (value, number) in samples {
            let _ = match label {
                "" => writeln!(text, "{name} {number}"),
                label => writeln!(text, "{name}{{{label}=\"{value}\"}} {number}"),
            };
        }
    }
    text
}
