//! Reading compressed files (format section 7.4): whole clusters, of which the caller takes what it asked for.
//!
//! A cluster of 4 to 256 pages is compressed if its first slot says so; the slots after it then hold the compressed
//! blocks. It expands to exactly its pages, or it is damaged. Clusters that would not shrink are stored as plain pages.
//!
//! Nothing here is trusted: lengths, checksums and streams are checked, and no decoder gets more room than a cluster
//! has.

mod lzo;

use super::fetch::Keep;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::Inode;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::compress::cluster_data;
use steadyfs_format::inode::{CompressAlgorithm, CompressInfo};
use steadyfs_format::{BLOCK_SIZE, PageIndex, Slot};

/// The largest window that a Zstandard stream of one cluster (at most 1 MiB) can make use of, with room to spare.
const MOST_WINDOW: u64 = 8 << 20;

impl Files {
    /// The contents of pages of a file with clusters, `None` for holes. Volumes with such files take no changes, so
    /// nothing moves between looking up a block and reading it.
    pub(super) fn cluster_contents(
        &self,
        inode: &Arc<Inode>,
        range: Range<PageIndex>,
        keep: Keep,
    ) -> Result<Vec<Option<PageBuf>>> {
        let features = self.vol.sb.features();
        let info = inode.read(|raw| raw.compress_info(features))??;
        let info =
            info.ok_or_else(|| Error::corrupt(format!("inode {} does not say how it is compressed", inode.ino)))?;
        let width = 1 << info.log_cluster;
        let mut out = Vec::with_capacity((range.end - range.start) as usize);
        let mut at = range.start;
        while at < range.end {
            let first = PageIndex(at.get() / width * width);
            let until = range.end.min(first + width);
            let cached = self.budget.cache(inode).get_range(at..until);
            if cached.iter().all(Option::is_some) {
                out.extend(cached);
            } else {
                let pages = self.fetch_cluster(inode, first..first + width, &info, keep)?;
                assert_eq!(pages.len() as u64, width, "a page for each of a cluster");
                out.extend(pages[(at - first) as usize..(until - first) as usize].iter().cloned());
            }
            at = until;
        }
        assert_eq!(out.len() as u64, range.end - range.start, "a page for each");
        Ok(out)
    }

    fn fetch_cluster(
        &self,
        inode: &Arc<Inode>,
        cluster: Range<PageIndex>,
        info: &CompressInfo,
        keep: Keep,
    ) -> Result<Vec<Option<PageBuf>>> {
        let extents = self.vol.extents(inode, cluster.clone())?;
        if extents.first().is_none_or(|extent| extent.slot != Slot::Compress) {
            return self.fetch(inode, cluster, keep);
        }
        let runs: Vec<_> = extents.iter().filter_map(|e| e.slot.lba().map(|lba| (lba, e.count() as u32))).collect();
        let blocks: Result<Vec<_>> = self.vol.io.read_runs(&runs).into_iter().collect();
        let blocks = blocks?.concat();
        let pages = expand(&blocks, info)?;
        if keep == Keep::Yes {
            let numbered: Vec<_> = (cluster.start.get()..).map(PageIndex).zip(pages.iter().cloned()).collect();
            self.budget.cache(inode).put_clean(&numbered);
        }
        Ok(pages.into_iter().map(Some).collect())
    }
}

/// The pages of a cluster from its compressed blocks.
pub(super) fn expand(blocks: &[PageBuf], info: &CompressInfo) -> Result<Vec<PageBuf>> {
    let mut joined = vec![0; blocks.len() * BLOCK_SIZE];
    for (block, target) in blocks.iter().zip(joined.chunks_exact_mut(BLOCK_SIZE)) {
        block.copy_out(0, target);
    }
    let data = cluster_data(&joined, info.checksum)?;
    let mut pages = vec![0; BLOCK_SIZE << info.log_cluster];
    let found = decode(data, info.algorithm, &mut pages).map_err(|reason| damaged(&reason))?;
    if found != pages.len() {
        return Err(damaged(&format!("it gives {found} bytes instead of {}", pages.len())));
    }
    Ok(pages.chunks_exact(BLOCK_SIZE).map(PageBuf::from_slice).collect())
}

fn damaged(reason: &str) -> Error {
    Error::corrupt(format!("a compressed cluster is damaged: {reason}"))
}

/// Decodes into `out`; returns how many bytes there were.
fn decode(data: &[u8], algorithm: CompressAlgorithm, out: &mut [u8]) -> std::result::Result<usize, String> {
    match algorithm {
        CompressAlgorithm::Lzo | CompressAlgorithm::LzoRle => lzo::decode(data, out).map_err(|e| format!("{e:?}")),
        CompressAlgorithm::Lz4 => lz4_flex::block::decompress_into(data, out).map_err(|e| e.to_string()),
        CompressAlgorithm::Zstd => zstd(data, out),
    }
}

fn zstd(data: &[u8], out: &mut [u8]) -> std::result::Result<usize, String> {
    use std::io::Read;
    let window = zstd_window(data).ok_or("it does not begin as a Zstandard frame")?;
    if window > MOST_WINDOW {
        return Err(format!("it asks for a window of {window} bytes"));
    }
    let mut stream = ruzstd::decoding::StreamingDecoder::new(data).map_err(|e| e.to_string())?;
    let mut done = 0;
    loop {
        let read = match done == out.len() {
            true => stream.read(&mut [0]).map_err(|e| e.to_string())?,
            false => stream.read(&mut out[done..]).map_err(|e| e.to_string())?,
        };
        match read {
            0 => return Ok(done),
            _ if done == out.len() => return Err("it is longer than its cluster".into()),
            n => done += n,
        }
    }
}

