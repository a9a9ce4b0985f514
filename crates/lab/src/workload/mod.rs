//! What is done to the volume. A kind of workload is a [`Plan`], which an experiment's file gives in full, and an
//! [`Act`], which does it.
//!
//! The steps of a run (`run::phases`) know neither the options of a kind nor its files: they ask the plan how much room
//! it needs and have the act lay out, work and verify. Every choice comes from the seed of the run.
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
//! `plan` and in `scaled`.

mod committing;
mod content;
mod database;
mod filebench;
mod fio;
mod metadata;
mod offsets;
mod pattern;
mod raw;
mod replay;
mod stage;
mod tally;
mod tpcc;
mod victims;
mod ycsb;

use crate::error::Result;
use crate::spec::Size;
pub(crate) use committing::Committing;
pub(crate) use content::Content;
use filebench::Filebench;
use fio::Fio;
use metadata::Metadata;
pub(crate) use offsets::Offsets;
pub(crate) use pattern::Pattern;
pub(crate) use raw::Raw;
pub(crate) use replay::Replay;
use serde::{Deserialize, Serialize};
pub(crate) use stage::{Stage, Traffic};
use std::sync::Arc;
pub(crate) use tally::Tally;
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

/// The options of one kind of workload.
pub(crate) trait Plan {
    /// Refuses what no run could do.
    fn check(&self) -> std::result::Result<(), String>;

    /// Bytes of the files that the layout makes.
    fn file_bytes(&self) -> u64;

    /// The workload on a stage, before anything has been done.
    fn act(&self, stage: &Arc<Stage>) -> Box<dyn Act>;
}

/// A workload at work. The methods are called once each, in this order, inside the simulation.
pub(crate) trait Act {
    /// Makes what the measured phase begins with; advances the progress by bytes, [`Plan::file_bytes`] in all.
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
    /// The options of the kind.
    fn plan(&self) -> &dyn Plan {
        match self {
            Workload::Fio(fio) => fio,
            Workload::Filebench(filebench) => filebench,
            Workload::Raw(raw) => raw,
            Workload::Metadata(metadata) => metadata,
            Workload::Ycsb(ycsb) => ycsb,
            Workload::Tpcc(tpcc) => tpcc,
            Workload::Replay(replay) => replay,
            Workload::Victims(victims) => victims,
            Workload::Committing(committing) => committing,
        }
    }

    /// If it is one on the device itself: its options.
    pub(crate) fn raw(&self) -> Option<&Raw> {
        match self {
            Workload::Raw(raw) => Some(raw),
            _ => None,
        }
    }

    /// If it is the choice of victims alone: its options.
    pub(crate) fn victims(&self) -> Option<&Victims> {
        match self {
            Workload::Victims(victims) => Some(victims),
            _ => None,
        }
    }

    /// If it is commits to the journal alone: its options.
    pub(crate) fn committing(&self) -> Option<&Committing> {
        match self {
            Workload::Committing(committing) => Some(committing),
            _ => None,
        }
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

    /// Whether there is a volume below it.
    pub(crate) fn has_volume(&self) -> bool {
        self.raw().is_none() && self.victims().is_none() && self.committing().is_none()
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

impl Plan for Workload {
    fn check(&self) -> std::result::Result<(), String> {
        self.plan().check()
    }

    fn file_bytes(&self) -> u64 {
        self.plan().file_bytes()
    }

    fn act(&self, stage: &Arc<Stage>) -> Box<dyn Act> {
        self.plan().act(stage)
    }
}
