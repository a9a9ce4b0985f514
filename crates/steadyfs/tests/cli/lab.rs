//! `steadyfs lab`: what it prints and writes, how it ends.

use crate::run::run;

/// Settings that make the built-in smoke test a matter of a moment.
const QUICK: [&str; 6] = ["--set", "workload.io_size=4M", "--set", "workload.numjobs=2", "--set", "workload.size=40M"];

fn lab<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let verb = ["lab", "run", "smoke"];
    verb.into_iter().chain(QUICK).chain(args.iter().copied()).collect()
}

#[test]
fn experiments_are_listed_run_and_reported() {
    let listed = run(&["lab", "list"]);
    assert!(listed.code == 0 && listed.stdout.contains("scalelfs-fig2a"), "{listed:?}");
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let out = run(&lab(&["--seeds", "2", "--out", a, "--json"]));
    // The claim of the smoke test is that something is collected, which so little does not make happen.
    assert_eq!((out.code, out.stderr.as_str()), (1, ""), "{out:?}");
    let json: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!((json["runs"].as_array().map(Vec::len), &json["scale"]), (Some(2), &"1".into()));
    assert_eq!(json["judgements"][0]["verdict"], "does-not-hold");
    assert_eq!(json["runs"][0]["metrics"]["ios"], 2048.0);
    assert!(json["costs"][0]["cpu_seconds"].as_f64().unwrap() > 0.0);
    let out = run(&lab(&["--seeds", "2", "--jobs", "2", "--out", b, "--set", "workload.rwmixread=90"]));
    assert!(out.stdout.contains("does not hold") && out.stdout.contains("seed 1: trace"), "{out:?}");
    let out = run(&["lab", "compare", a, b]);
    assert!(out.code == 0 && out.stdout.contains("read_mb_s") && out.stdout.contains("Welch's t"), "{out:?}");
    let page = dir.path().join("a/index.html");
    std::fs::remove_file(&page).unwrap();
    let out = run(&["lab", "report", a]);
    assert!(out.code == 0 && page.exists(), "{out:?}");
}

#[test]
fn a_built_in_experiment_is_the_beginning_of_ones_own() {
    let shown = run(&["lab", "show", "smoke"]);
    assert_eq!((shown.code, shown.stderr.as_str()), (0, ""));
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("own.toml");
    std::fs::write(&own, shown.stdout.replace("name = \"smoke\"", "name = \"own\"\nscale_at_least = \"1\"")).unwrap();
    let verb = ["lab", "run", own.to_str().unwrap(), "--scale", "1/2"];
    let out = run(&verb.into_iter().chain(QUICK).collect::<Vec<_>>());
    assert!(out.code == 0 && out.stderr.contains("own was checked at scale 1 and above"), "{out:?}");
    // Claims come last.
    assert!(out.stdout.trim_end().ends_with("not judged at this scale"), "{out:?}");
    let none = run(&["lab", "show", "smok"]);
    assert!(none.code == 2 && none.stderr.contains("smoke"), "{none:?}");
}

