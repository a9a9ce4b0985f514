//! The checkpoint pack: header, payload, orphans, summaries in both forms with their journals, `nat_bits`. Input: two
//! bytes of choices, then the blocks of the pack from the first on, with `nat_bits` behind them.

use super::{VOLUMES, choose_layout};
use crate::Target;
use crate::input::Input;
use steadyfs_format::block::BlockView;
use steadyfs_format::checkpoint::{
    CHECKSUM_OFFSET, Checkpoint, CheckpointHeader, CpFlags, HEADER_BYTES, LogPosition, NatBits, choose_pack,
    decode_data_summaries, last_block_of, pack_version,
};
use steadyfs_format::orphan::decode_orphans;
use steadyfs_format::summary::{Summary, SummaryBlock, SummaryKind};
use steadyfs_format::{AllocType, Block, Ino, Layout, Log, Nid, SegNo};

/// The target. A pack has at most 512 blocks; it is taken apart, encoded and taken apart again.
pub const TARGET: Target = Target { name: "checkpoint", run, seeds, volume: false, memory: 16 << 20 };

/// Choice: make the checksum right.
const REPAIR: u8 = 1;
/// Choice: make counts and sizes those of the geometry, so that only the rest can be wrong.
const FIT: u8 = 2;

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (index, (_, plan)) in VOLUMES.iter().enumerate() {
        for choices in [0, REPAIR, REPAIR | FIT] {
            let large = if index == 2 { CpFlags::LARGE_NAT_BITMAP } else { CpFlags::NONE };
            for (flags, orphans) in [(CpFlags::UMOUNT | CpFlags::NAT_BITS, 0), (CpFlags::CRC_RECOVERY, 5)] {
                let mut seed = vec![choices, index as u8];
                seed.extend(sound_pack(&plan.layout, flags | large, orphans).as_flattened());
                seeds.push(seed);
            }
        }
    }
    seeds
}

fn sound_pack(layout: &Layout, flags: CpFlags, orphans: u32) -> Vec<Block> {
    let mut checkpoint = Checkpoint::new(layout, flags).expect("the bitmaps fit");
    let header = checkpoint.header_mut();
    header.set_version(7);
    header.set_user_blocks(4000);
    header.set_valid_blocks(2);
    header.set_valid_nodes(1);
    header.set_valid_inodes(1);
    header.set_overprov_segments(6);
    header.set_reserved_segments(5);
    for log in Log::ALL {
        let segment = SegNo(u32::from(log.number()));
        header.set_log(log, LogPosition { segment, next: 1, alloc: AllocType::Lfs });
    }
    let orphans: Vec<Ino> = (4..4 + orphans).map(Ino).collect();
    let data = [(); 3].map(|()| SummaryBlock::new(SummaryKind::Data));
    let nodes = [(); 3].map(|()| SummaryBlock::new(SummaryKind::Node));
    let with_nodes = flags.contains(CpFlags::UMOUNT);
    let mut pack = checkpoint.encode_pack(&orphans, &data, with_nodes.then_some(&nodes)).expect("the pack has room");
    let bits = NatBits::new(layout).encode(checkpoint.header());
    // Large bitmaps make long inputs; the first block of them says enough.
    pack.extend(bits.into_iter().take(1));
    pack
}

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choices = input.u8();
    let layout = choose_layout(&mut input);
    let mut first = input.block();
    if choices & FIT != 0 {
        fit(&layout, CheckpointHeader::view_mut(&mut first));
    }
    if choices & REPAIR != 0 {
        seal(&mut first);
    }
    let _ = CheckpointHeader::view(&first).footer_version();
    let Ok(last) = last_block_of(&first) else { return };
    assert!((2..512).contains(&last));
    let version = pack_version(&first, &first);
    let _ = choose_pack(version.clone(), version.map(|version| version.wrapping_add(1)));
    let payload: Vec<Block> = (0..layout.cp_payload).map(|_| input.block()).collect();
    let Ok(checkpoint) = Checkpoint::parse(&layout, &first, &payload) else { return };
    use_pack(&layout, checkpoint, input);
}

