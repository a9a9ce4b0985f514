//! What was there before the trace began, made anew: directories, files of their sizes, links.

use super::script::{ROOT, Script};
use crate::error::{Error, Result};
use crate::stage::Stage;
use std::collections::BTreeMap;
use steadyfs_core::{InodeRef, NewInode, SetAttr};
use steadyfs_device::PageBuf;
use steadyfs_format::PageIndex;
use steadyfs_trace::Name;

const PAGE: u64 = 4096;
/// Pages that are written at a time.
const PAGES: u64 = 256;

/// Makes it; the objects that are there.
pub(super) fn lay_out(stage: &Stage, script: &Script) -> Result<BTreeMap<usize, InodeRef>> {
    let root = stage.fs.root().map_err(Error::core("opening the root directory"))?;
    let mut made = BTreeMap::from([(ROOT, root)]);
    // Names come before what is below them only by chance: those whose directory is not there yet wait.
    let mut waiting: Vec<(usize, Name, usize)> = script.initial_names.clone();
    loop {
        let (now, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(dir, ..)| made.contains_key(dir));
        if now.is_empty() {
            waiting = later;
            // What nobody looked up by a name stands in the root; then the rest below it has a place.
            let lost = (1..script.objects.len()).find(|object| {
                script.objects[*object].is_initial
                    && !made.contains_key(object)
                    && waiting.iter().all(|(_, _, below)| below != object)
            });
            let Some(lost) = lost else { break };
            let name = format!("without-a-name-{lost}");
            let inode = make(stage, script, &made[&ROOT], name.as_bytes(), lost)?;
            made.insert(lost, inode);
            continue;
        }
        for (dir, name, object) in now {
            let (dir, name) = (made[&dir].clone(), name.text());
            if let Some(there) = made.get(&object) {
                stage.fs.link(there, &dir, name.as_bytes()).map_err(Error::core(format!("linking {name}")))?;
                continue;
            }
            let inode = make(stage, script, &dir, name.as_bytes(), object)?;
            made.insert(object, inode);
        }
        waiting = later;
    }
    stage.fs.sync().map_err(Error::core("syncing the layout"))?;
    Ok(made)
}

/// A file of so many bytes that nobody uses.
pub(super) fn fill(stage: &Stage, bytes: u64) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let fs = &stage.fs;
    let root = fs.root().map_err(Error::core("opening the root directory"))?;
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    let file = fs.create(&root, b"cold", &new).map_err(Error::core("creating the cold file"))?;
    write_all(stage, &file, usize::MAX, bytes, "the cold file")?;
    fs.fsync(&file, false).map_err(Error::core("syncing the cold file"))
}

fn make(stage: &Stage, script: &Script, dir: &InodeRef, name: &[u8], number: usize) -> Result<InodeRef> {
    let (fs, object) = (&stage.fs, &script.objects[number]);
    let shown = || String::from_utf8_lossy(name).into_owned();
    if object.is_link {
        let new = NewInode::default();
        return fs.symlink(dir, name, b"target", &new).map_err(Error::core(format!("linking {}", shown())));
    }
    let mode = if object.is_dir { 0o040_755 } else { 0o100_644 };
    let new = NewInode { mode, ..NewInode::default() };
    let file = fs.create(dir, name, &new).map_err(Error::core(format!("creating {}", shown())))?;
    if object.is_dir {
        return Ok(file);
    }
    write_all(stage, &file, number, object.initial_size, &shown())?;
    if object.initial_size % PAGE != 0 {
        let set = SetAttr { size: Some(object.initial_size), ..SetAttr::default() };
        fs.setattr(&file, &set).map_err(Error::core(format!("cutting {}", shown())))?;
    }
    Ok(file)
}

/// Fills a new file with whole pages.
fn write_all(stage: &Stage, file: &InodeRef, number: usize, bytes: u64, name: &str) -> Result<()> {
    let (pages, mut at) = (bytes.div_ceil(PAGE), 0);
    while at < pages {
        let count = PAGES.min(pages - at);
        let contents: Vec<PageBuf> = (at..at + count).map(|page| content(number, page, 0)).collect();
        let doing = || Error::core(format!("laying out {name}"));
        let n = stage.fs.write_pages(file, PageIndex(at), &contents).map_err(doing())?;
        if n as u64 != count * PAGE {
            return Err(doing()(steadyfs_core::Error::NoSpace));
        }
        stage.progress.advance(count * PAGE);
        at += count;
    }
    Ok(())
}

/// What a page holds: whose it is, which, and which step wrote it.
pub(super) fn content(object: usize, page: u64, step: u32) -> PageBuf {
    let mut seed = [0; 16];
    seed[..8].copy_from_slice(&page.to_le_bytes());
    seed[8..12].copy_from_slice(&(object as u32).to_le_bytes());
    seed[12..].copy_from_slice(&step.to_le_bytes());
    PageBuf::synthetic(seed)
}
