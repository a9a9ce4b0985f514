//! mdtest: ranks create, stat, read and remove items in a tree of directories, a phase after the other, with a barrier
//! between them.
//!
//! A tree has `depth` levels below its root and `branch` directories in each of them; items are spread evenly over all
//! its directories. Ranks share one tree, or have one each (`unique`). A rank stats and reads what the rank `stride`
//! behind it has created, and removes its own.

use super::check_count;
use crate::error::{Error, Result};
use crate::spec::Size;
use crate::stage::{self, Pattern, Stage, Tally};
use crate::workload::{Act, Options, Plan};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::{InodeRef, NewInode};
use steadyfs_rt::{Cost, charge, now};

const FILE_MODE: u32 = 0o100_644;
const DIR_MODE: u32 = 0o040_755;

/// The options; in brackets those of mdtest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Mdtest {
    /// Tasks (`mpirun -n`).
    ranks: u32,
    /// Items of each rank (`-n`).
    items: u64,
    /// Levels of directories below the root of the tree (`-z`).
    depth: u32,
    /// Directories in each directory (`-b`).
    branch: u32,
    /// A tree for each rank (`-u`).
    unique: bool,
    /// Only files (`-F`), only directories (`-D`), or both.
    only: Only,
    /// Bytes written to each file (`-w`).
    write_bytes: Size,
    /// Bytes read from each file (`-e`).
    read_bytes: Size,
    /// An fsync after the writing (`-y`).
    sync_file: bool,
    /// Whose items a rank stats and reads (`-N`).
    stride: u32,
}

/// Which items there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Only {
    #[default]
    Both,
    Files,
    Directories,
}

impl Default for Mdtest {
    fn default() -> Self {
        Mdtest {
            ranks: 1,
            items: 1000,
            depth: 0,
            branch: 1,
            unique: false,
            only: Only::Both,
            write_bytes: Size::of(0),
            read_bytes: Size::of(0),
            sync_file: false,
            stride: 0,
        }
    }
}

/// A phase of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    DirCreate,
    DirStat,
    DirRemove,
    FileCreate,
    FileStat,
    FileRead,
    FileRemove,
}

impl Phase {
    const DIRS: [Phase; 3] = [Phase::DirCreate, Phase::DirStat, Phase::DirRemove];
    const FILES: [Phase; 4] = [Phase::FileCreate, Phase::FileStat, Phase::FileRead, Phase::FileRemove];

    /// Whether names come or go in it.
    fn changes(self) -> bool {
        matches!(self, Phase::DirCreate | Phase::DirRemove | Phase::FileCreate | Phase::FileRemove)
    }

    /// The word for an operation in figures, and for the rate over the phase.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Phase::DirCreate => ("dir_create", "dir_create_rate"),
            Phase::DirStat => ("dir_stat", "dir_stat_rate"),
            Phase::DirRemove => ("dir_remove", "dir_remove_rate"),
            Phase::FileCreate => ("file_create", "file_create_rate"),
            Phase::FileStat => ("file_stat", "file_stat_rate"),
            Phase::FileRead => ("file_read", "file_read_rate"),
            Phase::FileRemove => ("file_remove", "file_remove_rate"),
        }
    }
}

impl Mdtest {
    /// The same with fewer items.
    pub(super) fn scaled(mut self, factor: f64) -> Self {
        self.items = ((self.items as f64 * factor).round() as u64).max(1);
        self
    }

    fn phases(&self) -> Vec<Phase> {
        match self.only {
            Only::Files => Phase::FILES.to_vec(),
            Only::Directories => Phase::DIRS.to_vec(),
            Only::Both => Phase::DIRS.into_iter().chain(Phase::FILES).collect(),
        }
    }

    /// Directories of one tree.
    fn tree_size(&self) -> u64 {
        (0..=self.depth).fold(0u64, |sum, level| sum.saturating_add(u64::from(self.branch).saturating_pow(level)))
    }
}

impl Options for Mdtest {
    fn check(&self) -> std::result::Result<(), String> {
        check_count("ranks", self.ranks.into(), 4096)?;
        check_count("items", self.items, 1 << 32)?;
        check_count("branch", self.branch.into(), 1 << 16)?;
        if self.depth > 32 || self.tree_size() > 1 << 22 {
            return Err(format!("workload.depth: a tree of {} directories is too large", self.tree_size()));
        }
        if self.write_bytes.bytes() > 1 << 30 {
            return Err("workload.write_bytes is at most 1G".into());
        }
        if self.read_bytes > self.write_bytes {
            return Err("workload.read_bytes: files are no longer than workload.write_bytes".into());
        }
        Ok(())
    }

