//! Faults planted in the core: each must be found, and soon.

use std::sync::Arc;
use std::time::{Duration, Instant};
use steadyfs_core::mkfs::{self, MkfsOptions};
use steadyfs_core::{Fs, MountOptions, NewInode};
use steadyfs_crash::{Effort, Outcome, Plan, Rule, Volumes, explore, generate, minimise};
use steadyfs_device::{Device, MemDevice};

/// Explores workloads of one operation, then of two, until a promise is broken.
fn hunt(canary: &str) -> (Outcome, Duration) {
    hunt_with("", canary)
}

fn hunt_with(mount: &str, canary: &str) -> (Outcome, Duration) {
    let mount = format!("{mount}canary={canary}");
    let began = Instant::now();
    let workloads = generate::exhaustive(1, &mount, 1).chain(generate::exhaustive(2, &mount, 1).take(2000));
    let plan = Plan { jobs: 2, effort: Effort::USUAL, ..Plan::default() };
    let outcome = explore(workloads, &plan, |sum| sum.violations.is_empty()).expect("the workloads make sense");
    (outcome, began.elapsed())
}

#[track_caller]
fn is_caught(canary: &str, rules: &[Rule]) {
    judge(canary, rules, hunt(canary));
}

#[track_caller]
fn judge(canary: &str, rules: &[Rule], (outcome, time): (Outcome, Duration)) {
    let found = outcome.violations.first().unwrap_or_else(|| panic!("{canary} was not found: {outcome:?}"));
    println!("{canary}: after {} states, {time:?}\n{found}", outcome.states);
    assert!(rules.contains(&found.rule), "{found}");
    assert!(time < Duration::from_secs(60), "{time:?}");
}

#[test]
fn a_skipped_flush_is_caught() {
    is_caught("skip-flush", &[Rule::Legal, Rule::Consistent, Rule::Mounts]);
}

#[test]
fn a_block_used_again_too_early_is_caught() {
    is_caught("early-reuse", &[Rule::Legal, Rule::Consistent]);
}

#[test]
fn a_hole_filled_too_early_is_caught() {
    let hunted = hunt_with("mode=adaptive,ssr=eager,ipu=never,", "early-reuse");
    judge("early-reuse", &[Rule::Legal, Rule::Consistent], hunted);
}

#[test]
fn a_block_discarded_too_early_is_caught() {
    let hunted = hunt_with("discard=blocks,", "early-discard");
    judge("early-discard", &[Rule::Legal, Rule::Consistent, Rule::Mounts], hunted);
}

#[test]
fn a_journal_without_a_record_is_caught() {
    judge("drop-record", &[Rule::Legal, Rule::Consistent], hunt_with("journal=single,", "drop-record"));
}

#[test]
fn a_journal_that_acknowledges_before_the_flush_is_caught() {
    judge("early-ack", &[Rule::Legal], hunt_with("journal=single,", "early-ack"));
}

/// It takes a checkpoint of one writer that an fsync of another comes upon.
#[test]
fn an_fsync_that_does_not_wait_for_the_commit_is_caught() {
    let began = Instant::now();
    let workloads = (0..300).map(|seed| generate::scheduled("journal=single,canary=absorb-early", seed));
    let plan = Plan { jobs: 2, effort: Effort::LIGHT, recovery_every: 0, ..Plan::default() };
    let outcome = explore(workloads, &plan, |sum| sum.violations.is_empty()).expect("the workloads make sense");
    judge("absorb-early", &[Rule::Legal], (outcome, began.elapsed()));
}

#[test]
fn a_journal_that_outlives_its_checkpoint_is_caught() {
    judge("skip-absorb", &[Rule::Consistent, Rule::Mounts, Rule::Legal], hunt_with("journal=single,", "skip-absorb"));
}

#[test]
fn contents_that_nobody_checks_nor_flushes_are_caught() {
    judge("unchecked-contents", &[Rule::Legal, Rule::Consistent], hunt_with("journal=single,", "unchecked-contents"));
}

#[test]
fn a_push_in_two_batches_is_caught() {
    judge("split-batch", &[Rule::Legal, Rule::Consistent], hunt_with("journal=percore,", "split-batch"));
}

#[test]
fn a_journal_that_no_superblock_tells_of_is_caught() {
    judge("mark-forgotten", &[Rule::Legal], hunt_with("journal=single,", "mark-forgotten"));
}

const PROMISED: [u8; 5000] = [7; 5000];

