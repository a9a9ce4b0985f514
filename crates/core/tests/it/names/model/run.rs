//! Runs operations on both sides and compares.

use super::ops::{Op, name, xattr};
use super::tree::{Id, Node, ROOT, Tree};
use crate::names::support::{Volume, errno, fsck};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::BTreeMap;
use steadyfs_core::{Fs, InodeRef, NewInode, RenameFlags, SetAttr, XattrFlags};
use steadyfs_device::{FaultyDevice, MemDevice, Record, RecordingDevice};
use steadyfs_format::Ino;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::flags;

type Check<T = ()> = std::result::Result<T, TestCaseError>;

/// Bytes of attributes in a node of their own.
const XATTR_NODE: usize = 4072;

/// A moment between two operations.
pub(super) struct Moment {
    /// The device's clock after the operation.
    pub(super) tick: u64,
    /// Whether everything before is durable.
    pub(super) durable: bool,
    pub(super) tree: Tree,
}

type TestDevice = RecordingDevice<FaultyDevice<MemDevice>>;

pub(super) struct Run {
    pub(super) volume: Volume<TestDevice>,
    pub(super) tree: Tree,
    /// Operations may fail with EIO or, once the volume has stopped, with EROFS; the reference then does nothing.
    pub(super) faulty: bool,
    /// What the volume said last.
    last: i32,
    /// With faults: what the volume was when it was last made durable, and after each operation since.
    history: Vec<Tree>,
    /// Inode numbers of the reference's inodes.
    inos: Vec<Ino>,
    /// Inodes in use, which live on without names.
    held: BTreeMap<Id, InodeRef>,
}

/// Runs all operations on a volume, comparing after each what it said, and at the end what there is.
pub(super) fn run(device: MemDevice, options: &str, ops: &[Op]) -> Check {
    let mut run = Run::start(device, options)?;
    for (number, op) in ops.iter().enumerate() {
        run.step(op).map_err(|e| TestCaseError::fail(format!("operation {number}, {op:?}: {e}")))?;
    }
    run.finish()
}

/// Runs all operations; returns what went to the device, and what the reference was at each moment.
pub(super) fn run_and_record(device: MemDevice, options: &str, ops: &[Op]) -> Check<(Vec<Record>, Vec<Moment>)> {
    let mut run = Run::start(device, options)?;
    let mut moments = vec![Moment { tick: run.volume.dev.tick(), durable: true, tree: run.tree.clone() }];
    for op in ops {
        run.step(op)?;
        let durable = matches!(op, Op::Sync | Op::Remount);
        moments.push(Moment { tick: run.volume.dev.tick(), durable, tree: run.tree.clone() });
    }
    Ok((run.volume.dev.log(), moments))
}

impl Run {
    pub(super) fn start(device: MemDevice, options: &str) -> Check<Self> {
        let volume = Volume::on(RecordingDevice::new(FaultyDevice::new(device)), options);
        let root = volume.fs.root().unwrap();
        let mut known = describe(&volume.fs, &root)?;
        known.entries = BTreeMap::new();
        let inline = if options.contains("noinline_xattr") { 0 } else { 200 };
        let mut run = Run {
            volume,
            tree: Tree::new(known, inline + XATTR_NODE),
            inos: vec![root.ino()],
            faulty: false,
            last: 0,
            history: Vec::new(),
            held: BTreeMap::new(),
        };
        run.adopt_existing(&root)?;
        drop(root);
        Ok(run)
    }

    /// What mkfs put into the root directory.
    fn adopt_existing(&mut self, root: &InodeRef) -> Check {
        let fs = &self.volume.fs;
        let mut found = Vec::new();
        fs.readdir(root, 2, &mut |entry| {
            found.push((entry.name.to_vec(), entry.ino));
            true
        })
        .unwrap();
        for (name, ino) in found {
            let node = describe(fs, &fs.inode(ino).unwrap())?;
            let id = self.tree.nodes.len();
            self.tree.nodes[ROOT].entries.insert(name, id);
            self.tree.nodes.push(node);
            self.inos.push(ino);
        }
        Ok(())
    }

    /// Inodes that can be named now: those with names and those in use.
    fn alive(&self) -> Vec<Id> {
        (0..self.inos.len()).filter(|id| self.tree.nodes[*id].nlink > 0 || self.held.contains_key(id)).collect()
    }

