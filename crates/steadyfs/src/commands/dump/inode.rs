//! `dump inode`: the fields of an inode and the shape of its address area.

use std::io::Write;

use steadyfs_core::raw::Image;
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{Inode, InodeShape, Time, advise, flags, inline};
use steadyfs_format::{Features, Ino, Lba, Slot};

use super::{Printer, quoted};
use crate::calendar;
use crate::failure::Failure;
use crate::text::mode_string;

pub(super) fn print<W: Write>(image: &Image, ino: Ino, out: &mut Printer<W>) -> Result<(), Failure> {
    let (lba, block) = super::read_node(image, ino.nid())?;
    let inode = Inode::view(&block);
    let features = image.superblock().features();
    out.field("inode", ino)?;
    out.field("block", lba)?;
    footer(inode, out)?;
    attributes(inode, out)?;
    match inode.validate(features) {
        Ok(shape) => {
            extra(inode, shape, features, out)?;
            addresses(inode, shape, out)?;
        }
        Err(e) => out.field("problem", e)?,
    }
    if let Err(e) = inode.verify_checksum(features, image.superblock().inode_checksum_seed()) {
        out.field("problem", e)?;
    }
    Ok(())
}

fn footer<W: Write>(inode: &Inode, out: &mut Printer<W>) -> Result<(), Failure> {
    let footer = &inode.footer;
    let marks = [(footer.is_cold(), " cold"), (footer.is_fsync(), " fsync"), (footer.is_dentry(), " dentry")];
    let marks: String = marks.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    let text = format!(
        "nid {} ino {} offset {} cp_ver {:#x} next {}",
        footer.nid(),
        footer.ino(),
        footer.ofs(),
        footer.cp_ver(),
        footer.next()
    );
    out.field("footer", text + &marks)
}

fn attributes<W: Write>(inode: &Inode, out: &mut Printer<W>) -> Result<(), Failure> {
    let mode = u32::from(inode.mode());
    match inode.file_type() {
        Some(kind) => out.field("i_mode", format_args!("{mode:#o} ({})", mode_string(mode, kind)))?,
        None => out.field("i_mode", format_args!("{mode:#o} (no kind of file)"))?,
    }
    out.field("i_uid", inode.uid())?;
    out.field("i_gid", inode.gid())?;
    out.field("i_links", inode.links())?;
    out.field("i_size", inode.size())?;
    out.field("i_blocks", inode.blocks())?;
    for (name, time) in [("i_atime", inode.atime()), ("i_ctime", inode.ctime()), ("i_mtime", inode.mtime())] {
        out.field(name, show_time(time))?;
    }
    out.field("i_generation", format_args!("{:#x}", inode.generation()))?;
    out.field("i_current_depth", inode.current_depth())?;
    out.field("i_xattr_nid", inode.xattr_nid())?;
    out.field("i_flags", bits(inode.flags(), &FLAGS))?;
    out.field("i_advise", bits(inode.advise().into(), &ADVISE))?;
    out.field("i_inline", bits(inode.inline_flags().into(), &INLINE))?;
    out.field("i_pino", inode.pino())?;
    out.text("i_name", quoted(inode.name()))?;
    out.field("i_dir_level", inode.dir_level())?;
    let extent = inode.extent();
    out.field("i_ext", format_args!("page {} block {} length {}", extent.fofs, extent.blk, extent.len))
}

fn extra<W: Write>(inode: &Inode, shape: InodeShape, features: Features, out: &mut Printer<W>) -> Result<(), Failure> {
    out.field("address slots", shape.addr_slots())?;
    out.field("inline xattr words", shape.xattr_words())?;
    if inode.has_inline(inline::EXTRA_ATTR) {
        out.field("i_extra_isize", inode.extra_isize())?;
    }
    if let Some(project) = inode.project_id(features) {
        out.field("i_projid", project)?;
    }
    if let Some(time) = inode.crtime(features) {
        out.field("i_crtime", show_time(time))?;
    }
    if inode.flags() & flags::COMPR == 0 {
        return Ok(());
    }
    match inode.compress_info(features) {
        Ok(Some(info)) => {
            let text = format!(
                "{:?}, clusters of {} pages, {} blocks saved",
                info.algorithm,
                1 << info.log_cluster,
                info.saved_blocks
            );
            out.field("compression", text)
        }
        Ok(None) => Ok(()),
        Err(e) => out.field("problem", e),
    }
}

