//! F2FS in mode=lfs on a nearly full volume, beside what greedy collection must move.

use crate::model::{Flash, Memory, greedy, greedy_through_memory};
use std::sync::Arc;
use steadyfs_lab::{Progress, builtin, run_system};

/// `tools/real-f2fs-fill.sh`, with the need of `tools/real-f2fs-need.sh`, has the same from the real F2FS:
/// docs/lab/results/F2FS.md.
#[test]
fn f2fs_moves_what_greedy_collection_with_its_reserve_must() {
    let mut experiment = builtin("f2fs-fill").unwrap();
    for setting in ["workload.io_size=640M", "window=[{name='late',of='jobs',from='384M',to='640M'}]"] {
        experiment.set(setting).unwrap();
    }
    let run = run_system(&experiment, "f2fs-lfs@90", "1".parse().unwrap(), 0, &Arc::new(Progress::default())).unwrap();
    let of = |name: &str| run.record.metrics[name];
    // Of 512 MiB, mkfs makes 248 segments and reserves 28. Four logs hold no file's data. A round of collection ends at
    // the need, and what a checkpoint would write now takes one section.
    let flash = Flash { lines: 248 - 4, line: 512, kept: 28 + 1 };
    let (pages, file) = (|mib: u64| mib * 256, (396.0 * 256.0 * 0.9) as usize);
    // The model fills the file at random, which takes as long as the first part.
    let expected = greedy(&flash, file, &[(pages(2048), pages(3072))])[0];
    let nodes = of("node_blocks") / pages(640) as f64;
    // Each section costs a checkpoint, which writes most of the file's nodes: 0.20 in the real F2FS.
    assert!((0.1..0.29).contains(&nodes), "{nodes} node blocks for each page");
    println!("{nodes} node blocks for each page, {expected} of data by the model");
    let ours = of("late_waf") - nodes;
    assert!((ours / expected - 1.0).abs() < 0.05, "{ours}, and a model has {expected}");
}

/// Through the page cache: pages that are dirty in memory die where they are, and collection that meets them writes
/// them back. docs/lab/results/F2FS.md has the real one beside it.
#[test]
fn dirty_pages_in_memory_save_as_much_as_they_must() {
    let mut experiment = builtin("scalelfs-fig9").unwrap();
    for setting in ["workload.layout=written", "workload.norandommap=true", "volume.cache=14G"] {
        experiment.set(setting).unwrap();
    }
    let scale = "1/32".parse().unwrap();
    let run = run_system(&experiment, "f2fs-lfs", scale, 0, &Arc::new(Progress::default())).unwrap();
    let of = |name: &str| run.record.metrics[name];
    let dirty: Vec<f64> = run.rows.iter().skip(run.rows.len() / 8).map(|row| row.dirty_pages).collect();
    let dirty = dirty.iter().sum::<f64>() / dirty.len() as f64;
    // Of 960 MiB, mkfs makes 470 segments and reserves 38. Four logs hold no file's data.
    let flash = Flash { lines: 470 - 4, line: 512, kept: 38 + 1 };
    let memory = Memory { dirty: dirty as usize, files: 48 };
    let pages = (of("user_mib") * 256.0 * 0.94) as usize;
    let expected = greedy_through_memory(&flash, pages, &memory, of("ios") as u64);
    let ours = of("data_blocks") / of("ios");
    println!("{ours} blocks of data for each page, and {expected} by the model, with {dirty} of {pages} pages dirty");
    // Collection that leaves dirty pages to the flusher makes 2.80 of it.
    assert!((ours / expected - 1.0).abs() < 0.1, "{ours}, and a model has {expected}");
}
