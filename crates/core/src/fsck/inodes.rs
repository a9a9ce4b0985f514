//! What the phases know and count per inode.
//!
//! Memory: [`InodeInfo`] and [`Counters`], about 130 bytes per inode, in the order of inode numbers. Some hundred are
//! made at a time, when the first of them is looked at: by the thread that looks, so that all threads share that work
//! and each has in its cache what it fills in.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64};
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{Extent, Inode, InodeShape, advise, flags, inline};
use steadyfs_format::node::Addressing;
use steadyfs_format::{Features, Ino};

/// What later phases need to know of an inode. Fixed once its block was read.
#[derive(Clone, Debug)]
pub(super) struct InodeInfo {
    pub(super) ino: Ino,
    /// `None` for a mode that is no kind of file.
    pub(super) kind: Option<FileType>,
    pub(super) links: u32,
    pub(super) blocks: u64,
    pub(super) size: u64,
    pub(super) pino: Ino,
    pub(super) depth: u32,
    pub(super) dir_level: u8,
    inline: u8,
    advise: u8,
    casefold: bool,
    /// Logarithm of the cluster size of a compressed file.
    pub(super) log_cluster: Option<u8>,
    /// `None` if the inode cannot be laid out; then nothing below it was checked.
    pub(super) addressing: Option<Addressing>,
    pub(super) extent: Extent,
}

impl InodeInfo {
    /// Copies what is needed from an inode.
    pub(super) fn new(ino: Ino, inode: &Inode, shape: Option<InodeShape>, features: Features) -> Self {
        let compressed = inode.flags() & flags::COMPR != 0 && inode.file_type() == Some(FileType::Regular);
        let info = if compressed { inode.compress_info(features).ok().flatten() } else { None };
        let log_cluster = info.map(|info| info.log_cluster);
        let addressing = shape.map(|shape| match log_cluster {
            Some(log) => shape.addressing().in_clusters(log),
            None => shape.addressing(),
        });
        InodeInfo {
            ino,
            kind: inode.file_type(),
            links: inode.links(),
            blocks: inode.blocks(),
            size: inode.size(),
            pino: inode.pino(),
            depth: inode.current_depth(),
            dir_level: inode.dir_level(),
            inline: inode.inline_flags(),
            advise: inode.advise(),
            casefold: inode.flags() & flags::CASEFOLD != 0,
            log_cluster,
            addressing,
            extent: inode.extent(),
        }
    }

    pub(super) fn is_dir(&self) -> bool {
        self.kind == Some(FileType::Dir)
    }

    pub(super) fn has_inline_dentries(&self) -> bool {
        self.inline & inline::DENTRY != 0
    }

    /// Names in this directory are any bytes.
    pub(super) fn is_encrypted(&self) -> bool {
        self.advise & advise::ENCRYPT != 0
    }

    /// Hashes in this directory are those of folded names, which are not computed here.
    pub(super) fn is_casefolded(&self) -> bool {
        self.casefold
    }

    /// An old directory that may lack its dot entries.
    pub(super) fn may_lack_dots(&self) -> bool {
        self.inline & inline::DOTS != 0
    }
}

/// What the walk counts for an inode.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Blocks: nodes, and slots that count.
    pub(super) blocks: AtomicU64,
    /// Directory entries that name it, dots not counted.
    pub(super) names: AtomicU32,
    /// Of a directory: entries in it that name directories.
    pub(super) subdirs: AtomicU32,
    /// Of a directory: the directory with an entry for it (of several the one with the largest number); 0 for none.
    pub(super) parent: AtomicU32,
    /// Of a directory: what its ".." names; 0 for nothing.
    pub(super) dotdot: AtomicU32,
    /// Pages that lie where the cached extent says.
    pub(super) in_extent: AtomicU32,
}

/// Inodes that are made at a time.
const CHUNK: u32 = 512;

/// One inode.
#[derive(Default)]
struct Known {
    /// Empty while it was not read, or if it could not be.
    info: OnceLock<InodeInfo>,
    counters: Counters,
}

const _: () = assert!(size_of::<Known>() <= 128, "what the head of `fsck` promises");

/// All inodes.
pub(super) struct Inodes {
    count: u32,
    chunks: Vec<OnceLock<Box<[Known]>>>,
}

impl Inodes {
    /// `count` of them, of which nothing is known yet.
    pub(super) fn new(count: u32) -> Self {
        Inodes { count, chunks: (0..count.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect() }
    }

    /// Number of inodes.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    fn known(&self, index: u32) -> &Known {
        assert!(index < self.count, "numbers of inodes come from the NAT");
        let chunk =
            self.chunks[(index / CHUNK) as usize].get_or_init(|| (0..CHUNK).map(|_| Known::default()).collect());
        &chunk[(index % CHUNK) as usize]
    }

    /// Takes over what the block of an inode says.
    pub(super) fn learn(&self, index: u32, info: InodeInfo) {
        let fresh = self.known(index).info.set(info).is_ok();
        assert!(fresh, "an inode is read once");
    }

    pub(super) fn info(&self, index: u32) -> Option<&InodeInfo> {
        self.known(index).info.get()
    }

    pub(super) fn counters(&self, index: u32) -> &Counters {
        &self.known(index).counters
    }
}