    fn pick(&self, pick: u16) -> Id {
        let alive = self.alive();
        alive[pick as usize % alive.len()]
    }

    /// As [`Run::pick`], but a directory nearly always.
    fn pick_dir(&self, pick: u16) -> Id {
        if pick.is_multiple_of(32) {
            return self.pick(pick / 32);
        }
        let dirs: Vec<Id> = self.alive().into_iter().filter(|id| self.tree.nodes[*id].kind == FileType::Dir).collect();
        dirs[pick as usize % dirs.len()]
    }

    fn real(&self, id: Id) -> InodeRef {
        match self.held.get(&id) {
            Some(inode) => inode.clone(),
            None => self.volume.fs.inode(self.inos[id]).unwrap_or_else(|e| panic!("inode {}: {e}", self.inos[id])),
        }
    }

    fn made(&mut self, real: steadyfs_core::Result<InodeRef>, model: Result<Id, i32>, hold: bool) -> Check {
        match (real, model) {
            (Ok(inode), Ok(id)) => {
                assert_eq!(id, self.inos.len());
                self.inos.push(inode.ino());
                if hold {
                    self.held.insert(id, inode);
                }
                Ok(())
            }
            (real, model) => self.same(real.map(drop), model.map(drop)),
        }
    }

    fn same(&mut self, real: steadyfs_core::Result<()>, model: Result<(), i32>) -> Check {
        self.last = errno(real);
        if !self.is_fault() {
            prop_assert_eq!(self.last, model.err().unwrap_or(0), "left: volume, right: reference");
        }
        Ok(())
    }

    /// Whether the last operation met a fault of the device, or a volume that one has stopped.
    fn is_fault(&self) -> bool {
        const EIO: i32 = 5;
        const EROFS: i32 = 30;
        self.faulty && (self.last == EIO || self.last == EROFS)
    }

    /// Runs one operation on both sides.
    pub(super) fn step(&mut self, op: &Op) -> Check {
        let before = self.faulty.then(|| self.tree.clone());
        self.last = 0;
        self.step_names(op)?;
        let Some(before) = before else { return Ok(()) };
        if self.is_fault() {
            self.tree = before;
        }
        if matches!(op, Op::Sync) && self.last == 0 {
            self.history.clear();
        }
        self.history.push(self.tree.clone());
        Ok(())
    }

    /// From here on the device may fail. All inodes are in use, so that they need not be read.
    pub(super) fn begin_faults(&mut self) {
        for id in self.alive() {
            self.held.insert(id, self.real(id));
        }
        self.faulty = true;
        self.history = vec![self.tree.clone()];
    }

