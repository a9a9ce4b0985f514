//! "Linux agrees": what the integration tests of the other crates use to compare SteadyFS with the real F2FS.
//!
//! * [`machine`] boots the real Linux kernel over given disk images and runs a shell script in it, by user-mode Linux
//!   ([`Uml`]) or QEMU ([`Qemu`]);
//! * [`linux`] asks that kernel what it sees on a volume;
//! * [`images`] has volumes that Linux wrote, in many layouts, also crashed ones, with what Linux sees on each;
//! * [`corpus`] is a tree of corner cases that any file system can be asked to hold;
//! * [`exerciser`] does random operations to one file and compares it with what a file should do;
//! * [`golden`] has a few such volumes in the repository, also of kinds that take long to make;
//! * [`Rng`] and [`XorShift`] draw the same numbers each time;
//! * [`sampled`] says how many cases of one kind a test tries;
//! * [`manifest`] writes down a directory tree, whatever file system serves it, so that two views of one tree can be
//!   compared;
//! * [`tools`] runs mkfs.f2fs, fsck.f2fs and dump.f2fs and reads their verdicts.
//!
//! Rules that hold everywhere here:
//! * Nothing is skipped silently: a missing program is an error that names the Debian package.
//! * Every process started is in a process group of its own that dies with the test.
//! * Every file written is in a temporary directory that goes away with the value that owns it.
//!
//! This crate is for tests and benchmarks only: it is never published. No other crate depends on it except as a
//! dev-dependency, and `bench`, which is not published either.

pub mod corpus;
mod effort;
mod error;
pub mod exerciser;
pub mod golden;
pub mod images;
pub mod klog;
pub mod linux;
pub mod machine;
pub mod manifest;
pub mod process;
pub mod programs;
mod random;
pub mod sparse;
pub mod tools;

pub use corpus::{CorpusOp, HostTarget, Spec, Target};
pub use effort::sampled;
pub use error::{Error, Result};
pub use linux::{linux_manifest, linux_manifests};
pub use machine::{Qemu, Uml};
pub use manifest::Manifest;
pub use random::{Rng, XorShift};
pub use sparse::TempImage;
pub use tools::{fsck_f2fs, mkfs_f2fs};