/// What the address area holds: inline contents, a device number, or addresses, runs of them on one line.
fn addresses<W: Write>(inode: &Inode, shape: InodeShape, out: &mut Printer<W>) -> Result<(), Failure> {
    if inode.has_inline(inline::DATA) || inode.has_inline(inline::DENTRY) {
        out.field("inline area", format_args!("{} bytes", shape.inline_len()))?;
    } else if matches!(inode.file_type(), Some(FileType::CharDevice | FileType::BlockDevice)) {
        let device = inode.device_number(shape);
        out.field("device", format_args!("{}, {}", device.major, device.minor))?;
    } else {
        let slots: Vec<Slot> = inode.slots(shape).collect();
        let mut first = 0;
        while first < slots.len() {
            let length = run(&slots[first..]);
            let pages =
                if length == 1 { format!("page {first}") } else { format!("pages {first} ..= {}", first + length - 1) };
            match slots[first] {
                Slot::Hole => {}
                Slot::New => out.field(&pages, "reserved")?,
                Slot::Compress => out.field(&pages, "compressed cluster")?,
                Slot::At(Lba(lba)) if length == 1 => out.field(&pages, format_args!("block {lba}"))?,
                Slot::At(Lba(lba)) => {
                    out.field(&pages, format_args!("blocks {lba} ..= {}", lba + length as u64 - 1))?
                }
            }
            first += length;
        }
    }
    for (n, nid) in inode.children().into_iter().enumerate().filter(|(_, nid)| !nid.is_null()) {
        let kind = ["direct", "direct", "indirect", "indirect", "double indirect"][n];
        out.field(&format!("i_nid[{n}]"), format_args!("{nid} ({kind})"))?;
    }
    Ok(())
}

/// Length of the run at the head of `slots`: equal marks, or consecutive addresses.
fn run(slots: &[Slot]) -> usize {
    let follows = |pair: &[Slot]| match (pair[0], pair[1]) {
        (Slot::At(one), Slot::At(two)) => one.get() + 1 == two.get(),
        (one, two) => one == two,
    };
    1 + slots.windows(2).take_while(|pair| follows(pair)).count()
}

fn show_time(time: Time) -> String {
    format!("{} UTC ({}.{:09})", calendar::full(time.secs, time.nanos), time.secs, time.nanos)
}

const FLAGS: [(u32, &str); 12] = [
    (flags::COMPR, "compr"),
    (flags::SYNC, "sync"),
    (flags::IMMUTABLE, "immutable"),
    (flags::APPEND, "append"),
    (flags::NODUMP, "nodump"),
    (flags::NOATIME, "noatime"),
    (flags::NOCOMP, "nocomp"),
    (flags::INDEX, "index"),
    (flags::DIRSYNC, "dirsync"),
    (flags::PROJINHERIT, "projinherit"),
    (flags::CASEFOLD, "casefold"),
    (flags::DEVICE_ALIAS, "device_alias"),
];

const ADVISE: [(u32, &str); 8] = [
    (advise::COLD as u32, "cold"),
    (advise::LOST_PINO as u32, "lost_pino"),
    (advise::ENCRYPT as u32, "encrypt"),
    (advise::ENC_NAME as u32, "enc_name"),
    (advise::KEEP_SIZE as u32, "keep_size"),
    (advise::HOT as u32, "hot"),
    (advise::VERITY as u32, "verity"),
    (advise::TRUNC as u32, "trunc"),
];

const INLINE: [(u32, &str); 8] = [
    (inline::XATTR as u32, "xattr"),
    (inline::DATA as u32, "data"),
    (inline::DENTRY as u32, "dentry"),
    (inline::DATA_EXIST as u32, "data_exist"),
    (inline::DOTS as u32, "dots"),
    (inline::EXTRA_ATTR as u32, "extra_attr"),
    (inline::PIN_FILE as u32, "pin_file"),
    (inline::COMPRESS_RELEASED as u32, "compress_released"),
];

/// A set of bits with their names.
fn bits(value: u32, names: &[(u32, &str)]) -> String {
    let set: String = names.iter().filter(|(bit, _)| value & bit != 0).map(|(_, name)| format!(" {name}")).collect();
    format!("{value:#x}{set}")
}
