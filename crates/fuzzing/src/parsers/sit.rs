//! A SIT block. Input: the block.

use super::BLOCK_MEMORY;
use crate::Target;
use crate::input::Input;
use steadyfs_format::block::BlockView;
use steadyfs_format::sit::{SitBlock, SitEntry};
use steadyfs_format::{Log, bitmap};

/// The target.
pub const TARGET: Target = Target { name: "sit", run, seeds, volume: false, memory: BLOCK_MEMORY };

fn seeds() -> Vec<Vec<u8>> {
    let mut block = SitBlock::zeroed();
    for (index, log) in Log::ALL.into_iter().enumerate() {
        let mut map = [0; 64];
        bitmap::msb::fill(&mut map, 0, index * 80, true);
        block.set(index, SitEntry::new(log, map, 1000));
    }
    vec![block.to_block().to_vec()]
}

fn run(bytes: &[u8]) {
    let block = Input::new(bytes).block();
    for entry in SitBlock::view(&block).iter() {
        let ones = bitmap::count_ones(entry.valid_map());
        assert_eq!((0..512).filter(|&offset| entry.is_valid(offset)).count(), ones as usize);
        if entry.validate().is_ok() {
            let log = entry.log().expect("a valid entry has a type");
            assert_eq!(SitEntry::new(log, *entry.valid_map(), entry.mtime()), *entry);
            assert_eq!(u32::from(entry.valid_blocks()), ones);
        }
        let _ = (entry.raw_type(), entry.is_valid(u16::MAX));
    }
}
