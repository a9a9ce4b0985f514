//! `steadyfs resize`: changes how much an IPLFS volume may hold, also while it is mounted.
//!
//! Only a number changes, so it takes a checkpoint and no more. A mounted volume is told by setting an attribute of its
//! root directory; another one is mounted within this process.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use serde::Serialize;
use steadyfs_core::Error;
use steadyfs_core::stats::VolumeStats;
use steadyfs_device::is_image_directory;
use steadyfs_format::BLOCK_SIZE;
use steadyfs_fuse::{CAPACITY_ATTRIBUTE, STATS_ATTRIBUTE};

use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::live;
use crate::size::{Size, human};
use crate::talk::End;
use crate::volume::{Access, Volume, failure};

/// Change how much an IPLFS volume may hold, mounted or not
///
/// With --json: capacity and capacity_before, user_size (what files may take of it), in bytes, and files (at most).
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs resize --capacity 128G image.img")]
pub(crate) struct Args {
    /// How much it may hold at one time, in bytes (or with a suffix: 64G, 1.5T)
    #[arg(long, value_name = "SIZE")]
    capacity: Size,
    #[command(flatten)]
    pub(crate) end: End,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device, or the directory where the volume is mounted
    device: PathBuf,
}

/// What a volume may hold, in blocks.
struct Room {
    capacity: u64,
    /// What files may take of it.
    user: u64,
    /// Most files: node ids, or blocks for files.
    files: u64,
}

/// The JSON form of what was done.
#[derive(Serialize)]
struct Done {
    capacity: u64,
    capacity_before: u64,
    user_size: u64,
    files: u64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    // A directory is a mount, unless it is a device in chunks.
    let mounted = match args.device.is_dir() && !is_image_directory(&args.device) {
        true => Some(args.device.clone()),
        false if args.image.is_whole() => steadyfs_fuse::mounted_at(&args.device),
        false => None,
    };
    let (before, after) = match mounted {
        Some(dir) => of_mounted(&dir, args.capacity)?,
        None => Volume::with(&args.device, args.image, Access::Write, |volume| {
            let before = room(&volume.fs.stats());
            let blocks = args.capacity.0 / BLOCK_SIZE as u64;
            volume.fs.set_capacity(blocks).map_err(|e| refused(&args.device, &e))?;
            Ok((before, room(&volume.fs.stats())))
        })?,
    };
    let bytes = |blocks: u64| human(blocks.saturating_mul(BLOCK_SIZE as u64));
    let (old, new, user) = (bytes(before.capacity), bytes(after.capacity), bytes(after.user));
    let mut line = format!("{}: it may hold {new} instead of {old}, {user} of it for files", args.device.display());
    // Fewer than there are blocks: a file takes a node id, and one more for each 2 MiB.
    if after.files < after.user {
        line.push_str(&format!("; its {} node ids are the most files that it holds, whatever their size", after.files));
    }
    let size = |blocks: u64| blocks.saturating_mul(BLOCK_SIZE as u64);
    let (capacity, capacity_before) = (size(after.capacity), size(before.capacity));
    let done = Done { capacity, capacity_before, user_size: size(after.user), files: after.files };
    args.end.say(&line, &done)?;
    Ok(ExitCode::SUCCESS)
}

fn room(stats: &VolumeStats) -> Room {
    Room { capacity: stats.logs.capacity, user: stats.space.blocks, files: stats.space.files }
}

/// Tells the process that serves a mount.
fn of_mounted(dir: &Path, capacity: Size) -> Result<(Room, Room), Failure> {
    let before: VolumeStats = live::read(dir, STATS_ATTRIBUTE)?;
    let told = rustix::fs::setxattr(dir, CAPACITY_ATTRIBUTE, capacity.0.to_string().as_bytes(), XattrFlags::empty());
    told.map_err(|e| match e {
        Errno::PERM | Errno::ACCESS => {
            Failure::new(what(dir), e, "only root and the user who mounted it may change its capacity")
        }
        Errno::ROFS => Failure::new(what(dir), "it is mounted read-only", "mount it for writing"),
        Errno::OPNOTSUPP => refused(dir, &Error::Unsupported(NOT_IPLFS.to_owned())),
        Errno::INVAL => Failure::usage(what(dir), "no volume can have this capacity", HINT),
        Errno::NOSPC => refused(dir, &Error::NoSpace),
        e => Failure::new(what(dir), e, "see what the process that serves it says"),
    })?;
    Ok((room(&before), room(&live::read(dir, STATS_ATTRIBUTE)?)))
}

const NOT_IPLFS: &str = "an F2FS volume keeps the size that it was made with";
const HINT: &str = "give a size from 16 MiB to the length of a log and to 2 MiB for each node id, which `steadyfs info` \
                    shows; `mkfs --grow-to` makes more ids";

fn what(volume: &Path) -> String {
    format!("cannot change the capacity of {}", volume.display())
}

fn refused(volume: &Path, e: &Error) -> Failure {
    match e {
        Error::NoSpace => Failure::new(what(volume), "it holds more already", "remove something first"),
        Error::Usage(why) => Failure::usage(what(volume), why, HINT),
        Error::Unsupported(why) => Failure::new(
            what(volume),
            why,
            "unmount it and use `resize.f2fs`, copy it to a larger one, or make one with `mkfs --kind iplfs`",
        ),
        e => failure(what(volume), e),
    }
}
