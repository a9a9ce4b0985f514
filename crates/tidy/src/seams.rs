//! The seams of `core`: which files may tell one kind of volume from another.
//!
//! A seam is a closed enum with an arm for each kind. All other code asks the enum, so that a new kind is an arm and a
//! module and not an `if` in many files. Test code may look at what it wants.

use proc_macro2::{TokenStream, TokenTree};

use crate::{Rule, SourceFile, Violation};

const ROOT: &str = "crates/core/src/";

/// Names that stand for a kind of volume, and where below [`ROOT`] they may be: files, or folders with a `/` at the
/// end. An enum here stands for its arms.
const NAMED_IN: [(&str, &[&str]); 4] = [
    ("Placement", &["volume/placement.rs", "mount/"]),
    ("Home", &["volume/placement.rs", "volume/segments/"]),
    ("Route", &["durable/sync/"]),
    ("SegTable", &["volume/segments/", "mount/segmented.rs", "reclaim/"]),
];

pub(crate) fn check(file: &SourceFile, found: &mut Vec<Violation>) {
    let Some(path) = file.path.strip_prefix(ROOT) else { return };
    if path.split('/').any(|part| part == "tests" || part == "tests.rs") {
        return;
    }
    let Ok(tokens) = file.text.parse::<TokenStream>() else { return }; // the rules of tokens say so
    look(&tokens.into_iter().collect::<Vec<_>>(), &mut |name, line| {
        let Some((_, places)) = NAMED_IN.iter().find(|(seam, _)| *seam == name) else { return };
        let allowed =
            places.iter().any(|place| if place.ends_with('/') { path.starts_with(place) } else { path == *place });
        if !allowed {
            let what = format!("`{name}` tells kinds of volumes apart; only {places:?} may");
            found.push(Violation::new(Rule::Seam, &file.path, line, what));
        }
    });
}

/// Tells `named` each arm's enum (`Name::Arm`), and each other type, with its line, outside of test modules.
fn look(tokens: &[TokenTree], named: &mut impl FnMut(&str, usize)) {
    let mut i = 0;
    while i < tokens.len() {
        match &tokens[i..] {
            [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Group(_), ..]
                if word == "mod" && name == "tests" =>
            {
                i += 3;
                continue;
            }
            [TokenTree::Ident(name), TokenTree::Punct(a), TokenTree::Punct(b), TokenTree::Ident(arm), ..]
                if a.as_char() == ':' && b.as_char() == ':' && is_type(arm) =>
            {
                named(&name.to_string(), name.span().start().line);
            }
            [TokenTree::Ident(name), ..] if name == "SegTable" => {
                named(&name.to_string(), name.span().start().line);
            }
            [TokenTree::Group(group), ..] => look(&group.stream().into_iter().collect::<Vec<_>>(), named),
            _ => {}
        }
        i += 1;
    }
}

fn is_type(name: &proc_macro2::Ident) -> bool {
    name.to_string().starts_with(char::is_uppercase)
}
