//! What programs read: a tree of files, its archive, and a repository of it, beside the file system that is measured.

use super::{program, said};
use crate::data::{Buffer, Entry, MIB, source_tree};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Paths of the source.
pub(super) struct Source {
    /// The tree.
    pub(super) tree: PathBuf,
    /// It as a tar archive.
    pub(super) archive: PathBuf,
    /// It as a bare repository of git.
    pub(super) repository: PathBuf,
    /// A crate of Rust without dependencies.
    pub(super) package: PathBuf,
    /// Files and directories of the tree.
    pub(super) entries: u64,
}

/// Modules of the crate.
const MODULES: u64 = 40;

impl Source {
    /// Makes all of it below `dir`, with `files` files; the repository only if it is needed.
    pub(super) fn make(dir: &Path, files: usize, repository: bool) -> Result<Self> {
        let at = |name: &str| dir.join(name);
        let (tree, archive, bare, package) = (at("tree"), at("tree.tar"), at("tree.git"), at("package"));
        std::fs::create_dir(&tree)?;
        let data = Buffer::random(MIB, 9);
        let entries = source_tree(files);
        for entry in &entries {
            match entry {
                Entry::Dir(path) => std::fs::create_dir(tree.join(path))?,
                Entry::File(path, size) => std::fs::write(tree.join(path), &data.bytes()[..(*size).min(MIB)])?,
            }
        }
        said(program("tar")?.arg("-cf").arg(&archive).arg("-C").arg(&tree).arg("."))?;
        if repository {
            let git = |words: &[&str]| {
                let identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"];
                said(program("git")?.arg("-C").arg(&tree).args(identity).args(words))
            };
            git(&["init", "-q"])?;
            git(&["add", "."])?;
            git(&["commit", "-q", "-m", "the tree"])?;
            said(program("git")?.args(["clone", "-q", "--bare"]).arg(&tree).arg(&bare))?;
            std::fs::remove_dir_all(tree.join(".git"))?;
        }
        make_package(&package)?;
        Ok(Source { tree, archive, repository: bare, package, entries: entries.len() as u64 })
    }
}

/// A library of some modules with generic code.
fn make_package(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir.join("src"))?;
    let manifest = "[package]\nname = \"sample\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n";
    std::fs::write(dir.join("Cargo.toml"), manifest)?;
    let mut root = String::new();
    for number in 0..MODULES {
        root += &format!("pub mod m{number};\n");
        let text = format!(
            "use std::collections::BTreeMap;\n\
             pub fn count(words: &[String]) -> BTreeMap<String, usize> {{\n    \
             let mut seen = BTreeMap::new();\n    \
             for word in words {{ *seen.entry(format!(\"{{word}}-{number}\")).or_insert(0) += 1; }}\n    seen\n}}\n"
        );
        std::fs::write(dir.join(format!("src/m{number}.rs")), text)?;
    }
    std::fs::write(dir.join("src/lib.rs"), root)?;
    Ok(())
}
