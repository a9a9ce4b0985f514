//! A volume as a destination: makes the tree below a directory of it.

use std::collections::HashMap;

use steadyfs_core::{Error, Fs, InodeRef, NewInode, SetAttr, SetTime, XattrFlags};
use steadyfs_format::Ino;

use super::{Body, Content, Entry, Job, Kind, Meta, Sink, for_each_piece, lists, show, split};
use crate::failure::Failure;
use crate::volume::{Volume, failure};

/// More directories than this are looked up again rather than kept.
const KEPT_DIRECTORIES: usize = 4096;

/// A directory of a volume that receives a tree.
pub(crate) struct VolumeSink<'a> {
    fs: &'a Fs,
    top: InodeRef,
    /// Directories by path, so that a path is not walked for each of its files.
    known: HashMap<Vec<u8>, InodeRef>,
    /// Directories whose metadata waits for their contents: every entry made in one changes its times.
    directories: Vec<Waiting>,
}

/// A directory whose metadata waits. By number: its path may be as long as the copy is deep.
struct Waiting {
    path: Vec<u8>,
    ino: Ino,
    meta: Meta,
    made: Made,
}

/// Whether something was there before the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    New,
    Before,
}

impl<'a> VolumeSink<'a> {
    /// Receives the copy below `top`, a directory.
    pub(crate) fn new(volume: &'a Volume, top: InodeRef) -> Self {
        VolumeSink { fs: &volume.fs, top, known: HashMap::new(), directories: Vec::new() }
    }

    /// The directory at `path` below the top. Symlinks are not followed: what a copy made, a copy finds.
    fn dir(&mut self, path: &[u8]) -> Result<InodeRef, Error> {
        if path.is_empty() {
            return Ok(self.top.clone());
        }
        if let Some(known) = self.known.get(path) {
            return Ok(known.clone());
        }
        let mut at = self.top.clone();
        for part in path.split(|b| *b == b'/') {
            at = self.fs.lookup(&at, part)?;
            if at.kind() != Kind::Dir {
                return Err(Error::NotDirectory);
            }
        }
        self.remember(path, &at);
        Ok(at)
    }

    fn remember(&mut self, path: &[u8], dir: &InodeRef) {
        if self.known.len() >= KEPT_DIRECTORIES {
            self.known.clear();
        }
        self.known.insert(path.to_vec(), dir.clone());
    }

