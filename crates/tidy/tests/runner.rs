//! The runner of test programs (`tools/tests.sh`) with programs that pass, fail, hang, die, or are not there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory of its own with a `cargo` that has built `programs`, each a name and the text of a script.
struct Bed(PathBuf);

impl Bed {
    fn new(name: &str, programs: &[(&str, &str)]) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("runner-{name}"));
        let _ = fs::remove_dir_all(&dir);
        let mut built = String::new();
        for (name, text) in programs {
            let home = dir.join("crates").join(name);
            fs::create_dir_all(&home).unwrap();
            script(&home.join("program"), text);
            let (home, kind) = (home.display(), "\"target\":{\"kind\":[\"test\"],\"name\":\"it\"}");
            built += &format!(
                "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file://{home}#steadyfs-{name}@0.1.0\",\
                 \"manifest_path\":\"{home}/Cargo.toml\",{kind},\"profile\":{{\"test\":true}},\
                 \"executable\":\"{home}/program\"}}\n"
            );
        }
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("built"), built).unwrap();
        // The slow one is the last that cargo names; the table says that it takes longest.
        fs::write(dir.join("table"), "| first/it | 2 | 1 | 1 |\n| slow/it | 30 | 1 | 1 |\n| doctests | 1 | 1 | 1 |\n")
            .unwrap();
        let here = dir.display();
        script(
            &dir.join("cargo"),
            &format!("case $* in *--no-run*) cat {here}/built ;; *--doc*) echo '{}' ;; esac\n", ended("ok", 3, 0)),
        );
        Bed(dir)
    }

    /// Whether the run succeeded, and what it said.
    fn run(&self, jobs: u32, minutes: &str) -> (bool, String) {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/tests.sh");
        let mut command = Command::new(tests);
        command.env("CARGO", self.0.join("cargo")).env("TEST_TABLE", self.0.join("table"));
        command.env("TEST_TIMES", self.0.join("times")).env("TEST_JOBS", jobs.to_string());
        let out = command.env("TEST_MINUTES", minutes).env_remove("TEST_ONLY").output().expect("bash and jq");
        let said = [out.stdout, out.stderr].concat();
        (out.status.success(), String::from_utf8(said).unwrap())
    }
}

fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn ended(verdict: &str, passed: u32, failed: u32) -> String {
    format!("test result: {verdict}. {passed} passed; {failed} failed; 1 ignored; 0 measured; 0 filtered out")
}

fn passing(passed: u32) -> String {
    format!("echo \"in $PWD\"\necho '{}'\n", ended("ok", passed, 0))
}

#[test]
fn each_program_runs_in_its_crate_and_the_longest_begins() {
    let bed = Bed::new("passing", &[("first", &passing(4)), ("slow", &passing(5)), ("new", &passing(6))]);
    let (success, said) = bed.run(1, "1");
    assert!(success, "{said}");
    let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("no {text} in {said}"));
    assert!(at("Running slow/it") < at("Running first/it") && at("Running first/it") < at("Running new/it"), "{said}");
    let crates = fs::canonicalize(bed.0.join("crates")).unwrap();
    at(&format!("in {}\n{}\nslow/it took: ", crates.join("slow").display(), ended("ok", 5, 0)));
    let sum = said.lines().last().unwrap();
    assert!(
        sum.starts_with("test result: ok. 18 passed; 0 failed; 4 ignored; 0 measured; 0 filtered out; finished in "),
        "{sum}"
    );
    let times = fs::read_to_string(bed.0.join("times")).unwrap();
    assert!(times.lines().count() == 4 && times.contains("| slow/it | "), "{times}");
}

#[test]
fn what_two_programs_say_is_not_mixed() {
    let slow = "for i in 1 2 3 4 5; do echo slow-$i; sleep 0.1; done\n".to_owned() + &passing(1);
    let quick = "for i in 1 2 3 4 5; do echo quick-$i; sleep 0.05; done\n".to_owned() + &passing(1);
    let (success, said) = Bed::new("beside", &[("first", &quick), ("slow", &slow)]).run(2, "1");
    assert!(success, "{said}");
    for name in ["slow", "quick"] {
        let whole: String = (1..6).map(|i| format!("{name}-{i}\n")).collect();
        assert!(said.contains(&whole), "{said}");
    }
}

#[test]
fn one_that_fails_fails_the_run_and_the_others_go_on() {
    let failing = format!("echo '{}'\nexit 101\n", ended("FAILED", 2, 7));
    let (success, said) = Bed::new("failing", &[("slow", &failing), ("first", &passing(4))]).run(2, "1");
    assert!(!success && said.contains("1 targets failed:\n    `-p steadyfs-slow --test it`"), "{said}");
    assert!(said.contains("test result: FAILED. 9 passed; 7 failed; 3 ignored;"), "{said}");
}

#[test]
fn one_that_dies_or_says_nothing_fails_the_run() {
    for (text, why) in [("kill -ABRT $$\n", "slow/it ended with exit code 134"), ("exit 0\n", "slow/it gave no result")]
    {
        let (success, said) = Bed::new("dying", &[("slow", text), ("first", &passing(4))]).run(2, "1");
        assert!(!success && said.contains(why), "{said}");
        assert!(said.contains("test result: FAILED. 7 passed; 1 failed; 2 ignored;"), "{said}");
    }
}

#[test]
fn one_that_hangs_is_killed_with_what_it_started() {
    let hanging = "sleep 1000 &\necho $! >child\necho begun\nwait\n";
    let bed = Bed::new("hanging", &[("slow", hanging), ("first", &passing(4))]);
    let (success, said) = bed.run(2, "0.02");
    assert!(!success && said.contains("begun\nslow/it did not end in 0.02 minutes, and was killed\n"), "{said}");
    assert!(said.contains("test result: FAILED. 7 passed; 1 failed; 2 ignored;"), "{said}");
    let child = fs::read_to_string(bed.0.join("crates/slow/child")).unwrap();
    let state = fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
}

#[test]
fn none_at_all_fails_the_run() {
    let (success, said) = Bed::new("none", &[]).run(2, "1");
    assert!(!success && said.contains("no test program was found"), "{said}");
}
