//! What a mount says when the volume is mounted: lines for people, an object for scripts, or nothing.

use std::io::{self, Write};

use serde::Serialize;
use steadyfs_core::Recovered;
use steadyfs_fuse::Mounted;

use crate::talk::End;
use crate::text::print_json;

/// The JSON form.
#[derive(Serialize)]
pub(super) struct Told {
    device: String,
    dir: String,
    read_only: bool,
    /// Whether `sync` reaches it, and umount(8) waits for its last checkpoint.
    block_device: bool,
    transport: &'static str,
    /// Where the numbers for Prometheus are.
    metrics: Option<String>,
    /// None if there was nothing to recover.
    recovered: Option<Recovery>,
    #[serde(skip)]
    hint: Option<String>,
    #[serde(skip)]
    background: bool,
}

/// The work of recovery after a crash, in counts.
#[derive(Serialize)]
struct Recovery {
    files: u64,
    nodes: u64,
    blocks: u64,
    batches: u64,
    records: u64,
    milliseconds: u128,
}

impl Recovery {
    fn line(&self) -> String {
        let Recovery { files, nodes, blocks, batches, records, milliseconds } = self;
        let done = match batches {
            0 => format!("recovered {files} files that were fsynced before a crash"),
            _ => format!("replayed {batches} batches of the journal with {records} records, recovered {files} files"),
        };
        format!("{done} ({nodes} nodes, {blocks} blocks of data, {milliseconds} ms)")
    }
}

impl From<Recovered> for Recovery {
    fn from(found: Recovered) -> Self {
        let Recovered { files, nodes, batches, records, blocks, elapsed } = found;
        Recovery { files, nodes, blocks, batches, records, milliseconds: elapsed.as_millis() }
    }
}

impl Told {
    pub(super) fn new(args: &super::Args, mounted: &Mounted, recovered: Option<Recovered>, read_only: bool) -> Self {
        let way = mounted.transport();
        Told {
            device: args.device.display().to_string(),
            dir: args.dir.display().to_string(),
            read_only,
            block_device: mounted.is_block_device(),
            transport: way.name(),
            metrics: None,
            recovered: recovered.map(Recovery::from),
            hint: way.hint(),
            background: args.helper.serve,
        }
    }

    /// With the address of the numbers.
    pub(super) fn with_metrics(self, metrics: Option<String>) -> Self {
        Told { metrics, ..self }
    }

    /// Says it. The volume is mounted, whether anybody reads this or not.
    pub(super) fn say(&self, end: End) {
        if end.json {
            let _ = print_json(self);
        } else if !end.talk.quiet {
            let mut out = io::stdout().lock();
            let _ = self.lines().into_iter().try_for_each(|line| writeln!(out, "{line}"));
        }
    }

    fn lines(&self) -> Vec<String> {
        let (device, dir) = (&self.device, &self.dir);
        let mut lines: Vec<String> = self.recovered.iter().map(Recovery::line).collect();
        if !self.background {
            let umount = if self.block_device { "umount" } else { "steadyfs umount" };
            lines.push(format!("mounted {device} on {dir}; Ctrl-C here or `{umount} {dir}` unmounts it"));
        }
        lines.extend(self.metrics.iter().map(|url| format!("metrics at {url}")));
        if !self.block_device {
            lines.push(format!("`sync` does not reach it, `sync FILE` and fsync do; umount does not wait for the last checkpoint, `steadyfs umount {dir}` does"));
        }
        if !self.background {
            let hint = self
                .hint
                .as_ref()
                .map(|hint| format!("; {hint} as root makes names and small I/O faster, of mounts from then on"));
            lines.push(format!("requests come through {}{}", self.transport, hint.unwrap_or_default()));
        }
        lines
    }
}
