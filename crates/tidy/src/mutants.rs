//! Lines that tests run without: each stands on its page once and in the sources once, and no build that ships can lack
//! one.

use crate::{Rule, SourceFile, Tree, Violation};

const PAGE: &str = "docs/MUTANTS.md";
/// Where the lines stand. `tools/mutants.sh` reads the same rows.
const TABLE: &str = "| line | where | without it | noticed by | seconds |";
/// How a source asks whether the line is switched off.
const ASKS: &str = concat!("muta", "ted(\"");
const FEATURE: &str = "\"mutants\"";

pub(crate) fn check(tree: &Tree, found: &mut Vec<Violation>) {
    manifests(tree, found);
    let asked = asked(tree);
    let rows: Vec<Row<'_>> = tree.get(PAGE).map(rows).unwrap_or_default();
    for row in &rows {
        let mut report = |what: String| found.push(Violation::new(Rule::Mutant, PAGE, row.line, what));
        if rows.iter().filter(|other| other.name == row.name).count() > 1 {
            report(format!("two rows of `{}`", row.name));
        }
        if !row.tests.contains(".rs::") {
            report(format!("no test notices that `{}` is gone", row.name));
        }
        // Without the text of the file there is nothing to look into; the rule of links finds what is missing.
        let is_asked = asked.iter().any(|(file, _, name)| *name == row.name && file.path == row.path);
        if tree.get(row.path).is_some() && !is_asked {
            report(format!("{} does not ask for `{}`", row.path, row.name));
        }
    }
    for (i, (file, line, name)) in asked.iter().enumerate() {
        let mut report = |what: String| found.push(Violation::new(Rule::Mutant, &file.path, *line, what));
        if asked[..i].iter().any(|(_, _, earlier)| earlier == name) {
            report(format!("`{name}` is asked for twice"));
        }
        if !rows.iter().any(|row| row.name == *name) {
            report(format!("{PAGE} has no row of `{name}`"));
        }
    }
}

/// A row of the table.
struct Row<'a> {
    line: usize,
    name: &'a str,
    path: &'a str,
    tests: &'a str,
}

fn rows(page: &SourceFile) -> Vec<Row<'_>> {
    let lines = page.text.lines().enumerate().skip_while(|(_, line)| *line != TABLE).skip(2);
    let rows = lines.take_while(|(_, line)| line.starts_with('|')).map(|(i, row)| {
        let cell = |number: usize| row.split('|').nth(number).unwrap_or_default();
        let code = |number: usize| cell(number).trim().trim_matches('`');
        Row { line: i + 1, name: code(1), path: code(2), tests: cell(4) }
    });
    rows.collect()
}

/// Where sources ask for which line.
fn asked(tree: &Tree) -> Vec<(&SourceFile, usize, &str)> {
    let mut asked = Vec::new();
    for file in tree.files.iter().filter(|file| file.crate_source().is_some_and(|name| name != "tidy")) {
        for (i, line) in file.text.lines().enumerate() {
            let names = line.split(ASKS).skip(1).filter_map(|rest| rest.split('"').next());
            asked.extend(names.map(|name| (file, i + 1, name)));
        }
    }
    asked
}

/// Only dev-dependencies ask for the feature.
fn manifests(tree: &Tree, found: &mut Vec<Violation>) {
    for file in tree.files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        let mut section = "";
        for (i, line) in file.text.lines().enumerate() {
            if line.starts_with('[') {
                section = line;
            } else if line.contains(FEATURE) && section != "[dev-dependencies]" {
                let what = "the feature `mutants` is for dev-dependencies: no build that ships may have it";
                found.push(Violation::new(Rule::Mutant, &file.path, i + 1, what));
            }
        }
    }
}
