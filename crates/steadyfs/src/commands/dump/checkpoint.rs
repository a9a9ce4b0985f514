//! `dump cp`: the checkpoint in force.

use std::io::Write;

use steadyfs_core::raw::Image;
use steadyfs_format::{AllocType, Log};

use super::Printer;
use crate::failure::Failure;
use crate::volume::failure;

pub(super) fn print<W: Write>(image: &Image, out: &mut Printer<W>) -> Result<(), Failure> {
    let header = image.checkpoint().header();
    let start = image.layout().pack(image.pack());
    out.field("pack", format_args!("{} at block {start}", image.pack().number()))?;
    out.field("checkpoint_ver", header.version())?;
    let flags = header.flags();
    out.field("ckpt_flags", format_args!("{:#x} ({flags})", flags.bits()))?;
    for (name, value) in [
        ("user_block_count", header.user_blocks()),
        ("valid_block_count", header.valid_blocks()),
        ("valid_node_count", header.valid_nodes().into()),
        ("valid_inode_count", header.valid_inodes().into()),
        ("next_free_nid", header.next_free_nid().get().into()),
        ("free_segment_count", header.free_segments().into()),
        ("rsvd_segment_count", header.reserved_segments().into()),
        ("overprov_segment_count", header.overprov_segments().into()),
        ("elapsed_time", header.elapsed_time()),
        ("cp_pack_total_block_count", header.pack_blocks().into()),
        ("cp_pack_start_sum", header.start_sum().into()),
        ("sit_ver_bitmap_bytesize", header.sit_bitmap_bytes().into()),
        ("nat_ver_bitmap_bytesize", header.nat_bitmap_bytes().into()),
        ("checksum_offset", header.checksum_offset() as u64),
    ] {
        out.field(name, value)?;
    }
    out.field("checksum", format_args!("{:#010x}", header.stored_checksum()))?;
    for log in Log::ALL {
        let position = header.log(log);
        let how = match position.alloc {
            AllocType::Lfs => "LFS",
            AllocType::Ssr => "SSR",
        };
        out.field(log.name(), format_args!("segment {} block {} {how}", position.segment, position.next))?;
    }
    let bits = |bitmap: &[u8]| steadyfs_format::bitmap::count_ones(bitmap);
    out.field("SIT blocks in 2nd copy", bits(image.checkpoint().sit_bitmap()))?;
    out.field("NAT blocks in 2nd copy", bits(image.checkpoint().nat_bitmap()))?;
    for (nid, entry) in image.nat_journal() {
        let what = format!("NAT journal: node {nid}");
        out.field(&what, format_args!("ino {} block {} version {}", entry.ino, entry.lba, entry.version))?;
    }
    for (segment, entry) in image.sit_journal() {
        out.field(&format!("SIT journal: segment {segment}"), format_args!("{} valid blocks", entry.valid_blocks()))?;
    }
    for ino in image.orphans().map_err(|e| failure("cannot read the orphans", &e))? {
        out.field("orphan", ino)?;
    }
    Ok(())
}
