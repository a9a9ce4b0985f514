//! IPLFS volumes, damaged: the checker and the raw reader on them, and mounts with some operations. Input: the number
//! of a base, then changes, a zero, and the operations.
//!
//! Changes are aimed at fields; checksums are made right afterwards, unless the input says otherwise, and the second
//! header of the pack follows the first.

use super::fields::{self, Field};
use super::mount::read_inode;
use super::tree::{self, Plan};
use super::{VOLUME_MEMORY, operations};
use crate::Target;
use crate::input::Input;
use crate::mutate::AWKWARD;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use steadyfs_core::fsck::{CheckOptions, Severity, check};
use steadyfs_core::mkfs::Infinite;
use steadyfs_core::raw::{Image, LogSpace};
use steadyfs_core::{Fs, MountOptions, NewInode};
use steadyfs_device::{Device, MemDevice, PageBuf};
use steadyfs_format::block::BlockView;
use steadyfs_format::crc::f2fs_crc;
use steadyfs_format::infinite::{Claim, MAGIC, Stretch, seal, stored_checksum};
use steadyfs_format::node::NodeBlock;
use steadyfs_format::{Block, Features, Ino, Lba, Log, Nid};

/// The checker, and everything that the raw reader offers.
pub const CHECK: Target = Target { name: "iplfs_check", run: run_check, seeds, volume: true, memory: VOLUME_MEMORY };
/// Mounts: half of them for reading, half for writing.
pub const MOUNT: Target = Target { name: "iplfs_mount", run: run_mount, seeds, volume: true, memory: VOLUME_MEMORY };

/// Clean; with orphans, not unmounted; with files fsynced after the last checkpoint.
const COUNT: usize = 3;
/// Most changes to one volume.
const MOST: usize = 8;
/// Most dead runs, leaks and nodes of the chain that are looked at.
const ENOUGH: usize = 10_000;

/// A sound volume, and where everything is.
struct Base {
    device: MemDevice,
    space: LogSpace,
    pack: u64,
    nodes: Vec<u64>,
    inos: Vec<Ino>,
    /// Block and byte of NAT entries in use.
    nat: Vec<(u64, usize)>,
    /// What else log space holds.
    others: Vec<u64>,
}

/// One input per base.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    (0..COUNT as u8).map(|number| vec![number]).collect()
}

fn base(input: &mut Input<'_>) -> &'static Base {
    static BASES: [OnceLock<Base>; COUNT] = [const { OnceLock::new() }; COUNT];
    let number = input.u8() as usize % COUNT;
    BASES[number].get_or_init(|| Base::new(make(number)))
}

fn make(number: usize) -> MemDevice {
    let features = Features::EXTRA_ATTR.union(Features::FLEXIBLE_INLINE_XATTR).union(Features::INODE_CRTIME);
    let infinite = Some(Infinite { leap: 4096, ..Infinite::new(1 << 14) });
    let mount = if number == 1 { "noinline_data,noinline_dentry" } else { "" };
    let plan = Plan { features, segs_per_sec: 1, mount, crashed: number == 1, infinite };
    let device = tree::make(plan).expect("the tree fits an empty volume");
    if number != 2 {
        return device;
    }
    let device = Arc::new(device);
    let fsynced = || -> steadyfs_core::Result<(Arc<Fs>, MemDevice)> {
        let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, MountOptions::parse("commit=0")?)?;
        let root = fs.root()?;
        for name in [&b"sparse"[..], b"file 2", b"new"] {
            let file = fs
                .lookup(&root, name)
                .or_else(|_| fs.create(&root, name, &NewInode { mode: 0o100_644, ..NewInode::default() }))?;
            fs.write(&file, 900 * 4096, &[7; 9000])?;
            fs.fsync(&file, false)?;
        }
        let left = device.fork();
        Ok((fs, left))
    };
    fsynced().expect("a sound volume is mounted").1
}

