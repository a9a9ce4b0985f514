//! The list of operations that make the tree, while it grows. The subjects (in the other files here) have a function
//! and a directory each, so that a difference between two manifests names its subject.

use std::collections::BTreeSet;

use super::data::mix;
use super::{CorpusOp, Data, Falloc, Spec, Special};
use crate::manifest::Time;
impl Spec {
    /// The operations that make this tree in an empty directory.
    pub fn ops(&self) -> Vec<CorpusOp> {
        let mut tree = Tree { spec: self, ops: Vec::new(), live: BTreeSet::new(), timed: BTreeSet::new() };
        tree.inline();
        tree.blocks();
        tree.holes();
        tree.falloc();
        tree.truncated();
        tree.names();
        tree.links();
        tree.special();
        tree.xattrs();
        tree.acls();
        tree.modes();
        tree.times();
        tree.symlinks();
        tree.deep();
        tree.dirs();
        tree.renamed();
        tree.finish();
        tree.ops
    }
}

/// The list so far, and what exists once it has been performed.
pub(super) struct Tree<'a> {
    pub(super) spec: &'a Spec,
    pub(super) ops: Vec<CorpusOp>,
    live: BTreeSet<Vec<u8>>,
    /// Paths whose times were set explicitly.
    pub(super) timed: BTreeSet<Vec<u8>>,
}

impl Tree<'_> {
    pub(super) fn dir(&mut self, path: impl AsRef<[u8]>) {
        self.made(path.as_ref());
        self.ops.push(CorpusOp::Mkdir { path: path.as_ref().to_vec(), mode: 0o755 });
    }

    pub(super) fn empty(&mut self, path: impl AsRef<[u8]>) {
        self.made(path.as_ref());
        self.ops.push(CorpusOp::Create { path: path.as_ref().to_vec(), mode: 0o644 });
    }

    pub(super) fn file(&mut self, path: impl AsRef<[u8]>, len: u64) {
        self.empty(path.as_ref());
        self.write(path, 0, len);
    }

    pub(super) fn write(&mut self, path: impl AsRef<[u8]>, offset: u64, len: u64) {
        let path = path.as_ref().to_vec();
        let seed = path_seed(&path);
        let data = if self.spec.noise { Data::Noise { seed, len } } else { Data::Text { seed, len } };
        if len > 0 {
            self.ops.push(CorpusOp::Write { path, offset, data });
        }
    }

    pub(super) fn truncate(&mut self, path: impl AsRef<[u8]>, size: u64) {
        self.ops.push(CorpusOp::Truncate { path: path.as_ref().to_vec(), size });
    }

    pub(super) fn fallocate(&mut self, path: impl AsRef<[u8]>, how: Falloc, offset: u64, len: u64) {
        self.ops.push(CorpusOp::Fallocate { path: path.as_ref().to_vec(), how, offset, len });
    }

    pub(super) fn symlink(&mut self, path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) {
        self.made(path.as_ref());
        self.ops.push(CorpusOp::Symlink { path: path.as_ref().to_vec(), target: target.as_ref().to_vec() });
    }

    pub(super) fn link(&mut self, existing: impl AsRef<[u8]>, new: impl AsRef<[u8]>) {
        self.made(new.as_ref());
        self.ops.push(CorpusOp::Link { existing: existing.as_ref().to_vec(), new: new.as_ref().to_vec() });
    }

    pub(super) fn mknod(&mut self, path: impl AsRef<[u8]>, kind: Special) {
        self.made(path.as_ref());
        self.ops.push(CorpusOp::Mknod { path: path.as_ref().to_vec(), kind, mode: 0o640 });
    }

    pub(super) fn xattr(&mut self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let (path, name, value) = (path.as_ref().to_vec(), name.as_ref().to_vec(), value.as_ref().to_vec());
        self.ops.push(CorpusOp::SetXattr { path, name, value });
    }

    pub(super) fn no_xattr(&mut self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) {
        self.ops.push(CorpusOp::RemoveXattr { path: path.as_ref().to_vec(), name: name.as_ref().to_vec() });
    }

    pub(super) fn chmod(&mut self, path: impl AsRef<[u8]>, mode: u32) {
        self.ops.push(CorpusOp::Chmod { path: path.as_ref().to_vec(), mode });
    }

    pub(super) fn chown(&mut self, path: impl AsRef<[u8]>, uid: u32, gid: u32) {
        self.ops.push(CorpusOp::Chown { path: path.as_ref().to_vec(), uid, gid });
    }

    pub(super) fn unlink(&mut self, path: impl AsRef<[u8]>) {
        self.gone(path.as_ref());
        self.ops.push(CorpusOp::Unlink { path: path.as_ref().to_vec() });
    }

    pub(super) fn rmdir(&mut self, path: impl AsRef<[u8]>) {
        self.gone(path.as_ref());
        self.ops.push(CorpusOp::Rmdir { path: path.as_ref().to_vec() });
    }

    /// Also moves what is below `from`, in the books.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let below = format!("{from}/").into_bytes();
        let is_moved = |p: &&Vec<u8>| p.as_slice() == from.as_bytes() || p.starts_with(&below);
        let moved: Vec<Vec<u8>> = self.live.iter().filter(is_moved).cloned().collect();
        assert!(!moved.is_empty(), "{from} does not exist");
        for old in moved {
            self.live.remove(&old);
            self.live.insert([to.as_bytes(), &old[from.len()..]].concat());
        }
        self.ops.push(CorpusOp::Rename { from: from.into(), to: to.into() });
    }

    pub(super) fn made(&mut self, path: &[u8]) {
        assert!(self.live.insert(path.to_vec()), "{} is made twice", crate::manifest::escape(path));
    }

    pub(super) fn gone(&mut self, path: &[u8]) {
        assert!(self.live.remove(path), "{} does not exist", crate::manifest::escape(path));
    }

    /// Times that follow from the path, for everything whose times are not a subject of their own. Last, because making
    /// a name changes its directory's times.
    fn finish(&mut self) {
        self.ops.push(CorpusOp::Sync);
        self.chmod(".", 0o755);
        self.live.insert(b".".to_vec());
        let spread =
            |seed: u64| Time { sec: 1_400_000_000 + (seed % 300_000_000) as i64, nsec: (seed % 999_999_937) as u32 };
        for path in &self.live {
            if !self.timed.contains(path) {
                let seed = path_seed(path);
                let (atime, mtime) = (spread(mix(seed, 1)), spread(mix(seed, 2)));
                self.ops.push(CorpusOp::SetTimes { path: path.clone(), atime, mtime });
            }
        }
    }
}
/// A number that follows from a path.
fn path_seed(path: &[u8]) -> u64 {
    path.iter().fold(0, |seed, &byte| mix(seed, byte.into()))
}
