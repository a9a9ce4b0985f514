//! Power cuts where nobody syncs, and the journal's commit by time (`journal.commit=1`) makes names durable: what was
//! named before a wait is there, and no name comes before the contents that it puts in the place of others.

use steadyfs_crash::{Effort, Outcome, Plan, Rule, Volumes, Workload, explore, explore_one, generate};

fn none_broken(outcome: &Outcome) {
    for violation in &outcome.violations {
        eprintln!("{violation}");
    }
    assert_eq!(outcome.violations.len(), 0);
}

/// Ways to put new contents in the place of old ones, and names beside them, without a sync.
const REPLACEMENTS: [&str; 7] = [
    "creat foo\nwrite foo 0 20000\n---\ncreat new\nwrite new 0 30000\nrename new foo\nwait 2\n",
    "creat foo\nwrite foo 0 20000\nmkdir A\n---\ncreat A/new\nwrite A/new 0 30000\nrename A/new foo\nwait 2\nunlink foo\nwait 2\n",
    "creat foo\nwrite foo 0 20000\n---\ncreat new\nwrite new 0 9000\nwait 2\nwrite new 4096 30000\nrename new foo\nwait 2\n",
    "creat foo\nwrite foo 0 20000\n---\ncreat new\nwrite new 0 30000\nexchange new foo\nwait 2\nrename new foo\nwait 2\n",
    "creat foo\nwrite foo 0 20000\n---\ncreat new\nwrite new 0 30000\nfsync new\nwrite new 0 5000\nrename new foo\nwait 2\n",
    "creat foo\nwrite foo 0 20000\ncreat ref\n---\ncreat new\nwrite new 0 9000\nrename new foo\ncreat lock\nwrite lock 0 40\nfsync lock\nrename lock ref\nwait 2\n",
    "creat foo\nwrite foo 0 20000\n---\ntruncate foo 0\nwrite foo 0 30000\ncreat bar\nchmod foo 600\nwait 2\n",
];

/// The options of a mount, with a commit every second.
fn workload(text: &str, options: &str) -> Workload {
    let parsed: Workload = text.parse().expect("parses");
    Workload { mount: format!("{options},journal.commit=1"), ..parsed }
}

#[test]
fn names_are_durable_after_their_time_and_contents_before_them() {
    let plan = Plan { effort: Effort::USUAL, jobs: 2, ..Plan::default() };
    for options in ["journal=single", "journal=percore,mode=adaptive,ssr=eager"] {
        for text in REPLACEMENTS {
            none_broken(&explore_one(&workload(text, options), &plan, &Volumes::default()).expect("makes sense"));
        }
    }
    // Each operation, and a wait as one of the ways to make it durable.
    let short = generate::exhaustive(1, "journal=single,journal.commit=1", 3);
    let waits = short.filter(|workload| workload.steps.iter().any(|step| step.op.to_string().starts_with("wait")));
    let plan = Plan { effort: Effort::PREFIXES, ..plan };
    let outcome = explore(waits, &plan, |_| true).expect("sense");
    none_broken(&outcome);
    assert!(outcome.workloads > 50 && outcome.states > outcome.workloads, "{outcome:?}");
}

/// Several writers, and the commit in the midst of what they do.
#[test]
fn schedules_with_a_commit_every_second_lose_nothing_that_was_promised() {
    let forms = ["journal=single,journal.commit=1", "journal=percore,mode=adaptive,ssr=eager,journal.commit=1"];
    let workloads = (0..8).map(move |seed| generate::scheduled(forms[seed as usize % 2], 40 + seed));
    let plan = Plan { effort: Effort::LIGHT, jobs: 2, recovery_every: 40, ..Plan::default() };
    let outcome = explore(workloads, &plan, |_| true).expect("sense");
    none_broken(&outcome);
    assert!(outcome.states > 20 * outcome.workloads, "{outcome:?}");
}

/// The rule of waits finds a commit that does not come.
#[test]
fn a_commit_that_does_not_come_is_caught() {
    let late = "mount journal=single,journal.commit=60\n---\ncreat foo\nwait 2\n";
    let never: Workload = late.parse().expect("parses");
    let outcome = explore_one(&never, &Plan::default(), &Volumes::default()).expect("makes sense");
    assert!(outcome.violations.is_empty(), "two seconds promise nothing: {:?}", outcome.violations);
    let dropped = workload("creat foo\n---\nrename foo bar\nwait 2\n", "journal=single,canary=drop-record");
    let outcome = explore_one(&dropped, &Plan::default(), &Volumes::default()).expect("makes sense");
    // The name that stays has no link.
    assert!(outcome.violations.iter().any(|violation| violation.rule == Rule::Consistent), "{outcome:?}");
}

#[test]
fn names_before_the_contents_that_they_replace_are_caught() {
    for text in &REPLACEMENTS[..6] {
        // Names before contents, and contents before names without anything that says whether they arrived.
        for canary in ["names-first", "unchecked-contents"] {
            let faulty = workload(text, &format!("journal=single,canary={canary}"));
            let outcome = explore_one(&faulty, &Plan::default(), &Volumes::default()).expect("makes sense");
            let found = outcome.violations.iter().any(|violation| violation.rule == Rule::Legal);
            assert!(found, "{canary}, {text}: {outcome:?}");
        }
    }
}
