//! Trimming on demand (FITRIM): telling the device of a mounted volume what is free.
//!
//! Kept true: a section is told only while it is out of the map of free sections, so no log can open it. Too few are
//! out at a time for a writer to miss them.

use crate::error::{Error, Result};
use crate::gate::Headroom;
use crate::reclaim::Reclaim;
use crate::volume::Volume;
use std::ops::Range;
use steadyfs_format::{BLOCK_SIZE, Lba};

/// Most sections that are taken out at a time, if a longer minimum does not ask for more.
const SECTIONS_AT_ONCE: u64 = 32;

/// The run told last: free space that goes on from one piece to the next is one.
#[derive(Default)]
struct Told {
    end: u64,
    blocks: u64,
}

impl Volume {
    /// Discards these blocks if there are enough side by side, with those told before; how many.
    fn tell(&self, blocks: Range<u64>, minimum: u64, told: &mut Told) -> Result<u64> {
        let count = blocks.end.saturating_sub(blocks.start);
        let before = if told.end == blocks.start { told.blocks } else { 0 };
        if count == 0 || before + count < minimum {
            return Ok(0);
        }
        assert!(told.end <= blocks.start, "block {} is told to be free, after {}", blocks.start, told.end);
        self.check_writable()?;
        self.io.discard(Lba::new(blocks.start), count)?;
        *told = Told { end: blocks.end, blocks: before + count };
        Ok(count)
    }
}

impl Reclaim {
    /// See `Fs::trim`.
    pub(crate) fn trim(&self, range: Range<u64>, minimum: u64) -> Result<u64> {
        const BLOCK: u64 = BLOCK_SIZE as u64;
        let layout = self.vol.layout();
        if range.end.saturating_sub(range.start) < BLOCK || range.start / BLOCK >= layout.block_count {
            return Err(Error::Invalid);
        }
        let Some(segments) = self.vol.placement.segments() else {
            return self.discard_dead();
        };
        let Some(host) = self.by_host() else { return self.discard_dead() };
        if range.start / BLOCK >= layout.main_end().get() {
            return Err(Error::Invalid);
        }
        if !self.vol.io.takes_discards() {
            return Err(Error::Unsupported("the device takes no discards".into()));
        }
        self.vol.check_writable()?;
        self.durable.sync_checkpoint()?;
        let wanted = range.start.div_ceil(BLOCK)..range.end / BLOCK;
        let minimum = minimum.div_ceil(BLOCK);
        let most = minimum.div_ceil(layout.blocks_per_sec()).max(SECTIONS_AT_ONCE);
        let (mut told, mut trimmed) = (Told::default(), 0);
        let mut next = wanted.start.saturating_sub(layout.main.get()) / layout.blocks_per_sec();
        while let Some(sections) = segments.take_free_sections(next, most, || host.free_sections_suffice(0)) {
            let all = sections.start * layout.blocks_per_sec()..sections.end * layout.blocks_per_sec();
            assert!(sections.start >= next, "section {} was looked at before", sections.start);
            let blocks =
                (layout.main.get() + all.start).max(wanted.start)..(layout.main.get() + all.end).min(wanted.end);
            let result = self.vol.tell(blocks, minimum, &mut told);
            segments.put_free_sections_back(sections.clone());
            host.announce();
            trimmed += result?;
            next = sections.end;
            if layout.main.get() + all.end >= wanted.end {
                break;
            }
        }
        Ok(trimmed * BLOCK)
    }

    /// Where this host collects nothing: what is free was never written, or the device has heard of it with the
    /// checkpoint. Discards what is dead; bytes discarded, by whomever.
    fn discard_dead(&self) -> Result<u64> {
        self.vol.check_writable()?;
        self.durable.sync_checkpoint()?;
        let before = self.vol.io.counters.read().discarded;
        while self.vol.placement.has_queued_discards()
            && self.vol.placement.discard_some(|| self.vol.check_writable().is_ok()) > 0
        {}
        Ok((self.vol.io.counters.read().discarded - before) * BLOCK_SIZE as u64)
    }
}
