//! Sound volumes, in memory, with an index of what lies where, so that changes can be aimed.

use super::tree::{self, Plan};
use crate::input::Input;
use crate::parsers::RICH;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Arc, OnceLock};
use steadyfs_core::raw::Image;
use steadyfs_device::{Device, MemDevice, PageBuf};
use steadyfs_format::block::BlockView;
use steadyfs_format::checkpoint::{CpFlags, PackMap};
use steadyfs_format::inode::{Inode, inline};
use steadyfs_format::node::{DirectNode, NodeBlock, NodeKind};
use steadyfs_format::{Features, Ino, Layout, Nid, Slot};
use steadyfs_testkit::golden;

/// How many there are.
pub const COUNT: usize = 10;

/// How many of them, from the first on, may be changed.
const WRITABLE: usize = 6;

/// Which base each of the first 32 choices stands for: most often the small ones, which are our own.
const CHOICES: [usize; 32] =
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 5, 6, 6, 6, 7, 8, 9];

/// Volumes of our own with every feature and with none; all of it in blocks of its own, with large sections; one that
/// was not unmounted, with orphans. Then volumes that Linux wrote: with every feature, with an fsync chain, and with
/// what we only read.
fn make(number: usize) -> MemDevice {
    let plain = Plan { features: Features::NONE, segs_per_sec: 1, mount: "", crashed: false, infinite: None };
    let plan = match number {
        0 => plain,
        1 => Plan { features: RICH.difference(Features::COMPRESSION), ..plain },
        2 => Plan { segs_per_sec: 2, mount: "noinline_data,noinline_dentry,noinline_xattr", ..plain },
        3 => Plan { crashed: true, ..plain },
        4 => return linux("linux-features"),
        5 => return linux("linux-crashed"),
        6 => return linux("linux-compressed"),
        7 => return linux("linux-encrypted"),
        8 => return linux("linux-casefold"),
        _ => return linux("linux-verity"),
    };
    tree::make(plan).expect("the tree fits an empty volume")
}

