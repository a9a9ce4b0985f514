//! Mixes of operations on names and attributes: `mdtest`, phase by phase, `dbench`, all at once, and `patterns` of
//! programs that want their names to last.

mod dbench;
mod mdtest;
mod patterns;

use super::{Act, Options, Plan};
use crate::stage::Stage;
use dbench::Dbench;
use mdtest::Mdtest;
use patterns::Patterns;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mix", rename_all = "lowercase")]
pub(crate) enum Metadata {
    /// Items are created, asked for, read and removed, each by all tasks before the next begins.
    Mdtest(Mdtest),
    /// Clients of a file server.
    Dbench(Dbench),
    /// Programs that make their names durable.
    Patterns(Patterns),
}

impl Metadata {
    /// The same with fewer items, or smaller files and a shorter time.
    pub(super) fn scaled(self, factor: f64) -> Self {
        match self {
            Metadata::Mdtest(mdtest) => Metadata::Mdtest(mdtest.scaled(factor)),
            Metadata::Dbench(dbench) => Metadata::Dbench(dbench.scaled(factor)),
            Metadata::Patterns(patterns) => Metadata::Patterns(patterns.scaled(factor)),
        }
    }

    fn plan(&self) -> &dyn Plan {
        match self {
            Metadata::Mdtest(mdtest) => mdtest,
            Metadata::Dbench(dbench) => dbench,
            Metadata::Patterns(patterns) => patterns,
        }
    }
}

impl Options for Metadata {
    fn check(&self) -> Result<(), String> {
        self.plan().check()
    }

    fn file_bytes(&self) -> u64 {
        self.plan().file_bytes()
    }
}

impl Plan for Metadata {
    fn act(&self, stage: &Arc<Stage>) -> Box<dyn Act> {
        self.plan().act(stage)
    }
}

/// Refuses a number outside 1 to `most`.
fn check_count(name: &str, value: u64, most: u64) -> Result<(), String> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("workload.{name}: {value} is not between 1 and {most}"))
}
