//! The seam [`Ftl`]: where a logical page lies in the flash, and what has to move so that there is room.
//!
//! A translation layer decides; [`Media`] takes the time. Layers are told the time with every call, do all that is due
//! until then ([`Ftl::advance`]), and never run ahead of it: an operation reaches a chip when it can begin, so the
//! future stays open. What a layer computes costs no device time.

mod page_map;
mod partial_log;
mod victims;
mod zns;

pub(crate) use page_map::PageMap;
pub use zns::ZoneLimits;
pub(crate) use zns::{Action, Zns, ZoneError};

use crate::media::Media;
use crate::nand::{Line, Nand};
use crate::units::Time;

/// No page in a map.
pub(crate) const UNMAPPED: u32 = u32::MAX;

/// How the flash is used, in 4 KiB pages. The sum is all pages of the flash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    /// Hold the current contents of a logical page.
    pub mapped: u64,
    /// Written and superseded, or padding.
    pub invalid: u64,
    /// Erased, or about to be.
    pub free: u64,
}

/// A translation layer. Logical pages and streams are in range: the device has checked.
pub(crate) trait Ftl: Send {
    /// Does what is due up to `now`.
    fn advance(&mut self, media: &mut Media, now: Time);

    /// When something is due next.
    fn next_due(&self) -> Option<Time>;

    /// Makes sure that this page, of this stream, can be written now.
    ///
    /// # Errors
    /// When to ask again, if it cannot.
    fn make_room(&mut self, media: &mut Media, now: Time, page: u64, stream: usize) -> Result<(), Time>;

    /// Writes a page that will have crossed the link at `ready`. There is room for it, also in the buffer, which has
    /// taken it. If it completes a program unit, when that has been programmed.
    fn write(&mut self, media: &mut Media, now: Time, ready: Time, page: u64, stream: usize) -> Option<Time>;

    /// Where a page lies.
    fn locate(&self, page: u64) -> Option<(Line, u32)>;

    /// Forgets a page; false if it is one that stays until its zone is reset.
    fn discard(&mut self, page: u64) -> bool;

    /// Sees to it that what waits in units that are not full is programmed too; of one stream or of all. When all of
    /// the host's pages will have been programmed.
    fn flush(&mut self, media: &mut Media, now: Time, stream: Option<usize>) -> Time;

    /// Whether an idle device would collect.
    fn wants_idle(&mut self) -> bool;

    /// The device is idle: some collection, if there is something to gain. When to come again.
    fn idle(&mut self, media: &mut Media, now: Time) -> Option<Time>;

    /// Another run begins, with another clock; nothing is under way.
    fn restart(&mut self);

    /// How the flash is used, counted as it went.
    fn space(&self, nand: &Nand) -> Space;

    /// Adds a line for every rule that does not hold; looks at everything.
    fn check(&self, nand: &Nand, found: &mut Vec<String>);

    /// The zones, if it has any.
    fn zoned(&mut self) -> Option<&mut Zns> {
        None
    }

    /// Bytes of the map that a device would hold: 4 for each entry.
    fn map_bytes(&self) -> u64;
}
