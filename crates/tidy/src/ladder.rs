//! The ladder of locks: each lock of the core that is no leaf stands on the page of locks, with its rank.

use crate::{Rule, Tree, Violation};

const LOCKS: &str = "crates/core/src/locks.rs";
const PAGE: &str = "docs/internals/locks.md";

/// Locks from this rank on are leaves, which the page does not list one by one.
const LEAVES: u32 = 72;

pub(crate) fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let text = |path: &str| tree.files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let (Some(locks), Some(page)) = (text(LOCKS), text(PAGE)) else { return };
    for (number, line) in (1..).zip(locks.lines()) {
        let Some((name, rank)) = class(line).filter(|(_, rank)| *rank < LEAVES) else { continue };
        let on_page = |line: &str| line.contains(name) && line.contains(&rank.to_string());
        if !page.lines().any(on_page) {
            let what = format!("`{name}` of rank {rank} is not on the ladder of {PAGE}");
            found.push(Violation::new(Rule::Ladder, LOCKS, number, what));
        }
    }
}

/// Name and rank of the class that a line makes.
fn class(line: &str) -> Option<(&str, u32)> {
    let (name, rest) = line.split_once("LockClass::new(\"")?.1.split_once("\", ")?;
    Some((name, rest.split(')').next()?.parse().ok()?))
}
