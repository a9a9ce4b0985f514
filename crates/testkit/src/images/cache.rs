//! Images that were made before: `target/testkit-images/NAME-DIGEST/{volume.img,manifest.json,checkpoint.json}`.
//!
//! The digest covers the recipe, every operation of its workload, the versions of kernel and mkfs.f2fs, and the layout
//! of manifests. So a stale image is never found. When a new one is made, older ones of the same name are removed. A
//! directory appears whole, by rename; a lock beside it keeps two test processes from making the same image.

use std::fs::{self, File};
use std::path::Path;

use rustix::fs::FlockOperation;
use sha2::{Digest, Sha256};

use super::{LinuxImage, MANIFEST_OPTIONS, Recipe};
use crate::error::{Result, io, os};
use crate::machine::uml;
use crate::manifest::Manifest;
use crate::{programs, tools};

/// To be raised when something changes that the digest does not see.
const GENERATION: u32 = 3;

const IMAGE: &str = "volume.img";
const MANIFEST: &str = "manifest.json";
const CHECKPOINT: &str = "checkpoint.json";

pub(super) fn get(recipe: &Recipe) -> Result<LinuxImage> {
    let parent = programs::target_directory().join("testkit-images");
    fs::create_dir_all(&parent).map_err(io(format!("create {}", parent.display())))?;
    let home = parent.join(format!("{}-{}", recipe.name, digest(recipe)?));
    if !home.is_dir() {
        let lock = parent.join(format!("{}.lock", recipe.name));
        let lock = File::create(&lock).map_err(io(format!("create {}", lock.display())))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(os("lock the image cache"))?;
        if !home.is_dir() {
            make(recipe, &parent, &home)?;
        }
    }
    let at_checkpoint = match home.join(CHECKPOINT) {
        file if file.is_file() => Some(Manifest::load(file)?),
        _ => None,
    };
    let manifest = Manifest::load(home.join(MANIFEST))?;
    Ok(LinuxImage { name: recipe.name.to_owned(), path: home.join(IMAGE), manifest, at_checkpoint })
}

fn make(recipe: &Recipe, parent: &Path, home: &Path) -> Result<()> {
    remove_older(recipe, parent)?;
    let work = tempfile::Builder::new().prefix("making-").tempdir_in(parent).map_err(io("create a directory"))?;
    let (manifest, at_checkpoint) = recipe.make(&work.path().join(IMAGE))?;
    manifest.save(work.path().join(MANIFEST))?;
    if let Some(at_checkpoint) = at_checkpoint {
        at_checkpoint.save(work.path().join(CHECKPOINT))?;
    }
    let work = work.keep();
    fs::rename(&work, home).map_err(io(format!("rename {}", work.display())))
}

/// Removes images of this name that were made by another recipe.
fn remove_older(recipe: &Recipe, parent: &Path) -> Result<()> {
    for entry in fs::read_dir(parent).map_err(io("list the image cache"))? {
        let path = entry.map_err(io("list the image cache"))?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let is_older = name.rsplit_once('-').is_some_and(|(name, digest)| name == recipe.name && digest.len() == 16);
        if is_older {
            fs::remove_dir_all(&path).map_err(io(format!("remove {}", path.display())))?;
        }
    }
    Ok(())
}

fn digest(recipe: &Recipe) -> Result<String> {
    let mut hash = Sha256::new();
    hash.update(format!("{GENERATION} {MANIFEST_OPTIONS:?} {recipe:?}\n"));
    hash.update(uml::kernel_version()?);
    hash.update(tools::mkfs_version()?);
    for op in recipe.workload.ops() {
        hash.update(format!("{op:?}\n"));
    }
    Ok(hash.finalize().iter().take(8).map(|b| format!("{b:02x}")).collect())
}
