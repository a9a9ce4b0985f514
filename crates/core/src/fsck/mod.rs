//! The checker: reads a volume from end to end and reports every rule of the format that it breaks. Never writes.
//!
//! Independent of the mounted file system on purpose: it shares with it the structures of [`steadyfs_format`] and the
//! reading of [`crate::raw`], and nothing else, so that a fault in the one does not hide in the other. At the end, if
//! somebody wants it and nothing was found, a mount is rehearsed in memory: what a mount refuses is never called whole.
//!
//! Phases ([`Phase`]): superblocks and checkpoint (`volume`), NAT and SIT (`tables`), all nodes level by level (`walk`,
//! `inode`, `node`, `slots`, `xattrs`), quota files (`quota`), all directories (`dirs`, `dentries`), totals (`totals`).
//! Each hands the next what it needs; within a phase all threads work on numbered jobs (`pool`).
//!
//! Kept true:
//! - No image makes it panic, loop or recurse: nodes are visited once, levels are four, chains are watched for loops.
//! - Memory is bounded by the volume's own tables; a volume with a million files takes 160 MB:
//!   - 138 bytes per main segment, and 64 MiB of summaries;
//!   - 4.2 KiB per NAT block with ids in use (455 ids);
//!   - about 130 bytes per inode;
//!   - 24 bytes per node of the widest level and per directory block;
//!   - 16 bytes per name of the largest directories (one per thread);
//!   - on volumes with quota 60 bytes per owner and kind, and 24 bytes per KiB of their files;
//!   - [`CheckOptions::max_issues`] issues.
//! - The report does not depend on the number of threads, except which of two owners of one block is named.
//!
//! An issue can have others as consequences: where a node is missing, its blocks are not counted. Rules are numbered as
//! in format section 17.

mod blocks;
mod context;
mod dentries;
mod dirs;
mod inode;
mod inodes;
mod issue;
mod logs;
mod nids;
mod node;
mod options;
mod pool;
mod quota;
mod report;
mod segmented;
mod segments;
mod sink;
mod slots;
mod summaries;
mod tables;
mod totals;
mod volume;
mod walk;
mod xattrs;

pub use issue::{Issue, Location, Severity, Value};
pub use options::{CheckOptions, Phase, Progress, ProgressFn};
pub use report::{Checked, Counts, Report, RollForward, exit};

use crate::error::{Error, Result};
use crate::raw::Image;
use blocks::Blocks;
use context::Context;
use sink::{IssueSink, Tracker};
use std::sync::Arc;
use steadyfs_device::Device;

/// Checks the volume on a device.
///
/// A device that holds no volume, or one that cannot be checked to its end, gives a report with a fatal issue, and so
/// do read errors in the middle.
///
/// # Errors
/// If not even the superblocks can be read.
pub fn check(dev: Arc<dyn Device>, options: &CheckOptions) -> Result<Report> {
    let begin = steadyfs_rt::now();
    if let (Err(error), Err(_)) = (dev.read_one(0), dev.read_one(1)) {
        return Err(error.into());
    }
    let options = CheckOptions { threads: options.threads.max(1), ..options.clone() };
    let sink = Arc::new(IssueSink::new(options.max_issues));
    let mut report = Report::default();
    run(&dev, &options, &sink, &mut report);
    let found = sink.take();
    report.issues = found.issues;
    report.severities = found.counts;
    report.dropped = found.dropped;
    report.elapsed = begin.elapsed();
    Ok(report)
}

/// All phases, as far as they get.
fn run(dev: &Arc<dyn Device>, options: &CheckOptions, sink: &Arc<IssueSink>, report: &mut Report) {
    let Some(image) = volume::open(dev, sink, options) else { return };
    report.roll_forward = volume::check_chain(&image, sink);
    let walked = options.force || sink.worst() > Some(Severity::Note) || !volume::looks_clean(&image);
    let header = image.checkpoint().header();
    report.checked = Some(Checked { pack: image.pack(), version: header.version(), flags: header.flags(), walked });
    if walked {
        walk_all(&image, options, sink, report);
        rehearse(&image, options, sink);
    }
}

/// Where nothing was found that explains a refusal, tries whether a mount for writing has one.
fn rehearse(image: &Image, options: &CheckOptions, sink: &IssueSink) {
    if !options.rehearse || sink.worst() >= Some(Severity::Error) {
        return;
    }
    if let Err(error) = crate::mount::rehearsal::rehearse(image) {
        let reason = match error.cause() {
            Error::Corrupt(why) | Error::Recovery(why) => why.clone(),
            other => other.to_string(),
        };
        sink.add(Issue::MountRefused { reason });
    }
}

/// All phases that need the tables.
fn walk_all(image: &Arc<Image>, options: &CheckOptions, sink: &Arc<IssueSink>, report: &mut Report) {
    let nids = Arc::new(tables::load_nat(image, sink, options));
    tables::check_nat(image, sink, &nids, options);
    let Some(blocks) = Blocks::load(image, sink, options) else { return };
    let ctx = Arc::new(Context::new(image, options, sink, nids, blocks));
    let nodes = walk::walk(&ctx);
    quota::check(&ctx, &nodes);
    let (inodes, dirs) = dirs::check(&ctx, nodes);
    let tracker = Tracker::begin(options, Phase::Totals, 1);
    report.counts = Some(totals::check(&ctx, &inodes, &dirs));
    tracker.advance(1);
}
