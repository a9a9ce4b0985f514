//! D2FS volumes and volumes on zoned devices, of `crash-test` and `lab fuzz`: sessions on a device of their kind, cut
//! at any moment. A violation is repeated by its seed.

use std::io::{self, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use steadyfs_crash::{
    MovingHost, MovingStates, SeedFault, Stop, VolumeKind, ZonedStates, cut_many_while_moving, cut_many_zones,
};

use super::{exit, heed_signals, note_interruption, progress};
use crate::failure::Failure;

/// What volumes are explored, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Explored {
    /// By workloads, on volumes of this kind.
    Of(VolumeKind),
    /// By sessions that are cut.
    Cut(CutKind),
}

/// The volumes of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutKind {
    /// D2FS, on a device that moves blocks.
    D2fs,
    /// F2FS, on a zoned device.
    Zoned,
}

impl CutKind {
    fn name(self) -> &'static str {
        match self {
            CutKind::D2fs => "d2fs",
            CutKind::Zoned => "zoned",
        }
    }
}

impl Explored {
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        match name {
            "d2fs" => Ok(Explored::Cut(CutKind::D2fs)),
            "zoned" => Ok(Explored::Cut(CutKind::Zoned)),
            _ => VolumeKind::parse(name).map(Explored::Of).map_err(|e| format!("{e}, d2fs, or zoned")),
        }
    }
}

/// What sessions came to, for programs.
#[derive(Serialize)]
struct Report<T> {
    runs: u64,
    #[serde(flatten)]
    found: T,
    violations: Vec<Broken>,
    seed: u64,
    seconds: f64,
    interrupted: bool,
}

/// A broken promise, for programs.
#[derive(Serialize)]
struct Broken {
    seed: u64,
    what: String,
}

/// What was looked at of one kind.
trait Found: Serialize {
    fn states(&self) -> u64;

    /// Lines for people.
    fn lines(&self) -> Vec<String>;
}

#[derive(Serialize)]
struct Moved {
    states: u64,
    states_with_outstanding_records: u64,
    states_between_apply_and_checkpoint: u64,
    blocks_moved: u64,
    records_applied_before_the_cut: u64,
}

impl Found for Moved {
    fn states(&self) -> u64 {
        self.states
    }

    fn lines(&self) -> Vec<String> {
        let percent = |part: u64| part as f64 * 100.0 / self.states.max(1) as f64;
        let (outstanding, between) = (self.states_with_outstanding_records, self.states_between_apply_and_checkpoint);
        vec![
            format!(
                "  outstanding     {outstanding} with records that are not completed ({:.0} %)",
                percent(outstanding)
            ),
            format!("  applied         {between} with records that no checkpoint has yet ({:.0} %)", percent(between)),
            format!("blocks moved      {}", self.blocks_moved),
            format!("records again     {} had been applied before the cut", self.records_applied_before_the_cut),
        ]
    }
}

#[derive(Serialize)]
struct InZones {
    states: u64,
    zones_reset: u64,
    zones_finished: u64,
    zones_most_active: u32,
}

impl Found for InZones {
    fn states(&self) -> u64 {
        self.states
    }

    fn lines(&self) -> Vec<String> {
        vec![
            format!("zones reset       {}", self.zones_reset),
            format!("zones finished    {}", self.zones_finished),
            format!("  partly written  {} at one time, at most", self.zones_most_active),
        ]
    }
}

/// Sessions of volumes that are cut, one seed after the other.
pub(crate) struct Sessions<'a> {
    pub(crate) kind: CutKind,
    pub(crate) host: MovingHost,
    pub(crate) seeds: Range<u64>,
    /// So many states are enough.
    pub(crate) states: Option<u64>,
    pub(crate) options: &'a str,
    pub(crate) jobs: Option<u16>,
    pub(crate) json: bool,
    /// The command that repeats one, without its kind, and the option that takes a seed.
    pub(crate) command: &'static str,
    pub(crate) seed: &'static str,
}

impl Sessions<'_> {
    /// Cuts and judges, and tells what came of it.
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let bar = Arc::new(progress(self.states, "states"));
        let (began, jobs) = (Instant::now(), self.jobs.map_or_else(steadyfs_rt::cpus, usize::from));
        let stop = Stop::default();
        let signal = heed_signals(&stop)?;
        let tell = {
            let bar = Arc::clone(&bar);
            move |states| {
                bar.set_position(states);
                !stop.is_set()
            }
        };
        let (first, most, seeds) = (self.seeds.start, self.states.unwrap_or(u64::MAX), self.seeds.clone());
        let refused = |e| Failure::usage("cannot mount with these options", e, "see `steadyfs mount --help`");
        let about = |runs, wrong: Vec<SeedFault>| Report {
            runs,
            found: (),
            violations: wrong.into_iter().map(|SeedFault { seed, what }| Broken { seed, what }).collect(),
            seed: first,
            seconds: began.elapsed().as_secs_f64(),
            interrupted: signal.code().is_some(),
        };
        let is_sound = match self.kind {
            CutKind::D2fs => {
                let outcome =
                    cut_many_while_moving(self.host, seeds, most, self.options, jobs, tell).map_err(refused)?;
                let MovingStates { states, outstanding, between, moved, again } = outcome.sum;
                let found = Moved {
                    states,
                    states_with_outstanding_records: outstanding,
                    states_between_apply_and_checkpoint: between,
                    blocks_moved: moved,
                    records_applied_before_the_cut: again,
                };
                bar.finish_and_clear();
                self.tell(about(outcome.runs, outcome.wrong).of(found))
            }
            CutKind::Zoned => {
                let outcome = cut_many_zones(self.host, seeds, most, self.options, jobs, tell).map_err(refused)?;
                let ZonedStates { states, resets, finishes, most_active } = outcome.sum;
                let found =
                    InZones { states, zones_reset: resets, zones_finished: finishes, zones_most_active: most_active };
                bar.finish_and_clear();
                self.tell(about(outcome.runs, outcome.wrong).of(found))
            }
        };
        Ok(exit(&signal, is_sound.map_err(|e| Failure::output(&e))?))
    }

    /// Prints the report; whether no promise was broken.
    fn tell<T: Found>(&self, report: Report<T>) -> io::Result<bool> {
        let (mut out, is_sound) = (io::stdout(), report.violations.is_empty());
        if self.json {
            serde_json::to_writer_pretty(&mut out, &report)?;
            writeln!(out)?;
            return Ok(is_sound);
        }
        let (command, kind, option) = (self.command, self.kind.name(), self.seed);
        for Broken { seed, what } in &report.violations {
            writeln!(out, "{what}\n  again: steadyfs {command} --kind {kind} {option} {seed}")?;
        }
        writeln!(out, "runs              {}", report.runs)?;
        writeln!(out, "states            {}", report.found.states())?;
        report.found.lines().into_iter().try_for_each(|line| writeln!(out, "{line}"))?;
        writeln!(out, "violations        {}", report.violations.len())?;
        writeln!(out, "seed              {}", report.seed)?;
        writeln!(out, "seconds           {:.1}", report.seconds)?;
        note_interruption(&mut out, report.interrupted)?;
        Ok(is_sound)
    }
}

impl Report<()> {
    fn of<T>(self, found: T) -> Report<T> {
        let Report { runs, found: (), violations, seed, seconds, interrupted } = self;
        Report { runs, found, violations, seed, seconds, interrupted }
    }
}
