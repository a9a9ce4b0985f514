//! Files and directories in memory: what the peer keeps, without a word of FUSE.
//!
//! The least that a file system can do for its requests: no log, no checksum, no device, nothing survives the process.
//! Contents lie in pieces of 1 MiB that grow as they are written, names in a hash map per directory. An inode stays as
//! long as it has a name or the kernel knows it.

use fuser::{Errno, FileAttr, FileType, INodeNo};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

/// Bytes in one piece of a file.
const PIECE: usize = 1 << 20;

/// The contents of a regular file. A piece that is shorter than [`PIECE`] ends in zeros that nobody has written.
#[derive(Default)]
pub(super) struct Contents(Vec<Vec<u8>>);

impl Contents {
    /// Writes `data` at `offset`.
    pub(super) fn write(&mut self, mut offset: usize, mut data: &[u8]) {
        while !data.is_empty() {
            let (piece, at) = (offset / PIECE, offset % PIECE);
            if piece >= self.0.len() {
                self.0.resize_with(piece + 1, Vec::new);
            }
            let piece = &mut self.0[piece];
            let (now, later) = data.split_at(data.len().min(PIECE - at));
            if piece.len() < at {
                piece.resize(at, 0);
            }
            // New bytes are appended, so that its memory is not cleared before.
            let (over, new) = now.split_at(now.len().min(piece.len() - at));
            piece[at..at + over.len()].copy_from_slice(over);
            piece.extend_from_slice(new);
            (offset, data) = (offset + now.len(), later);
        }
    }

    /// Calls `reply` with `len` bytes from `offset` on, without a copy where they lie in one piece.
    pub(super) fn read<R>(&self, offset: usize, len: usize, reply: impl FnOnce(&[u8]) -> R) -> R {
        let within = offset % PIECE;
        match self.0.get(offset / PIECE).and_then(|piece| piece.get(within..within + len)) {
            Some(bytes) => reply(bytes),
            None => {
                let mut copy = vec![0; len];
                for (i, byte) in copy.iter_mut().enumerate() {
                    let at = offset + i;
                    *byte = self.0.get(at / PIECE).and_then(|piece| piece.get(at % PIECE)).copied().unwrap_or(0);
                }
                reply(&copy)
            }
        }
    }

    /// Forgets what lies behind `size`.
    pub(super) fn truncate(&mut self, size: usize) {
        self.0.truncate(size.div_ceil(PIECE));
        if let Some(last) = self.0.get_mut(size / PIECE) {
            last.truncate(size % PIECE);
        }
    }
}

/// What an inode is.
pub(super) enum Body {
    /// A regular file.
    File(RwLock<Contents>),
    /// A directory.
    Dir(Mutex<HashMap<OsString, INodeNo>>),
}

/// An inode.
pub(super) struct Node {
    attr: Mutex<FileAttr>,
    /// Its contents.
    pub(super) body: Body,
    /// How often the kernel was told of it.
    lookups: AtomicU64,
}

/// Nobody panics while it holds one of these locks; if somebody did, the benchmark ends anyway.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    /// Its attributes.
    pub(super) fn attr(&self) -> FileAttr {
        *lock(&self.attr)
    }

    /// Changes its attributes, and gives them back.
    pub(super) fn change(&self, change: impl FnOnce(&mut FileAttr)) -> FileAttr {
        let mut attr = lock(&self.attr);
        change(&mut attr);
        attr.blocks = attr.size.div_ceil(512);
        *attr
    }

    fn names(&self) -> Result<MutexGuard<'_, HashMap<OsString, INodeNo>>, Errno> {
        match &self.body {
            Body::Dir(names) => Ok(lock(names)),
            Body::File(_) => Err(Errno::ENOTDIR),
        }
    }
}

/// All inodes.
pub(super) struct Store {
    nodes: RwLock<HashMap<INodeNo, Arc<Node>>>,
    next: AtomicU64,
}

impl Store {
    /// An empty root directory.
    pub(super) fn new() -> Self {
        let root = node(INodeNo::ROOT, FileType::Directory, 0o755, 0, 0);
        let nodes = RwLock::new(HashMap::from([(INodeNo::ROOT, Arc::new(root))]));
        Store { nodes, next: AtomicU64::new(INodeNo::ROOT.0 + 1) }
    }

    /// An inode by its number.
    pub(super) fn node(&self, ino: INodeNo) -> Result<Arc<Node>, Errno> {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        nodes.get(&ino).cloned().ok_or(Errno::ENOENT)
    }

