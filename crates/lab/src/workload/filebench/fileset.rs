//! A file set: which files there may be, where they lie and how long they are, and which of them exist, are being made
//! or deleted, or are open.
//!
//! The tree is made as the tool makes it: directories have a random width and a random depth (gamma distributed, shape
//! 1.5) around means that follow from the number of files and the mean width; files lie in leaves only. A file is
//! chosen in rotation: the next existing (or missing) one behind the last that was chosen, unless somebody is just
//! opening, making or deleting it.

use super::Settings;
use crate::error::{Error, Result};
use crate::rng::Rng;
use crate::stage::Pattern;
use std::collections::BTreeSet;
use std::sync::Arc;
use steadyfs_core::{Fs, InodeRef, NewInode};
use steadyfs_rt::{LockClass, Mutex};

static SET: LockClass = LockClass::new("lab.fileset", 0);
static WRITTEN: LockClass = LockClass::new("lab.file", 0);
const DIR_MODE: u32 = 0o040_755;
pub(super) const FILE_MODE: u32 = 0o100_644;
/// Shape of the widths and depths of directories.
const DIR_GAMMA: f64 = 1.5;

/// A directory of the set, before it is made.
#[derive(Debug, PartialEq, Eq)]
struct Dir {
    /// Its place in the list; the root is its own parent.
    parent: usize,
    name: u32,
}

/// A file, whether it exists or not.
pub(super) struct File {
    dir: usize,
    name: u32,
    /// Bytes of the whole file when it is made anew.
    pub(super) size: u64,
    /// What it holds now. Whoever writes to the file holds this.
    pub(super) written: Arc<Mutex<Written>>,
}

/// What a file holds.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) pattern: Pattern,
    pub(super) length: u64,
}

/// Which files are what.
#[derive(Debug, Default)]
struct State {
    existing: BTreeSet<usize>,
    missing: BTreeSet<usize>,
    busy: BTreeSet<usize>,
    /// How often each file is open.
    open: Vec<u32>,
    /// How often each has been made.
    made: Vec<u32>,
    next_existing: usize,
    next_missing: usize,
}

/// Which files to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    Existing,
    Missing,
}

/// See the head of the module.
pub(super) struct FileSet {
    dirs: Vec<InodeRef>,
    pub(super) files: Vec<File>,
    seed: u64,
    state: Mutex<State>,
}

impl FileSet {
    /// The set with its directories made, below one of this name in the volume's root, and no files.
    pub(super) fn new(fs: &Fs, name: &str, settings: &Settings, seed: u64) -> Result<Self> {
        let mut rng = Rng::new(seed, 0xF11E);
        let (dirs, places) = populate(&mut rng, settings);
        let new = NewInode { mode: DIR_MODE, ..NewInode::default() };
        let make = |parent: &InodeRef, name: &str| {
            fs.create(parent, name.as_bytes(), &new).map_err(Error::core(format!("making directory {name}")))
        };
        let root = fs.root().map_err(Error::core("opening the root directory"))?;
        let mut made = vec![make(&root, name)?];
        for dir in &dirs[1..] {
            made.push(make(&made[dir.parent], &name_of(dir.name))?);
        }
        let file = |(number, (dir, name)): (usize, (usize, u32))| {
            let size = match settings.filesizegamma {
                0.0 => settings.filesize,
                shape => rng.gamma(shape, settings.filesize as f64) as u64,
            };
            let written = Written { pattern: pattern(number, 0, seed), length: 0 };
            File { dir, name, size, written: Arc::new(Mutex::new(&WRITTEN, written)) }
        };
        let files: Vec<File> = places.into_iter().enumerate().map(file).collect();
        let state = State {
            missing: (0..files.len()).collect(),
            open: vec![0; files.len()],
            made: vec![0; files.len()],
            ..State::default()
        };
        Ok(FileSet { dirs: made, files, seed, state: Mutex::new(&SET, state) })
    }

    /// Directory and name of a file.
    pub(super) fn place(&self, number: usize) -> (&InodeRef, String) {
        let file = &self.files[number];
        (&self.dirs[file.dir], name_of(file.name))
    }

    /// Chooses a file, which is busy from now on: nobody else chooses it until [`FileSet::release`]. `None`: there is
    /// none that is not busy.
    pub(super) fn pick(&self, which: Pick) -> Option<usize> {
        let mut state = self.state.lock();
        let (files, from) = match which {
            Pick::Existing => (&state.existing, state.next_existing),
            Pick::Missing => (&state.missing, state.next_missing),
        };
        let in_turn = files.range(from..).chain(files.range(..from)).copied();
        let mut idle = in_turn.filter(|file| !state.busy.contains(file));
        let file = idle.next()?;
        match which {
            Pick::Existing => state.next_existing = file + 1,
            Pick::Missing => state.next_missing = file + 1,
        }
        state.busy.insert(file);
        Some(file)
    }

