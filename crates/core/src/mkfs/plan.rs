//! Everything that will be written, computed before the first write.

use super::contents::{Contents, FOOTER_VERSION, Starts};
use super::{MkfsOptions, choices};
use crate::error::Result;
use steadyfs_format::block::BlockView;
use steadyfs_format::checkpoint::{Checkpoint, CpFlags, LogPosition, NatBits};
use steadyfs_format::crc::crc_magic;
use steadyfs_format::inode::Inode;
use steadyfs_format::journal::Journal;
use steadyfs_format::mkfs_layout::MkfsLayout;
use steadyfs_format::nat::{NatBlock, NatEntry};
use steadyfs_format::sit::{SitEntry, VALID_MAP_BYTES};
use steadyfs_format::summary::{Summary, SummaryBlock, SummaryKind};
use steadyfs_format::superblock::{RawSuperBlock, encode_label};
use steadyfs_format::{AllocType, Block, Features, Lba, Log, META_INO, NODE_INO, SegNo, SuperBlock, bitmap};

/// The layout version of mkfs.f2fs that ours is.
const MKFS_VERSION: (u16, u16) = (1, 15);
/// UTF-8 12.1, the only encoding that the format knows.
const ENCODING_UTF8: u16 = 1;
/// The flag of an encoding that refuses names which are not valid in it.
const ENCODING_STRICT: u16 = 1;
/// The first checkpoint's version where it is to be the same each time.
const FIXED_VERSION: u64 = 1;

/// An empty volume in memory.
pub(super) struct Plan {
    pub(super) layout: MkfsLayout,
    pub(super) superblock: SuperBlock,
    pub(super) nat: NatBlock,
    /// Nodes and data of the first files.
    pub(super) blocks: Vec<(Lba, Block)>,
    pub(super) tables: FirstCheckpoint,
}

/// What the checkpoint says of the first files.
pub(super) struct FirstCheckpoint {
    version: u64,
    checkpoint: Checkpoint,
    data: [SummaryBlock; 3],
    nodes: [SummaryBlock; 3],
    nat_bits: NatBits,
}

/// Computes the volume.
pub(super) fn plan(options: &MkfsOptions, blocks: u64) -> Result<Plan> {
    choices::check_features(options.features)?;
    choices::check_encoding(options)?;
    let chosen = choices::geometry(options, blocks);
    let (chosen, layout, regions) = match &options.migrating {
        None => (chosen.clone(), MkfsLayout::plan(&chosen)?, None),
        Some(migrating) => migrating.plan(&chosen).map(|(chosen, layout, regions)| (chosen, layout, Some(regions)))?,
    };
    let mut raw = layout.superblock(&chosen);
    regions.iter().for_each(|regions| regions.store(&mut raw));
    name(&mut raw, options)?;
    if options.features.contains(Features::ENCRYPT) {
        raw.encrypt_pw_salt = salt(options);
    }
    let seed = SuperBlock::new(raw.clone())?.inode_checksum_seed();
    let seal = |block: &mut Block, lba: Lba| {
        let inode = Inode::view_mut(block);
        inode.footer.set_chain(FOOTER_VERSION, lba + 1);
        inode.update_checksum(options.features, seed);
    };
    let start = |log: Log| layout.layout.lba_of(layout.logs[log.index()], 0);
    let (data, nodes) = (start(Log::HotData), start(Log::HotNode));
    let contents = Contents::build(options, &Starts { data, nodes, features: options.features, seal: &seal })?;
    for (slot, ino) in raw.qf_ino.iter_mut().zip(contents.quota_inos) {
        *slot = ino.map_or(0, |ino| ino.get()).into();
    }
    // Through its bytes, so that it has its checksum.
    let superblock = SuperBlock::parse(&SuperBlock::new(raw)?.encode())?;
    let tables = FirstCheckpoint::build(options, &layout, &contents)?;
    let mut nat = NatBlock::zeroed();
    for nid in [NODE_INO.nid(), META_INO.nid()] {
        nat.set(nid.index(), NatEntry::reserved(nid));
    }
    for &(nid, entry) in &contents.nat {
        nat.set(nid.index(), entry);
    }
    Ok(Plan { layout, superblock, nat, blocks: contents.blocks, tables })
}

/// Fills in what does not depend on the geometry: uuid, label, versions, extensions, encoding.
pub(super) fn name(raw: &mut RawSuperBlock, options: &MkfsOptions) -> Result<()> {
    (raw.major_ver, raw.minor_ver) = (MKFS_VERSION.0.into(), MKFS_VERSION.1.into());
    raw.uuid = options.uuid;
    raw.volume_name = encode_label(&options.label).map_err(choices::usage)?;
    choices::set_extensions(raw, &options.cold_extensions, &options.hot_extensions)?;
    let name = concat!("SteadyFS ", env!("CARGO_PKG_VERSION"));
    raw.version[..name.len()].copy_from_slice(name.as_bytes());
    raw.init_version = raw.version;
    if options.features.contains(Features::CASEFOLD) {
        raw.s_encoding = ENCODING_UTF8.into();
        raw.s_encoding_flags = if options.strict_encoding { ENCODING_STRICT } else { 0 }.into();
    }
    Ok(())
}

