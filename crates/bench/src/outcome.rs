//! What the comparisons do with their report: print it, write it to a file, hold it against the goals.

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The options that say so.
#[derive(Debug, clap::Args)]
pub(crate) struct OutcomeOptions {
    /// Say for each goal of docs/BENCHMARKS.md whether it is met
    #[arg(long)]
    goals: bool,
    /// The same, and fail if one is not
    #[arg(long)]
    pub(crate) strict: bool,
    /// Write all that was measured to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl OutcomeOptions {
    /// Tells of a report, which reads as `text`. `judge` says of each goal whether it is met, and how many are not.
    ///
    /// # Errors
    /// The file or standard output cannot be written; with `--strict`, a goal is not met.
    pub(crate) fn tell(
        &self,
        report: &impl Serialize,
        text: &str,
        judge: impl FnOnce() -> (String, usize),
    ) -> Result<()> {
        if let Some(path) = &self.json {
            write_json(path, report)?;
        }
        let mut out = std::io::stdout();
        out.write_all(text.as_bytes())?;
        if self.goals || self.strict {
            let (verdicts, missed) = judge();
            out.write_all(verdicts.as_bytes())?;
            ensure!(!self.strict || missed == 0, "{missed} goals are not met");
        }
        Ok(())
    }
}

/// Writes all of a report into a file.
pub(crate) fn write_json(path: &Path, report: &impl Serialize) -> Result<()> {
    let json = serde_json::to_string_pretty(report)?;
    std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))
}
