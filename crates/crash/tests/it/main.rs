//! The crash explorer and the load, on sound volumes and on planted faults.

mod canary;
mod collecting;
mod collectors;
mod full;
mod hosts;
mod iplfs;
mod late;
mod linux;
mod load;
mod migrating;
mod regressions;
mod schedules;
mod short;
mod timed;
mod zones;
