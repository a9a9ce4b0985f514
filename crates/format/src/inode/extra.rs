//! Extra attributes: fields that overlay the front of the address area. Format section 7.2.
//!
//! A field exists only if it fits in the inode's `i_extra_isize` and the volume has its feature. A getter of a field
//! that does not exist returns `None`; its setter changes nothing and returns `false`.

use super::{ADDR_OFFSET, Inode, Time, inline};
use crate::Features;
use crate::error::{FormatError, require};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the whole area; what Linux gives to each new inode.
pub const FULL_EXTRA_ISIZE: u16 = 36;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Extra {
    pub(super) isize: U16,
    pub(super) inline_xattr_size: U16,
    projid: U32,
    pub(super) checksum: U32,
    crtime: I64,
    crtime_nsec: U32,
    compr_blocks: U64,
    compress_algorithm: u8,
    log_cluster_size: u8,
    compress_flag: U16,
}

const _: () = assert!(size_of::<Extra>() == FULL_EXTRA_ISIZE as usize);

/// Where each field ends, counted from the front of the area.
mod end {
    pub(super) const INLINE_XATTR_SIZE: u16 = 4;
    pub(super) const PROJID: u16 = 8;
    pub(super) const CHECKSUM: u16 = 12;
    pub(super) const CRTIME: u16 = 24;
    pub(super) const COMPRESS: u16 = super::FULL_EXTRA_ISIZE;
}

/// The size that mkfs gives the area: the smallest that holds the fields of the volume's features; 0 without
/// `extra_attr`.
pub fn mkfs_extra_isize(features: Features) -> u16 {
    if !features.contains(Features::EXTRA_ATTR) {
        return 0;
    }
    let fields = [
        (Features::COMPRESSION, end::COMPRESS),
        (Features::INODE_CRTIME, end::CRTIME),
        (Features::INODE_CHECKSUM, end::CHECKSUM),
        (Features::PROJECT_QUOTA, end::PROJID),
    ];
    let needed = fields.into_iter().find(|(feature, _)| features.contains(*feature));
    needed.map_or(end::INLINE_XATTR_SIZE, |(_, end)| end)
}

/// How a file's clusters are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompressAlgorithm {
    /// LZO.
    Lzo = 0,
    /// LZ4.
    Lz4 = 1,
    /// Zstandard.
    Zstd = 2,
    /// LZO with run-length coding.
    LzoRle = 3,
}

/// The compression parameters of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressInfo {
    /// Slots saved.
    pub saved_blocks: u64,
    /// How clusters are compressed.
    pub algorithm: CompressAlgorithm,
    /// Logarithm of the pages in a cluster, 2 to 8.
    pub log_cluster: u8,
    /// Whether each cluster carries a checksum.
    pub checksum: bool,
    /// Compression level.
    pub level: u8,
}

impl Inode {
    pub(super) fn extra(&self) -> &Extra {
        let bytes = &self.as_bytes()[ADDR_OFFSET..ADDR_OFFSET + size_of::<Extra>()];
        match Extra::ref_from_bytes(bytes) {
            Ok(extra) => extra,
            Err(_) => unreachable!("the slice has the size of the structure"),
        }
    }

    pub(super) fn extra_mut(&mut self) -> &mut Extra {
        let bytes = &mut self.as_mut_bytes()[ADDR_OFFSET..ADDR_OFFSET + size_of::<Extra>()];
        match Extra::mut_from_bytes(bytes) {
            Ok(extra) => extra,
            Err(_) => unreachable!("the slice has the size of the structure"),
        }
    }

    /// Bytes of the extra attributes as stored; 0 for an inode without.
    pub fn extra_isize(&self) -> u16 {
        if self.has_inline(inline::EXTRA_ATTR) { self.extra().isize.get() } else { 0 }
    }

