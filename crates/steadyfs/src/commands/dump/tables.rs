//! `dump nat`, `dump sit`, `dump ssa`, `dump block`: entries of the tables, and blocks.

use std::io::Write;

use steadyfs_format::block::BlockView;
use steadyfs_format::summary::{SummaryBlock, SummaryKind};
use steadyfs_format::{Layout, Lba, Nid, Pack, SegNo};

use super::Printer;
use crate::calendar::duration;
use crate::failure::Failure;
use crate::raw::RawVolume;

pub(super) fn nat<W: Write>(volume: &RawVolume, nid: Nid, out: &mut Printer<W>) -> Result<(), Failure> {
    let (entry, found) = volume.nat(nid)?;
    out.field("nid", nid)?;
    out.field("found in", found)?;
    out.field("ino", entry.ino)?;
    out.field("block_addr", entry.lba)?;
    out.field("version", entry.version)?;
    out.field("free", entry.is_free())
}

pub(super) fn sit<W: Write>(volume: &RawVolume, segment: SegNo, out: &mut Printer<W>) -> Result<(), Failure> {
    let (entry, found) = volume.sit(segment)?;
    out.field("segment", segment)?;
    out.field(
        "blocks",
        format_args!("{} ..= {}", volume.layout().lba_of(segment, 0), volume.layout().lba_of(segment, 511)),
    )?;
    out.field("found in", found)?;
    match entry.log() {
        Some(log) => out.field("type", format_args!("{} ({log})", log.number()))?,
        None => out.field("type", entry.raw_type())?,
    }
    out.field("valid blocks", entry.valid_blocks())?;
    out.field("mtime", format_args!("{} ({} mounted)", entry.mtime(), duration(entry.mtime())))?;
    if let Err(e) = entry.validate() {
        out.field("problem", e)?;
    }
    let map: Vec<String> = entry.valid_map().iter().map(|b| format!("{b:02x}")).collect();
    for (n, row) in map.chunks(16).enumerate() {
        out.field(&format!("valid map {:>3}", n * 128), row.concat())?;
    }
    Ok(())
}

pub(super) fn ssa<W: Write>(volume: &RawVolume, segment: SegNo, out: &mut Printer<W>) -> Result<(), Failure> {
    volume.check_segment(segment)?;
    let Some(lba) = volume.layout().ssa_lba(segment) else {
        return Err(Failure::new("there are no summaries", "the volume has the feature ro", "ask for something else"));
    };
    let block = volume.device.block(lba)?;
    let (summary, sit) = (SummaryBlock::view(&block), volume.sit(segment)?.0);
    let kind = match summary.kind() {
        Ok(SummaryKind::Data) => "data".to_owned(),
        Ok(SummaryKind::Node) => "node".to_owned(),
        Err(e) => e.to_string(),
    };
    out.field("segment", segment)?;
    out.field("found in", format_args!("block {lba}"))?;
    out.field("type", kind)?;
    // Entries of blocks that are not valid are leftovers.
    for (offset, entry) in (0..).zip(summary.iter()).filter(|(offset, _)| sit.is_valid(*offset)) {
        let at = volume.layout().lba_of(segment, offset);
        let owner = format_args!("nid {} slot {} version {}", entry.nid, entry.ofs_in_node, entry.version);
        out.field(&format!("block {at}"), owner)?;
    }
    Ok(())
}

pub(super) fn block<W: Write>(volume: &RawVolume, lba: Lba, out: &mut Printer<W>) -> Result<(), Failure> {
    let block = volume.device.block(lba)?;
    out.field("block", lba)?;
    out.field("area", area(volume.layout(), lba))?;
    if let Some((segment, offset)) = volume.layout().seg_of(lba) {
        let (entry, _) = volume.sit(segment)?;
        out.field("segment", format_args!("{segment} offset {offset}"))?;
        out.field("valid", entry.is_valid(offset))?;
        if let Some(log) = entry.log() {
            out.field("type", log)?;
        }
    }
    out.hex(&*block)
}

/// The area that a block belongs to.
fn area(layout: &Layout, lba: Lba) -> &'static str {
    match lba {
        Lba(0 | 1) => "superblock",
        _ if lba < layout.segment0 => "unused",
        _ if lba < layout.pack(Pack::Two) => "checkpoint pack 1",
        _ if lba < layout.sit => "checkpoint pack 2",
        _ if lba < layout.nat => "SIT",
        _ if lba < layout.ssa => "NAT",
        _ if lba < layout.main => "SSA",
        _ if lba < layout.main_end() => "main",
        _ => "behind the volume",
    }
}
