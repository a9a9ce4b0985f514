//! Our generator against fio itself: both do the same job, fio writes down what it did, and the two are compared.
//!
//! Exact: counts, the blocks of each pass, which passes repeat which, syncs, passes of sequential mixes. By statistics,
//! with fixed seeds on both sides: distributions of offsets. Needs the program fio.

use super::{FileLayout, Fio, Io, Job, Kind};
use std::collections::BTreeMap;
use std::process::Command;

/// What was done, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Read(u64),
    Write(u64),
    Sync,
    DataSync,
}

impl Step {
    fn block(self) -> Option<u64> {
        match self {
            Step::Read(block) | Step::Write(block) => Some(block),
            Step::Sync | Step::DataSync => None,
        }
    }
}

/// The same job done by both: fio's options as `KEY=VALUE`.
struct Both {
    theirs: Vec<Step>,
    ours: Vec<Step>,
}

fn both(options: &str, size: &str) -> Both {
    Both { theirs: theirs(options, size), ours: ours(options, size) }
}

fn theirs(options: &str, size: &str) -> Vec<Step> {
    let dir = tempfile::tempdir().unwrap();
    let bs = block_size(options);
    let out = Command::new("fio")
        .args(["--name=j", "--filename=f", "--ioengine=psync", "--allow_file_create=1", "--write_iolog=log"])
        .arg(format!("--size={size}"))
        // A seed of one's own is what makes fio's passes differ, and still every run the same; randrepeat=0 alone takes
        // one from the clock.
        .args(options.replace("randrepeat=0", "randseed=4711").split_whitespace().map(|option| format!("--{option}")))
        .current_dir(&dir)
        .output()
        .expect("fio starts (the Debian package fio; see tools/apt-deps.sh)");
    assert!(out.status.success(), "fio {options}: {}", String::from_utf8_lossy(&out.stderr));
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    let mut lines = log.lines();
    assert_eq!(lines.next(), Some("fio version 3 iolog"));
    let step = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let block = || fields[3].parse::<u64>().unwrap() / bs;
        match fields[2] {
            "read" => Some(Step::Read(block())),
            "write" => Some(Step::Write(block())),
            "sync" => Some(Step::Sync),
            "datasync" => Some(Step::DataSync),
            "add" | "open" | "close" => None,
            other => panic!("fio did {other}"),
        }
    };
    once(lines.filter_map(step).collect())
}

/// Where a pass ends with a write that a sync is due after, fio syncs at its end and again before the next: with
/// nothing in between that is one.
fn once(mut steps: Vec<Step>) -> Vec<Step> {
    steps.dedup_by(|a, b| a == b && a.block().is_none());
    steps
}

fn block_size(options: &str) -> u64 {
    let bs = options.split_whitespace().find_map(|option| option.strip_prefix("bs="));
    bs.map_or(4096, |bs| bs.strip_suffix('k').unwrap().parse::<u64>().unwrap() * 1024)
}

/// The options as an experiment would have them.
fn ours(options: &str, size: &str) -> Vec<Step> {
    let mut text = format!("size = '{size}'\n");
    for option in options.split_whitespace() {
        let (key, value) = option.split_once('=').unwrap();
        let flag = matches!(key, "norandommap" | "randrepeat" | "end_fsync");
        text += &match value {
            "0" | "1" if flag => format!("{key} = {}\n", value == "1"),
            _ if value.parse::<u32>().is_ok() => format!("{key} = {value}\n"),
            _ => format!("{key} = '{value}'\n"),
        };
    }
    let fio: Fio = toml::from_str(&text).unwrap();
    let (mut job, pages) = (Job::new(&fio, 0, 4711), fio.pages_per_io());
    let mut out = Vec::new();
    while let Some(Io { kind, page, pages: content, sync_first, sync }) = job.next() {
        assert_eq!(content.len() as u64, if kind == Kind::Write { pages } else { 0 });
        assert_eq!(page % pages, 0);
        out.extend(sync_first.then_some(Step::Sync));
        out.push(if kind == Kind::Read { Step::Read(page / pages) } else { Step::Write(page / pages) });
        out.extend(sync.map(|data_only| if data_only { Step::DataSync } else { Step::Sync }));
    }
    // What the job's task does in the end (`jobs::one`).
    out.extend(fio.end_fsync.then_some(Step::Sync));
    once(out)
}

fn blocks(steps: &[Step]) -> Vec<u64> {
    steps.iter().filter_map(|step| step.block()).collect()
}

fn sorted(blocks: &[u64]) -> Vec<u64> {
    let mut blocks = blocks.to_vec();
    blocks.sort_unstable();
    blocks
}

fn reads(steps: &[Step]) -> usize {
    steps.iter().filter(|step| matches!(step, Step::Read(_))).count()
}