    /// Words of the inline xattr area as stored; 0 for an inode without extra attributes.
    pub fn stored_xattr_words(&self) -> u16 {
        if self.extra_isize() >= end::INLINE_XATTR_SIZE { self.extra().inline_xattr_size.get() } else { 0 }
    }

    fn exists(&self, features: Features, feature: Features, end: u16) -> bool {
        features.contains(feature) && self.extra_isize() >= end
    }

    /// Whether the inode carries a checksum.
    pub fn has_checksum(&self, features: Features) -> bool {
        self.exists(features, Features::INODE_CHECKSUM, end::CHECKSUM)
    }

    /// Project id.
    pub fn project_id(&self, features: Features) -> Option<u32> {
        self.exists(features, Features::PROJECT_QUOTA, end::PROJID).then(|| self.extra().projid.get())
    }

    /// Changes the project id; `false` if the inode has none.
    pub fn set_project_id(&mut self, features: Features, id: u32) -> bool {
        let exists = self.exists(features, Features::PROJECT_QUOTA, end::PROJID);
        if exists {
            self.extra_mut().projid = id.into();
        }
        exists
    }

    /// Time of creation.
    pub fn crtime(&self, features: Features) -> Option<Time> {
        let exists = self.exists(features, Features::INODE_CRTIME, end::CRTIME);
        exists.then(|| Time { secs: self.extra().crtime.get(), nanos: self.extra().crtime_nsec.get() })
    }

    /// Changes the time of creation; `false` if the inode has none.
    pub fn set_crtime(&mut self, features: Features, time: Time) -> bool {
        let exists = self.exists(features, Features::INODE_CRTIME, end::CRTIME);
        if exists {
            self.extra_mut().crtime = time.secs.into();
            self.extra_mut().crtime_nsec = time.nanos.into();
        }
        exists
    }

    /// Compression parameters; `None` if the inode has no room for them.
    ///
    /// # Errors
    /// If the algorithm or the cluster size is none that the format knows.
    pub fn compress_info(&self, features: Features) -> Result<Option<CompressInfo>, FormatError> {
        if !self.exists(features, Features::COMPRESSION, end::COMPRESS) {
            return Ok(None);
        }
        let extra = self.extra();
        let algorithm = match extra.compress_algorithm {
            0 => CompressAlgorithm::Lzo,
            1 => CompressAlgorithm::Lz4,
            2 => CompressAlgorithm::Zstd,
            3 => CompressAlgorithm::LzoRle,
            other => return Err(FormatError::field("inode", "i_compress_algorithm", other, "is 0 to 3")),
        };
        let log_cluster = extra.log_cluster_size;
        require((2..=8).contains(&log_cluster), "inode", "i_log_cluster_size", log_cluster, "is 2 to 8")?;
        let flag = extra.compress_flag.get();
        Ok(Some(CompressInfo {
            saved_blocks: extra.compr_blocks.get(),
            algorithm,
            log_cluster,
            checksum: flag & 1 != 0,
            level: (flag >> 8) as u8,
        }))
    }

    /// Changes the compression parameters; `false` if the inode has no room for them.
    pub fn set_compress_info(&mut self, features: Features, info: CompressInfo) -> bool {
        let exists = self.exists(features, Features::COMPRESSION, end::COMPRESS);
        if exists {
            let extra = self.extra_mut();
            extra.compr_blocks = info.saved_blocks.into();
            extra.compress_algorithm = info.algorithm as u8;
            extra.log_cluster_size = info.log_cluster;
            extra.compress_flag = (u16::from(info.checksum) | u16::from(info.level) << 8).into();
        }
        exists
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_these_offsets() {
        let mut fields = crate::page::offsets!("i_", Extra: isize inline_xattr_size projid checksum crtime crtime_nsec
            compr_blocks compress_algorithm log_cluster_size compress_flag);
        (fields[0].0, fields[3].0) = ("i_extra_isize", "i_inode_checksum");
        crate::page::assert_offsets("7.2", &fields);
    }
}
