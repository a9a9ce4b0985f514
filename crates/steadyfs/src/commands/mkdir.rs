//! `steadyfs mkdir`: makes directories in a volume.

use std::path::PathBuf;
use std::process::ExitCode;

use steadyfs_format::dir::FileType;

use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::text::PathArg;
use crate::volume::{Access, Volume, failure, show_absolute, trim_slashes};

/// Make directories in a volume, without mounting it
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs mkdir -p image.img /srv/data")]
pub(crate) struct Args {
    /// Make missing directories above, too; an existing directory is no failure
    #[arg(short, long)]
    parents: bool,
    /// Permissions, in octal
    #[arg(short, long, value_name = "MODE", default_value = "755", value_parser = octal)]
    mode: u32,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device
    device: PathBuf,
    /// Paths in the volume
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathArg>,
}

fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o7777 => Ok(mode),
        _ => Err("permissions are one to four octal digits, such as 755".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    Volume::with(&args.device, args.image, Access::Write, |volume| {
        for path in &args.paths {
            let path = trim_slashes(path.bytes());
            if args.parents {
                let ends = path.iter().enumerate().filter(|(i, b)| **b == b'/' && *i > 0).map(|(i, _)| i);
                for end in ends {
                    make(volume, trim_slashes(&path[..end]), 0o755, true)?;
                }
            }
            make(volume, path, args.mode, args.parents)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Makes one directory; owner is the user who runs the command, as with mkdir.
fn make(volume: &Volume, path: &[u8], perm: u32, may_exist: bool) -> Result<(), Failure> {
    if may_exist && volume.find(path, true).is_ok_and(|found| found.kind() == FileType::Dir) {
        return Ok(());
    }
    let (dir, name) = volume.parent(path)?;
    match volume.fs.create(&dir, &name, &steadyfs::new_inode(FileType::Dir, perm)) {
        Ok(_) => Ok(()),
        Err(e) => Err(failure(format!("cannot make {}", show_absolute(path)), &e)),
    }
}
