//! The seam [`Ftl`]: where a logical page lies in the flash, and what has to move so that there is room.
//!
//! A translation layer decides; [`Media`] takes the time. Layers are told the time with every call, do all that is due
//! until then ([`Ftl::advance`]), and never run ahead of it: an operation reaches a chip when it can begin, so the
//! future stays open. What a layer computes costs no device time.

mod collected;
mod collector;
mod flat;
mod interval;
mod map;
mod migrating;
#[cfg(test)]
mod own;
mod partial_log;
mod victims;
mod zns;

pub(crate) use migrating::Migrating;
pub(crate) use zns::{Action, ZoneError};

use crate::media::Media;
use crate::nand::{Line, Nand};
use crate::parameters::{Layer, ParameterError, Parameters};
use crate::stats::MapStats;
use crate::units::{PAGE, Time};
use collected::Collected;
use flat::FlatMap;
use interval::IntervalMap;
use steadyfs_device::{Zone, ZoneGeometry, ZoneState};
use zns::Zns;

/// A flat map over collected flash.
type PageMap = Collected<FlatMap>;

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

/// What a line that is collected is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineState {
    Free,
    Open,
    Full,
    /// Collected; waits for its copies to be programmed, or for its erase to begin.
    Awaiting,
}

/// What a host, or wear, asks of zones beside reading and writing; each names the first block of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZoneCommand {
    /// A change of the zone's state.
    Action(Action, u64),
    /// The flash below the zone has worn out.
    WearOut(u64, ZoneState),
}

/// The translation layer that the parameters name, for an empty device of `capacity` bytes, and the lines of its flash.
///
/// # Errors
/// A capacity, or limits of the layer, that cannot be.
pub(crate) fn layer(parameters: &Parameters, capacity: u64) -> Result<(Box<dyn Ftl>, u32), ParameterError> {
    let pages = capacity / PAGE;
    let lines = match parameters.layer {
        Layer::PageMap | Layer::Interval(_) => PageMap::lines_for(&parameters.geometry, &parameters.policy, pages),
        Layer::Zoned(limits) => Zns::lines_for(parameters, limits, pages)?,
        Layer::Migrating(shape) => Migrating::lines_for(parameters, shape, pages)?,
        Layer::Own(layer) => layer.0.lines(parameters, pages),
    };
    let flash = lines.saturating_mul(u64::from(parameters.geometry.line_pages()));
    if !capacity.is_multiple_of(PAGE) || pages == 0 || flash >= u64::from(u32::MAX) {
        return Err(ParameterError::Capacity(capacity));
    }
    let lines = lines as u32; // fits: all its pages do
    let ftl: Box<dyn Ftl> = match parameters.layer {
        Layer::PageMap => Box::new(PageMap::new(parameters, FlatMap::new(pages), pages, 0, lines)),
        Layer::Interval(shape) => Box::new(Collected::new(parameters, IntervalMap::new(shape), pages, 0, lines)),
        Layer::Zoned(limits) => Box::new(Zns::new(parameters, limits, pages, lines)),
        Layer::Migrating(shape) => Box::new(Migrating::new(parameters, shape, pages, lines)),
        Layer::Own(layer) => layer.0.make(parameters, pages, lines),
    };
    Ok((ftl, lines))
}

/// Makes a translation layer that no arm of [`Layer`] names: one that stands in a file of its own.
pub(crate) trait MakeLayer: std::fmt::Debug + Send + Sync {
    /// Lines of the flash of a device with `pages` pages.
    fn lines(&self, parameters: &Parameters, pages: u64) -> u64;

    /// The layer of an empty device.
    fn make(&self, parameters: &Parameters, pages: u64, lines: u32) -> Box<dyn Ftl>;
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
    /// When to ask again, if it cannot; [`Time::MAX`] when the host has done something.
    fn make_room(&mut self, media: &mut Media, now: Time, page: u64, stream: usize) -> Result<(), Time>;

    /// Writes a page that will have crossed the link at `ready`. There is room for it, also in the buffer, which has
    /// taken it. If it completes a program unit, when that has been programmed.
    fn write(&mut self, media: &mut Media, now: Time, ready: Time, page: u64, stream: usize) -> Option<Time>;

    /// Where the page is now that was written to an address.
    fn resolve(&self, page: u64) -> u64 {
        page
    }

    /// Where a page lies.
    fn locate(&self, page: u64) -> Option<(Line, u32)>;

    /// Forgets pages, but for those that stay until their zone is reset, and calls `gone` for each that was mapped.
    /// Entries of the map that were looked at.
    fn discard(&mut self, first: u64, count: u64, gone: &mut dyn FnMut(u64)) -> u64;

    /// The first page from this one on that lies anywhere.
    fn next_mapped(&self, from: u64) -> Option<u64>;

    /// Until when the firmware is busy with itself, and takes nothing in.
    fn firmware_until(&self) -> Time {
        0
    }

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

    /// Whether a discarded page becomes free.
    fn takes_discards(&self) -> bool {
        true
    }

    /// A write, or an append to the zone that starts at `first`, is going to begin. Its first page.
    ///
    /// # Errors
    /// What a zone has against it; without zones there are no appends.
    fn begin(&mut self, first: u64, _count: u64, append: bool, _stream: usize) -> Result<u64, ZoneError> {
        if append { Err(ZoneError::NotZoned) } else { Ok(first) }
    }

    /// Whether these pages can be read.
    ///
    /// # Errors
    /// One of them lies in a zone that is lost.
    fn readable(&self, _first: u64, _count: u64) -> Result<(), ZoneError> {
        Ok(())
    }

    /// Does what is asked of a zone.
    ///
    /// # Errors
    /// What the zone has against it; without zones every command is refused.
    fn manage(&mut self, _media: &mut Media, _now: Time, _command: ZoneCommand) -> Result<(), ZoneError> {
        Err(ZoneError::NotZoned)
    }

    /// How it is divided into zones, if it is.
    fn zones(&self) -> Option<ZoneGeometry> {
        None
    }

    /// A zone as it is reported; its number is in range.
    fn report(&self, _number: u64) -> Option<Zone> {
        None
    }

    /// The first page of the zone that a page lies in; none if that is conventional, or there are no zones.
    fn zone_of(&self, _page: u64) -> Option<u64> {
        None
    }

    /// First pages of the zones that are full.
    fn full_zones(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Itself, if it tells the host what it moves.
    fn migrating(&mut self) -> Option<&mut Migrating> {
        None
    }

    /// What the map takes of a device's memory, and what its upkeep took.
    fn map(&self) -> MapStats;
}