    /// Makes a name with `make`; a file that has the name already makes room.
    fn replace<T>(
        &mut self,
        path: &[u8],
        make: impl Fn(&Fs, &InodeRef, &[u8]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (parent, name) = split(path);
        let dir = self.dir(parent)?;
        match make(self.fs, &dir, name) {
            Err(Error::Exists) => {
                self.fs.unlink(&dir, name)?;
                make(self.fs, &dir, name)
            }
            made => made,
        }
    }

    fn make_directory(&mut self, path: &[u8], meta: &Meta) -> Result<(Ino, Made), Error> {
        if path.is_empty() {
            return Ok((self.top.ino(), Made::Before));
        }
        let (parent, name) = split(path);
        let dir = self.dir(parent)?;
        let (inode, made) = match self.fs.create(&dir, name, &new_inode(meta)) {
            // An existing directory takes the contents in.
            Err(Error::Exists) => (self.fs.lookup(&dir, name)?, Made::Before),
            inode => (inode?, Made::New),
        };
        if inode.kind() != Kind::Dir {
            return Err(Error::NotDirectory);
        }
        self.remember(path, &inode);
        Ok((inode.ino(), made))
    }

    fn link(&mut self, first: &[u8], path: &[u8]) -> Result<(), Error> {
        let (parent, name) = split(first);
        let dir = self.dir(parent)?;
        let inode = self.fs.lookup(&dir, name)?;
        let (parent, name) = split(path);
        let dir = self.dir(parent)?;
        if self.fs.lookup(&dir, name).is_ok_and(|there| there.ino() == inode.ino()) {
            return Ok(()); // what makes room would be the file itself
        }
        self.replace(path, |fs, dir, name| fs.link(&inode, dir, name))
    }

    fn set_meta(&self, inode: &InodeRef, path: &[u8], meta: &Meta, made: Made, job: &mut Job) -> Result<(), Failure> {
        // The owner first, which takes file capabilities away; then xattrs, since an ACL may change the mode.
        let owner = SetAttr { uid: Some(meta.uid), gid: Some(meta.gid), ..SetAttr::default() };
        self.fs.setattr(inode, &owner).map_err(|e| cannot(path, &e))?;
        if made == Made::New {
            self.drop_inherited(inode, meta).map_err(|e| cannot(path, &e))?;
        }
        let mut perm = meta.perm;
        for (name, value) in &meta.xattrs {
            if let Err(e) = self.fs.setxattr(inode, name, value, XattrFlags::default()) {
                let what = format!("attribute {} left out", super::show(name));
                job.notes.add(&job.progress, path, &what, e);
                if name == lists::ACCESS {
                    perm = lists::permissions_without(perm, value);
                }
            }
        }
        let attr = SetAttr {
            mode: (meta.kind != Kind::Symlink).then_some(perm),
            atime: Some(SetTime::At(meta.atime)),
            mtime: Some(SetTime::At(meta.mtime)),
            ..SetAttr::default()
        };
        self.fs.setattr(inode, &attr).map(drop).map_err(|e| cannot(path, &e))
    }

    /// What a directory gives to all that is made in it, the source does not have.
    fn drop_inherited(&self, inode: &InodeRef, meta: &Meta) -> Result<(), Error> {
        for list in [lists::ACCESS, lists::DEFAULT] {
            if meta.xattrs.iter().any(|(name, _)| name == list) {
                continue;
            }
            match self.fs.getxattr(inode, list) {
                Ok(_) => self.fs.removexattr(inode, list)?,
                Err(Error::NoAttribute) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn write(&self, inode: &InodeRef, path: &[u8], content: &mut dyn Content, job: &Job) -> Result<(), Failure> {
        for_each_piece(content, &job.progress, &mut |offset, data| {
            let mut done = 0;
            while done < data.len() {
                done += self.fs.write(inode, offset + done as u64, &data[done..]).map_err(|e| cannot(path, &e))?;
            }
            Ok(())
        })?;
        // Covers a hole at the end.
        let size = SetAttr { size: Some(content.size()), ..SetAttr::default() };
        self.fs.setattr(inode, &size).map(drop).map_err(|e| cannot(path, &e))
    }
}

impl Sink for VolumeSink<'_> {
    fn entry(&mut self, entry: Entry<'_>, job: &mut Job) -> Result<(), Failure> {
        job.progress.check()?;
        let (path, meta) = (entry.path, entry.meta);
        let cannot = |e: Error| cannot(path, &e);
        let new = new_inode(meta);
        let inode = match entry.body {
            Body::Directory => {
                let (ino, made) = self.make_directory(path, meta).map_err(cannot)?;
                self.directories.push(Waiting { path: path.to_vec(), ino, meta: meta.clone(), made });
                return Ok(());
            }
            Body::Parent => return self.make_directory(path, meta).map(drop).map_err(cannot),
            Body::HardLink(first) => return self.link(&first, path).map_err(cannot),
            Body::Symlink(target) => {
                self.replace(path, |fs, dir, name| fs.symlink(dir, name, &target, &new)).map_err(cannot)?
            }
            Body::Special => self.replace(path, |fs, dir, name| fs.create(dir, name, &new)).map_err(cannot)?,
            Body::File(content) => {
                let inode = self.replace(path, |fs, dir, name| fs.create(dir, name, &new)).map_err(cannot)?;
                self.write(&inode, path, content, job)?;
                inode
            }
        };
        self.set_meta(&inode, path, meta, Made::New, job)
    }

    fn finish(&mut self, job: &mut Job) -> Result<(), Failure> {
        while let Some(Waiting { path, ino, meta, made }) = self.directories.pop() {
            let dir = self.fs.inode(ino).map_err(|e| cannot(&path, &e))?;
            self.set_meta(&dir, &path, &meta, made, job)?;
        }
        Ok(())
    }
}

/// An inode as it is made; [`VolumeSink::set_meta`] does the rest.
fn new_inode(meta: &Meta) -> NewInode {
    let mode = u32::from(meta.kind.mode_bits()) | meta.perm;
    NewInode { mode, uid: meta.uid, gid: meta.gid, rdev: meta.rdev, umask: 0 }
}

fn cannot(path: &[u8], e: &Error) -> Failure {
    failure(format!("cannot write {} to the volume", show(path)), e)
}
