//! Failing devices under a mounted volume: no panic, no hang, no silent loss.

mod bed;
mod beside;
mod commit;
mod exhaustive;
mod lasting;
mod model;
mod orphans;
mod reports;
mod unreadable;
mod workload;
