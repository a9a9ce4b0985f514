//! `steadyfs crash-test`: cuts the power at every write of many small workloads, in memory, and judges what is left.

mod sessions;

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use steadyfs_core::MountOptions;
use steadyfs_crash::{
    Collected, CutKind, Effort, Outcome, Plan, RunError, SessionHost, Stop, Violation, VolumeKind, Volumes, Workload,
    explore, generate, minimise, save, trace,
};

pub(crate) use self::sessions::{Explored, Sessions};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Most bytes of a workload in a file: an image may be there instead.
const LONGEST: u64 = 1 << 20;
/// States that `--full` visits at least.
const FULL: u64 = 1_000_000;
/// States that `--torture` visits at least.
const TORTURE: u64 = 10_000;
/// The ways to mount that `--full` visits.
const MODES: [&str; 8] = [
    "",
    "fsync_mode=strict",
    "noinline_data,noinline_dentry,noinline_xattr",
    "mode=adaptive,ssr=eager",
    "journal=single,journal.commit=1",
    "journal=percore,mode=adaptive,ssr=eager,ipu=never",
    "journal=percore,mode=adaptive,ssr=eager,journal.commit=1",
    "journal=double,fsync_mode=strict,noinline_data,noinline_dentry,noinline_xattr",
];

/// The same for IPLFS volumes, which have no journal and write nothing in place.
const ENDLESS_MODES: [&str; 3] = ["", "fsync_mode=strict", "noinline_data,noinline_dentry,noinline_xattr"];

/// Cut the power at every write of many small workloads, and judge what is left
///
/// Everything happens in memory: no device and no file is touched. Workloads are run on small volumes. A power cut may
/// leave each volume in many states: after each write, with unflushed writes lost in any combination, with a write
/// torn. Every state is checked, mounted, compared with what fsync, sync and checkpoints promise, written to, and
/// mounted again. Without options: every workload of one operation. Exits with 1 if a promise is broken; the shortest
/// workload that breaks it is saved, for --replay. Ctrl-C or SIGTERM ends it between two states: it reports what was
/// done so far, and exits with 130 or 143.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs crash-test --states 500")]
pub(crate) struct Args {
    /// Visit a million states: all lengths, random workloads of several writers, eight ways to mount (IPLFS: three),
    /// or that of --options alone
    #[arg(long, conflicts_with_all = ["length", "random", "collecting", "replay"])]
    full: bool,
    /// Every workload of N operations (2 takes an hour), each followed by each way to make it durable
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3))]
    length: Option<u32>,
    /// N random workloads of two to four writers, each in a schedule of its own in virtual time: with collection, late
    /// and refusing devices
    #[arg(long, value_name = "N")]
    random: Option<u64>,
    /// N workloads on volumes so full that several collectors move blocks all the time, in virtual time
    #[arg(long, value_name = "N")]
    collecting: Option<u64>,
    /// Threads write and fsync the same files on a device that refuses some writes, one seed after the other, until
    /// --states [default: 10000]
    #[arg(long, conflicts_with_all = ["full", "length", "random", "collecting", "nearly_full", "replay", "save"])]
    torture: bool,
    /// Do all of this on volumes with room for 0 to 40 blocks; alone: random workloads in which files replace others
    /// there, until --states
    #[arg(long, conflicts_with_all = ["collecting", "replay"])]
    nearly_full: bool,
    /// The kind of the volumes: f2fs, iplfs, iplfs-dir, d2fs, d2fs-dir or zoned. On IPLFS volumes the device panics on
    /// a second write of a block, tears lie anywhere in nodes, too, and no state holds a block that nobody knows of. On
    /// D2FS volumes a device moves blocks as inconveniently as it may, and panics when a promise to it is broken.
    /// Sessions of overwrites of one file are cut at any moment, one seed after the other, until --states [default:
    /// 10000]. With zoned the same on F2FS volumes on zoned devices, which note each broken rule of zones. With
    /// iplfs-dir and d2fs-dir the device is a directory of files, and the cut is one of its host: pages, holes, lengths
    /// and names that it had not made durable are lost in any combination
    #[arg(long, value_name = "KIND", value_parser = Explored::parse, default_value = "f2fs", conflicts_with_all = ["torture", "collecting", "replay"])]
    kind: Explored,
    /// The workload in FILE; may be given several times
    #[arg(long, value_name = "FILE")]
    replay: Vec<PathBuf>,
    /// Tell what happens in the replayed workloads: each step, each write
    #[arg(long, requires = "replay")]
    trace: bool,
    /// Stop after N states
    #[arg(long, value_name = "N")]
    states: Option<u64>,
    /// Seed of every choice made at random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Mount options of the workloads, as for `steadyfs mount`
    #[arg(short = 'o', long = "options", value_name = "OPTIONS", default_value = "")]
    options: String,
    /// Where workloads that break a promise are saved
    #[arg(long, value_name = "DIR", default_value = ".")]
    save: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The result, for programs.
