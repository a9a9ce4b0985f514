//! Results as files: what is written is read back the same, the page needs nothing else, comparisons compare.

use steadyfs_lab::{Experiment, Run, Scale, Verdict, builtin, compare, load, page, run_seeds, save, sweep_tables};

fn quick() -> Experiment {
    let mut smoke = builtin("smoke").unwrap();
    for setting in ["workload.io_size=8M", "workload.numjobs=4", "interval=0.002", "verify=false"] {
        smoke.set(setting).unwrap();
    }
    smoke
}

fn runs(experiment: &Experiment, seeds: &[u64], jobs: usize) -> Vec<Run> {
    run_seeds(experiment, Scale::FULL, seeds, jobs, |_| ()).unwrap()
}

#[test]
fn files_are_the_same_for_the_same_experiment_and_are_read_back() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let experiment = quick();
    // Side by side on several threads, and one after the other.
    let side_by_side = runs(&experiment, &[0, 1, 5], 3);
    save(first.path(), &side_by_side).unwrap();
    save(second.path(), &runs(&experiment, &[0], 1)).unwrap();
    save(second.path(), &runs(&experiment, &[1, 5], 1)).unwrap();
    for name in ["runs.jsonl", "smoke-1-seed0.csv", "smoke-1-seed1.csv", "smoke-1-seed5.csv"] {
        let read = |dir: &tempfile::TempDir| std::fs::read(dir.path().join(name)).unwrap();
        assert!(read(&first) == read(&second) && !read(&first).is_empty(), "{name} differs");
    }
    let batches = load(first.path()).unwrap();
    assert_eq!((batches.len(), batches[0].runs.len()), (1, 3));
    let records = |runs: &[Run]| runs.iter().map(|run| run.record.clone()).collect::<Vec<_>>();
    assert_eq!(records(&batches[0].runs), records(&side_by_side));
    assert_eq!(batches[0].experiment, experiment);
    // A run that is done again replaces the old one.
    save(first.path(), &side_by_side[..1]).unwrap();
    assert_eq!(load(first.path()).unwrap()[0].runs.len(), 3);
}

#[test]
fn the_page_stands_alone_and_says_what_came_of_it() {
    let mut experiment = quick();
    experiment.title = "less < more & \"quoted\"".into();
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), &runs(&experiment, &[0, 1], 2)).unwrap();
    let html = std::fs::read_to_string(dir.path().join("index.html")).unwrap();
    assert_eq!(html, page(&load(dir.path()).unwrap()));
    for outside in ["http:", "https:", "<script", " src=", "@import", "url("] {
        assert!(!html.contains(outside), "the page refers to {outside}");
    }
    for part in ["less &lt; more &amp; &quot;quoted&quot;", "<svg", "<polyline", "name=\"viewport\"", "does not hold"] {
        assert!(html.contains(part), "no {part}");
    }
    for tag in ["section", "table", "details", "svg", "ul", "h2", "h3", "p", "div", "span"] {
        let (open, close) = (html.matches(&format!("<{tag}")).count(), html.matches(&format!("</{tag}>")).count());
        // Tags that others begin with are counted with them.
        let longer = if tag == "p" {
            ["<pre", "<polyline", "<path"].map(|tag| html.matches(tag).count()).iter().sum()
        } else {
            0
        };
        assert_eq!(open - longer, close, "{tag}");
    }
}

#[test]
fn comparisons_tell_a_change_from_the_spread_of_seeds() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let experiment = quick();
    save(a.path(), &runs(&experiment, &[0, 1], 2)).unwrap();
    let mut slower = experiment.clone();
    slower.set("machine.costs.page_copy=40000").unwrap();
    save(b.path(), &runs(&slower, &[0, 1], 2)).unwrap();
    let (a, b) = (load(a.path()).unwrap(), load(b.path()).unwrap());
    assert!(compare(&a, &a).iter().all(|figure| figure.change == 0.0 && figure.differs() == Some(false)));
    let figures = compare(&a, &b);
    let seconds = figures.iter().find(|figure| figure.metric == "seconds").unwrap();
    assert!(seconds.change > 1.0 && seconds.differs() == Some(true), "{seconds:?}");
    assert!(figures.iter().any(|figure| figure.metric == "ios" && figure.differs() == Some(false)));
    // Of a set with one seed nothing is said, however far it is off.
    let mut one = b;
    one[0].runs.truncate(1);
    assert!(compare(&a, &one).iter().all(|figure| figure.differs().is_none()));
}

