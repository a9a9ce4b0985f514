//! The rule of docs/TROUBLESHOOTING.md: each message there is one that the sources print.

use crate::{Rule, Tree, Violation};

const PAGE: &str = "docs/TROUBLESHOOTING.md";
/// A file that a tree has if it has the sources.
const SOURCES: &str = "crates/steadyfs/src/failure.rs";
/// Behind a message that the system or another program prints.
const FOREIGN: &str = ", from programs";
/// Shorter pieces prove nothing.
const LEAST: usize = 8;

pub(crate) fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let Some(page) = tree.get(PAGE).filter(|_| tree.get(SOURCES).is_some()) else { return };
    let sources: Vec<String> = tree
        .files
        .iter()
        .filter(|file| file.crate_source().is_some_and(|owner| owner != "tidy"))
        .map(|file| joined(&file.text))
        .collect();
    for (i, line) in page.text.lines().enumerate() {
        let Some(message) = line.strip_prefix("| `").and_then(|rest| rest.split_once('`')) else { continue };
        let (message, rest) = message;
        if rest.starts_with(FOREIGN) || message == "failed to open /dev/fuse: ..." {
            continue;
        }
        let pieces = || message.split("...").map(|piece| piece.trim_matches([' ', ':', ';', ',', '(', ')', '.']));
        if pieces().all(|piece| piece.len() < LEAST) {
            found.push(Violation::new(Rule::Message, PAGE, i + 1, "too short to be looked for"));
        }
        for piece in pieces().filter(|piece| piece.len() >= LEAST) {
            if !sources.iter().any(|text| text.contains(piece)) {
                found.push(Violation::new(Rule::Message, PAGE, i + 1, format!("nothing prints `{piece}`")));
            }
        }
    }
}

/// The text with strings that go over several lines joined.
fn joined(text: &str) -> String {
    let mut lines = text.split("\\\n");
    let mut whole = lines.next().unwrap_or_default().to_owned();
    lines.for_each(|line| whole.push_str(line.trim_start()));
    whole
}
