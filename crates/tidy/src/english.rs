//! The English of comments and pages: how long a sentence is, and words that stand for a name.
//!
//! No sentence of a comment has more than [`MAX_IN_COMMENTS`] words. The rest is numbers that may only go down
//! ([`ratchet`]). Comments behind code are short, and not looked at.

use crate::code::is_test_file;
use crate::ratchet::{self, Numbers};
use crate::{Rule, SourceFile, Tree, Violation};

/// The most words of a sentence in a comment.
const MAX_IN_COMMENTS: usize = 40;
/// A sentence of a page that has more words counts.
const MAX_IN_PAGES: usize = 25;
/// The list of changes is no page of the present.
const CHANGES: &str = "CHANGELOG.md";
/// Words that stand for a name.
const WORDS: [&str; 2] = ["whoever", "anew"];
/// Behind "What", these make a phrase that stands for a name.
const AFTER_WHAT: [&str; 6] = ["is", "was", "it", "they", "has", "had"];

pub(crate) fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let (mut wording, mut sentences) = (Numbers::new(), Numbers::new());
    for file in &tree.files {
        if file.is_rust() {
            for (line, text) in paragraphs(file.text.lines().map(comment)) {
                for words in lengths(&text).filter(|words| *words > MAX_IN_COMMENTS) {
                    let what = format!("a sentence of {words} words, the most is {MAX_IN_COMMENTS}");
                    found.push(Violation::new(Rule::LongSentence, &file.path, line, what));
                }
            }
            if let Some(owner) = file.crate_source().filter(|_| !is_test_file(&file.path)) {
                *wording.entry(owner.to_owned()).or_default() += phrases(file);
            }
        } else if file.path.ends_with(".md") && file.path != CHANGES {
            let is_long = |words: &usize| *words > MAX_IN_PAGES;
            let count = |(_, text): (usize, String)| lengths(&text).filter(is_long).count();
            sentences.insert(file.path.clone(), paragraphs(file.text.lines()).into_iter().map(count).sum());
        }
    }
    let what = "of `whoever`, `so many`, `anew`, `What is` and its like in comments";
    ratchet::check(tree, "wording", Rule::Wording, what, &wording, found);
    let what = format!("sentences of more than {MAX_IN_PAGES} words");
    ratchet::check(tree, "sentences", Rule::LongSentence, &what, &sentences, found);
}

/// The text of a line that is a comment; nothing of other lines.
fn comment(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with("//") { line.trim_start_matches('/').trim_start_matches('!') } else { "" }
}

/// Paragraphs and list items in one line each, with the number of their first line. Tables, headings and fenced blocks
/// are left out; what stands between backticks is one word.
fn paragraphs<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let (mut open, mut fenced) = (false, false);
    for (i, line) in lines.enumerate() {
        let line = line.trim();
        let fence = line.starts_with("```");
        fenced ^= fence;
        if fenced || fence || line.is_empty() || line.starts_with(['|', '#']) {
            open = false;
        } else if open
            && !is_item(line)
            && let Some((_, text)) = all.last_mut()
        {
            *text = format!("{text} {line}");
        } else {
            all.push((i + 1, line.to_owned()));
            open = true;
        }
    }
    for (_, text) in &mut all {
        *text = text.split('`').enumerate().map(|(i, piece)| if i % 2 == 0 { piece } else { "code" }).collect();
    }
    all
}

/// Whether an item of a list begins here.
fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* "].iter().any(|mark| line.starts_with(mark)) || (number.len() < line.len() && number.starts_with(". "))
}

/// The number of words of each sentence. A colon or a semicolon ends none: it goes on.
fn lengths(paragraph: &str) -> impl Iterator<Item = usize> {
    let words = paragraph.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).collect::<Vec<_>>();
    let ends = |word: &&str| word.trim_end_matches([')', '"', '\'', '*', '_', ']']).ends_with(['.', '?', '!']);
    words.split_inclusive(ends).map(<[&str]>::len).collect::<Vec<_>>().into_iter()
}

/// How often the comments of a file, before its tests, have a phrase that stands for a name.
fn phrases(file: &SourceFile) -> usize {
    let ships = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    paragraphs(ships.lines().map(comment)).iter().map(|(_, text)| phrases_of(text)).sum()
}

fn phrases_of(paragraph: &str) -> usize {
    let bare = |word: &'_ str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let words: Vec<String> = paragraph.split_whitespace().map(bare).collect();
    let is_phrase = |i: usize| {
        let next = words.get(i + 1).map_or("", String::as_str);
        WORDS.iter().any(|word| words[i].eq_ignore_ascii_case(word))
            || (words[i].eq_ignore_ascii_case("so") && next == "many")
            || (words[i] == "What" && AFTER_WHAT.contains(&next))
    };
    (0..words.len()).filter(|i| is_phrase(*i)).count()
}
