//! What `info` tells of a D2FS volume beside what all volumes have: how its device is divided, and what the checkpoint
//! says of the device's records.

use std::io;

use serde::Serialize;
use steadyfs_core::raw::Image;
use steadyfs_format::BLOCK_SIZE;

use crate::size::human;

/// Sizes in bytes.
#[derive(Serialize)]
pub(super) struct Areas {
    /// What the device can hold in both areas at one time.
    capacity: u64,
    regular_sections: u32,
    gc_sections: u32,
    /// Number of the last record that the checkpoint contains; those that the device has made since are not in an
    /// image.
    records: Option<u64>,
}

impl Areas {
    /// Those of a D2FS volume.
    pub(super) fn of(image: &Image) -> Option<Self> {
        let regions = image.superblock().regions()?;
        Some(Areas {
            capacity: regions.capacity.saturating_mul(BLOCK_SIZE as u64),
            regular_sections: regions.regular_sections,
            gc_sections: image.layout().sections.saturating_sub(regions.regular_sections),
            records: image.checkpoint().served(),
        })
    }

    pub(super) fn print(&self, line: &mut dyn FnMut(&str, String) -> io::Result<()>) -> io::Result<()> {
        line("capacity", format!("{} at one time, in both areas of the device", human(self.capacity)))?;
        line("areas", format!("{} regular sections, {} of the device", self.regular_sections, self.gc_sections))?;
        let records = self.records.map_or_else(|| "not known".to_owned(), |number| format!("contained up to {number}"));
        line("records", records)
    }
}
