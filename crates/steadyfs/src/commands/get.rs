//! `steadyfs get`: copies a tree out of a volume, to the host or as a tar stream.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use steadyfs_core::InodeRef;
use steadyfs_format::dir::FileType;

use crate::commands::left_out;
use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::text::PathArg;
use crate::transfer::host_sink::HostSink;
use crate::transfer::tar_sink::TarSink;
use crate::transfer::volume_source::VolumeSource;
use crate::transfer::{Job, Progress, Sink, copy, split};
use crate::volume::{Access, Volume, trim_slashes};

/// Copy files and directories out of a volume, without mounting it
///
/// Copies whole trees with modes, times, xattrs, hard links, holes and special files, and as root with owners. If DST
/// is a directory, PATH gets its own name in it (the contents of `/` go straight into it); otherwise PATH becomes DST.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "steadyfs get [OPTIONS] DEVICE PATH DST\n       steadyfs get [OPTIONS] --tar FILE DEVICE [PATH]",
    after_help = "Examples:\n  steadyfs get image.img / out\n  steadyfs get --tar - image.img /etc | tar t"
)]
pub(crate) struct Args {
    /// Write a tar file, or to standard output for `-`
    #[arg(long, value_name = "FILE", conflicts_with = "destination")]
    tar: Option<PathBuf>,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device
    device: PathBuf,
    /// Path in the volume
    #[arg(default_value = "/", hide_default_value = true)]
    path: PathArg,
    /// Where to on the host
    #[arg(value_name = "DST", required_unless_present = "tar")]
    destination: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    Volume::with(&args.device, args.image, Access::Read, |volume| {
        let path = trim_slashes(args.path.bytes());
        let found = volume.find(path, true)?;
        let own_name = split(path).1.to_vec();
        match (&args.tar, &args.destination) {
            (Some(file), _) if file.as_os_str() == "-" => send(
                volume,
                found,
                own_name,
                &mut TarSink::new(io::BufWriter::with_capacity(1 << 20, io::stdout().lock())),
            ),
            (Some(file), _) => {
                let out = File::create(file).map_err(|e| cannot_write(file, &e))?;
                send(volume, found, own_name, &mut TarSink::new(io::BufWriter::with_capacity(1 << 20, out)))
            }
            (None, Some(destination)) => {
                let (dir, name) = place(destination, own_name, &found)?;
                let mut sink = HostSink::open(&dir).map_err(|e| cannot_write(&dir, &e))?;
                send(volume, found, name, &mut sink)
            }
            (None, None) => Err(Failure::usage("cannot copy", "DST is missing", "see `steadyfs get --help`")),
        }
    })
}

fn send(volume: &Volume, found: InodeRef, name: Vec<u8>, sink: &mut dyn Sink) -> Result<ExitCode, Failure> {
    let mut source = VolumeSource::new(volume, vec![(found, name)]);
    let mut job = Job::new(Progress::new(|| Some(source.total())));
    copy(&mut source, sink, &mut job)?;
    Ok(left_out(&job.notes))
}

/// The directory of the host that receives the copy, and the name there; empty if the contents go into it.
fn place(destination: &Path, own_name: Vec<u8>, found: &InodeRef) -> Result<(PathBuf, Vec<u8>), Failure> {
    if destination.is_dir() {
        return Ok((destination.to_owned(), own_name));
    }
    // The root has no name: its contents become a new directory.
    if own_name.is_empty() && found.kind() == FileType::Dir {
        std::fs::create_dir(destination).map_err(|e| cannot_write(destination, &e))?;
        return Ok((destination.to_owned(), Vec::new()));
    }
    let name = destination.file_name().ok_or_else(|| cannot_write(destination, &io::ErrorKind::NotFound.into()))?;
    let parent = destination.parent().unwrap_or(Path::new("."));
    Ok((parent.to_owned(), name.as_bytes().to_vec()))
}

fn cannot_write(path: &Path, e: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}", path.display()), e, "choose a directory that you may write")
}
