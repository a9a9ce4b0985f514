//! A NAT block, and a NAT journal with the same entries. Input: the block.

use super::BLOCK_MEMORY;
use crate::Target;
use crate::input::Input;
use steadyfs_format::block::BlockView;
use steadyfs_format::journal::{Journal, MAX_NAT_JOURNAL};
use steadyfs_format::nat::{ENTRIES_PER_BLOCK, NatBlock, NatEntry};
use steadyfs_format::{Ino, Lba, Nid};

/// The target.
pub const TARGET: Target = Target { name: "nat", run, seeds, volume: false, memory: BLOCK_MEMORY };

fn seeds() -> Vec<Vec<u8>> {
    let mut block = NatBlock::zeroed();
    for index in 1..200 {
        let number = index as u32;
        block.set(index, NatEntry { version: index as u8, ino: Ino(number), lba: Lba(u64::from(number) + 5000) });
    }
    vec![block.to_block().to_vec()]
}

fn run(bytes: &[u8]) {
    let mut block = Input::new(bytes).block();
    let found: Vec<NatEntry> = NatBlock::view(&block).iter().collect();
    assert_eq!(found.len(), ENTRIES_PER_BLOCK);
    let sound: Vec<_> = (0..).map(Nid).zip(found).filter(|(_, entry)| entry.lba.try_to_disk().is_some()).collect();
    for (nid, entry) in &sound {
        NatBlock::view_mut(&mut block).set(nid.index(), *entry);
        assert_eq!(entry.is_free(), NatBlock::view(&block).get(nid.index()).lba == Lba(0));
    }
    for part in sound.chunks(MAX_NAT_JOURNAL) {
        let journal = Journal::from_nat(part).expect("a journal has room for so many");
        assert_eq!(journal.nat().as_deref(), Ok(part));
    }
}
