//! The head of a compressed cluster. Input: one byte of choices, then the cluster.

use super::BLOCK_MEMORY;
use crate::Target;
use crate::input::Input;
use steadyfs_format::compress::{CLUSTER_HEADER, cluster_data};
use steadyfs_format::crc::crc_magic;

/// The target.
pub const TARGET: Target = Target { name: "cluster", run, seeds, volume: false, memory: BLOCK_MEMORY };

fn seeds() -> Vec<Vec<u8>> {
    let data = [5; 600];
    let header = [&600u32.to_le_bytes()[..], &crc_magic(&data).to_le_bytes(), &[0; 16]].concat();
    [0, 1].map(|checksum| [&[checksum], header.as_slice(), &data, &[0; 200]].concat()).to_vec()
}

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let checksum = input.bool();
    let cluster = input.rest();
    if let Ok(data) = cluster_data(cluster, checksum) {
        assert!(!data.is_empty() && data.len() <= cluster.len() - CLUSTER_HEADER);
    }
}
