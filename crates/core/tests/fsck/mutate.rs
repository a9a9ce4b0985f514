//! Thousands of volumes with random damage: every check ends, in time, without a panic, in bounded memory.
//!
//! The seed of a case is its number, so a failure names a case that can be run again. Blocks with checksums get right
//! ones most of the time, or damage would never get past them.

use crate::editor::Editor;
use crate::images::{featured, plain, run_with};
use std::time::Duration;
use steadyfs_core::fsck::{CheckOptions, Issue};
use steadyfs_device::{Device, MemDevice, PageBuf};
use steadyfs_format::block::{Block, BlockView};
use steadyfs_format::checkpoint::CheckpointHeader;
use steadyfs_format::inode::Inode;
use steadyfs_format::superblock::RawSuperBlock;
use steadyfs_format::{Lba, Log, Pack, SegNo, SuperBlock};

/// CPU time that no check of so small a volume comes near; a whole one takes a hundredth of it.
const LIMIT: Duration = Duration::from_secs(5);

/// A small generator (SplitMix64); good enough to choose damage.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Blocks worth damaging, by kind.
fn targets(editor: &Editor) -> Vec<Vec<Lba>> {
    let image = editor.image();
    let layout = *image.layout();
    let header = image.checkpoint().header().clone();
    let in_pack = |pack: Pack| (0..u64::from(header.pack_blocks())).map(move |block| layout.pack(pack) + block);
    let written = editor.dev.written_blocks();
    let within =
        |from: Lba, to: Lba| written.iter().copied().map(Lba).filter(|lba| *lba >= from && *lba < to).collect();
    let nodes: Vec<Lba> = (0..layout.max_nid().get())
        .step_by(1)
        .take(3000)
        .filter_map(|nid| image.nat(steadyfs_format::Nid(nid)).ok())
        .map(|entry| entry.lba)
        .filter(|lba| layout.in_main(*lba))
        .collect();
    vec![
        vec![Lba(0), Lba(1)],
        in_pack(image.pack()).chain(in_pack(image.pack().other())).collect(),
        within(layout.sit, layout.nat),
        within(layout.nat, layout.ssa),
        within(layout.ssa, layout.main),
        nodes,
        within(layout.main, layout.main_end()),
        directory_blocks(editor),
    ]
}

/// The valid blocks of the segments where directories lie.
fn directory_blocks(editor: &Editor) -> Vec<Lba> {
    let image = editor.image();
    let sit = image.load_sit().expect("readable");
    let hot = (0..).map(SegNo).zip(&sit).filter(|(_, entry)| entry.log() == Some(Log::HotData));
    let valid = hot.flat_map(|(segno, entry)| (0..512).filter(|at| entry.is_valid(*at)).map(move |at| (segno, at)));
    valid.map(|(segno, at)| image.layout().lba_of(segno, at)).collect()
}

/// A number that means something somewhere.
fn interesting(random: &mut Random) -> u32 {
    let (small, byte) = (random.next() as u32 % 5000, random.next() as u32 % 256);
    *random.of(&[0, 1, 2, 3, 4, small, small, byte, byte, 0x7FFF_FFFF, 0xFFFF_FFFE, u32::MAX, 1 << 20])
}

fn damage(block: &mut Block, random: &mut Random, others: &MemDevice, pool: &[Lba]) {
    match random.below(7) {
        0 => {
            for _ in 0..=random.below(8) {
                let at = random.below(4096);
                block[at] ^= 1 << random.below(8);
            }
        }
        1 => *block = *others.read_one(random.of(pool).get()).expect("in range").to_array(),
        2 => {
            let at = random.below(4096);
            let end = (at + random.below(600)).min(4096);
            let fill = *random.of(&[0, 0xFF, random.0 as u8]);
            block[at..end].fill(fill);
        }
        3 => {
            // Anywhere, also across the fields of structures that are not aligned.
            for _ in 0..=random.below(8) {
                let at = random.below(4095);
                block[at..at + 2].copy_from_slice(&interesting(random).to_le_bytes()[..2]);
            }
        }
        _ => {
            for _ in 0..=random.below(4) {
                let at = random.below(1024) * 4;
                block[at..at + 4].copy_from_slice(&interesting(random).to_le_bytes());
            }
        }
    }
}

