//! Attributes of inodes: reading, changing, times, and what flags forbid.
//!
//! The attributes are in the inode's node block and nowhere else (see `node`); a change under the node's lock is whole
//! for every reader and every checkpoint. What immutable and append-only inodes refuse is decided in [`protect`] and
//! nowhere else.

pub(crate) mod protect;
mod set;
pub(crate) mod times;

pub use set::Changer;

use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::{Inode, InodeRef};
use crate::types::Attr;
use crate::volume::{Change, Volume};
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{DeviceNumber, Inode as RawInode, Time, inline};
use steadyfs_format::{Features, Ino};

/// Units of 512 bytes in a block.
const SECTORS: u64 = 8;

impl Inode {
    /// Lends the inode block to `f`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the inode was deleted.
    pub(crate) fn read<R>(&self, f: impl FnOnce(&RawInode) -> R) -> Result<R> {
        let node = self.node.read();
        if node.is_dead() {
            return Err(Error::NotFound);
        }
        Ok(f(RawInode::view(node.bytes())))
    }
}

impl Volume {
    /// Lends the inode block to `f` for changing it.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the inode was deleted.
    pub(crate) fn edit_inode<R>(
        &self,
        _change: &Change<'_>,
        inode: &Inode,
        f: impl FnOnce(&mut RawInode) -> R,
    ) -> Result<R> {
        let mut node = inode.node.write(&self.nodes);
        if node.is_dead() {
            return Err(Error::NotFound);
        }
        Ok(f(RawInode::view_mut(node.edit())))
    }

    /// Lends the inode block to `f` for changing nothing but times, which `fdatasync` does not make durable.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the inode was deleted.
    pub(crate) fn edit_times(&self, _change: &Change<'_>, inode: &Inode, f: impl FnOnce(&mut RawInode)) -> Result<()> {
        let mut node = inode.node.write(&self.nodes);
        if node.is_dead() {
            return Err(Error::NotFound);
        }
        f(RawInode::view_mut(node.edit_times()));
        Ok(())
    }
}

impl Files {
    /// See `Fs::attr`.
    pub(crate) fn attr(&self, inode: &InodeRef) -> Result<Attr> {
        let features = self.vol.sb.features();
        inode.inode.read(|raw| describe(inode.ino(), inode.kind(), raw, features))?
    }
}

impl Files {
    /// See `Fs::name_hint`.
    pub(crate) fn name_hint(&self, inode: &InodeRef) -> Result<(Ino, Vec<u8>)> {
        inode.inode.read(|raw| (raw.pino(), raw.name().to_vec()))
    }
}

fn describe(ino: Ino, kind: FileType, raw: &RawInode, features: Features) -> Result<Attr> {
    let rdev = match kind {
        FileType::CharDevice | FileType::BlockDevice => raw.device_number(raw.shape(features)?),
        _ => DeviceNumber::default(),
    };
    Ok(Attr {
        ino,
        kind,
        mode: u32::from(raw.mode()),
        uid: raw.uid(),
        gid: raw.gid(),
        nlink: raw.links(),
        size: raw.size(),
        blocks: sectors(kind, raw),
        rdev,
        atime: sane(raw.atime()),
        mtime: sane(raw.mtime()),
        ctime: sane(raw.ctime()),
        crtime: raw.crtime(features).map(sane),
        generation: raw.generation(),
        flags: raw.flags(),
        project: raw.project_id(features).unwrap_or(0),
    })
}

/// Allocated space in units of 512 bytes. As on Linux, what a file or directory keeps in its inode counts by its size:
/// a file with contents and no space would be taken for one hole.
fn sectors(kind: FileType, raw: &RawInode) -> u64 {
    let inline_file = kind == FileType::Regular && raw.has_inline(inline::DATA);
    let inside = if inline_file || raw.has_inline(inline::DENTRY) { raw.size().div_ceil(512) } else { 0 };
    raw.blocks().saturating_sub(1).saturating_mul(SECTORS).saturating_add(inside)
}

/// A time that every user can represent: an image may hold more nanoseconds than a second has.
fn sane(time: Time) -> Time {
    Time { secs: time.secs, nanos: time.nanos.min(999_999_999) }
}
