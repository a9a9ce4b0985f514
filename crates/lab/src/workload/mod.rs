//! What is done to the volume. A kind of workload is a [`Plan`], which an experiment's file gives in full, and an
//! [`Act`], which does it.
//!
//! A run (`run::volume`) knows neither the options of a kind nor its files. It asks the plan how much room it needs,
//! and has the act lay out, work and verify. Every choice comes from the seed of the run.
//!
//! Some kinds work without a volume. They have [`Options`] and no act: `run` has their steps. [`Workload::subject`]
//! tells the ones from the others.
//!
//! - `fio`: jobs with the names and the meaning of fio's own options;
//! - `filebench`: its personalities fileserver, varmail, webserver and oltp;
//! - `device`: writes to the device itself, without a volume (`run::raw`);
//! - `metadata`: mdtest, a mix as dbench has it, and patterns of programs that sync what they name;
//! - `committing`: commits to the lists of the metadata journal alone (`run::committing`);
//! - `victims`: the choice of victims alone, without a volume (`run::victims`);
//! - `ycsb`: YCSB's core workloads over a database engine (`engine`);
//! - `tpcc`: TPC-C's transactions over the same engine;
//! - `replay`: a trace of a mount.
//!
//! To add a kind: a module with its options (`#[serde(deny_unknown_fields)]`), a variant of [`Workload`], a line in
//! `subject` and in `scaled`. One without a volume is a [`Subject`] of its own.

mod committing;
mod database;
mod filebench;
mod fio;
mod metadata;
mod offsets;
mod raw;
mod replay;
mod tpcc;
mod victims;
mod ycsb;

use crate::error::Result;
use crate::spec::Size;
use crate::stage::{Stage, Tally};
pub(crate) use committing::Committing;
use filebench::Filebench;
use fio::Fio;
use metadata::Metadata;
pub(crate) use offsets::Offsets;
pub(crate) use raw::Raw;
pub(crate) use replay::Replay;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tpcc::Tpcc;
pub(crate) use victims::{BLOCKS, Victims};
use ycsb::Ycsb;

/// A workload, by its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Workload {
    /// As fio does it.
    Fio(Fio),
    /// As filebench does it.
    Filebench(Filebench),
    /// On the device itself.
    #[serde(rename = "device")]
    Raw(Raw),
    /// Names and attributes.
    Metadata(Metadata),
    /// A database.
    Ycsb(Ycsb),
    /// TPC-C's transactions on a database.
    Tpcc(Tpcc),
    /// What a trace has.
    Replay(Replay),
    /// The choice of victims alone.
    Victims(Victims),
    /// Commits to the metadata journal alone.
    Committing(Committing),
}

/// What a workload works on, with its options.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// Files of a volume.
    Volume(&'a dyn Plan),
    /// The device itself.
    Device(&'a Raw),
    /// A segment table.
    Segments(&'a Victims),
    /// The lists of the metadata journal.
    Lists(&'a Committing),
}

/// The options of one kind of workload.
pub(crate) trait Options {
    /// Refuses what no run could do.
    fn check(&self) -> std::result::Result<(), String>;

    /// Bytes of the files that the layout makes; without a volume, of the device that are written.
    fn file_bytes(&self) -> u64;
}

/// The options of a workload on a volume.
pub(crate) trait Plan: Options {
    /// The workload on a stage, before anything has been done.
    fn act(&self, stage: &Arc<Stage>) -> Box<dyn Act>;
}

/// A workload at work. The methods are called once each, in this order, inside the simulation.
pub(crate) trait Act {
    /// Makes what the measured phase begins with; advances the progress by bytes, [`Options::file_bytes`] in all.
    fn lay_out(&mut self) -> Result<()>;

    /// How far the measured phase advances the progress in all (bytes, or operations); 0 if time ends it.
    fn amount(&self) -> u64;

    /// After how many virtual seconds the measured phase ends at the latest, if it does.
    fn seconds(&self) -> Option<f64> {
        None
    }

    /// The measured phase, to its end; counts what it moves in the stage's traffic.
    fn work(&mut self) -> Result<Tally>;

    /// Compares what is in the files with what should be; in words, what was compared. Advances the progress as the
    /// layout does.
    fn verify(&mut self) -> Result<String>;
}

impl Workload {
    /// The subject, with the options of this workload.
    pub(crate) fn subject(&self) -> Subject<'_> {
        match self {
            Workload::Fio(fio) => Subject::Volume(fio),
            Workload::Filebench(filebench) => Subject::Volume(filebench),
            Workload::Raw(raw) => Subject::Device(raw),
            Workload::Metadata(metadata) => Subject::Volume(metadata),
            Workload::Ycsb(ycsb) => Subject::Volume(ycsb),
            Workload::Tpcc(tpcc) => Subject::Volume(tpcc),
            Workload::Replay(replay) => Subject::Volume(replay),
            Workload::Victims(victims) => Subject::Segments(victims),
            Workload::Committing(committing) => Subject::Lists(committing),
        }
    }

    /// Refuses what no run could do.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        self.subject().options().check()
    }

    /// Bytes of the files that the layout makes; see [`Options::file_bytes`].
    pub(crate) fn file_bytes(&self) -> u64 {
        self.subject().options().file_bytes()
    }

    /// Whether there is a volume below it.
    pub(crate) fn has_volume(&self) -> bool {
        matches!(self.subject(), Subject::Volume(_))
    }

    /// The share of the users' space that its files are to take, in hundredths, if it asks for one.
    pub(crate) fn fill(&self) -> Option<u32> {
        match self {
            Workload::Fio(fio) => fio.fill,
            _ => None,
        }
    }

    /// Makes its files take so many bytes together, where it asked for a share.
    pub(crate) fn fill_with(&mut self, bytes: u64) {
        if let Workload::Fio(fio) = self {
            fio.size = Size::of(bytes / u64::from(fio.numjobs) / fio.bs.bytes() * fio.bs.bytes());
        }
    }

    /// What fio's files are before its jobs begin, said or not; `None` with other workloads.
    pub(crate) fn fio_layout(&self) -> Option<String> {
        let Workload::Fio(fio) = self else { return None };
        serde_json::to_value(fio.layout()).ok()?.as_str().map(str::to_owned)
    }

    /// The same with smaller files and amounts.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        match self {
            Workload::Fio(fio) => Workload::Fio(fio.scaled(factor)),
            Workload::Filebench(filebench) => Workload::Filebench(filebench.scaled(factor)),
            Workload::Raw(raw) => Workload::Raw(raw.scaled(factor)),
            Workload::Metadata(metadata) => Workload::Metadata(metadata.scaled(factor)),
            Workload::Ycsb(ycsb) => Workload::Ycsb(ycsb.scaled(factor)),
            Workload::Tpcc(tpcc) => Workload::Tpcc(tpcc.scaled(factor)),
            Workload::Victims(victims) => Workload::Victims(victims.scaled(factor)),
            Workload::Committing(committing) => Workload::Committing(committing.scaled(factor)),
            // A trace is what it is: only the volume around it becomes smaller.
            Workload::Replay(replay) => Workload::Replay(replay),
        }
    }
}

impl<'a> Subject<'a> {
    /// The options of the kind.
    fn options(self) -> &'a dyn Options {
        match self {
            Subject::Volume(plan) => plan,
            Subject::Device(raw) => raw,
            Subject::Segments(victims) => victims,
            Subject::Lists(committing) => committing,
        }
    }
}
