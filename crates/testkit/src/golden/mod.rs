//! Golden images: small volumes that are part of the repository, each with the tree that Linux sees on it.
//!
//! They keep the meaning of the format fixed where no kernel is at hand, and hold what user-mode Linux cannot write:
//! compressed, casefolded, verity and encrypted files. `crates/testkit/golden/` has for each an image (`NAME.img.zst`)
//! and its manifest (`NAME.json.zst`), and where a crash left something to recover the manifest of the checkpoint
//! (`NAME.checkpoint.json.zst`). The program `steadyfs-golden` makes them again; that changes them, because mkfs.f2fs
//! and the kernel put random numbers and times in.

mod make;
mod recipes;

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use ruzstd::decoding::StreamingDecoder;

use crate::error::{Error, Result, io};
use crate::manifest::Manifest;
use crate::sparse::{TempImage, write_sparse};

pub use make::make;

/// A golden image.
#[derive(Debug, Clone)]
pub struct Golden {
    /// Its name.
    pub name: &'static str,
    /// Who made it and what is special about it.
    pub about: &'static str,
    /// Whether the manifest has the contents of files (it cannot for encrypted ones).
    pub has_contents: bool,
    source: recipes::Source,
}

/// All golden images.
pub fn list() -> Vec<Golden> {
    recipes::all()
}

/// A copy of the image of that name, to be changed at will.
pub fn unpack(name: &str) -> Result<TempImage> {
    find(name)?.unpack()
}

/// The golden image of that name.
pub fn find(name: &str) -> Result<Golden> {
    let found = list().into_iter().find(|golden| golden.name == name);
    found.ok_or_else(|| Error::Missing { what: format!("the golden image {name}"), package: "none: see golden::list" })
}

impl Golden {
    /// A copy of the image, to be changed at will.
    pub fn unpack(&self) -> Result<TempImage> {
        let image = TempImage::new()?;
        write_sparse(open(&self.file("img"))?, &image.path())?;
        Ok(image)
    }

    /// What Linux sees on it; after a crash, once it has recovered what it can.
    pub fn manifest(&self) -> Result<Manifest> {
        load(&self.file("json"))
    }

    /// What the checkpoint says, if there is more to recover.
    pub fn at_checkpoint(&self) -> Result<Option<Manifest>> {
        let file = self.file("checkpoint.json");
        if file.is_file() { load(&file).map(Some) } else { Ok(None) }
    }

    fn file(&self, extension: &str) -> PathBuf {
        directory().join(format!("{}.{extension}.zst", self.name))
    }
}

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/golden"))
}

fn open(path: &std::path::Path) -> Result<impl Read> {
    let what = || format!("open {}", path.display());
    let file = File::open(path).map_err(io(what()))?;
    StreamingDecoder::new(std::io::BufReader::new(file)).map_err(|e| io(what())(std::io::Error::other(e.to_string())))
}

fn load(path: &std::path::Path) -> Result<Manifest> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text).map_err(io(format!("read {}", path.display())))?;
    Manifest::from_json(&text, path)
}
