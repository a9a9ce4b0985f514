//! A summary block, of the SSA or of a checkpoint pack. Input: the block.

use super::BLOCK_MEMORY;
use super::checkpoint::use_summary;
use crate::Target;
use crate::input::Input;
use steadyfs_format::Nid;
use steadyfs_format::block::BlockView;
use steadyfs_format::journal::Journal;
use steadyfs_format::nat::NatEntry;
use steadyfs_format::summary::{Summary, SummaryBlock, SummaryKind};

/// The target.
pub const TARGET: Target = Target { name: "summary", run, seeds, volume: false, memory: BLOCK_MEMORY };

fn seeds() -> Vec<Vec<u8>> {
    let seed = |kind| {
        let mut block = SummaryBlock::new(kind);
        for offset in 0..512 {
            block.set(offset, Summary { nid: Nid(4 + u32::from(offset)), version: 1, ofs_in_node: offset });
        }
        block.journal = Journal::from_nat(&[(Nid(4), NatEntry::default()); 5]).expect("there is room");
        block.to_block().to_vec()
    };
    vec![seed(SummaryKind::Data), seed(SummaryKind::Node)]
}

fn run(bytes: &[u8]) {
    let block = Input::new(bytes).block();
    let view = SummaryBlock::view(&block);
    use_summary(view);
    assert_eq!(view.to_block(), block);
}
