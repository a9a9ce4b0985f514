//! [`Stats`]: what a device has done, for reports.

use crate::ftl::Space;
use crate::units::PAGE;
use std::fmt;

/// Requests of one kind that have ended, and how long they took in the device, from submission to completion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latency {
    /// Requests.
    pub count: u64,
    /// Sum of their times, in nanoseconds.
    pub sum_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

impl Latency {
    pub(crate) fn add(&mut self, ns: u64) {
        self.count += 1;
        self.sum_ns += ns;
        self.max_ns = self.max_ns.max(ns);
    }

    /// A request that was counted ends later than was said.
    pub(crate) fn later(&mut self, before: u64, ns: u64) {
        self.sum_ns += ns - before;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Mean, in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count.max(1) as f64
    }
}

/// What happened in one second. Pages of 4 KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Second {
    /// Pages that the host read.
    pub host_read: u64,
    /// Pages of the host that were accepted.
    pub host_written: u64,
    /// Pages that the collector copied.
    pub gc_copied: u64,
}

/// The memory that a map takes in a device, counted and not measured, and what its upkeep took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MapStats {
    /// Bytes now.
    pub bytes: u64,
    /// The most so far.
    pub peak_bytes: u64,
    /// Bytes that the same map would have if nothing had been compacted.
    pub uncompacted_bytes: u64,
    /// The most of those so far.
    pub uncompacted_peak_bytes: u64,
    /// Passes of compaction that had something to look at.
    pub passes: u64,
    /// Map nodes that they looked at.
    pub nodes_scanned: u64,
    /// Map nodes that were replaced by smaller ones.
    pub nodes_compacted: u64,
    /// Nanoseconds in which the firmware served nobody.
    pub stall_ns: u64,
    /// The longest time without a break.
    pub longest_stall_ns: u64,
}

impl MapStats {
    /// A map that never changes its size.
    pub(crate) fn constant(bytes: u64) -> Self {
        let (peak_bytes, uncompacted_bytes, uncompacted_peak_bytes) = (bytes, bytes, bytes);
        MapStats { bytes, peak_bytes, uncompacted_bytes, uncompacted_peak_bytes, ..MapStats::default() }
    }
}

/// What a device has done since it was made. Pages are of 4 KiB, times in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Pages that the host read, from wherever they were.
    pub host_read: u64,
    /// Pages that the host wrote.
    pub host_written: u64,
    /// Pages that the host discarded.
    pub discarded: u64,
    /// Flushes.
    pub flushes: u64,
    /// Pages of the host that were programmed; what is missing waits in the buffer.
    pub host_programmed: u64,
    /// Pages that the collector programmed.
    pub gc_programmed: u64,
    /// Pages of the device's own bookkeeping that were programmed.
    pub meta_programmed: u64,
    /// Pages that were programmed empty, because a unit had to be programmed before it was full.
    pub padding: u64,
    /// Pages read from flash for the host.
    pub flash_read: u64,
    /// Pages read from flash by the collector.
    pub gc_read: u64,
    /// Lines erased, a block of every chip each.
    pub lines_erased: u64,
    /// For how long chips read, and programmed, for the collector: nanoseconds of all chips together.
    pub gc_busy_ns: (u64, u64),
    /// How often reads suspended programs, and erases of a block.
    pub suspended: (u64, u64),
    /// How often the line was erased that was erased least, and the one that was erased most.
    pub erases: (u32, u32),
    /// How the flash is used.
    pub space: Space,
    /// Pages of the host that wait in the buffer or are being programmed.
    pub buffered: u64,
    /// What the map takes of a device's memory (4 bytes for an entry), and what its upkeep took.
    pub map: MapStats,
    /// Reads.
    pub read_latency: Latency,
    /// Writes, with how long they waited for room in the buffer.
    pub write_latency: Latency,
    /// Flushes.
    pub flush_latency: Latency,
    /// Opening, closing, finishing and resetting zones.
    pub zone_latency: Latency,
    /// For each second of the run since the first request.
    pub series: Vec<Second>,
    /// The first request, and the last: the time that utilisations refer to.
    pub span_ns: (u64, u64),
    /// For how long each channel was busy, also with what it has been told and not done yet.
    pub channels_busy_ns: Vec<u64>,
    /// For how long each chip was.
    pub chips_busy_ns: Vec<u64>,
    /// For how long the link was, towards the device and towards the host.
    pub link_busy_ns: (u64, u64),
}

impl Stats {
    /// Pages programmed in all for each page that the host had programmed; 1 before that.
    pub fn waf(&self) -> f64 {
        let all = self.host_programmed + self.gc_programmed + self.meta_programmed + self.padding;
        if self.host_programmed == 0 { 1.0 } else { all as f64 / self.host_programmed as f64 }
    }

    /// The same for what happened since an earlier look.
    pub fn waf_since(&self, before: &Stats) -> f64 {
        Stats {
            host_programmed: self.host_programmed - before.host_programmed,
            gc_programmed: self.gc_programmed - before.gc_programmed,
            meta_programmed: self.meta_programmed - before.meta_programmed,
            padding: self.padding - before.padding,
            ..Stats::default()
        }
        .waf()
    }

    /// The part of the time in which the mean channel, and the mean chip, was busy.
    pub fn utilisation(&self) -> (f64, f64) {
        let span = (self.span_ns.1.saturating_sub(self.span_ns.0)).max(1) as f64;
        let mean = |busy: &[u64]| busy.iter().sum::<u64>() as f64 / busy.len().max(1) as f64 / span;
        (mean(&self.channels_busy_ns), mean(&self.chips_busy_ns))
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |pages: u64| pages as f64 * PAGE as f64 / f64::from(1 << 20);
        let (channels, chips) = self.utilisation();
        writeln!(f, "host: {:.1} MiB written, {:.1} MiB read", mib(self.host_written), mib(self.host_read))?;
        let (host, gc) = (mib(self.host_programmed), mib(self.gc_programmed));
        let (meta, padding) = (mib(self.meta_programmed), mib(self.padding));
        writeln!(
            f,
            "programmed: {host:.1} MiB host, {gc:.1} collector, {meta:.1} meta, {padding:.1} padding; WAF {:.3}",
            self.waf()
        )?;
        let (least, most) = self.erases;
        writeln!(f, "erased: {} lines, each {least} to {most} times", self.lines_erased)?;
        let Space { mapped, invalid, free } = self.space;
        writeln!(f, "space: {:.1} MiB mapped, {:.1} invalid, {:.1} free", mib(mapped), mib(invalid), mib(free))?;
        write!(f, "busy: channels {:.0} %, chips {:.0} %", channels * 100.0, chips * 100.0)
    }
}
