//! The checker on bad volumes. Input: the number of a base, then changes.

use super::{VOLUME_MEMORY, Volume, seeds};
use crate::Target;
use crate::input::Input;
use steadyfs_core::fsck::{CheckOptions, check};

/// The target.
pub const TARGET: Target = Target { name: "fsck", run, seeds, volume: true, memory: VOLUME_MEMORY };

fn run(bytes: &[u8]) {
    let Volume { device, changed, .. } = Volume::read(&mut Input::new(bytes));
    // One thread: the order of visits is the same in every run.
    let options = CheckOptions { threads: 1, max_issues: 1000, ..CheckOptions::default() };
    let report = check(device, &options).expect("memory can be read");
    assert!(report.issues.len() <= 1000);
    let text: usize = report.issues.iter().map(|issue| issue.to_string().len()).sum();
    assert!(!changed.is_empty() || text == 0 || report.checked.is_some(), "a sound volume can be checked");
}
