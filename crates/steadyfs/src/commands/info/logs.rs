//! What `info` tells of an IPLFS volume beside what all volumes have: its capacity, its logs, what is dead.

use std::io;

use serde::Serialize;
use steadyfs_core::raw::LogSpace;
use steadyfs_format::BLOCK_SIZE;
use steadyfs_format::infinite::Stretch;

use crate::size::human;

/// Sizes in bytes, addresses in blocks.
#[derive(Serialize)]
pub(super) struct Logs {
    capacity: u64,
    /// Bytes that each log takes in the life of the volume.
    log_size: u64,
    leap: u64,
    /// Dead, and perhaps not yet discarded.
    dead: u64,
    discard_log_blocks: u32,
    /// Whether a mount has begun to write that made no checkpoint of its own.
    claimed: bool,
    heads: Vec<HeadInfo>,
}

#[derive(Serialize)]
struct HeadInfo {
    log: String,
    next: u64,
    limit: u64,
    /// Of what it takes in its life, what it has taken.
    used: u64,
}

impl Logs {
    pub(super) fn of(space: &LogSpace) -> Self {
        let (superblock, header) = (space.superblock(), space.header());
        let bytes = |blocks: u64| blocks.saturating_mul(BLOCK_SIZE as u64);
        let head = |stretch: Stretch| {
            let (head, start) = (space.head(stretch), superblock.space().range(stretch).start);
            let used = bytes(head.next.get() - start.get());
            HeadInfo { log: stretch.to_string(), next: head.next.get(), limit: head.limit.get(), used }
        };
        Logs {
            capacity: bytes(superblock.capacity()),
            log_size: bytes(superblock.space().length()),
            leap: bytes(superblock.leap()),
            dead: bytes(header.discard_log.dead),
            discard_log_blocks: header.discard_log.blocks,
            claimed: space.claim().is_some(),
            heads: Stretch::ALL.map(head).into(),
        }
    }

    /// The lines that other volumes have for segments.
    pub(super) fn print(&self, line: &mut dyn FnMut(&str, String) -> io::Result<()>) -> io::Result<()> {
        line("capacity", format!("{}; `steadyfs resize` changes it", human(self.capacity)))?;
        line("dead", format!("{} to discard", human(self.dead)))?;
        self.heads.iter().try_for_each(|head| {
            let used = format!("next block {}, {} of {} used up", head.next, human(head.used), human(self.log_size));
            line(&head.log, used)
        })
    }
}