impl Base {
    fn new(device: MemDevice) -> Self {
        let image = Image::open(Arc::new(device.fork())).expect("the volume is sound");
        let space = image.log_space().expect("an IPLFS volume").clone();
        let pack = image.layout().pack(image.pack()).get();
        let mut base =
            Base { device, space, pack, nodes: Vec::new(), inos: Vec::new(), nat: Vec::new(), others: Vec::new() };
        for nid in (3..base.space.header().next_free_nid.get() + 64).map(Nid) {
            let Ok(entry) = image.nat(nid) else { break };
            let (block, index) = image.layout().nat_place(nid);
            base.nat.push((image.nat_lba(block).get(), index * 13));
            if !entry.is_free() && base.space.is_node_address(entry.lba) {
                base.nodes.push(entry.lba.get());
                base.inos.push(entry.ino);
            }
        }
        base.nodes.extend(image.fsync_chain().filter_map(Result::ok).map(|node| node.lba.get()));
        let mut next = base.space.superblock().space().first().get();
        while let Some(held) = base.device.held_from(next).expect("memory tells") {
            base.others.extend(held.clone().filter(|lba| !base.nodes.contains(lba)));
            next = held.end;
        }
        let (nodes, others) = (base.nodes.len(), base.others.len());
        assert!(nodes > 20 && others > 10, "{nodes} nodes and {others} other blocks");
        base
    }
}

/// A damaged volume.
struct Volume {
    base: &'static Base,
    device: Arc<MemDevice>,
    sound: bool,
}

impl Volume {
    fn read(input: &mut Input<'_>) -> Self {
        let base = base(input);
        let mut patch = Patch { base, blocks: BTreeMap::new() };
        let raw = input.u8().is_multiple_of(16);
        for _ in 0..MOST {
            match input.u8() {
                0 => break,
                kind => patch.change(kind, input),
            }
        }
        if !raw {
            patch.repair();
        }
        let device = base.device.fork();
        for (lba, block) in &patch.blocks {
            device.write(*lba, vec![PageBuf::from_slice(block)]).expect("in range");
        }
        Volume { base, device: Arc::new(device), sound: patch.blocks.is_empty() }
    }
}

/// Blocks that are being changed, by address.
struct Patch {
    base: &'static Base,
    blocks: BTreeMap<u64, Block>,
}

/// Fields of a header, without the heads (docs/INFINITE-FORMAT.md, section 4).
const HEADER: &[Field] = &[
    (0, 8),
    (8, 8),
    (16, 4),
    (20, 4),
    (24, 4),
    (28, 4),
    (32, 8),
    (40, 4),
    (44, 4),
    (48, 4),
    (56, 8),
    (64, 8),
    (72, 8),
    (80, 8),
    (88, 4),
    (92, 4),
    (96, 8),
];
/// The extension of the superblock (section 3), from the beginning of its block.
const EXTENSION: &[Field] = &[(3834, 2), (3836, 1), (3842, 8), (3850, 8), (3858, 8)];
/// A NAT entry (section 5), and a record of the discard log (section 8).
const NAT: &[Field] = &[(0, 1), (1, 4), (5, 8), (5, 8), (5, 8)];
const RECORD: &[Field] = &[(0, 8), (0, 8), (8, 4), (12, 4)];

impl Patch {
    fn block(&mut self, lba: u64) -> &mut Block {
        let device = &self.base.device;
        self.blocks.entry(lba).or_insert_with(|| *device.read_one(lba).expect("in range").to_array())
    }

