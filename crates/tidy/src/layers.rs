//! Rules that look at `Cargo.toml`: the arrows between the layers, and licences.
//!
//! The table below is the architecture: a crate may import what is listed for it and nothing else of ours. Test tools
//! (`publish = false`) stand outside: they may import anything, and nobody may import them but as a dev-dependency.

use crate::{Rule, Tree, Violation};

/// Which of our crates each of our crates may import, by directory name.
const MAY_IMPORT: [(&str, &[&str]); 11] = [
    ("rt", &[]),
    ("format", &[]),
    ("device", &["rt"]),
    ("flash", &["rt", "device"]),
    ("journal", &["rt"]),
    ("core", &["rt", "device", "format", "journal"]),
    ("trace", &["rt"]),
    ("fuse", &["rt", "device", "format", "core", "trace"]),
    ("crash", &["rt", "device", "format", "core"]),
    ("lab", &["rt", "device", "format", "journal", "core", "flash", "trace"]),
    ("steadyfs", &["rt", "device", "format", "core", "flash", "trace", "fuse", "crash", "lab"]),
];

/// The texts of the licences.
const TEXTS: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];
/// How `include` names them.
const TEXTS_PATTERN: &str = "LICENSE-*";
/// Files without which the repository is not complete.
const REQUIRED: [&str; 5] = ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "CHANGELOG.md", "docs/COMPATIBILITY.md"];

pub(crate) fn check(tree: &Tree, found: &mut Vec<Violation>) {
    for path in REQUIRED {
        if tree.get(path).is_none_or(|f| f.text.trim().is_empty()) {
            found.push(Violation::new(Rule::Licence, path, 0, "missing"));
        }
    }
    for file in &tree.files {
        let Some(name) = file.path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/Cargo.toml")) else {
            continue;
        };
        match file.text.parse::<toml::Table>() {
            Ok(manifest) => manifest_rules(tree, name, &file.path, &manifest, found),
            Err(e) => found.push(Violation::new(Rule::Unreadable, &file.path, 0, e.to_string())),
        }
    }
}

fn manifest_rules(tree: &Tree, name: &str, path: &str, manifest: &toml::Table, found: &mut Vec<Violation>) {
    let package = manifest.get("package").and_then(|p| p.as_table());
    let licence = package.and_then(|p| p.get("license"));
    let from_workspace = licence.and_then(|l| l.get("workspace")).and_then(|w| w.as_bool()) == Some(true);
    if !from_workspace {
        found.push(Violation::new(Rule::Licence, path, 0, "needs `license.workspace = true`"));
    }
    if package.and_then(|p| p.get("publish")).and_then(|p| p.as_bool()) == Some(false) {
        return;
    }
    let Some((_, allowed)) = MAY_IMPORT.iter().find(|(crate_name, _)| *crate_name == name) else {
        found.push(Violation::new(Rule::LayerArrow, path, 0, format!("`{name}` is not in the table of layers")));
        return;
    };
    let dependencies = manifest.get("dependencies").and_then(|d| d.as_table());
    for ours in dependencies.into_iter().flat_map(|d| d.keys()).filter_map(|d| our_crate(d)) {
        if !allowed.contains(&ours) {
            let what = format!("`{name}` imports `{ours}`; it may import {allowed:?}");
            found.push(Violation::new(Rule::LayerArrow, path, 0, what));
        }
    }
    texts_in_package(tree, name, path, package.and_then(|p| p.get("include")), found);
}

/// The package of a crate that is published holds the texts of the licences: links to those of the repository, which
/// its `include` names, if it has one.
fn texts_in_package(tree: &Tree, name: &str, path: &str, include: Option<&toml::Value>, found: &mut Vec<Violation>) {
    let patterns = include.and_then(|i| i.as_array());
    if patterns.is_some_and(|all| !all.iter().any(|pattern| pattern.as_str() == Some(TEXTS_PATTERN))) {
        found.push(Violation::new(Rule::Licence, path, 0, format!("`include` lacks `{TEXTS_PATTERN}`")));
    }
    for text in TEXTS {
        let copy = format!("crates/{name}/{text}");
        let Some(original) = tree.get(text) else { continue };
        if tree.get(&copy).map_or(!tree.data.contains(&copy), |file| file.text != original.text) {
            found.push(Violation::new(Rule::Licence, &copy, 0, format!("needs to be a link to ../../{text}")));
        }
    }
}

/// The directory name of one of our crates, from its package name.
fn our_crate(package: &str) -> Option<&str> {
    if package == "steadyfs" { Some("steadyfs") } else { package.strip_prefix("steadyfs-") }
}