/// Two seeds of one set and two of another of the same system: further apart than either among themselves, which is no
/// significance.
#[test]
fn a_difference_beyond_the_spread_is_not_yet_one() {
    let all = runs(&quick(), &[0, 1, 2, 3], 2);
    let set = |values: &[f64]| {
        let runs = all[..values.len()].iter().zip(values).map(|(run, value)| {
            let mut run = run.clone();
            run.record.metrics = [("x".to_owned(), *value)].into();
            run
        });
        [steadyfs_lab::Batch { experiment: quick(), scale: Scale::FULL, runs: runs.collect() }]
    };
    let differs = |a: &[f64], b: &[f64]| compare(&set(a), &set(b))[0].differs();
    assert_eq!(differs(&[10.0, 10.4], &[11.0, 11.4]), Some(false));
    assert_eq!(differs(&[10.0, 10.4, 10.1, 10.3], &[11.0, 11.4, 11.1, 11.3]), Some(true));
}

#[test]
fn claims_are_judged_over_all_seeds() {
    let batch = |runs| steadyfs_lab::Batch { experiment: quick(), scale: Scale::FULL, runs };
    let mut all = runs(&quick(), &[0, 1], 1);
    let victims = |run: &mut Run, count: f64| {
        run.record.metrics.insert("gc_victims".into(), count);
    };
    victims(&mut all[0], 0.0);
    victims(&mut all[1], 4.0);
    let judged = batch(all.clone()).judgements().remove(0);
    assert_eq!((judged.verdict, judged.ours), (Verdict::CannotBeTold, Some((2.0, 0.0, 4.0))));
    assert_eq!(judged.in_words(), "cannot be told with 2 seeds");
    victims(&mut all[0], 4.1);
    assert_eq!(batch(all.clone()).judgements()[0].verdict, Verdict::Holds);
    victims(&mut all[0], 0.0);
    victims(&mut all[1], 0.0);
    assert_eq!(batch(all).judgements()[0].verdict, Verdict::DoesNotHold);
}

/// A small volume says nothing of a large one, and may say the opposite.
#[test]
fn nothing_is_judged_below_the_scale_that_was_checked() {
    let mut experiment = quick();
    let runs = runs(&experiment, &[0], 1);
    let judged = |experiment: &Experiment, scale: &str| {
        let batch =
            steadyfs_lab::Batch { experiment: experiment.clone(), scale: scale.parse().unwrap(), runs: runs.clone() };
        let page = steadyfs_lab::page(std::slice::from_ref(&batch));
        (batch.judgements()[0].in_words(), page.contains("it was checked at 1/16 and above"))
    };
    let before = judged(&experiment, "1/64");
    assert!(before.0 != "not judged at this scale" && !before.1, "{before:?}");
    experiment.scale_at_least = Some("1/16".parse().unwrap());
    assert_eq!(judged(&experiment, "1/64"), ("not judged at this scale".to_owned(), true));
    assert_eq!(judged(&experiment, "1/16"), (before.0, false));
}

#[test]
fn damaged_results_are_named() {
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), &runs(&quick(), &[0], 1)).unwrap();
    for (name, text, part) in [
        ("smoke-1-seed0.csv", "seconds\n1\n", "line 1"),
        ("costs.jsonl", "", "no line for smoke"),
        ("runs.jsonl", "{}\n", "line 1"),
    ] {
        let path = dir.path().join(name);
        let good = std::fs::read(&path).unwrap();
        std::fs::write(&path, text).unwrap();
        let e = load(dir.path()).unwrap_err().to_string();
        assert!(e.contains(name) && e.contains(part), "{e}");
        std::fs::write(&path, good).unwrap();
    }
}

