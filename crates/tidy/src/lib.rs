//! The style rules that a program can check, so that review need not.
//!
//! `tests/tidy.rs` runs [`check`] over the whole repository and, for each rule, over a planted violation.
//! A rule looks at text, at Rust tokens (so that comments and strings do not count as code) or at `Cargo.toml`; none
//! needs a build.

mod assertions;
mod circles;
mod code;
mod english;
mod giants;
mod ladder;
mod layers;
mod messages;
mod mutants;
mod names;
mod pages;
mod promises;
mod ratchet;
mod rooms;
mod seams;
mod text;
mod tokens;
mod tree;
mod unsafety;

use std::fmt;

pub use tree::{SourceFile, Tree};

/// The rules, one variant each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A Rust file has at most `text::MAX_FILE_LINES` lines.
    FileLength,
    /// A line of a comment or of a page has at most `text::MAX_COLUMNS` characters.
    LineLength,
    /// A Rust file opens with a `//!` head.
    FileHead,
    /// A function has fewer than `tokens::MAX_FUNCTION_LINES` lines.
    FunctionLength,
    /// Unfinished or switched-off code: the marks that stand for "later".
    Unfinished,
    /// A path of one particular machine.
    MachinePath,
    /// Threads, locks and clocks come from `steadyfs-rt` only.
    RtDoor,
    /// `unsafe` stays in the crates and files that are listed for it, and SECURITY.md counts it.
    Unsafe,
    /// Dependencies between our crates point down.
    LayerArrow,
    /// Imports between the rooms of `core` follow its plan.
    RoomArrow,
    /// No more than `circles::MAX_FILES` files of `core` import each other in a circle.
    Circle,
    /// Kinds of volumes, and of translation layers, are told apart in their seams only.
    Seam,
    /// No two types of a crate that other modules see have one name.
    TypeName,
    /// Code of `core` that changes shared state asserts what that promises.
    Assertion,
    /// Each crate has the workspace's licence, each package the texts, and documents are there.
    Licence,
    /// A section or page that a comment cites is in the repository.
    Citation,
    /// Links between pages, and paths that pages name, lead somewhere.
    Link,
    /// The page of the architecture names every crate.
    Crates,
    /// Messages on the page of troubles are printed by the sources.
    Message,
    /// Tests that pages name are there, and each promise names one.
    Promise,
    /// Lines that tests run without are on their page, and no build that ships can lack one.
    Mutant,
    /// Commits are named on pages of measured results only.
    Commit,
    /// Each lock of the core stands on the page of locks.
    Ladder,
    /// No sentence of a comment is too long, and no page has more long sentences than its number.
    LongSentence,
    /// No crate has more phrases that stand for a name, in comments, than its number.
    Wording,
    /// A type with many methods gets no more.
    Giant,
    /// A file does not parse.
    Unreadable,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 27] = [
        Rule::FileLength,
        Rule::LineLength,
        Rule::FileHead,
        Rule::FunctionLength,
        Rule::Unfinished,
        Rule::MachinePath,
        Rule::RtDoor,
        Rule::Unsafe,
        Rule::LayerArrow,
        Rule::RoomArrow,
        Rule::Circle,
        Rule::Seam,
        Rule::TypeName,
        Rule::Assertion,
        Rule::Licence,
        Rule::Citation,
        Rule::Link,
        Rule::Crates,
        Rule::Message,
        Rule::Promise,
        Rule::Mutant,
        Rule::Commit,
        Rule::Ladder,
        Rule::LongSentence,
        Rule::Wording,
        Rule::Giant,
        Rule::Unreadable,
    ];
}

/// One broken rule at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Path from the root of the repository.
    pub path: String,
    /// Line, from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// The fault, in words.
    pub what: String,
}

impl Violation {
    fn new(rule: Rule, path: &str, line: usize, what: impl Into<String>) -> Self {
        Violation { rule, path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {:?}: {}", self.path, self.line, self.rule, self.what)
    }
}

/// Checks every rule on every file of the tree.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in &tree.files {
        text::check(file, &mut found);
        if file.is_rust() {
            tokens::check(file, &mut found);
            rooms::check(file, &mut found);
            seams::check(file, &mut found);
        }
    }
    layers::check(tree, &mut found);
    names::check(tree, &mut found);
    assertions::check(tree, &mut found);
    circles::check(tree, &mut found);
    pages::check(tree, &mut found);
    messages::check(tree, &mut found);
    promises::check(tree, &mut found);
    mutants::check(tree, &mut found);
    ladder::check(tree, &mut found);
    unsafety::check(tree, &mut found);
    english::check(tree, &mut found);
    giants::check(tree, &mut found);
    found
}
