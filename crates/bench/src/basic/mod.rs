//! `steadyfs-bench` without a command: data and names on SteadyFS beside ext4, XFS and the bare device.

mod report;

use crate::arguments;
use crate::bed::{Bed, Target};
use crate::comparison::{Repeated, Site};
use crate::measure::Sample;
use crate::report::Samples;
use crate::workload::{Amounts, Run, WORKLOADS, Workload};
use anyhow::{Result, ensure};
use clap::Parser;
use report::BasicFindings;

/// Compare SteadyFS with ext4, XFS and the bare device
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Args {
    /// MiB of the file that data workloads use
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=65536))]
    size: u64,
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = DEFAULT_TARGETS)]
    targets: Vec<Target>,
    /// Workloads to run; all unless given
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
    /// Files to create, stat and unlink
    #[arg(long, default_value_t = 100_000)]
    names: usize,
    /// Cached 4 KiB operations per measurement; direct ones are a quarter of that, synced ones a 32nd
    #[arg(long, default_value_t = 65_536)]
    operations: u64,
    /// KiB per write when the file for random I/O is laid out, a divisor of 1024 from 4 on. ext4 is several times
    /// slower on a file written in large pieces
    #[arg(long, default_value_t = 1024)]
    layout: usize,
    /// Mount options of SteadyFS. The other file systems may use all of the memory for their caches
    #[arg(short = 'o', long, default_value = "cache=2G")]
    options: String,
    #[command(flatten)]
    repeated: Repeated,
}

/// The targets unless others are named.
const DEFAULT_TARGETS: [Target; 13] = [
    Target::Ext4,
    Target::Xfs,
    Target::Memfuse,
    Target::MemfuseWb,
    Target::MemfusePerm,
    Target::MemfuseAcl,
    Target::Fuse,
    Target::FuseThrough,
    Target::FuseLoop,
    Target::Library,
    Target::LibraryLoop,
    Target::Raw,
    Target::RawLoop,
];

impl Args {
    fn amounts(&self) -> Result<Amounts> {
        ensure!(self.layout >= 4 && 1024 % self.layout == 0, "--layout takes 4, 8, 16, ... 1024");
        ensure!(self.names > 0 && self.operations > 0, "nothing to measure");
        let part = if self.repeated.short { 4 } else { 1 };
        Ok(Amounts {
            file_bytes: (self.size / part).max(1) << 20,
            layout_bytes: self.layout << 10,
            operations: (self.operations / part).max(1),
            names: (self.names / part as usize).max(1),
            sources: if self.repeated.short { 2_500 } else { 10_000 },
        })
    }

    fn workloads(&self) -> Result<Vec<&'static Workload>> {
        arguments::chosen("workload", &WORKLOADS, |workload| workload.name, &self.workloads)
    }
}

/// Measures and reports.
pub(crate) fn compare(args: Args) -> Result<()> {
    let (amounts, workloads) = (args.amounts()?, args.workloads()?);
    let outcome = &args.repeated.outcome;
    ensure!(!outcome.strict || report::can_be_judged(&args.targets), "--strict needs the targets {}", report::pairs());
    let image_bytes = image_bytes(&amounts);
    let site = Site::make(&args.repeated.scratch, image_bytes)?;
    let repetitions = Samples::by_turns(
        args.repeated.repetitions(),
        &workloads,
        |workload| args.targets.iter().copied().filter(|target| workload.on_raw_devices || !target.is_raw()).collect(),
        |workload| workload.name.to_owned(),
        |_, workload, target| run(workload, &site.bed(target, &args.options)?, &amounts, &site),
    )?;
    let findings = BasicFindings { amounts, options: args.options, image_bytes, repetitions };
    outcome.tell(site.machine, &findings, BasicFindings::judge)
}

/// Runs one workload, stage by stage; the samples, by measurement.
fn run(workload: &Workload, bed: &Bed, amounts: &Amounts, site: &Site) -> Result<Vec<(&'static str, Sample)>> {
    let mut samples = Vec::new();
    for stage in workload.stages {
        let mounted = bed.mount()?;
        let server = mounted.server();
        let mut run = Run { tree: mounted.tree(), amounts, server, stop: &site.stop, samples: Vec::new() };
        stage(&mut run)?;
        samples.append(&mut run.samples);
        mounted.unmount()?;
    }
    Ok(samples)
}

/// Room for the largest workload: two files for sequential I/O, or one that is overwritten; an inode of 4 KiB per name;
/// the source tree; twice, since a log-structured file system needs room to write before it can free.
fn image_bytes(amounts: &Amounts) -> u64 {
    let data = 2 * amounts.file_bytes + amounts.operations * 4096;
    let names = amounts.names as u64 * 4352;
    let sources = amounts.sources as u64 * 24_576;
    (2 * data.max(names).max(sources)).max(512 << 20).next_multiple_of(2 << 20)
}
