//! `steadyfs mv`: renames and moves files within a volume.

use std::path::PathBuf;
use std::process::ExitCode;

use steadyfs_core::{Error, RenameFlags};
use steadyfs_format::dir::FileType;

use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::text::PathArg;
use crate::volume::{Access, Volume, failure, show_absolute};

/// Rename or move files within a volume, without mounting it
///
/// If the last PATH is a directory, the others move into it under their names.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "steadyfs mv [OPTIONS] DEVICE SRC... DST",
    after_help = "Example: steadyfs mv image.img /etc/motd /etc/motd.old"
)]
pub(crate) struct Args {
    /// Do not replace an existing file
    #[arg(short, long)]
    no_clobber: bool,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device
    device: PathBuf,
    /// What to move, and the new name or the directory
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<PathArg>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let Some((destination, sources)) = args.paths.split_last() else { return Ok(ExitCode::SUCCESS) };
    Volume::with(&args.device, args.image, Access::Write, |volume| {
        let into = volume.find(destination.bytes(), true).ok().filter(|found| found.kind() == FileType::Dir);
        if into.is_none() && sources.len() > 1 {
            let what = format!("cannot move several files to {}", show_absolute(destination.bytes()));
            return Err(Failure::new(what, "it is not a directory", "make it first with `steadyfs mkdir`"));
        }
        let flags = if args.no_clobber { RenameFlags::NoReplace } else { RenameFlags::Replace };
        for source in sources {
            let (from, name) = volume.parent(source.bytes())?;
            let (to, new_name) = match &into {
                Some(dir) => (dir.clone(), name.clone()),
                None => volume.parent(destination.bytes())?,
            };
            volume.fs.rename(&from, &name, &to, &new_name, flags).map_err(|e| cannot(source.bytes(), &e))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn cannot(source: &[u8], e: &Error) -> Failure {
    let what = format!("cannot move {}", show_absolute(source));
    match e {
        Error::Invalid => {
            Failure::new(what, "a directory cannot move to a place below itself", "give a place that is not in it")
        }
        Error::Exists => Failure::new(what, e, "remove what is there, or give another name"),
        _ => failure(what, e),
    }
}