    fn change(&mut self, kind: u8, input: &mut Input<'_>) {
        let base = self.base;
        let any = |of: &[u64], input: &mut Input<'_>| of[input.u16() as usize % of.len()];
        match kind % 16 {
            0 => {
                let fields = if input.bool() { EXTENSION } else { fields::SUPERBLOCK };
                self.field(u64::from(input.u8() & 1), 0, fields, input);
            }
            1 => self.field(base.pack, 0, HEADER, input),
            2 => self.number(base.pack, 128 + 8 * input.below(14), 8, input),
            3 | 4 => {
                let (lba, at) = base.nat[input.u16() as usize % base.nat.len()];
                self.field(lba, at, NAT, input);
            }
            5 | 6 => self.field(any(&base.nodes, input), 0, fields::INODE, input),
            7 | 8 => {
                let (lba, slot) = (any(&base.nodes, input), input.u16() as usize);
                let at = if input.bool() { 8 * (slot % 509) } else { 360 + 8 * (slot % 461) };
                self.number(lba, at, 8, input);
            }
            9 => self.field(any(&base.nodes, input), 0, fields::FOOTER, input),
            10 => {
                let log = base.space.header().discard_log;
                if log.blocks > 0 {
                    let lba = log.lba.get() + u64::from(input.u8()) % u64::from(log.blocks);
                    let record = 16 + 16 * (input.u8() as usize % 254);
                    self.field(lba, record, RECORD, input);
                }
            }
            11 => self.claim(input),
            12 => {
                let (from, to) = (any(&base.nodes, input), any(&base.nodes, input));
                *self.block(to) = *self.block(from);
            }
            13 => self.chain(input),
            14 => {
                let inner = 1 + u64::from(input.u8()) % u64::from(base.space.header().pack_blocks.max(3) - 2);
                self.number(base.pack + inner, input.u16() as usize % 4084, 4, input);
            }
            _ => {
                let (lba, at) = (any(&base.others, input), input.u16() as usize % 4088);
                self.number(lba, at, 8, input);
            }
        }
    }

    /// A field of a structure that begins at `at` of a block.
    fn field(&mut self, lba: u64, at: usize, fields: &[Field], input: &mut Input<'_>) {
        let Some(&(offset, width)) = input.pick(fields) else { return };
        self.number(lba, at + offset, width, input);
    }

