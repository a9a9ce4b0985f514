//! Faults of an IPLFS volume: addresses, checksums, the discard log, and what the device holds. Each plant gets exactly
//! its issue.

use crate::images::run_with;
use std::sync::{Arc, OnceLock};
use steadyfs_core::fsck::{CheckOptions, Issue, Severity};
use steadyfs_core::mkfs::{self, Infinite, MkfsOptions};
use steadyfs_core::raw::{Image, LogSpace};
use steadyfs_core::{Fs, MountOptions, NewInode};
use steadyfs_device::{Device, DeviceInfo, MemDevice, PageBuf, Request};
use steadyfs_format::block::BlockView;
use steadyfs_format::crc::f2fs_crc;
use steadyfs_format::infinite::{self, CHECKSUM_OFFSET, Checkpoint, Stretch};
use steadyfs_format::inode::{DeviceNumber, Extent, Inode};
use steadyfs_format::node::{NodeBlock, WideNode};
use steadyfs_format::{Block, Lba, Log, Nid, ROOT_INO, Slot};
use steadyfs_fuzzing::volumes::verdict;

/// A field of an inode, and what sets it.
type Field = (&'static str, fn(&mut Inode));

/// Codes that the tests of this module plant.
pub(crate) const CODES: [&str; 12] = [
    "AddressBeyondHead",
    "AddressInWrongLog",
    "DiscardReachable",
    "DiscardLogDamaged",
    "NodeChecksum",
    "NodeVersion",
    "InodeNotZero",
    "CapacityExceeded",
    "HeldInVain",
    "HeldBeyondLimit",
    "HoleInUse",
    "LeaksUnknown",
];

const PAGE: usize = 4096;

/// A volume under change, with a file `file` that has a direct node.
struct Plant {
    dev: Arc<MemDevice>,
    image: Image,
}

fn volume() -> MemDevice {
    static MADE: OnceLock<MemDevice> = OnceLock::new();
    let made = || {
        let chosen = Infinite { leap: 4096, ..Infinite::new(1 << 14) };
        let dev = Arc::new(MemDevice::new(chosen.device_blocks()));
        let options = MkfsOptions { infinite: Some(chosen), ..MkfsOptions::new([0x5f; 16], 1_700_000_000) };
        mkfs::format(&*dev, &options).unwrap();
        for round in 0..3 {
            let fs = Fs::mount(Arc::clone(&dev) as Arc<dyn Device>, MountOptions::default()).unwrap();
            let root = fs.root().unwrap();
            let new = NewInode { mode: 0o100_644, ..NewInode::default() };
            let file = fs.lookup(&root, b"file").or_else(|_| fs.create(&root, b"file", &new)).unwrap();
            fs.write(&file, 0, &vec![round; 600 * PAGE]).unwrap();
            // All that has died is discarded and forgotten, but for what the unmount leaves.
            fs.trim(0..u64::MAX, 0).unwrap();
            drop(file);
            fs.unmount().unwrap();
        }
        dev.fork()
    };
    MADE.get_or_init(made).fork()
}

impl Plant {
    fn new() -> Self {
        let dev = Arc::new(volume());
        let image = Image::open(Arc::clone(&dev) as Arc<dyn Device>).unwrap();
        Plant { dev, image }
    }

    fn space(&self) -> &LogSpace {
        self.image.log_space().unwrap()
    }

    fn block(&self, lba: Lba) -> Block {
        *self.dev.read_one(lba.get()).unwrap().to_array()
    }

    fn write(&self, lba: Lba, block: &Block) {
        self.dev.write(lba.get(), vec![PageBuf::from_slice(block)]).unwrap();
    }

    /// The direct node of the file, and the file.
    fn node(&self) -> (Nid, Nid, Lba) {
        let file = (4..20).map(Nid).find(|nid| self.image.nat(*nid).is_ok_and(|entry| !entry.is_free())).unwrap();
        let is_node = |nid: &Nid| self.image.nat(*nid).is_ok_and(|e| e.ino.get() == file.get() && *nid != file);
        let node = (4..20).map(Nid).find(is_node).unwrap();
        (file, node, self.image.nat(node).unwrap().lba)
    }

    /// Makes the first slot of that node say another address; gives what the checker calls the place.
    fn point(&self, to: Lba) -> (Nid, Nid) {
        let (file, nid, lba) = self.node();
        let mut block = self.block(lba);
        WideNode::view_mut(&mut block).set_slot(0, Slot::At(to));
        infinite::seal(&mut block, self.space().superblock().seed(), lba);
        self.write(lba, &block);
        (file, nid)
    }

    /// Changes an inode; its checksum follows.
    fn edit_inode(&self, nid: Nid, change: impl FnOnce(&mut Block)) {
        let lba = self.image.nat(nid).unwrap().lba;
        let mut block = self.block(lba);
        change(&mut block);
        infinite::seal(&mut block, self.space().superblock().seed(), lba);
        self.write(lba, &block);
    }

    /// Gives the volume a discard log that names these blocks; where it is.
    fn discard_log(&self, dead: std::ops::Range<Lba>) -> Lba {
        let (sb, pack) = (self.space().superblock(), self.image.pack());
        let start = sb.layout().pack(pack);
        let count = infinite::last_block_of(sb, pack, &self.block(start)).unwrap() + 1;
        let blocks: Vec<Block> = (0..u64::from(count)).map(|at| self.block(start + at)).collect();
        let mut checkpoint = Checkpoint::parse(sb, pack, &blocks).unwrap();
        let head = &mut checkpoint.header.heads[Stretch::Meta.index()];
        let (log, named) = infinite::encode_discard_log(sb, head.next, &[dead]).unwrap();
        let lba = head.next;
        self.write(lba, &log[0]);
        head.next = lba + 1;
        checkpoint.header.discard_log = named;
        for (at, block) in (0..).zip(checkpoint.encode(sb, pack).unwrap()) {
            self.write(start + at, &block);
        }
        lba
    }

    #[track_caller]
    fn expect(self, expected: &[Issue]) {
        for threads in [1, 3] {
            let options = CheckOptions { threads, leaks: true, ..CheckOptions::default() };
            assert_eq!(run_with(self.dev.fork(), &options).issues, expected);
        }
        verdict::judge(&self.dev);
    }
}

#[test]
fn a_whole_volume_has_no_issue_and_no_leak() {
    Plant::new().expect(&[]);
}

#[test]
fn open_files_without_a_name_are_no_issue() {
    let dev = Arc::new(volume());
    let fs = Fs::mount(Arc::clone(&dev) as Arc<dyn Device>, MountOptions::default()).unwrap();
    let (root, new) = (fs.root().unwrap(), NewInode { mode: 0o100_644, ..NewInode::default() });
    let open = fs.create(&root, b"open", &new).unwrap();
    fs.unlink(&root, b"open").unwrap();
    fs.sync().unwrap();
    let report = run_with(dev.fork(), &CheckOptions { leaks: true, ..CheckOptions::default() });
    assert!(report.worst() < Some(Severity::Warning), "{:?}", report.issues);
    assert_eq!(report.counts.unwrap().orphans, 1);
    drop(open);
}

#[test]
fn an_address_behind_the_head_of_its_log_is_found() {
    let plant = Plant::new();
    let lba = plant.space().head(Stretch::Of(Log::WarmData)).next;
    let (file, nid) = plant.point(lba);
    // The block that the slot named before is held, and nobody needs it; it is not looked for in a broken volume.
    plant.expect(&[Issue::AddressBeyondHead { ino: file.as_ino(), nid, lba }]);
    let plant = Plant::new();
    let (file, nid) = plant.point(Lba(77));
    plant.expect(&[Issue::AddressBeyondHead { ino: file.as_ino(), nid, lba: Lba(77) }]);
}

#[test]
fn data_in_a_log_of_nodes_is_found() {
    let plant = Plant::new();
    let lba = plant.image.nat(ROOT_INO.nid()).unwrap().lba;
    let (file, nid) = plant.point(lba);
    let log = Stretch::Of(Log::HotNode).to_string();
    plant.expect(&[Issue::AddressInWrongLog { ino: file.as_ino(), nid, lba, log, holds: "data" }]);
}

#[test]
fn a_node_that_is_not_whole_is_found() {
    let plant = Plant::new();
    let (file, nid, lba) = plant.node();
    let mut block = plant.block(lba);
    block[CHECKSUM_OFFSET] ^= 1;
    plant.write(lba, &block);
    plant.expect(&[Issue::NodeChecksum { ino: file.as_ino(), nid, lba }]);
}

#[test]
fn a_node_from_the_future_is_found() {
    let plant = Plant::new();
    let (file, nid, lba) = plant.node();
    let version = plant.space().header().version;
    for found in [version, version + 3] {
        let mut block = plant.block(lba);
        NodeBlock::view_mut(&mut block).footer.set_chain(found, Lba(0));
        infinite::seal(&mut block, plant.space().superblock().seed(), lba);
        plant.write(lba, &block);
        let report = run_with(plant.dev.fork(), &CheckOptions { threads: 1, ..CheckOptions::default() });
        assert_eq!(report.issues, [Issue::NodeVersion { ino: file.as_ino(), nid, lba, found, version }]);
    }
}

#[test]
fn what_is_zero_on_such_volumes_is_looked_at() {
    let fields: [Field; 2] = [
        ("i_ext_fofs", |inode| inode.set_extent(Extent { fofs: 5, blk: 0, len: 0 })),
        ("i_ext_blk", |inode| inode.set_extent(Extent { fofs: 0, blk: 5, len: 0 })),
    ];
    for (field, change) in fields {
        let plant = Plant::new();
        let (file, ..) = plant.node();
        plant.edit_inode(file, |block| change(Inode::view_mut(block)));
        plant.expect(&[Issue::InodeNotZero { ino: file.as_ino(), field, found: 5 }]);
    }
    // The upper halves of a device number.
    for (at, field) in [(364, "the upper half of i_addr[0]"), (372, "the upper half of i_addr[1]")] {
        let dev = Arc::new(volume());
        let fs = Fs::mount(Arc::clone(&dev) as Arc<dyn Device>, MountOptions::default()).unwrap();
        let new = NewInode { mode: 0o020_644, rdev: DeviceNumber { major: 300, minor: 7 }, ..NewInode::default() };
        let special = fs.create(&fs.root().unwrap(), b"device", &new).unwrap().ino();
        fs.unmount().unwrap();
        drop(fs);
        let image = Image::open(Arc::clone(&dev) as Arc<dyn Device>).unwrap();
        let plant = Plant { dev, image };
        plant.edit_inode(special.nid(), |block| block[at] = 1);
        let report = run_with(plant.dev.fork(), &CheckOptions { threads: 1, ..CheckOptions::default() });
        assert_eq!(report.issues, [Issue::InodeNotZero { ino: special, field, found: 1 }]);
    }
}

#[test]
fn more_in_use_than_there_may_be_is_found() {
    let plant = Plant::new();
    for lba in [0, 1] {
        let mut block = plant.block(Lba(lba));
        block[1024 + 2826..1024 + 2834].copy_from_slice(&100u64.to_le_bytes());
        let crc = f2fs_crc(infinite::MAGIC, &block[1024..1024 + 3068]);
        block[1024 + 3068..].copy_from_slice(&crc.to_le_bytes());
        plant.write(Lba(lba), &block);
    }
    let valid = plant.space().header().valid_blocks;
    plant.expect(&[Issue::CapacityExceeded { capacity: 100, valid }]);
}

#[test]
fn a_discard_log_that_names_a_block_in_use_is_found() {
    let plant = Plant::new();
    let (file, nid, lba) = plant.node();
    plant.discard_log(lba..lba + 1);
    plant.expect(&[Issue::DiscardReachable { ino: file.as_ino(), nid, lba }]);
}

#[test]
fn a_damaged_discard_log_is_found() {
    let plant = Plant::new();
    let (_, _, node) = plant.node();
    let lba = plant.discard_log(node..node + 1);
    let mut block = plant.block(lba);
    block[100] ^= 1;
    plant.write(lba, &block);
    let report = run_with(plant.dev.fork(), &CheckOptions { threads: 1, ..CheckOptions::default() });
    let [Issue::DiscardLogDamaged { lba: found, reason }] = &report.issues[..] else { panic!("{:?}", report.issues) };
    assert!(*found == lba && reason.contains("checksum"), "{reason}");
}

#[test]
fn what_the_device_holds_in_vain_is_found_when_it_is_looked_for() {
    let plant = Plant::new();
    // The first mount passed over these blocks.
    let lba = plant.space().superblock().space().range(Stretch::Of(Log::ColdData)).start + 5;
    plant.write(lba, &[7; PAGE]);
    plant.write(lba + 1, &[7; PAGE]);
    let report = run_with(plant.dev.fork(), &CheckOptions::default());
    assert_eq!(report.issues, [], "nobody has asked");
    assert_eq!(plant.image.leaked_runs().unwrap(), [lba..lba + 2]);
    plant.expect(&[Issue::HeldInVain { lba, blocks: 2 }]);
}

#[test]
fn what_lies_behind_a_limit_is_found() {
    let plant = Plant::new();
    let lba = plant.space().limits()[Stretch::Of(Log::ColdData).index()] + 3;
    plant.write(lba, &[7; PAGE]);
    plant.expect(&[Issue::HeldBeyondLimit { lba, blocks: 1 }]);
}

/// Contents have no checksum: without this a file would read as zeros, and nobody know.
#[test]
fn blocks_in_use_that_lie_in_holes_are_found() {
    let plant = Plant::new();
    let (_, _, node) = plant.node();
    let block = plant.block(node);
    let lba = WideNode::view(&block).slots().find_map(|slot| slot.lba()).unwrap();
    // Two holes in one run of neighbours, and what follows is held.
    plant.dev.discard(lba.get() + 3, 2).unwrap();
    plant.dev.discard(lba.get() + 8, 1).unwrap();
    let holes = [(3, 2), (8, 1)].map(|(at, blocks)| Issue::HoleInUse { lba: lba + at, blocks });
    assert_eq!(run_with(plant.dev.fork(), &CheckOptions::default()).exit_code(), 4);
    plant.expect(&holes);
    // All that is left of a log: what a removed file of a chunk directory leaves.
    let plant = Plant::new();
    let log = plant.space().superblock().space().range(Stretch::Of(Log::WarmData));
    plant.dev.discard(log.start.get(), log.end - log.start).unwrap();
    let report = run_with(plant.dev.fork(), &CheckOptions::default());
    let of = |issue: &Issue| matches!(issue, Issue::HoleInUse { lba, .. } if log.contains(lba));
    assert!(!report.issues.is_empty() && report.issues.iter().all(of), "{:?}", report.issues);
}

/// A device that does not tell what it holds.
struct Mute(Arc<MemDevice>);

impl Device for Mute {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }

    fn submit(&self, batch: Vec<Request>) {
        self.0.submit(batch);
    }
}

#[test]
fn a_device_that_does_not_tell_is_named() {
    let plant = Plant::new();
    let options = CheckOptions { leaks: true, ..CheckOptions::default() };
    let report = run_with(Mute(Arc::clone(&plant.dev)), &options);
    assert!(matches!(&report.issues[..], [Issue::LeaksUnknown { .. }]), "{:?}", report.issues);
    assert_eq!(report.exit_code(), 8);
}