    /// What the files hold at most; the layout itself makes nothing but directories.
    fn file_bytes(&self) -> u64 {
        let items = u64::from(self.ranks).saturating_mul(self.items);
        items.saturating_mul(self.write_bytes.bytes())
    }
}

impl Plan for Mdtest {
    fn act(&self, stage: &Arc<Stage>) -> Box<dyn Act> {
        Box::new(Test { stage: Arc::clone(stage), options: self.clone(), forest: None })
    }
}

/// The trees: for each rank its directories, in an order in which parents come first.
struct Forest {
    stage: Arc<Stage>,
    options: Mdtest,
    trees: Vec<Arc<Vec<InodeRef>>>,
}

struct Test {
    stage: Arc<Stage>,
    options: Mdtest,
    forest: Option<Arc<Forest>>,
}

impl Test {
    fn plant(&self, root: &InodeRef, name: &str) -> Result<Arc<Vec<InodeRef>>> {
        let new = NewInode { mode: DIR_MODE, ..NewInode::default() };
        let make = |parent: &InodeRef, name: &str| {
            let made = self.stage.fs.create(parent, name.as_bytes(), &new);
            made.map_err(Error::core(format!("making directory {name}")))
        };
        let mut dirs = vec![make(root, name)?];
        let inner = (self.options.tree_size() - 1) / u64::from(self.options.branch);
        for parent in 0..inner {
            for _ in 0..self.options.branch {
                let name = format!("mdtest_tree.0.{}", dirs.len());
                let dir = make(&dirs[parent as usize], &name)?;
                dirs.push(dir);
            }
        }
        Ok(Arc::new(dirs))
    }
}

impl Act for Test {
    fn lay_out(&mut self) -> Result<()> {
        let fs = &self.stage.fs;
        let root = fs.root().map_err(Error::core("opening the root directory"))?;
        let ranks = 0..self.options.ranks;
        let trees = if self.options.unique {
            ranks.map(|rank| self.plant(&root, &format!("mdtest_tree.{rank}"))).collect::<Result<_>>()?
        } else {
            let shared = self.plant(&root, "mdtest_tree")?;
            ranks.map(|_| Arc::clone(&shared)).collect()
        };
        fs.sync().map_err(Error::core("syncing the directories"))?;
        let (stage, options) = (Arc::clone(&self.stage), self.options.clone());
        self.forest = Some(Arc::new(Forest { stage, options, trees }));
        Ok(())
    }

    fn amount(&self) -> u64 {
        u64::from(self.options.ranks) * self.options.items * self.options.phases().len() as u64
    }

    fn work(&mut self) -> Result<Tally> {
        let Some(forest) = &self.forest else { return Err(Error::Check("there is no tree".into())) };
        let mut tally = Tally::default();
        let mut changing = Duration::ZERO;
        for phase in self.options.phases() {
            let began = now();
            let ranks = (0..self.options.ranks).map(|rank| {
                let forest = Arc::clone(forest);
                self.stage.start("mdtest", move || forest.perform(phase, rank))
            });
            tally.merge(&stage::join(ranks.collect())?);
            let items = (u64::from(self.options.ranks) * self.options.items) as f64;
            let took = began.elapsed();
            tally.set(phase.names().1, items / took.as_secs_f64().max(1e-9));
            changing += if phase.changes() { took } else { Duration::ZERO };
        }
        let phases = self.options.phases().into_iter().filter(|phase| phase.changes()).count() as f64;
        let items = (u64::from(self.options.ranks) * self.options.items) as f64;
        tally.set("names_rate", phases * items / changing.as_secs_f64().max(1e-9));
        Ok(tally)
    }

    fn verify(&mut self) -> Result<String> {
        let Some(forest) = &self.forest else { return Err(Error::Check("there is no tree".into())) };
        let mut left = 0u64;
        let mut dirs = 0u64;
        let trees = if self.options.unique { forest.trees.len() } else { 1 };
        for dir in forest.trees[..trees].iter().flat_map(|tree| tree.iter()) {
            let mut count = |entry: steadyfs_core::DirEntry<'_>| {
                left += u64::from(!entry.name.starts_with(b".") && !entry.name.starts_with(b"mdtest_tree"));
                true
            };
            self.stage.fs.readdir(dir, 0, &mut count).map_err(Error::core("listing a directory"))?;
            dirs += 1;
        }
        if left > 0 {
            return Err(Error::Check(format!("{left} items are left in the directories")));
        }
        Ok(format!("every item was found, and none is left in {dirs} directories"))
    }
}

