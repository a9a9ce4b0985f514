//! The files of the repository, as text.
//!
//! Files are found by walking, not by asking git, so that the rules also hold in an unpacked release.

use std::path::Path;
use std::{fs, io};

/// Names that stand for nothing written by hand (`.git` is a file in a git worktree).
const SKIPPED: [&str; 4] = ["target", ".git", "corpus", "artifacts"];
/// A larger file is data.
const MAX_TEXT: u64 = 1 << 20;

/// One text file.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Path from the root, with `/` between the parts.
    pub path: String,
    /// Its contents.
    pub text: String,
}

impl SourceFile {
    /// A file from parts (for planted violations).
    pub fn new(path: &str, text: impl Into<String>) -> Self {
        SourceFile { path: path.to_owned(), text: text.into() }
    }

    /// Whether this is Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The crate directory's name if this is library or program source of a workspace crate (`crates/NAME/src/...`).
    pub fn crate_source(&self) -> Option<&str> {
        let (name, rest) = self.path.strip_prefix("crates/")?.split_once('/')?;
        rest.starts_with("src/").then_some(name)
    }
}

/// All text files of the repository.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The files, in the order of their paths.
    pub files: Vec<SourceFile>,
    /// Paths of the files that are data.
    pub data: Vec<String>,
}

impl Tree {
    /// Reads the tree below `root`. Files that are not UTF-8 or are larger than 1 MiB are data: of them it keeps
    /// the paths.
    pub fn load(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        walk(root, "", &mut tree)?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// The file at `path`.
    pub fn get(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|f| f.path == path)
    }

    /// The tree with `file` added, or put in the place of the one with its path.
    pub fn with(mut self, file: SourceFile) -> Tree {
        self.files.retain(|f| f.path != file.path);
        self.files.push(file);
        self
    }

    /// The tree without the file at `path`.
    pub fn without(mut self, path: &str) -> Tree {
        self.files.retain(|f| f.path != path);
        self
    }
}

fn walk(dir: &Path, prefix: &str, out: &mut Tree) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        let kind = entry.file_type()?;
        // A link to a file is that file, as a package has it; one to a folder might lead round in a circle.
        let file = fs::metadata(entry.path()).ok().filter(|target| target.is_file());
        if kind.is_dir() {
            walk(&entry.path(), &path, out)?;
        } else if let Some(file) = file {
            let text = (file.len() <= MAX_TEXT).then(|| fs::read(entry.path())).transpose()?;
            match text.and_then(|bytes| String::from_utf8(bytes).ok()) {
                Some(text) => out.files.push(SourceFile { path, text }),
                None => out.data.push(path),
            }
        }
    }
    Ok(())
}
