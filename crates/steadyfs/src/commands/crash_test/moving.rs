//! D2FS volumes of `crash-test` and `lab fuzz`: sessions on a device that moves blocks, cut at any moment. A violation
//! is repeated by its seed.

use std::io::{self, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use steadyfs_crash::{MovingFault, MovingHost, Stop, VolumeKind, cut_many_while_moving};

use super::{exit, heed_signals, note_interruption, progress};
use crate::failure::Failure;

/// What volumes are explored, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Explored {
    /// By workloads, on volumes of this kind.
    Of(VolumeKind),
    /// By sessions on a device that moves blocks.
    D2fs,
}

impl Explored {
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        match name {
            "d2fs" => Ok(Explored::D2fs),
            _ => VolumeKind::parse(name).map(Explored::Of).map_err(|e| format!("{e}, or d2fs")),
        }
    }
}

/// The result of `--kind d2fs`, for programs.
#[derive(Serialize)]
struct Moved {
    runs: u64,
    states: u64,
    states_with_outstanding_records: u64,
    states_between_apply_and_checkpoint: u64,
    blocks_moved: u64,
    records_applied_before_the_cut: u64,
    violations: Vec<Misplaced>,
    seed: u64,
    seconds: f64,
    interrupted: bool,
}

/// A broken promise of `--kind d2fs`, for programs.
#[derive(Serialize)]
struct Misplaced {
    seed: u64,
    what: String,
}

/// Sessions of D2FS volumes whose device moves blocks, one seed after the other.
pub(crate) struct Sessions<'a> {
    pub(crate) host: MovingHost,
    pub(crate) seeds: Range<u64>,
    /// So many states are enough.
    pub(crate) states: Option<u64>,
    pub(crate) options: &'a str,
    pub(crate) jobs: Option<u16>,
    pub(crate) json: bool,
    /// The command that repeats a seed, which comes last.
    pub(crate) again: &'static str,
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
        let (first, most) = (self.seeds.start, self.states.unwrap_or(u64::MAX));
        let outcome = cut_many_while_moving(self.host, self.seeds, most, self.options, jobs, tell)
            .map_err(|e| Failure::usage("cannot mount with these options", e, "see `steadyfs mount --help`"))?;
        bar.finish_and_clear();
        let report = Moved {
            runs: outcome.runs,
            states: outcome.sum.states,
            states_with_outstanding_records: outcome.sum.outstanding,
            states_between_apply_and_checkpoint: outcome.sum.between,
            blocks_moved: outcome.sum.moved,
            records_applied_before_the_cut: outcome.sum.again,
            violations: outcome.wrong.into_iter().map(|MovingFault { seed, what }| Misplaced { seed, what }).collect(),
            seed: first,
            seconds: began.elapsed().as_secs_f64(),
            interrupted: signal.code().is_some(),
        };
        print_moved(self.json, self.again, &report).map_err(|e| Failure::output(&e))?;
        Ok(exit(&signal, report.violations.is_empty()))
    }
}

fn print_moved(json: bool, again: &str, report: &Moved) -> io::Result<()> {
    let mut out = io::stdout();
    if json {
        serde_json::to_writer_pretty(&mut out, report)?;
        return writeln!(out);
    }
    for Misplaced { seed, what } in &report.violations {
        writeln!(out, "{what}\n  again: steadyfs {again} {seed}")?;
    }
    let percent = |part: u64| part as f64 * 100.0 / report.states.max(1) as f64;
    let (outstanding, between) = (report.states_with_outstanding_records, report.states_between_apply_and_checkpoint);
    writeln!(out, "runs              {}", report.runs)?;
    writeln!(out, "states            {}", report.states)?;
    writeln!(
        out,
        "  outstanding     {outstanding} with records that are not completed ({:.0} %)",
        percent(outstanding)
    )?;
    writeln!(out, "  applied         {between} with records that no checkpoint has yet ({:.0} %)", percent(between))?;
    writeln!(out, "blocks moved      {}", report.blocks_moved)?;
    writeln!(out, "records again     {} had been applied before the cut", report.records_applied_before_the_cut)?;
    writeln!(out, "violations        {}", report.violations.len())?;
    writeln!(out, "seed              {}", report.seed)?;
    writeln!(out, "seconds           {:.1}", report.seconds)?;
    note_interruption(&mut out, report.interrupted)
}
