//! Help, versions, usage errors and their exit codes.

use crate::run::{run, run_as};

#[test]
fn help_goes_to_stdout_and_succeeds() {
    for args in [vec!["--help"], vec!["completions", "--help"], vec!["man", "--help"]] {
        let out = run(&args);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{args:?}");
        assert!(out.stdout.contains("Usage: steadyfs"), "{}", out.stdout);
    }
}

#[test]
fn version() {
    let out = run(&["--version"]);
    assert_eq!(out.stdout, format!("steadyfs {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(out.code, 0);
}

#[test]
fn usage_errors() {
    for args in
        [vec![], vec!["nonsense"], vec!["completions"], vec!["completions", "no-such-shell"], vec!["man", "--bad"]]
    {
        let out = run(&args);
        assert_eq!((out.code, out.stdout.as_str()), (2, ""), "{args:?}");
        assert!(!out.stderr.is_empty());
    }
}

#[test]
fn names_of_other_programs_lead_to_the_command() {
    for (typed, command) in [("cp", "`steadyfs put`"), ("tar", "`steadyfs get --tar`"), ("format", "`steadyfs mkfs`")] {
        let out = run(&[typed, "a", "b"]);
        assert_eq!(out.code, 2);
        assert!(out.stderr.contains(command) && !out.stderr.contains("similar"), "{}", out.stderr);
    }
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let out = run(&["completions", shell]);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""));
        assert!(out.stdout.contains("completions"), "{shell}");
    }
}

#[test]
fn manual_pages() {
    let page = run(&["man"]).stdout;
    assert!(page.contains(".TH steadyfs 1"), "{page}");
    let dir = tempfile::tempdir().unwrap();
    let out = run(&["man", "--dir", dir.path().to_str().unwrap()]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    for name in ["steadyfs.1", "steadyfs-man.1", "steadyfs-completions.1"] {
        assert!(dir.path().join(name).is_file(), "{name}");
    }
    let listed = |page: &str, option: &str| {
        let page = std::fs::read_to_string(dir.path().join(page)).unwrap();
        page.replace("\\-", "-").contains(option)
    };
    for option in ["cache=SIZE", "background_gc=on|sync|off", "lazytime"] {
        assert!(listed("steadyfs-mount.1", option), "{option}");
    }
    assert!(!listed("steadyfs-mount.1", "gc.meta="));
    assert!(listed("steadyfs-lab-run.1", "gc.meta=loose|locked"));
}

/// Those of man-pages(7).
#[test]
fn manual_pages_have_the_sections_that_one_looks_for() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run(&["man", "--dir", dir.path().to_str().unwrap()]).code, 0);
    let pages: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(pages.len() > 40, "{pages:?}");
    for page in &pages {
        let text = std::fs::read_to_string(page).unwrap();
        let at = |heading: &str| text.find(heading).unwrap_or_else(|| panic!("no {heading} in {page:?}"));
        let order = [".SH NAME", ".SH SYNOPSIS", ".SH EXAMPLES\n.nf\n", ".SH \"EXIT STATUS\"\n", ".SH \"SEE ALSO\"\n"];
        assert!(order.map(at).is_sorted(), "{page:?}");
        assert!(!text.contains("EXTRA\n") && !text.contains(".SH VERSION"), "{page:?}");
        // Each page that is named is there.
        let also = text[at(".SH \"SEE ALSO\"")..].replace("\\-", "-");
        for name in also.lines().last().unwrap().split(", ").filter(|name| name.starts_with("steadyfs")) {
            let file = dir.path().join(name.replace("(1)", ".1"));
            assert!(file.is_file(), "{name} of {page:?}");
        }
        let examples = &text[at(".SH EXAMPLES\n")..at(".SH \"EXIT STATUS\"")];
        assert!(examples.contains("steadyfs"), "{page:?}");
    }
    let of = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(of("steadyfs-fsck.1").contains("\\fB4\\fR\nerrors were found"));
    assert!(
        of("steadyfs-mount.1").contains("\\fB32\\fR\n") && of("steadyfs-mount.1").contains(".SH \"MOUNT OPTIONS\"")
    );
    assert!(of("steadyfs-put.1").contains("\\fB130\\fR\nSIGINT"));
}

#[test]
fn a_failure_is_one_line_that_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let out = run(&["man", "--dir", file.to_str().unwrap()]);
    assert_eq!((out.code, out.stdout.as_str()), (1, ""));
    assert!(out.stderr.starts_with("steadyfs: cannot write manual pages to "), "{}", out.stderr);
    assert_eq!(out.stderr.lines().count(), 1);
    assert!(out.stderr.contains("; give a directory"), "{}", out.stderr);
}

#[test]
fn an_unknown_name_is_plain_steadyfs() {
    assert_eq!(run_as("renamed", &["--version"]).code, 0);
}
