//! What a mounted volume tells of itself, as the values of attributes that the root directory does not list: any user
//! whom the mount lets in may read them, and no other channel into the process is needed.
//!
//! Their values are JSON, of the shapes that `steadyfs_core::stats` documents.

use super::Answer;
use rustix::io::Errno;
use serde::Serialize;
use steadyfs_core::Fs;
use steadyfs_core::stats::MAP_CELLS;

/// The name of the attribute that holds a [`steadyfs_core::stats::VolumeStats`].
pub const STATS_ATTRIBUTE: &str = "steadyfs.stats";

/// The name of the attribute that holds a [`steadyfs_core::stats::SegmentMap`].
pub const SEGMENTS_ATTRIBUTE: &str = "steadyfs.segments";

/// The counters now.
pub(super) fn stats(fs: &Fs) -> Answer<Vec<u8>> {
    json(&fs.stats())
}

/// The segments now.
pub(super) fn segments(fs: &Fs) -> Answer<Vec<u8>> {
    json(&fs.segment_map(MAP_CELLS))
}

fn json(value: &impl Serialize) -> Answer<Vec<u8>> {
    Ok(serde_json::to_vec(value).map_err(|_| Errno::IO)?)
}