impl Forest {
    /// One rank's part of a phase.
    fn perform(&self, phase: Phase, rank: u32) -> Result<Tally> {
        let mut tally = Tally::default();
        let reads = matches!(phase, Phase::DirStat | Phase::FileStat | Phase::FileRead);
        let whose = if reads { (rank + self.options.stride) % self.options.ranks } else { rank };
        let tree = &self.trees[whose as usize];
        for item in 0..self.options.items {
            if !self.stage.goes_on(None) {
                break;
            }
            let dir = &tree[(item * tree.len() as u64 / self.options.items) as usize];
            let began = now();
            charge(Cost::SyscallEntry);
            let doing = || Error::core(format!("{phase:?} of item {item} of rank {whose}"));
            self.one(phase, dir, whose, item).map_err(|e| match e {
                Failed::Core(e) => doing()(e),
                Failed::Wrong(why) => Error::Check(format!("{phase:?} of item {item} of rank {whose}: {why}")),
            })?;
            tally.record(phase.names().0, began.elapsed());
            self.stage.progress.advance(1);
        }
        Ok(tally)
    }

    fn one(&self, phase: Phase, dir: &InodeRef, rank: u32, item: u64) -> std::result::Result<(), Failed> {
        let fs = &self.stage.fs;
        let name = match phase {
            Phase::DirCreate | Phase::DirStat | Phase::DirRemove => format!("dir.mdtest.{rank}.{item}"),
            _ => format!("file.mdtest.{rank}.{item}"),
        };
        let name = name.as_bytes();
        let new = |mode| NewInode { mode, ..NewInode::default() };
        let pattern = Pattern::new(u64::from(rank) << 40 | item, self.stage.seed);
        let length = self.options.write_bytes.bytes();
        match phase {
            Phase::DirCreate => drop(fs.create(dir, name, &new(DIR_MODE))?),
            Phase::DirRemove => fs.rmdir(dir, name)?,
            Phase::FileRemove => fs.unlink(dir, name)?,
            Phase::DirStat => {
                let links = fs.attr(&fs.lookup(dir, name)?)?.nlink;
                if links != 2 {
                    return Err(Failed::Wrong(format!("an empty directory has {links} links")));
                }
            }
            Phase::FileStat => {
                let size = fs.attr(&fs.lookup(dir, name)?)?.size;
                if size != length {
                    return Err(Failed::Wrong(format!("its size is {size} and should be {length}")));
                }
            }
            Phase::FileCreate => {
                let file = fs.create(dir, name, &new(FILE_MODE))?;
                if length > 0 {
                    if pattern.write(fs, &file, 0, length, false)? != length {
                        return Err(Failed::Core(steadyfs_core::Error::NoSpace));
                    }
                    self.stage.wrote(length);
                }
                if self.options.sync_file {
                    charge(Cost::SyscallEntry);
                    fs.fsync(&file, false)?;
                }
            }
            Phase::FileRead => {
                let file = fs.lookup(dir, name)?;
                let mut buffer = vec![0; self.options.read_bytes.bytes() as usize];
                if !buffer.is_empty() {
                    charge(Cost::SyscallEntry);
                    let n = fs.read(&file, 0, &mut buffer)?;
                    self.stage.read(n as u64);
                    if n != buffer.len() {
                        return Err(Failed::Wrong(format!("it ends at {n}")));
                    }
                    pattern.judge(0, &buffer).map_err(Failed::Wrong)?;
                }
            }
        }
        Ok(())
    }
}

/// Why an operation failed.
enum Failed {
    Core(steadyfs_core::Error),
    Wrong(String),
}

impl From<steadyfs_core::Error> for Failed {
    fn from(e: steadyfs_core::Error) -> Self {
        Failed::Core(e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_have_the_size_that_depth_and_branch_say() {
        for (depth, branch, size) in [(0, 1, 1), (3, 1, 4), (2, 10, 111), (1, 5, 6)] {
            assert_eq!(Mdtest { depth, branch, ..Mdtest::default() }.tree_size(), size);
        }
        let refused = Mdtest { depth: 8, branch: 100, ..Mdtest::default() }.check().unwrap_err();
        assert!(refused.contains("workload.depth"), "{refused}");
    }
}
