//! `steadyfs gc`: collects garbage segments of a volume that is not mounted.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use steadyfs_core::Urgency;

use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::volume::{Access, Volume, failure, open_raw};

/// Collect segments that hold garbage, so that they can be written again
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Collect at most N segments, rounded up to whole sections [default: each section that holds garbage, once]
    #[arg(long, value_name = "N")]
    segments: Option<u64>,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device
    device: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let layout = *open_raw(&args.device, args.image)?.layout();
    let all = u64::from(layout.sections);
    let sections = args.segments.map_or(all, |segments| segments.div_ceil(layout.segs_per_sec.into()).min(all));
    Volume::with(&args.device, args.image, Access::Write, |volume| {
        let cannot = |e| failure(format!("cannot collect in {}", args.device.display()), &e);
        let report = volume.fs.gc(sections, Urgency::Foreground).map_err(cannot)?;
        let line = format!(
            "{} sections collected, {} freed; {} data and {} node blocks moved",
            report.victims, report.sections_freed, report.data_moved, report.nodes_moved
        );
        writeln!(io::stdout(), "{line}").map_err(|e| Failure::output(&e))?;
        Ok(ExitCode::SUCCESS)
    })
}
