//! A stock F2FS volume of a D2FS volume: what is used, copied, with superblocks that every program knows.
//! docs/D2FS-FORMAT.md, section 4.

use super::write::BATCH;
use crate::error::{Error, Result};
use crate::raw::Image;
use std::sync::Arc;
use steadyfs_device::{Device, Op, StreamHint};
use steadyfs_format::checkpoint::CpFlags;
use steadyfs_format::{BLOCKS_PER_SEG, Lba};

/// Copies the D2FS volume on `from` to `to` as an F2FS volume; the superblocks come last. Returns how many blocks were
/// copied.
///
/// # Errors
/// [`Error::Unsupported`] for a volume that is no D2FS volume, was not unmounted, or of which the device has records
/// outstanding; [`Error::Usage`] for a target that is too small; the devices' errors.
pub fn export(from: &Arc<dyn Device>, to: &dyn Device) -> Result<u64> {
    let image = Image::open(Arc::clone(from))?;
    let unsupported = |why: &str| Err(Error::Unsupported(why.to_owned()));
    let layout = image.layout();
    if image.superblock().regions().is_none() {
        return unsupported("this is no D2FS volume");
    }
    let is_settled = |device: &dyn steadyfs_device::Migrations| device.completed() == device.deliver();
    let flags = image.checkpoint().header().flags();
    if !flags.contains(CpFlags::UMOUNT) || from.migrations().is_some_and(|device| !is_settled(device)) {
        return unsupported("the volume was not unmounted; mount and unmount it first, so that nothing is outstanding");
    }
    let (has, needs) = (to.info().blocks, layout.block_count);
    if has < needs {
        return Err(Error::Usage(format!("the target has {has} blocks, and the volume needs {needs}")));
    }
    let mut copied = 0;
    // Behind the superblocks: the tables.
    let tables = layout.main.get();
    for first in (layout.segment0.get()..tables).step_by(BATCH as usize) {
        copied += copy(&**from, to, Lba(first), BATCH.min(tables - first))?;
    }
    let mut used = Vec::new();
    image.each_used_sit(|seg, entry| {
        let valid: Vec<u16> = (0..BLOCKS_PER_SEG as u16).filter(|offset| entry.is_valid(*offset)).collect();
        used.push((seg, valid));
        Ok(())
    })?;
    for (seg, valid) in used {
        for run in valid.chunk_by(|a, b| a + 1 == *b) {
            copied += copy(&**from, to, layout.lba_of(seg, run[0]), run.len() as u64)?;
        }
    }
    to.flush()?;
    let mut stock = image.superblock().clone();
    stock.set_stock();
    for lba in [1, 0] {
        let mut page = from.read_one(lba)?;
        stock.encode_into(page.make_mut());
        to.write(lba, vec![page])?;
    }
    to.flush()?;
    Ok(copied)
}

fn copy(from: &dyn Device, to: &dyn Device, lba: Lba, count: u64) -> Result<u64> {
    let pages = from.read(lba.get(), count)?;
    to.run(Op::Write { block: lba.get(), pages, hint: StreamHint::DataCold, fua: false })?;
    Ok(count)
}
