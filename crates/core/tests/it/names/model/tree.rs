//! The reference: a file system of maps, with the rules of POSIX and the error numbers of Linux.

use std::collections::BTreeMap;
use steadyfs_core::RenameFlags;
use steadyfs_format::dir::FileType;

/// An inode of the reference.
pub(super) type Id = usize;
/// The root directory.
pub(super) const ROOT: Id = 0;

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const E2BIG: i32 = 7;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
const ENAMETOOLONG: i32 = 36;
const ENOTEMPTY: i32 = 39;
const ENODATA: i32 = 61;
const EOPNOTSUPP: i32 = 95;

type Outcome<T = ()> = Result<T, i32>;

/// What an inode is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) kind: FileType,
    /// Permission bits.
    pub(super) mode: u16,
    pub(super) gid: u32,
    pub(super) nlink: u32,
    pub(super) target: Vec<u8>,
    pub(super) entries: BTreeMap<Vec<u8>, Id>,
    pub(super) parent: Id,
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) immutable: bool,
    pub(super) append: bool,
    /// Made without a name, and never had one.
    pub(super) unnamed: bool,
    /// Bytes of attributes that it can hold, header included.
    pub(super) xattr_room: usize,
}

/// The reference.
#[derive(Clone)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    /// Room for attributes of new inodes.
    pub(super) xattr_room: usize,
}

fn check_name(name: &[u8]) -> Outcome {
    match name {
        b"" => Err(ENOENT),
        name if name.len() > 255 => Err(ENAMETOOLONG),
        name if name.contains(&b'/') => Err(EINVAL),
        _ => Ok(()),
    }
}

