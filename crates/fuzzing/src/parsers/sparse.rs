//! Android sparse images. Input: the file.

use crate::Target;
use std::io::Write;
use steadyfs_device::{Device, OpenOptions, SparseImage};

/// The target. The image that a file describes may be far larger than the file; its list of chunks may not.
pub const TARGET: Target = Target { name: "sparse", run, seeds, volume: false, memory: 1 << 20 };

const MAGIC: u32 = 0xed26_ff3a;

fn seeds() -> Vec<Vec<u8>> {
    let chunk = |kind: u16, blocks: u32, data: &[u8]| {
        let header = [u32::from(kind), blocks, 12 + data.len() as u32].map(u32::to_le_bytes);
        [header.as_flattened(), data].concat()
    };
    let header = |block_size: u32, blocks: u32| {
        [MAGIC, 1, 28 | 12 << 16, block_size, blocks, 4, 0].map(u32::to_le_bytes).as_flattened().to_vec()
    };
    let seed = |block_size: u32| {
        let raw = vec![3; 2 * block_size as usize];
        let parts = [
            chunk(0xcac1, 2, &raw),
            chunk(0xcac2, 20, &[1, 2, 3, 4]),
            chunk(0xcac3, 5, &[]),
            chunk(0xcac4, 0, &[0; 4]),
        ];
        [header(block_size, 27), parts.concat()].concat()
    };
    vec![seed(4096), seed(512)]
}

fn run(bytes: &[u8]) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("the file can be written");
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let Ok(image) = SparseImage::open(file.path(), options) else { return };
    let blocks = image.info().blocks;
    assert!(blocks > 0, "an image has at least one block");
    for block in [0, 1, blocks / 2, blocks - 1] {
        let page = image.read_one(block);
        assert!(page.is_ok() || block >= blocks, "every block of an accepted image can be read: {page:?}");
    }
    assert!(image.read(blocks, 1).is_err() && image.read(u64::MAX, 2).is_err());
    assert!(image.write(0, vec![steadyfs_device::PageBuf::zeroed()]).is_err());
}
