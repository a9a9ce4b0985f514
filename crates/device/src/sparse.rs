//! [`SparseImage`]: an Android sparse image as a read-only device, and [`open_image`], which tells sparse images from
//! raw ones.
//!
//! The format (AOSP, libsparse `sparse_format.h`), all numbers little-endian:
//! - a header of at least 28 bytes {magic u32, major u16, minor u16, file header size u16, chunk header size u16, block
//!   size u32, blocks u32, chunks u32, checksum u32};
//! - then chunks, each a header of at least 12 bytes {type u16, reserved u16, blocks u32, bytes with header u32} and
//!   its data. That is raw bytes, a 4-byte pattern to repeat, nothing ("don't care", read as zeros here), or a
//!   checksum. A checksum covers no blocks and is not checked here.
//!
//! Keeps true: every length is checked against the file before anything is allocated or read; the chunks tile the image
//! exactly; a damaged image is an error when it is opened, not when it is read.

use crate::file::locked::Locked;
use crate::file::open::open_locked;
use crate::{
    BLOCK_SIZE, ChunkDevice, Device, DeviceInfo, FileDevice, IoError, MigratingDevice, Op, OpKind, OpenError,
    OpenOptions, PageBuf, Request,
};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: u32 = 0xed26_ff3a;
const HEADER: u64 = 28;
const CHUNK_HEADER: u64 = 12;

/// Whether the path is a directory that is a device, or was begun as one.
pub fn is_image_directory(path: impl AsRef<Path>) -> bool {
    MigratingDevice::is_at(&path) || ChunkDevice::is_at(path)
}

/// The file that is locked as long as the device at `path` is open: `path` itself, unless it is a directory.
pub fn locked_file(path: impl AsRef<Path>) -> PathBuf {
    if MigratingDevice::is_at(&path) { MigratingDevice::locked_file(path) } else { ChunkDevice::locked_file(path) }
}

/// Opens `path` as what it is: a [`MigratingDevice`] or a [`ChunkDevice`] if it is a directory, an Android sparse image
/// if it starts like one, a [`FileDevice`] otherwise. Sparse images can only be read; opened for writing they are
/// refused.
pub fn open_image(path: impl AsRef<Path>, options: OpenOptions) -> Result<Arc<dyn Device>, OpenError> {
    let path = path.as_ref();
    if MigratingDevice::is_at(path) {
        return Ok(Arc::new(MigratingDevice::open(path, options)?));
    }
    if path.is_dir() {
        return Ok(Arc::new(ChunkDevice::open(path, options)?));
    }
    if !is_sparse(path) {
        return Ok(Arc::new(FileDevice::open(path, options)?));
    }
    if !options.read_only {
        let reason = "it is an Android sparse image, which can only be read; convert it with simg2img".to_owned();
        return Err(OpenError::Unsupported { path: path.to_owned(), reason });
    }
    Ok(Arc::new(SparseImage::open(path, options)?))
}

/// True if `path` is a regular file that starts with the magic. Whatever else is wrong with it shows when it is opened.
fn is_sparse(path: &Path) -> bool {
    let mut magic = [0; 4];
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file())
        && File::open(path).and_then(|file| file.read_exact_at(&mut magic, 0)).is_ok()
        && u32::from_le_bytes(magic) == MAGIC
}

/// An Android sparse image. Reads are done in the thread that submits them.
#[derive(Debug)]
pub struct SparseImage {
    info: DeviceInfo,
    file: Locked,
    /// Where block 0 lies in the image, in bytes.
    offset: u64,
    /// The chunks that cover the image from byte 0 on, none of them empty.
    chunks: Vec<Chunk>,
}

/// A run of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chunk {
    /// First byte of the image after this run.
    end: u64,
    source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The bytes lie in the file such that image byte `i` is file byte `i + delta`; modulo 2^64, as `delta` may be
    /// negative.
    Raw {
        delta: u64,
    },
    /// Four bytes, repeated. Runs start at multiples of four.
    Fill([u8; 4]),
    Nothing,
}