/// Reads the rest of a pack whose header was accepted, and writes it again.
fn use_pack(layout: &Layout, mut checkpoint: Checkpoint, mut input: Input<'_>) {
    let map = checkpoint.pack_map();
    let mut blocks = |range: std::ops::Range<u32>| -> Vec<Block> { range.map(|_| input.block()).collect() };
    let orphans = decode_orphans(&blocks(map.orphans)).unwrap_or_default();
    let compact = checkpoint.header().flags().contains(CpFlags::COMPACT_SUM);
    let data = decode_data_summaries(&blocks(map.data_summaries), compact, checkpoint.data_logs());
    let nodes = blocks(map.node_summaries);
    if let Some(bits) = NatBits::parse(layout, checkpoint.header(), &blocks(0..layout.nat_bits_blocks().min(4))) {
        let _ = (bits.is_full(layout.nat_blocks()), bits.is_empty(0));
    }
    let last_sit = layout.sit_blocks() - 1;
    let last_nat = layout.nat_blocks() - 1;
    let _ = (checkpoint.sit_copy(u32::MAX), checkpoint.nat_copy(u32::MAX), checkpoint.spare());
    checkpoint.set_sit_copy(last_sit, !checkpoint.sit_copy(last_sit));
    checkpoint.set_nat_copy(last_nat, !checkpoint.nat_copy(last_nat));
    let _ = (checkpoint.node_logs(), checkpoint.header().next_free_nid());
    let Ok(data) = data else { return };
    for summary in &data {
        let _ = (summary.journal.nat(), summary.journal.sit(), summary.journal.kbytes_written());
    }
    let nodes: Option<[SummaryBlock; 3]> = match nodes.as_slice() {
        [hot, warm, cold] => Some([hot, warm, cold].map(|block| SummaryBlock::view(block).clone())),
        _ => None,
    };
    if let Ok(pack) = checkpoint.encode_pack(&orphans, &data, nodes.as_ref()) {
        let payload = &pack[1..1 + layout.cp_payload as usize];
        let kept = checkpoint.header().flags().contains(CpFlags::NAT_BITS);
        let again = Checkpoint::parse(layout, &pack[0], payload);
        assert!(again.is_ok() || kept, "what was written is accepted: {again:?}");
    }
}

/// Makes the numbers that the geometry fixes right.
fn fit(layout: &Layout, header: &mut CheckpointHeader) {
    let large = header.flags().contains(CpFlags::LARGE_NAT_BITMAP);
    header.set_checksum_offset(if large { HEADER_BYTES } else { CHECKSUM_OFFSET });
    header.set_sit_bitmap_bytes(layout.sit_bitmap_bytes() as u32);
    header.set_nat_bitmap_bytes(layout.nat_bitmap_bytes() as u32);
    let compact = header.flags().contains(CpFlags::COMPACT_SUM);
    let logs = Log::DATA.map(|log| header.log(log));
    let data = if compact { steadyfs_format::checkpoint::compact_blocks(logs).unwrap_or(3) } else { 3 };
    let nodes = if header.has_node_summaries() { 3 } else { 0 };
    let start = header.start_sum().clamp(layout.cp_payload + 1, 505.max(layout.cp_payload + 1));
    header.set_start_sum(start);
    header.set_pack_blocks(start + data as u32 + nodes + 1);
}

/// Makes the checksum of a header right, if its place is in the block.
pub(crate) fn seal(block: &mut Block) {
    let header = CheckpointHeader::view_mut(block);
    if (HEADER_BYTES..=CHECKSUM_OFFSET).contains(&header.checksum_offset()) {
        header.seal();
    }
}

/// Uses every entry of a summary block.
pub(crate) fn use_summary(block: &SummaryBlock) {
    let _ = (block.kind(), block.journal.nat(), block.journal.sit(), block.journal.kbytes_written());
    let mut again = SummaryBlock::new(SummaryKind::Data);
    for (offset, entry) in (0u16..).zip(block.iter()) {
        again.set(offset, Summary { nid: Nid(entry.nid.get()), ..entry });
        assert_eq!(again.get(offset), block.get(offset));
    }
}
