//! The core over devices in memory, one module for each subject, in one program that keeps all processors busy. `fsck`
//! looks at the memory of its process, `ranges` builds files of the library under a model checker: they are programs of
//! their own.

mod amplification;
mod buffers;
mod collection;
mod common;
mod damaged_pack;
mod data_logs;
mod deep;
mod discards;
mod exercise;
mod faults;
mod fsync;
mod gaps;
mod group_commit;
mod hostile;
mod infinite;
mod migrating;
mod mkfs_layout;
mod mount;
mod names;
mod orders;
mod pack_blocks;
mod prices;
mod raw;
mod reading_ahead;
mod recovery;
mod reuse;
mod shape;
mod simulated;
mod trim;
mod words;
mod writeback;
mod zoned;
