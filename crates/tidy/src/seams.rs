//! The seams of `core` and `flash`: which files may tell one kind of volume, or one translation layer, from another.
//!
//! A seam is a closed enum with an arm for each kind. All other code asks the enum, so that a new kind is an arm and a
//! module and not an `if` in many files. Test code may look at what it wants.

use proc_macro2::{TokenStream, TokenTree};

use crate::code::is_test_file;
use crate::{Rule, SourceFile, Violation};

const CORE: &str = "crates/core/src/";
const FLASH: &str = "crates/flash/src/";

/// A name that stands for a kind, and where it may be.
struct Named {
    name: &'static str,
    /// Where the name has this meaning.
    root: &'static str,
    /// Files below the root that may name it, or folders with a `/` at the end.
    places: &'static [&'static str],
    /// Of an enum its arms are looked for (`Name::Arm`), of a concrete type every use.
    concrete: bool,
}

const fn arms(root: &'static str, name: &'static str, places: &'static [&'static str]) -> Named {
    Named { name, root, places, concrete: false }
}

const fn concrete(root: &'static str, name: &'static str, places: &'static [&'static str]) -> Named {
    Named { name, root, places, concrete: true }
}

const NAMED: [Named; 9] = [
    arms(CORE, "Placement", &["volume/placement/mod.rs", "mount/"]),
    arms(CORE, "Home", &["volume/placement/mod.rs", "volume/segments/"]),
    concrete(CORE, "SegTable", &["volume/segments/", "mount/segmented.rs", "reclaim/host/"]),
    arms(CORE, "Route", &["durable/sync/"]),
    arms(CORE, "Blocks", &["fsck/blocks.rs"]),
    arms(CORE, "Arm", &["reclaim/mod.rs"]),
    concrete(CORE, "HostReclaim", &["reclaim/mod.rs", "reclaim/host/"]),
    concrete(FLASH, "Zns", &["ftl/"]),
    concrete(FLASH, "PageMap", &["ftl/", "parameters.rs", "ssd.rs"]),
];

pub(crate) fn check(file: &SourceFile, found: &mut Vec<Violation>) {
    let Some(root) = [CORE, FLASH].into_iter().find(|root| file.path.starts_with(root)) else { return };
    let path = &file.path[root.len()..];
    if is_test_file(path) {
        return;
    }
    let Ok(tokens) = file.text.parse::<TokenStream>() else { return }; // the rules of tokens say so
    look(&tokens.into_iter().collect::<Vec<_>>(), &mut |name, is_arm, line| {
        let named = NAMED.iter().find(|n| n.root == root && n.name == name && (n.concrete || is_arm));
        let Some(Named { places, .. }) = named else { return };
        let allowed =
            places.iter().any(|place| if place.ends_with('/') { path.starts_with(place) } else { path == *place });
        if !allowed {
            let what = format!("`{name}` tells kinds apart; only {places:?} may");
            found.push(Violation::new(Rule::Seam, &file.path, line, what));
        }
    });
}

/// Tells `named` each name outside of test modules, whether an arm or associated type follows, and its line.
fn look(tokens: &[TokenTree], named: &mut impl FnMut(&str, bool, usize)) {
    let mut i = 0;
    while i < tokens.len() {
        match &tokens[i..] {
            [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Group(_), ..]
                if word == "mod" && name == "tests" =>
            {
                i += 3;
                continue;
            }
            [TokenTree::Ident(name), rest @ ..] => {
                named(&name.to_string(), is_path_to_type(rest), name.span().start().line);
            }
            [TokenTree::Group(group), ..] => look(&group.stream().into_iter().collect::<Vec<_>>(), named),
            _ => {}
        }
        i += 1;
    }
}

/// Whether these tokens go on with `::Type`.
fn is_path_to_type(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [TokenTree::Punct(a), TokenTree::Punct(b), TokenTree::Ident(arm), ..]
        if a.as_char() == ':' && b.as_char() == ':' && is_type(arm))
}

fn is_type(name: &proc_macro2::Ident) -> bool {
    name.to_string().starts_with(char::is_uppercase)
}
