//! The model: what the tree is after each step, in memory, without any crash. What a crash may leave of it is in
//! [`crate::legal`].
//!
//! A *version* is a number of steps done: version 0 is the state after the set-up, version `n` the one after `n` steps
//! of one writer. Writers of one workload have a directory each and never see one another, so each has a model of its
//! own.
//!
//! A page of a file remembers every content it had since a metadata operation last made a hole of it, with the version
//! of each. Contents reach the disk when write-back pleases. So a crash may leave each of them, until a promise rules
//! the older ones out.

use crate::content::fill;
use crate::lang::{BALLAST, Falloc, Op, Path, Workload};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thiserror::Error;

/// Number of steps done.
pub(crate) type Version = u32;
/// Bytes in a page.
pub(crate) const PAGE: u64 = 4096;
/// An object of the model: index into [`State::objects`]. 0 is the root.
pub(crate) type Obj = usize;
/// The root directory.
pub(crate) const ROOT: Obj = 0;

/// What the path of an open file begins with.
pub(crate) const HANDLE: char = '@';

/// One content of a page; `None` reads as zeros.
pub(crate) type Content = Option<Arc<[u8]>>;
/// Contents of a page with the version from which each was current, ascending.
pub(crate) type History = Vec<(Version, Content)>;

/// What an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link to this.
    Symlink(String),
    /// What a rename may leave under the old name: a character device 0:0.
    Whiteout,
    /// A named pipe.
    Fifo,
}

/// An object at one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    /// User and group.
    pub(crate) owner: (u32, u32),
    /// When a file was last changed, in seconds, if that was set after all changes of its contents.
    pub(crate) mtime: Option<u32>,
    pub(crate) size: u64,
    pub(crate) pages: BTreeMap<u64, History>,
    pub(crate) xattrs: BTreeMap<String, Arc<[u8]>>,
}

/// The tree at one version.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// Every name: directory, name, what it names.
    pub(crate) names: BTreeMap<(Obj, String), Obj>,
    pub(crate) objects: Vec<Arc<Node>>,
    /// Open files by their paths when they were opened: they live whatever becomes of their names.
    open: BTreeMap<String, Obj>,
    /// Files that never had a name.
    nameless: BTreeSet<Obj>,
}

/// Why a step cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("step {step} ('{op}'): {what}")]
pub struct ModelError {
    /// The step: set-up steps count first.
    pub step: u32,
    /// Its text.
    pub op: String,
    /// The obstacle.
    pub what: &'static str,
}

type Done = Result<(), &'static str>;

impl State {
    /// An empty volume.
    pub(crate) fn empty() -> Self {
        let objects = vec![Arc::new(Node::new(Kind::Dir, 0o755))];
        State { names: BTreeMap::new(), objects, open: BTreeMap::new(), nameless: BTreeSet::new() }
    }

    /// The tree after the set-up, with no history: what was written then is durable.
    pub(crate) fn after_setup(workload: &Workload) -> Result<Self, ModelError> {
        let mut state = State::empty();
        for (step, op) in workload.setup.iter().enumerate() {
            state.apply(op, step as u32, 0)?;
        }
        if workload.free.is_some() {
            state.apply(&Op::Creat { path: BALLAST.to_owned() }, workload.setup.len() as u32, 0)?;
        }
        for node in state.objects.iter_mut().map(Arc::make_mut) {
            for history in node.pages.values_mut() {
                history.drain(..history.len() - 1);
            }
        }
        Ok(state)
    }

    /// Does one step; `version` is the one that it makes.
    pub(crate) fn apply(&mut self, op: &Op, step: u32, version: Version) -> Result<(), ModelError> {
        self.perform(op, step, version).map_err(|what| ModelError { step, op: op.to_string(), what })
    }

