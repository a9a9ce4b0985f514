//! `steadyfs get`: copies a tree out of a volume, to the host or as a tar stream.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::Mode;
use steadyfs_core::InodeRef;
use steadyfs_device::{PRIVATE, create_file};
use steadyfs_format::dir::FileType;

use crate::commands::copied;
use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::talk::End;
use crate::text::PathArg;
use crate::transfer::host_sink::{HostSink, Keep};
use crate::transfer::tar_sink::TarSink;
use crate::transfer::volume_source::VolumeSource;
use crate::transfer::{Job, Progress, Sink, copy, split};
use crate::volume::{Access, Volume, trim_slashes};

/// Copy files and directories out of a volume, without mounting it
///
/// Copies whole trees with modes, times, xattrs, hard links, holes and special files. Root also gets owners, set-id
/// bits, access control lists, device nodes and the attributes `security.*` and `trusted.*`, unless told otherwise:
/// leave them out of a volume that is not trusted. Other users get none of these, and their umask counts. If DST is a
/// directory, PATH gets its own name in it (the contents of `/` go straight into it); otherwise PATH becomes DST.
///
/// With --json: entries (names that were copied), bytes (lengths of their files), left_out (things that could not be
/// kept, each with a line).
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "steadyfs get [OPTIONS] DEVICE PATH DST\n       steadyfs get [OPTIONS] --tar FILE DEVICE [PATH]",
    after_help = "Examples:\n  steadyfs get image.img / out\n  steadyfs get --tar - image.img /etc | tar t"
)]
pub(crate) struct Args {
    /// Write a tar file, which only its owner may read, or to standard output for `-`
    #[arg(long, value_name = "FILE", conflicts_with = "destination")]
    tar: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) end: End,
    #[command(flatten)]
    rights: Rights,
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

/// What of the volume may give rights on the host; names and defaults as in tar(1) and rsync(1). A tar stream has
/// everything: its reader decides.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Rights {
    /// Everything belongs to the caller, and set-id bits, access control lists, `security.*` and `trusted.*` attributes
    /// are left out
    #[arg(long, conflicts_with = "tar")]
    no_same_owner: bool,
    /// Keep all permissions: the umask does not count, set-id bits and access control lists stay (as root the default)
    #[arg(short = 'p', long, visible_alias = "preserve-permissions", conflicts_with = "tar")]
    same_permissions: bool,
    /// The umask counts, and set-id bits, access control lists, `security.*` and `trusted.*` attributes are left out
    /// (not as root the default)
    #[arg(long, conflicts_with_all = ["tar", "same_permissions"])]
    no_same_permissions: bool,
    /// Make no device nodes
    #[arg(long, conflicts_with = "tar")]
    no_devices: bool,
}

impl Rights {
    /// What this user keeps. Set-id bits would lend the rights of an owner, so they go where the owner goes, unless
    /// asked for.
    fn keep(self) -> Keep {
        let root = rustix::process::geteuid().is_root();
        let owner = root && !self.no_same_owner;
        let exact = self.same_permissions || (root && !self.no_same_permissions);
        Keep {
            owner,
            set_id: self.same_permissions || (exact && owner),
            umask: if exact { 0 } else { umask() },
            devices: root && !self.no_devices,
            lists: self.same_permissions || (exact && owner),
            privileged: owner && exact,
        }
    }
}

/// The umask of this process, which can be asked only by setting it.
fn umask() -> u32 {
    let mask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.end.json && args.tar.as_ref().is_some_and(|file| file.as_os_str() == "-") {
        return Err(Failure::usage("cannot print JSON", "the tar file goes to standard output", "name a file for it"));
    }
    Volume::with(&args.device, args.image, Access::Read, |volume| {
        let path = trim_slashes(args.path.bytes());
        let found = volume.find(path, true)?;
        let own_name = split(path).1.to_vec();
        match (&args.tar, &args.destination) {
            (Some(file), _) if file.as_os_str() == "-" => send(
                (volume, args.end),
                found,
                own_name,
                &mut TarSink::new(io::BufWriter::with_capacity(1 << 20, io::stdout().lock())),
            ),
            (Some(file), _) => {
                let out = create_archive(file).map_err(|e| cannot_write(file, &e))?;
                send((volume, args.end), found, own_name, &mut TarSink::new(io::BufWriter::with_capacity(1 << 20, out)))
            }
            (None, Some(destination)) => {
                let (dir, name) = place(destination, own_name, &found)?;
                let mut sink = HostSink::open(&dir, args.rights.keep()).map_err(|e| cannot_write(&dir, &e))?;
                send((volume, args.end), found, name, &mut sink)
            }
            (None, None) => Err(Failure::usage("cannot copy", "DST is missing", "see `steadyfs get --help`")),
        }
    })
}

/// Makes the file of an archive. It holds what the volume holds, so only its owner may read it; one that is there keeps
/// its permissions.
fn create_archive(path: &Path) -> io::Result<File> {
    let owner = rustix::process::geteuid().as_raw();
    let is_ours = |meta: Metadata| meta.is_symlink() && [0, owner].contains(&meta.uid());
    match create_file(path, PRIVATE) {
        // A link of the caller's own, or of the system, as /dev/stdout is, to something that is there.
        Err(_) if std::fs::symlink_metadata(path).is_ok_and(is_ours) => {
            File::options().write(true).truncate(true).open(path)
        }
        made => made,
    }
}

fn send(
    (volume, end): (&Volume, End),
    found: InodeRef,
    name: Vec<u8>,
    sink: &mut dyn Sink,
) -> Result<ExitCode, Failure> {
    let mut source = VolumeSource::new(volume, vec![(found, name)]);
    let mut job = Job::new(Progress::new(end.talk, || Some(source.total()))).telling(end.talk.verbose);
    copy(&mut source, sink, &mut job)?;
    copied(&job, end)
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
