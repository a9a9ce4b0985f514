//! The first files: the root directory, the hidden quota files, `lost+found`. Format section 14.
//!
//! All nodes lie at the start of the hot node log and all data at the start of the hot data log, in the order of their
//! node ids.

use super::MkfsOptions;
use crate::error::Result;
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::{DentriesMut, FileType, name_hash};
use steadyfs_format::inode::{Inode, InodeShape, NewInode, Time, flags, mkfs_extra_isize};
use steadyfs_format::nat::NatEntry;
use steadyfs_format::quota::{self, Usage};
use steadyfs_format::summary::Summary;
use steadyfs_format::superblock::QuotaKind;
use steadyfs_format::{BLOCK_SIZE, Block, Features, Ino, Lba, Log, Nid, ROOT_INO, Slot, zeroed_block};

const ROOT_MODE: u16 = 0o040_755;
const LOST_FOUND_MODE: u16 = 0o040_700;
const LOST_FOUND_NAME: &[u8] = b"lost+found";
const QUOTA_MODE: u16 = 0o100_600;
/// What mkfs.f2fs writes into the footers: there is no checkpoint yet that they could belong to.
pub(super) const FOOTER_VERSION: u64 = 1;

/// Where the first files go, and how a node is finished there.
pub(super) struct Starts<'a> {
    /// The first block of the hot data log.
    pub(super) data: Lba,
    /// The first block of the hot node log.
    pub(super) nodes: Lba,
    /// What inodes are made with: those of the options, and those of the kind of volume.
    pub(super) features: Features,
    /// Stores what nodes carry of their place and version, and their checksum.
    pub(super) seal: &'a dyn Fn(&mut Block, Lba),
}

/// The first files, placed.
pub(super) struct Contents {
    /// Nodes and data with their addresses.
    pub(super) blocks: Vec<(Lba, Block)>,
    /// Where the nodes are, from the root on.
    pub(super) nat: Vec<(Nid, NatEntry)>,
    /// Of the hot node log's first blocks.
    pub(super) node_summaries: Vec<Summary>,
    /// Of the hot data log's first blocks.
    pub(super) data_summaries: Vec<Summary>,
    /// User, group, project.
    pub(super) quota_inos: [Option<Ino>; 3],
    /// The first node id that is free.
    pub(super) next_nid: Nid,
}

impl Contents {
    pub(super) fn build(options: &MkfsOptions, starts: &Starts<'_>) -> Result<Self> {
        let features = options.features;
        let mut quotas = Vec::new();
        if features.contains(Features::QUOTA) {
            quotas.extend([QuotaKind::User, QuotaKind::Group]);
        }
        if features.contains(Features::PROJECT_QUOTA) {
            quotas.push(QuotaKind::Project);
        }
        let with_lost_found = features.contains(Features::LOST_FOUND);
        let lost_found = with_lost_found.then(|| ROOT_INO + 1 + quotas.len() as u32);

        let mut builder = Builder { options, starts, files: Vec::new(), data: Vec::new() };
        builder.add_root(lost_found)?;
        let mut quota_inos = [None; 3];
        let directories = if with_lost_found { 2 } else { 1 };
        let usage = Usage { space: directories * BLOCK_SIZE as u64, inodes: directories };
        for kind in quotas {
            let ino = builder.next_ino();
            // The owner of the first directories has used them; groups go by the group, all are in project 0.
            let id = [options.root_owner.0, options.root_owner.1, 0][kind as usize];
            builder.add_quota(ino, &quota::encode(kind, &[quota::Entry { id, usage, ..quota::Entry::default() }]))?;
            quota_inos[kind as usize] = Some(ino);
        }
        if let Some(ino) = lost_found {
            assert_eq!(ino, builder.next_ino(), "the entry in the root names the inode that follows");
            builder.add_lost_found(ino)?;
        }
        let next_nid = builder.next_ino().nid();
        Ok(builder.finish(quota_inos, next_nid))
    }

    /// Blocks at the start of a log.
    pub(super) fn in_log(&self, log: Log) -> u16 {
        match log {
            Log::HotNode => self.node_summaries.len() as u16,
            Log::HotData => self.data_summaries.len() as u16,
            _ => 0,
        }
    }
}

struct Builder<'a> {
    options: &'a MkfsOptions,
    starts: &'a Starts<'a>,
    files: Vec<Inode>,
    data: Vec<(Summary, Block)>,
}

