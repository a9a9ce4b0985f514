//! Manifests as files: JSON with one entry per line.

use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Entry, Manifest};
use crate::error::{Error, Result, io};

/// The layout of the file. A reader refuses others.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Line {
    path: String,
    #[serde(flatten)]
    entry: Entry,
}

#[derive(Deserialize)]
struct File {
    manifest: u32,
    entries: Vec<Line>,
}

impl Manifest {
    /// The manifest as JSON text, one line per entry.
    pub fn to_json(&self) -> String {
        let mut text = format!("{{\"manifest\": {VERSION}, \"entries\": [");
        for (n, (path, entry)) in self.entries.iter().enumerate() {
            let line = Line { path: path.clone(), entry: entry.clone() };
            let line = serde_json::to_string(&line).expect("an entry has only strings and numbers");
            let separator = if n == 0 { "\n" } else { ",\n" };
            write!(text, "{separator}{line}").expect("a string takes everything");
        }
        text.push_str("\n]}\n");
        text
    }

    /// Reads what [`Manifest::to_json`] wrote; `name` is for the error text.
    pub fn from_json(text: &str, name: &Path) -> Result<Self> {
        let bad = |reason: String| Error::BadManifest { path: name.to_owned(), reason };
        let file: File = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
        if file.manifest != VERSION {
            return Err(bad(format!("version {}, known is {VERSION}", file.manifest)));
        }
        let count = file.entries.len();
        let entries: std::collections::BTreeMap<_, _> = file.entries.into_iter().map(|l| (l.path, l.entry)).collect();
        if entries.len() != count {
            return Err(bad("a path occurs twice".to_owned()));
        }
        Ok(Self { entries })
    }

    /// Writes the manifest to a file.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        std::fs::write(path, self.to_json()).map_err(io(format!("write {}", path.display())))
    }

    /// Reads a manifest from a file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(io(format!("read {}", path.display())))?;
        Self::from_json(&text, path)
    }
}
