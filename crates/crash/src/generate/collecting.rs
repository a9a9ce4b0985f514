//! Workloads on volumes so full that collectors are at work before the power cuts and between them, with their streams
//! open.

use crate::lang::{Falloc, Op, Schedule, Step, Workload};
use crate::rng::Rng;

/// Each writer's file, in bytes, and how much of it is overwritten before the exploration begins: enough to use up what
/// the volume has free.
const FILE: u64 = 9 << 20;
const OVERWRITTEN: u64 = 12 << 20;
const PIECE: u64 = 64 << 10;
const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// Two writers that overwrite files which take most of a small volume, with two to five collectors; all decided by the
/// seed. Every second device ends requests late, and one of four refuses some writes.
pub fn collecting(mount: &str, seed: u64) -> Workload {
    let mut rng = Rng::new(seed ^ 0xC011_EC70);
    let fails = rng.below(4) == 0;
    let collectors = 2 + rng.below(4);
    let options = [format!("gc=scalelfs,gc.collectors={collectors},cache=1M"), mount.to_owned()];
    let mut options: Vec<String> = options.into_iter().filter(|part| !part.is_empty()).collect();
    if fails {
        options.push("errors=continue".to_owned());
    }
    let mut workload = Workload {
        mib: 80,
        mount: options.join(","),
        schedule: Some(Schedule { cores: 1 + rng.below(8) as usize, seed }),
        late: (fails || rng.below(2) == 0).then_some(seed),
        fail: fails.then_some(seed),
        ..Workload::default()
    };
    let path = |writer: u64| format!("w{writer}/big");
    for writer in 1..=2 {
        workload.setup.push(Op::Mkdir { path: format!("w{writer}") });
        workload.setup.push(Op::Creat { path: path(writer) });
    }
    for off in (0..FILE).step_by(MIB as usize) {
        workload.setup.extend((1..=2).map(|writer| Op::Write { path: path(writer), off, len: MIB }));
    }
    for _ in 0..OVERWRITTEN / PIECE {
        let off = |rng: &mut Rng| rng.below((FILE - PIECE) / PAGE) * PAGE;
        workload.setup.extend((1..=2).map(|writer| Op::Write { path: path(writer), off: off(&mut rng), len: PIECE }));
    }
    for _ in 0..48 {
        let writer = 1 + rng.below(2);
        let (path, off) = (path(writer), rng.below(FILE / PAGE - 128) * PAGE);
        let len = (1 + rng.below(128)) * PAGE;
        let op = match rng.below(16) {
            0..8 => Op::Write { path, off, len },
            8..11 if !fails => Op::DirectWrite { path, off, len },
            8..12 => Op::Fsync { path },
            12 => Op::Fdatasync { path },
            13 => Op::Falloc { path, mode: Falloc::Punch, off, len: len.min(PIECE) },
            14 => Op::Write { path, off: off + 100, len: 5000 },
            _ => Op::Sync,
        };
        workload.steps.push(Step { writer: writer as u8, op });
    }
    workload
}
