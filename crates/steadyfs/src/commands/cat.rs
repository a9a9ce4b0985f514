//! `steadyfs cat`: writes files of a volume to standard output.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use steadyfs_core::Error;
use steadyfs_format::dir::FileType;

use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::text::PathArg;
use crate::volume::{Access, Volume, failure, show_absolute};

/// Bytes read at once.
const PIECE: usize = 1 << 20;

/// Write files of a volume to standard output, without mounting it
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs cat image.img /etc/hostname")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device
    device: PathBuf,
    /// Paths in the volume
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathArg>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    Volume::with(&args.device, args.image, Access::Read, |volume| {
        let mut out = io::stdout().lock();
        let mut buf = vec![0; PIECE];
        for path in &args.paths {
            let cannot = |e: &Error| failure(format!("cannot read {}", show_absolute(path.bytes())), e);
            let inode = volume.find(path.bytes(), true)?;
            match inode.kind() {
                FileType::Regular => {}
                FileType::Dir => return Err(cannot(&Error::IsDirectory)),
                _ => return Err(cannot(&Error::NotSupported)),
            }
            let mut offset = 0;
            loop {
                let got = volume.fs.read(&inode, offset, &mut buf).map_err(|e| cannot(&e))?;
                if got == 0 {
                    break;
                }
                out.write_all(&buf[..got]).map_err(|e| Failure::output(&e))?;
                offset += got as u64;
            }
        }
        out.flush().map_err(|e| Failure::output(&e))?;
        Ok(ExitCode::SUCCESS)
    })
}
