//! Workloads that write more than a log of an IPLFS volume may run between two checkpoints, so that the limits of the
//! logs are met and moved on.

use crate::lang::{Op, Schedule, VolumeKind, Workload};
use crate::rng::Rng;

/// Files that are written over and over.
const FILES: u64 = 3;
const STEPS: usize = 12;
/// Most pages of one write; a log runs 512 blocks between two checkpoints.
const MOST_PAGES: u64 = 300;
const PAGE: u64 = 4096;

/// Large writes of one writer with few checkpoints between them, on an IPLFS volume, all decided by the seed.
pub fn leaping(mount: &str, seed: u64) -> Workload {
    let mut rng = Rng::new(seed ^ 0x1EA9);
    let path = |rng: &mut Rng| format!("f{}", rng.below(FILES));
    let mut steps = Vec::new();
    while steps.len() < STEPS {
        let (path, off) = (path(&mut rng), rng.below(16) * PAGE);
        let len = (MOST_PAGES / 2 + rng.below(MOST_PAGES / 2)) * PAGE;
        steps.push(match rng.below(16) {
            0..6 => Op::Write { path, off, len },
            6..8 => Op::DirectWrite { path, off, len },
            8..12 => Op::Fsync { path },
            12 => Op::Truncate { path, size: off },
            13 => Op::Falloc { path, mode: crate::lang::Falloc::Punch, off, len },
            14 => Op::Checkpoint,
            _ => Op::Sync,
        });
    }
    let setup = (0..FILES).map(|number| Op::Creat { path: format!("f{number}") }).collect();
    let late = (rng.below(2) == 0).then_some(seed);
    let schedule = late.map(|_| Schedule { cores: 1 + rng.below(4) as usize, seed });
    let workload = Workload::new(setup, steps);
    Workload { kind: VolumeKind::Iplfs, mount: mount.to_owned(), late, schedule, ..workload }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::timelines;

    #[test]
    fn the_model_allows_what_is_made() {
        for seed in 0..50 {
            timelines(&leaping("", seed)).expect("possible");
            assert_eq!(leaping("", seed), leaping("", seed));
        }
    }
}
