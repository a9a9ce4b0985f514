//! Long workloads at random: several writers, each in its directory, with collection and checkpoints in between.

use super::ace::FALLOCS;
use crate::lang::{Falloc, Op, Schedule, Step, Workload};
use crate::model::{Kind, Obj, State};
use crate::rng::Rng;

/// Names that a writer uses in each of its two directories.
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A workload of `steps` steps by `writers` writers (1 to 9), mounted with these options.
pub fn random(writers: u8, steps: usize, mount: &str, seed: u64) -> Workload {
    let mut rng = Rng::new(seed);
    let mut workload = Workload { mount: mount.to_owned(), ..Workload::default() };
    for writer in 1..=writers {
        workload.setup.push(Op::Mkdir { path: format!("w{writer}") });
        workload.setup.push(Op::Mkdir { path: format!("w{writer}/D") });
        workload.setup.push(Op::Creat { path: format!("w{writer}/a") });
        workload.setup.push(Op::Write { path: format!("w{writer}/a"), off: 0, len: 20_000 });
    }
    let base = State::after_setup(&workload);
    let Ok(base) = base else { return workload };
    let mut states = vec![base; usize::from(writers)];
    for number in 0..steps {
        let writer = 1 + rng.below(u64::from(writers)) as u8;
        let state = &mut states[usize::from(writer) - 1];
        for _attempt in 0..50 {
            let waits = super::commits_by_time(mount) && rng.below(12) == 0;
            let op = if waits { super::LONG_ENOUGH } else { op(&mut rng, state, writer) };
            let step = workload.number(number);
            let mut next = state.clone();
            if next.apply(&op, step, 1).is_ok() {
                *state = next;
                workload.steps.push(Step { writer, op });
                break;
            }
        }
    }
    workload
}

/// A random workload in virtual time, all of it decided by one number. It has two to four writers with collection,
/// checkpoints and syncs in between, on one to eight cores. The device may end requests late, or refuse some of its
/// writes, or both. One in four is on a small volume, and one in four on one of larger sections.
pub fn scheduled(mount: &str, seed: u64) -> Workload {
    let mut rng = Rng::new(seed ^ 0x5c4e_d01e);
    let writers = 2 + rng.below(3) as u8;
    let mut workload = random(writers, 12 * usize::from(writers), mount, seed);
    workload.schedule = Some(Schedule { cores: 1 + rng.below(8) as usize, seed });
    workload.late = (rng.below(3) > 0).then_some(seed);
    if rng.below(3) == 0 {
        workload.fail = Some(seed);
        // Such a volume goes on; and what a refused direct write has left is not in the model. Later steps count on the
        // size that it makes.
        workload.mount =
            [mount, "errors=continue"].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",");
        for step in &mut workload.steps {
            if let Op::DirectWrite { path, off, len } = &step.op {
                step.op = Op::Write { path: path.clone(), off: *off, len: *len };
            }
        }
    }
    match rng.below(4) {
        0 => workload.mib = super::SMALLEST_MIB,
        1 => (workload.mib, workload.segs_per_sec) = (96, 2),
        _ => {}
    }
    workload
}