    fn perform(&mut self, op: &Op, step: u32, version: Version) -> Done {
        match op {
            Op::Creat { path } => self.make(path, Node::new(Kind::File, 0o644)),
            Op::Mkdir { path } => self.make(path, Node::new(Kind::Dir, 0o755)),
            Op::Mkfifo { path } => self.make(path, Node::new(Kind::Fifo, 0o644)),
            Op::Tmpfile { path } => self.make_nameless(path),
            Op::Symlink { target, path } => self.make(path, Node::new(Kind::Symlink(target.clone()), 0o777)),
            Op::Write { path, off, len } | Op::DirectWrite { path, off, len } => {
                let bytes = fill(step, *off, *len as usize);
                self.change_file(path, |node| node.write(*off, &bytes, version))
            }
            Op::Append { path, len } => self.change_file(path, |node| {
                let off = node.size;
                node.write(off, &fill(step, off, *len as usize), version);
            }),
            Op::Truncate { path, size } => self.change_file(path, |node| node.truncate(*size, version)),
            Op::Falloc { path, mode, off, len } => {
                let size = self.find(path).and_then(|obj| self.objects.get(obj)).map_or(0, |node| node.size);
                let end = match mode {
                    Falloc::Collapse => off + len,
                    Falloc::Insert => *off,
                    _ => 0,
                };
                if end != 0 && end >= size || *mode == Falloc::Insert && size == 0 {
                    return Err("the range is not inside the file");
                }
                self.change_file(path, |node| node.falloc(*mode, *off, *len, version))
            }
            Op::SetXattr { path, name, len } => {
                let value: Arc<[u8]> = fill(step, 0, *len as usize).into();
                self.change(path, |node| {
                    if !matches!(node.kind, Kind::File | Kind::Dir) {
                        return Err("it may not have attributes of users");
                    }
                    node.xattrs.insert(name.clone(), value);
                    Ok(())
                })
            }
            Op::RemoveXattr { path, name } => {
                self.change(path, |node| node.xattrs.remove(name).map(drop).ok_or("there is no such attribute"))
            }
            Op::Chmod { path, mode } => self.change(path, |node| {
                node.mode = *mode;
                Ok(())
            }),
            Op::Chown { path, uid, gid } => self.change(path, |node| {
                node.owner = (*uid, *gid);
                Ok(())
            }),
            Op::Utimes { path, seconds } => self.change_file(path, |node| node.mtime = Some(*seconds)),
            Op::Open { path } => {
                let obj = self.find(path).filter(|_| !path.starts_with(HANDLE)).ok_or("it does not exist")?;
                self.open.insert(path.clone(), obj);
                Ok(())
            }
            Op::Fsync { path } | Op::Fdatasync { path } => self.find(path).map(drop).ok_or("it does not exist"),
            Op::Rename { from, to } => self.rename(from, to),
            Op::Exchange { from, to } => self.exchange(from, to),
            Op::Whiteout { from, to } => self.whiteout(from, to),
            Op::Link { from, to } => self.link(from, to),
            Op::Unlink { path } => self.unlink(path),
            Op::Rmdir { path } => self.rmdir(path),
            Op::Sync | Op::Checkpoint | Op::Gc | Op::Wait { .. } | Op::Skip => Ok(()),
        }
    }

    /// What a path names.
    pub(crate) fn find(&self, path: &str) -> Option<Obj> {
        if let Some(opened) = path.strip_prefix(HANDLE) {
            return self.open.get(opened).copied();
        }
        let mut names = path.split('/').filter(|name| !name.is_empty() && *name != ".");
        names.try_fold(ROOT, |dir, name| self.names.get(&(dir, name.to_owned())).copied())
    }

    /// The paths of files that this writer has open.
    pub(crate) fn handles(&self, writer: u8) -> Vec<String> {
        let home = format!("w{writer}");
        let own = self.open.keys().filter(|path| home_of(path) == Some(&home));
        own.map(|path| format!("{HANDLE}{path}")).collect()
    }

