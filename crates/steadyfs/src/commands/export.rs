//! `steadyfs export`: copies a D2FS volume to a new image, as an F2FS volume that every program knows.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use steadyfs_core::mkfs::export;
use steadyfs_core::raw::Image;
use steadyfs_device::{OpenError, OpenOptions, open_image};
use steadyfs_format::BLOCK_SIZE;

use crate::failure::Failure;
use crate::image::{self, DeviceArgs};
use crate::size::human;
use crate::talk::End;
use crate::volume::{failure, open_failure};

/// Copy an unmounted D2FS volume to a new image, as an F2FS volume
///
/// Linux and f2fs-tools open the copy. Only its owner may read it. With --json: target, blocks and bytes that were
/// copied.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs export volume.d2fs copy.img")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) end: End,
    #[command(flatten)]
    on: DeviceArgs,
    /// The new image
    target: PathBuf,
}

/// The JSON form of what was done.
#[derive(Serialize)]
struct Done {
    target: String,
    blocks: u64,
    bytes: u64,
}

pub(crate) fn run(Args { end, on, target }: &Args) -> Result<ExitCode, Failure> {
    let from = image::open(&on.device, on.image.for_reading(&on.device)?)?;
    let blocks = Image::open(from.clone()).map_err(|e| open_failure(&on.device, &e))?.layout().block_count;
    let what = format!("cannot export {} to {}", on.device.display(), target.display());
    let there = || Failure::new(what.clone(), "it is there already", "name an image that is not there yet");
    if fs::symlink_metadata(target).is_ok() {
        return Err(there());
    }
    let options = OpenOptions { create: Some(blocks * BLOCK_SIZE as u64), only_new: true, ..OpenOptions::default() };
    let to = open_image(target, options).map_err(|e| match e {
        // Somebody was faster.
        OpenError::System { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => there(),
        e => image::open_failure(target, &e),
    })?;
    let copied = export(&from, &*to).map_err(|e| {
        // A part of a volume helps nobody.
        let _ = fs::remove_file(target);
        failure(what, &e)
    })?;
    let (bytes, target) = (copied * BLOCK_SIZE as u64, target.display().to_string());
    let line = format!("{target}: {} in {copied} blocks copied; an F2FS volume", human(bytes));
    end.say(&line, &Done { target, blocks: copied, bytes })?;
    Ok(ExitCode::SUCCESS)
}
