//! Tests that pages name: each is there, and each promise of docs/SEMANTICS.md names one.
//!
//! A page names a test as `` `path/to/file.rs::name` ``, from the root of the repository.

use crate::{Rule, SourceFile, Tree, Violation};

const PAGE: &str = "docs/SEMANTICS.md";
/// Where promises stand: rows of promise, exception and test.
const TABLE: &str = "| promise | exception | test |";

pub(crate) fn check(tree: &Tree, found: &mut Vec<Violation>) {
    for page in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (i, line) in page.text.lines().enumerate() {
            for (path, name) in named_tests(line) {
                // Without the text of the file there is nothing to look into; the rule of links finds what is missing.
                if tree.get(path).is_some_and(|file| !has_test(file, name)) {
                    let what = format!("{path} has no test `{name}`");
                    found.push(Violation::new(Rule::Promise, &page.path, i + 1, what));
                }
            }
        }
    }
    let Some(page) = tree.get(PAGE) else { return };
    let rows = page.text.lines().enumerate().skip_while(|(_, line)| *line != TABLE);
    for (i, row) in rows.skip(2).take_while(|(_, line)| line.starts_with('|')) {
        let tests = row.rsplit('|').nth(1).unwrap_or_default();
        if named_tests(tests).next().is_none() {
            found.push(Violation::new(Rule::Promise, PAGE, i + 1, "a promise without a test that shows it"));
        }
    }
}

/// The tests between backticks: file and name.
fn named_tests(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let code = line.split('`').skip(1).step_by(2);
    code.filter_map(|code| code.split_once(".rs::").map(|(path, name)| (&code[..path.len() + 3], name)))
}

/// Whether a file has a test with this name.
fn has_test(file: &SourceFile, name: &str) -> bool {
    let mut is_test = false;
    file.text.lines().map(str::trim_start).any(|line| {
        let found = is_test && line.strip_prefix("fn ").is_some_and(|rest| rest.starts_with(&format!("{name}(")));
        is_test = line == "#[test]" || is_test && line.starts_with(['#', '/']);
        found
    })
}