/// Some operation; the model says whether it is possible.
fn op(rng: &mut Rng, state: &State, writer: u8) -> Op {
    let fresh = |rng: &mut Rng| {
        let dir = if rng.below(3) == 0 { "/D" } else { "" };
        format!("w{writer}{dir}/{}", rng.pick(&NAMES))
    };
    let known = |rng: &mut Rng, wanted: fn(&Kind) -> bool| -> String {
        let mut paths = Vec::new();
        let home = format!("w{writer}");
        collect(state, state.find(&home).unwrap_or(0), &home, wanted, &mut paths);
        if paths.is_empty() { format!("w{writer}/none") } else { rng.pick(&paths).clone() }
    };
    let named = |rng: &mut Rng| known(rng, |kind| *kind == Kind::File);
    // One in six by a handle, if there are any.
    let file = |rng: &mut Rng| {
        let open: Vec<String> = if rng.below(6) == 0 { state.handles(writer) } else { Vec::new() };
        if open.is_empty() { named(rng) } else { rng.pick(&open).clone() }
    };
    let any = |rng: &mut Rng| known(rng, |kind| *kind != Kind::Dir);
    let all = |rng: &mut Rng| known(rng, |_| true);
    let off = rng.below(40_000);
    let len = 1 + rng.below(12_000);
    match rng.below(100) {
        0..12 => Op::Creat { path: fresh(rng) },
        12..28 => Op::Write { path: file(rng), off, len },
        28..31 => Op::DirectWrite { path: file(rng), off: off / 4096 * 4096, len: 8192 },
        31..38 => Op::Append { path: file(rng), len },
        38..54 => Op::Fsync { path: file(rng) },
        54..58 => Op::Fdatasync { path: file(rng) },
        58..64 => Op::Rename { from: any(rng), to: fresh(rng) },
        64..66 => Op::Rename { from: all(rng), to: all(rng) },
        66 => Op::Exchange { from: all(rng), to: all(rng) },
        67 => Op::Whiteout { from: any(rng), to: fresh(rng) },
        68..71 => Op::Link { from: if rng.below(3) == 0 { file(rng) } else { any(rng) }, to: fresh(rng) },
        71 => Op::Tmpfile { path: fresh(rng) },
        72 => Op::Symlink { target: "somewhere".into(), path: fresh(rng) },
        73..80 => Op::Unlink { path: any(rng) },
        80..82 => Op::Mkdir { path: fresh(rng) },
        82..84 => Op::Rmdir { path: known(rng, |kind| *kind == Kind::Dir) },
        84..88 => Op::Truncate { path: file(rng), size: off },
        88..90 => Op::Falloc { path: file(rng), mode: *rng.pick(&FALLOCS), off, len },
        90 => {
            let mode = *rng.pick(&[Falloc::Collapse, Falloc::Insert]);
            Op::Falloc { path: file(rng), mode, off: off / 4096 * 4096, len: 4096 }
        }
        91 => match rng.below(4) {
            0 => Op::Chmod { path: all(rng), mode: 0o600 },
            1 => Op::Chown { path: all(rng), uid: 7, gid: off as u32 },
            2 => Op::Utimes { path: file(rng), seconds: 1_000_000 + off as u32 },
            _ => Op::Mkfifo { path: fresh(rng) },
        },
        92 => Op::SetXattr { path: file(rng), name: "user.x".into(), len: len % 300 + 1 },
        93 => Op::Fsync { path: format!("w{writer}") },
        94..96 => Op::Sync,
        96 => Op::Checkpoint,
        97 => Op::Open { path: named(rng) },
        _ => Op::Gc,
    }
}

/// The paths of what is below a directory.
fn collect(state: &State, dir: Obj, path: &str, wanted: fn(&Kind) -> bool, out: &mut Vec<String>) {
    for (name, obj) in state.entries(dir) {
        let path = format!("{path}/{name}");
        let kind = &state.objects[obj].kind;
        if wanted(kind) {
            out.push(path.clone());
        }
        if *kind == Kind::Dir {
            collect(state, obj, &path, wanted, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::timelines;

    #[test]
    fn the_model_allows_what_is_made() {
        for seed in 0..50 {
            let workload = random(1 + (seed % 3) as u8, 40, "", seed);
            assert!(workload.steps.len() > 30);
            timelines(&workload).expect("possible");
            assert_eq!(random(1 + (seed % 3) as u8, 40, "", seed), workload);
        }
        let mut refusing = 0;
        for seed in 0..200 {
            let workload = scheduled("", seed);
            timelines(&workload).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            assert_eq!(scheduled("", seed), workload);
            refusing += usize::from(workload.fail.is_some());
        }
        assert!(refusing > 40, "only {refusing} devices refuse writes");
    }
}