    /// Ends what [`FileSet::pick`] began: the file exists from now on or not, and has been opened or not.
    pub(super) fn release(&self, file: usize, exists: bool, opened: bool) {
        let mut state = self.state.lock();
        state.busy.remove(&file);
        state.open[file] += u32::from(opened);
        if exists {
            state.missing.remove(&file);
            state.existing.insert(file);
        } else {
            state.existing.remove(&file);
            state.missing.insert(file);
        }
    }

    /// Whether anybody has the file open.
    pub(super) fn is_open(&self, file: usize) -> bool {
        self.state.lock().open[file] > 0
    }

    /// Somebody closes the file.
    pub(super) fn close(&self, file: usize) {
        self.state.lock().open[file] -= 1;
    }

    /// The contents of a file that is made now, none yet; other than those it had before.
    pub(super) fn begin(&self, file: usize) {
        let made = {
            let mut state = self.state.lock();
            state.made[file] += 1;
            state.made[file]
        };
        *self.files[file].written.lock() = Written { pattern: pattern(file, made, self.seed), length: 0 };
    }

    /// All files that exist.
    pub(super) fn existing(&self) -> Vec<usize> {
        self.state.lock().existing.iter().copied().collect()
    }
}

fn pattern(file: usize, made: u32, seed: u64) -> Pattern {
    Pattern::new((file as u64) << 32 | u64::from(made), seed)
}

fn name_of(number: u32) -> String {
    format!("{number:08}")
}

/// A directory whose entries are still being made.
struct Open {
    dir: usize,
    depth: f64,
    leaf: bool,
    width: f64,
    entries: u32,
}

/// Directories, the first of which is that of the set, and for each file its directory and name.
fn populate(rng: &mut Rng, settings: &Settings) -> (Vec<Dir>, Vec<(usize, u32)>) {
    let (width, count) = (f64::from(settings.meandirwidth), settings.nfiles as usize);
    // A width of one entry would make the tree infinitely deep.
    let mean_depth = f64::from(settings.nfiles).ln() / width.max(2.0).ln();
    let mut dirs = vec![Dir { parent: 0, name: 0 }];
    let mut files = Vec::with_capacity(count);
    let mut open = vec![Open { dir: 0, depth: 1.0, leaf: false, width: f64::INFINITY, entries: 0 }];
    while files.len() < count {
        let Some(top) = open.last_mut() else { unreachable!("the root takes any number of entries") };
        if f64::from(top.entries) + 1.0 >= top.width + 1.0 {
            open.pop();
            continue;
        }
        top.entries += 1;
        if top.leaf {
            files.push((top.dir, top.entries));
            continue;
        }
        let (parent, name, depth) = (top.dir, top.entries, top.depth + 1.0);
        let deepest = rng.gamma(DIR_GAMMA, mean_depth).floor().max(1.0);
        let width = match rng.gamma(DIR_GAMMA, width) {
            0.0 => 1.0,
            width => width,
        };
        dirs.push(Dir { parent, name });
        open.push(Open { dir: dirs.len() - 1, depth, leaf: depth >= deepest, width, entries: 0 });
    }
    (dirs, files)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::workload::filebench::flowops;
    use std::collections::BTreeMap;

    pub(in crate::workload::filebench) fn settings(nfiles: u32, meandirwidth: u32) -> Settings {
        Settings {
            nfiles,
            filesize: 128 << 10,
            filesizegamma: 1.5,
            meandirwidth,
            nthreads: 4,
            iosize: 1 << 20,
            meanappendsize: 16 << 10,
            prealloc: 80,
            runtime: 1.0,
            private: false,
            flowops: flowops::FILESERVER,
        }
    }

    #[test]
    fn directories_have_the_mean_width_and_a_wide_one_holds_everything() {
        let (dirs, files) = populate(&mut Rng::new(1, 2), &settings(10_000, 20));
        let mut widths: BTreeMap<usize, u32> = BTreeMap::new();
        files.iter().for_each(|(dir, _)| *widths.entry(*dir).or_default() += 1);
        let mean = files.len() as f64 / widths.len() as f64;
        assert!((17.0..24.0).contains(&mean), "{mean} files in each of {} leaves", widths.len());
        assert!(dirs.iter().skip(1).zip(1..).all(|(dir, number)| dir.parent < number), "parents come first");
        let (_, files) = populate(&mut Rng::new(1, 2), &settings(1000, 1_000_000));
        let leaves: BTreeSet<usize> = files.iter().map(|(dir, _)| *dir).collect();
        assert!(leaves.len() < 5, "{} leaves", leaves.len());
        let names: BTreeSet<&(usize, u32)> = files.iter().collect();
        assert_eq!(names.len(), 1000, "names are unique");
    }
}
