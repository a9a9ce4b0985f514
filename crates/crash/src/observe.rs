//! Reading the whole tree of a mounted volume, for comparison with what the model allows.

use std::collections::BTreeMap;
use steadyfs_core::{Error, Fs, InodeRef, Whence};
use steadyfs_device::is_zero;
use steadyfs_format::dir::FileType;

use crate::model::PAGE;

/// An inode number.
pub(crate) type SeenIno = u32;

/// The device numbers of a whiteout.
pub(crate) const WHITEOUT: &[u8] = b"0:0";

/// One object as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenNode {
    pub(crate) kind: FileType,
    pub(crate) mode: u32,
    /// User and group.
    pub(crate) owner: (u32, u32),
    /// Of a file: when it was last changed, in seconds.
    pub(crate) mtime: Option<i64>,
    pub(crate) size: u64,
    /// Symlinks: the target. Devices: their numbers, as in [`WHITEOUT`].
    pub(crate) target: Vec<u8>,
    /// Directories: the names.
    pub(crate) entries: BTreeMap<String, SeenIno>,
    /// Files: pages that are not all zeros, cut at the size.
    pub(crate) pages: BTreeMap<u64, Vec<u8>>,
    pub(crate) xattrs: BTreeMap<String, Vec<u8>>,
}

/// A tree as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) root: SeenIno,
    pub(crate) nodes: BTreeMap<SeenIno, SeenNode>,
}

impl Seen {
    /// Reads everything that can be reached.
    pub(crate) fn read(fs: &Fs) -> Result<Self, Error> {
        let root = fs.root()?;
        let mut nodes = BTreeMap::new();
        let mut waiting = vec![root.clone()];
        while let Some(inode) = waiting.pop() {
            let node = node(fs, &inode)?;
            for name in node.entries.keys() {
                let child = fs.lookup(&inode, name.as_bytes())?;
                if !nodes.contains_key(&child.ino().get()) && waiting.iter().all(|known| known.ino() != child.ino()) {
                    waiting.push(child);
                }
            }
            nodes.insert(inode.ino().get(), node);
        }
        Ok(Seen { root: root.ino().get(), nodes })
    }

    /// The first path at which this tree differs from another; inode numbers, times and sizes of directories do not
    /// count.
    pub(crate) fn difference(&self, other: &Seen) -> Option<String> {
        let mut waiting = vec![(self.root, other.root, String::new())];
        while let Some((mine, its, path)) = waiting.pop() {
            let (Some(a), Some(b)) = (self.nodes.get(&mine), other.nodes.get(&its)) else { return Some(path) };
            let is_dir = a.kind == FileType::Dir;
            let bare = |node: &SeenNode| SeenNode {
                entries: BTreeMap::new(),
                size: if is_dir { 0 } else { node.size },
                mtime: None,
                ..node.clone()
            };
            if bare(a) != bare(b) || !a.entries.keys().eq(b.entries.keys()) {
                return Some(path);
            }
            for ((name, &mine), &its) in a.entries.iter().zip(b.entries.values()) {
                waiting.push((mine, its, format!("{path}/{name}")));
            }
        }
        None
    }

    /// Takes a file out of the root.
    pub(crate) fn take(&mut self, name: &str) -> Option<SeenNode> {
        let ino = self.nodes.get_mut(&self.root)?.entries.remove(name)?;
        self.nodes.remove(&ino)
    }

    /// What a path names.
    pub(crate) fn find(&self, path: &str) -> Option<SeenIno> {
        let mut names = path.split('/').filter(|name| !name.is_empty());
        names.try_fold(self.root, |at, name| self.nodes.get(&at)?.entries.get(name).copied())
    }
}

fn node(fs: &Fs, inode: &InodeRef) -> Result<SeenNode, Error> {
    let attr = fs.attr(inode)?;
    let mut seen = SeenNode {
        kind: attr.kind,
        mode: attr.mode & 0o7777,
        owner: (attr.uid, attr.gid),
        mtime: (attr.kind == FileType::Regular).then_some(attr.mtime.secs),
        size: attr.size,
        target: Vec::new(),
        entries: BTreeMap::new(),
        pages: BTreeMap::new(),
        xattrs: BTreeMap::new(),
    };
    match attr.kind {
        FileType::Dir => fs.readdir(inode, 0, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                seen.entries.insert(String::from_utf8_lossy(entry.name).into_owned(), entry.ino.get());
            }
            true
        })?,
        FileType::Symlink => seen.target = fs.readlink(inode)?,
        FileType::CharDevice | FileType::BlockDevice => {
            seen.target = format!("{}:{}", attr.rdev.major, attr.rdev.minor).into_bytes();
        }
        _ => pages(fs, inode, attr.size, &mut seen.pages)?,
    }
    for name in fs.listxattr(inode)? {
        let value = fs.getxattr(inode, &name)?;
        seen.xattrs.insert(String::from_utf8_lossy(&name).into_owned(), value);
    }
    Ok(seen)
}

/// Bytes read at once.
const CHUNK: u64 = 64 * PAGE;

/// The pages of a file that are not holes and not all zeros.
fn pages(fs: &Fs, file: &InodeRef, size: u64, out: &mut BTreeMap<u64, Vec<u8>>) -> Result<(), Error> {
    let mut at = 0;
    while at < size {
        match fs.seek(file, at, Whence::Data) {
            Ok(data) => at = data / PAGE * PAGE,
            Err(Error::NoSuchOffset) => return Ok(()),
            Err(e) => return Err(e),
        }
        let end = fs.seek(file, at, Whence::Hole)?.next_multiple_of(PAGE).min(size);
        while at < end {
            let mut bytes = vec![0; CHUNK.min(end - at) as usize];
            let mut got = 0;
            while got < bytes.len() {
                match fs.read(file, at + got as u64, &mut bytes[got..])? {
                    0 => return Err(Error::Corrupt(format!("a read at {at} ends before the size"))),
                    n => got += n,
                }
            }
            let pages = bytes.chunks(PAGE as usize).zip(at / PAGE..);
            out.extend(pages.filter(|(page, _)| !is_zero(page)).map(|(page, number)| (number, page.to_vec())));
            at += bytes.len() as u64;
        }
    }
    Ok(())
}
