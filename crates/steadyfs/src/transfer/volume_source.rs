//! A volume as a source: an inode and everything below it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use steadyfs_core::{Attr, Error, Fs, InodeRef, Whence};
use steadyfs_format::Ino;
use steadyfs_format::dir::is_valid_name;

use super::{Body, Content, Entry, Job, Kind, Meta, Sink, Source, join, show};
use crate::failure::Failure;
use crate::volume::{Volume, failure};

/// Trees of a volume, each with its path in the copy.
pub(crate) struct VolumeSource<'a> {
    volume: &'a Volume,
    roots: Vec<(InodeRef, Vec<u8>)>,
    /// First path in the copy of every file with several names.
    linked: HashMap<Ino, Vec<u8>>,
    /// Directories visited: in a damaged volume one may lie below itself.
    visited: HashSet<Ino>,
}

impl<'a> VolumeSource<'a> {
    pub(crate) fn new(volume: &'a Volume, roots: Vec<(InodeRef, Vec<u8>)>) -> Self {
        VolumeSource { volume, roots, linked: HashMap::new(), visited: HashSet::new() }
    }

    /// Bytes allocated to what will be copied; an estimate for the progress bar, so errors count nothing.
    pub(crate) fn total(&self) -> u64 {
        let mut pending: Vec<Ino> = self.roots.iter().map(|(root, _)| root.ino()).collect();
        let (mut seen, mut total) = (HashSet::new(), 0);
        while let Some(ino) = pending.pop() {
            let Ok(inode) = self.volume.fs.inode(ino) else { continue };
            if !seen.insert(ino) {
                continue; // another name of a file
            }
            if inode.kind() == Kind::Dir {
                pending.extend(self.volume.entries(&inode).into_iter().flatten().map(|(_, ino)| ino));
            } else if let Ok(attr) = self.volume.fs.attr(&inode) {
                total += attr.size.min(attr.blocks * 512);
            }
        }
        total
    }

    /// Sends one entry; gives the names below if it is a directory.
    fn entry(
        &mut self,
        inode: &InodeRef,
        path: &[u8],
        sink: &mut dyn Sink,
        job: &mut Job,
    ) -> Result<Vec<(Vec<u8>, Ino)>, Failure> {
        let fs = &self.volume.fs;
        let found = fs.attr(inode).and_then(|attr| Ok((meta(fs, inode, &attr)?, attr)));
        let (meta, attr) = found.map_err(|e| cannot(path, &e))?;
        if attr.kind == Kind::Dir {
            if !self.visited.insert(attr.ino) {
                return Err(cannot(path, &Error::Corrupt("the directory lies below itself".into())));
            }
            let entries = self.volume.entries(inode).map_err(|e| cannot(path, &e))?;
            sink.entry(Entry { path, meta: &meta, body: Body::Directory }, job)?;
            return Ok(entries);
        }
        if attr.nlink > 1 {
            if let Some(first) = self.linked.get(&attr.ino) {
                sink.entry(Entry { path, meta: &meta, body: Body::HardLink(first.clone()) }, job)?;
                return Ok(Vec::new());
            }
            self.linked.insert(attr.ino, path.to_vec());
        }
        match attr.kind {
            Kind::Regular => {
                let mut content = VolumeContent { fs, inode, path, size: attr.size };
                sink.entry(Entry { path, meta: &meta, body: Body::File(&mut content) }, job)?;
            }
            Kind::Symlink => {
                let target = fs.readlink(inode).map_err(|e| cannot(path, &e))?;
                sink.entry(Entry { path, meta: &meta, body: Body::Symlink(target) }, job)?;
            }
            _ => sink.entry(Entry { path, meta: &meta, body: Body::Special }, job)?,
        }
        Ok(Vec::new())
    }
}

impl Source for VolumeSource<'_> {
    fn send(&mut self, sink: &mut dyn Sink, job: &mut Job) -> Result<(), Failure> {
        for (root, to) in std::mem::take(&mut self.roots) {
            let mut pending = vec![(to, root.ino())];
            while let Some((path, ino)) = pending.pop() {
                job.progress.at(&path);
                let inode = match self.volume.fs.inode(ino) {
                    Ok(inode) => inode,
                    // One unreadable inode must not keep the rest from being saved.
                    Err(e) => {
                        job.notes.add(&job.progress, &path, "left out", e);
                        continue;
                    }
                };
                for (name, child) in self.entry(&inode, &path, sink, job)?.into_iter().rev() {
                    if is_valid_name(&name) {
                        pending.push((join(&path, &name), child));
                    } else {
                        let what = format!("the name `{}` left out", show(&name));
                        job.notes.add(&job.progress, &path, &what, "no file can be called that");
                    }
                }
            }
        }
        Ok(())
    }
}

/// What a copy carries of an inode.
pub(crate) fn meta(fs: &Fs, inode: &InodeRef, attr: &Attr) -> Result<Meta, Error> {
    let mut xattrs = Vec::new();
    for name in fs.listxattr(inode)? {
        let value = fs.getxattr(inode, &name)?;
        xattrs.push((name, value));
    }
    xattrs.sort();
    Ok(Meta {
        kind: attr.kind,
        perm: attr.mode & 0o7777,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        atime: attr.atime,
        mtime: attr.mtime,
        xattrs,
    })
}

/// Where a file has data, ascending.
pub(crate) fn extents(fs: &Fs, inode: &InodeRef, size: u64) -> Result<Vec<Range<u64>>, Error> {
    let mut extents = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match fs.seek(inode, at, Whence::Data) {
            Ok(start) => start,
            Err(Error::NoSuchOffset) => break,
            Err(e) => return Err(e),
        };
        let end = fs.seek(inode, start, Whence::Hole)?.min(size);
        if end <= start {
            break;
        }
        extents.push(start..end);
        at = end;
    }
    Ok(extents)
}

/// A file of the volume.
struct VolumeContent<'a> {
    fs: &'a Fs,
    inode: &'a InodeRef,
    path: &'a [u8],
    size: u64,
}

impl Content for VolumeContent<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn extents(&mut self) -> Result<Option<Vec<Range<u64>>>, Failure> {
        extents(self.fs, self.inode, self.size).map(Some).map_err(|e| cannot(self.path, &e))
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize, Failure> {
        let mut done = 0;
        while done < buf.len() {
            match self.fs.read(self.inode, offset + done as u64, &mut buf[done..]).map_err(|e| cannot(self.path, &e))? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }
}

fn cannot(path: &[u8], e: &Error) -> Failure {
    failure(format!("cannot read {} of the volume", show(path)), e)
}
