//! The shortest workload that still breaks the promise: steps are taken away one by one, then what the set-up no longer
//! needs.

use crate::explore::{Plan, Violation, Volumes, explore_one};
use crate::lang::Workload;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Workloads tried at most.
const TRIALS: usize = 300;

/// A violation of the same rule by a workload of which no single part can be taken away; if the plan's
/// [`Stop`](crate::Stop) is set, the shortest so far.
pub fn minimise(violation: &Violation, plan: &Plan, volumes: &Volumes) -> Violation {
    let mut best = violation.clone();
    let mut trials = TRIALS;
    // A shorter log needs no sampling, so all of the effort goes into it.
    let mut breaks = |workload: &Workload| {
        trials = trials.checked_sub(1).filter(|_| !plan.stop.is_set())?;
        let found = explore_one(workload, plan, volumes).ok()?;
        found.violations.into_iter().find(|other| other.rule == violation.rule)
    };
    loop {
        let before = parts(&best.workload);
        for at in (0..best.workload.steps.len()).rev() {
            let mut shorter = best.workload.clone();
            shorter.steps.remove(at);
            if let Some(found) = breaks(&shorter) {
                best = found;
            }
        }
        for at in (0..best.workload.setup.len()).rev() {
            let mut shorter = best.workload.clone();
            shorter.setup.remove(at);
            if let Some(found) = breaks(&shorter) {
                best = found;
            }
        }
        if parts(&best.workload) == before {
            return best;
        }
    }
}

fn parts(workload: &Workload) -> usize {
    workload.setup.len() + workload.steps.len()
}

/// Writes the workload to a file of its own in a directory, with what it breaks as a comment. The file can be replayed.
///
/// # Errors
/// What the system says.
pub fn save(violation: &Violation, dir: &Path) -> std::io::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    violation.workload.hash(&mut hasher);
    let path = dir.join(format!("{:?}-{:08x}.txt", violation.rule, hasher.finish() as u32).to_lowercase());
    let about = format!("{:?}: {}\n{}", violation.rule, violation.what, violation.crash);
    let comment: String = about.lines().map(|line| format!("# {line}\n")).collect();
    std::fs::create_dir_all(dir)?;
    let text = format!("{comment}{}", violation.workload);
    steadyfs_device::create_file(&path, 0o666)?.write_all(text.as_bytes())?;
    Ok(path)
}