/// The window that a frame asks for (RFC 8878, section 3.1.1.1), so that no decoder allocates more than a cluster
/// justifies.
fn zstd_window(data: &[u8]) -> Option<u64> {
    let (magic, rest) = data.split_first_chunk::<4>()?;
    let (descriptor, rest) = rest.split_first()?;
    if u32::from_le_bytes(*magic) != 0xFD2F_B528 {
        return None;
    }
    if descriptor & 0x20 == 0 {
        let window = *rest.first()?;
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // A single segment: the window is the content, whose size follows the dictionary id.
    let skip = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let length = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let field = rest.get(skip..skip + length)?;
    let size = field.iter().rev().fold(0u64, |size, byte| size << 8 | u64::from(*byte));
    Some(if length == 2 { size + 256 } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 16 KiB of text that repeats, 64 zero bytes in between.
    fn sample() -> Vec<u8> {
        let mut text = b"The quick brown fox jumps over the lazy dog. ".repeat(400);
        text.truncate(16384);
        text[5000..5064].fill(0);
        text
    }

    fn cluster(data: &[u8]) -> Vec<PageBuf> {
        let header = [&(data.len() as u32).to_le_bytes()[..], &[0; 20]].concat();
        [header, data.to_vec()].concat().chunks(BLOCK_SIZE).map(PageBuf::from_slice).collect()
    }

    fn info(algorithm: CompressAlgorithm) -> CompressInfo {
        CompressInfo { saved_blocks: 0, algorithm, log_cluster: 2, checksum: false, level: 0 }
    }

    fn joined(pages: &[PageBuf]) -> Vec<u8> {
        pages.iter().flat_map(|page| page.to_array().to_vec()).collect()
    }

    #[test]
    fn lz4_clusters_expand_and_must_fill_their_pages() {
        let (text, lz4) = (sample(), info(CompressAlgorithm::Lz4));
        let pages = expand(&cluster(&lz4_flex::block::compress(&text)), &lz4).unwrap();
        assert_eq!(joined(&pages), text);
        for wrong in [16383, 16385] {
            let other = lz4_flex::block::compress(&[sample(), sample()].concat()[..wrong]);
            assert!(expand(&cluster(&other), &lz4).is_err(), "{wrong} bytes");
        }
    }

    #[test]
    fn zstd_clusters_expand_and_large_windows_are_refused() {
        let text = sample();
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let mut data = ruzstd::encoding::compress_to_vec(&text[..], level);
        let zstd = info(CompressAlgorithm::Zstd);
        assert_eq!(joined(&expand(&cluster(&data), &zstd).unwrap()), text);
        let long = ruzstd::encoding::compress_to_vec(&[&text[..], b"more"].concat()[..], level);
        assert!(expand(&cluster(&long), &zstd).is_err());
        assert_eq!(data[4] & 0x20, 0, "the encoder writes a window");
        data[5] = 0xFF;
        let refused = expand(&cluster(&data), &zstd).unwrap_err().to_string();
        assert!(refused.contains("window"), "{refused}");
    }

    /// What zstd 1.5.4 makes of the text below, at level 9.
    const BY_ZSTD: &str = "28b52ffd608c032d050042861013b017d2017d0431492008d99b6c29a5ee04723680b5f311924e67a72ad2e065de147a102fe26ee74f57\
        42c2b57db623569153c7e0d02d9c0f4c0c0e62426020140242a820a6f70e30031109b53a1240513882e161156fddfa6fed77910e14f4ff\
        87d61c296a90745bb4535963b35dab968589ccee022166af84dd0d823b072ae5f61a04a0b4b7916487b6d9dce88076da5cb47d6ab4005f\
        bee0ddbfde297f3d5253";

    #[test]
    fn zstd_streams_of_another_program_are_understood() {
        let text: String = (0..64).map(|i| format!("line {} of {}\n", i * i % 37, i % 7)).collect();
        let text = [text.as_bytes(), &[0; 300], &text.as_bytes()[..50]].concat();
        let byte = |at: usize| u8::from_str_radix(&BY_ZSTD[at..at + 2], 16).unwrap();
        let stream: Vec<u8> = (0..BY_ZSTD.len()).step_by(2).map(byte).collect();
        let mut out = vec![0xEE; text.len()];
        assert_eq!(zstd(&stream, &mut out), Ok(text.len()));
        assert_eq!(out, text);
    }

    proptest! {
        #[test]
        fn any_cluster_is_expanded_without_harm(data in prop::collection::vec(any::<u8>(), 0..4000), which in 0usize..4, flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)) {
            let algorithm = [CompressAlgorithm::Lzo, CompressAlgorithm::Lz4, CompressAlgorithm::Zstd, CompressAlgorithm::LzoRle][which];
            let _ = expand(&cluster(&data), &info(algorithm));
            let mut good = match algorithm {
                CompressAlgorithm::Zstd => ruzstd::encoding::compress_to_vec(&sample()[..], ruzstd::encoding::CompressionLevel::Fastest),
                _ => lz4_flex::block::compress(&sample()),
            };
            for (at, byte) in flips {
                let at = at.index(good.len());
                good[at] = byte;
            }
            if let Ok(pages) = expand(&cluster(&good), &info(algorithm)) {
                prop_assert_eq!(pages.len(), 4);
            }
        }
    }
}
