//! What holds after a replay of the journal (`docs/JOURNAL-FORMAT.md` section 4): asked of the checkpoint's tree and
//! the records, before anything is applied. Mounts refuse a journal that breaks the tree, and the checker names it.
//!
//! Only what records say is looked at. An inode may gain and lose names; its links have to follow. So the checkpoint
//! need not be free of faults: what it had too much of, it has afterwards.

use super::Image;
use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use steadyfs_device::PageBuf;
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::{Dentries, FileType, bucket_of, name_hash};
use steadyfs_format::inode::{Inode, inline};
use steadyfs_format::node::{DirectNode, IndirectNode, NodeBlock, NodePath};
use steadyfs_format::quote::quote;
use steadyfs_format::records::Record;
use steadyfs_format::{BLOCK_SIZE, Ino, Lba, Nid, PageIndex, ROOT_INO, Slot, nat};

/// Blocks that are remembered.
const MOST_PAGES: usize = 4096;

/// What a name leads to.
type Entry = (Ino, FileType);

/// What the records of a chain say in the end.
#[derive(Clone, Debug, Default)]
pub struct AfterReplay {
    inodes: BTreeMap<Ino, Said>,
    names: BTreeMap<(Ino, Vec<u8>), Option<Entry>>,
    /// Symlinks with a target.
    targets: BTreeSet<Ino>,
}

/// What the last record of an inode says.
#[derive(Clone, Copy, Debug)]
struct Said {
    kind: FileType,
    links: u32,
    pino: Ino,
    /// Some record gives birth to it.
    born: bool,
}

/// What the checkpoint has of an inode, or what it is born with.
#[derive(Clone, Copy, Debug)]
struct Before {
    kind: FileType,
    links: u32,
    born: bool,
}

/// What records change.
#[derive(Clone, Copy, Debug, Default)]
struct Balance {
    /// Names that the inode gains.
    names: i64,
    /// Directories that the directory gains.
    subdirs: i64,
}

/// The checkpoint's tree.
struct Tree<'a> {
    image: &'a Image,
    said: &'a BTreeMap<Ino, Said>,
    pages: HashMap<Lba, PageBuf>,
}

impl AfterReplay {
    /// Takes the records of the next batch.
    ///
    /// # Errors
    /// An inode that is one kind of file, and then another.
    pub fn take(&mut self, records: &[Record]) -> Result<()> {
        for record in records {
            match record {
                Record::Inode(ino, inode) => {
                    let Some(kind) = inode.attributes.kind() else {
                        return Err(Error::corrupt(format!("the journal has inode {ino} as no kind of file")));
                    };
                    let earlier = self.inodes.get(ino);
                    if earlier.is_some_and(|earlier| earlier.kind != kind) {
                        return Err(Error::corrupt(format!("the journal has inode {ino} as two kinds of file")));
                    }
                    let born = inode.birth.is_some() || earlier.is_some_and(|earlier| earlier.born);
                    let said = Said { kind, links: inode.attributes.links, pino: inode.pino, born };
                    self.inodes.insert(*ino, said);
                }
                Record::Name { dir, name, target } => {
                    self.names.insert((*dir, name.clone()), *target);
                }
                Record::Target(ino, _) => {
                    self.targets.insert(*ino);
                }
                Record::Xattrs(..) | Record::Contents(..) => {}
            }
        }
        Ok(())
    }

    /// Whether the tree is whole behind the last batch, if it is before the first.
    ///
    /// # Errors
    /// The first rule that it breaks; read errors, and damage of the checkpoint that is met.
    pub fn check(&self, image: &Image) -> Result<()> {
        let mut tree = Tree { image, said: &self.inodes, pages: HashMap::new() };
        let mut balances: BTreeMap<Ino, Balance> = self.inodes.keys().map(|ino| (*ino, Balance::default())).collect();
        let mut moved: BTreeMap<Ino, Ino> = BTreeMap::new();
        for ((dir, name), after) in &self.names {
            let holder = tree.known(*dir)?;
            if holder.kind != FileType::Dir {
                return Err(Error::corrupt(format!(
                    "the journal has inode {dir} as another kind of file: a directory"
                )));
            }
            let before = if holder.born { None } else { tree.entry(*dir, name)? };
            let after_ino = after.map(|(ino, _)| ino);
            if let Some((ino, kind)) = *after {
                let target = tree.known(ino)?;
                if target.kind != kind {
                    let name = quote(name);
                    return Err(Error::corrupt(format!(
                        "the journal has {name} for inode {ino} as another kind of file"
                    )));
                }
                if self.links(*dir, holder) == 0 {
                    return Err(Error::corrupt(format!("the journal has a name in directory {dir}, which is gone")));
                }
            }
            if before == after_ino {
                continue;
            }
            let sides = [(before, -1), (after_ino, 1)];
            for (ino, by) in sides.into_iter().filter_map(|(ino, by)| Some((ino?, by))) {
                let is_dir = tree.known(ino)?.kind == FileType::Dir;
                balances.entry(ino).or_default().names += by;
                balances.entry(*dir).or_default().subdirs += if is_dir { by } else { 0 };
                if is_dir && by > 0 {
                    moved.insert(ino, *dir);
                }
            }
        }
        for (ino, balance) in &balances {
            let before = tree.known(*ino)?;
            self.check_links(*ino, before, *balance)?;
            self.check_place(*ino, before, &moved, &mut tree)?;
        }
        let mut whole = HashSet::from([ROOT_INO]);
        moved.keys().try_for_each(|dir| self.check_way(*dir, &mut whole, &mut tree))
    }