/// Makes the checksum of a damaged block right, if it is of a kind that has one.
fn repair_checksum(editor: &Editor, kind: usize, lba: Lba, block: &mut Block, features: &SuperBlock) {
    match kind {
        0 => {
            if let Ok(superblock) = SuperBlock::new(RawSuperBlock::read(block)) {
                superblock.encode_into(block);
            }
        }
        1 => {
            let layout = features.layout();
            let is_header = Pack::BOTH.iter().any(|pack| layout.pack(*pack) == lba);
            let header = CheckpointHeader::view_mut(block);
            if is_header && (192..=4092).contains(&header.checksum_offset()) {
                header.seal();
                // The copy at the end of the pack belongs to it.
                let last = lba.get() + u64::from(header.pack_blocks()).clamp(1, 512) - 1;
                editor.dev.write(last, vec![PageBuf::from_slice(block)]).expect("in range");
            }
        }
        5 => Inode::view_mut(block).update_checksum(features.features(), features.inode_checksum_seed()),
        _ => {}
    }
}

fn mutate(base: &MemDevice, targets: &[Vec<Lba>], superblock: &SuperBlock, seed: u64) -> MemDevice {
    let editor = Editor::new(base.fork());
    let mut random = Random(seed);
    for _ in 0..=random.below(6) {
        let kind = random.below(targets.len());
        let lba = *random.of(&targets[kind]);
        let repair = random.below(8) > 0;
        let mut block = editor.block(lba);
        damage(&mut block, &mut random, base, random_pool(targets, seed));
        if repair {
            repair_checksum(&editor, kind, lba, &mut block, superblock);
        }
        editor.dev.write(lba.get(), vec![PageBuf::from_slice(&block)]).expect("in range");
    }
    editor.dev.fork()
}

/// Blocks that overlays are taken from: of one kind per case.
fn random_pool(targets: &[Vec<Lba>], seed: u64) -> &[Lba] {
    &targets[(seed / 7) as usize % targets.len()]
}

/// CPU time of this thread so far: unlike the clock on the wall it does not depend on what else the machine does.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanos = stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).expect("a number");
    Duration::from_nanos(nanos)
}

/// The largest resident size of this process so far, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("the kernel says");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

fn run_cases(name: &str, base: &MemDevice, cases: std::ops::Range<u64>) {
    let editor = Editor::new(base.fork());
    let (targets, superblock) = (targets(&editor), editor.image().superblock().clone());
    let mut seen = std::collections::BTreeMap::<&str, u32>::new();
    for seed in cases.clone() {
        let dev = mutate(base, &targets, &superblock, seed);
        let begin = cpu_time();
        let threads = 1 + seed as usize % 3;
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run_with(dev, &CheckOptions { threads, max_issues: 500, ..CheckOptions::default() })
        }));
        let report = checked.unwrap_or_else(|_| panic!("{name}: case {seed} panicked"));
        let took = cpu_time() - begin;
        assert!(took < LIMIT, "{name}: case {seed} took {took:?}");
        assert!(report.issues.len() <= 1000);
        report.issues.iter().for_each(|issue| *seen.entry(issue.code()).or_default() += 1);
    }
    println!("{name}: {} cases, {} kinds of issues: {seen:?}", cases.count(), seen.len());
    assert!(seen.len() > Issue::CODES.len() / 2, "the damage reaches most rules: {seen:?}");
    assert!(peak_kib() < 1 << 20, "memory: {} KiB", peak_kib());
}

#[test]
fn damaged_volumes_are_checked_to_the_end() {
    run_cases("plain", &plain(), 0..1500);
}

#[test]
fn damaged_volumes_with_features_are_checked_to_the_end() {
    run_cases("featured", &featured(), 10_000..11_000);
}
