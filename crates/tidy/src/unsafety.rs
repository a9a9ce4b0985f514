//! The table of `unsafe` code in SECURITY.md: each of our crates that ships some, and how often the word stands there.
//!
//! Kept true: who reads the page and who reads the code count the same. A block more, or fewer, is a line to be read.

use proc_macro2::TokenTree;

use crate::code::{is_test_file, shipped, without_tests};
use crate::{Rule, Tree, Violation};
use std::collections::BTreeMap;

const PAGE: &str = "SECURITY.md";

pub(crate) fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let Some(page) = tree.get(PAGE) else { return };
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| file.is_rust() && !is_test_file(&file.path)) {
        // Of a part of a crate nothing can be said.
        let whole = |name: &&str| tree.get(&format!("crates/{name}/Cargo.toml")).is_some();
        if let Some(name) = file.crate_source().filter(whole) {
            *counted.entry(name).or_default() += if file.text.contains("unsafe") { count(shipped(file)) } else { 0 };
        }
    }
    let mut told: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (number, line) in (1..).zip(page.text.lines()) {
        if let Some((name, count)) = row(line) {
            told.insert(name, (number, count));
        }
    }
    for (name, count) in counted {
        let (line, said) = told.get(name).copied().unwrap_or_default();
        if count != said {
            let what = format!("`{name}` says `unsafe` {count} times, and the table of {PAGE} {said} times");
            found.push(Violation::new(Rule::Unsafe, PAGE, line, what));
        }
    }
}

/// How often the keyword stands among these tokens.
fn count(tokens: Vec<TokenTree>) -> usize {
    let of = |token| match token {
        TokenTree::Ident(ident) => usize::from(ident == "unsafe"),
        TokenTree::Group(group) => count(without_tests(group.stream())),
        _ => 0,
    };
    tokens.into_iter().map(of).sum()
}

/// Crate and count of a row.
fn row(line: &str) -> Option<(&str, usize)> {
    let mut cells = line.strip_prefix("| `")?.split(" | ");
    let name = cells.next()?.strip_suffix('`')?;
    Some((name, cells.next()?.parse().ok()?))
}