/// One of the test kit's golden images.
fn linux(name: &str) -> MemDevice {
    let image = golden::unpack(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    load(&image.path())
}

/// A node of a volume.
#[derive(Clone, Copy, Debug)]
pub struct NodeAt {
    /// Its id.
    pub nid: Nid,
    /// Whose it is.
    pub ino: Ino,
    /// Where it is.
    pub lba: u64,
    /// Its kind.
    pub kind: NodeKind,
    /// An inode of a directory.
    pub dir: bool,
}

/// A sound volume.
pub struct Base {
    /// Its blocks. Fork before changing.
    pub device: MemDevice,
    /// Where everything is.
    pub layout: Layout,
    /// The volume's features.
    pub features: Features,
    /// What inode checksums start from.
    pub seed: u32,
    /// Parts of the pack in force.
    pub pack: PackMap,
    /// First block of that pack.
    pub pack_start: u64,
    /// Whether its data summaries are in the compact form.
    pub compact: bool,
    /// All nodes.
    pub nodes: Vec<NodeAt>,
    /// Inodes among them, by index.
    pub inodes: Vec<usize>,
    /// Blocks of directories.
    pub dentry_blocks: Vec<u64>,
    /// Blocks of files with their owners.
    pub data: BTreeMap<u64, Ino>,
    /// The blocks of each compressed cluster.
    pub clusters: Vec<Vec<u64>>,
    /// Block and byte of the SIT entry of each segment.
    pub sit_places: Vec<(u64, usize)>,
    image: Image,
}

/// The base that the input chooses; of those that may be changed, if it is to be.
pub fn choose(input: &mut Input<'_>, writable: bool) -> &'static Base {
    static BASES: [OnceLock<Base>; COUNT] = [const { OnceLock::new() }; COUNT];
    let number = CHOICES[input.below(CHOICES.len())];
    let number = if writable { number % WRITABLE } else { number };
    BASES[number].get_or_init(|| Base::new(make(number)))
}

/// The first choice that stands for a base.
pub fn choice_of(number: u8) -> u8 {
    CHOICES.iter().position(|base| *base == usize::from(number)).map_or(0, |choice| choice as u8)
}

impl Base {
    fn new(device: MemDevice) -> Self {
        let image = Image::open(Arc::new(device.fork())).expect("the volume is sound");
        let layout = *image.layout();
        let mut base = Base {
            layout,
            features: image.superblock().features(),
            seed: image.superblock().inode_checksum_seed(),
            pack: image.checkpoint().pack_map(),
            pack_start: layout.pack(image.pack()).get(),
            compact: image.checkpoint().header().flags().contains(CpFlags::COMPACT_SUM),
            nodes: Vec::new(),
            inodes: Vec::new(),
            dentry_blocks: Vec::new(),
            data: BTreeMap::new(),
            clusters: Vec::new(),
            sit_places: Vec::new(),
            device,
            image,
        };
        base.index_nodes();
        base.index_chain();
        base.index_segments();
        base
    }

    fn index_nodes(&mut self) {
        for nid in (3..self.layout.max_nid().get()).map(Nid) {
            // Reads of single entries would take long; a block at a time is fast enough.
            if nid.get() % 455 == 0 || nid.get() == 3 {
                let (block, _) = self.layout.nat_place(nid);
                let pages = self.image.nat_blocks(block..block + 1).expect("in range");
                let in_journal = self.image.nat_journal().iter().any(|(id, _)| self.layout.nat_place(*id).0 == block);
                if pages[0].is_zero_repr() && !in_journal {
                    continue;
                }
                for nid in self.layout.nids_of(block).map(Nid) {
                    self.index_node(nid);
                }
            }
        }
    }

    fn index_node(&mut self, nid: Nid) {
        let entry = self.image.nat(nid).expect("in range");
        if entry.is_free() || !self.layout.in_main(entry.lba) {
            return;
        }
        let page = self.device.read_one(entry.lba.get()).expect("in range");
        let block = page.to_array();
        let footer = NodeBlock::view(&block).footer;
        let kind = footer.ofs().kind();
        let dir = kind == NodeKind::Inode && Inode::view(&block).is_dir();
        if kind == NodeKind::Inode {
            self.inodes.push(self.nodes.len());
        }
        let slots: Vec<Slot> = match kind {
            NodeKind::Inode if Inode::view(&block).has_inline(inline::DENTRY) => Vec::new(),
            NodeKind::Inode if Inode::view(&block).has_inline(inline::DATA) => Vec::new(),
            NodeKind::Inode => {
                let shape = Inode::view(&block).shape(self.features).expect("sound");
                Inode::view(&block).slots(shape).collect()
            }
            NodeKind::Direct => DirectNode::view(&block).slots().collect(),
            _ => Vec::new(),
        };
        self.index_slots(footer.ino(), !footer.is_cold(), &slots);
        self.nodes.push(NodeAt { nid, ino: footer.ino(), lba: entry.lba.get(), kind, dir });
    }

    /// The nodes that a mount will recover.
    fn index_chain(&mut self) {
        let chain: Vec<_> = self.image.fsync_chain().map(|node| node.expect("readable")).collect();
        for node in chain {
            let (footer, kind) = (node.footer, node.footer.ofs().kind());
            if kind == NodeKind::Inode {
                self.inodes.push(self.nodes.len());
            }
            self.nodes.push(NodeAt { nid: footer.nid(), ino: footer.ino(), lba: node.lba.get(), kind, dir: false });
        }
    }

    fn index_slots(&mut self, ino: Ino, dir: bool, slots: &[Slot]) {
        let blocks = || slots.iter().filter_map(|slot| slot.lba()).map(|lba| lba.get());
        if dir {
            self.dentry_blocks.extend(blocks());
            return;
        }
        self.data.extend(blocks().filter(|lba| *lba >= self.layout.main.get()).map(|lba| (lba, ino)));
        for (at, _) in slots.iter().enumerate().filter(|(_, slot)| **slot == Slot::Compress) {
            let cluster = slots[at + 1..].iter().map_while(|slot| slot.lba()).take(255);
            self.clusters.push(cluster.map(|lba| lba.get()).collect());
        }
        self.clusters.retain(|cluster| !cluster.is_empty());
    }

    fn index_segments(&mut self) {
        for seg in self.layout.segments() {
            let (block, index) = self.layout.sit_place(seg);
            self.sit_places.push((self.image.sit_lba(block).get(), index * 74));
        }
    }

    /// Block and byte of the NAT entry of a node id.
    pub fn nat_place(&self, nid: Nid) -> (u64, usize) {
        let (block, index) = self.layout.nat_place(nid);
        (self.image.nat_lba(block).get(), index * 9)
    }

    /// The ids in the NAT journal, in order.
    pub fn journal_nids(&self) -> Vec<Nid> {
        self.image.nat_journal().iter().map(|(nid, _)| *nid).collect()
    }

    /// The segments in the SIT journal, in order.
    pub fn journal_segments(&self) -> Vec<u32> {
        self.image.sit_journal().iter().map(|(seg, _)| seg.get()).collect()
    }
}

/// A file as a device in memory. Blocks of zeros take no memory.
fn load(path: &std::path::Path) -> MemDevice {
    let mut file = std::fs::File::open(path).expect("the image exists");
    let blocks = file.metadata().expect("the image has a size").len() / 4096;
    let device = MemDevice::new(blocks);
    let mut block = [0; 4096];
    for lba in 0..blocks {
        file.read_exact(&mut block).expect("the image can be read");
        if block != [0; 4096] {
            device.write(lba, vec![PageBuf::from_slice(&block)]).expect("in range");
        }
    }
    device
}
