//! `dump dir`: the entries of a directory with their slots, hashes and types.

use std::io::Write;

use serde_json::Value;
use steadyfs_core::raw::Image;
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::{Dentries, bucket_of_page};
use steadyfs_format::inode::{Inode, inline};
use steadyfs_format::node::{DirectNode, IndirectNode, NodeBlock, NodeKind, NodeOfs, WideNode};
use steadyfs_format::{FormatError, Ino, Lba, Nid, PageIndex, Slot};

use super::{Printer, quoted};
use crate::failure::Failure;
use crate::text::json_name;
use crate::volume::failure;

pub(super) fn print<W: Write>(image: &Image, ino: Ino, out: &mut Printer<W>) -> Result<(), Failure> {
    let (_, block) = super::read_node(image, ino.nid())?;
    let inode = Inode::view(&block);
    if !inode.is_dir() {
        return Err(Failure::new(
            format!("cannot list inode {ino}"),
            "it is not a directory",
            "see `steadyfs dump inode`",
        ));
    }
    let damaged = |e: FormatError| failure(format!("cannot list inode {ino}"), &e.into());
    let shape = inode.validate(image.superblock().features()).map_err(damaged)?;
    if inode.has_inline(inline::DENTRY) {
        out.row("pages", "inline", &[("inline", true.into())])?;
        return entries(Dentries::inline(inode.inline_area(shape)), out);
    }
    let addressing = shape.addressing();
    let mut walk = Walk { image, ino, level: inode.dir_level(), out };
    walk.pages(PageIndex(0), inode.slots(shape))?;
    for (n, child) in (0..).zip(inode.children()) {
        let ofs = [1, 2, NodeOfs::INDIRECT_1.get(), NodeOfs::INDIRECT_2.get(), NodeOfs::DOUBLE_INDIRECT.get()][n];
        walk.node(child, NodeOfs::new(ofs), &|ofs| addressing.first_page(ofs))?;
    }
    Ok(())
}

struct Walk<'a, W: Write> {
    image: &'a Image,
    ino: Ino,
    level: u8,
    out: &'a mut Printer<W>,
}

impl<W: Write> Walk<'_, W> {
    /// Prints what hangs below a node. The footer must name the place from which the node was reached, so no node is
    /// visited twice.
    fn node(
        &mut self,
        nid: Nid,
        ofs: NodeOfs,
        first_page: &dyn Fn(NodeOfs) -> Option<PageIndex>,
    ) -> Result<(), Failure> {
        if nid.is_null() {
            return Ok(());
        }
        let (lba, block) = super::read_node(self.image, nid)?;
        let footer = NodeBlock::view(&block).footer;
        if (footer.nid(), footer.ino(), footer.ofs()) != (nid, self.ino, ofs) {
            let why =
                format!("its footer says node {} of inode {} at offset {}", footer.nid(), footer.ino(), footer.ofs());
            let what = format!("node {nid} of inode {} at offset {ofs} is not in block {lba}", self.ino);
            return Err(Failure::new(what, why, "check the volume with `steadyfs fsck`"));
        }
        if ofs.kind() == NodeKind::Direct {
            let first = first_page(ofs).unwrap_or_default();
            return match self.image.log_space() {
                Some(_) => self.pages(first, WideNode::view(&block).slots()),
                None => self.pages(first, DirectNode::view(&block).slots()),
            };
        }
        let stride = if ofs.kind() == NodeKind::DoubleIndirect { 1019 } else { 1 };
        for (n, child) in (0..).zip(IndirectNode::view(&block).children()) {
            self.node(child, NodeOfs::new(ofs.get() + 1 + n * stride), first_page)?;
        }
        Ok(())
    }

    fn pages(&mut self, first: PageIndex, slots: impl Iterator<Item = Slot>) -> Result<(), Failure> {
        for (n, slot) in (0..).zip(slots) {
            let Slot::At(lba) = slot else { continue };
            let page = PageIndex(first.get() + n);
            match bucket_of_page(page, self.level) {
                Some(bucket) => {
                    let line = format!("page {page} block {lba} level {} bucket {}", bucket.level, bucket.number);
                    let place = [("level", bucket.level.into()), ("bucket", bucket.number.into())];
                    self.out.row("pages", line, &[&at(page, lba)[..], &place].concat())?;
                }
                None => {
                    let line = format_args!("page {page} block {lba} behind the last level");
                    self.out.row("pages", line, &at(page, lba))?;
                }
            }
            let (layout, space) = (self.image.layout(), self.image.log_space());
            if !space.map_or_else(|| layout.in_main(lba), |space| space.is_data_address(lba)) {
                problem(self.out, "no block of a directory can be there")?;
                continue;
            }
            let block = super::read(self.image, lba)?;
            entries(Dentries::block(&block), self.out)?;
        }
        Ok(())
    }
}

fn entries<W: Write>(dentries: Dentries<'_>, out: &mut Printer<W>) -> Result<(), Failure> {
    for entry in dentries.iter() {
        match entry {
            Ok(entry) => {
                let kind = entry.file_type.map_or("unknown".to_owned(), |kind| format!("{kind:?}"));
                let shown = quoted(entry.name);
                let line =
                    format!("  slot {:>3} hash {:08x} ino {:>8} {kind:<11} {shown}", entry.slot, entry.hash, entry.ino);
                let numbers =
                    [("slot", entry.slot.into()), ("hash", entry.hash.into()), ("ino", entry.ino.get().into())];
                let (name, hex) = json_name(entry.name);
                let hex = hex.map(|hex| ("name_hex", hex.into()));
                let texts = [("kind", kind.into()), ("name", name.into())].into_iter().chain(hex);
                out.row("entries", line, &numbers.into_iter().chain(texts).collect::<Vec<_>>())?;
            }
            Err(e) => problem(out, &e.to_string())?,
        }
    }
    Ok(())
}

/// Where a page of a directory is, for JSON.
fn at(page: PageIndex, lba: Lba) -> [(&'static str, Value); 2] {
    [("page", page.get().into()), ("block", lba.get().into())]
}

fn problem<W: Write>(out: &mut Printer<W>, what: &str) -> Result<(), Failure> {
    out.row("problems", format_args!("  problem: {what}"), &[("problem", what.into())])
}
