//! The crash explorer: runs small workloads on a volume in memory, cuts the power at every point, and judges what is
//! left.
//!
//! In the order of a run:
//! 1. A workload ([`Workload`], in the language of [`lang`]) is done on a recording device (`run`).
//! 2. The log gives all states in which a crash may leave the device (`states`).
//! 3. Each is mounted and compared (`judge`, `observe`) with what the model (`model`) and the promises (`legal`) allow.
//!
//! Runs with several writers are in virtual time, so that a seed repeats them; `trace` tells of one.
//!
//! [`CutPlan`] is for volumes on devices of their own: sessions of writers (`sessions`) on a device that moves blocks
//! (`moving`), on a zoned one (`zones`), or in files of a host (`hosts`).
//!
//! [`torture`] is for files that several threads write and fsync, on a device that refuses writes. [`load`] is for what
//! happens without a power cut: writers on a volume that is nearly full, contents compared, with threads or in virtual
//! time.

mod content;
mod digest;
mod explore;
mod files;
pub mod generate;
mod held_up;
mod hosts;
mod judge;
pub mod lang;
mod late;
mod left;
mod legal;
pub mod load;
mod migrating;
mod minimise;
mod model;
mod observe;
mod rng;
mod run;
mod seeds;
mod sessions;
mod states;
pub mod torture;
mod trace;
mod zones;

pub use explore::{Collected, Exploration, Outcome, Plan, Stop, Violation, Volumes, explore, explore_one};
pub use judge::Rule;
pub use lang::{Schedule, VolumeKind, Workload};
pub use minimise::{minimise, save};
pub use model::ModelError;
pub use run::RunError;
pub use seeds::{SeedFault, SeedsOutcome};
pub use sessions::{CutCounts, CutKind, CutPlan, SessionHost};
pub use states::Effort;
pub use trace::trace;
