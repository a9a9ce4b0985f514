//! Where the numbers come from: a mount, asked through its root directory, or a volume that is not mounted, opened for
//! reading.

use std::path::{Path, PathBuf};

use serde::Serialize;
use steadyfs_core::stats::{MAP_CELLS, SegmentMap, VolumeStats};
use steadyfs_device::is_image_directory;
use steadyfs_fuse::{SEGMENTS_ATTRIBUTE, STATS_ATTRIBUTE};

use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::live;
use crate::volume::{Access, Volume};

/// A volume whose numbers can be had again and again.
pub(super) enum Watched {
    /// Mounted at this directory.
    Mount(PathBuf),
    /// Not mounted: what it was like when it was opened.
    Image(Box<Snapshot>),
}

/// A volume's numbers at one moment; also the JSON form.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Snapshot {
    /// The directory where it is mounted, or the image.
    pub(super) volume: String,
    pub(super) mounted: bool,
    pub(super) stats: VolumeStats,
    pub(super) segments: SegmentMap,
}

impl Watched {
    /// Finds the volume: a directory is a mount, an image or device may be mounted somewhere.
    pub(super) fn open(path: &Path, args: ImageArgs) -> Result<Self, Failure> {
        if path.is_dir() && !is_image_directory(path) {
            return Ok(Watched::Mount(path.to_owned()));
        }
        if args.is_whole()
            && let Some(dir) = steadyfs_fuse::mounted_at(path)
        {
            return Ok(Watched::Mount(dir));
        }
        let volume = Volume::open(path, args, Access::Read)?;
        let (stats, segments) = (volume.fs.stats(), volume.fs.segment_map(MAP_CELLS));
        let snapshot = Snapshot { volume: path.display().to_string(), mounted: false, stats, segments };
        Ok(Watched::Image(Box::new(snapshot)))
    }

    /// The numbers now.
    pub(super) fn snapshot(&self) -> Result<Snapshot, Failure> {
        match self {
            Watched::Mount(dir) => Ok(Snapshot {
                volume: dir.display().to_string(),
                mounted: true,
                stats: live::read(dir, STATS_ATTRIBUTE)?,
                segments: live::read(dir, SEGMENTS_ATTRIBUTE)?,
            }),
            Watched::Image(snapshot) => Ok((**snapshot).clone()),
        }
    }
}