#[derive(Serialize)]
struct Report {
    workloads: u64,
    crash_points: u64,
    choices: u64,
    distinct_states: u64,
    states_of_recovery: u64,
    collected: Option<Collecting>,
    violations: Vec<Broken>,
    seed: u64,
    seconds: f64,
    /// A signal ended it early.
    interrupted: bool,
}

/// What collectors did, if the workloads say that there are some, for programs.
#[derive(Serialize)]
struct Collecting {
    victims: u64,
    blocks_moved_before: u64,
    blocks_moved_between: u64,
    states_with_streams: u64,
    most_streams: u64,
}

impl Collecting {
    fn of(all: &Collected) -> Option<Self> {
        (*all != Collected::default()).then_some(Collecting {
            victims: all.victims,
            blocks_moved_before: all.moved_before,
            blocks_moved_between: all.moved_between,
            states_with_streams: all.states_with_streams,
            most_streams: all.most_streams,
        })
    }
}

/// A violation, for programs.
#[derive(Serialize)]
struct Broken {
    rule: steadyfs_crash::Rule,
    what: String,
    crash: String,
    workload: String,
    saved: PathBuf,
}

/// Does `--kind d2fs` and `--kind zoned`.
fn cut_sessions(args: &Args, kind: CutKind) -> Result<ExitCode, Failure> {
    if args.length.is_some() || args.random.is_some() || args.nearly_full {
        let what = "volumes of this kind are explored by sessions on a device of theirs";
        return Err(Failure::usage(
            "there are no such workloads",
            what,
            "leave out --length, --random and --nearly-full",
        ));
    }
    let host = match kind {
        // Only writers beside each other find out how a host's files are synced.
        CutKind::IplfsDir | CutKind::D2fsDir => SessionHost::Crowd,
        CutKind::D2fs | CutKind::Zoned => SessionHost::Alone,
    };
    let sessions = Sessions {
        kind,
        host,
        seeds: args.seed..u64::MAX,
        states: Some(args.states.unwrap_or(if args.full { FULL } else { TORTURE })),
        options: &args.options,
        jobs: args.jobs,
        json: args.json,
        command: "crash-test --states 1 --jobs 1",
        seed: "--seed",
    };
    sessions.run()
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let kind = match args.kind {
        Explored::Of(kind) => kind,
        Explored::Cut(cut) => return cut_sessions(args, cut),
    };
    let mounts: Vec<&str> = match (args.full, kind) {
        (true, VolumeKind::F2fs) if args.options.is_empty() => MODES.to_vec(),
        (true, VolumeKind::Iplfs) if args.options.is_empty() => ENDLESS_MODES.to_vec(),
        _ => vec![&args.options],
    };
    for mount in &mounts {
        MountOptions::parse(mount)
            .map_err(|e| Failure::usage("cannot mount with these options", e, "see `steadyfs mount --help`"))?;
    }
    if args.torture {
        return torture(args);
    }
    if args.trace {
        tell_traces(&args.replay)?;
    }
    let search = Search {
        plan: plan(Effort::USUAL, args.seed, args.jobs),
        limit: args.states.or(args.full.then_some(FULL)),
        save: &args.save,
        json: args.json,
    };
    let workloads = workloads(args, kind, &mounts)?;
    // A replayed workload says of which kind it is.
    let workloads: Box<dyn Iterator<Item = Workload> + Send> = match args.replay.is_empty() {
        true => Box::new(workloads.map(move |workload| workload.on(kind))),
        false => workloads,
    };
    if !args.nearly_full {
        return search.run(workloads);
    }
    let seed = args.seed;
    let filled = workloads.zip(0..).map(move |(workload, number)| match workload.free {
        Some(_) => workload,
        None => generate::filled(workload, seed.wrapping_add(number)),
    });
    search.run(Box::new(filled))
}

