//! What a mounted volume tells of itself, as the values of attributes that the root directory does not list: any user
//! whom the mount lets in may read them, and no other channel into the process is needed.
//!
//! Their values are JSON, of the shapes that `steadyfs_core::stats` documents.

use super::{Answer, Server};
use rustix::io::Errno;
use serde::Serialize;
use steadyfs_core::Fs;
use steadyfs_core::stats::MAP_CELLS;
use steadyfs_format::BLOCK_SIZE;

/// The name of the attribute that holds a [`steadyfs_core::stats::VolumeStats`].
pub const STATS_ATTRIBUTE: &str = "steadyfs.stats";

/// The name of the attribute that holds a [`steadyfs_core::stats::SegmentMap`].
pub const SEGMENTS_ATTRIBUTE: &str = "steadyfs.segments";

/// The name of the attribute that sets how much an IPLFS volume may hold, in bytes as decimal text. Only root and the
/// user who mounted may set it.
pub const CAPACITY_ATTRIBUTE: &str = "steadyfs.capacity";

impl Server {
    /// Changes how much the volume may hold.
    pub(super) fn set_capacity(&self, fs: &Fs, uid: u32, value: &[u8]) -> Answer {
        self.may_control(uid)?;
        let bytes: Option<u64> = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        Ok(fs.set_capacity(bytes.ok_or(Errno::INVAL)? / BLOCK_SIZE as u64)?)
    }
}

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
