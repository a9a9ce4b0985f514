//! `steadyfs trim`: tells the device which segments of a volume hold nothing; an image file becomes smaller by them.
//!
//! Works on the checkpoint, without mounting: a segment is free if none of its blocks is valid and no log writes there.
//! Blocks that were fsynced since the checkpoint lie in such segments, so a volume that has some is refused.
//!
//! An IPLFS volume has no free space to tell: it discards by itself what is dead, so it is mounted for that. What the
//! device holds although nobody needs it or knows that it is dead goes too.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use steadyfs_core::raw::Image;
use steadyfs_core::{Error, why_read_only};
use steadyfs_device::Device;
use steadyfs_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Log, SEG_BYTES, SegNo};

use crate::failure::Failure;
use crate::image::{self, DeviceArgs};
use crate::size::human;
use crate::talk::End;
use crate::volume::{Access, Volume, failure, open_failure};

/// Discard the free space of a volume; an image file gives it back
///
/// With --json: discarded (bytes; null if the device does not tell), segments; of an IPLFS volume in place of segments
/// leaked (bytes of it that nobody knew to be dead).
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs trim image.img")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) end: End,
    #[command(flatten)]
    on: DeviceArgs,
}

/// The JSON form of what was done.
#[derive(Serialize)]
struct Done {
    discarded: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    segments: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leaked: Option<u64>,
}

pub(crate) fn run(Args { end, on }: &Args) -> Result<ExitCode, Failure> {
    let device = image::open(&on.device, on.image.for_writing(&on.device)?)?;
    let image = Image::open(device.clone()).map_err(|e| open_failure(&on.device, &e))?;
    if image.log_space().is_some() {
        drop((image, device));
        return logs(on, *end);
    }
    if let Some(why) = why_not(&image, &*device).map_err(|e| cannot(&on.device, &e))? {
        return Err(cannot(&on.device, &Error::Unsupported(why)));
    }
    let free = free_segments(&image).map_err(|e| cannot(&on.device, &e))?;
    let discarded = discard(&image, &*device, &free).map_err(|e| cannot(&on.device, &e))?;
    let bytes = discarded * SEG_BYTES;
    let line = format!("discarded {} in {discarded} segments", human(bytes));
    end.say(&line, &Done { discarded: Some(bytes), segments: Some(discarded), leaked: None })?;
    Ok(ExitCode::SUCCESS)
}

/// Discards what an IPLFS volume does not need.
fn logs(on: &DeviceArgs, end: End) -> Result<ExitCode, Failure> {
    let failed = |e: Error| cannot(&on.device, &e);
    let before = held(&*image::open(&on.device, on.image.for_reading(&on.device)?)?);
    Volume::with(&on.device, on.image, Access::Write, |volume| volume.fs.trim(0..u64::MAX, 0).map_err(failed))?;
    let device = image::open(&on.device, on.image.for_writing(&on.device)?)?;
    let image = Image::open(device.clone()).map_err(failed)?;
    // Only some devices tell what they hold.
    let leaked = if before.is_some() { image.leaked_runs().map_err(failed)? } else { Vec::new() };
    let mut lost = 0;
    for run in &leaked {
        let blocks = run.end.get() - run.start.get();
        device.discard(run.start.get(), blocks).map_err(|e| failed(e.into()))?;
        lost += blocks;
    }
    device.flush().map_err(|e| failed(e.into()))?;
    let size = |blocks: u64| human(blocks * BLOCK_SIZE as u64);
    let freed = before.zip(held(&*device)).map(|(before, after)| before.saturating_sub(after));
    let line = match freed {
        Some(freed) => format!("discarded {}, {} of it that nobody knew to be dead", size(freed), size(lost)),
        None => "discarded all that is known to be dead; the device does not tell how much it held".to_owned(),
    };
    let bytes = |blocks: u64| blocks * BLOCK_SIZE as u64;
    end.say(&line, &Done { discarded: freed.map(bytes), segments: None, leaked: Some(bytes(lost)) })?;
    Ok(ExitCode::SUCCESS)
}

/// Blocks that the device keeps something for, if it tells.
fn held(device: &dyn Device) -> Option<u64> {
    let (mut next, mut sum) = (0, 0);
    while let Some(run) = device.held_from(next).ok()? {
        sum += run.end - run.start;
        next = run.end.max(next + 1);
    }
    Some(sum)
}

fn cannot(device: &Path, e: &Error) -> Failure {
    failure(format!("cannot trim {}", device.display()), e)
}

/// Why this volume must not be trimmed.
fn why_not(image: &Image, device: &dyn Device) -> Result<Option<String>, Error> {
    let features = image.superblock().features();
    let unknown = features.unknown();
    Ok(if !unknown.is_empty() {
        Some(format!("the volume uses the features {unknown}"))
    } else if let Some(why) = why_read_only(features) {
        Some(why)
    } else if let Some(damage) = image.damage().first() {
        // What a table without its journal refers to may lie in segments that are free by now.
        Some(damage.to_string())
    } else if image.has_fsync_chain()? {
        Some("the volume holds fsynced data newer than its last checkpoint; mount it once".to_owned())
    } else if !device.info().discard {
        Some("the device takes no discards".to_owned())
    } else {
        None
    })
}

/// Segments without a valid block that are not current, ascending.
fn free_segments(image: &Image) -> Result<Vec<SegNo>, Error> {
    let current = Log::ALL.map(|log| image.log_position(log).segment);
    let entries = image.load_sit()?;
    let free = entries.iter().zip(image.layout().segments()).filter(|(entry, segment)| {
        // Count and map must agree: a damaged entry is no reason to throw blocks away.
        entry.valid_blocks() == 0 && entry.validate().is_ok() && !current.contains(segment)
    });
    Ok(free.map(|(_, segment)| segment).collect())
}

/// Discards runs of segments; gives the number of segments.
fn discard(image: &Image, device: &dyn Device, free: &[SegNo]) -> Result<u64, Error> {
    for run in free.chunk_by(|a, b| a.get() + 1 == b.get()) {
        let blocks = run.len() as u64 * u64::from(BLOCKS_PER_SEG);
        device.discard(image.layout().lba_of(run[0], 0).get(), blocks)?;
    }
    device.flush()?;
    Ok(free.len() as u64)
}
