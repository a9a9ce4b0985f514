//! A short workload that touches every kind of structure, with the model of what it did.

use crate::faults::bed::{Bed, Ends, Kind, fresh_of};
use crate::faults::model::{Entry, Model, find, read};
use std::sync::{Arc, OnceLock};
use steadyfs_core::{Error, Fs, NewInode, RenameFlags, Result, SetAttr, Urgency, XattrFlags};
use steadyfs_device::MemDevice;

const FILE: u32 = 0o100_644;
const DIR: u32 = 0o040_755;

/// A volume, what it should hold, and what went wrong.
pub(crate) struct Run {
    pub(crate) fs: Arc<Fs>,
    pub(crate) model: Model,
    pub(crate) errors: Vec<Error>,
}

fn new(mode: u32) -> NewInode {
    NewInode { mode, ..NewInode::default() }
}

fn bytes(seed: u8, len: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(len);
    for page in 0..len.div_ceil(4096) {
        all.resize(len.min((page + 1) * 4096), seed.wrapping_add(page as u8));
    }
    all
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Run {
    pub(crate) fn new(fs: Arc<Fs>, model: Model) -> Self {
        Run { fs, model, errors: Vec::new() }
    }

    /// Notes a failure; false if there was one.
    fn ok<T>(&mut self, result: Result<T>) -> bool {
        result.map_err(|e| self.errors.push(e)).is_ok()
    }

    fn dir_of(&self, path: &str) -> Result<steadyfs_core::InodeRef> {
        match split(path).0 {
            "" => self.fs.root(),
            dir => find(&self.fs, dir),
        }
    }

    /// An operation that makes these paths these entries, or nothing at all.
    fn names(&mut self, after: &[(&str, Entry)], work: impl FnOnce(&Self) -> Result<()>) {
        let result = work(self);
        if self.ok(result) {
            after.iter().for_each(|(path, entry)| self.model.set(path, entry.clone()));
            return;
        }
        for (path, entry) in after {
            match read(&self.fs, path) {
                Ok(found) => {
                    assert!(self.model.may_be(path, &found), "{path}: an operation that failed made it {found:?}");
                    self.model.set(path, found);
                }
                Err(_) => self.model.set_maybe(path, entry.clone()),
            }
        }
    }

    /// An operation that changes the contents of a file, maybe in part.
    fn contents(&mut self, path: &str, work: impl FnOnce(&Fs, &mut Vec<u8>) -> Result<()>) {
        let Entry::File(mut data) = self.model.get(path) else { return };
        let result = work(&self.fs, Arc::make_mut(&mut data));
        let done = self.ok(result);
        // After a success, too: these reads meet faults of their own.
        match read(&self.fs, path) {
            Err(_) if done => self.model.set(path, Entry::File(data)),
            Ok(found) => {
                let data = Entry::File(data);
                assert!(!done || found == data, "{path} does not read as it was written");
                self.model.set(path, found);
            }
            Err(_) => self.model.set_maybe(path, Entry::File(data)),
        }
    }

    pub(crate) fn mkdir(&mut self, path: &str) {
        self.names(&[(path, Entry::Dir)], |run| {
            run.fs.create(&run.dir_of(path)?, split(path).1.as_bytes(), &new(DIR)).map(drop)
        });
    }

    pub(crate) fn create(&mut self, path: &str) {
        self.names(&[(path, Entry::File(Arc::default()))], |run| {
            run.fs.create(&run.dir_of(path)?, split(path).1.as_bytes(), &new(FILE)).map(drop)
        });
    }

    pub(crate) fn symlink(&mut self, path: &str, target: &[u8]) {
        self.names(&[(path, Entry::Link(target.to_vec()))], |run| {
            run.fs.symlink(&run.dir_of(path)?, split(path).1.as_bytes(), target, &new(0o120_777)).map(drop)
        });
    }

    pub(crate) fn unlink(&mut self, path: &str) {
        if self.model.get(path) != Entry::Absent {
            self.names(&[(path, Entry::Absent)], |run| run.fs.unlink(&run.dir_of(path)?, split(path).1.as_bytes()));
        }
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        let entry = self.model.get(from);
        if entry == Entry::Absent {
            return;
        }
        self.model.note_rename(from, to);
        self.names(&[(from, Entry::Absent), (to, entry)], |run| {
            let (old, fresh) = (run.dir_of(from)?, run.dir_of(to)?);
            run.fs.rename(&old, split(from).1.as_bytes(), &fresh, split(to).1.as_bytes(), RenameFlags::default())
        });
    }

    pub(crate) fn write(&mut self, path: &str, off: usize, len: usize, seed: u8) {
        self.contents(path, |fs, data| {
            let all = bytes(seed, len);
            let n = fs.write(&find(fs, path)?, off as u64, &all)?;
            put(data, off, &all[..n]);
            if n == len { Ok(()) } else { Err(Error::NoSpace) }
        });
    }

    fn write_direct(&mut self, path: &str, off: usize, len: usize, seed: u8) {
        self.contents(path, |fs, data| {
            let all = bytes(seed, len);
            put(data, off, &all);
            fs.write_direct(&find(fs, path)?, off as u64, &all).map(drop)
        });
    }

    fn truncate(&mut self, path: &str, size: usize) {
        self.contents(path, |fs, data| {
            data.resize(size, 0);
            let set = SetAttr { size: Some(size as u64), ..SetAttr::default() };
            fs.setattr(&find(fs, path)?, &set).map(drop)
        });
    }

    fn xattr(&mut self, path: &str, len: usize) {
        let set = find(&self.fs, path)
            .and_then(|inode| self.fs.setxattr(&inode, b"user.a", &vec![b'x'; len], XattrFlags::default()));
        self.ok(set);
    }

    pub(crate) fn fsync(&mut self, path: &str) {
        if !matches!(self.model.get(path), Entry::File(_)) {
            return;
        }
        let synced = find(&self.fs, path).and_then(|inode| self.fs.fsync(&inode, false));
        if self.ok(synced) {
            self.model.durable(path);
        }
    }

    pub(crate) fn sync(&mut self) {
        let synced = self.fs.sync();
        if self.ok(synced) {
            self.model.all_durable();
        }
    }

    /// Reads a file: an error, or what was written.
    fn check(&mut self, path: &str) {
        let found = read(&self.fs, path);
        if let Ok(found) = &found {
            assert!(self.model.may_be(path, found), "{path} does not read as it was written");
        }
        self.ok(found);
    }

    fn list(&mut self, path: &str) {
        let listed = find(&self.fs, path).and_then(|dir| self.fs.readdir(&dir, 0, &mut |_| true));
        self.ok(listed);
    }

    fn gc(&mut self) {
        let collected = self.fs.gc(1, Urgency::Foreground);
        // It ends with a checkpoint, but file pages may still be dirty.
        self.ok(collected);
    }
}

fn put(data: &mut Vec<u8>, off: usize, bytes: &[u8]) {
    data.resize(data.len().max(off + bytes.len()), 0);
    data[off..off + bytes.len()].copy_from_slice(bytes);
}

/// A volume with a past: files with nodes of their own, a directory of several blocks, holes in segments.
pub(crate) fn base() -> (MemDevice, Model) {
    base_of(Kind::F2fs)
}

/// As [`base`], of this kind.
pub(crate) fn base_of(kind: Kind) -> (MemDevice, Model) {
    static MADE: [OnceLock<(MemDevice, Model)>; 2] = [OnceLock::new(), OnceLock::new()];
    let make = || {
        let bed = Bed::new(fresh_of(kind), Ends::AtOnce);
        let mut run = Run::new(bed.mount("").expect("a whole volume"), Model::default());
        before(&mut run);
        assert!(run.errors.is_empty(), "{:?}", run.errors);
        run.fs.unmount().expect("a device without faults");
        (bed.after_crash(), run.model)
    };
    let (device, model) = MADE[kind as usize].get_or_init(make);
    (device.fork(), model.clone())
}

fn before(run: &mut Run) {
    run.mkdir("big");
    for n in 0..260 {
        run.create(&format!("big/a-name-that-takes-some-slots-{n}"));
    }
    run.create("old");
    run.write("old", 0, 5 << 20, 1);
    run.create("gone");
    run.write("gone", 0, 900_000, 2);
    run.create("kept");
    run.write("kept", 0, 40_000, 3);
    run.sync();
    for n in 0..50 {
        run.write("old", n * 20 * 4096, 4096, 50);
    }
    run.unlink("big/a-name-that-takes-some-slots-3");
    run.sync();
}

/// The workload.
pub(crate) fn work(run: &mut Run) {
    run.check("kept");
    run.mkdir("d");
    run.create("d/a");
    run.write("d/a", 0, 3 * 4096 + 100, 10);
    run.fsync("d/a");
    run.create("d/b");
    run.write("d/b", 0, 100_000, 11);
    run.write("d/a", 4096, 4096, 12);
    run.fsync("d/a");
    run.rename("d/a", "d/c");
    run.symlink("d/link", &[b't'; 900]);
    run.xattr("d/c", 2000);
    run.list("big");
    run.create("big/a-name-that-takes-some-slots-more");
    run.unlink("big/a-name-that-takes-some-slots-100");
    run.unlink("gone");
    run.write("old", 4 << 20, 300_000, 13);
    run.write("old", 100, 50, 14);
    run.fsync("old");
    run.truncate("old", 2_000_000);
    run.check("old");
    run.sync();
    run.write_direct("kept", 4096, 8192, 15);
    run.gc();
    run.write("d/b", 0, 4096, 16);
    run.rename("d/b", "kept");
    run.fsync("kept");
    run.check("kept");
    run.create("small");
    run.write("small", 0, 60, 17);
    run.unlink("d/link");
    run.sync();
}
