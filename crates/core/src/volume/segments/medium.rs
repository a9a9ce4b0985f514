//! The device below the segments, as far as its kind matters to them.

use crate::volume::segments::migrating::MigratingArea;
use crate::volume::segments::refusing::InTurn;
use crate::volume::segments::zoned::Zones;
use std::sync::Arc;

/// A kind of device below segments.
pub(crate) enum Medium {
    /// Blocks may be written anywhere, and stay where they are.
    Plain,
    /// The device moves blocks by itself (D2FS); `in_turn` are the sections that the host writes in order, if any.
    Migrating { area: Arc<MigratingArea>, in_turn: Option<InTurn> },
    /// A zoned device that is written: a section is a zone, written in order and reset before it is free.
    Zoned { zones: Zones, in_turn: InTurn },
}

impl Medium {
    /// What the device moves by itself; `None` where it moves nothing.
    pub(crate) fn migrating(&self) -> Option<&Arc<MigratingArea>> {
        match self {
            Medium::Migrating { area, .. } => Some(area),
            Medium::Plain | Medium::Zoned { .. } => None,
        }
    }

    /// The zones of a zoned device.
    pub(crate) fn zones(&self) -> Option<&Zones> {
        match self {
            Medium::Zoned { zones, .. } => Some(zones),
            Medium::Plain | Medium::Migrating { .. } => None,
        }
    }

    /// Sections that are written in order; `None` where logs may write anywhere.
    pub(crate) fn in_turn(&self) -> Option<&InTurn> {
        match self {
            Medium::Plain => None,
            Medium::Migrating { in_turn, .. } => in_turn.as_ref(),
            Medium::Zoned { in_turn, .. } => Some(in_turn),
        }
    }
}
