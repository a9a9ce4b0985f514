//! Loading what places blocks in infinite logs: heads, limits, and what the discard log names.

use crate::error::{Error, Result};
use crate::mount::tables::Tables;
use crate::raw::{Image, LogSpace};
use crate::volume::infinite::InfiniteLogs;
use crate::volume::infinite::ranges::Ranges;
use crate::volume::io::BlockIo;
use std::sync::Arc;

/// Where the logs stand, and what is dead.
pub(super) struct LoadedLogs {
    space: LogSpace,
    dead: Ranges,
}

impl LoadedLogs {
    /// Reads the discard log, which only changes need: who only reads goes on without one that is damaged.
    pub(super) fn load(tables: &dyn Tables, space: &LogSpace, read_only: bool) -> Result<Self> {
        let mut dead = Ranges::default();
        let mut ordered = true;
        match tables.dead_blocks(&mut |run| ordered &= dead.insert(run)) {
            Err(damage) if read_only => {
                tracing::warn!("{damage}; the volume is read without its discard log");
                dead = Ranges::default();
            }
            read => read?,
        }
        if !ordered {
            return Err(Error::corrupt("the discard log names a block twice"));
        }
        Ok(LoadedLogs { space: space.clone(), dead })
    }

    /// KiB written in the life of the volume.
    pub(super) fn kbytes_written(&self) -> u64 {
        self.space.header().kbytes_written
    }

    /// Puts placement together.
    pub(super) fn into_placement(self, io: &Arc<BlockIo>, read_only: bool) -> InfiniteLogs {
        let (space, limits, place) = (&self.space, self.space.limits(), self.space.claim_place());
        InfiniteLogs::new(space.superblock(), space.header(), limits, place, self.dead, io, read_only)
    }
}

/// Refuses a device that an IPLFS volume could give nothing back to.
pub(super) fn check_device(image: &Image) -> Result<()> {
    let info = image.device().info();
    if image.log_space().is_some() && !info.discard {
        return Err(Error::Unsupported(format!(
            "{} takes no discards, and an IPLFS volume lives by them; mount it with -o ro",
            info.name
        )));
    }
    Ok(())
}
