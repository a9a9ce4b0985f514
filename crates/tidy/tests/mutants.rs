//! The runner of tests without vital lines (`tools/mutants.sh`) with a program that notices some of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = "\
| line | where | without it | noticed by | seconds |
|---|---|---|---|---|
| `seen` | `crates/rt/src/a.rs` | a | `crates/rt/src/a.rs::good` | |
| `missed` | `crates/rt/src/a.rs` | b | `crates/rt/src/a.rs::good` | |
| `stuck` | `crates/rt/src/a.rs` | c | `crates/rt/src/a.rs::good` | |
| `waits` | `crates/rt/src/a.rs` | d | `crates/rt/src/a.rs::good` hangs | |
| `broken` | `crates/rt/src/a.rs` | e | `crates/rt/tests/it/b.rs::bad` | |
| `nowhere` | `crates/rt/src/a.rs` | f | `crates/rt/tests/other.rs::good` | |

| `none` | of | the | `crates/rt/src/a.rs::good` | |
";

/// What each test program does.
const PROGRAM: &str = "#!/bin/sh
case $1/$STEADYFS_MUTANT in bad/*) exit 101 ;; */seen) exit 101 ;; */stuck | */waits) exec sleep 100 ;; esac
echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'
";

fn script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A directory of its own with a `cargo` that has built two programs, and a page.
fn bed(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mutants-{name}"));
    let home = dir.join("crates/rt");
    fs::create_dir_all(&home).unwrap();
    fs::write(dir.join("page"), PAGE).unwrap();
    script(&home.join("program"), PROGRAM);
    let home = home.display();
    let built = |kind: &str, name: &str| {
        format!(
            "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"{home}/Cargo.toml\",\"profile\":{{\"test\":true}},\
             \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"{name}\"}},\"executable\":\"{home}/program\"}}\n"
        )
    };
    let text = format!("#!/bin/sh\ncat <<END\n{}{}END\n", built("lib", "steadyfs_rt"), built("test", "it"));
    script(&dir.join("cargo"), &text);
    dir
}

/// Whether the run succeeded, and what it said.
fn run(dir: &Path, arguments: &[&str], figures: bool) -> (bool, String) {
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/mutants.sh"));
    command.args(arguments).env("CARGO", dir.join("cargo")).env("MUTANTS_PAGE", dir.join("page"));
    command.env("MUTANTS_SECONDS", "1").env("MUTANTS_FIGURES", if figures { "1" } else { "" });
    let out = command.env_remove("STEADYFS_MUTANT").output().expect("bash and jq");
    (out.status.success(), String::from_utf8([out.stdout, out.stderr].concat()).unwrap())
}

#[test]
fn a_line_that_no_test_misses_fails_the_run() {
    let dir = bed("verdicts");
    let (success, said) = run(&dir, &["seen", "waits"], false);
    assert!(success && said.contains("mutants: 2 of 2 noticed"), "{said}");
    for (name, why) in [
        ("missed", "it passes without the line"),
        ("stuck", "it hangs without the line"),
        ("broken", "it does not pass with the line"),
        ("nowhere", "there is no such program"),
    ] {
        let (success, said) = run(&dir, &["seen", name], false);
        assert!(!success && said.contains(why) && said.contains("mutants: 1 of 2 noticed"), "{said}");
    }
    let (success, said) = run(&dir, &["none"], false);
    assert!(!success && said.contains("no such line"), "{said}");
}

#[test]
fn one_tree_draws_the_same_lines() {
    let dir = bed("sample");
    let names = |count: &str| {
        let (_, said) = run(&dir, &["--sample", count], false);
        said.lines().filter_map(|line| Some(line.split_once('\t')?.0.to_owned())).collect::<Vec<_>>()
    };
    let (three, all) = (names("3"), names("10"));
    assert_eq!((three.len(), all.len()), (3, 6));
    assert!(names("3") == three && three.iter().all(|name| all.contains(name)), "{three:?}");
}

#[test]
fn figures_come_into_the_page() {
    let dir = bed("figures");
    run(&dir, &["seen", "missed"], true);
    let page = fs::read_to_string(dir.join("page")).unwrap();
    let seconds = |name: &str| page.lines().find(|row| row.contains(name)).and_then(|row| row.split('|').nth(5));
    assert!(seconds("`seen`").is_some_and(|cell| cell.trim().parse::<f64>().is_ok()), "{page}");
    assert_eq!(seconds("`missed`").map(str::trim), Some(""), "{page}");
    assert_eq!(page.lines().count(), PAGE.lines().count());
}
