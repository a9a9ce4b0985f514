//! Rules that look at the pages: links and paths lead somewhere, sections that comments cite exist, the page of the
//! architecture names every crate.

use crate::{Rule, SourceFile, Tree, Violation};

/// The page whose sections comments cite.
const FORMAT: &str = "docs/FORMAT.md";
/// The page that names every crate.
const CRATES: &str = "docs/ARCHITECTURE.md";
/// Folders of the repository that pages and comments name files of.
const FOLDERS: [&str; 5] = ["crates/", "docs/", "fuzz/", "tools/", ".ci/"];
/// Pages of what was measured, or folders of them, which name the commit that it was measured at; and the list of
/// changes.
const WITH_COMMITS: [&str; 4] = ["CHANGELOG.md", "docs/BENCHMARKS.md", "docs/TESTING.md", "docs/lab/results/"];
/// Words that come before the numbers of sections.
const CITED: [&str; 2] = ["ormat section ", "ormat sections "];

pub(crate) fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let sections: Vec<String> =
        tree.get(FORMAT).map(|page| headings(&page.text).filter_map(number).collect()).unwrap_or_default();
    for file in &tree.files {
        if file.is_rust() {
            for (line, comment) in comments(&file.text) {
                citations(file, line, &comment, &sections, found);
                named_pages(tree, file, line, &comment, found);
            }
        } else if file.path.ends_with(".md") {
            links(tree, file, found);
            if file.path != "CHANGELOG.md" {
                named_paths(tree, file, found);
            }
            if !WITH_COMMITS.iter().any(|page| file.path.starts_with(page)) {
                commits(file, found);
            }
        }
    }
    named_crates(tree, found);
}

/// Each run of comment lines as one text without line ends, with the number of its first line.
fn comments(text: &str) -> Vec<(usize, String)> {
    let mut runs: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if !line.starts_with("//") {
            open = false;
            continue;
        }
        let words = line.trim_start_matches(['/', '!']).trim();
        if open && let Some((_, run)) = runs.last_mut() {
            run.push(' ');
            run.push_str(words);
        } else {
            runs.push((i + 1, words.to_owned()));
        }
        open = true;
    }
    runs
}

/// Each number behind one of [`CITED`], in a list with commas, "and" or "to", is a heading.
fn citations(file: &SourceFile, line: usize, comment: &str, sections: &[String], found: &mut Vec<Violation>) {
    for cited in CITED {
        for (at, _) in comment.match_indices(cited) {
            for word in comment[at + cited.len()..].split([' ', ',', ';', ')']).filter(|word| !word.is_empty()) {
                let word = word.trim_end_matches(['.', ':']);
                if matches!(word, "and" | "to") {
                    continue;
                }
                if !word.starts_with(|c: char| c.is_ascii_digit()) {
                    break;
                }
                if !sections.iter().any(|section| section == word) {
                    let what = format!("{FORMAT} has no section {word}");
                    found.push(Violation::new(Rule::Citation, &file.path, line, what));
                }
            }
        }
    }
}

/// A page that a comment names is there. One outside of the repository helps no reader.
fn named_pages(tree: &Tree, file: &SourceFile, line: usize, comment: &str, found: &mut Vec<Violation>) {
    for word in comment.split(|c: char| !c.is_alphanumeric() && !"./-_#".contains(c)) {
        let word = word.trim_end_matches('.');
        let page = word.split('#').next().unwrap_or(word);
        if page.ends_with(".md") && page != ".md" && !leads_somewhere(tree, "", word) {
            found.push(Violation::new(Rule::Citation, &file.path, line, format!("there is no page `{word}`")));
        }
    }
}

/// The text of each heading of a page.
fn headings(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter_map(move |line| {
        fenced ^= line.starts_with("```");
        let title = line.trim_start_matches('#');
        (!fenced && title.len() < line.len() && title.starts_with(' ')).then(|| title.trim())
    })
}

/// The number that a heading begins with, if any.
fn number(heading: &str) -> Option<String> {
    let word = heading.split(' ').next()?.trim_end_matches('.');
    word.starts_with(|c: char| c.is_ascii_digit()).then(|| word.to_owned())
}

/// The anchor that web pages of the repository give to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The lines of a page without fenced blocks and without what stands between backticks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(i, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then(|| (i + 1, line.split('`').step_by(2).collect::<Vec<_>>().join("`")))
    })
}

fn links(tree: &Tree, page: &SourceFile, found: &mut Vec<Violation>) {
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    for (line, text) in prose(&page.text) {
        for (at, _) in text.match_indices("](") {
            let Some((target, _)) = text[at + 2..].split_once(')') else { continue };
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let whole = if target.starts_with('#') { page.path.clone() + target } else { target.to_owned() };
            let folder = if target.starts_with('#') { "" } else { folder };
            if !leads_somewhere(tree, folder, &whole) {
                let what = format!("the link `{target}` leads nowhere");
                found.push(Violation::new(Rule::Link, &page.path, line, what));
            }
        }
    }
}

/// Whether a path, seen from a folder, is a file or a folder of the tree, and has the anchor behind its `#`.
fn leads_somewhere(tree: &Tree, folder: &str, target: &str) -> bool {
    let (path, wanted) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => return false,
            ".." => {}
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    match (tree.get(&path), wanted) {
        (Some(_), None) => true,
        (Some(file), Some(wanted)) => headings(&file.text).any(|heading| anchor(heading) == wanted),
        (None, wanted) => wanted.is_none() && (tree.data.contains(&path) || is_folder(tree, &path)),
    }
}

fn is_folder(tree: &Tree, path: &str) -> bool {
    let mut paths = tree.files.iter().map(|file| &file.path).chain(&tree.data);
    paths.any(|file| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
}

/// Paths between backticks that begin with one of [`FOLDERS`] are there.
fn named_paths(tree: &Tree, page: &SourceFile, found: &mut Vec<Violation>) {
    for (i, line) in page.text.lines().enumerate() {
        for word in line.split('`').skip(1).step_by(2).flat_map(|code| code.split([' ', ','])) {
            // What stands behind is a test of the file, which the rule of promises looks for.
            let path = word.split("::").next().unwrap_or(word).trim_end_matches('/');
            if !FOLDERS.iter().any(|folder| word.starts_with(folder)) || word.contains(['*', '{', '<']) {
                continue;
            }
            if !leads_somewhere(tree, "", path) {
                found.push(Violation::new(Rule::Link, &page.path, i + 1, format!("there is no `{path}`")));
            }
        }
    }
}

/// Words that look like the id of a commit, short or whole: hexadecimal, with digits and letters.
fn commits(page: &SourceFile, found: &mut Vec<Violation>) {
    for (i, line) in page.text.lines().enumerate() {
        for word in line.split(|c: char| !c.is_alphanumeric()) {
            let hexadecimal = word.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            let mixed = word.bytes().any(|b| b.is_ascii_digit()) && word.bytes().any(|b| b.is_ascii_lowercase());
            if hexadecimal && mixed && matches!(word.len(), 7..=12 | 40) {
                found.push(Violation::new(Rule::Commit, &page.path, i + 1, format!("`{word}` is history")));
            }
        }
    }
}

fn named_crates(tree: &Tree, found: &mut Vec<Violation>) {
    let Some(page) = tree.get(CRATES) else { return };
    for file in &tree.files {
        let Some(name) = file.path.strip_suffix("/Cargo.toml").filter(|path| path.starts_with("crates/")) else {
            continue;
        };
        if !page.text.contains(&format!("`{name}`")) {
            found.push(Violation::new(Rule::Crates, CRATES, 0, format!("does not name `{name}`")));
        }
    }
}
