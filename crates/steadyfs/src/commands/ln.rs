//! `steadyfs ln`: gives a file of a volume another name.

use std::path::PathBuf;
use std::process::ExitCode;

use steadyfs_format::dir::FileType;

use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::text::PathArg;
use crate::volume::{Access, Volume, failure, show_absolute};

/// Make a hard or symbolic link in a volume, without mounting it
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs ln -s image.img ../usr/bin /bin")]
pub(crate) struct Args {
    /// Make a symbolic link; TARGET is stored as it is
    #[arg(short, long)]
    symbolic: bool,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device
    device: PathBuf,
    /// What the link leads to
    target: PathArg,
    /// The new name
    link: PathArg,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    Volume::with(&args.device, args.image, Access::Write, |volume| {
        let cannot = |e| failure(format!("cannot make the link {}", show_absolute(args.link.bytes())), &e);
        if args.symbolic {
            let (dir, name) = volume.parent(args.link.bytes())?;
            let new = steadyfs::new_inode(FileType::Symlink, 0o777);
            volume.fs.symlink(&dir, &name, args.target.bytes(), &new).map_err(cannot)?;
        } else {
            let target = volume.find(args.target.bytes(), false)?;
            if target.kind() == FileType::Dir {
                let what = format!("cannot make the link {}", show_absolute(args.link.bytes()));
                let why = format!("{} is a directory, which has one name only", show_absolute(args.target.bytes()));
                return Err(Failure::new(what, why, "make a symbolic link with -s"));
            }
            let (dir, name) = volume.parent(args.link.bytes())?;
            volume.fs.link(&target, &dir, &name).map_err(cannot)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
