//! The head of a compressed cluster. Format section 7.4. Decompression itself is not this crate's business.

use crate::crc::crc_magic;
use crate::error::{FormatError, require};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the head.
pub const CLUSTER_HEADER: usize = 24;

/// What stands before the compressed bytes of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ClusterHeader {
    clen: U32,
    chksum: U32,
    reserved: [u8; 16],
}

const _: () = assert!(size_of::<ClusterHeader>() == CLUSTER_HEADER);

/// The compressed bytes of a cluster, from its blocks joined in order.
///
/// `checksum` says whether the file's clusters carry one (`CompressInfo::checksum`).
///
/// # Errors
/// If the stored length is 0 or goes beyond the blocks, or the checksum is wrong.
pub fn cluster_data(blocks: &[u8], checksum: bool) -> Result<&[u8], FormatError> {
    let Ok((header, rest)) = ClusterHeader::ref_from_prefix(blocks) else {
        return Err(FormatError::field("compressed cluster", "bytes", blocks.len() as u64, "is at least 24"));
    };
    let length = header.clen.get();
    let fits = length > 0 && length as usize <= rest.len();
    require(fits, "compressed cluster", "clen", length, "is more than 0 and within the cluster's blocks")?;
    let data = &rest[..length as usize];
    let (stored, computed) = (header.chksum.get(), if checksum { crc_magic(data) } else { header.chksum.get() });
    if stored == computed {
        Ok(data)
    } else {
        Err(FormatError::Checksum { structure: "compressed cluster", stored, computed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_put_in_comes_out(data in prop::collection::vec(any::<u8>(), 1..500), spare in 0usize..50, flip: prop::sample::Index) {
            let header = ClusterHeader { clen: (data.len() as u32).into(), chksum: crc_magic(&data).into(), reserved: [0; 16] };
            let mut bytes = [header.as_bytes(), &data, &vec![0; spare]].concat();
            prop_assert_eq!(cluster_data(&bytes, true), Ok(&data[..]));
            bytes[CLUSTER_HEADER + flip.index(data.len())] ^= 1;
            prop_assert!(cluster_data(&bytes, true).is_err() && cluster_data(&bytes, false).is_ok());
            prop_assert!(cluster_data(&bytes[..CLUSTER_HEADER + data.len() - 1], false).is_err());
        }

        #[test]
        fn any_bytes_are_judged_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..100), checksum: bool) {
            let _ = cluster_data(&bytes, checksum);
        }
    }
}
