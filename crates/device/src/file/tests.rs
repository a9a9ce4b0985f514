//! Tests of file devices: contents, locks, sizes, discards, on every engine and on both kinds of file system.

use super::*;
use crate::{BLOCK_SIZE, PageBuf};

fn page(byte: u8) -> PageBuf {
    PageBuf::from_slice(&[byte; BLOCK_SIZE])
}

fn create(bytes: u64) -> OpenOptions {
    OpenOptions { create: Some(bytes), ..OpenOptions::default() }
}

#[test]
fn pages_come_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let device = FileDevice::open(dir.path().join("image"), create(64 << 12)).expect("opens");
    assert_eq!(device.info().blocks, 64);
    let synthetic = PageBuf::synthetic([7; 16]);
    device.write(3, vec![page(1), PageBuf::zeroed(), synthetic.clone()]).expect("in range");
    device.flush().expect("flushes");
    let read = device.read(2, 5).expect("in range");
    assert_eq!(read, [PageBuf::zeroed(), page(1), PageBuf::zeroed(), synthetic, PageBuf::zeroed()]);
    assert_eq!(device.read(60, 5).expect_err("outside").errno(), crate::errno::EINVAL);
}