/// Salt of the encryption by password: differs from volume to volume, is no secret.
fn salt(options: &MkfsOptions) -> [u8; 16] {
    let mut salt = options.uuid;
    salt.reverse();
    salt
}

/// The first checkpoint's version: odd, below 2^31, different for each uuid and time, so that nodes of an older volume
/// on the same device are not taken for ours.
pub(super) fn first_version(options: &MkfsOptions) -> u64 {
    if options.fixed_version {
        return FIXED_VERSION;
    }
    let seed = [&options.uuid[..], &options.timestamp.to_le_bytes()].concat();
    u64::from(crc_magic(&seed) & 0x7FFF_FFFF | 1)
}

impl FirstCheckpoint {
    fn build(options: &MkfsOptions, made: &MkfsLayout, contents: &Contents) -> Result<Self> {
        let layout = &made.layout;
        let large = if options.large_nat { CpFlags::LARGE_NAT_BITMAP } else { CpFlags::NONE };
        let mut checkpoint = Checkpoint::new(layout, CpFlags::UMOUNT | large)?;
        if options.migrating.is_some() {
            checkpoint.set_served(0)?;
        }
        let used = contents.nat.len() as u32;
        let header = checkpoint.header_mut();
        header.set_user_blocks(made.user_blocks);
        header.set_valid_blocks(contents.blocks.len() as u64);
        header.set_reserved_segments(made.reserved_segments);
        header.set_overprov_segments(made.overprov_segments);
        header.set_free_segments(made.free_segments);
        header.set_valid_nodes(used);
        header.set_valid_inodes(used);
        header.set_next_free_nid(contents.next_nid);
        let mut data = [(); 3].map(|()| SummaryBlock::new(SummaryKind::Data));
        let mut nodes = [(); 3].map(|()| SummaryBlock::new(SummaryKind::Node));
        for log in Log::ALL {
            let next = contents.in_log(log);
            let segment = made.logs[log.index()];
            header.set_log(log, LogPosition { segment, next, alloc: AllocType::Lfs });
        }
        fill(&mut data[0], &contents.data_summaries);
        fill(&mut nodes[0], &contents.node_summaries);
        data[0].journal = Journal::from_nat(&contents.nat)?;
        data[2].journal = Journal::from_sit(&sit_entries(made, contents))?;
        let mut nat_bits = NatBits::new(layout);
        nat_bits.set_used(0, contents.next_nid.index());
        for block in 1..layout.nat_blocks() {
            nat_bits.set_used(block, 0);
        }
        Ok(Self { version: first_version(options), checkpoint, data, nodes, nat_bits })
    }

    /// The blocks of both packs, first to last, and the `nat_bits` of the first.
    ///
    /// `discarded` is recorded in the flags, so this comes last. Pack 2 is the same state as a version before all
    /// others, for the case that pack 1 cannot be read.
    pub(super) fn packs(&self, discarded: bool) -> Result<[Vec<Block>; 3]> {
        let trimmed = if discarded { CpFlags::TRIMMED } else { CpFlags::NONE };
        let mut checkpoint = self.checkpoint.clone();
        let header = checkpoint.header_mut();
        header.set_flags(header.flags() | CpFlags::NAT_BITS | trimmed);
        header.set_version(0);
        let second = checkpoint.encode_pack(&[], &self.data, Some(&self.nodes))?;
        checkpoint.header_mut().set_version(self.version);
        let first = checkpoint.encode_pack(&[], &self.data, Some(&self.nodes))?;
        Ok([first, second, self.nat_bits.encode(checkpoint.header())])
    }
}

fn fill(block: &mut SummaryBlock, summaries: &[Summary]) {
    for (offset, summary) in summaries.iter().enumerate() {
        block.set(offset as u16, *summary);
    }
}

/// The entries of the six current segments.
fn sit_entries(made: &MkfsLayout, contents: &Contents) -> Vec<(SegNo, SitEntry)> {
    // Nodes first, as mkfs.f2fs orders them.
    let logs = Log::NODE.into_iter().chain(Log::DATA);
    let entries = logs.map(|log| {
        let mut map = [0; VALID_MAP_BYTES];
        bitmap::msb::fill(&mut map, 0, usize::from(contents.in_log(log)), true);
        (made.logs[log.index()], SitEntry::new(log, map, 0))
    });
    entries.collect()
}
