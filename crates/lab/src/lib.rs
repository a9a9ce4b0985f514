//! The laboratory: experiments on the file system in deterministic virtual time.
//!
//! An experiment is a file ([`Experiment`]): a volume, a device, a number of cores, a workload, what to plot, and what
//! a paper claims. It runs whole inside one simulation ([`run`]): mkfs, mount, layout, the measured phase, the check of
//! every page and of the volume. The same experiment with the same seed gives the same bytes.
//!
//! In the order of a run:
//! - `spec`: what the file says;
//! - `workload`: who does what, `engine`: a database for it, and `stage`: what both have around them;
//! - `device`: on what;
//! - `run`: the simulation, and what is measured while it runs;
//! - `progress`: how far it is, and `record`: what it leaves;
//! - `claims`: what the paper says against what was measured, by `interval`;
//! - `report`: files, figures, comparisons.
//!
//! Beside them are:
//! - `sensitivity`: on which prices and assumptions claims rest;
//! - `calibrate`: what CPU work costs on the machine it runs on;
//! - `drive`: an emulated drive without a file system;
//! - `formula`: a policy that chooses victims, as a text.

mod calibrate;
mod claims;
mod device;
mod drive;
mod engine;
mod error;
mod formula;
mod histogram;
mod interval;
mod progress;
mod record;
mod replays;
mod report;
mod rng;
mod run;
mod sensitivity;
mod spec;
mod stage;
mod workload;

pub use calibrate::{Price, calibrate};
pub use claims::{Judgement, Verdict, judge, spread};
pub use drive::{Mix, Point, Times, drive, measure};
pub use error::{Error, Result};
pub use formula::{Formula, FormulaError};
pub use interval::CONFIDENCE;
pub use progress::{Phase, Progress};
pub use record::{Cost, Record, Row, Run};
pub use replays::Replays;
pub use report::{
    Batch, Comparison, Curve, SweepTable, compare, load, number, page, picture, save, save_sensitivity, sweep_tables,
};
pub use run::{run, run_seeds, run_system, run_with_victims};
pub use sensitivity::{Change, Finding, Sensitivity, Standing, Told, sensitivity};
pub use spec::{
    Claim, Experiment, Others, Plot, PlotOver, Scale, Span, Sweep, System, Window, builtin, builtin_text, builtins,
    open,
};

/// The commit that this was built from, where the build said so.
pub const COMMIT: Option<&str> = match option_env!("STEADYFS_COMMIT") {
    Some(commit) if !commit.is_empty() => Some(commit),
    _ => None,
};