    /// The directory that a path's last name is in, and that name.
    fn place(&self, path: &str) -> Result<(Obj, String), &'static str> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let dir =
            self.find(dir).filter(|&dir| self.objects[dir].kind == Kind::Dir).ok_or("its directory is missing")?;
        Ok((dir, name.to_owned()))
    }

    /// All names of an object.
    pub(crate) fn names_of(&self, obj: Obj) -> impl Iterator<Item = &(Obj, String)> {
        self.names.iter().filter(move |(_, named)| **named == obj).map(|(place, _)| place)
    }

    /// The entries of a directory.
    pub(crate) fn entries(&self, dir: Obj) -> impl Iterator<Item = (&str, Obj)> {
        entries(&self.names, dir)
    }

    fn make(&mut self, path: &Path, node: Node) -> Done {
        let place = self.place(path)?;
        if self.names.contains_key(&place) {
            return Err("it exists");
        }
        self.objects.push(Arc::new(node));
        self.names.insert(place, self.objects.len() - 1);
        Ok(())
    }

    fn make_nameless(&mut self, path: &Path) -> Done {
        self.place(path)?;
        self.objects.push(Arc::new(Node::new(Kind::File, 0o644)));
        let obj = self.objects.len() - 1;
        self.nameless.insert(obj);
        self.open.insert(path.clone(), obj);
        Ok(())
    }

    fn change(&mut self, path: &Path, f: impl FnOnce(&mut Node) -> Done) -> Done {
        let obj = self.find(path).ok_or("it does not exist")?;
        f(Arc::make_mut(&mut self.objects[obj]))
    }

    fn change_file(&mut self, path: &Path, f: impl FnOnce(&mut Node)) -> Done {
        self.change(path, |node| {
            if node.kind != Kind::File {
                return Err("it is no regular file");
            }
            node.mtime = None;
            f(node);
            Ok(())
        })
    }

    fn link(&mut self, from: &Path, to: &Path) -> Done {
        let obj = self.find(from).ok_or("it does not exist")?;
        let place = self.place(to)?;
        if self.objects[obj].kind == Kind::Dir || self.names.contains_key(&place) {
            return Err("it is a directory, or the new name exists");
        }
        if self.names_of(obj).next().is_none() && !self.nameless.remove(&obj) {
            return Err("its last name was removed");
        }
        self.names.insert(place, obj);
        Ok(())
    }

    fn unlink(&mut self, path: &Path) -> Done {
        let (place, obj) = (self.place(path)?, self.find(path).ok_or("it does not exist")?);
        if self.objects[obj].kind == Kind::Dir {
            return Err("it is a directory");
        }
        self.names.remove(&place);
        Ok(())
    }

    fn rmdir(&mut self, path: &Path) -> Done {
        let (place, obj) = (self.place(path)?, self.find(path).ok_or("it does not exist")?);
        if self.objects[obj].kind != Kind::Dir || self.entries(obj).next().is_some() || obj == ROOT {
            return Err("it is no directory, or not empty");
        }
        self.names.remove(&place);
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Done {
        let (source, target) = (self.place(from)?, self.place(to)?);
        let obj = *self.names.get(&source).ok_or("it does not exist")?;
        if self.is_below(target.0, obj) {
            return Err("the target is below it");
        }
        let is_dir = |obj: Obj| self.objects[obj].kind == Kind::Dir;
        match self.names.get(&target) {
            Some(&old) if old == obj => return Ok(()),
            Some(&old) if is_dir(old) != is_dir(obj) => return Err("one is a directory, the other is none"),
            Some(&old) if is_dir(old) && self.entries(old).next().is_some() => return Err("the target is not empty"),
            _ => {}
        }
        self.names.remove(&source);
        self.names.insert(target, obj);
        Ok(())
    }

    fn whiteout(&mut self, from: &Path, to: &Path) -> Done {
        self.rename(from, to)?;
        // Two names of one file both stay.
        if self.find(from).is_none() {
            self.make(from, Node::new(Kind::Whiteout, 0))?;
        }
        Ok(())
    }

    fn exchange(&mut self, from: &Path, to: &Path) -> Done {
        let (a, b) = (self.place(from)?, self.place(to)?);
        let missing = "one of them does not exist";
        let (first, second) = (*self.names.get(&a).ok_or(missing)?, *self.names.get(&b).ok_or(missing)?);
        if self.is_below(b.0, first) || self.is_below(a.0, second) {
            return Err("one is below the other");
        }
        self.names.insert(a, second);
        self.names.insert(b, first);
        Ok(())
    }

    /// Whether `obj` is `above` or somewhere below it.
    fn is_below(&self, mut obj: Obj, above: Obj) -> bool {
        loop {
            if obj == above {
                return true;
            }
            match self.names_of(obj).next() {
                Some((parent, _)) => obj = *parent,
                None => return false,
            }
        }
    }
}

