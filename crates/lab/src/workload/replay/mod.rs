//! A trace of a mount (`steadyfs_trace`), done again: the same operations on a tree of the same shape, by as many tasks
//! as were at work at once.
//!
//! `script` makes of a trace what has to be there before, who does what when, and which operation has to wait for
//! which; `play` does it. Contents are not in a trace: what is written is synthetic, and what is read is not compared.

mod layout;
mod play;
mod script;
#[cfg(test)]
mod tests;

use super::{Act, Options, Plan};
use crate::spec::Size;
use crate::stage::Stage;
use script::Script;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// The options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Replay {
    /// The file of the trace.
    pub(crate) trace: PathBuf,
    /// How many times as fast programs think between operations; 0 for not at all.
    #[serde(default = "one")]
    pub(crate) speed: f64,
    /// Bytes of a file that is there besides and that nobody uses.
    #[serde(default)]
    pub(crate) fill: Size,
    /// The trace, once it has been read.
    #[serde(skip)]
    loaded: Loaded,
}

/// Read once. Says nothing about the options: two of them are equal whether read or not.
#[derive(Clone, Debug, Default)]
struct Loaded(OnceLock<Result<Arc<Script>, String>>);

impl PartialEq for Loaded {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

fn one() -> f64 {
    1.0
}

impl Replay {
    /// The trace in this file, at this speed.
    pub(crate) fn new(trace: PathBuf, speed: f64) -> Self {
        Replay { trace, speed, fill: Size::of(0), loaded: Loaded::default() }
    }

    /// The same beside a file of so many bytes.
    pub(crate) fn beside(mut self, fill: Size) -> Self {
        self.fill = fill;
        self
    }

    /// What is to be done.
    pub(crate) fn script(&self) -> Result<Arc<Script>, String> {
        self.loaded.0.get_or_init(|| self.load().map(Arc::new)).clone()
    }

    fn load(&self) -> Result<Script, String> {
        let place = self.trace.display();
        let file = File::open(&self.trace).map_err(|e| format!("workload.trace: {place}: {e}"))?;
        let trace = steadyfs_trace::file::read(&mut BufReader::new(file));
        Script::of(&trace.map_err(|e| format!("workload.trace: {place}: {e}"))?)
            .map_err(|e| format!("workload.trace: {place}: {e}"))
    }
}

impl Options for Replay {
    fn check(&self) -> Result<(), String> {
        if !(0.0..=1e6).contains(&self.speed) {
            return Err(format!("workload.speed: {} is not between 0 (no waiting) and a million", self.speed));
        }
        self.script().map(drop)
    }

    fn file_bytes(&self) -> u64 {
        self.script().map_or(0, |script| script.initial_bytes() + self.fill.bytes())
    }
}

impl Plan for Replay {
    fn act(&self, stage: &Arc<Stage>) -> Box<dyn Act> {
        Box::new(play::Player::new(self, stage))
    }
}
