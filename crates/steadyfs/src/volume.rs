//! Volumes named on the command line: mounted inside this process and left clean, and the words for what the file
//! system refuses.
//!
//! Commands that only look open the device read-only, so nothing they do can write to it; they need no root, and share
//! the device with other readers.

use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
pub(crate) use steadyfs::path::trim_slashes;
use steadyfs::path::{resolve, split};
use steadyfs_core::raw::Image;
use steadyfs_core::{Error, Fs, InodeRef, MountOptions};
use steadyfs_device::Device;
use steadyfs_format::dir::{FileType, is_valid_name};
use steadyfs_format::quote::quote;
use steadyfs_format::{FormatError, Ino};

use crate::failure::Failure;
use crate::image::{self, ImageArgs, Looked};
use crate::text::warn;
use crate::transfer::show;

/// How often a volume that somebody else writes to is read again when it does not make sense: one checkpoint may come
/// in between, hardly two.
pub(crate) const TRIES: u32 = 3;

/// What a command does with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Looks at it.
    Read,
    /// Changes it.
    Write,
}

/// A mounted volume.
pub(crate) struct Volume {
    pub(crate) fs: Arc<Fs>,
    name: String,
    /// Of a device that somebody else writes to: the version of the checkpoint that is shown.
    moving: Option<Moving>,
}

/// A volume that may change while it is looked at.
struct Moving {
    device: Arc<dyn Device>,
    version: u64,
}

impl Moving {
    /// Whether the checkpoint that is shown is still the last one: until then nothing is overwritten that belongs to
    /// it, except contents that are written in place.
    fn stood_still(&self) -> bool {
        version(&self.device).is_ok_and(|version| version == self.version)
    }
}

/// The version of the last checkpoint.
fn version(device: &Arc<dyn Device>) -> Result<u64, Error> {
    Ok(Image::open(Arc::clone(device))?.checkpoint().header().version())
}

impl Volume {
    /// Mounts the volume in `path`.
    pub(crate) fn open(path: &Path, args: ImageArgs, access: Access) -> Result<Self, Failure> {
        let read_only = access == Access::Read;
        if read_only {
            let Looked { device, in_use } = image::look(path, args)?;
            if in_use {
                return Volume::at_checkpoint(path, device);
            }
        }
        let options = if read_only { args.for_reading(path) } else { args.for_writing(path) }?;
        let device = image::open(path, options)?;
        // The user of a command waits for it: nothing is done in the background.
        let options = MountOptions { read_only, background_gc: false, ..MountOptions::default() };
        let fs = Fs::mount(device, options).map_err(|e| open_failure(path, &e))?;
        Ok(Volume { fs, name: path.display().to_string(), moving: None })
    }

    /// Shows the last checkpoint of a volume, which somebody else may write to.
    fn at_checkpoint(path: &Path, device: Arc<dyn Device>) -> Result<Self, Failure> {
        // Chains after the checkpoint may be half written: they are left out.
        let options =
            MountOptions { read_only: true, discard_unreplayed: true, background_gc: false, ..MountOptions::default() };
        let mut tries = 0;
        loop {
            tries += 1;
            let mounted =
                version(&device).and_then(|version| Ok((version, Fs::mount(Arc::clone(&device), options.clone())?)));
            match mounted {
                Ok((version, fs)) => {
                    let moving = Some(Moving { device, version });
                    return Ok(Volume { fs, name: path.display().to_string(), moving });
                }
                Err(_) if tries < TRIES => {}
                Err(e) => return Err(open_failure(path, &e)),
            }
        }
    }

    /// Opens the volume, lets `work` use it, and closes it: also after a failure, so that what was done is kept whole.
    pub(crate) fn with<T>(
        path: &Path,
        args: ImageArgs,
        access: Access,
        work: impl FnOnce(&Volume) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let volume = Volume::open(path, args, access)?;
        let result = work(&volume);
        if volume.moving.as_ref().is_some_and(|moving| !moving.stood_still()) {
            let whole = if result.is_ok() { "this may mix the state before and after it" } else { "try again" };
            warn(&format!("{}: there was a checkpoint while it was read; {whole}", volume.name));
        }
        let what = format!("cannot finish writing {}", volume.name);
        let closed = volume.fs.unmount().map_err(|e| failure(what, &e));
        let result = result?;
        closed?;
        Ok(result)
    }

    /// The inode at `path`; a symlink at its end is followed if `follow`.
    pub(crate) fn find(&self, path: &[u8], follow: bool) -> Result<InodeRef, Failure> {
        resolve(&self.fs, path, follow)
            .map_err(|e| failure(format!("cannot find {} in {}", show_absolute(path), self.name), &e))
    }

    /// The directory that holds the last part of `path`, and that part. The part itself need not exist.
    pub(crate) fn parent(&self, path: &[u8]) -> Result<(InodeRef, Vec<u8>), Failure> {
        let trimmed = trim_slashes(path);
        let (dir, name) = split(trimmed);
        if !is_valid_name(name) {
            let why = "the last part of the path is no name of a file";
            return Err(Failure::usage(format!("cannot use {}", show_absolute(path)), why, "end the path with a name"));
        }
        let found = self.find(dir, true)?;
        if found.kind() != FileType::Dir {
            return Err(failure(format!("cannot use {}", show_absolute(path)), &Error::NotDirectory));
        }
        Ok((found, name.to_vec()))
    }