    /// Links at the end.
    fn links(&self, ino: Ino, before: Before) -> u32 {
        self.inodes.get(&ino).map_or(before.links, |said| said.links)
    }

    /// The links are as many as the names, and those of a directory as its subdirectories say.
    fn check_links(&self, ino: Ino, before: Before, balance: Balance) -> Result<()> {
        let links = self.links(ino, before);
        if ino == ROOT_INO && links == 0 {
            return Err(Error::corrupt("the journal removes the root"));
        }
        let wrong = |why: String| Err(Error::corrupt(format!("the journal gives inode {ino} {links} links, {why}")));
        if before.kind != FileType::Dir {
            // Of damage that the checkpoint has: no link goes below none, and none of a directory below two.
            let wanted = (i64::from(before.links) + balance.names).max(0);
            return if i64::from(links) == wanted { Ok(()) } else { wrong(format!("and {wanted} names")) };
        }
        let named = i64::from(before.links > 0 && !before.born);
        let names = named + balance.names;
        if ino != ROOT_INO && names != i64::from(links > 0) {
            return wrong(format!("and {names} names: a directory has one"));
        }
        let inside = (i64::from(if before.links > 0 { before.links } else { 2 }) + balance.subdirs).max(2);
        let fits = links == 0 || i64::from(links) == inside;
        if fits { Ok(()) } else { wrong(format!("where its directories make {inside}")) }
    }

    /// A directory says that it is where its name is; a new symlink has a target; what is born is new.
    fn check_place(&self, ino: Ino, before: Before, moved: &BTreeMap<Ino, Ino>, tree: &mut Tree<'_>) -> Result<()> {
        let Some(said) = self.inodes.get(&ino).filter(|said| said.links > 0) else {
            // It gains a name, and no record says so.
            return match moved.get(&ino) {
                Some(dir) => {
                    Err(Error::corrupt(format!("the journal moves directory {ino} to {dir} without its `..`")))
                }
                None => Ok(()),
            };
        };
        if said.born && said.kind == FileType::Symlink && !self.targets.contains(&ino) {
            return Err(Error::corrupt(format!("the journal makes symlink {ino} without a target")));
        }
        if said.kind != FileType::Dir || ino == ROOT_INO {
            return Ok(());
        }
        let dir = match moved.get(&ino) {
            Some(dir) => *dir,
            None if before.born => {
                return Err(Error::corrupt(format!("the journal makes directory {ino} without a name")));
            }
            None => tree.parent(ino)?,
        };
        if dir == said.pino {
            return Ok(());
        }
        let pino = said.pino;
        Err(Error::corrupt(format!("the journal has directory {ino} in inode {pino}, and its name in {dir}")))
    }

    /// The way up from a directory leads to the root, or to a directory from which one does. From all that it passes
    /// one does then: so a chain of new directories is seen once, however deep it is.
    fn check_way(&self, dir: Ino, whole: &mut HashSet<Ino>, tree: &mut Tree<'_>) -> Result<()> {
        let (mut at, mut seen) = (dir, HashSet::new());
        while !whole.contains(&at) {
            if !seen.insert(at) {
                return Err(Error::corrupt(format!("the journal has directory {dir} below itself, in inode {at}")));
            }
            at = match self.inodes.get(&at) {
                Some(said) => said.pino,
                None => tree.parent(at)?,
            };
        }
        whole.extend(seen);
        Ok(())
    }
}

