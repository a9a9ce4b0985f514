//! What all comparisons share: options, a place in memory, and what becomes of the findings: they are printed, written
//! to a file, and held against the goals.

use crate::bed::{Bed, Target};
use crate::data;
use crate::machine::Machine;
use crate::measure::Stop;
use crate::report::Verdicts;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Options of comparisons that are repeated in memory.
#[derive(Debug, clap::Args)]
pub(crate) struct Repeated {
    /// How often everything is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    reps: u64,
    /// A part of everything (a third of `journal`, a quarter of the others), and at most 3 repetitions
    #[arg(long)]
    pub(crate) short: bool,
    #[command(flatten)]
    pub(crate) outcome: OutcomeOptions,
    /// Where all images are made; should be in memory
    #[arg(long, default_value = "/dev/shm")]
    pub(crate) scratch: PathBuf,
}

impl Repeated {
    pub(crate) fn repetitions(&self) -> u64 {
        if self.short { self.reps.min(3) } else { self.reps }
    }
}

/// Options that say what becomes of the findings.
#[derive(Debug, clap::Args)]
pub(crate) struct OutcomeOptions {
    /// Say for each goal of docs/BENCHMARKS.md whether it is met
    #[arg(long)]
    goals: bool,
    /// The same, and fail if one is not
    #[arg(long)]
    pub(crate) strict: bool,
    /// Write all that was measured to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The results of a comparison.
pub(crate) trait Findings: Serialize {
    /// For people.
    fn text(&self) -> String;
}

/// Findings, and the machine that they are about.
#[derive(Serialize)]
struct Report<'a, F> {
    machine: Machine,
    #[serde(flatten)]
    findings: &'a F,
}

impl OutcomeOptions {
    /// Tells of the findings, now that all is measured. `judge` says which goals are met.
    ///
    /// # Errors
    /// The file or standard output cannot be written; with `--strict`, a goal is not met.
    pub(crate) fn tell<F: Findings>(&self, machine: Machine, findings: &F, judge: fn(&F) -> Verdicts) -> Result<()> {
        tell(machine, findings, self.json.as_deref())?;
        if self.goals || self.strict {
            let verdicts = judge(findings);
            write!(std::io::stdout(), "{verdicts}")?;
            ensure!(!self.strict || verdicts.missed() == 0, "{} goals are not met", verdicts.missed());
        }
        Ok(())
    }
}

/// Prints findings, and writes them to a file.
pub(crate) fn tell(mut machine: Machine, findings: &impl Findings, json: Option<&Path>) -> Result<()> {
    machine.finish();
    let report = Report { machine, findings };
    if let Some(path) = json {
        let json = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(write!(std::io::stdout(), "{}\n{}", report.machine.line(), findings.text())?)
}

/// A place for file systems that are made one after the other, from the same memory.
pub(crate) struct Site {
    /// Deleted with everything in it when it is dropped; beds inside it are taken down before.
    scratch: TempDir,
    /// An image whose memory is there.
    pub(crate) image: PathBuf,
    /// A directory to mount on.
    pub(crate) dir: PathBuf,
    pub(crate) stop: Stop,
    pub(crate) machine: Machine,
}

impl Site {
    /// A new one, with an image of this size.
    pub(crate) fn make(scratch: &Path, image_bytes: u64) -> Result<Self> {
        ensure!(rustix::process::geteuid().is_root(), "mounts, loop devices and processes of other users need root");
        let stop = Stop::on_signals()?;
        let scratch = directory(scratch)?;
        let [image, dir] = ["image", "mount"].map(|name| scratch.path().join(name));
        std::fs::create_dir(&dir)?;
        let machine = Machine::look();
        write_image(&image, image_bytes, &stop)?;
        Ok(Site { scratch, image, dir, stop, machine })
    }

    /// The directory of all this, in memory.
    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Makes a target of the image.
    pub(crate) fn bed(&self, target: Target, options: &str) -> Result<Bed> {
        Bed::make(target, &self.image, &self.dir, options)
    }
}

/// Makes an image and writes all of it, so that its memory is there before anything is measured.
pub(crate) fn write_image(path: &Path, bytes: u64, stop: &Stop) -> Result<()> {
    let mut file = File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
    // Who may read an image may lock it, and reads everything.
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    let zeros = vec![0; data::MIB];
    for _ in 0..bytes / data::MIB as u64 {
        stop.check()?;
        file.write_all(&zeros).with_context(|| format!("{bytes} bytes do not fit there"))?;
    }
    Ok(())
}

/// A new directory in `parent` for images and mount points, removed when it is dropped.
pub(crate) fn directory(parent: &Path) -> Result<TempDir> {
    let dir = tempfile::Builder::new().prefix("steadyfs-bench.").tempdir_in(parent);
    dir.with_context(|| format!("cannot use {} for images", parent.display()))
}
