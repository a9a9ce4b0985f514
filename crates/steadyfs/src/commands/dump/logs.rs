//! What only an IPLFS volume has, in the words of docs/INFINITE-FORMAT.md: its checkpoint, the extension of its
//! superblock, places in its log space.

use std::io::Write;

use steadyfs_core::raw::{Image, LogSpace};
use steadyfs_format::Lba;
use steadyfs_format::infinite::{Stretch, SuperBlock};

use super::Printer;
use super::tables::area;
use crate::failure::Failure;
use crate::volume::failure;

/// The extension of a sound superblock.
pub(super) fn extension<W: Write>(superblock: &SuperBlock, out: &mut Printer<W>) -> Result<(), Failure> {
    let space = superblock.space();
    out.field("log_shift", space.shift())?;
    out.field("first_log", space.first())?;
    out.field("capacity", superblock.capacity())?;
    out.field("leap", superblock.leap())
}

/// The checkpoint in force.
pub(super) fn checkpoint<W: Write>(image: &Image, space: &LogSpace, out: &mut Printer<W>) -> Result<(), Failure> {
    let header = space.header();
    out.field("pack", format_args!("{} at block {}", image.pack().number(), image.layout().pack(image.pack())))?;
    out.field("version", header.version)?;
    out.field("flags", format_args!("{:#x} ({})", header.flags.bits(), header.flags))?;
    for (name, value) in [
        ("pack_blocks", u64::from(header.pack_blocks)),
        ("orphan_blocks", header.orphan_blocks.into()),
        ("nat_journal_blocks", header.nat_journal_blocks.into()),
        ("valid_blocks", header.valid_blocks),
        ("valid_nodes", header.valid_nodes.into()),
        ("valid_inodes", header.valid_inodes.into()),
        ("next_free_nid", header.next_free_nid.get().into()),
        ("elapsed", header.elapsed),
        ("kbytes_written", header.kbytes_written),
        ("dead_blocks", header.discard_log.dead),
        ("log_lba", header.discard_log.lba.get()),
        ("log_blocks", header.discard_log.blocks.into()),
        ("log_records", header.discard_log.records),
    ] {
        out.field(name, value)?;
    }
    out.field("log_checksum", format_args!("{:#010x}", header.discard_log.checksum))?;
    for stretch in Stretch::ALL {
        let head = space.head(stretch);
        out.field(&stretch.to_string(), format_args!("next {} limit {}", head.next, head.limit))?;
    }
    if let Some(claim) = space.claim() {
        for (stretch, limit) in Stretch::ALL.into_iter().zip(claim.limits) {
            out.field(&format!("claim: {stretch}"), format_args!("limit {limit}"))?;
        }
    }
    out.field("NAT blocks in 2nd copy", steadyfs_format::bitmap::count_ones(image.checkpoint().nat_bitmap()))?;
    for (nid, entry) in image.nat_journal() {
        let what = format!("NAT journal: node {nid}");
        out.field(&what, format_args!("ino {} block {} version {}", entry.ino, entry.lba, entry.version))?;
    }
    let mut shown = Ok(());
    let read = image.dead_blocks(&mut |run| {
        if shown.is_ok() {
            shown = out.field("dead", format_args!("{} ..= {}", run.start, run.end.get() - 1));
        }
    });
    read.map_err(|e| failure("cannot read the discard log", &e))?;
    shown?;
    for ino in image.orphans().map_err(|e| failure("cannot read the orphans", &e))? {
        out.field("orphan", ino)?;
    }
    Ok(())
}

/// Where a block lies.
pub(super) fn place<W: Write>(image: &Image, space: &LogSpace, lba: Lba, out: &mut Printer<W>) -> Result<(), Failure> {
    let superblock = space.superblock();
    let Some(stretch) = superblock.space().stretch_of(lba) else {
        let behind = lba >= superblock.space().end();
        let between = lba >= image.layout().main && !behind;
        return out.field("area", if between { "unused" } else { area(image.layout(), lba) });
    };
    out.field("area", format_args!("log {stretch}"))?;
    out.field("offset", lba.get() - superblock.space().range(stretch).start.get())?;
    let (head, limit) = (space.head(stretch), space.limits()[stretch.index()]);
    let state = match lba {
        _ if lba < head.next => "before the head",
        _ if lba < limit => "between head and limit: written since the checkpoint, or never",
        _ => "never written",
    };
    out.field("state", state)
}
