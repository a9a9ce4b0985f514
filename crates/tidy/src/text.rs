//! Rules that look at plain text: length, head, marks of unfinished work, paths of a machine.
//!
//! The words looked for are put together from pieces, so that this file does not break its own rules.

use crate::{Rule, SourceFile, Violation};

/// The longest a Rust file may be.
pub(crate) const MAX_FILE_LINES: usize = 1000;

/// The longest a line of a comment or of a page may be, in characters; rustfmt sees to code.
pub(crate) const MAX_COLUMNS: usize = 120;

/// Marks that stand for "later", wherever they stand.
const UNFINISHED: [&str; 5] = [
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("#[", "ignore"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: [&str; 3] = [concat!("/", "work/"), concat!("/", "farm/"), concat!("/", "root/")];

pub(crate) fn check(file: &SourceFile, found: &mut Vec<Violation>) {
    if file.is_rust() {
        let lines = file.text.lines().count();
        if lines > MAX_FILE_LINES {
            let what = format!("{lines} lines, the most is {MAX_FILE_LINES}: more than one idea lives here");
            found.push(Violation::new(Rule::FileLength, &file.path, 0, what));
        }
        if !file.text.starts_with("//!") {
            let what = "does not open with a `//!` head (what it is for, what it keeps true, what it relies on)";
            found.push(Violation::new(Rule::FileHead, &file.path, 1, what));
        }
    }
    columns(file, found);
    for (i, line) in file.text.lines().enumerate() {
        if let Some(mark) = UNFINISHED.iter().find(|mark| has_word(line, mark)) {
            found.push(Violation::new(Rule::Unfinished, &file.path, i + 1, format!("`{mark}`")));
        }
        if let Some(path) = MACHINE_PATHS.iter().find(|path| has_word(line, path)) {
            found.push(Violation::new(Rule::MachinePath, &file.path, i + 1, format!("`{path}`")));
        }
    }
}

/// Comments of Rust files and the text of pages keep to [`MAX_COLUMNS`]. Rows of tables, fenced blocks and lines that
/// are one long word cannot be broken.
fn columns(file: &SourceFile, found: &mut Vec<Violation>) {
    let page = file.path.ends_with(".md");
    let mut fenced = false;
    for (i, line) in file.text.lines().enumerate() {
        let trimmed = line.trim_start();
        let comment = trimmed.starts_with("//");
        if !page && !comment {
            fenced = false;
            continue;
        }
        let text = if page { trimmed } else { trimmed.trim_start_matches(['/', '!']).trim_start() };
        let fence = text.starts_with("```");
        fenced ^= fence;
        let columns = line.chars().count();
        let breakable = !fenced && !fence && !text.starts_with('|') && text.trim_start_matches("- ").contains(' ');
        if columns > MAX_COLUMNS && breakable {
            let what = format!("{columns} columns, the most is {MAX_COLUMNS}");
            found.push(Violation::new(Rule::LineLength, &file.path, i + 1, what));
        }
    }
}

/// Whether `word` is in `line`, not as a part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let open_end = word.ends_with(part_of_word) && line[at + word.len()..].starts_with(part_of_word);
        !line[..at].ends_with(part_of_word) && !open_end
    })
}
