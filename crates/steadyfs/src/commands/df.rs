//! `steadyfs df`: how full a volume is, in the numbers that statfs(2) gives of a mount.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

use super::LongHelp;
use crate::failure::Failure;
use crate::image::DeviceArgs;
use crate::size::short;
use crate::text::print_json;
use crate::volume::{Access, Volume};

/// Show how full a volume is, without mounting it: its size, what is used, and what files may still take
///
/// The numbers are those of df(1) for a mount, in KiB. `steadyfs info` says more.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, after_help = "Example: steadyfs df -h image.img")]
pub(crate) struct Args {
    /// Sizes for people: 1.5G
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Print JSON, sizes in bytes
    #[arg(long, conflicts_with = "human_readable")]
    json: bool,
    #[command(flatten)]
    help: LongHelp,
    #[command(flatten)]
    on: DeviceArgs,
}

#[derive(Serialize)]
struct Space {
    size: u64,
    used: u64,
    available: u64,
    files: u64,
    files_free: u64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let of = Volume::with(&args.on.device, args.on.image, Access::Read, |volume| Ok(volume.fs.statfs()))?;
    let bytes = |blocks: u64| blocks.saturating_mul(of.block_size.into());
    let space = Space {
        size: bytes(of.blocks),
        used: bytes(of.blocks.saturating_sub(of.blocks_free)),
        available: bytes(of.blocks_available()),
        files: of.files,
        files_free: of.files_free,
    };
    if args.json {
        print_json(&space)?;
    } else {
        print(args, &space).map_err(|e| Failure::output(&e))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(args: &Args, space: &Space) -> io::Result<()> {
    let unit = if args.human_readable { "Size" } else { "1K-blocks" };
    let size = |bytes: u64| if args.human_readable { short(bytes) } else { bytes.div_ceil(1024).to_string() };
    // Rounded up, as df(1) does.
    let whole = u128::from(space.used) + u128::from(space.available);
    let percent = (u128::from(space.used) * 100).div_ceil(whole.max(1));
    let (total, used, available) = (size(space.size), size(space.used), size(space.available));
    let name = args.on.device.display().to_string();
    let name = steadyfs_format::quote::quote(&name);
    let mut out = io::stdout().lock();
    writeln!(out, "{unit:>12} {:>12} {:>12} {:>4} Volume", "Used", "Available", "Use%")?;
    writeln!(out, "{total:>12} {used:>12} {available:>12} {percent:>3}% {name}")
}
