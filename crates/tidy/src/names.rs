//! One meaning a name: no two types of a crate that other modules see have one name.
//!
//! The path of a module does not make a name another one: a reader, a search and a message of the compiler show the
//! last part. Types that only their own module sees may be called what they like; so may two arms of a `cfg` in one
//! file.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, TokenTree};

use crate::code::{is_test_file, shipped, without_tests};
use crate::{Rule, Tree, Violation};

/// Folders that are crates of their own beside the one around them.
const CRATES_WITHIN: [&str; 2] = ["crates/bench/src/bin/soak/", "crates/steadyfs/src/library/"];

/// Names that several types of a crate have, and why: crate, name, reason.
const SHARED: [(&str, &str, &str); 3] = [
    ("steadyfs", "Args", "each command's file has its own, as the parser of arguments wants; no file sees two"),
    ("format", "SuperBlock", "the same part of an IPLFS volume; `infinite` is a format of its own"),
    ("format", "Checkpoint", "the same part of an IPLFS volume; `infinite` is a format of its own"),
];

/// What introduces a type.
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

pub(crate) fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let mut types: BTreeMap<(String, String), Vec<(&str, usize)>> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| file.is_rust() && !is_test_file(&file.path)) {
        let Some(owner) = owner(&file.path) else { continue };
        let mut names = Vec::new();
        collect(&shipped(file), &mut names);
        for (name, line) in names {
            let places = types.entry((owner.to_owned(), name)).or_default();
            if places.iter().all(|(path, _)| *path != file.path) {
                places.push((&file.path, line));
            }
        }
    }
    for ((owner, name), places) in types {
        let [(first, _), others @ ..] = &places[..] else { continue };
        if SHARED.iter().any(|(krate, shared, _)| *krate == owner && *shared == name) {
            continue;
        }
        for (path, line) in others {
            let what = format!("`{name}` is also a type of {first}: one meaning, one name");
            found.push(Violation::new(Rule::TypeName, path, *line, what));
        }
    }
}

/// The crate that a source file belongs to.
fn owner(path: &str) -> Option<&str> {
    let within = CRATES_WITHIN.into_iter().find(|folder| path.starts_with(folder));
    within.or_else(|| path.strip_prefix("crates/")?.split_once("/src/").map(|(name, _)| name))
}

/// The types with a `pub` of any reach, and their lines.
fn collect(tokens: &[TokenTree], names: &mut Vec<(String, usize)>) {
    for (i, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) if word == "pub" => {
                let rest = match &tokens[i + 1..] {
                    [TokenTree::Group(reach), rest @ ..] if reach.delimiter() == Delimiter::Parenthesis => rest,
                    rest => rest,
                };
                if let [TokenTree::Ident(keyword), TokenTree::Ident(name), ..] = rest
                    && KEYWORDS.iter().any(|known| keyword == known)
                {
                    names.push((name.to_string(), name.span().start().line));
                }
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                collect(&without_tests(group.stream()), names);
            }
            _ => {}
        }
    }
}
