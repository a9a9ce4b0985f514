//! Workloads with a journal and files that have no name: made so, or opened and removed. Their contents are synced, and
//! named by batches, and promises of other files come behind them; some get a name in the end.
//!
//! The log of data stands near the end of its segment, so what is synced lies where a recovery would write.

use crate::lang::{Op, Workload};
use crate::model::State;
use crate::rng::Rng;

/// Names in the root and in its directory `A`.
const NAMES: [&str; 6] = ["a", "b", "c", "A/a", "A/b", "A/c"];
/// Files without a name, by the paths of their handles.
const HANDLES: [&str; 3] = ["@A/t", "@u", "@old"];
const STEPS: usize = 20;
const PAGE: u64 = 4096;

/// Such a workload of one writer, all decided by the seed.
pub fn nameless(mount: &str, seed: u64) -> Workload {
    let mut rng = Rng::new(seed ^ 0x0E3E);
    let path = |text: &str| text.to_owned();
    let setup = vec![
        Op::Mkdir { path: path("A") },
        Op::Creat { path: path("old") },
        Op::Write { path: path("old"), off: 0, len: 20_000 },
        Op::Creat { path: path("fill") },
        Op::DirectWrite { path: path("fill"), off: 0, len: (470 + rng.below(38)) * PAGE },
        Op::Unlink { path: path("fill") },
    ];
    let mut workload = Workload { mount: mount.to_owned(), ..Workload::new(setup, []) };
    let Ok(mut state) = State::after_setup(&workload) else { return workload };
    let made = [
        Op::Tmpfile { path: path("A/t") },
        Op::Tmpfile { path: path("u") },
        Op::Open { path: path("old") },
        Op::Checkpoint,
        Op::Unlink { path: path("old") },
    ];
    let begun = Workload::new(Vec::new(), made).steps;
    let attempts =
        begun.into_iter().map(|step| step.op).chain(std::iter::repeat_with(|| op(&mut rng)).take(50 * STEPS));
    for op in attempts {
        let mut next = state.clone();
        if workload.steps.len() < STEPS && next.apply(&op, workload.number(workload.steps.len()), 1).is_ok() {
            state = next;
            workload.steps.extend(Workload::new(Vec::new(), [op]).steps);
        }
    }
    workload
}

/// Some operation; the model says whether it is possible.
fn op(rng: &mut Rng) -> Op {
    let handle = |rng: &mut Rng| (*rng.pick(&HANDLES)).to_owned();
    let name = |rng: &mut Rng| (*rng.pick(&NAMES)).to_owned();
    let (off, len) = (rng.below(40_000), 1 + rng.below(12_000));
    match rng.below(20) {
        0..5 => Op::Write { path: handle(rng), off, len },
        5 => Op::Append { path: handle(rng), len },
        6..11 => Op::Fsync { path: handle(rng) },
        11 => Op::Fdatasync { path: handle(rng) },
        12 => Op::Link { from: handle(rng), to: name(rng) },
        13 => Op::Unlink { path: name(rng) },
        14 => Op::Creat { path: name(rng) },
        15 => Op::Mkdir { path: name(rng) },
        16 => Op::Write { path: name(rng), off: 0, len: len % 3000 },
        17 => Op::Fsync { path: name(rng) },
        _ => Op::Fsync { path: "A".into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::timelines;

    #[test]
    fn the_model_allows_what_is_made() {
        for seed in 0..50 {
            let workload = nameless("journal=single", seed);
            assert_eq!(workload.steps.len(), STEPS);
            timelines(&workload).expect("possible");
            assert_eq!(nameless("journal=single", seed), workload);
        }
    }
}
