//! A snapshot as Prometheus' text exposition format, version 0.0.4:
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>.
//!
//! Kept true: every name begins with `steadyfs_` and has a HELP and a TYPE line before its samples; counters end in
//! `_total`, and only they; a label value, which may be that of a hostile volume, ends where it should. Which numbers
//! there are is a table of the core.

use std::fmt::Write;

use steadyfs_core::stats::{Kind, STATISTICS, Sample, SegmentMap, VolumeStats};
use steadyfs_format::quote::quote;

/// The exposition of a snapshot: family after family, those without a sample left out.
pub(super) fn render(stats: &VolumeStats, map: &SegmentMap) -> String {
    let mut text = String::with_capacity(16 << 10);
    for statistic in &STATISTICS {
        let samples = statistic.samples(stats, map);
        if samples.is_empty() {
            continue;
        }
        let name = statistic.full_name();
        let kind = match statistic.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", statistic.help);
        for Sample { end, labels, number } in samples {
            let label = |(label, value): (_, String)| format!("{label}=\"{}\"", escaped(&value));
            let labels: Vec<String> = labels.into_iter().map(label).collect();
            let _ = match labels.is_empty() {
                true => writeln!(text, "{name}{end} {number}"),
                false => writeln!(text, "{name}{end}{{{}}} {number}", labels.join(",")),
            };
        }
    }
    text
}

/// A label value: one line of visible characters, with the escapes of the format.
fn escaped(value: &str) -> String {
    quote(value).to_string().replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_add_samples() {
        let mut stats = VolumeStats::default();
        stats.volume.label = "a\"} 1\nsteadyfs_evil 1\\".to_owned();
        let text = render(&stats, &SegmentMap::default());
        assert!(text.contains("\nsteadyfs_volume_info{volume=\"a\\\"} 1\\\\nsteadyfs_evil 1\\\\\"} 1\n"), "{text}");
        assert!(!text.contains("\nsteadyfs_evil"));
    }
}