fn is_dot(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

impl Tree {
    pub(super) fn new(root: Node, xattr_room: usize) -> Self {
        Tree { nodes: vec![root], xattr_room }
    }

    fn is_dir(&self, id: Id) -> bool {
        self.nodes[id].kind == FileType::Dir
    }

    fn protected(&self, id: Id) -> bool {
        self.nodes[id].immutable || self.nodes[id].append
    }

    fn need_dir(&self, id: Id) -> Outcome {
        if self.is_dir(id) { Ok(()) } else { Err(ENOTDIR) }
    }

    fn permit(&self, allowed: bool) -> Outcome {
        if allowed { Ok(()) } else { Err(EPERM) }
    }

    /// Whether a name may be added here.
    fn may_add(&self, dir: Id, name: &[u8]) -> Outcome {
        check_name(name)?;
        self.need_dir(dir)?;
        let node = &self.nodes[dir];
        match () {
            () if is_dot(name) => Err(EEXIST),
            () if node.nlink == 0 => Err(ENOENT),
            () if node.entries.contains_key(name) => Err(EEXIST),
            () => self.permit(!node.immutable),
        }
    }

    fn may_remove(&self, dir: Id, child: Id) -> Outcome {
        self.permit(!self.protected(dir) && !self.protected(child))
    }

    /// A new inode as its directory shapes it.
    fn born(&self, dir: Id, kind: FileType, mode: u16, gid: u32) -> Node {
        let parent = &self.nodes[dir];
        let set_gid = parent.mode & 0o2000 != 0;
        Node {
            kind,
            mode: mode | if set_gid && kind == FileType::Dir { 0o2000 } else { 0 },
            gid: if set_gid { parent.gid } else { gid },
            nlink: if kind == FileType::Dir { 2 } else { 1 },
            target: Vec::new(),
            entries: BTreeMap::new(),
            parent: dir,
            xattrs: BTreeMap::new(),
            immutable: false,
            append: false,
            unnamed: false,
            xattr_room: self.xattr_room,
        }
    }

    pub(super) fn make(&mut self, dir: Id, name: &[u8], kind: FileType, mode: u16, gid: u32) -> Outcome<Id> {
        self.may_add(dir, name)?;
        let node = self.born(dir, kind, mode, gid);
        self.nodes[dir].nlink += u32::from(kind == FileType::Dir);
        let id = self.nodes.len();
        self.nodes.push(node);
        self.nodes[dir].entries.insert(name.to_vec(), id);
        Ok(id)
    }

    pub(super) fn symlink(&mut self, dir: Id, name: &[u8], target: &[u8]) -> Outcome<Id> {
        if target.len() > 4095 {
            return Err(ENAMETOOLONG);
        }
        let id = self.make(dir, name, FileType::Symlink, 0o777, 0)?;
        self.nodes[id].target = target.to_vec();
        Ok(id)
    }

    pub(super) fn tmpfile(&mut self, dir: Id) -> Outcome<Id> {
        self.need_dir(dir)?;
        if self.nodes[dir].nlink == 0 {
            return Err(ENOENT);
        }
        self.permit(!self.nodes[dir].immutable)?;
        let node = Node { nlink: 0, unnamed: true, ..self.born(dir, FileType::Regular, 0o600, 0) };
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    pub(super) fn link(&mut self, inode: Id, dir: Id, name: &[u8]) -> Outcome {
        check_name(name)?;
        self.permit(!self.is_dir(inode))?;
        self.may_add(dir, name)?;
        if self.nodes[inode].nlink == 0 && !self.nodes[inode].unnamed {
            return Err(ENOENT);
        }
        self.permit(!self.protected(inode))?;
        self.nodes[inode].nlink += 1;
        self.nodes[inode].unnamed = false;
        self.nodes[dir].entries.insert(name.to_vec(), inode);
        Ok(())
    }

    fn find(&self, dir: Id, name: &[u8]) -> Outcome<Id> {
        self.nodes[dir].entries.get(name).copied().ok_or(ENOENT)
    }

    pub(super) fn unlink(&mut self, dir: Id, name: &[u8]) -> Outcome {
        check_name(name)?;
        self.need_dir(dir)?;
        if is_dot(name) {
            return Err(EISDIR);
        }
        let child = self.find(dir, name)?;
        if self.is_dir(child) {
            return Err(EISDIR);
        }
        self.may_remove(dir, child)?;
        self.nodes[dir].entries.remove(name);
        self.nodes[child].nlink -= 1;
        Ok(())
    }

    pub(super) fn rmdir(&mut self, dir: Id, name: &[u8]) -> Outcome {
        check_name(name)?;
        self.need_dir(dir)?;
        match name {
            b"." => return Err(EINVAL),
            b".." => return Err(ENOTEMPTY),
            _ => {}
        }
        let child = self.find(dir, name)?;
        self.need_dir(child)?;
        self.may_remove(dir, child)?;
        if !self.nodes[child].entries.is_empty() {
            return Err(ENOTEMPTY);
        }
        self.nodes[dir].entries.remove(name);
        self.nodes[dir].nlink -= 1;
        self.nodes[child].nlink = 0;
        Ok(())
    }

    /// Whether `below` is `above` or lies below it.
    fn is_within(&self, below: Id, above: Id) -> bool {
        let mut at = below;
        while at != above && at != ROOT {
            at = self.nodes[at].parent;
        }
        at == above
    }

    pub(super) fn rename(
        &mut self,
        (dir, name): (Id, &[u8]),
        (to, new): (Id, &[u8]),
        how: RenameFlags,
        whiteout: bool,
    ) -> Outcome {
        if whiteout && how == RenameFlags::Exchange {
            return Err(EINVAL);
        }
        check_name(name)?;
        check_name(new)?;
        for (dir, name) in [(dir, name), (to, new)] {
            self.need_dir(dir)?;
            if is_dot(name) {
                return Err(EINVAL);
            }
        }
        let source = self.find(dir, name)?;
        if self.is_dir(source) && self.is_within(to, source) {
            return Err(EINVAL);
        }
        let target = self.nodes[to].entries.get(new).copied();
        let exchange = how == RenameFlags::Exchange;
        match target {
            None if exchange => return Err(ENOENT),
            Some(_) if how == RenameFlags::NoReplace => return Err(EEXIST),
            Some(target) if self.is_dir(target) && self.is_within(dir, target) => {
                return Err(if exchange { EINVAL } else { ENOTEMPTY });
            }
            Some(target) if target == source => return Ok(()),
            _ => {}
        }
        self.may_remove(dir, source)?;
        if self.nodes[to].nlink == 0 {
            return Err(ENOENT);
        }
        self.permit(!self.nodes[to].immutable)?;
        if let Some(target) = target {
            if exchange {
                self.may_remove(to, target)?;
                self.permit(!self.nodes[dir].immutable)?;
            } else {
                self.may_replace(source, to, target)?;
            }
        }
        self.move_entry(dir, name, to, new, target.filter(|_| exchange));
        if whiteout {
            let id = self.nodes.len();
            self.nodes.push(self.born(dir, FileType::CharDevice, 0, 0));
            self.attach(dir, name, id);
        }
        Ok(())
    }

    fn may_replace(&self, source: Id, to: Id, target: Id) -> Outcome {
        match (self.is_dir(source), self.is_dir(target)) {
            (true, false) => Err(ENOTDIR),
            (false, true) => Err(EISDIR),
            (true, true) if !self.nodes[target].entries.is_empty() => Err(ENOTEMPTY),
            _ => self.may_remove(to, target),
        }
    }

    fn move_entry(&mut self, dir: Id, name: &[u8], to: Id, new: &[u8], swapped: Option<Id>) {
        let source = self.detach(dir, name);
        if let Some(old) = self.nodes[to].entries.get(new).copied() {
            self.detach(to, new);
            if swapped.is_none() {
                self.nodes[old].nlink = if self.is_dir(old) { 0 } else { self.nodes[old].nlink - 1 };
            }
        }
        self.attach(to, new, source);
        if let Some(other) = swapped {
            self.attach(dir, name, other);
        }
    }

    fn detach(&mut self, dir: Id, name: &[u8]) -> Id {
        let id = self.nodes[dir].entries.remove(name).expect("the entry was found before");
        self.nodes[dir].nlink -= u32::from(self.is_dir(id));
        id
    }

    fn attach(&mut self, dir: Id, name: &[u8], id: Id) {
        self.nodes[dir].entries.insert(name.to_vec(), id);
        self.nodes[dir].nlink += u32::from(self.is_dir(id));
        self.nodes[id].parent = dir;
    }

    pub(super) fn chmod(&mut self, inode: Id, mode: u16) -> Outcome {
        self.permit(!self.protected(inode))?;
        self.nodes[inode].mode = mode;
        Ok(())
    }

    pub(super) fn chown(&mut self, inode: Id, gid: u32) -> Outcome {
        self.permit(!self.protected(inode))?;
        let node = &mut self.nodes[inode];
        node.gid = gid;
        if node.kind != FileType::Dir {
            let runs_as_group = node.mode & 0o2010 == 0o2010;
            node.mode &= !(0o4000 | if runs_as_group { 0o2000 } else { 0 });
        }
        Ok(())
    }

    pub(super) fn set_xattr(&mut self, inode: Id, name: &[u8], value: &[u8], create: bool, replace: bool) -> Outcome {
        if !name.contains(&b'.') {
            return Err(EOPNOTSUPP);
        }
        self.permit(!self.protected(inode))?;
        let node = &self.nodes[inode];
        let plain = matches!(node.kind, FileType::Regular | FileType::Dir);
        self.permit(plain || !name.starts_with(b"user."))?;
        match node.xattrs.contains_key(name) {
            true if create => return Err(EEXIST),
            false if replace => return Err(ENODATA),
            _ => {}
        }
        let size = |name: &[u8], value: &[u8]| {
            let rest = name.len() - name.iter().position(|&b| b == b'.').map_or(0, |at| at + 1);
            (4 + rest + value.len()).next_multiple_of(4)
        };
        let others: usize = node.xattrs.iter().filter(|(n, _)| *n != name).map(|(n, v)| size(n, v)).sum();
        if 24 + others + size(name, value) > node.xattr_room {
            return Err(E2BIG);
        }
        self.nodes[inode].xattrs.insert(name.to_vec(), value.to_vec());
        Ok(())
    }

    pub(super) fn remove_xattr(&mut self, inode: Id, name: &[u8]) -> Outcome {
        if !name.contains(&b'.') {
            return Err(EOPNOTSUPP);
        }
        self.permit(!self.protected(inode))?;
        self.nodes[inode].xattrs.remove(name).map(|_| ()).ok_or(ENODATA)
    }
}
