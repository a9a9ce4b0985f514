//! The arrows between the rooms of `core`: which module at its root may import which.
//!
//! The table below is the plan of the crate. Its lower half, `volume`, imports nothing from above it, so a reader can
//! stop there. Test code may import anything.

use proc_macro2::TokenTree;

use crate::code::{is_test_file, shipped, without_tests};
use crate::{Rule, SourceFile, Violation};

const ROOT: &str = "crates/core/src/";

/// What every room may import.
const BASE: [&str; 7] = ["bits", "canary", "counters", "error", "locks", "types", "waits"];

/// Which rooms each room may import besides [`BASE`] and itself.
const MAY_IMPORT: [(&str, &[&str]); 20] = [
    ("bits", &[]),
    ("canary", &[]),
    ("counters", &[]),
    ("error", &[]),
    ("locks", &[]),
    ("types", &[]),
    ("waits", &[]),
    ("ranges", &[]),
    ("options", &[]),
    ("volume", &["options"]),
    ("raw", &[]),
    ("mkfs", &["raw"]),
    // Its own view of a volume over `raw`; of `mount` only the rehearsal, which it ends with.
    ("fsck", &["raw", "mount"]),
    // The upper half in floors, each of which knows those below it.
    ("gate", &["options", "ranges", "volume"]),
    ("files", &["options", "volume", "gate"]),
    ("durable", &["options", "volume", "raw", "gate", "files"]),
    ("reclaim", &["options", "volume", "gate", "files", "durable"]),
    ("fs", &["options", "volume", "gate", "files", "durable", "reclaim"]),
    ("stats", &["volume", "files", "durable", "reclaim", "fs"]),
    ("mount", &["options", "volume", "gate", "raw", "files", "durable", "reclaim", "fs", "stats"]),
];

/// The room that a file of core lies in.
fn room(path: &str) -> Option<&str> {
    let inside = path.strip_prefix(ROOT)?;
    let (room, rest) = inside.split_once('/').unwrap_or((inside.strip_suffix(".rs")?, ""));
    (!is_test_file(rest) && room != "lib").then_some(room)
}

pub(crate) fn check(file: &SourceFile, found: &mut Vec<Violation>) {
    let Some(room) = room(&file.path) else { return };
    let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == room) else {
        found.push(Violation::new(Rule::RoomArrow, &file.path, 0, format!("`{room}` is not in the table of rooms")));
        return;
    };
    let mut imports = Vec::new();
    collect(&shipped(file), &mut imports);
    for (other, line) in imports {
        let known = other == room || BASE.contains(&other.as_str()) || allowed.contains(&other.as_str());
        if !known {
            let what = format!("`{room}` imports `{other}`; it may import {allowed:?} and {BASE:?}");
            found.push(Violation::new(Rule::RoomArrow, &file.path, line, what));
        }
    }
}

/// The first names behind `crate::`, with their lines.
fn collect(tokens: &[TokenTree], imports: &mut Vec<(String, usize)>) {
    for (i, token) in tokens.iter().enumerate() {
        match (token, &tokens[i + 1..]) {
            (TokenTree::Ident(root), [TokenTree::Punct(a), TokenTree::Punct(b), next, ..])
                if root == "crate" && a.as_char() == ':' && b.as_char() == ':' =>
            {
                heads(next, imports);
            }
            (TokenTree::Group(group), _) => collect(&without_tests(group.stream()), imports),
            _ => {}
        }
    }
}

/// What follows `crate::`: a name, or a tree of `use` with several.
fn heads(next: &TokenTree, imports: &mut Vec<(String, usize)>) {
    match next {
        TokenTree::Ident(name) => imports.push((name.to_string(), name.span().start().line)),
        TokenTree::Group(group) => {
            let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
            let branches = tokens.split(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == ','));
            branches.filter_map(<[TokenTree]>::first).for_each(|first| heads(first, imports));
        }
        _ => {}
    }
}
