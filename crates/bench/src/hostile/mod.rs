//! `steadyfs-bench hostile`: what a user waits while another one on the same mount means harm.
//!
//! Root mounts a volume for all; a victim loops over small operations in his own directory. He is measured alone,
//! beside processes that burn the processors and never touch the mount, beside as many honest users who do what he
//! does, and beside each kind of attacker. Attackers take processors and the server, too, as anybody may who uses the
//! mount: so a median is held against that beside as many honest users. docs/BENCHMARKS.md says how to read the
//! figures.
//!
//! Each row has a volume, a mount and a server of its own, so that no attack leaves anything to the next one.

mod attack;
mod party;
mod report;
mod row;
mod victim;

use crate::arguments;
use crate::comparison::{self, Site};
use anyhow::{Context, Result, bail, ensure};
use attack::{KINDS, Kind};
use clap::{Parser, ValueEnum};
use report::{HostileFindings, VictimRow};
use row::Ground;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

/// The name of the command.
pub(crate) const COMMAND: &str = "hostile";
/// The name of the hidden command of a victim or an attacker.
pub(crate) const PARTY: &str = "hostile-party";

/// Measure what users who mean harm cost another user of the same mount
#[derive(Debug, Parser)]
#[command(name = "steadyfs-bench hostile")]
struct Args {
    /// Seconds for each row
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Attackers; all unless given
    #[arg(long, value_delimiter = ',')]
    attackers: Vec<String>,
    /// Per cent of the levels, names and files that attackers prepare
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    amount: u64,
    /// Kind of the volume
    #[arg(long, value_enum, default_value_t = VolumeKind::F2fs)]
    kind: VolumeKind,
    /// MiB of the volume
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(64..=65536))]
    size: u64,
    /// Mount options beside allow_other,memory=low
    #[arg(short = 'o', long, default_value = "")]
    options: String,
    /// At most 2 seconds for each row, and a quarter of the amount
    #[arg(long)]
    short: bool,
    /// Write all that was measured to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the image is made; should be in memory
    #[arg(long, default_value = "/dev/shm")]
    scratch: PathBuf,
}

/// The kind of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum VolumeKind {
    F2fs,
    Iplfs,
    /// The kernel's, for comparison: nobody's server
    Ext4,
}

impl Args {
    fn adjusted(mut self) -> Result<Self> {
        if self.short {
            self.seconds = self.seconds.min(2.0);
            self.amount = self.amount.div_ceil(4);
        }
        ensure!((0.1..=3600.0).contains(&self.seconds), "--seconds takes 0.1 to 3600");
        Ok(self)
    }

    fn attackers(&self) -> Result<Vec<&'static Kind>> {
        arguments::chosen("attacker", &KINDS, |kind| kind.name, &self.attackers)
    }
}

/// Measures, reports and judges. `words` are those of the command line from the command on.
pub(crate) fn compare(words: &[String]) -> Result<()> {
    let args = Args::parse_from(words).adjusted()?;
    let attackers = args.attackers()?;
    let image_bytes = if args.kind == VolumeKind::Iplfs { 0 } else { args.size << 20 };
    let site = Site::make(&args.scratch, image_bytes)?;
    arguments::let_others_through(site.scratch())?;
    let options = format!("allow_other,memory=low,{}", args.options).trim_end_matches(',').to_owned();
    let ground = Ground { args: &args, site: &site, options: &options };

    let mut rows: Vec<VictimRow> = vec![ground.row("alone", None, 0)?];
    for processes in attackers.iter().map(|kind| kind.processes).collect::<BTreeSet<_>>() {
        rows.push(ground.row(&report::spinning(processes), Some(&attack::SPIN), processes)?);
        rows.push(ground.row(&report::working(processes), Some(&attack::USERS), processes)?);
    }
    for kind in attackers {
        rows.push(ground.row(kind.name, Some(kind), kind.processes)?);
    }
    let memory_limit = report::memory_limit(&options).filter(|_| args.kind != VolumeKind::Ext4);
    let findings =
        HostileFindings { options, kind: args.kind, seconds: args.seconds, size: args.size, memory_limit, rows };
    comparison::tell(site.machine, &findings, args.json.as_deref())?;
    let (verdicts, broken) = findings.judge();
    write!(std::io::stdout(), "{verdicts}")?;
    ensure!(broken == 0, "{broken} bounds are broken");
    Ok(())
}

/// What a process of a victim or an attacker does. `words` are those behind the hidden command.
pub(crate) fn party(words: &[String]) -> Result<()> {
    party::die_with_the_parent()?;
    match words {
        [role, seconds] if role == victim::ROLE => victim::run(seconds.parse().context("seconds")?),
        [name, number, amount] => {
            let kind = KINDS.iter().chain([&attack::SPIN, &attack::USERS]).find(|kind| kind.name == name);
            let plan = attack::Plan { number: number.parse()?, amount: amount.parse()? };
            attack::run(kind.context("no such attacker")?, &plan)
        }
        _ => bail!("what to do?"),
    }
}