    /// The entries of a directory (without `.` and `..`) as (name, inode number), sorted by name.
    pub(crate) fn entries(&self, dir: &InodeRef) -> Result<Vec<(Vec<u8>, Ino)>, Error> {
        let entries = steadyfs::path::entries(&self.fs, dir)?;
        Ok(entries.into_iter().map(|entry| (entry.name.into_vec(), entry.ino)).collect())
    }
}

/// A path in a volume for a message: always from the root.
pub(crate) fn show_absolute(path: &[u8]) -> String {
    let path = trim_slashes(path);
    if path.first() == Some(&b'/') { show(path) } else { format!("/{}", quote(path)) }
}

/// Opens the volume in `path` for looking at its structures, also while somebody else writes to it; nothing is mounted
/// or written.
pub(crate) fn open_raw(path: &Path, args: ImageArgs) -> Result<Image, Failure> {
    let looked = image::look(path, args)?;
    let tries = if looked.in_use { TRIES } else { 1 };
    let whole = |image: &Result<Image, Error>| image.as_ref().is_ok_and(|image| image.damage().is_empty());
    let again = (1..tries).map(|_| Image::open(Arc::clone(&looked.device))).find(whole);
    let image = again.unwrap_or_else(|| Image::open(looked.device)).map_err(|e| open_failure(path, &e))?;
    for damage in image.damage() {
        tracing::warn!("{damage}; it is left out");
    }
    Ok(image)
}

/// The number of the inode at `file` as of the last checkpoint, which is the state that [`open_raw`] shows. A symlink
/// is not followed.
pub(crate) fn find_at_checkpoint(path: &Path, args: ImageArgs, file: &[u8]) -> Result<Ino, Failure> {
    let volume = Volume::at_checkpoint(path, image::look(path, args)?.device)?;
    volume.find(file, false).map(|inode| inode.ino())
}

/// As [`open_raw`], but refuses a volume that somebody else writes to.
pub(crate) fn open_unused(path: &Path, args: ImageArgs) -> Result<Image, Failure> {
    Image::open(image::open(path, args.for_reading(path)?)?).map_err(|e| open_failure(path, &e))
}

/// The line for a volume that cannot be opened. It names the contents instead, if these are partitions.
pub(crate) fn open_failure(path: &Path, e: &Error) -> Failure {
    let what = format!("cannot open the volume in {}", path.display());
    let told = match e {
        Error::Format(FormatError::Magic { .. }) => image::disk_failure(&what, path),
        _ => None,
    };
    told.unwrap_or_else(|| failure(what, e))
}

/// The line for an operation that the file system refused.
pub(crate) fn failure(what: impl Into<String>, e: &Error) -> Failure {
    match e {
        Error::Mount { step, cause } => failure(format!("{}, at mount step {step}", what.into()), cause),
        Error::Corrupt(why) => {
            Failure::new(what, why, "check the volume with `steadyfs fsck`, or get the whole image again")
        }
        Error::Format(FormatError::Magic { .. }) => Failure::new(
            what,
            "there is no F2FS volume",
            "check the file, --offset and --partition, or make a volume with `steadyfs mkfs`",
        ),
        Error::Format(why @ FormatError::BlockSize { .. }) => {
            Failure::new(what, why, "mount it on a Linux whose pages have that size")
        }
        Error::Format(why @ FormatError::Devices { .. }) => Failure::new(what, why, "mount it on Linux"),
        Error::Format(why) => Failure::new(what, why, "check the volume with `steadyfs fsck`"),
        Error::Io(_) if e.errno() == Errno::NOSPC.raw_os_error() => {
            Failure::new(what, "the disk that the image is on is full", "make room there")
        }
        Error::Io(why) => Failure::new(what, why, "check that the image is complete, and the disk it is on"),
        Error::Recovery(why) => Failure::new(
            what,
            format_args!("what was fsynced after the last checkpoint cannot be recovered: {why}"),
            "check the volume with `steadyfs fsck`, or mount it with `-o disable_roll_forward`",
        ),
        Error::NoSpace => Failure::new(what, e, "remove something, or make a larger volume"),
        Error::NotFound => Failure::new(what, e, "check the name"),
        Error::ReadOnly(_) | Error::Unsupported(_) => Failure::new(what, e, "see `steadyfs info`"),
        _ => Failure::new(what, e, "check the arguments"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadyfs_device::{IoError, OpKind};

    #[test]
    fn a_full_disk_is_not_a_bad_one() {
        let line = |errno: Errno| {
            let error = Error::Io(IoError::from_errno(OpKind::Write, 0, 1, errno.raw_os_error()));
            failure("cannot", &error).to_string()
        };
        assert_eq!(line(Errno::NOSPC), "steadyfs: cannot: the disk that the image is on is full; make room there");
        assert!(line(Errno::IO).ends_with("check that the image is complete, and the disk it is on"));
    }
}
