//! SteadyFS as a library: one name for the crates that a program needs to open and use a volume.
//!
//! The `steadyfs` command (`main.rs`) is a user of these crates like any other; nothing it does needs a door of its own.

pub use steadyfs_core as core;
pub use steadyfs_device as device;
pub use steadyfs_format as format;
