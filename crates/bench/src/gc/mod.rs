//! `steadyfs-bench gc`: how fast and how steady overwriting is while garbage is collected, in real time.
//!
//! Each peer has an image of its own, made by mkfs.f2fs with the same options, or an IPLFS volume that may hold as much
//! as that image. In it is one file of 93 % of the space that statfs says is free. The file is overwritten in random
//! order with several times the volume's size, so that collection is in its steady state. Then each way of writing is
//! measured for some time, every repetition in a new mount of the same volume. docs/BENCHMARKS.md says how to read the
//! figures.
//!
//! Needs root for mounts, mkfs.f2fs, user-mode Linux for the real F2FS, and room for the images.

mod library;
mod peers;
mod posix;
mod report;
mod write;

use crate::comparison::{OutcomeOptions, directory};
use crate::machine::Machine;
use crate::measure::Stop;
use crate::report::{Samples, name_of};
use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use peers::{GUEST_MIB, Place, Session, Who, image_of, make_image, session};
use report::{GcFindings, Medium};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use write::Phase;

pub(crate) use peers::{GUEST, guest, make_infinite};

/// The name of the command.
pub(crate) const COMMAND: &str = "gc";
/// The part of the free space that the file takes, per mille.
const FILL: u64 = 930;
/// The size of the volume in short runs, and how long each way is measured then.
const SHORT_MIB: u64 = 256;
const SHORT_SECONDS: f64 = 2.0;

/// Compare overwriting while garbage is collected: ours and the real F2FS
#[derive(Debug, Parser)]
#[command(name = "steadyfs-bench gc")]
struct Args {
    /// MiB of each volume
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(48..=16384))]
    size: u64,
    /// How often everything is measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=99))]
    reps: u64,
    /// Seconds for each way of writing
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// How many times the volume's size is written before anything is measured
    #[arg(long, default_value_t = 3.0)]
    age: f64,
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Who::value_variants().to_vec())]
    peers: Vec<Who>,
    /// Ways of writing
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Way::value_variants().to_vec())]
    ways: Vec<Way>,
    /// Where the images are
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [On::Memory, On::Disk])]
    on: Vec<On>,
    /// A directory in memory
    #[arg(long, default_value = "/dev/shm")]
    memory: PathBuf,
    /// A directory on a disk
    #[arg(long, default_value = "/var/tmp")]
    disk: PathBuf,
    /// Mount options of ours beside gc=
    #[arg(short = 'o', long, default_value = "")]
    options: String,
    /// Smaller volumes, less time for each way, and one repetition
    #[arg(long)]
    short: bool,
    /// Draw the bandwidth of each peer over time into this file: the first way, the first medium, the first repetition
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    outcome: OutcomeOptions,
}

/// A way of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// With `O_DIRECT`, one write at a time
    Direct,
    /// With `O_DIRECT`, 16 threads
    Direct16,
    /// Through the cache, fdatasync after every 32
    Fsync32,
    /// Through the cache, one fdatasync at the end
    Buffered,
}

/// Where an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum On {
    Memory,
    Disk,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Direct => "direct",
            Way::Direct16 => "direct, 16 writers",
            Way::Fsync32 => "fsync every 32",
            Way::Buffered => "buffered",
        }
    }

    fn phase(self, seconds: f64, seed: u64) -> Phase {
        Phase {
            name: self.name().to_owned(),
            direct: matches!(self, Way::Direct | Way::Direct16),
            fsync_every: if self == Way::Fsync32 { 32 } else { 0 },
            writers: if self == Way::Direct16 { 16 } else { 1 },
            writes: u64::MAX,
            seconds,
            seed,
        }
    }
}

/// What ageing may take at most.
const AGEING_SECONDS: f64 = 600.0;

