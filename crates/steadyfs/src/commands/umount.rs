//! `steadyfs umount`: takes a mount away and waits for the end of the process that serves it; also the helper that
//! umount(8) calls.
//!
//! umount(8) waits by itself where the volume is mounted as a block device. For other mounts (type `fuse.steadyfs`) it
//! calls a helper, `umount.fuse.steadyfs`, if there is one.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::io::Errno;
use serde::Serialize;
use steadyfs_device::{ChunkDevice, MigratingDevice};
use steadyfs_fuse::Error;

use crate::failure::Failure;
use crate::talk::End;
use crate::text::print_json;

/// Unmount a volume and wait until its image is complete
///
/// Returns when the last checkpoint is written and the image or device is free.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs umount ./mnt")]
pub(crate) struct Args {
    /// Take it out of sight at once although it is in use, and wait for nothing
    #[arg(short, long)]
    lazy: bool,
    #[command(flatten)]
    pub(crate) end: End,
    #[command(flatten)]
    helper: HelperArgs,
    /// Where it is mounted, or the image or device
    target: PathBuf,
}

/// What umount(8) gives its helpers besides: `umount.TYPE DIR [-flnrv] [-N NAMESPACE] [-t TYPE]`.
#[derive(Debug, clap::Args)]
struct HelperArgs {
    /// By force: FUSE knows none, and a server that does not answer can be killed
    #[arg(short = 'f', hide = true)]
    force: bool,
    /// Write no mtab (there is none)
    #[arg(short = 'n', hide = true)]
    no_mtab: bool,
    /// Remount read-only if it is busy
    #[arg(short = 'r', hide = true)]
    read_only: bool,
    /// umount(8) enters the namespace itself
    #[arg(short = 'N', hide = true, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The type in the mount table
    #[arg(short = 't', hide = true, value_name = "TYPE")]
    fs_type: Option<String>,
}

/// The JSON form of what was done.
#[derive(Serialize)]
struct Unmounted {
    dir: String,
    /// Whether the last checkpoint is written, and the image or device free.
    complete: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let dir = directory(&args.target)?;
    let done = if args.lazy { steadyfs_fuse::unmount_lazily(&dir) } else { steadyfs_fuse::unmount(&dir) };
    match done {
        Ok(()) => {
            if args.end.json {
                print_json(&Unmounted { dir: dir.display().to_string(), complete: !args.lazy })?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(Error::Unmount { source, .. }) => Err(failure(&dir, &source)),
        Err(Error::Ended { why, .. }) => {
            let what = format!("{} is unmounted, but did not end as it should", dir.display());
            Err(Failure::new(what, why, "check the volume with `steadyfs fsck`"))
        }
        Err(e) => Err(Failure::new(format!("cannot unmount {}", dir.display()), e, "check the mount table")),
    }
}

/// Where the target is mounted: a directory is the place itself, which may be a dead mount; an image or device stands
/// in the mount table.
fn directory(target: &Path) -> Result<PathBuf, Failure> {
    let is_image = MigratingDevice::is_at(target)
        || ChunkDevice::is_complete(target)
        || std::fs::metadata(target).is_ok_and(|meta| !meta.is_dir());
    if !is_image {
        return Ok(target.to_owned());
    }
    steadyfs_fuse::mounted_at(target).ok_or_else(|| {
        let what = format!("cannot unmount {}", target.display());
        Failure::new(what, "it is not mounted", "name the directory that it is mounted on")
    })
}

fn failure(dir: &Path, why: &io::Error) -> Failure {
    let what = format!("cannot unmount {}", dir.display());
    match why.raw_os_error().and_then(|number| Errno::from_io_error(why).filter(|_| number > 0)) {
        Some(Errno::INVAL) => Failure::new(what, "nothing is mounted there", "check the name"),
        _ if why.kind() == io::ErrorKind::ResourceBusy => {
            Failure::new(what, "it is in use", "see who uses it with `fuser -vm`, or take it out of sight with --lazy")
        }
        _ => Failure::new(what, why, "check the name and whose mount it is"),
    }
}