impl Builder<'_> {
    fn next_ino(&self) -> Ino {
        ROOT_INO + self.files.len() as u32
    }

    fn add_root(&mut self, lost_found: Option<Ino>) -> Result<()> {
        let (mut inode, shape) = self.new_inode(ROOT_INO, Ino(0), b"", ROOT_MODE, 2)?;
        let mut block = zeroed_block();
        let mut entries = DentriesMut::block(&mut block);
        entries.insert_dots(ROOT_INO, ROOT_INO)?;
        if let Some(ino) = lost_found {
            entries.insert(name_hash(LOST_FOUND_NAME), LOST_FOUND_NAME, ino, FileType::Dir)?;
            inode.set_links(3);
        }
        self.add_dir(inode, shape, block);
        Ok(())
    }

    fn add_lost_found(&mut self, ino: Ino) -> Result<()> {
        let (inode, shape) = self.new_inode(ino, ROOT_INO, LOST_FOUND_NAME, LOST_FOUND_MODE, 2)?;
        let mut block = zeroed_block();
        DentriesMut::block(&mut block).insert_dots(ino, ROOT_INO)?;
        self.add_dir(inode, shape, block);
        Ok(())
    }

    fn add_dir(&mut self, mut inode: Inode, shape: InodeShape, block: Block) {
        inode.set_current_depth(1);
        self.add_file(inode, shape, BLOCK_SIZE as u64, vec![block]);
    }

    fn add_quota(&mut self, ino: Ino, bytes: &[u8]) -> Result<()> {
        let (mut inode, shape) = self.new_inode(ino, Ino(0), b"", QUOTA_MODE, 1)?;
        inode.set_flags(flags::NOATIME | flags::IMMUTABLE);
        // Quota files belong to nobody's quota, so to the owner of the machine.
        inode.set_uid(0);
        inode.set_gid(0);
        let blocks = bytes.chunks(BLOCK_SIZE).map(|chunk| {
            let mut block = zeroed_block();
            block[..chunk.len()].copy_from_slice(chunk);
            block
        });
        self.add_file(inode, shape, bytes.len() as u64, blocks.collect());
        Ok(())
    }

    /// Gives the file its blocks, the next ones of the log.
    fn add_file(&mut self, mut inode: Inode, shape: InodeShape, size: u64, blocks: Vec<Block>) {
        inode.set_size(size);
        inode.set_blocks(1 + blocks.len() as u64);
        let nid = inode.footer.nid();
        for (index, block) in blocks.into_iter().enumerate() {
            let lba = self.starts.data + self.data.len() as u64;
            inode.set_slot(shape, index as u16, Slot::At(lba));
            self.data.push((Summary { nid, version: 0, ofs_in_node: index as u16 }, block));
        }
        self.files.push(inode);
    }

    fn new_inode(&self, ino: Ino, pino: Ino, name: &[u8], mode: u16, links: u32) -> Result<(Inode, InodeShape)> {
        let new = NewInode {
            ino,
            pino,
            name,
            mode,
            uid: self.options.root_owner.0,
            gid: self.options.root_owner.1,
            links,
            time: Time { secs: self.options.timestamp, nanos: 0 },
            generation: 0,
            flags: 0,
            inline: 0,
            extra_isize: mkfs_extra_isize(self.starts.features),
            // A directory of a volume where inodes choose may keep all words for addresses; it has no inline xattrs.
            xattr_words: 0,
            project_id: 0,
        };
        Ok(new.build(self.starts.features)?)
    }

    fn finish(self, quota_inos: [Option<Ino>; 3], next_nid: Nid) -> Contents {
        let mut contents = Contents {
            blocks: Vec::new(),
            nat: Vec::new(),
            node_summaries: Vec::new(),
            data_summaries: Vec::new(),
            quota_inos,
            next_nid,
        };
        for (offset, inode) in (0..).zip(self.files) {
            let (nid, ino, lba) = (inode.footer.nid(), inode.footer.ino(), self.starts.nodes + offset);
            let mut block = inode.to_block();
            (self.starts.seal)(&mut block, lba);
            contents.blocks.push((lba, block));
            contents.nat.push((nid, NatEntry { version: 0, ino, lba }));
            contents.node_summaries.push(Summary::of_node(nid));
        }
        for (offset, (summary, block)) in (0..).zip(self.data) {
            contents.blocks.push((self.starts.data + offset, block));
            contents.data_summaries.push(summary);
        }
        contents
    }
}