/// The result of `--torture`, for programs.
#[derive(Serialize)]
struct Tortured {
    runs: u64,
    crashes: u64,
    fsyncs_that_succeeded: u64,
    fsyncs_that_failed: u64,
    violations: Vec<Wrong>,
    seed: u64,
    seconds: f64,
    interrupted: bool,
}

/// A broken promise of `--torture`, for programs.
#[derive(Serialize)]
struct Wrong {
    seed: u64,
    rule: steadyfs_crash::Rule,
    what: String,
    crash: String,
}

/// Does `--torture`: a violation is repeated by its seed.
fn torture(args: &Args) -> Result<ExitCode, Failure> {
    let limit = args.states.unwrap_or(TORTURE);
    let bar = Arc::new(progress(Some(limit), "crashes"));
    let (began, jobs) = (Instant::now(), args.jobs.map_or_else(steadyfs_rt::cpus, usize::from));
    let stop = Stop::default();
    let signal = heed_signals(&stop)?;
    let tell = {
        let bar = Arc::clone(&bar);
        move |crashes| {
            bar.set_position(crashes);
            !stop.is_set()
        }
    };
    let outcome = steadyfs_crash::torture::torture(args.seed..u64::MAX, limit, &args.options, jobs, tell)
        .map_err(|e| Failure::new("cannot torture a volume", e, "see `steadyfs crash-test --help`"))?;
    bar.finish_and_clear();
    let wrong = outcome.wrong.into_iter();
    let report = Tortured {
        runs: outcome.runs,
        crashes: outcome.crashes,
        fsyncs_that_succeeded: outcome.synced,
        fsyncs_that_failed: outcome.refused,
        violations: wrong.map(|it| Wrong { seed: it.seed, rule: it.rule, what: it.what, crash: it.crash }).collect(),
        seed: args.seed,
        seconds: began.elapsed().as_secs_f64(),
        interrupted: signal.code().is_some(),
    };
    print_tortured(args.json, &report).map_err(|e| Failure::output(&e))?;
    Ok(exit(&signal, report.violations.is_empty()))
}

fn print_tortured(json: bool, report: &Tortured) -> io::Result<()> {
    let mut out = io::stdout();
    if json {
        serde_json::to_writer_pretty(&mut out, report)?;
        return writeln!(out);
    }
    for Wrong { seed, rule, what, crash } in &report.violations {
        writeln!(out, "{rule:?}: {what}\n  {crash}\n  again: steadyfs crash-test --torture --states 1 --seed {seed}")?;
    }
    writeln!(out, "runs              {}", report.runs)?;
    writeln!(out, "crashes           {}", report.crashes)?;
    writeln!(
        out,
        "fsyncs            {} succeeded, {} failed",
        report.fsyncs_that_succeeded, report.fsyncs_that_failed
    )?;
    writeln!(out, "violations        {}", report.violations.len())?;
    writeln!(out, "seed              {}", report.seed)?;
    writeln!(out, "seconds           {:.1}", report.seconds)?;
    note_interruption(&mut out, report.interrupted)
}

/// Has the first signal that says stop end the work early, and the second one the process.
pub(super) fn heed_signals(stop: &Stop) -> Result<Interrupt, Failure> {
    Interrupt::once(&[SIGINT, SIGTERM], stop.flag())
        .map_err(|e| Failure::new("cannot heed signals", e, "check the limits of this process"))
}