impl SparseImage {
    /// Opens `path`, which must be a valid sparse image. Of the options, the offset and the size (both of the expanded
    /// image) are obeyed; it is always opened read-only.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let options = OpenOptions { read_only: true, create: None, ..options };
        let (file, _) = open_locked(path, &options)?;
        let chunks = read_chunks(&file).map_err(|fault| match fault {
            Fault::Io(source) => OpenError::System { path: path.to_owned(), source },
            Fault::Format(reason) => OpenError::Sparse { path: path.to_owned(), reason },
        })?;
        let length = chunks.last().map_or(0, |chunk| chunk.end);
        let have = length.saturating_sub(options.offset_bytes);
        let want = options.size.unwrap_or(have).max(BLOCK_SIZE as u64);
        if want > have {
            return Err(OpenError::TooSmall { path: path.to_owned(), have, want });
        }
        let info = DeviceInfo {
            blocks: want / BLOCK_SIZE as u64,
            read_only: true,
            discard: false,
            synchronous: true,
            prefers_fua: false,
            name: path.display().to_string(),
        };
        Ok(SparseImage { info, file, offset: options.offset_bytes, chunks })
    }

    /// One page, put together from the chunks it touches.
    fn load(&self, block: u64) -> io::Result<PageBuf> {
        let start = self.offset + block * BLOCK_SIZE as u64;
        let end = start + BLOCK_SIZE as u64;
        let first = self.chunks.partition_point(|chunk| chunk.end <= start);
        let covers = |chunk: &Chunk| chunk.end >= end && chunk.source == Source::Nothing;
        if self.chunks.get(first).is_some_and(covers) {
            return Ok(PageBuf::zeroed());
        }
        let mut page = PageBuf::stale();
        let mut rest = page.make_mut().as_mut_slice();
        let mut position = start;
        for chunk in &self.chunks[first..] {
            let length = (chunk.end.min(end) - position) as usize;
            let (part, after) = rest.split_at_mut(length);
            match chunk.source {
                Source::Raw { delta } => self.file.read_exact_at(part, position.wrapping_add(delta))?,
                Source::Fill(pattern) => {
                    let bytes = pattern.iter().cycle().skip((position % 4) as usize);
                    part.iter_mut().zip(bytes).for_each(|(target, byte)| *target = *byte);
                }
                Source::Nothing => part.fill(0),
            }
            (rest, position) = (after, position + length as u64);
            if rest.is_empty() {
                break;
            }
        }
        assert!(rest.is_empty(), "chunks tile the image and the range was checked");
        Ok(page)
    }

    fn perform(&self, op: Op) -> crate::IoResult {
        self.info.check(&op)?;
        let Op::Read { block, count } = op else { return Ok(Vec::new()) };
        let fail = |error: io::Error| {
            let errno = error.raw_os_error().unwrap_or(crate::errno::EIO);
            IoError::new(OpKind::Read, block, count, errno, error.to_string())
        };
        (block..block + count).map(|block| self.load(block).map_err(fail)).collect()
    }
}

impl Device for SparseImage {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn submit(&self, batch: Vec<Request>) {
        for Request { op, done } in batch {
            done(self.perform(op));
        }
    }
}

/// Why an image cannot be used.
enum Fault {
    Io(io::Error),
    Format(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Io(error)
    }
}

