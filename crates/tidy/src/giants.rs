//! Types of `core` with many methods: no method more than today, wherever its block stands.

use proc_macro2::{Delimiter, TokenTree};

use crate::code::{is_test_file, shipped, without_tests};
use crate::ratchet::{self, Numbers};
use crate::{Rule, Tree, Violation};

/// The types that are counted.
const GIANTS: [&str; 4] = ["Durable", "Files", "Fs", "Reclaim"];

pub(crate) fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let mut counts = Numbers::new();
    for file in tree.files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/core/src/")) {
        if !is_test_file(&file.path) {
            for (name, methods) in blocks(&shipped(file)) {
                *counts.entry(name).or_default() += methods;
            }
        }
    }
    ratchet::check(tree, "methods", Rule::Giant, "methods", &counts, found);
}

/// The blocks `impl NAME { .. }` of giants, each with its number of methods.
fn blocks(tokens: &[TokenTree]) -> Vec<(String, usize)> {
    let of = |window: &[TokenTree]| match window {
        [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Group(block)]
            if word == "impl" && block.delimiter() == Delimiter::Brace && GIANTS.iter().any(|giant| name == giant) =>
        {
            let inside = without_tests(block.stream());
            Some((name.to_string(), inside.iter().filter(|token| is_fn(token)).count()))
        }
        _ => None,
    };
    tokens.windows(3).filter_map(of).collect()
}

/// Between the braces of a block, and not of a method, each `fn` begins one.
fn is_fn(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Ident(word) if word == "fn")
}