/// The exit code of what a signal may have ended early.
pub(super) fn exit(signal: &Interrupt, is_sound: bool) -> ExitCode {
    signal.code().unwrap_or(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says so if a signal has ended the work early.
pub(super) fn note_interruption(out: &mut impl Write, interrupted: bool) -> io::Result<()> {
    if interrupted { writeln!(out, "ended early       by a signal") } else { Ok(()) }
}

/// How to explore on this machine.
pub(super) fn plan(effort: Effort, seed: u64, jobs: Option<u16>) -> Plan {
    Plan { effort, seed, jobs: jobs.map_or_else(steadyfs_rt::cpus, usize::from), ..Plan::default() }
}

/// An exploration, and what becomes of its results.
pub(super) struct Search<'a> {
    pub(super) plan: Plan,
    /// States after which it stops.
    pub(super) limit: Option<u64>,
    /// Where workloads that break a promise are saved.
    pub(super) save: &'a Path,
    pub(super) json: bool,
}

impl Search<'_> {
    /// Explores, with a progress bar, and reports.
    pub(super) fn run(&self, workloads: Box<dyn Iterator<Item = Workload> + Send>) -> Result<ExitCode, Failure> {
        let (bar, limit) = (Arc::new(progress(self.limit, "states")), self.limit);
        let began = Instant::now();
        let tell = {
            let bar = Arc::clone(&bar);
            move |sum: &Outcome| {
                bar.set_position(sum.states);
                bar.set_message(format!("{} workloads, {} violations", sum.workloads, sum.violations.len()));
                limit.is_none_or(|limit| sum.states < limit)
            }
        };
        let signal = heed_signals(&self.plan.stop)?;
        let outcome = explore(workloads, &self.plan, tell).map_err(|e| no_sense(&e))?;
        bar.finish_and_clear();
        self.report(&outcome, began.elapsed(), &signal)
    }

    /// Makes the violations short, saves them and prints everything.
    fn report(&self, outcome: &Outcome, elapsed: Duration, signal: &Interrupt) -> Result<ExitCode, Failure> {
        let volumes = Volumes::default();
        let mut broken = Vec::new();
        for violation in shortest(&outcome.violations) {
            let small = minimise(violation, &self.plan, &volumes);
            let saved = save(&small, self.save).map_err(|e| {
                Failure::new(
                    format!("cannot save a workload in {}", self.save.display()),
                    e,
                    "give a directory with --save",
                )
            })?;
            let Violation { workload, rule, what, crash } = small;
            broken.push(Broken { rule, what, crash, workload: workload.to_string(), saved });
        }
        let report = Report {
            workloads: outcome.workloads,
            crash_points: outcome.crash_points,
            choices: outcome.choices,
            distinct_states: outcome.states,
            states_of_recovery: outcome.recovery_states,
            collected: Collecting::of(&outcome.collected),
            violations: broken,
            seed: self.plan.seed,
            seconds: elapsed.as_secs_f64(),
            interrupted: signal.code().is_some(),
        };
        print(self.json, &report, outcome.violations.len()).map_err(|e| Failure::output(&e))?;
        Ok(exit(signal, outcome.violations.is_empty()))
    }
}

fn no_sense(e: &RunError) -> Failure {
    Failure::usage("cannot run the workload", e, "correct the workload")
}

/// What the arguments ask for.
fn workloads(
    args: &Args,
    kind: VolumeKind,
    mounts: &[&str],
) -> Result<Box<dyn Iterator<Item = Workload> + Send>, Failure> {
    if !args.replay.is_empty() {
        let all: Result<Vec<Workload>, Failure> = args.replay.iter().map(|path| load(path)).collect();
        return Ok(Box::new(all?.into_iter()));
    }
    if args.full {
        return Ok(Box::new(generate::everything(mounts, kind, args.seed)));
    }
    let (seed, mount) = (args.seed, args.options.clone());
    let random = args.random.map({
        let mount = mount.clone();
        move |count| {
            let seeds = (0..count).map(move |i| seed.wrapping_add(i));
            seeds.map(move |seed| generate::scheduled_on(kind, &mount, seed))
        }
    });
    let collecting = args.collecting.map(|count| {
        (0..count).map({
            let mount = args.options.clone();
            move |i| generate::collecting(&mount, seed.wrapping_add(i))
        })
    });
    if args.nearly_full && args.length.is_none() && args.random.is_none() {
        return Ok(Box::new((seed..).map(move |seed| generate::nearly_full(&mount, seed))));
    }
    let length = args.length.or((random.is_none() && collecting.is_none()).then_some(1));
    let exhaustive = length.map(|length| generate::exhaustive(length, &args.options, seed));
    let random = random.into_iter().flatten().chain(collecting.into_iter().flatten());
    Ok(Box::new(exhaustive.into_iter().flatten().chain(random)))
}

