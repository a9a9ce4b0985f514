//! A power cut below a D2FS volume, and how long the next mount takes with what the device has to say.
//!
//! After a checkpoint the device is pressed to move pages until enough of its records are outstanding: the host follows
//! them, and makes no other that would complete them. Then another device is what this one would be after a power cut,
//! and is mounted. The volume of the run goes on undisturbed.

use super::phases::named;
use crate::error::{Error, Result};
use crate::spec::{Cut, Experiment};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::Fs;
use steadyfs_core::fsck::{CheckOptions, check};
use steadyfs_device::{Device, Migrations};
use steadyfs_flash::EmulatedSsd;
use steadyfs_rt::{now, sleep};

/// Between two times that the device is asked.
const BETWEEN: Duration = Duration::from_micros(500);
/// Askings without effect before the run fails.
const HOPELESS: u32 = 10_000;

/// Figures of the recovery: what was outstanding, when the mount returned, when all records had been applied, and when
/// the device had heard that.
pub(super) fn figures(
    experiment: &Experiment,
    cut: Cut,
    live: &Fs,
    ssd: &Arc<EmulatedSsd>,
    seed: u64,
) -> Result<BTreeMap<String, f64>> {
    live.sync().map_err(Error::core("a checkpoint before the cut"))?;
    let mut in_vain = 0;
    while (ssd.outstanding() as u64) < cut.records {
        let before = ssd.outstanding();
        ssd.press();
        sleep(BETWEEN);
        in_vain = if ssd.outstanding() > before { 0 } else { in_vain + 1 };
        if in_vain > HOPELESS {
            return Err(Error::Check(format!("cut: the device has {before} records outstanding, and no more come")));
        }
    }
    let left = ssd.after_power_cut(seed).ok_or_else(|| Error::Check("cut: the flash is not remembered".into()))?;
    let outstanding = left.outstanding() as f64;
    let mount = experiment.mount_options().map_err(Error::core("volume.mount"))?;
    let began = now();
    let fs = Fs::mount(Arc::clone(&left) as Arc<dyn Device>, mount).map_err(Error::core("mounting after the cut"))?;
    let mounted = began.elapsed();
    // Some may wait that fill no upcall.
    let last = left.deliver();
    while fs.migration_stats().is_some_and(|stats| stats.applied < last) {
        sleep(BETWEEN);
    }
    let applied = began.elapsed();
    while left.outstanding() > 0 {
        fs.sync().map_err(Error::core("a checkpoint after the cut"))?;
        sleep(BETWEEN);
    }
    let completed = began.elapsed();
    let again = fs.migration_stats().map_or(0, |stats| stats.again) as f64;
    fs.unmount().map_err(Error::core("unmounting after the cut"))?;
    drop(fs);
    if experiment.verify {
        let found = check(left, &CheckOptions { leaks: true, ..CheckOptions::default() });
        let found = found.map_err(Error::core("checking the volume after the cut"))?;
        if !found.is_clean() {
            return Err(Error::Check(format!("after the cut the volume has faults: {:?}", found.issues.first())));
        }
    }
    Ok(named([
        ("recovery_records", outstanding),
        ("recovery_again", again),
        ("recovery_mount_ms", mounted.as_secs_f64() * 1e3),
        ("recovery_applied_ms", applied.as_secs_f64() * 1e3),
        ("recovery_completed_ms", completed.as_secs_f64() * 1e3),
    ])
    .collect())
}
