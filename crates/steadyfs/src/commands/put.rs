//! `steadyfs put`: copies trees of the host, or a tar stream, into a volume.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};
use steadyfs_core::InodeRef;
use steadyfs_format::dir::FileType;

use crate::commands::copied;
use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::interrupt::Interrupt;
use crate::talk::End;
use crate::transfer::host::{HostSource, Root};
use crate::transfer::host_dir::base_name;
use crate::transfer::tar_source::TarSource;
use crate::transfer::volume_sink::VolumeSink;
use crate::transfer::{Job, Progress, copy};
use crate::volume::{Access, Volume, show_absolute};

/// Copy files and directories into a volume, without mounting it
///
/// Copies whole trees with owners, modes, times, xattrs, hard links, holes and special files. If PATH is a directory of
/// the volume, each SRC gets its own name in it; otherwise the one SRC becomes PATH. `SRC/.` stands for the contents of
/// a directory. What cannot be read below a SRC, or is gone when its turn comes, is left out with a line, and the exit
/// code is 1. Ctrl-C ends the copy with what was copied until then.
///
/// Of a tar file access control lists, labels of SELinux and holes are kept, too, as GNU tar, star and bsdtar write
/// them. Owners are taken by number, and so are users and groups in lists, which count by name where no number is.
/// What gives rights and cannot be kept is told by member, and makes exit code 1; other keys are told once at the end.
///
/// With --json: entries (names that were copied), bytes (lengths of their files), left_out (things that could not be
/// kept, each with a line).
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "steadyfs put [OPTIONS] SRC... DEVICE PATH\n       steadyfs put [OPTIONS] --tar FILE DEVICE PATH",
    after_help = "Examples:\n  steadyfs put rootfs/. image.img /\n  tar c etc | steadyfs put --tar - image.img /"
)]
pub(crate) struct Args {
    /// Unpack a tar file, or standard input for `-`, below PATH
    #[arg(long, value_name = "FILE")]
    tar: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) end: End,
    #[command(flatten)]
    image: ImageArgs,
    /// What to copy, then image file or block device, then path in the volume
    #[arg(required = true, value_name = "SRC... DEVICE PATH")]
    operands: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let [sources @ .., device, path] = args.operands.as_slice() else {
        return Err(wrong_operands("DEVICE and PATH are missing"));
    };
    let (device, path) = (Path::new(device), path.as_bytes());
    match (&args.tar, sources) {
        (Some(file), []) => put_tar(args, file, device, path),
        (Some(_), _) => Err(wrong_operands("--tar takes no SRC")),
        (None, []) => Err(wrong_operands("SRC is missing")),
        (None, sources) => put_trees(args, sources, device, path),
    }
}

fn wrong_operands(why: &str) -> Failure {
    Failure::usage("cannot copy", why, "see `steadyfs put --help`")
}

fn put_trees(args: &Args, sources: &[OsString], device: &Path, path: &[u8]) -> Result<ExitCode, Failure> {
    for source in sources {
        // Found out before the volume is touched.
        std::fs::symlink_metadata(source)
            .map_err(|e| Failure::new(format!("cannot read {}", Path::new(source).display()), e, "check the name"))?;
    }
    let (stop, talk) = (interrupt()?, args.end.talk);
    Volume::with(device, args.image, Access::Write, |volume| {
        let (top, name) = destination(volume, path)?;
        if name.is_some() && sources.len() > 1 {
            let why = "it is not a directory of the volume";
            return Err(Failure::new(
                format!("cannot copy several files to {}", show_absolute(path)),
                why,
                "make it first with `steadyfs mkdir`",
            ));
        }
        let roots = sources.iter().map(|source| root(source, name.as_deref())).collect::<Result<Vec<_>, _>>()?;
        let mut source = HostSource::new(roots);
        let mut job = Job::new(Progress::new(talk, || Some(source.total())).until(stop)).telling(talk.verbose);
        copy(&mut source, &mut VolumeSink::new(volume, top), &mut job)?;
        copied(&job, args.end)
    })
}

/// The first signal ends the copy with a checkpoint, the second one ends the process.
fn interrupt() -> Result<Interrupt, Failure> {
    Interrupt::once(&[SIGINT, SIGTERM], &Arc::default())
        .map_err(|e| Failure::new("cannot copy", e, "see what limits the process"))
}

/// The directory of the volume that receives the copy, and the new name in it unless PATH is a directory already.
fn destination(volume: &Volume, path: &[u8]) -> Result<(InodeRef, Option<Vec<u8>>), Failure> {
    if let Ok(found) = volume.find(path, true)
        && found.kind() == FileType::Dir
    {
        return Ok((found, None));
    }
    let (parent, name) = volume.parent(path)?;
    Ok((parent, Some(name)))
}

/// A SRC and the path that it gets below the destination.
fn root(source: &OsString, name: Option<&[u8]>) -> Result<Root, Failure> {
    let path = PathBuf::from(source);
    let contents = matches!(source.as_bytes(), b"." | [.., b'/', b'.']);
    let to = match name {
        Some(name) => name.to_vec(),
        None if contents => Vec::new(),
        None => base_name(&path)
            .map_err(|e| Failure::new(format!("cannot read {}", path.display()), e, "check the name"))?
            .unwrap_or_default(),
    };
    Ok(Root { path, to })
}

fn put_tar(args: &Args, file: &Path, device: &Path, path: &[u8]) -> Result<ExitCode, Failure> {
    let (stop, talk) = (interrupt()?, args.end.talk);
    let input: Box<dyn Read> = if file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(
            File::open(file)
                .map_err(|e| Failure::new(format!("cannot read {}", file.display()), e, "check the name"))?,
        )
    };
    Volume::with(device, args.image, Access::Write, |volume| {
        let top = volume.find(path, true)?;
        if top.kind() != FileType::Dir {
            let what = format!("cannot unpack to {}", show_absolute(path));
            return Err(Failure::new(what, "it is not a directory of the volume", "choose a directory"));
        }
        let mut job = Job::new(Progress::new(talk, || None).until(stop)).telling(talk.verbose);
        let mut source = TarSource::new(io::BufReader::with_capacity(1 << 20, input));
        copy(&mut source, &mut VolumeSink::new(volume, top), &mut job)?;
        copied(&job, args.end)
    })
}