fn load(path: &Path) -> Result<Workload, Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("cannot replay {}", path.display()), why, "give a file that crash-test has saved")
    };
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes)).map_err(|e| cannot(&e))?;
    let text = String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= LONGEST && !text.contains('\0'));
    text.ok_or_else(|| cannot(&"it is no text of a workload"))?.parse().map_err(|e| cannot(&e))
}

/// Prints what happens in workloads.
fn tell_traces(replay: &[PathBuf]) -> Result<(), Failure> {
    for path in replay {
        let told = trace(&load(path)?, &Volumes::default()).map_err(|e| no_sense(&e))?;
        write!(io::stdout(), "{told}").map_err(|e| Failure::output(&e))?;
    }
    Ok(())
}

/// A bar if anyone looks.
pub(super) fn progress(limit: Option<u64>, unit: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match limit {
        Some(limit) => {
            (ProgressBar::new(limit), format!("{{bar:32}} {{human_pos}}/{{human_len}} {unit} {{eta}} {{wide_msg}}"))
        }
        None => (ProgressBar::no_length(), format!("{{spinner}} {{human_pos}} {unit} {{wide_msg}}")),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar
}

/// The shortest few: one fault shows in many workloads.
fn shortest(all: &[Violation]) -> Vec<&Violation> {
    let mut sorted: Vec<&Violation> = all.iter().collect();
    sorted.sort_by_key(|violation| violation.workload.steps.len());
    sorted.truncate(5);
    sorted
}

fn print(json: bool, report: &Report, violations: usize) -> io::Result<()> {
    let mut out = io::stdout();
    if json {
        serde_json::to_writer_pretty(&mut out, report)?;
        return writeln!(out);
    }
    for broken in &report.violations {
        writeln!(
            out,
            "{:?}: {}\n  {}\n  workload saved as {}",
            broken.rule,
            broken.what,
            broken.crash,
            broken.saved.display()
        )?;
        broken.workload.lines().try_for_each(|line| writeln!(out, "    {line}"))?;
    }
    writeln!(out, "workloads         {}", report.workloads)?;
    writeln!(out, "crash points      {}", report.crash_points)?;
    writeln!(out, "choices           {}", report.choices)?;
    writeln!(out, "distinct states   {}", report.distinct_states)?;
    writeln!(out, "  of recovery     {}", report.states_of_recovery)?;
    if let Some(all) = &report.collected {
        let Collecting { victims, blocks_moved_before: before, blocks_moved_between: between, .. } = all;
        writeln!(
            out,
            "collected         {victims} sections; {before} blocks moved before the first cut, {between} between the cuts"
        )?;
        writeln!(out, "  streams open    at {} cuts, {} at most", all.states_with_streams, all.most_streams)?;
    }
    writeln!(out, "violations        {violations}")?;
    writeln!(out, "seed              {}", report.seed)?;
    writeln!(out, "seconds           {:.1}", report.seconds)?;
    note_interruption(&mut out, report.interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_violation_is_saved_and_ends_with_1() {
        let dir = tempfile::tempdir().unwrap();
        let args = Cli::parse_from(["crash-test", "--save", dir.path().to_str().unwrap()]).args;
        let workload: Workload = "creat one\nfsync one\n".parse().unwrap();
        let violation = Violation {
            workload: workload.clone(),
            rule: steadyfs_crash::Rule::Legal,
            what: "a file is missing".into(),
            crash: "power cut".into(),
        };
        let outcome = Outcome { violations: vec![violation], ..Outcome::default() };
        let search = Search { plan: Plan::default(), limit: None, save: &args.save, json: args.json };
        let code = search.report(&outcome, Duration::ZERO, &Interrupt::by(&[]).unwrap()).unwrap();
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::FAILURE));
        let saved = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
        assert_eq!(load(&saved).unwrap(), workload);
    }
}
