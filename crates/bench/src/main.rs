//! `steadyfs-bench`: SteadyFS beside its peers, as ratios in one run:
//! - without a command, beside ext4, XFS and the bare device;
//! - with `gc`, beside the real F2FS while garbage is collected;
//! - with `fsck`, its checker beside F2FS';
//! - with `journal`, names that are made to last;
//! - with `discard`, what holes in files cost;
//! - with `real`, programs that people run;
//! - with `hostile`, what users who mean harm cost another.
//!
//! All targets run the same code (`workload`) on the same memory (`bed`), one directly after the other within each
//! repetition, and what is reported are medians of the repetitions' ratios (`report`). docs/BENCHMARKS.md says how to
//! read the figures.
//!
//! Needs root (mounts and loop devices), mkfs.ext4, mkfs.xfs, losetup, and room for the image in the scratch directory.

mod arguments;
mod bed;
mod data;
mod fsck;
mod gc;
mod goals;
mod holes;
mod hostile;
mod journal;
mod latency;
mod library;
mod machine;
mod measure;
mod memfuse;
mod outcome;
mod posix;
mod real;
mod report;
mod serve;
mod tree;
mod workload;

use anyhow::{Context, Result, ensure};
use bed::{Bed, Target};
use clap::Parser;
use machine::Machine;
use measure::Stop;
use outcome::OutcomeOptions;
use report::{Repetition, Report};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use workload::{Amounts, Run, WORKLOADS, Workload};

/// Compare SteadyFS with ext4, XFS and the bare device
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// MiB of the file that data workloads use
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=65536))]
    size: u64,
    /// How often everything is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    reps: u64,
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
    /// A quarter of everything, and fewer repetitions: about two minutes on an idle machine
    #[arg(long)]
    short: bool,
    #[command(flatten)]
    outcome: OutcomeOptions,
    /// Where the image is made; should be in memory
    #[arg(long, default_value = "/dev/shm")]
    scratch: PathBuf,
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
        let part = if self.short { 4 } else { 1 };
        Ok(Amounts {
            file_bytes: (self.size / part).max(1) << 20,
            layout_bytes: self.layout << 10,
            operations: (self.operations / part).max(1),
            names: (self.names / part as usize).max(1),
            sources: if self.short { 2_500 } else { 10_000 },
        })
    }

    fn repetitions(&self) -> u64 {
        if self.short { self.reps.min(3) } else { self.reps }
    }

    fn workloads(&self) -> Result<Vec<&'static Workload>> {
        arguments::chosen("workload", &WORKLOADS, |workload| workload.name, &self.workloads)
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let outcome = match words.as_slice() {
        [_, command, device, dir, options] if command == serve::COMMAND => {
            serve::serve(Path::new(device), Path::new(dir), options)
        }
        [_, command, dir, cache] if command == memfuse::COMMAND => memfuse::serve(Path::new(dir), cache),
        [_, command, image] if command == fsck::CHECK => fsck::check_once(Path::new(image)),
        [_, command, dir, session] if command == gc::GUEST => gc::guest(Path::new(dir), session),
        [_, command, what @ ..] if command == hostile::PARTY => hostile::party(what),
        [_, command, ..] if command == hostile::COMMAND => hostile::compare(&words[1..]),
        [_, command, ..] if command == gc::COMMAND => gc::compare(&words[1..]),
        [_, command, ..] if command == holes::COMMAND => holes::compare(&words[1..]),
        [_, command, ..] if command == fsck::COMMAND => fsck::compare(&words[1..]),
        [_, command, ..] if command == journal::COMMAND => journal::compare(&words[1..]),
        [_, command, ..] if command == real::COMMAND => real::compare(&words[1..]),
        _ => compare(Args::parse()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("steadyfs-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures and reports.
fn compare(args: Args) -> Result<()> {
    let (amounts, workloads) = (args.amounts()?, args.workloads()?);
    ensure!(
        !args.outcome.strict || goals::can_be_judged(&args.targets),
        "--strict needs the targets {}",
        goals::pairs()
    );
    ensure!(rustix::process::geteuid().is_root(), "mounts and loop devices need root");
    let stop = Stop::on_signals()?;
    // Deleted with everything in it at the end of this function, however it ends; beds inside it are taken down before.
    let scratch = arguments::scratch(&args.scratch)?;
    let (image, dir) = (scratch.path().join("image"), scratch.path().join("mount"));
    std::fs::create_dir(&dir)?;
    let image_bytes = image_bytes(&amounts);
    let mut machine = Machine::look();
    write_image(&image, image_bytes, &stop)?;

    let mut repetitions = Vec::new();
    for number in 1..=args.repetitions() {
        let mut repetition = Repetition::new();
        for workload in &workloads {
            for &target in args.targets.iter().filter(|t| workload.on_raw_devices || !t.is_raw()) {
                eprintln!("repetition {number}: {} on {}", workload.name, target.name());
                let bed = Bed::make(target, &image, &dir, &args.options)?;
                let name = || format!("{} on {}", workload.name, target.name());
                run(workload, &bed, &amounts, target, &stop, &mut repetition).with_context(name)?;
            }
        }
        repetitions.push(repetition);
    }
    machine.finish();
    let report = Report { machine, amounts, options: args.options, image_bytes, repetitions };
    args.outcome.tell(&report, &report.text(), || goals::judge(&report))
}

/// Runs one workload on one target, stage by stage.
fn run(
    workload: &Workload,
    bed: &Bed,
    amounts: &Amounts,
    target: Target,
    stop: &Stop,
    into: &mut Repetition,
) -> Result<()> {
    for stage in workload.stages {
        let mounted = bed.mount()?;
        let mut run = Run { tree: mounted.tree(), amounts, server: mounted.server(), stop, samples: Vec::new() };
        stage(&mut run)?;
        for (what, sample) in run.samples {
            into.entry(what).or_default().insert(target, sample);
        }
        mounted.unmount()?;
    }
    Ok(())
}

/// Room for the largest workload: two files for sequential I/O, or one that is overwritten; an inode of 4 KiB per name;
/// the source tree; twice, since a log-structured file system needs room to write before it can free.
fn image_bytes(amounts: &Amounts) -> u64 {
    let data = 2 * amounts.file_bytes + amounts.operations * 4096;
    let names = amounts.names as u64 * 4352;
    let sources = amounts.sources as u64 * 24_576;
    (2 * data.max(names).max(sources)).max(512 << 20).next_multiple_of(2 << 20)
}

/// Makes the image and writes all of it, so that its memory is there before anything is measured.
pub(crate) fn write_image(path: &Path, bytes: u64, stop: &Stop) -> Result<()> {
    let mut file = std::fs::File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
    let zeros = vec![0; data::MIB];
    for _ in 0..bytes / data::MIB as u64 {
        stop.check()?;
        file.write_all(&zeros).with_context(|| format!("{} bytes do not fit there", bytes))?;
    }
    Ok(())
}