/// Reads and checks the header and all chunk headers.
fn read_chunks(file: &File) -> Result<Vec<Chunk>, Fault> {
    let file_len = file.metadata()?.len();
    let header: [u8; HEADER as usize] = read_at(file, file_len, 0)?;
    let (major, header_size) = (le16(&header, 4), u64::from(le16(&header, 8)));
    let (chunk_header_size, block_size) = (u64::from(le16(&header, 10)), u64::from(le32(&header, 12)));
    let (blocks, chunk_count) = (u64::from(le32(&header, 16)), u64::from(le32(&header, 20)));
    require(le32(&header, 0) == MAGIC, || "the magic number is wrong".into())?;
    require(major == 1, || format!("version {major} is not known"))?;
    require(header_size >= HEADER, || format!("a header of {header_size} bytes is too short"))?;
    require(chunk_header_size >= CHUNK_HEADER, || format!("chunk headers of {chunk_header_size} bytes are too short"))?;
    require(block_size > 0 && block_size % 4 == 0, || format!("block size {block_size} is not a multiple of 4"))?;
    let most = file_len / chunk_header_size;
    require(chunk_count <= most, || format!("{chunk_count} chunks do not fit in a file of {file_len} bytes"))?;

    let mut chunks: Vec<Chunk> = Vec::new();
    let (mut position, mut covered) = (header_size, 0u64);
    for number in 0..chunk_count {
        let header: [u8; CHUNK_HEADER as usize] = read_at(file, file_len, position)?;
        let (length, total) = (u64::from(le32(&header, 4)) * block_size, u64::from(le32(&header, 8)));
        let data = position + chunk_header_size;
        let (source, data_len) = match le16(&header, 0) {
            0xcac1 => (Source::Raw { delta: data.wrapping_sub(covered) }, length),
            0xcac2 => (Source::Fill(read_at(file, file_len, data)?), 4),
            0xcac3 => (Source::Nothing, 0),
            0xcac4 => {
                require(length == 0, || format!("checksum chunk {number} covers blocks"))?;
                (Source::Nothing, 4)
            }
            kind => return Err(Fault::Format(format!("chunk {number} has the unknown type {kind:#06x}"))),
        };
        require(total == chunk_header_size + data_len, || {
            format!("chunk {number} says it has {total} bytes, {} follow from its type", chunk_header_size + data_len)
        })?;
        position += total;
        require(position <= file_len, || format!("chunk {number} ends at byte {position}, the file at {file_len}"))?;
        covered = covered.saturating_add(length);
        require(covered <= blocks * block_size, || {
            format!("chunk {number} leads beyond the {blocks} blocks of the image")
        })?;
        if length > 0 {
            chunks.push(Chunk { end: covered, source });
        }
    }
    require(covered == blocks * block_size, || {
        format!("the chunks cover {} blocks, the header says {blocks}", covered / block_size)
    })?;
    Ok(chunks)
}

fn require(condition: bool, reason: impl FnOnce() -> String) -> Result<(), Fault> {
    if condition { Ok(()) } else { Err(Fault::Format(reason())) }
}

/// `N` bytes at `position`, which must lie in the file.
fn read_at<const N: usize>(file: &File, file_len: u64, position: u64) -> Result<[u8; N], Fault> {
    let inside = position.checked_add(N as u64).is_some_and(|end| end <= file_len);
    require(inside, || format!("it ends at byte {file_len}, within a header"))?;
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, position)?;
    Ok(bytes)
}