/// Sum of (seen - expected)^2 / expected over cells that are equally likely, as a number of standard deviations from
/// what chance gives.
fn chi_square(blocks: impl Iterator<Item = u64>, cells: usize, of: u64) -> f64 {
    let mut counts = vec![0f64; cells];
    blocks.for_each(|block| counts[(u128::from(block) * cells as u128 / u128::from(of)) as usize] += 1.0);
    let expected = counts.iter().sum::<f64>() / cells as f64;
    let sum: f64 = counts.iter().map(|seen| (seen - expected).powi(2) / expected).sum();
    let freedom = cells as f64 - 1.0;
    (sum - freedom) / (2.0 * freedom).sqrt()
}

/// How often each block came, most often first.
fn ranks(steps: &[Step]) -> Vec<u64> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    blocks(steps).into_iter().for_each(|block| *counts.entry(block).or_default() += 1);
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

#[test]
fn sequential_jobs_are_the_same_step_for_step() {
    for (options, size) in [
        ("rw=write", "1m"),
        ("rw=read bs=16k", "1m"),
        ("rw=write io_size=2500k fsync=8 fdatasync=3", "1m"),
        ("rw=write bs=64k io_size=130k", "1m"),
        ("rw=write", "10000"),
        ("rw=write io_size=200k fsync=7 end_fsync=1", "64k"),
    ] {
        let Both { theirs, ours } = both(options, size);
        let differs = theirs.iter().zip(&ours).position(|(theirs, ours)| theirs != ours);
        assert!(theirs == ours, "{options} size={size}: {} and {} steps, from {differs:?}", theirs.len(), ours.len());
    }
}

#[test]
fn sequential_mixes_read_and_write_at_a_place_of_their_own() {
    for options in ["rw=rw io_size=8m rwmixread=30", "rw=rw io_size=8m", "rw=rw"] {
        let Both { theirs, ours } = both(options, "1m");
        assert_eq!(blocks(&theirs).len(), blocks(&ours).len(), "{options}");
        for (who, steps) in [("fio", &theirs), ("ours", &ours)] {
            // Each place goes on by one, or both go back to the beginning because one has come to the end.
            let mut next = [0, 0];
            for step in steps {
                let lane = usize::from(matches!(step, Step::Write(_)));
                let block = step.block().unwrap();
                if block != next[lane] {
                    assert!(block == 0 && next.contains(&256), "{who}, {options}: {step:?} after {next:?}");
                    next = [0, 0];
                }
                next[lane] += 1;
            }
        }
        let share = |steps: &[Step]| reads(steps) as f64 / blocks(steps).len() as f64;
        assert!((share(&theirs) - share(&ours)).abs() < 0.08, "{options}: {} {}", share(&theirs), share(&ours));
    }
}

#[test]
fn random_passes_cover_every_block_once_and_repeat_as_fio_does() {
    for options in ["rw=randwrite", "rw=randread bs=16k", "rw=randrw rwmixread=20", "rw=randwrite randrepeat=0"] {
        for generator in ["tausworthe", "lfsr"] {
            let Both { theirs, ours } = both(&format!("{options} random_generator={generator} io_size=24m"), "8m");
            let per_pass = (8 << 20) / block_size(options);
            assert_eq!(theirs.len(), ours.len(), "{options}");
            let passes =
                |steps: &[Step]| -> Vec<Vec<Step>> { steps.chunks(per_pass as usize).map(<[Step]>::to_vec).collect() };
            for (who, passes) in [("fio", passes(&theirs)), ("ours", passes(&ours))] {
                assert_eq!(passes.len(), 3, "{who}, {options}");
                for pass in &passes {
                    assert!(sorted(&blocks(pass)).into_iter().eq(0..per_pass), "{who}, {options}, {generator}");
                }
                // A register begins every pass alike in any case.
                let repeats = generator == "lfsr" || !options.contains("randrepeat=0");
                assert_eq!(passes[0] == passes[1] && passes[1] == passes[2], repeats, "{who}, {options}, {generator}");
            }
        }
    }
}

#[test]
fn the_order_of_a_random_pass_is_random() {
    let Both { theirs, ours } = both("rw=randwrite", "64m");
    for (who, steps) in [("fio", theirs), ("ours", ours)] {
        let order = blocks(&steps);
        for part in [0..2048, 4096..6144, 10_000..12_048] {
            let off = chi_square(order[part.clone()].iter().copied(), 32, 16384);
            assert!(off.abs() < 4.0, "{who}, {part:?}: {off} standard deviations");
        }
        // Neighbours one after the other: about one per pass by chance, a few more where the map is nearly full.
        let neighbours = order.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert!(neighbours < 100, "{who}: {neighbours}");
    }
}

#[test]
fn without_a_map_blocks_are_equally_likely_and_no_pass_repeats() {
    let Both { theirs, ours } = both("rw=randwrite norandommap=1 io_size=160m", "16m");
    assert_eq!(theirs.len(), ours.len());
    for (who, steps) in [("fio", theirs), ("ours", ours)] {
        let off = chi_square(blocks(&steps).into_iter(), 512, 4096);
        assert!(off.abs() < 4.0, "{who}: {off} standard deviations");
        assert_ne!(steps[..4096], steps[4096..8192], "{who}: the second pass repeats the first");
        let distinct = ranks(&steps[..4096]).len();
        assert!((2500..2680).contains(&distinct), "{who}: {distinct} of 4096 in as many draws, 2589 expected");
    }
}