/// The first experiment at a small scale, twice, with its runs one after the other and side by side: every byte but the
/// costs.
#[test]
fn an_experiment_gives_the_same_bytes_again() {
    let dir = tempfile::tempdir().unwrap();
    let lab = |out: &str, jobs: &str| {
        let out = dir.path().join(out);
        let out = out.to_str().unwrap();
        run(&[
            "lab",
            "run",
            "scalelfs-fig2a",
            "--scale",
            "1/128",
            "--seeds",
            "2",
            "--jobs",
            jobs,
            "--all",
            "--out",
            out,
        ])
    };
    let (first, second) = (lab("first", "1"), lab("second", "2"));
    assert!(first.code < 2 && first.code == second.code, "{first:?}");
    let without_costs = |text: &str| {
        text.lines().filter(|line| !line.contains("s simulated in")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(without_costs(&first.stdout), without_costs(&second.stdout));
    let mut names: Vec<String> = std::fs::read_dir(dir.path().join("first"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "costs.jsonl" && name != "index.html")
        .collect();
    names.sort();
    let series = [0, 1].map(|seed| format!("scalelfs-fig2a-1of128-seed{seed}.csv"));
    assert_eq!(names, [&["runs.jsonl".to_owned()], &series[..]].concat());
    for name in names {
        let read = |out: &str| std::fs::read(dir.path().join(out).join(&name)).unwrap();
        assert!(read("first") == read("second") && read("first").len() > 1000, "{name} differs");
    }
}

/// What is printed for each figure and each claim: the mean, and the least and the most of the seeds, as the records
/// have them.
#[test]
fn every_figure_and_claim_is_printed_with_its_spread() {
    let json = run(&lab(&["--seeds", "5", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 5);
    let printed = run(&lab(&["--seeds", "5", "--all"])).stdout;
    assert!(printed.contains("least to most of 5 seeds"), "{printed}");
    for name in runs[0]["metrics"].as_object().unwrap().keys() {
        let values: Vec<f64> = runs.iter().filter_map(|run| run["metrics"][name].as_f64()).collect();
        let line = printed.lines().find(|line| line.split_whitespace().next() == Some(name));
        if values.len() < 5 {
            continue; // a figure that one of the runs does not have
        }
        let line = line.unwrap_or_else(|| panic!("no {name} in {printed}"));
        let numbers: Vec<f64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        let mean = values.iter().sum::<f64>() / 5.0;
        let (least, most) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
        for (shown, right) in numbers.iter().zip([mean, least, most]) {
            assert!((shown - right).abs() <= 0.006 * right.abs().max(0.01), "{line}: {right}");
        }
        assert_eq!(numbers.len(), 3, "{line}");
    }
    let claim = printed.lines().find(|line| line.contains("ours: gc_victims")).unwrap();
    assert_eq!(claim.trim(), "ours: gc_victims 0 (0 to 0), mean of many seeds 0 to 0 (95 %): does not hold");
}

#[test]
fn progress_is_told_on_standard_error_alone() {
    let slow = ["lab", "run", "scalelfs-fig2a", "--scale", "1/64", "--seeds", "2", "--json"];
    let out = run(&[&slow[..], &["--progress", "1"]].concat());
    serde_json::from_str::<serde_json::Value>(&out.stdout).unwrap();
    let lines: Vec<&str> = out.stderr.lines().collect();
    assert!(!lines.is_empty(), "a run of several seconds");
    for line in lines {
        for part in [" %  ETA ", "elapsed ", "M events/s"] {
            assert!(line.contains(part), "no {part} in {line}");
        }
    }
    for part in ["s virtual", "MB/s", "WAF", "free sections"] {
        assert!(out.stderr.contains(part), "no {part} in {out:?}");
    }
    let quiet = run(&[&slow[..], &["--progress", "0"]].concat());
    assert_eq!(quiet.stderr, "");
    // On a terminal, which script(1) makes: a bar there, and the results in the file all the same.
    let dir = tempfile::tempdir().unwrap();
    let command = format!("{} {} > json", env!("CARGO_BIN_EXE_steadyfs"), slow.join(" "));
    let out = std::process::Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .current_dir(&dir)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("script(1), of the essential package bsdutils");
    let seen = String::from_utf8_lossy(&out.stdout);
    for part in ["ETA", "events/s", "measuring:", "free sections"] {
        assert!(seen.contains(part), "no {part} in {seen}");
    }
    let json = std::fs::read(dir.path().join("json")).unwrap();
    let (json, other): (serde_json::Value, serde_json::Value) =
        (serde_json::from_slice(&json).unwrap(), serde_json::from_str(&quiet.stdout).unwrap());
    assert_eq!(json["runs"], other["runs"], "what is shown changes nothing");
}

#[test]
fn a_claim_that_holds_ends_with_0() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    let text = "name = 'mine'\ntitle = 'reads'\n[machine]\ncores = 2\n[device]\npreset = 'pm9a3'\nsize = '256M'\n[workload]\nkind = 'fio'\nrw = 'randread'\nsize = '8M'\n[[claim]]\nmetric = 'read_mb_s'\nat_least = 1\n";
    std::fs::write(&file, text).unwrap();
    let out = run(&["lab", "run", file.to_str().unwrap()]);
    assert!(out.code == 0 && out.stdout.contains("self-checks: all hold"), "{out:?}");
}

/// What a claim rests on, as text, for programs, and as a page.
#[test]
fn changes_of_prices_and_assumptions_are_tried() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    let text = "name = 'mine'\ntitle = 'reads'\n[machine]\ncores = 2\n[device]\npreset = 'memory'\nsize = '256M'\n[workload]\nkind = 'fio'\nrw = 'randread'\nsize = '8M'\n[[claim]]\nmetric = 'ios'\nat_least = 1\n";
    std::fs::write(&file, text).unwrap();
    let (file, out) = (file.to_str().unwrap(), dir.path().join("out"));
    let args = ["lab", "sensitivity", file, "--only", "page_copy", "--only", "log_record"];
    let told = run(&[&args[..], &["--out", out.to_str().unwrap()]].concat());
    assert_eq!((told.code, told.stderr.as_str()), (0, ""), "{told:?}");
    for part in ["robust: ios", "2 changes in 4 runs, 1 seed each", "nothing here charges them: log_record"] {
        assert!(told.stdout.contains(part), "no {part} in {told:?}");
    }
    assert!(out.join("sensitivity-mine.html").exists() && out.join("sensitivity-mine.json").exists());
    let json = run(&[&args[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["findings"][0]["standing"], &json["unmoved"][0]), (&"robust".into(), &"log_record".into()));
    let unknown = run(&["lab", "sensitivity", "smoke", "--only", "page_copies"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("there is no change 'page_copies'"), "{unknown:?}");
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    for (args, part) in [
        (&["lab", "run", "smoek"][..], "'smoek' (is it smoke?); see `steadyfs lab list`"),
        (&["lab", "run", "fig2a"], "(is it scalelfs-fig2a?)"),
        (&["lab", "run", "nonsense"], "there is no experiment 'nonsense'; see `steadyfs lab list`"),
        (&["lab", "run", "smoke", "--set", "machine.coers=3"], "cores"),
        (&["lab", "run", "smoke", "--scale", "3/2"], "3/2"),
        (&["lab", "run", "smoke", "--scale", "1/100000"], "device.size"),
        (&["lab", "run", "smoke", "--seeds", "0"], "0"),
    ] {
        let out = run(args);
        assert_eq!(out.code, 2, "{out:?}");
        assert!(out.stderr.contains(part), "{out:?}");
    }
    let out = run(&["lab", "compare", "/nowhere/a", "/nowhere/b"]);
    crate::inspect::fails(&out, 1, &["/nowhere/a/runs.jsonl: No such file", "`steadyfs lab run NAME --out DIR` wrote"]);
}

#[test]
fn schedules_are_fuzzed_and_their_number_is_told() {
    let out = run(&["lab", "fuzz", "--seeds", "5..9", "--jobs", "1", "--json"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{out:?}");
    let json: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!((&json["workloads"], &json["seed"]), (&4.into(), &5.into()));
    assert!(json["distinct_states"].as_u64().is_some_and(|states| states > 40), "{json}");
    let infinite = run(&["lab", "fuzz", "--kind", "iplfs", "--seeds", "3..5", "--jobs", "1", "--json"]);
    assert_eq!((infinite.code, infinite.stderr.as_str()), (0, ""), "{infinite:?}");
    let infinite: serde_json::Value = serde_json::from_str(&infinite.stdout).unwrap();
    assert!(infinite["distinct_states"].as_u64().is_some_and(|states| states > 40), "{infinite}");
    assert_eq!(run(&["lab", "fuzz", "--kind", "iplfs", "--load", "--seeds", "3"]).code, 2);
    for (seeds, part) in [("9..5", "there is no seed in it"), ("few", "'few' is no number")] {
        let out = run(&["lab", "fuzz", "--seeds", seeds]);
        assert!(out.code == 2 && out.stderr.contains(part), "{out:?}");
    }
}

#[test]
fn load_tells_how_much_was_collected_and_a_seed_gives_the_same_again() {
    let load = |more: &[&str]| {
        let out = run(&[&["lab", "fuzz", "--load", "--seeds", "8..11", "--jobs", "1", "--json"], more].concat());
        let mut json: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
        json.as_object_mut().unwrap().remove("seconds");
        (out.code, json)
    };
    let (code, first) = load(&[]);
    assert_eq!((code, &first["seeds"], first["wrong"].as_array().map(Vec::len)), (0, &3.into(), Some(0)), "{first}");
    assert!(first["data_blocks_moved"].as_u64().is_some_and(|moved| moved > 10_000), "{first}");
    assert!(first["collectors_that_worked"].as_u64().is_some_and(|worked| worked >= 3), "{first}");
    assert_eq!(load(&[]), (code, first));
    let (code, wrong) = load(&["-o", "ro"]);
    assert_eq!((code, &wrong["wrong"][1]["seed"]), (1, &9.into()), "{wrong}");
    let told = run(&["lab", "fuzz", "--load", "--seeds", "8", "-o", "ro"]);
    assert!(told.code == 1 && told.stdout.contains("again: steadyfs lab fuzz --load --seeds 8 -o ro\n"), "{told:?}");
}
