//! `steadyfs export`: copies a D2FS volume to a new image, as an F2FS volume that every program knows.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use steadyfs_core::mkfs::export;
use steadyfs_core::raw::Image;
use steadyfs_device::OpenOptions;
use steadyfs_format::BLOCK_SIZE;

use crate::failure::Failure;
use crate::image::{self, DeviceArgs};
use crate::size::human;
use crate::volume::{failure, open_failure};

/// Copy an unmounted D2FS volume to a new image, as an F2FS volume
///
/// Linux and f2fs-tools open the copy.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    on: DeviceArgs,
    /// The new image
    target: PathBuf,
}

pub(crate) fn run(Args { on, target }: &Args) -> Result<ExitCode, Failure> {
    let from = image::open(&on.device, on.image.for_reading())?;
    let blocks = Image::open(from.clone()).map_err(|e| open_failure(&on.device, &e))?.layout().block_count;
    let what = format!("cannot export {} to {}", on.device.display(), target.display());
    if target.exists() {
        return Err(Failure::new(what, "it is there already", "name an image that is not there yet"));
    }
    let options = OpenOptions { create: Some(blocks * BLOCK_SIZE as u64), ..OpenOptions::default() };
    let to = image::open(target, options)?;
    let copied = export(&from, &*to).map_err(|e| {
        // A part of a volume helps nobody.
        let _ = fs::remove_file(target);
        failure(what, &e)
    })?;
    let text = format!("{} in {copied} blocks copied; an F2FS volume", human(copied * BLOCK_SIZE as u64));
    writeln!(io::stdout(), "{}: {text}", target.display()).map_err(|e| Failure::output(&e))?;
    Ok(ExitCode::SUCCESS)
}
