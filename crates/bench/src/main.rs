//! `steadyfs-bench`: SteadyFS beside its peers, as ratios in one run:
//! - without a command, beside ext4, XFS and the bare device;
//! - with `gc`, beside the real F2FS while garbage is collected;
//! - with `fsck`, its checker beside F2FS';
//! - with `journal`, names that are made to last;
//! - with `discard`, what holes in files cost;
//! - with `real`, programs that people run;
//! - with `hostile`, what users who mean harm cost another.
//!
//! All targets run the same code (`workload`) on the same memory (`bed`), one directly after the other within each
//! repetition, and what is reported are medians of the repetitions' ratios (`report`). docs/BENCHMARKS.md says how to
//! read the figures.
//!
//! Needs root (mounts and loop devices), mkfs.ext4, mkfs.xfs, losetup, and room for the image in the scratch directory.

mod arguments;
mod basic;
mod bed;
mod comparison;
mod data;
mod fsck;
mod gc;
mod holes;
mod hostile;
mod journal;
mod latency;
mod library;
mod machine;
mod measure;
mod memfuse;
mod posix;
mod real;
mod report;
mod serve;
mod tree;
mod workload;

use clap::Parser;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let outcome = match words.as_slice() {
        [_, command, device, dir, options] if command == serve::COMMAND => {
            serve::serve(Path::new(device), Path::new(dir), options)
        }
        [_, command, dir, cache] if command == memfuse::COMMAND => memfuse::serve(Path::new(dir), cache),
        [_, command, image] if command == fsck::CHECK => fsck::check_once(Path::new(image)),
        [_, command, dir, session] if command == gc::GUEST => gc::guest(Path::new(dir), session),
        [_, command, what @ ..] if command == hostile::PARTY => hostile::party(what),
        [_, command, ..] if command == hostile::COMMAND => hostile::compare(&words[1..]),
        [_, command, ..] if command == gc::COMMAND => gc::compare(&words[1..]),
        [_, command, ..] if command == holes::COMMAND => holes::compare(&words[1..]),
        [_, command, ..] if command == fsck::COMMAND => fsck::compare(&words[1..]),
        [_, command, ..] if command == journal::COMMAND => journal::compare(&words[1..]),
        [_, command, ..] if command == real::COMMAND => real::compare(&words[1..]),
        _ => basic::compare(basic::Args::parse()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("steadyfs-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