/// The contents that a file has when it gets its first name, after an fsync, a crash, and a mount without the fault.
fn contents_of_a_late_name(options: &str) -> Vec<u8> {
    let dev = Arc::new(MemDevice::new(64 << 8));
    mkfs::format(&*dev, &MkfsOptions::new([0x5f; 16], 1_700_000_000)).expect("a volume");
    let options = MountOptions { background_gc: false, ..MountOptions::parse(options).expect("options") };
    let fs = Fs::mount(Arc::clone(&dev) as Arc<dyn Device>, options).expect("mounts");
    let root = fs.root().expect("a root");
    let file = fs.tmpfile(&root, &NewInode { mode: 0o100_644, ..NewInode::default() }).expect("a file");
    // More than a batch would carry.
    fs.write(&file, 0, &PROMISED).expect("written");
    fs.fsync(&file, false).expect("synced");
    fs.link(&file, &root, b"name").expect("named");
    fs.fsync(&root, false).expect("synced");
    assert_eq!(fs.sync_stats().checkpoints.values().sum::<u64>(), 0, "by the journal");
    let after = Fs::mount(Arc::new(dev.fork()), MountOptions::default()).expect("mounts");
    let found = after.lookup(&after.root().expect("a root"), b"name").expect("the name was promised");
    let mut contents = vec![0; 9000];
    let read = after.read(&found, 0, &mut contents).expect("readable");
    contents.truncate(read);
    contents
}

#[test]
fn an_fsync_before_the_first_name_that_does_nothing_is_caught() {
    assert_eq!(contents_of_a_late_name("journal=percore"), PROMISED);
    assert_ne!(contents_of_a_late_name("journal=percore,canary=nameless-skip"), PROMISED);
}

/// It takes an open file, or one without a name: an fsync of it, and a crash that brings its last name back, or a link.
#[test]
fn an_fsync_of_a_file_without_a_name_that_does_nothing_is_caught() {
    for text in [
        "creat foo\nwrite foo 0 16384\nopen foo\n---\nunlink foo\nwrite @foo 4096 8192\nfsync @foo\n",
        "mkdir A\nopen A\n---\nrmdir A\nfsync @A\n",
        "mount journal=single\n---\ntmpfile new\nwrite @new 0 5000\nfsync @new\nlink @new bar\nfsync .\n",
    ] {
        let sound: steadyfs_crash::Workload = text.parse().expect("parses");
        let mount = [sound.mount.as_str(), "canary=nameless-skip"].join(",");
        let faulty = steadyfs_crash::Workload { mount: mount.trim_start_matches(',').to_owned(), ..sound.clone() };
        let explored = |workload| {
            steadyfs_crash::explore_one(workload, &Plan::default(), &Volumes::default())
                .expect("makes sense")
                .violations
        };
        assert!(explored(&sound).is_empty(), "{text}");
        let found = explored(&faulty);
        assert!(found.first().is_some_and(|violation| violation.rule == Rule::Legal), "{text}: {found:?}");
    }
}

#[test]
fn a_node_without_its_mark_is_caught() {
    is_caught("no-mark", &[Rule::Legal]);
}

#[test]
fn a_node_without_its_mark_is_caught_in_files_that_threads_share() {
    let outcome = steadyfs_crash::torture::torture(0..20, 1000, "canary=no-mark", 2, |_| true).expect("a volume");
    let found = outcome.wrong.first().unwrap_or_else(|| panic!("not found: {outcome:?}"));
    assert_eq!(found.rule, Rule::Legal, "{found:?}");
}

#[test]
fn what_is_found_is_made_short() {
    let mount = "canary=no-mark";
    let workload = "volume 64\nmkdir A\ncreat A/other\n---\ncreat one\nmkdir B\nwrite A/other 0 5000\nsync\nwrite one 0 4096\nfsync one\nunlink A/other\n";
    let mut workload: steadyfs_crash::Workload = workload.parse().expect("parses");
    workload.mount = mount.to_owned();
    let (plan, volumes) = (Plan::default(), Volumes::default());
    let outcome = steadyfs_crash::explore_one(&workload, &plan, &volumes).expect("makes sense");
    let small = minimise(&outcome.violations[0], &plan, &volumes);
    let steps: Vec<String> = small.workload.steps.iter().map(ToString::to_string).collect();
    assert_eq!((small.workload.setup.len(), steps), (0, vec!["creat one".to_owned(), "fsync one".to_owned()]));
}
