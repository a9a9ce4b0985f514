//! `steadyfs recover`: replays what was made durable after the last checkpoint, and leaves a stock volume behind.
//!
//! That is a mount and its end, without serving anybody. A volume whose metadata journal was not replayed is refused by
//! Linux and by fsck.f2fs; after this both take it.

use std::process::ExitCode;

use serde::Serialize;
use steadyfs_core::raw::Superblocks;

use crate::failure::Failure;
use crate::image::{self, DeviceArgs};
use crate::talk::End;
use crate::volume::{Access, Volume};

/// Replay what was fsynced after the last checkpoint, so that Linux and f2fs-tools can open the volume
///
/// With --json: files, batches and records (of the journal) that were recovered, mark_removed (of a journal).
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs recover image.img")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) end: End,
    #[command(flatten)]
    on: DeviceArgs,
}

/// The JSON form of what was done.
#[derive(Serialize)]
struct Done {
    files: u64,
    batches: u64,
    records: u64,
    mark_removed: bool,
}

pub(crate) fn run(Args { end, on }: &Args) -> Result<ExitCode, Failure> {
    let marked = Superblocks::read(&*image::open(&on.device, on.image.for_reading(&on.device)?)?).is_journaled();
    let found = Volume::with(&on.device, on.image, Access::Write, |volume| Ok(volume.fs.recovered()))?;
    let name = on.device.display();
    let text = match found {
        None if marked => {
            format!("{name}: there was nothing to recover; the mark of a journal is gone, and the volume is clean")
        }
        None => format!("{name}: there was nothing to recover; the volume is clean"),
        Some(found) => format!(
            "{name}: recovered {} files and {} batches of the journal with {} records; the volume is clean",
            found.files, found.batches, found.records
        ),
    };
    let (files, batches, records) = found.map_or((0, 0, 0), |found| (found.files, found.batches, found.records));
    end.say(&text, &Done { files, batches, records, mark_removed: marked })?;
    Ok(ExitCode::SUCCESS)
}
