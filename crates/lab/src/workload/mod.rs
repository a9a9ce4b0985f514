//! What is done to the volume: a set of jobs, each with a file of its own, and the choices that each makes.
//!
//! One kind now, `fio`, with the names and the meaning of fio's own options. Every choice comes from the seed of the run.

mod content;
mod fio;
mod offsets;

pub(crate) use fio::{Fio, Io, Job, Kind};
use serde::{Deserialize, Serialize};

/// A workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Workload {
    /// As fio does it.
    Fio(Fio),
}

impl Workload {
    /// The same with smaller files and amounts.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        match self {
            Workload::Fio(fio) => Workload::Fio(fio.scaled(factor)),
        }
    }

    /// Bytes of all files.
    pub(crate) fn file_bytes(&self) -> u64 {
        match self {
            Workload::Fio(fio) => fio.file_bytes(),
        }
    }

    /// Refuses what no run could do.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Workload::Fio(fio) => fio.check(),
        }
    }
}
