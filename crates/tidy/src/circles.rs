//! Circles of imports: files of `core` that import each other, straight or through others.
//!
//! Nobody can read one file of a circle without the others, so a circle is small, or it is taken apart: what both sides
//! need moves below both. An arrow runs from a file to the file of each path that it writes, in a `use` or elsewhere:
//! `crate::`, `self::` and `super::` paths, and those that begin with a module of its own. A name that a module hands
//! on counts as that module's. The declaration of a module is no import.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenTree};

use crate::code::{is_test_file, shipped, without_tests};
use crate::{Rule, Tree, Violation};

const ROOT: &str = "crates/core/src/";

/// Most files that may import each other in a circle.
pub(crate) const MAX_FILES: usize = 8;

pub(crate) fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let house = House::of(tree);
    for circle in house.circles().into_iter().filter(|circle| circle.len() > MAX_FILES) {
        let short = |file: &'_ str| file.strip_prefix(ROOT).unwrap_or(file).to_owned();
        let arrows = circle.iter().map(|file| {
            let others = house.arrows[file].iter().filter(|other| circle.contains(other));
            format!("{} -> {}", short(file), others.map(|other| short(other)).collect::<Vec<_>>().join(", "))
        });
        let arrows = arrows.collect::<Vec<_>>().join("; ");
        let what = format!("{} files import each other in a circle, at most {MAX_FILES} may: {arrows}", circle.len());
        found.push(Violation::new(Rule::Circle, circle[0], 0, what));
    }
}

/// The file of each module.
type Homes<'a> = BTreeMap<Vec<String>, &'a str>;

/// The files, and the arrows between them.
struct House<'a> {
    arrows: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> House<'a> {
    fn of(tree: &'a Tree) -> Self {
        let ships = |path: &str| path.starts_with(ROOT) && !is_test_file(&path[ROOT.len()..]);
        let files: Vec<_> = tree.files.iter().filter(|file| file.is_rust() && ships(&file.path)).collect();
        let homes: Homes<'_> = files.iter().map(|file| (module(&file.path), file.path.as_str())).collect();
        let arrows = files.iter().map(|file| {
            let mut paths = Vec::new();
            collect(&shipped(file), &module(&file.path), &homes, &mut paths);
            let mut others: BTreeSet<&str> = paths.iter().filter_map(|path| home(path, &homes)).collect();
            others.remove(file.path.as_str());
            (file.path.as_str(), others)
        });
        House { arrows: arrows.collect() }
    }

    /// Files that a file leads to, itself only if a way leads back.
    fn reached(&self, from: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&'a str> = vec![from];
        while let Some(file) = next.pop() {
            next.extend(self.arrows.get(file).into_iter().flatten().filter(|other| reached.insert(**other)));
        }
        reached
    }

    /// The circles: files each of which leads to each other one.
    fn circles(&self) -> Vec<Vec<&'a str>> {
        let reached: BTreeMap<&'a str, BTreeSet<&'a str>> =
            self.arrows.keys().map(|file| (*file, self.reached(file))).collect();
        let mut told = BTreeSet::new();
        let mut circles = Vec::new();
        for (&file, others) in &reached {
            if others.contains(file) && !told.contains(file) {
                let circle: Vec<&str> = others.iter().copied().filter(|other| reached[other].contains(file)).collect();
                told.extend(circle.iter().copied());
                circles.push(circle);
            }
        }
        circles
    }
}

/// The path of the module that a file holds, without `crate`.
fn module(path: &str) -> Vec<String> {
    let inside = path.strip_prefix(ROOT).unwrap_or(path);
    let inside = inside.strip_suffix(".rs").unwrap_or(inside);
    let parts = inside.split('/').filter(|part| !["mod", "lib"].contains(part));
    parts.map(str::to_owned).collect()
}

/// The file that holds what a path names: that of the longest module in it.
fn home<'a>(path: &[String], homes: &Homes<'a>) -> Option<&'a str> {
    (0..=path.len()).rev().find_map(|end| homes.get(&path[..end]).copied())
}

/// The paths in these tokens of a module, from the root of the crate on.
fn collect(tokens: &[TokenTree], here: &[String], homes: &Homes<'_>, paths: &mut Vec<Vec<String>>) {
    let mut i = 0;
    while i < tokens.len() {
        match &tokens[i..] {
            [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Group(body), ..] if word == "mod" => {
                let inner = [here, &[name.to_string()]].concat();
                collect(&without_tests(body.stream()), &inner, homes, paths);
                i += 3;
            }
            [TokenTree::Ident(first), rest @ ..] if is_separator(rest) => {
                let first = first.to_string();
                let start = match first.as_str() {
                    "crate" => Some(Vec::new()),
                    "self" => Some(here.to_vec()),
                    "super" => Some(here[..here.len().saturating_sub(1)].to_vec()),
                    // A module of this one; what else a path begins with has its own arrow, or is of another crate.
                    child => Some([here, &[child.to_owned()]].concat()).filter(|path| homes.contains_key(path)),
                };
                let behind = i > 0 && matches!(&tokens[i - 1], TokenTree::Punct(p) if p.as_char() == ':');
                i += 3;
                if let Some(start) = start.filter(|_| !behind) {
                    i += follow(&tokens[i..], start, paths);
                }
            }
            // Who may see it: no import.
            [TokenTree::Ident(word), TokenTree::Group(reach), ..]
                if word == "pub" && reach.delimiter() == Delimiter::Parenthesis =>
            {
                i += 2;
            }
            [TokenTree::Group(group), ..] => {
                collect(&without_tests(group.stream()), here, homes, paths);
                i += 1;
            }
            _ => i += 1,
        }
    }
}

/// Whether `::` comes next.
fn is_separator(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [TokenTree::Punct(a), TokenTree::Punct(b), ..] if a.as_char() == ':' && b.as_char() == ':')
}

/// Goes on with a path behind a `::`; returns how many tokens it has taken.
fn follow(tokens: &[TokenTree], mut path: Vec<String>, paths: &mut Vec<Vec<String>>) -> usize {
    let mut taken = 0;
    loop {
        match &tokens[taken..] {
            [TokenTree::Ident(name), rest @ ..] => {
                match name.to_string().as_str() {
                    "super" => drop(path.pop()),
                    "self" => {}
                    name => path.push(name.to_owned()),
                }
                taken += 1;
                if !is_separator(rest) {
                    break;
                }
                taken += 2;
            }
            [TokenTree::Group(group), ..] => {
                let branches: Vec<TokenTree> = group.stream().into_iter().collect();
                for branch in branches.split(|token| matches!(token, TokenTree::Punct(p) if p.as_char() == ',')) {
                    follow(branch, path.clone(), paths);
                }
                return taken + 1;
            }
            // `*`, or the arguments of a generic.
            _ => break,
        }
    }
    paths.push(path);
    taken
}
