//! D2FS volumes and volumes on zoned devices, of `crash-test` and `lab fuzz`: sessions on a device of their kind, cut
//! at any moment. A violation is repeated by its seed.

use std::io::{self, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use steadyfs_crash::{CutCounts, CutKind, CutPlan, SeedFault, SeedsOutcome, SessionHost, Stop, VolumeKind};

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

impl Explored {
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        if let Some(kind) = CutKind::ALL.into_iter().find(|kind| kind.name() == name) {
            return Ok(Explored::Cut(kind));
        }
        let known = VolumeKind::parse(name).map(Explored::Of);
        known.map_err(|e| format!("{e}, iplfs-dir, d2fs, d2fs-dir, or zoned"))
    }
}

/// What sessions came to, for programs.
#[derive(Serialize)]
struct Report {
    runs: u64,
    #[serde(flatten)]
    found: Found,
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

/// The states that were judged.
#[derive(Serialize)]
#[serde(untagged)]
enum Found {
    Moved {
        states: u64,
        states_with_outstanding_records: u64,
        states_between_apply_and_checkpoint: u64,
        blocks_moved: u64,
        records_applied_before_the_cut: u64,
    },
    InZones {
        states: u64,
        zones_reset: u64,
        zones_finished: u64,
        zones_most_active: u32,
    },
    OnHost {
        states: u64,
        sessions: u64,
        sessions_after_a_kill: u64,
        states_with_outstanding_records: u64,
        blocks_moved: u64,
    },
}

impl Found {
    /// The figures that a kind has.
    fn of(kind: CutKind, sum: CutCounts) -> Self {
        let CutCounts { states, sessions, outstanding, moved, .. } = sum;
        match kind {
            CutKind::D2fs => Found::Moved {
                states,
                states_with_outstanding_records: outstanding,
                states_between_apply_and_checkpoint: sum.between,
                blocks_moved: moved,
                records_applied_before_the_cut: sum.again,
            },
            CutKind::Zoned => Found::InZones {
                states,
                zones_reset: sum.resets,
                zones_finished: sum.finishes,
                zones_most_active: sum.most_active,
            },
            CutKind::IplfsDir | CutKind::D2fsDir => Found::OnHost {
                states,
                sessions,
                sessions_after_a_kill: sum.killed,
                states_with_outstanding_records: outstanding,
                blocks_moved: moved,
            },
        }
    }

    /// Lines for people.
    fn lines(&self) -> Vec<String> {
        let states = |states: &u64| format!("states            {states}");
        match self {
            Found::Moved {
                states: all,
                states_with_outstanding_records: outstanding,
                states_between_apply_and_checkpoint: between,
                blocks_moved,
                records_applied_before_the_cut: again,
            } => {
                let percent = |part: &u64| *part as f64 * 100.0 / (*all).max(1) as f64;
                let of_them = percent(outstanding);
                vec![
                    states(all),
                    format!("  outstanding     {outstanding} with records that are not completed ({of_them:.0} %)"),
                    format!(
                        "  applied         {between} with records that no checkpoint has yet ({:.0} %)",
                        percent(between)
                    ),
                    format!("blocks moved      {blocks_moved}"),
                    format!("records again     {again} had been applied before the cut"),
                ]
            }
            Found::InZones { states: all, zones_reset, zones_finished, zones_most_active } => vec![
                states(all),
                format!("zones reset       {zones_reset}"),
                format!("zones finished    {zones_finished}"),
                format!("  partly written  {zones_most_active} at one time, at most"),
            ],
            Found::OnHost {
                states: all,
                sessions,
                sessions_after_a_kill,
                states_with_outstanding_records,
                blocks_moved,
            } => vec![
                states(all),
                format!("  outstanding     {states_with_outstanding_records} with records that are not completed"),
                format!("sessions          {sessions}"),
                format!("  after a kill    {sessions_after_a_kill} with files that the host had not made durable"),
                format!("blocks moved      {blocks_moved}"),
            ],
        }
    }
}

/// Sessions of volumes that are cut, one seed after the other.
pub(crate) struct Sessions<'a> {
    pub(crate) kind: CutKind,
    pub(crate) host: SessionHost,
    pub(crate) seeds: Range<u64>,
    /// The number of states that is enough.
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
        let plan = CutPlan { mount: self.options.to_owned(), ..CutPlan::new(self.kind, self.host) };
        let SeedsOutcome { runs, sum, wrong } = plan.cut_many(seeds, most, jobs, tell).map_err(refused)?;
        bar.finish_and_clear();
        let report = Report {
            runs,
            found: Found::of(self.kind, sum),
            violations: wrong.into_iter().map(|SeedFault { seed, what }| Broken { seed, what }).collect(),
            seed: first,
            seconds: began.elapsed().as_secs_f64(),
            interrupted: signal.code().is_some(),
        };
        let is_sound = self.tell(&report).map_err(|e| Failure::output(&e))?;
        Ok(exit(&signal, is_sound))
    }

    /// Prints the report; whether no promise was broken.
    fn tell(&self, report: &Report) -> io::Result<bool> {
        let (mut out, is_sound) = (io::stdout(), report.violations.is_empty());
        if self.json {
            serde_json::to_writer_pretty(&mut out, report)?;
            writeln!(out)?;
            return Ok(is_sound);
        }
        let (command, kind, option) = (self.command, self.kind.name(), self.seed);
        let mounted = if self.options.is_empty() { String::new() } else { format!(" -o {}", self.options) };
        for Broken { seed, what } in &report.violations {
            writeln!(out, "{what}\n  again: steadyfs {command} --kind {kind} {option} {seed}{mounted}")?;
        }
        writeln!(out, "runs              {}", report.runs)?;
        report.found.lines().into_iter().try_for_each(|line| writeln!(out, "{line}"))?;
        writeln!(out, "violations        {}", report.violations.len())?;
        writeln!(out, "seed              {}", report.seed)?;
        writeln!(out, "seconds           {:.1}", report.seconds)?;
        note_interruption(&mut out, report.interrupted)?;
        Ok(is_sound)
    }
}
