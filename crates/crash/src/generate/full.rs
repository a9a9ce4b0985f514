//! Workloads on volumes that are nearly full, in which files replace others in directories that are full, too.
//!
//! Recovery repeats no removal, so it needs more room than there ever was in use: whether it has that room is what
//! these are for.

use crate::lang::{Op, Schedule, Step, Workload};
use crate::model::{Kind, State};
use crate::rng::Rng;

/// Most blocks that are left free.
const MOST_FREE: u64 = 40;
/// So long that seven of them fill an inline directory, and eight a block of entries.
const NAME: usize = 200;
/// Names that a writer uses in each of its directories, and how many of them there are at first.
const NAMES: u64 = 12;
const AT_FIRST: u64 = 7;
/// Directories of each writer. Each of them may need a block in a recovery.
const DIRS: u64 = 3;
const STEPS: usize = 20;

/// The same workload on a volume that is nearly full; how full is decided by the seed.
pub fn filled(workload: Workload, seed: u64) -> Workload {
    let mut rng = Rng::new(seed ^ 0xF011);
    // Half of them with room for a few blocks only.
    let most = if rng.below(2) == 0 { MOST_FREE / 5 } else { MOST_FREE };
    Workload { free: Some(rng.below(most + 1) as u32), ..workload }
}

/// One or two writers that replace files by others and fsync them, on a volume that is nearly full; all decided by the
/// seed.
pub fn nearly_full(mount: &str, seed: u64) -> Workload {
    let mut rng = Rng::new(seed ^ 0x0BA1_1A57);
    let writers = 1 + rng.below(2) as u8;
    let mut workload = Workload { mount: mount.to_owned(), ..Workload::default() };
    for writer in 1..=writers {
        workload.setup.push(Op::Mkdir { path: format!("w{writer}") });
        for dir in 0..DIRS {
            workload.setup.push(Op::Mkdir { path: format!("w{writer}/{dir}") });
            workload.setup.extend((0..AT_FIRST).map(|number| Op::Creat { path: path(writer, dir, number) }));
        }
    }
    let workload = filled(workload, seed);
    let late = (rng.below(3) == 0).then_some(seed);
    let schedule = (late.is_some() || writers > 1).then(|| Schedule { cores: 1 + rng.below(4) as usize, seed });
    Workload { steps: steps(&mut rng, &workload, writers), late, schedule, ..workload }
}

fn path(writer: u8, dir: u64, number: u64) -> String {
    format!("w{writer}/{dir}/{number:x<NAME$}")
}

fn steps(rng: &mut Rng, workload: &Workload, writers: u8) -> Vec<Step> {
    let mut steps = Vec::new();
    let Ok(base) = State::after_setup(workload) else { return steps };
    let mut states = vec![base; usize::from(writers)];
    while steps.len() < STEPS * usize::from(writers) {
        let writer = 1 + rng.below(u64::from(writers)) as u8;
        let state = &mut states[usize::from(writer) - 1];
        for op in ops(rng, state, writer) {
            let mut next = state.clone();
            if next.apply(&op, 0, 1).is_ok() {
                *state = next;
                steps.push(Step { writer, op });
            }
        }
    }
    steps
}

/// Some operations, in one directory; the model says whether they are possible.
fn ops(rng: &mut Rng, state: &State, writer: u8) -> Vec<Op> {
    let dir = rng.below(DIRS);
    let fresh = |rng: &mut Rng| path(writer, dir, rng.below(NAMES));
    let known = |rng: &mut Rng| {
        let is_file = |path: &String| state.find(path).is_some_and(|obj| state.objects[obj].kind == Kind::File);
        let files: Vec<String> = (0..NAMES).map(|number| path(writer, dir, number)).filter(is_file).collect();
        if files.is_empty() { path(writer, dir, 0) } else { rng.pick(&files).clone() }
    };
    let (off, len) = (rng.below(8000), 1 + rng.below(8000));
    vec![match rng.below(100) {
        0..50 => {
            let new = fresh(rng);
            let write = Op::Write { path: new.clone(), off: 0, len };
            let content = (rng.below(2) == 0).then_some(write);
            let mut replace = vec![Op::Unlink { path: known(rng) }, Op::Creat { path: new.clone() }];
            replace.extend(content.into_iter().chain([Op::Fsync { path: new }]));
            return replace;
        }
        50..54 => Op::Unlink { path: known(rng) },
        54..60 => Op::Creat { path: fresh(rng) },
        60..68 => Op::Write { path: known(rng), off, len },
        68..72 => Op::Append { path: known(rng), len },
        72..82 => Op::Fsync { path: known(rng) },
        82..84 => Op::Fdatasync { path: known(rng) },
        84..88 => Op::Rename { from: known(rng), to: fresh(rng) },
        88..90 => Op::Link { from: known(rng), to: fresh(rng) },
        90..93 => Op::Truncate { path: known(rng), size: off },
        93..95 => Op::SetXattr { path: known(rng), name: "user.x".into(), len: len % 300 + 1 },
        95..97 => Op::Mkdir { path: fresh(rng) },
        97 => Op::Sync,
        98 => Op::Checkpoint,
        _ => Op::Gc,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::timelines;

    #[test]
    fn the_model_allows_what_is_made() {
        for seed in 0..50 {
            let workload = nearly_full("", seed);
            assert!(workload.free.is_some_and(|free| u64::from(free) <= MOST_FREE));
            timelines(&workload).expect("possible");
            assert_eq!(nearly_full("", seed), workload);
        }
    }
}