    /// The device works again. A volume that stopped is mounted again: it must be what it was at some moment since it
    /// was last durable.
    pub(super) fn end_faults(&mut self) -> Check {
        self.faulty = false;
        if !self.volume.fs.is_read_only() {
            return self.compare();
        }
        self.held.clear();
        self.volume.remount();
        let (inos, mut outcome) = (self.inos.clone(), Ok(()));
        for tree in std::mem::take(&mut self.history) {
            self.inos = inos[..tree.nodes.len()].to_vec();
            self.tree = tree;
            outcome = self.compare();
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn step_names(&mut self, op: &Op) -> Check {
        let fs = std::sync::Arc::clone(&self.volume.fs);
        match *op {
            Op::Make { dir, name: n, kind, mode, gid } => {
                let (dir, n) = (self.pick_dir(dir), name(n));
                let new = NewInode { mode: u32::from(kind.mode_bits() | mode), gid: gid.into(), ..NewInode::default() };
                let real = fs.create(&self.real(dir), &n, &new);
                let model = self.tree.make(dir, &n, kind, mode, gid.into());
                self.made(real, model, false)
            }
            Op::Symlink { dir, name: n, length } => {
                let (dir, n, target) = (self.pick_dir(dir), name(n), vec![b't'; length.into()]);
                let real = fs.symlink(&self.real(dir), &n, &target, &NewInode::default());
                let model = self.tree.symlink(dir, &n, &target);
                self.made(real, model, false)
            }
            Op::Tmpfile { dir } => {
                let dir = self.pick_dir(dir);
                let real = fs.tmpfile(&self.real(dir), &NewInode { mode: 0o600, ..NewInode::default() });
                let model = self.tree.tmpfile(dir);
                self.made(real, model, true)
            }
            Op::Link { inode, dir, name: n } => {
                let (inode, dir, n) = (self.pick(inode), self.pick_dir(dir), name(n));
                let real = fs.link(&self.real(inode), &self.real(dir), &n);
                let model = self.tree.link(inode, dir, &n);
                self.same(real, model)
            }
            Op::Unlink { dir, name: n } => {
                let (dir, n) = (self.pick_dir(dir), name(n));
                let real = fs.unlink(&self.real(dir), &n);
                let model = self.tree.unlink(dir, &n);
                self.same(real, model)
            }
            Op::Rmdir { dir, name: n } => {
                let (dir, n) = (self.pick_dir(dir), name(n));
                let real = fs.rmdir(&self.real(dir), &n);
                let model = self.tree.rmdir(dir, &n);
                self.same(real, model)
            }
            Op::Rename { dir, name: n, to, new, how, whiteout } => {
                let (dir, to, n, new) = (self.pick_dir(dir), self.pick_dir(to), name(n), name(new));
                self.rename((dir, &n), (to, &new), how, whiteout)
            }
            _ => self.step_attributes(op, &fs),
        }
    }

    fn rename(&mut self, from: (Id, &[u8]), to: (Id, &[u8]), how: RenameFlags, whiteout: bool) -> Check {
        let fs = std::sync::Arc::clone(&self.volume.fs);
        let (dir, to_dir) = (self.real(from.0), self.real(to.0));
        let real = match whiteout {
            true => fs.rename_whiteout(&dir, from.1, &to_dir, to.1, how, &NewInode::default()),
            false => fs.rename(&dir, from.1, &to_dir, to.1, how),
        };
        let model = self.tree.rename(from, to, how, whiteout);
        let left = real.is_ok() && self.tree.nodes.len() > self.inos.len();
        self.same(real, model)?;
        if left {
            let whiteout = fs.lookup(&dir, from.1).map_err(|e| TestCaseError::fail(e.to_string()))?;
            self.inos.push(whiteout.ino());
        }
        Ok(())
    }

    fn step_attributes(&mut self, op: &Op, fs: &Fs) -> Check {
        match *op {
            Op::Hold { inode } => {
                let id = self.pick(inode);
                self.held.insert(id, self.real(id));
                Ok(())
            }
            Op::Release { which } => {
                let ids: Vec<Id> = self.held.keys().copied().collect();
                if !ids.is_empty() {
                    self.held.remove(&ids[which as usize % ids.len()]);
                    // An inode that cannot be deleted now stays an orphan.
                    assert!(fs.reap().is_ok() || self.faulty);
                }
                Ok(())
            }
            Op::Chmod { inode, mode } => {
                let id = self.pick(inode);
                let set = SetAttr { mode: Some(mode.into()), ..SetAttr::default() };
                let real = fs.setattr(&self.real(id), &set).map(|_| ());
                let model = self.tree.chmod(id, mode);
                self.same(real, model)
            }
            Op::Chown { inode, gid } => {
                let id = self.pick(inode);
                let set = SetAttr { gid: Some(gid.into()), ..SetAttr::default() };
                let real = fs.setattr(&self.real(id), &set).map(|_| ());
                let model = self.tree.chown(id, gid.into());
                self.same(real, model)
            }
            Op::Protect { inode, immutable, append } => {
                let id = self.pick(inode);
                let real = self.real(id);
                let bit = |on, flag| if on { flag } else { 0 };
                let bits = fs.attr(&real).unwrap().flags & !(flags::IMMUTABLE | flags::APPEND)
                    | bit(immutable, flags::IMMUTABLE)
                    | bit(append, flags::APPEND);
                let set = fs.setattr(&real, &SetAttr { flags: Some(bits), ..SetAttr::default() }).map(drop);
                self.same(set, Ok(()))?;
                (self.tree.nodes[id].immutable, self.tree.nodes[id].append) = (immutable, append);
                Ok(())
            }
            Op::SetXattr { inode, name: n, length, create, replace } => {
                let (id, n, value) = (self.pick(inode), xattr(n), vec![length as u8; length.into()]);
                let how = XattrFlags { create, replace, clear_sgid: false };
                let real = fs.setxattr(&self.real(id), &n, &value, how);
                let model = self.tree.set_xattr(id, &n, &value, create, replace);
                self.same(real, model)
            }
            Op::RemoveXattr { inode, name: n } => {
                let (id, n) = (self.pick(inode), xattr(n));
                let real = fs.removexattr(&self.real(id), &n);
                let model = self.tree.remove_xattr(id, &n);
                self.same(real, model)
            }
            Op::Sync => {
                let synced = fs.sync();
                self.same(synced, Ok(()))
            }
            Op::Remount => {
                self.remount();
                self.compare()
            }
            _ => unreachable!("the names are dealt with"),
        }
    }

    /// Compares once more, and lets fsck.f2fs have a look.
    pub(super) fn finish(mut self) -> Check {
        self.compare()?;
        self.remount();
        self.compare()?;
        let Run { volume, held, .. } = self;
        drop(held);
        volume.fs.unmount().unwrap();
        fsck(volume.dev.inner().inner());
        Ok(())
    }

    /// References do not survive, and inodes without names do not survive those.
    pub(super) fn remount(&mut self) {
        self.held.clear();
        self.volume.remount();
    }

    /// Compares every inode that can be reached, and the number of all inodes.
    pub(super) fn compare(&self) -> Check {
        let fs = &self.volume.fs;
        for id in self.alive() {
            let mut seen = describe(fs, &self.real(id))?;
            let expected = &self.tree.nodes[id];
            // The volume cannot tell these two apart from the outside.
            seen.unnamed = expected.unnamed;
            seen.parent = expected.parent;
            seen.xattr_room = expected.xattr_room;
            if expected.kind == FileType::Dir && expected.nlink > 0 {
                seen.entries = self.entries(id)?;
                let parent = fs.lookup(&self.real(id), b"..").unwrap().ino();
                prop_assert_eq!(parent, self.inos[if id == ROOT { ROOT } else { expected.parent }]);
            }
            prop_assert!(seen == *expected, "inode {}: volume {:?}, reference {:?}", self.inos[id], seen, expected);
        }
        Ok(())
    }

    /// What a directory lists, as the reference would name it.
    fn entries(&self, id: Id) -> Check<BTreeMap<Vec<u8>, Id>> {
        let (fs, dir) = (&self.volume.fs, self.real(id));
        let mut listed = Vec::new();
        fs.readdir(&dir, 2, &mut |entry| {
            listed.push((entry.name.to_vec(), entry.ino, entry.kind));
            true
        })
        .unwrap();
        let mut entries = BTreeMap::new();
        for (name, ino, kind) in listed {
            let known = self.inos.iter().rposition(|known| *known == ino);
            let Some(child) = known else { return Err(TestCaseError::fail(format!("unknown inode {ino}"))) };
            prop_assert_eq!(kind, self.tree.nodes[child].kind);
            prop_assert_eq!(fs.lookup(&dir, &name).unwrap().ino(), ino);
            prop_assert!(entries.insert(name, child).is_none(), "a name was listed twice");
        }
        Ok(entries)
    }
}

/// An inode of the volume as the reference would write it down, without entries and parent.
pub(super) fn describe(fs: &Fs, inode: &InodeRef) -> Check<Node> {
    let attr = fs.attr(inode).unwrap();
    let target = if attr.kind == FileType::Symlink { fs.readlink(inode).unwrap() } else { Vec::new() };
    let mut xattrs = BTreeMap::new();
    for name in fs.listxattr(inode).unwrap() {
        let value = fs.getxattr(inode, &name).unwrap();
        prop_assert!(xattrs.insert(name, value).is_none(), "an attribute was listed twice");
    }
    prop_assert_eq!(FileType::from_mode(attr.mode as u16), Some(attr.kind));
    Ok(Node {
        kind: attr.kind,
        mode: (attr.mode & 0o7777) as u16,
        gid: attr.gid,
        nlink: attr.nlink,
        target,
        entries: BTreeMap::new(),
        parent: ROOT,
        xattrs,
        immutable: attr.flags & flags::IMMUTABLE != 0,
        append: attr.flags & flags::APPEND != 0,
        unnamed: false,
        xattr_room: XATTR_NODE, // what mkfs makes has no room in the inode
    })
}