    /// Finds a name for the kernel, which knows the inode from then on.
    pub(super) fn lookup(&self, dir: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let ino = *self.node(dir)?.names()?.get(name).ok_or(Errno::ENOENT)?;
        let found = self.node(ino)?;
        found.lookups.fetch_add(1, Relaxed);
        Ok(found.attr())
    }

    /// Makes a file or a directory for the kernel, which knows it from then on.
    pub(super) fn make(
        &self,
        dir: INodeNo,
        name: &OsStr,
        kind: FileType,
        mode: u32,
        owner: (u32, u32),
    ) -> Result<FileAttr, Errno> {
        let parent = self.node(dir)?;
        let mut names = parent.names()?;
        if names.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let ino = INodeNo(self.next.fetch_add(1, Relaxed));
        let made = node(ino, kind, mode, owner.0, owner.1);
        made.lookups.store(1, Relaxed);
        let attr = made.attr();
        self.nodes.write().unwrap_or_else(PoisonError::into_inner).insert(ino, Arc::new(made));
        names.insert(name.to_owned(), ino);
        parent.change(|attr| attr.mtime = SystemTime::now());
        Ok(attr)
    }

    /// Removes a name of a file.
    pub(super) fn unlink(&self, dir: INodeNo, name: &OsStr) -> Result<(), Errno> {
        let parent = self.node(dir)?;
        let mut names = parent.names()?;
        let ino = *names.get(name).ok_or(Errno::ENOENT)?;
        let victim = self.node(ino)?;
        if matches!(victim.body, Body::Dir(_)) {
            return Err(Errno::EISDIR);
        }
        names.remove(name);
        parent.change(|attr| attr.mtime = SystemTime::now());
        victim.change(|attr| attr.nlink -= 1);
        self.drop_unused(ino, &victim);
        Ok(())
    }

    /// Removes an empty directory.
    pub(super) fn rmdir(&self, dir: INodeNo, name: &OsStr) -> Result<(), Errno> {
        let parent = self.node(dir)?;
        let mut names = parent.names()?;
        let ino = *names.get(name).ok_or(Errno::ENOENT)?;
        let victim = self.node(ino)?;
        if !victim.names()?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        names.remove(name);
        parent.change(|attr| attr.mtime = SystemTime::now());
        victim.change(|attr| attr.nlink = 0);
        self.drop_unused(ino, &victim);
        Ok(())
    }

    /// Gives a file or directory another name, in place of a file that has it.
    pub(super) fn rename(&self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr)) -> Result<(), Errno> {
        let ino = *self.node(from.0)?.names()?.get(from.1).ok_or(Errno::ENOENT)?;
        // One lock at a time: the name is in both places for a moment, never in none.
        let replaced = self.node(to.0)?.names()?.insert(to.1.to_owned(), ino);
        if from != to {
            self.node(from.0)?.names()?.remove(from.1);
        }
        if let Some(replaced) = replaced.filter(|replaced| *replaced != ino) {
            let victim = self.node(replaced)?;
            victim.change(|attr| attr.nlink -= 1);
            self.drop_unused(replaced, &victim);
        }
        for dir in [from.0, to.0] {
            self.node(dir)?.change(|attr| attr.mtime = SystemTime::now());
        }
        Ok(())
    }

    /// The names of a directory whose inodes have higher numbers than `after`, by number.
    pub(super) fn names(&self, dir: INodeNo, after: u64) -> Result<Vec<(OsString, FileAttr)>, Errno> {
        let names: Vec<(OsString, INodeNo)> =
            self.node(dir)?.names()?.iter().map(|(name, ino)| (name.clone(), *ino)).collect();
        let mut found = Vec::new();
        for (name, ino) in names.into_iter().filter(|(_, ino)| ino.0 > after) {
            found.push((name, self.node(ino)?.attr()));
        }
        found.sort_unstable_by_key(|(_, attr)| attr.ino.0);
        Ok(found)
    }

    /// The kernel forgets `count` lookups.
    pub(super) fn forget(&self, ino: INodeNo, count: u64) {
        if let Ok(known) = self.node(ino) {
            known.lookups.fetch_sub(count, Relaxed);
            self.drop_unused(ino, &known);
        }
    }

    /// After an unmount the kernel knows nothing, whatever it said before.
    pub(super) fn forget_all(&self) {
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|_, node| {
            node.lookups.store(0, Relaxed);
            node.attr().nlink > 0
        });
    }

    fn drop_unused(&self, ino: INodeNo, node: &Node) {
        if node.attr().nlink == 0 && node.lookups.load(Relaxed) == 0 {
            self.nodes.write().unwrap_or_else(PoisonError::into_inner).remove(&ino);
        }
    }
}

