//! How much commands say: `-q`, `-v`, `--json`, and the groups of `--help`.

use std::fs;

use serde_json::Value;

use crate::inspect::fails;
use crate::mount::Place;
use crate::run::{Output, finish, run, steadyfs};

fn at(place: &Place, args: &[&str]) -> Output {
    finish(steadyfs().args(args).current_dir(place.dir.path()))
}

#[track_caller]
fn json(place: &Place, args: &[&str]) -> Value {
    let out = at(place, args);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{args:?}");
    serde_json::from_str(&out.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", out.stdout))
}

/// A place with a tree of four names and 7 bytes.
fn place() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.dir.path().join("tree/sub")).unwrap();
    fs::write(place.dir.path().join("tree/a"), "four").unwrap();
    fs::write(place.dir.path().join("tree/sub/b"), "123").unwrap();
    place
}

#[test]
fn quiet_commands_say_nothing_unless_something_is_wrong() {
    let place = place();
    for args in [
        &["mkfs", "-q", "a.img", "64M"][..],
        &["put", "-q", "tree", "a.img", "/"],
        &["get", "-q", "a.img", "/tree", "out"],
        &["gc", "-q", "a.img"],
        &["gc", "-q", "--plan", "a.img"],
        &["recover", "-q", "a.img"],
        &["trim", "-q", "a.img"],
        &["fsck", "-q", "a.img"],
        &["mkfs", "-q", "--kind", "iplfs", "--capacity", "64M", "i.d/"],
        &["gc", "-q", "i.d"],
        &["resize", "-q", "--capacity", "128M", "i.d"],
        &["trim", "-q", "i.d"],
        &["mkfs", "-q", "--kind", "d2fs", "--capacity", "64M", "d.d2fs"],
        &["export", "-q", "d.d2fs", "d.img"],
    ] {
        let out = at(&place, args);
        assert_eq!((out.code, out.stdout.as_str(), out.stderr.as_str()), (0, "", ""), "{args:?}");
    }
    fails(&at(&place, &["put", "-q", "none", "a.img", "/"]), 1, &["cannot read none"]);
    fs::write(place.dir.path().join("a.img"), vec![0; 1 << 20]).unwrap();
    assert!(at(&place, &["fsck", "-q", "a.img"]).stdout.contains("superblock"));
    assert_eq!(at(&place, &["trim", "-q", "--json", "a.img"]).code, 2);
}

#[test]
fn objects_say_what_lines_say() {
    let place = place();
    assert_eq!(at(&place, &["mkfs", "-q", "a.img", "64M"]).code, 0);
    let put = json(&place, &["put", "--json", "tree", "a.img", "/"]);
    assert_eq!(put, serde_json::json!({"entries": 4, "bytes": 7, "left_out": 0}));
    assert_eq!(json(&place, &["get", "--json", "a.img", "/tree", "out"]), put);
    assert_eq!(json(&place, &["get", "--json", "--tar", "t.tar", "a.img", "/tree"]), put);
    fails(&at(&place, &["get", "--json", "--tar", "-", "a.img"]), 2, &["the tar file goes to standard output"]);
    let recovered = json(&place, &["recover", "--json", "a.img"]);
    assert_eq!(recovered, serde_json::json!({"files": 0, "batches": 0, "records": 0, "mark_removed": false}));
    let trimmed = json(&place, &["trim", "--json", "a.img"]);
    assert_eq!(trimmed["discarded"].as_u64().unwrap(), trimmed["segments"].as_u64().unwrap() << 21);
    for args in [
        &["mkfs", "-q", "--kind", "iplfs", "--capacity", "64M", "i.d/"][..],
        &["mkfs", "-q", "--kind", "d2fs", "--capacity", "64M", "d.d2fs"],
    ] {
        assert_eq!(at(&place, args).code, 0);
    }
    let resized = json(&place, &["resize", "--json", "--capacity", "128M", "i.d"]);
    assert_eq!((&resized["capacity"], &resized["capacity_before"]), (&(128 << 20).into(), &(64 << 20).into()));
    assert!(resized["user_size"].as_u64().unwrap() < 128 << 20 && resized["files"].is_u64());
    assert!(json(&place, &["trim", "--json", "i.d"])["leaked"].is_u64());
    let exported = json(&place, &["export", "--json", "d.d2fs", "d.img"]);
    assert_eq!(exported["target"], "d.img");
    assert_eq!(exported["blocks"].as_u64().unwrap() * 4096, exported["bytes"].as_u64().unwrap());
}

#[test]
fn verbose_copies_tell_each_name() {
    let place = place();
    assert_eq!(at(&place, &["mkfs", "-q", "-v", "a.img", "64M"]).code, 16);
    assert_eq!(at(&place, &["mkfs", "-v", "a.img", "64M"]).code, 0);
    for args in [&["put", "-v", "tree", "a.img", "/"][..], &["get", "-v", "a.img", "/tree", "out"]] {
        let out = at(&place, args);
        let mut told: Vec<&str> = out.stderr.lines().collect();
        told.sort_unstable();
        let top = if args[0] == "put" { "tree" } else { "out" };
        let names = ["", "/a", "/sub", "/sub/b"].map(|name| format!("{top}{name}"));
        assert_eq!((out.code, out.stdout.as_str(), told), (0, "", names.iter().map(String::as_str).collect()));
    }
}

#[test]
fn help_has_commands_in_groups() {
    for args in [&["--help"][..], &["-h"], &["help"]] {
        let out = run(args).stdout;
        let at = |text: &str| out.find(text).unwrap_or_else(|| panic!("no `{text}` in {out}"));
        let order =
            ["\nMount:\n", "\n  mount ", "\nFiles of an image:\n", "\n  ls ", "\nMake and care:\n", "\n  fsck "];
        assert!(order.map(at).is_sorted(), "{out}");
        assert!(at("\nLook inside and research:\n") < at("\n  lab ") && at("\nOptions:\n") < at("--version"), "{out}");
    }
    assert!(!run(&["ls", "--help"]).stdout.contains("Make and care"));
}