    fn number(&mut self, lba: u64, at: usize, width: usize, input: &mut Input<'_>) {
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(&self.block(lba)[at..at + width]);
        let value = self.value(u64::from_le_bytes(wide), width, input);
        self.block(lba)[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }

    /// A new value for a number: near the old one, awkward, or one that means something elsewhere.
    fn value(&self, old: u64, width: usize, input: &mut Input<'_>) -> u64 {
        let space = &self.base.space;
        let head = |input: &mut Input<'_>| space.header().heads[input.u8() as usize % Stretch::COUNT];
        let near = |lba: Lba, input: &mut Input<'_>| lba.get().wrapping_add(u64::from(input.u8())).wrapping_sub(128);
        match input.u8() % 12 {
            0 | 1 => AWKWARD[input.below(AWKWARD.len())],
            2 => old.wrapping_add(1 + u64::from(input.u8() % 4)),
            3 => old.wrapping_sub(1 + u64::from(input.u8() % 4)),
            4 | 5 => old ^ 1 << (input.u8() as usize % (8 * width)),
            6 => self.base.nodes[input.u16() as usize % self.base.nodes.len()],
            7 => self.base.others[input.u16() as usize % self.base.others.len()],
            8 => near(head(input).next, input),
            9 => near(head(input).limit, input),
            10 => near(space.superblock().space().end(), input),
            _ => input.u64(),
        }
    }

    /// A claim for the checkpoint in force, with limits somewhere.
    fn claim(&mut self, input: &mut Input<'_>) {
        let superblock = self.base.space.superblock();
        let mut claim = Claim { version: self.base.space.header().version, limits: self.base.space.limits() };
        let limit = &mut claim.limits[input.u8() as usize % Stretch::COUNT];
        *limit = Lba(self.value(limit.get(), 8, input));
        let place = Claim::places(superblock)[usize::from(input.bool())];
        self.blocks.insert(place.get(), claim.encode(superblock, place));
    }

    /// A node of the volume again, behind the head of the log that recovery reads.
    fn chain(&mut self, input: &mut Input<'_>) {
        let (space, nodes) = (&self.base.space, &self.base.nodes);
        let head = space.head(Stretch::Of(Log::WarmNode)).next.get();
        let mut block = *self.block(nodes[input.u16() as usize % nodes.len()]);
        let footer = &mut NodeBlock::view_mut(&mut block).footer;
        footer.set_chain(space.header().version, Lba(0));
        footer.set_fsync(input.bool());
        let behind = (head..).find(|lba| !self.blocks.contains_key(lba)).unwrap_or(head);
        self.blocks.insert(behind, block);
    }

    /// Makes the checksums of what was changed right.
    fn repair(&mut self) {
        let (space, pack) = (&self.base.space, self.base.pack);
        let (superblock, header) = (space.superblock(), space.header());
        let seed = superblock.seed();
        for lba in [0, 1] {
            if let Some(block) = self.blocks.get_mut(&lba) {
                let crc = f2fs_crc(MAGIC, &block[1024..1024 + 3068]);
                block[1024 + 3068..].copy_from_slice(&crc.to_le_bytes());
            }
        }
        let log = header.discard_log;
        let blocks: Vec<Lba> = (0..u64::from(log.blocks)).map(|number| log.lba + number).collect();
        if blocks.iter().any(|lba| self.blocks.contains_key(&lba.get())) {
            let mut sum = seed;
            for lba in blocks {
                let block = self.block(lba.get());
                seal(block, seed, lba);
                sum = f2fs_crc(sum, &stored_checksum(block).to_le_bytes());
            }
            self.block(pack)[92..96].copy_from_slice(&sum.to_le_bytes());
        }
        let last = u64::from(header.pack_blocks) - 1;
        let version = self
            .blocks
            .get(&pack)
            .map_or(header.version, |block| u64::from_le_bytes(block[8..16].try_into().expect("eight bytes")));
        let changed = version != header.version;
        for lba in pack + 1..pack + last {
            if changed || self.blocks.contains_key(&lba) {
                seal(self.block(lba), f2fs_crc(seed, &version.to_le_bytes()), Lba(lba));
            }
        }
        if let Some(mut block) = self.blocks.get(&pack).copied() {
            seal(&mut block, seed, Lba(pack));
            self.blocks.insert(pack, block);
            seal(&mut block, seed, Lba(pack + last));
            self.blocks.insert(pack + last, block);
        }
        for (lba, block) in &mut self.blocks {
            let stretch = superblock.space().stretch_of(Lba(*lba));
            if stretch.is_some_and(Stretch::is_node) {
                seal(block, seed, Lba(*lba));
            }
        }
    }
}

/// A volume with the changes that the input lists.
pub(super) fn damaged(input: &mut Input<'_>) -> Arc<MemDevice> {
    Volume::read(input).device
}

fn run_check(bytes: &[u8]) {
    let volume = Volume::read(&mut Input::new(bytes));
    let options = CheckOptions { threads: 1, max_issues: 1000, leaks: true, ..CheckOptions::default() };
    let report = check(Arc::clone(&volume.device) as Arc<dyn Device>, &options).expect("memory can be read");
    let text: usize = report.issues.iter().map(|issue| issue.to_string().len()).sum();
    assert!(!volume.sound || text == 0 || report.worst() < Some(Severity::Warning), "sound: {:?}", report.issues);
    let Ok(image) = Image::open(Arc::clone(&volume.device) as Arc<dyn Device>) else { return };
    let _ = (image.orphans().map(|orphans| orphans.len()), image.chain_summary(), image.damage().len());
    let _ = image.fsync_chain().take(ENOUGH).filter(Result::is_ok).count();
    let mut dead = 0;
    let _ = image.dead_blocks(&mut |run| dead += u64::from(run.start < run.end));
    let _ = image.leaked_runs().map(|runs| runs.len());
}

fn run_mount(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let volume = Volume::read(&mut input);
    let read_only = input.bool();
    let options = MountOptions {
        read_only,
        background_gc: false,
        commit_seconds: Some(0),
        cache_bytes: 4 << 20,
        ..MountOptions::default()
    };
    let mounted = Fs::mount(Arc::clone(&volume.device) as Arc<dyn Device>, options);
    assert!(!volume.sound || mounted.is_ok(), "a sound volume: {:?}", mounted.err());
    let Ok(fs) = mounted else { return };
    for inode in volume.base.inos.iter().take(40).filter_map(|ino| fs.inode(*ino).ok()) {
        read_inode(&fs, &inode);
    }
    if read_only {
        return;
    }
    operations::perform_on(&fs, volume.base.inos.clone(), &mut input);
    let _ = fs.set_capacity(u64::from(input.u16()));
    if fs.unmount().is_ok() {
        let image = Image::open(volume.device).expect("a checkpoint that we wrote can be opened");
        assert!(image.dead_blocks(&mut |_| ()).is_ok(), "and its discard log can be read");
    }
}