impl Args {
    fn adjusted(mut self) -> Result<Self> {
        if self.short {
            self.size = self.size.min(SHORT_MIB);
            self.seconds = self.seconds.min(SHORT_SECONDS);
            self.reps = 1;
        }
        ensure!((0.1..=600.0).contains(&self.seconds), "--seconds takes 0.1 to 600");
        ensure!((0.0..=100.0).contains(&self.age), "--age takes 0 to 100");
        ensure!(!self.peers.is_empty() && !self.ways.is_empty() && !self.on.is_empty(), "nothing to measure");
        ensure!(
            !self.outcome.strict || report::can_be_judged(&self.peers),
            "--strict needs the peers that its goals name"
        );
        Ok(self)
    }

    fn dir(&self, on: On) -> &Path {
        match on {
            On::Memory => &self.memory,
            On::Disk => &self.disk,
        }
    }

    /// Before anything is measured: cached, so that it goes as fast as it can with every peer, and synced, so that all
    /// of it is written.
    fn ageing(&self) -> Phase {
        let writes = ((self.size << 20) as f64 * self.age / crate::data::PAGE as f64) as u64;
        Phase { name: "ageing".to_owned(), writes, ..Way::Fsync32.phase(AGEING_SECONDS, 1) }
    }
}

/// Measures and reports. `words` are those of the command line from the command on.
pub(crate) fn compare(words: &[String]) -> Result<()> {
    let args = Args::parse_from(words).adjusted()?;
    let needs_root = args.peers.iter().any(|who| who.is_fuse());
    ensure!(!needs_root || rustix::process::geteuid().is_root(), "mounts need root");
    let stop = Stop::on_signals()?;
    let machine = Machine::look();
    let guest = match args.peers.iter().any(|who| who.is_linux()) {
        true => {
            format!("user-mode Linux {}, one CPU, {GUEST_MIB} MiB", steadyfs_testkit::machine::uml::kernel_version()?)
        }
        false => "none".to_owned(),
    };
    let media = args.on.iter().map(|on| measure(&args, *on, &stop)).collect::<Result<Vec<Medium>>>()?;
    let findings = GcFindings {
        command: format!("steadyfs-bench {}", words.join(" ")),
        volume_mib: args.size,
        seconds: args.seconds,
        age: args.age,
        guest,
        media,
        ways: args.ways.iter().map(|way| way.name()).collect(),
    };
    if let Some(path) = &args.svg {
        std::fs::write(path, findings.picture()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    args.outcome.tell(machine, &findings, GcFindings::judge)
}

/// Everything on one medium.
fn measure(args: &Args, on: On, stop: &Stop) -> Result<Medium> {
    let name = name_of(on);
    let dir = args.dir(on);
    // Deleted with everything in it at the end of this function, however it ends.
    let scratch = directory(dir)?;
    let mount = scratch.path().join("mount");
    std::fs::create_dir(&mount)?;
    let (mut file_bytes, mut aged) = (BTreeMap::new(), BTreeMap::new());
    let work = |who: Who, what: &Session| {
        let image = image_of(scratch.path(), who);
        let place = Place { image: &image, dir: &mount, options: &args.options, stop };
        session(who, &place, what).with_context(|| who.name())
    };
    for &who in &args.peers {
        eprintln!("{name}: ageing {}", who.name());
        make_image(&image_of(scratch.path(), who), who, args.size, stop)?;
        let mut done = work(who, &Session { fill: Some(FILL), phases: vec![args.ageing()] })?;
        file_bytes.insert(who, done.file_bytes.context("the file was not made")?);
        let outcome = done.outcomes.pop().context("ageing has no outcome")?;
        ensure!(outcome.writes >= args.ageing().writes, "{} was not aged in {AGEING_SECONDS} s", who.name());
        aged.insert(who, outcome);
    }
    let repetitions = Samples::by_turns(
        args.reps,
        &[&name],
        |_| args.peers.clone(),
        |medium| format!("overwriting in {medium}"),
        |number, _, who| {
            let phases = args.ways.iter().map(|way| way.phase(args.seconds, 100 + number)).collect();
            let done = work(who, &Session { fill: None, phases })?;
            Ok(args.ways.iter().map(|way| way.name()).zip(done.outcomes).collect())
        },
    )?;
    Ok(Medium { name, file_bytes, aged, repetitions })
}
