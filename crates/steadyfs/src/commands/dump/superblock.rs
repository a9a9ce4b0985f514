//! `dump sb`: every field of the superblock, also of a broken one.

use std::io::Write;

use steadyfs_core::Error;
use steadyfs_core::raw::Superblocks;
use steadyfs_device::Device;
use steadyfs_format::migrating;
use steadyfs_format::quote::{quote, uuid};
use steadyfs_format::records::JOURNAL_MAGIC;
use steadyfs_format::superblock::RawSuperBlock;
use steadyfs_format::{Features, FormatError};

use super::Printer;
use crate::failure::Failure;
use crate::volume::failure;

/// Said of the mark of a journal.
const JOURNALED: &str = " (there may be a metadata journal to replay)";

pub(super) fn print<W: Write>(device: &dyn Device, out: &mut Printer<W>) -> Result<(), Failure> {
    let cannot = |e: &Error| failure("cannot read the superblock", e);
    let copies = Superblocks::read(device);
    // The first copy that is good; else the first that at least looks like one.
    let looks_like_one =
        |copy: usize| !matches!(copies.copy(copy), Err(Error::Format(FormatError::Magic { .. }) | Error::Io(_)));
    let good = |copy: &usize| copies.copy(*copy).is_ok();
    let Some(copy) = (0..2).find(good).or((0..2).find(|copy| looks_like_one(*copy))) else {
        return copies.chosen().map(drop).map_err(|e| cannot(&e));
    };
    let block = device.read_one(copy as u64).map_err(|e| cannot(&e.into()))?;
    let raw = block.with(RawSuperBlock::read);
    out.field("copy", copy)?;
    if let Err(e) = copies.copy(copy) {
        out.field("problem", e)?;
    }
    numbers(&raw, out)?;
    if let Some(superblock) = copies.chosen_infinite() {
        super::logs::extension(superblock, out)?;
    }
    texts(&raw, out)?;
    rest(&raw, out)
}

fn numbers<W: Write>(raw: &RawSuperBlock, out: &mut Printer<W>) -> Result<(), Failure> {
    let kind = match raw.magic.get() {
        JOURNAL_MAGIC => JOURNALED,
        migrating::MAGIC => " (D2FS: the device moves blocks)",
        _ => "",
    };
    out.field("magic", format_args!("{:#010x}{kind}", raw.magic.get()))?;
    out.field("mkfs version", format_args!("{}.{}", raw.major_ver.get(), raw.minor_ver.get()))?;
    out.field("block_count", raw.block_count.get())?;
    let marked = if raw.is_marked() { JOURNALED } else { "" };
    out.field("log_sectorsize", format_args!("{}{marked}", raw.log_sectorsize.get()))?;
    for (name, value) in [
        ("log_sectors_per_block", raw.log_sectors_per_block),
        ("log_blocksize", raw.log_blocksize),
        ("log_blocks_per_seg", raw.log_blocks_per_seg),
        ("segs_per_sec", raw.segs_per_sec),
        ("secs_per_zone", raw.secs_per_zone),
        ("checksum_offset", raw.checksum_offset),
        ("section_count", raw.section_count),
        ("segment_count", raw.segment_count),
        ("segment_count_ckpt", raw.segment_count_ckpt),
        ("segment_count_sit", raw.segment_count_sit),
        ("segment_count_nat", raw.segment_count_nat),
        ("segment_count_ssa", raw.segment_count_ssa),
        ("segment_count_main", raw.segment_count_main),
        ("segment0_blkaddr", raw.segment0_blkaddr),
        ("cp_blkaddr", raw.cp_blkaddr),
        ("sit_blkaddr", raw.sit_blkaddr),
        ("nat_blkaddr", raw.nat_blkaddr),
        ("ssa_blkaddr", raw.ssa_blkaddr),
        ("main_blkaddr", raw.main_blkaddr),
        ("root_ino", raw.root_ino),
        ("node_ino", raw.node_ino),
        ("meta_ino", raw.meta_ino),
        ("cp_payload", raw.cp_payload),
    ] {
        out.field(name, value.get())?;
    }
    Ok(())
}

fn texts<W: Write>(raw: &RawSuperBlock, out: &mut Printer<W>) -> Result<(), Failure> {
    out.field("uuid", uuid(&raw.uuid))?;
    let units = raw.volume_name.iter().map(|unit| unit.get()).take_while(|unit| *unit != 0);
    let label: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    out.text("volume_name", quote(&label))?;
    let (cold, hot) = raw.extensions();
    out.text("cold extensions", quote(&cold.join(" ")))?;
    out.text("hot extensions", quote(&hot.join(" ")))?;
    out.text("version", text(&raw.version))?;
    out.text("init_version", text(&raw.init_version))
}

fn rest<W: Write>(raw: &RawSuperBlock, out: &mut Printer<W>) -> Result<(), Failure> {
    let features = raw.feature.get();
    out.field("feature", format_args!("{features:#x} ({})", Features::from_bits(features)))?;
    out.field("encryption_level", raw.encryption_level)?;
    for (n, device) in raw.devs.iter().enumerate().filter(|(_, device)| device.path[0] != 0) {
        out.field(
            &format!("devs[{n}]"),
            format_args!("{} ({} segments)", text(&device.path), device.total_segments.get()),
        )?;
    }
    let [user, group, project] = raw.qf_ino.map(|ino| ino.get());
    out.field("qf_ino", format_args!("{user} {group} {project}"))?;
    out.field("s_encoding", format_args!("{} (flags {:#x})", raw.s_encoding.get(), raw.s_encoding_flags.get()))?;
    out.field("s_stop_reason", hex(&raw.s_stop_reason))?;
    out.field("s_errors", hex(&raw.s_errors))?;
    out.field("crc", format_args!("{:#010x}", raw.crc.get()))
}

/// The text before the first NUL.
fn text(bytes: &[u8]) -> String {
    super::quoted(bytes.split(|b| *b == 0).next().unwrap_or_default())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
