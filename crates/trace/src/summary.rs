//! What a trace amounts to: operations, bytes, footprint, rates.

use crate::file::Trace;
use crate::record::{Op, Record};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OpSummary {
    /// How many.
    pub count: u64,
    /// Of these, how many failed.
    pub failed: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// The mean time, in microseconds.
    pub mean_us: f64,
    /// The longest, in microseconds.
    pub max_us: f64,
}

/// A whole trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// From the first operation's beginning to the last one's end.
    pub seconds: f64,
    /// How many operations.
    pub operations: u64,
    /// How many more were not written down.
    pub dropped: u64,
    /// Whether the file is cut off.
    pub cut_off: bool,
    /// Threads that asked; the kernel's own requests count as one.
    pub threads: u64,
    /// Inodes that something was done with.
    pub files: u64,
    /// By kind.
    pub ops: BTreeMap<Op, OpSummary>,
    /// Sizes of reads: bytes to how many, each rounded up to a power of two.
    pub read_sizes: BTreeMap<u64, u64>,
    /// Sizes of writes.
    pub write_sizes: BTreeMap<u64, u64>,
    /// Distinct bytes that were read or written, in pages of 4096 bytes.
    pub footprint_bytes: u64,
    /// Of these, written.
    pub written_footprint_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes written per second, in 10^6.
    pub write_mb_s: f64,
    /// The most that were written in one second, in 10^6.
    pub write_mb_s_most: f64,
}

impl Summary {
    /// Looks at every record once.
    pub fn of(trace: &Trace) -> Self {
        let records = &trace.records;
        let first = records.iter().map(|record| record.start_ns).min().unwrap_or(0);
        let last = records.iter().map(Record::end_ns).max().unwrap_or(0);
        let mut out = Summary {
            seconds: (last - first) as f64 / 1e9,
            operations: records.len() as u64,
            dropped: trace.dropped,
            cut_off: trace.cut_off,
            threads: records.iter().map(|record| record.thread).collect::<BTreeSet<_>>().len() as u64,
            files: records.iter().map(|record| record.file).collect::<BTreeSet<_>>().len() as u64,
            ..Summary::default()
        };
        let (mut pages, mut written) = (Pages::default(), Pages::default());
        let mut per_second: BTreeMap<u64, u64> = BTreeMap::new();
        for record in records {
            let op = out.ops.entry(record.op).or_default();
            op.count += 1;
            op.failed += u64::from(record.error != 0);
            op.bytes += record.done;
            op.mean_us += record.duration_ns as f64 / 1e3;
            op.max_us = op.max_us.max(record.duration_ns as f64 / 1e3);
            let sizes = match record.op {
                Op::Read => &mut out.read_sizes,
                Op::Write => &mut out.write_sizes,
                _ => continue,
            };
            *sizes.entry(record.size.max(1).checked_next_power_of_two().unwrap_or(1 << 63)).or_default() += 1;
            pages.add(record);
            if record.op == Op::Write {
                written.add(record);
                out.written_bytes += record.done;
                *per_second.entry((record.end_ns() - first) / 1_000_000_000).or_default() += record.done;
            }
        }
        out.ops.values_mut().for_each(|op| op.mean_us /= op.count as f64);
        (out.footprint_bytes, out.written_footprint_bytes) = (pages.bytes(), written.bytes());
        // A trace without times has no rate.
        out.write_mb_s = if last > first { out.written_bytes as f64 / out.seconds / 1e6 } else { 0.0 };
        out.write_mb_s_most = per_second.values().max().copied().unwrap_or(0) as f64 / 1e6;
        if out.seconds < 1.0 {
            out.write_mb_s_most = out.write_mb_s;
        }
        out
    }
}

/// Ranges of pages by file: first page to the one behind the last, none touching another.
#[derive(Default)]
struct Pages(BTreeMap<u64, BTreeMap<u64, u64>>);

impl Pages {
    fn add(&mut self, record: &Record) {
        if record.done == 0 {
            return;
        }
        let ranges = self.0.entry(record.file).or_default();
        let mut first = record.offset / 4096;
        let mut end = record.offset.saturating_add(record.done).div_ceil(4096);
        // Those that begin at or before its end and do not end before its beginning become one with it.
        while let Some((&start, &stop)) = ranges.range(..=end).next_back()
            && stop >= first
        {
            ranges.remove(&start);
            (first, end) = (first.min(start), end.max(stop));
        }
        ranges.insert(first, end);
    }

    fn bytes(&self) -> u64 {
        self.0.values().flatten().map(|(first, end)| (end - first) * 4096).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Header;

    #[test]
    fn operations_bytes_and_footprint_add_up() {
        let io = |op, start_ns, file, offset, done| Record {
            start_ns,
            duration_ns: 1000,
            offset,
            size: 5000,
            done,
            ..Record::new(op, 3, file)
        };
        let mut records = vec![
            io(Op::Write, 0, 7, 0, 4096),
            io(Op::Write, 10, 7, 8192, 4096),
            io(Op::Write, 500_000_000, 7, 4096, 4096),
            io(Op::Read, 20, 7, 100, 100),
            io(Op::Read, 30, 8, 0, 1 << 20),
            Record { error: 5, ..io(Op::Write, 2_999_999_000, 9, 0, 0) },
        ];
        records.push(Record { thread: 4, ..Record::new(Op::Fsync, 4, 7) });
        let trace = Trace { header: Header { began: 0, cache: 0 }, records, dropped: 2, cut_off: false };
        let summary = Summary::of(&trace);
        assert_eq!((summary.operations, summary.dropped, summary.threads, summary.files), (7, 2, 2, 3));
        assert_eq!((summary.footprint_bytes, summary.written_footprint_bytes), ((1 << 20) + 3 * 4096, 3 * 4096));
        assert_eq!((summary.written_bytes, summary.seconds), (3 * 4096, 3.0));
        let writes = &summary.ops[&Op::Write];
        assert_eq!((writes.count, writes.failed, writes.mean_us, writes.max_us), (4, 1, 1.0, 1.0));
        assert_eq!(summary.write_sizes, [(8192, 4)].into());
        assert_eq!((summary.write_mb_s, summary.write_mb_s_most), (0.004096, 0.012288));
        let at_once = vec![Record { done: 4096, ..Record::new(Op::Write, 3, 7) }];
        let summary = Summary::of(&Trace { records: at_once, ..trace });
        assert_eq!((summary.write_mb_s, summary.write_mb_s_most), (0.0, 0.0), "a trace without times has no rate");
    }
}