/// The entries of a directory among these names.
pub(crate) fn entries(names: &BTreeMap<(Obj, String), Obj>, dir: Obj) -> impl Iterator<Item = (&str, Obj)> {
    let range = names.range((dir, String::new())..(dir + 1, String::new()));
    range.map(|((_, name), obj)| (name.as_str(), *obj))
}

impl Node {
    fn new(kind: Kind, mode: u32) -> Self {
        let (owner, mtime, size) = ((0, 0), None, 0);
        Node { kind, mode, owner, mtime, size, pages: BTreeMap::new(), xattrs: BTreeMap::new() }
    }

    /// The content of a page now.
    fn current(&self, page: u64) -> Option<&Arc<[u8]>> {
        self.pages.get(&page)?.last()?.1.as_ref()
    }

    /// Changes bytes of a page; what it held stays in its history.
    fn edit(&mut self, page: u64, version: Version, f: impl FnOnce(&mut [u8])) {
        let mut bytes = self.current(page).map_or_else(|| vec![0; PAGE as usize], |old| old.to_vec());
        f(&mut bytes);
        // A hole that is written has its slot reserved first: until the content arrives it reads as zeros.
        let history = self.pages.entry(page).or_insert_with(|| vec![(0, None)]);
        history.push((version, Some(bytes.into())));
    }

    fn write(&mut self, off: u64, bytes: &[u8], version: Version) {
        let end = off + bytes.len() as u64;
        for page in off / PAGE..end.div_ceil(PAGE) {
            let (from, to) = (off.max(page * PAGE), end.min((page + 1) * PAGE));
            let part = &bytes[(from - off) as usize..(to - off) as usize];
            self.edit(page, version, |old| old[(from % PAGE) as usize..][..part.len()].copy_from_slice(part));
        }
        self.size = self.size.max(end);
    }

    fn zero(&mut self, range: std::ops::Range<u64>, version: Version, punch: bool) {
        for page in range.start / PAGE..range.end.div_ceil(PAGE) {
            let (from, to) = (range.start.max(page * PAGE), range.end.min((page + 1) * PAGE));
            if punch && to - from == PAGE {
                self.pages.remove(&page);
            } else if self.pages.contains_key(&page) {
                self.edit(page, version, |old| old[(from % PAGE) as usize..][..(to - from) as usize].fill(0));
            }
        }
    }

    fn truncate(&mut self, size: u64, version: Version) {
        if size < self.size {
            self.pages.split_off(&size.div_ceil(PAGE));
            self.zero(size..size.next_multiple_of(PAGE), version, false);
        }
        self.size = size;
    }

