//! Assertions of what shared state promises, in the code that ships: a floor for each folder of `core` that changes
//! such state.
//!
//! Counted are `assert!`, `assert_eq!` and `assert_ne!` outside of test code; lines of code are those with a token of
//! code that ships. A folder that has too few has lost some, or has grown without any.

use std::collections::BTreeSet;

use proc_macro2::{Group, TokenTree};

use crate::code::{is_test_file, shipped, without_tests};
use crate::{Rule, Tree, Violation};

/// Least number of assertions in a thousand lines of code.
const FLOORS: [(&str, usize); 4] = [
    ("crates/core/src/volume/", 15),
    ("crates/core/src/durable/", 15),
    ("crates/core/src/reclaim/", 15),
    ("crates/core/src/files/", 15),
];

/// Of less code nothing is said.
const LEAST_LINES: usize = 1000;

pub(crate) fn check(tree: &Tree, found: &mut Vec<Violation>) {
    for (folder, floor) in FLOORS {
        let (mut lines, mut assertions) = (0, 0);
        for file in tree.files.iter().filter(|file| file.is_rust() && file.path.starts_with(folder)) {
            if !is_test_file(&file.path) {
                let mut code = BTreeSet::new();
                assertions += count(&shipped(file), &mut code);
                lines += code.len();
            }
        }
        if lines >= LEAST_LINES && assertions * 1000 < floor * lines {
            let what = format!("{assertions} assertions in {lines} lines of code; at least {floor} in a thousand");
            found.push(Violation::new(Rule::Assertion, folder, 0, what));
        }
    }
}

/// `[doc = ..]`, which a comment with three strokes is to tokens.
fn is_comment(group: &Group) -> bool {
    matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(name)) if name == "doc")
}

/// Assertions among these tokens; notes the lines on which these stand.
fn count(tokens: &[TokenTree], lines: &mut BTreeSet<usize>) -> usize {
    let mut assertions = 0;
    for (i, token) in tokens.iter().enumerate() {
        let span = token.span();
        match token {
            // A comment that says what follows it.
            TokenTree::Group(group) if is_comment(group) => {}
            TokenTree::Punct(mark) if mark.as_char() == '#' => {}
            TokenTree::Group(group) => {
                lines.extend([group.span_open().start().line, group.span_close().end().line]);
                assertions += count(&without_tests(group.stream()), lines);
            }
            TokenTree::Ident(name) => {
                lines.insert(span.start().line);
                let is_called = matches!(tokens.get(i + 1), Some(TokenTree::Punct(p)) if p.as_char() == '!');
                let is_one = ["assert", "assert_eq", "assert_ne"].iter().any(|one| name == one);
                assertions += usize::from(is_called && is_one);
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => lines.extend(span.start().line..=span.end().line),
        }
    }
    assertions
}