#[test]
fn zipf_has_the_same_head_and_the_same_mean() {
    for theta in ["0.8", "1.1", "1.4"] {
        let Both { theirs, ours } = both(&format!("rw=randread random_distribution=zipf:{theta} io_size=320m"), "16m");
        assert_eq!(theirs.len(), ours.len());
        let total = theirs.len() as f64;
        let (theirs, ours) = (ranks(&theirs), ranks(&ours));
        for (top, off) in [(1, 0.05), (10, 0.03), (100, 0.02), (1000, 0.02)] {
            let share = |ranks: &[u64]| ranks.iter().take(top).sum::<u64>() as f64 / total;
            let (theirs, ours) = (share(&theirs), share(&ours));
            assert!((theirs / ours - 1.0).abs() < off, "zipf:{theta}, first {top}: fio {theirs}, ours {ours}");
        }
        let mean = |ranks: &[u64]| ranks.iter().zip(1..).map(|(n, rank)| (n * rank) as f64).sum::<f64>() / total;
        assert!((mean(&theirs) / mean(&ours) - 1.0).abs() < 0.05, "zipf:{theta}: {} {}", mean(&theirs), mean(&ours));
        assert!((theirs.len() as f64 / ours.len() as f64 - 1.0).abs() < 0.05, "zipf:{theta}: distinct blocks");
    }
}

#[test]
fn shares_of_reads_are_those_asked_for() {
    for percent in [0, 20, 50, 95, 100] {
        let Both { theirs, ours } = both(&format!("rw=randrw rwmixread={percent}"), "40m");
        assert_eq!(theirs.len(), ours.len());
        for (who, steps) in [("fio", theirs), ("ours", ours)] {
            let (n, p) = (steps.len() as f64, f64::from(percent) / 100.0);
            let off = (reads(&steps) as f64 - n * p).abs();
            assert!(off <= 4.0 * (n * p * (1.0 - p)).sqrt(), "{who}, {percent} %: {} of {n}", reads(&steps));
        }
    }
}

#[test]
fn syncs_come_as_often_and_after_the_same_writes() {
    for options in ["fsync=8", "fsync=8 fdatasync=3", "fdatasync=5 io_size=5m", "fsync=256 end_fsync=1 io_size=3m"] {
        let Both { theirs, ours } = both(&format!("rw=randwrite {options}"), "1m");
        let syncs = |steps: &[Step]| -> Vec<(usize, Step)> {
            let mut writes = 0;
            let note = steps.iter().filter_map(|step| {
                writes += usize::from(matches!(step, Step::Write(_)));
                step.block().is_none().then_some((writes, *step))
            });
            note.collect()
        };
        let (theirs, ours) = (syncs(&theirs), syncs(&ours));
        let differs = theirs.iter().zip(&ours).find(|(theirs, ours)| theirs != ours);
        assert!(theirs == ours, "{options}: {} and {}, {differs:?}", theirs.len(), ours.len());
    }
}

/// fio 3.33 syncs again after each read that comes before the next write. It has done nothing in between, and its
/// documentation and later versions do not say so: ours syncs once. Those that follow a write are as many.
#[test]
fn syncs_of_mixes_follow_their_writes() {
    let Both { theirs, ours } = both("rw=randrw fsync=8 rwmixread=30", "8m");
    let after_writes =
        |steps: &[Step]| steps.windows(2).filter(|pair| matches!(pair, [Step::Write(_), Step::Sync])).count();
    let all = |steps: &[Step]| steps.iter().filter(|step| **step == Step::Sync).count();
    for (who, steps) in [("fio", &theirs), ("ours", &ours)] {
        let due = (blocks(steps).len() - reads(steps)) / 8;
        assert!(due - after_writes(steps) <= 1, "{who}: {due} due, {}", after_writes(steps));
    }
    assert_eq!(all(&ours), after_writes(&ours));
    assert!(all(&theirs) >= after_writes(&theirs));
}

/// What fio leaves of a file of which a job does a 64th: all of it if it has been laid out.
#[test]
fn files_are_written_before_jobs_that_read_and_no_others() {
    for (rw, written) in [("randwrite", false), ("write", false), ("randrw", true), ("randread", true)] {
        let dir = tempfile::tempdir().unwrap();
        let out = Command::new("fio")
            .args(["--name=j", "--filename=f", "--ioengine=psync", "--fallocate=none", "--size=16m", "--io_size=256k"])
            .arg(format!("--rw={rw}"))
            .current_dir(&dir)
            .output()
            .expect("fio starts (the Debian package fio; see tools/apt-deps.sh)");
        assert!(out.status.success(), "fio {rw}: {}", String::from_utf8_lossy(&out.stderr));
        let blocks = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(dir.path().join("f")).unwrap());
        assert_eq!(blocks * 512 >= 16 << 20, written, "{rw}: {blocks} sectors");
        let ours: Fio = toml::from_str(&format!("rw = '{rw}'\nsize = '16M'")).unwrap();
        assert_eq!(ours.layout() == FileLayout::Written, written, "{rw}");
    }
}
