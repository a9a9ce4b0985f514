//! `dump nat`, `dump sit`, `dump ssa`, `dump block`: entries of the tables, and blocks.

use std::io::Write;

use steadyfs_core::raw::Image;
use steadyfs_format::sit::SitEntry;
use steadyfs_format::summary::SummaryKind;
use steadyfs_format::{Layout, Lba, Log, Nid, Pack, SegNo};

use super::Printer;
use crate::calendar::duration;
use crate::failure::Failure;
use crate::volume::failure;

pub(super) fn nat<W: Write>(image: &Image, nid: Nid, out: &mut Printer<W>) -> Result<(), Failure> {
    let entry = super::nat_entry(image, nid)?;
    let in_journal = image.nat_journal().iter().any(|(id, _)| *id == nid);
    let found = found(in_journal, image.nat_lba(image.layout().nat_place(nid).0));
    out.field("nid", nid)?;
    out.field("found in", found)?;
    out.field("ino", entry.ino)?;
    out.field("block_addr", entry.lba)?;
    out.field("version", entry.version)?;
    out.field("free", entry.is_free())
}

pub(super) fn sit<W: Write>(image: &Image, segment: SegNo, out: &mut Printer<W>) -> Result<(), Failure> {
    let entry = sit_entry(image, segment)?;
    let in_journal = image.sit_journal().iter().any(|(number, _)| *number == segment);
    let found = found(in_journal, image.sit_lba(image.layout().sit_place(segment).0));
    out.field("segment", segment)?;
    out.field(
        "blocks",
        format_args!("{} ..= {}", image.layout().lba_of(segment, 0), image.layout().lba_of(segment, 511)),
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

pub(super) fn ssa<W: Write>(image: &Image, segment: SegNo, out: &mut Printer<W>) -> Result<(), Failure> {
    let sit = sit_entry(image, segment)?;
    let summary =
        image.summary(segment).map_err(|e| failure(format!("cannot read the summaries of segment {segment}"), &e))?;
    let current = Log::ALL.into_iter().find(|log| image.log_position(*log).segment == segment);
    let kind = match summary.kind() {
        Ok(SummaryKind::Data) => "data".to_owned(),
        Ok(SummaryKind::Node) => "node".to_owned(),
        Err(e) => e.to_string(),
    };
    out.field("segment", segment)?;
    match (current, image.layout().ssa_lba(segment)) {
        (Some(log), _) => out.field("found in", format_args!("checkpoint, as the current segment of the {log} log"))?,
        (None, Some(lba)) => out.field("found in", format_args!("block {lba}"))?,
        (None, None) => {}
    }
    out.field("type", kind)?;
    // Entries of blocks that are not valid are leftovers.
    for (offset, entry) in (0..).zip(summary.iter()).filter(|(offset, _)| sit.is_valid(*offset)) {
        let at = image.layout().lba_of(segment, offset);
        let owner = format_args!("nid {} slot {} version {}", entry.nid, entry.ofs_in_node, entry.version);
        out.field(&format!("block {at}"), owner)?;
    }
    Ok(())
}

pub(super) fn block<W: Write>(image: &Image, lba: Lba, out: &mut Printer<W>) -> Result<(), Failure> {
    let block = super::read(image, lba)?;
    out.field("block", lba)?;
    if let Some(space) = image.log_space() {
        super::logs::place(image, space, lba, out)?;
        return out.hex(&*block);
    }
    out.field("area", area(image.layout(), lba))?;
    if let Some((segment, offset)) = image.layout().seg_of(lba) {
        let entry = sit_entry(image, segment)?;
        out.field("segment", format_args!("{segment} offset {offset}"))?;
        out.field("valid", entry.is_valid(offset))?;
        if let Some(log) = entry.log() {
            out.field("type", log)?;
        }
    }
    out.hex(&*block)
}

/// The SIT entry of a segment.
fn sit_entry(image: &Image, segment: SegNo) -> Result<SitEntry, Failure> {
    let count = image.layout().main_segments;
    if segment.get() >= count {
        let why = format!("the main area has segments 0 to {}", count - 1);
        return Err(Failure::new(format!("there is no segment {segment}"), why, "give a smaller number"));
    }
    image.sit(segment).map_err(|e| failure(format!("cannot read the SIT entry of segment {segment}"), &e))
}

/// Where a table entry was found: the journal of the checkpoint overrules the table.
fn found(in_journal: bool, table: Lba) -> String {
    if in_journal { "journal".to_owned() } else { format!("block {table}") }
}

/// The area that a block belongs to.
pub(super) fn area(layout: &Layout, lba: Lba) -> &'static str {
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
