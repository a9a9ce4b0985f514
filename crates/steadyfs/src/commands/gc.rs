//! `steadyfs gc`: collects garbage segments of a volume that is not mounted, or shows what that would do.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use steadyfs_core::stats::Skipped;
use steadyfs_core::{Error, GcPlan, GcReport, Urgency};

use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::talk::Talk;
use crate::text::print_json;
use crate::volume::{Access, Volume, failure, open_raw, open_unused};

/// Victims that a plan lists for people.
const LISTED: usize = 50;

/// Collect segments that hold garbage, so that they can be written again; or show what that would do (--plan)
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs gc --plan image.img")]
pub(crate) struct Args {
    /// Show what would be collected, what it would cost and gain; writes nothing
    #[arg(long)]
    plan: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    #[command(flatten)]
    pub(crate) talk: Talk,
    /// Collect at most N sections [default: each section that holds garbage, once]
    #[arg(long, value_name = "N", conflicts_with = "segments")]
    sections: Option<u64>,
    /// Collect at most N segments, rounded up to whole sections
    #[arg(long, value_name = "N")]
    segments: Option<u64>,
    /// Which sections come first: those with the fewest valid blocks, or those that are old as well
    #[arg(long, value_enum, default_value = "greedy")]
    policy: Policy,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device
    device: PathBuf,
}

/// How victims are chosen.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Policy {
    /// As when writers wait for room
    Greedy,
    /// As when the volume is idle
    CostBenefit,
}

impl Policy {
    fn urgency(self) -> Urgency {
        match self {
            Policy::Greedy => Urgency::Foreground,
            Policy::CostBenefit => Urgency::Background,
        }
    }
}

/// The JSON form of what was done.
#[derive(Serialize)]
struct Done {
    sections_collected: u64,
    sections_freed: u64,
    data_moved: u64,
    nodes_moved: u64,
    skipped: Skipped,
}

/// The JSON form of a plan: its fields, and the sum that follows from them.
#[derive(Serialize)]
struct Planned<'a> {
    #[serde(flatten)]
    plan: &'a GcPlan,
    blocks_written: u64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    // A plan may be made of a volume in use, a collection not.
    let image = if args.plan { open_raw(&args.device, args.image) } else { open_unused(&args.device, args.image) }?;
    if image.log_space().is_some() {
        return nothing(args);
    }
    let layout = *image.layout();
    drop(image);
    let all = u64::from(layout.sections);
    let asked = args.sections.or(args.segments.map(|segments| segments.div_ceil(layout.segs_per_sec.into())));
    let sections = asked.map_or(all, |sections| sections.min(all));
    let cannot = |e: Error| failure(format!("cannot collect in {}", args.device.display()), &e);
    if args.plan {
        // Opened for reading only: it cannot be written to.
        let volume = Volume::open(&args.device, args.image, Access::Read)?;
        let plan = volume.fs.gc_plan(sections, args.policy.urgency()).map_err(cannot)?;
        match args.json {
            true => print_json(&Planned { plan: &plan, blocks_written: plan.blocks_written() })?,
            false if args.talk.quiet => {}
            false => print_plan(&plan, &mut io::stdout().lock()).map_err(|e| Failure::output(&e))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    Volume::with(&args.device, args.image, Access::Write, |volume| {
        let urgency = args.policy.urgency();
        let bar = bar(args.talk, || volume.fs.gc_plan(sections, urgency).map_or(sections, |plan| plan.sections_freed));
        let report = volume.fs.gc_each(sections, urgency, &mut |_| bar.inc(1)).map_err(cannot)?;
        bar.finish_and_clear();
        if !args.talk.quiet {
            print_done(&report, args.json)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Says that an IPLFS volume has nothing to collect.
fn nothing(args: &Args) -> Result<ExitCode, Failure> {
    let none = GcPlan::default();
    match (args.json, args.plan) {
        (true, true) => print_json(&Planned { plan: &none, blocks_written: 0 })?,
        (true, false) => print_done(&GcReport::default(), true)?,
        (false, _) if args.talk.quiet => {}
        (false, _) => {
            let line = "nothing to collect: an IPLFS volume is never written to where it was; `steadyfs trim` gives back \
                        what is dead";
            writeln!(io::stdout(), "{line}").map_err(|e| Failure::output(&e))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A bar if anyone looks; how much there is to do is asked for only then.
fn bar(talk: Talk, total: impl FnOnce() -> u64) -> ProgressBar {
    if talk.quiet || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(total()), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{bar:32} {pos}/{len} sections {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn print_done(report: &GcReport, json: bool) -> Result<(), Failure> {
    let GcReport { victims, sections_freed, data_moved, nodes_moved, skipped, .. } = *report;
    if json {
        return print_json(&Done { sections_collected: victims, sections_freed, data_moved, nodes_moved, skipped });
    }
    let line = format!(
        "{victims} sections collected, {sections_freed} freed; {data_moved} data and {nodes_moved} node blocks moved"
    );
    writeln!(io::stdout(), "{line}").map_err(|e| Failure::output(&e))
}

fn print_plan(plan: &GcPlan, out: &mut impl Write) -> io::Result<()> {
    if plan.victims.is_empty() {
        return writeln!(out, "nothing to collect: no closed section holds both garbage and valid blocks");
    }
    writeln!(
        out,
        "{:>7} {:>13} {:>9} {:>9} {:>9} {:>9} {:>10}",
        "greedy", "cost-benefit", "section", "data", "nodes", "garbage", "age"
    )?;
    for v in plan.victims.iter().take(LISTED) {
        writeln!(
            out,
            "{:>7} {:>13} {:>9} {:>9} {:>9} {:>9} {:>8} s",
            v.greedy, v.cost_benefit, v.section, v.data, v.nodes, v.garbage, v.age
        )?;
    }
    if plan.victims.len() > LISTED {
        writeln!(out, "... and {} more (--json has them all)", plan.victims.len() - LISTED)?;
    }
    writeln!(
        out,
        "{} of {} candidates: {} data and {} node blocks to move; {} blocks to write, {} of them nodes",
        plan.victims.len(),
        plan.candidates,
        plan.data_moved,
        plan.nodes_moved,
        plan.blocks_written(),
        plan.nodes_written
    )?;
    writeln!(
        out,
        "frees {} sections and gains {:.1}, room for {} blocks; write amplification {:.2}",
        plan.sections_freed, plan.sections_gained, plan.garbage, plan.waf
    )
}