    fn falloc(&mut self, mode: Falloc, off: u64, len: u64, version: Version) {
        let end = off + len;
        match mode {
            Falloc::Allocate => self.size = self.size.max(end),
            Falloc::AllocateKeep => {}
            Falloc::Punch => self.zero(off..end, version, true),
            Falloc::Zero | Falloc::ZeroKeep => {
                self.zero(off..end, version, false);
                if mode == Falloc::Zero {
                    self.size = self.size.max(end);
                }
            }
            Falloc::Collapse => {
                let behind = self.pages.split_off(&(off / PAGE));
                let moved = behind.into_iter().filter(|(page, _)| *page >= end / PAGE);
                self.pages.extend(moved.map(|(page, history)| (page - len / PAGE, history)));
                self.size -= len;
            }
            Falloc::Insert => {
                let behind = self.pages.split_off(&(off / PAGE));
                self.pages.extend(behind.into_iter().map(|(page, history)| (page + len / PAGE, history)));
                self.size += len;
            }
        }
    }
}

/// The states that one writer goes through.
#[derive(Debug, Clone)]
pub(crate) struct Timeline {
    /// Its directory: the root for a single writer.
    pub(crate) top: Obj,
    /// Indices of its steps in the workload.
    pub(crate) steps: Vec<usize>,
    /// The state at each version: one more than steps.
    pub(crate) states: Vec<Arc<State>>,
}

/// The timelines of a workload, one per writer.
///
/// # Errors
/// A step that the state before it does not allow; writers that do not keep to their directories.
pub(crate) fn timelines(workload: &Workload) -> Result<Vec<Timeline>, ModelError> {
    let base = Arc::new(State::after_setup(workload)?);
    let writers = workload.writers();
    let alone = writers.len() <= 1;
    let mut out = Vec::new();
    for writer in writers {
        let steps: Vec<usize> = (0..workload.steps.len()).filter(|&i| workload.steps[i].writer == writer).collect();
        let home = format!("w{writer}");
        let mut states = vec![Arc::clone(&base)];
        let mut state = (*base).clone();
        let fail = |at: usize, what| ModelError { step: workload.number(at), op: workload.steps[at].to_string(), what };
        for (version, &at) in steps.iter().enumerate() {
            let op = &workload.steps[at].op;
            if !alone && !op.paths().iter().all(|path| home_of(path) == Some(&home)) {
                return Err(fail(at, "each of several writers keeps to its directory"));
            }
            state.apply(op, workload.number(at), version as Version + 1)?;
            states.push(Arc::new(state.clone()));
        }
        let top = if alone { Some(ROOT) } else { base.find(&home) };
        let top = top.ok_or_else(|| fail(steps[0], "the set-up does not make the writer's directory"))?;
        out.push(Timeline { top, steps, states });
    }
    Ok(out)
}

/// The first name of a path, of an open file of the one by which it was opened.
fn home_of(path: &str) -> Option<&str> {
    path.strip_prefix(HANDLE).unwrap_or(path).split('/').next()
}

impl Op {
    /// The paths that it names.
    pub fn paths(&self) -> Vec<&str> {
        match self {
            Op::Creat { path }
            | Op::Mkdir { path }
            | Op::Mkfifo { path }
            | Op::Tmpfile { path }
            | Op::Write { path, .. }
            | Op::DirectWrite { path, .. }
            | Op::Append { path, .. }
            | Op::Fsync { path }
            | Op::Fdatasync { path }
            | Op::Symlink { path, .. }
            | Op::Unlink { path }
            | Op::Rmdir { path }
            | Op::Truncate { path, .. }
            | Op::Falloc { path, .. }
            | Op::SetXattr { path, .. }
            | Op::RemoveXattr { path, .. }
            | Op::Chmod { path, .. }
            | Op::Chown { path, .. }
            | Op::Utimes { path, .. }
            | Op::Open { path } => vec![path],
            Op::Rename { from, to } | Op::Exchange { from, to } | Op::Whiteout { from, to } | Op::Link { from, to } => {
                vec![from, to]
            }
            Op::Sync | Op::Checkpoint | Op::Gc | Op::Wait { .. } | Op::Skip => vec![],
        }
    }
}