impl Tree<'_> {
    /// What an inode was, or is born as.
    fn known(&mut self, ino: Ino) -> Result<Before> {
        let born = self.said.get(&ino).filter(|said| said.born).copied();
        match (self.inode(ino)?, born) {
            (Some(_), Some(_)) => {
                Err(Error::corrupt(format!("the journal makes inode {ino}, which the checkpoint has")))
            }
            (None, Some(said)) => Ok(Before { kind: said.kind, links: 0, born: true }),
            (None, None) => Err(Error::corrupt(format!("the journal is about inode {ino}, which does not exist"))),
            (Some(page), None) => page.with(|block| {
                let raw = Inode::view(block);
                let kind = raw.file_type();
                let kind = kind.ok_or_else(|| Error::corrupt(format!("inode {ino} is of no kind")))?;
                if self.said.get(&ino).is_some_and(|said| said.kind != kind) {
                    return Err(Error::corrupt(format!("the journal has inode {ino} as another kind of file")));
                }
                Ok(Before { kind, links: raw.links(), born: false })
            }),
        }
    }

    fn page(&mut self, lba: Lba) -> Result<PageBuf> {
        if let Some(page) = self.pages.get(&lba) {
            return Ok(page.clone());
        }
        let page = self.image.read_block(lba)?;
        if self.pages.len() >= MOST_PAGES {
            self.pages.clear();
        }
        self.pages.insert(lba, page.clone());
        Ok(page)
    }

    /// A node of an inode; `None` where the checkpoint has none of this number.
    fn node(&mut self, nid: Nid, ino: Ino) -> Result<Option<PageBuf>> {
        let layout = self.image.layout();
        if nid >= layout.max_nid() {
            return Err(Error::corrupt(format!("node id {nid} is outside the NAT")));
        }
        let entry = match self.image.nat_journal().iter().find(|(other, _)| *other == nid) {
            Some((_, entry)) => *entry,
            None => {
                let ((block, index), width) = (layout.nat_place(nid), layout.width);
                self.page(self.image.nat_lba(block))?.with(|bytes| nat::entry(bytes, width, index))
            }
        };
        if entry.lba == Lba(0) {
            return Ok(None);
        }
        let page = self.page(entry.lba)?;
        let is_ours = page.with(|block| {
            let footer = NodeBlock::view(block).footer;
            footer.nid() == nid && footer.ino() == ino
        });
        if is_ours { Ok(Some(page)) } else { Err(Error::corrupt(format!("{} is no node of inode {ino}", entry.lba))) }
    }

    fn inode(&mut self, ino: Ino) -> Result<Option<PageBuf>> {
        self.node(ino.nid(), ino)
    }

    /// Where a name of a directory that the checkpoint has leads.
    fn entry(&mut self, dir: Ino, name: &[u8]) -> Result<Option<Ino>> {
        let Some(page) = self.inode(dir)? else { return Ok(None) };
        let block = page.to_array();
        let (raw, features) = (Inode::view(&block), self.image.superblock().features());
        let (shape, hash) = (raw.shape(features)?, name_hash(name));
        if raw.has_inline(inline::DENTRY) {
            return Ok(Dentries::inline(raw.inline_area(shape)).find(hash, name).map(|entry| entry.ino));
        }
        let pages = raw.size().div_ceil(BLOCK_SIZE as u64);
        for level in 0..u8::try_from(raw.current_depth()).unwrap_or(u8::MAX).min(steadyfs_format::dir::MAX_DEPTH) {
            let bucket = bucket_of(hash, level, raw.dir_level());
            for index in (0..u64::from(bucket.pages)).map(|at| bucket.first + at) {
                if index.get() >= pages {
                    return Ok(None);
                }
                let Some(page) = self.file_page(dir, raw, index)? else { continue };
                let hit = page.with(|bytes| Dentries::block(bytes).find(hash, name).map(|entry| entry.ino));
                if hit.is_some() {
                    return Ok(hit);
                }
            }
        }
        Ok(None)
    }

    /// A page of a directory.
    fn file_page(&mut self, ino: Ino, raw: &Inode, index: PageIndex) -> Result<Option<PageBuf>> {
        let shape = raw.shape(self.image.superblock().features())?;
        let Some(path) = NodePath::of_page(index, shape.addressing()) else { return Ok(None) };
        let mut slot = if path.depth() == 0 { raw.slot(shape, path.leaf_slot()) } else { Slot::Hole };
        let mut nid = raw.children().get(usize::from(path.slot(0))).copied().unwrap_or_default();
        for level in 1..=path.depth() {
            let Some(node) = (if nid.is_null() { None } else { self.node(nid, ino)? }) else { return Ok(None) };
            let at = path.slot(level);
            if level < path.depth() {
                nid = node.with(|block| IndirectNode::view(block).child(at));
            } else {
                slot = node.with(|block| DirectNode::view(block).slot(at));
            }
        }
        match slot {
            Slot::At(lba) => self.page(lba).map(Some),
            _ => Ok(None),
        }
    }

    /// The directory that `..` of one that the checkpoint has leads to.
    fn parent(&mut self, dir: Ino) -> Result<Ino> {
        self.entry(dir, b"..")?.ok_or_else(|| Error::corrupt(format!("directory {dir} has no `..`")))
    }
}