/// The number at a fixed place in a header.
fn le16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The number at a fixed place in a header.
fn le32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from(le16(bytes, at)) | u32::from(le16(bytes, at + 2)) << 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno;

    /// A sparse image of blocks of `block_size` bytes made from chunks: (type, blocks, data).
    fn image(block_size: u32, chunks: &[(u16, u32, Vec<u8>)]) -> Vec<u8> {
        let blocks: u32 = chunks.iter().map(|chunk| chunk.1).sum();
        let mut out = Vec::new();
        out.extend(MAGIC.to_le_bytes());
        [1u16, 0, 28, 12].iter().for_each(|half| out.extend(half.to_le_bytes()));
        [block_size, blocks, chunks.len() as u32, 0].iter().for_each(|word| out.extend(word.to_le_bytes()));
        for (kind, blocks, data) in chunks {
            out.extend(kind.to_le_bytes());
            out.extend([0; 2]);
            out.extend(blocks.to_le_bytes());
            out.extend((12 + data.len() as u32).to_le_bytes());
            out.extend(data);
        }
        out
    }

    fn write(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("writes");
        file
    }

    fn read_only() -> OpenOptions {
        OpenOptions { read_only: true, ..OpenOptions::default() }
    }

    fn sample() -> Vec<u8> {
        let raw: Vec<u8> = (0..8192u32).map(|i| (i / 7) as u8).collect();
        image(
            4096,
            &[(0xcac1, 2, raw), (0xcac3, 3, vec![]), (0xcac4, 0, vec![1, 2, 3, 4]), (0xcac2, 1, vec![9, 8, 7, 6])],
        )
    }

    #[test]
    fn chunks_expand() {
        let file = write(&sample());
        let device = open_image(file.path(), read_only()).expect("valid");
        assert_eq!(device.info().blocks, 6);
        let pages = device.read(0, 6).expect("in range");
        assert_eq!(pages[1].to_array()[5], ((4096 + 5) / 7) as u8);
        assert!(pages[2..5].iter().all(PageBuf::is_zero_repr));
        assert_eq!(pages[5].to_array()[4090..], [7, 6, 9, 8, 7, 6]);
        assert_eq!(device.write(0, vec![PageBuf::zeroed()]).expect_err("read-only").errno(), errno::EROFS);
        assert!(device.flush().is_ok());
    }

    #[test]
    fn small_blocks_and_offsets_are_put_together() {
        let chunk =
            |kind, blocks, byte: u8| (kind, blocks, vec![byte; if kind == 0xcac1 { blocks as usize * 512 } else { 4 }]);
        let file =
            write(&image(512, &[chunk(0xcac1, 3, 1), chunk(0xcac2, 6, 2), chunk(0xcac1, 9, 3), (0xcac3, 1, vec![])]));
        let options = OpenOptions { offset_bytes: 512, ..read_only() };
        let device = SparseImage::open(file.path(), options).expect("valid");
        assert_eq!(device.info().blocks, 2);
        let page = device.read_one(0).expect("in range").to_array();
        assert_eq!([page[0], page[1023], page[1024], page[4095]], [1, 1, 2, 2]);
        let page = device.read_one(1).expect("in range").to_array();
        assert_eq!([page[0], page[4095]], [3, 3]);
        let too_large = OpenOptions { size: Some(1 << 20), ..read_only() };
        assert!(matches!(SparseImage::open(file.path(), too_large), Err(OpenError::TooSmall { .. })));
    }

    #[test]
    fn raw_files_open_raw_and_sparse_ones_only_for_reading() {
        let raw = write(&[5; 8192]);
        let device = open_image(raw.path(), OpenOptions::default()).expect("opens");
        assert_eq!((device.info().blocks, device.info().read_only), (2, false));
        let error =
            open_image(write(&sample()).path(), OpenOptions::default()).map(drop).expect_err("cannot be written");
        assert!(error.to_string().contains("Android sparse image"), "{error}");
    }

    #[test]
    fn damage_is_found_when_opening() {
        let good = sample();
        let reason = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            match SparseImage::open(write(&bytes).path(), read_only()) {
                Err(OpenError::Sparse { reason, .. }) => reason,
                other => panic!("expected a format error, got {other:?}"),
            }
        };
        assert!(reason(&|b| b[0] ^= 1).contains("magic"));
        assert!(reason(&|b| b[4] = 2).contains("version"));
        assert!(reason(&|b| b[8] = 27).contains("header"));
        assert!(reason(&|b| b[10] = 11).contains("chunk headers"));
        assert!(reason(&|b| b[12] = 1).contains("multiple of 4"));
        assert!(reason(&|b| b[12..16].fill(0)).contains("multiple of 4"));
        assert!(reason(&|b| b[16] = 7).contains("cover"));
        assert!(reason(&|b| b[16] = 5).contains("beyond"));
        assert!(reason(&|b| b[20..24].fill(0xff)).contains("do not fit"));
        assert!(reason(&|b| b[20] = 5).contains("ends at byte"));
        assert!(reason(&|b| b[28] = 0).contains("unknown type"));
        assert!(reason(&|b| b[36] ^= 1).contains("follow from its type"));
        assert!(reason(&|b| b.truncate(27)).contains("within a header"));
        assert!(reason(&|b| b.truncate(5000)).contains("the file at"));
    }

    #[test]
    fn no_mutation_panics() {
        let good = image(4096, &[(0xcac2, 1, vec![1; 4]), (0xcac3, 2, vec![]), (0xcac1, 1, vec![3; 4096])]);
        for at in 0..80 {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = good.clone();
                bytes[at] = value;
                if let Ok(device) = SparseImage::open(write(&bytes).path(), read_only()) {
                    let blocks = device.info().blocks;
                    assert!(device.read(blocks.saturating_sub(3), blocks.min(3)).is_ok());
                }
            }
        }
    }
}
