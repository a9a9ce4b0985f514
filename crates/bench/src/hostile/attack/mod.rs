//! Attackers: what each kind does, over and over, until it is asked to end.
//!
//! Each is a process of its own, in a directory of its user. It prepares its needs (deep chains, many names) before the
//! victim is timed. A step that is refused is counted and tried again at once.

mod control;
mod names;
mod room;

use super::party;
use super::victim::{Log, User};
use crate::measure::Stop;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::io;

/// One step of an attack.
type Step = Box<dyn FnMut() -> io::Result<()>>;

/// A kind of attacker.
pub(super) struct Kind {
    /// The name that options and reports use.
    pub(super) name: &'static str,
    /// How many processes of it there are.
    pub(super) processes: u64,
    /// Prepares an attack.
    prepare: fn(&Plan) -> io::Result<Step>,
}

/// What one process is to do.
pub(super) struct Plan {
    /// Its number among its kind.
    pub(super) number: u64,
    /// Per cent of levels, names and files.
    pub(super) amount: u64,
}

impl Plan {
    /// `many`, scaled by the amount that was asked for.
    fn some(&self, many: u64) -> u64 {
        (many * self.amount / 100).max(1)
    }
}

/// All kinds.
pub(super) const KINDS: [Kind; 8] = [
    Kind { name: "deep", processes: 4, prepare: names::deep },
    Kind { name: "nameless", processes: 8, prepare: room::nameless },
    Kind { name: "fallocate", processes: 4, prepare: room::allocated },
    Kind { name: "fsync", processes: 32, prepare: control::fsync },
    Kind { name: "readdir", processes: 16, prepare: names::readdir },
    Kind { name: "names", processes: 4, prepare: names::names },
    Kind { name: "control", processes: 8, prepare: control::control },
    Kind { name: "fill", processes: 4, prepare: room::fill },
];

/// The fair peer: it burns a processor, and never touches the mount again.
pub(super) const SPIN: Kind = Kind { name: "spin", processes: 0, prepare: |_| Ok(Box::new(spin)) };

/// The busy peer: as many honest users, each of whom does what the victim does.
pub(super) const USERS: Kind = Kind { name: "users", processes: 0, prepare: works };

fn works(plan: &Plan) -> io::Result<Step> {
    let home = format!("user-{}", plan.number);
    std::fs::create_dir(&home)?;
    std::env::set_current_dir(home)?;
    let (mut user, mut log) = (User::new()?, Log::default());
    Ok(Box::new(move || {
        user.round(&mut log);
        Ok(())
    }))
}

fn spin() -> io::Result<()> {
    for number in 0..10_000_u32 {
        std::hint::black_box(number);
    }
    Ok(())
}

/// What attackers came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Steps that were done.
    pub(super) done: u64,
    /// Steps that were refused.
    pub(super) refused: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.done += other.done;
        self.refused += other.refused;
    }
}

/// Prepares, waits for the word, and attacks until a signal comes.
pub(super) fn run(kind: &Kind, plan: &Plan) -> Result<()> {
    let stop = Stop::on_signals()?;
    let mut step = (kind.prepare)(plan)?;
    party::wait_for_go()?;
    let mut tally = Tally::default();
    while stop.check().is_ok() {
        match step() {
            Ok(()) => tally.done += 1,
            Err(_) => tally.refused += 1,
        }
    }
    party::tell(&tally)
}