#[test]
fn systems_are_run_judged_and_shown_side_by_side() {
    let mut text = String::from(include_str!("../../experiments/smoke.toml"));
    text = text.split("[[claim]]").next().unwrap().to_owned();
    text += r#"
[[system]]
name = "one at a time"
set = ["workload.numjobs=1"]

[[system]]
name = "as it is"

[[claim]]
metric = "ios"
system = "as it is"
over = "one at a time"
value = 4
"#;
    let mut experiment = Experiment::parse("file.toml", &text).unwrap();
    for setting in ["workload.io_size=4M", "workload.numjobs=4", "verify=false"] {
        experiment.set(setting).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), &runs(&experiment, &[0, 3], 2)).unwrap();
    assert!(dir.path().join("smoke-as-it-is-1-seed3.csv").exists());
    let batches = load(dir.path()).unwrap();
    let systems: Vec<_> = batches[0].by_system().iter().map(|(name, runs)| (*name, runs.len())).collect();
    assert_eq!((batches.len(), systems), (1, vec![("one at a time", 2), ("as it is", 2)]));
    let judged = &batches[0].judgements()[0];
    assert_eq!((judged.ours, judged.verdict), (Some((4.0, 4.0, 4.0)), Verdict::Holds));
    let html = page(&batches);
    assert!(html.contains("ios of as it is, over that of one at a time") && html.contains("<h3>one at a time</h3>"));
}

#[test]
fn a_sweep_becomes_a_table_and_lines() {
    let mut text = String::from(include_str!("../../experiments/smoke.toml"));
    text = text.split("[[claim]]").next().unwrap().to_owned();
    text += r#"
[[system]]
name = "direct"
set = ["workload.direct=true"]

[[system]]
name = "buffered"

[sweep]
name = "jobs"
keys = ["workload.numjobs"]
values = [1, 3]
show = ["ios", "after_gc_cpu"]

[[claim]]
metric = "ios"
system = "direct@3"
over = "direct@1"
value = 3
[[plot]]
title = "Writes"
over = "sweep"
series = ["ios"]
unit = "writes"
[[plot]]
title = "Writes by time"
over = "sweep"
against = "seconds"
series = ["ios"]
unit = "writes"
[[plot]]
title = "Latency"
over = "latency"
series = ["all", "nothing"]
unit = "share"
"#;
    let mut experiment = Experiment::parse("file.toml", &text).unwrap();
    for setting in ["workload.io_size=4M", "verify=false"] {
        experiment.set(setting).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), &runs(&experiment, &[0], 1)).unwrap();
    let batches = load(dir.path()).unwrap();
    let tables = sweep_tables(&batches[0]);
    let row = |ios| vec![Some(ios), Some(3.0 * ios)];
    let ios = batches[0].runs[0].record.metrics["ios"];
    assert_eq!((tables.len(), &tables[0].figure[..], &tables[0].values), (2, "ios", &vec![1, 3]));
    assert_eq!(tables[0].systems, [("direct".into(), row(ios)), ("buffered".into(), row(ios))]);
    assert_eq!(tables[1].systems[0].1, [None, None], "nothing was collected");
    let judged = &batches[0].judgements()[0];
    assert_eq!((judged.ours, judged.verdict), (Some((3.0, 3.0, 3.0)), Verdict::Holds));
    let html = page(&batches);
    for part in [
        "ios by jobs",
        ">jobs</text>",
        ">seconds</text>",
        ">microseconds</text>",
        "there is no series nothing",
        "<th class=\"n\">3",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let curve = &batches[0].runs[0].record.latencies["all"];
    assert!(curve.is_sorted() && curve[0].1 > 0.0 && curve.last().unwrap().0 == 1.0);
}