fn node(ino: INodeNo, kind: FileType, mode: u32, uid: u32, gid: u32) -> Node {
    let now = SystemTime::now();
    let attr = FileAttr {
        ino,
        size: 0,
        blocks: 0,
        atime: now,
        mtime: now,
        ctime: now,
        crtime: now,
        kind,
        perm: (mode & 0o7777) as u16,
        nlink: if kind == FileType::Directory { 2 } else { 1 },
        uid,
        gid,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    };
    let body = match kind {
        FileType::Directory => Body::Dir(Mutex::default()),
        _ => Body::File(RwLock::default()),
    };
    Node { attr: Mutex::new(attr), body, lookups: AtomicU64::new(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(contents: &Contents, offset: usize, len: usize) -> Vec<u8> {
        contents.read(offset, len, <[u8]>::to_vec)
    }

    #[test]
    fn contents_are_what_was_written_and_else_zero() {
        let mut contents = Contents::default();
        let mut model = vec![0u8; 3 * PIECE];
        for (i, (at, len)) in
            [(5, 10), (PIECE - 3, 9), (2 * PIECE + 100, 50), (0, 20), (PIECE + 7, PIECE)].iter().enumerate()
        {
            let data = vec![i as u8 + 1; *len];
            contents.write(*at, &data);
            model[*at..at + len].copy_from_slice(&data);
        }
        for (at, len) in [(0, 100), (PIECE - 10, 30), (2 * PIECE, 200), (0, 3 * PIECE)] {
            assert_eq!(read(&contents, at, len), model[at..at + len], "{at}");
        }
        contents.truncate(PIECE + 3);
        assert_eq!(read(&contents, PIECE, 6)[3..], [0; 3]);
        contents.truncate(PIECE);
        assert_eq!((read(&contents, PIECE - 1, 1), read(&contents, PIECE, 2)), (vec![2], vec![0; 2]));
    }

    #[test]
    fn an_inode_stays_while_it_has_a_name_or_is_known() {
        let (store, root) = (Store::new(), INodeNo::ROOT);
        let name = OsStr::new("a");
        let made = store.make(root, name, FileType::RegularFile, 0o644, (1, 2)).unwrap();
        assert!(store.make(root, name, FileType::RegularFile, 0o644, (1, 2)).is_err());
        assert_eq!(store.lookup(root, name).unwrap().ino, made.ino);
        store.unlink(root, name).unwrap();
        assert!(store.lookup(root, name).is_err());
        store.forget(made.ino, 1);
        assert!(store.node(made.ino).is_ok());
        store.forget(made.ino, 1);
        assert!(store.node(made.ino).is_err());
        let made = store.make(root, name, FileType::RegularFile, 0o644, (1, 2)).unwrap();
        store.unlink(root, name).unwrap();
        store.forget_all();
        assert!(store.node(made.ino).is_err() && store.node(root).is_ok());
    }

    #[test]
    fn names_move_and_directories_go_when_they_are_empty() {
        let (store, root) = (Store::new(), INodeNo::ROOT);
        let (dir, a, b) = (OsStr::new("dir"), OsStr::new("a"), OsStr::new("b"));
        let inner = store.make(root, dir, FileType::Directory, 0o755, (0, 0)).unwrap().ino;
        let [one, two] = [a, b].map(|name| store.make(inner, name, FileType::RegularFile, 0o644, (0, 0)).unwrap().ino);
        let listed = |after| store.names(inner, after).unwrap().iter().map(|(_, attr)| attr.ino).collect::<Vec<_>>();
        assert_eq!((listed(0), listed(one.0)), (vec![one, two], vec![two]));
        store.rename((inner, a), (inner, b)).unwrap();
        store.forget(two, 1);
        assert!(store.node(two).is_err() && store.lookup(inner, b).unwrap().ino == one);
        assert!(store.rmdir(root, dir).is_err());
        store.rename((inner, b), (root, a)).unwrap();
        store.rmdir(root, dir).unwrap();
        assert!(store.lookup(root, dir).is_err() && store.lookup(root, a).unwrap().ino == one);
    }
}
