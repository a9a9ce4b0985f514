//! Volumes named on the command line, and the words for what the file system refuses.

use std::path::Path;

use steadyfs_core::Error;
use steadyfs_core::raw::Image;
use steadyfs_format::FormatError;

use crate::failure::Failure;
use crate::image::{self, ImageArgs};

/// Opens the volume in `path` for looking at its structures; nothing is mounted or written.
pub(crate) fn open_raw(path: &Path, args: ImageArgs) -> Result<Image, Failure> {
    Image::open(image::open(path, args.for_reading())?).map_err(|e| open_failure(path, &e))
}

/// The line for a volume that cannot be opened.
pub(crate) fn open_failure(path: &Path, e: &Error) -> Failure {
    failure(format!("cannot open the volume in {}", path.display()), e)
}

/// The line for an operation that the file system refused.
pub(crate) fn failure(what: impl Into<String>, e: &Error) -> Failure {
    match e {
        Error::Corrupt(why) => {
            Failure::new(what, why, "check the volume with `steadyfs fsck`, or get the whole image again")
        }
        Error::Format(FormatError::Magic { .. }) => Failure::new(
            what,
            "there is no F2FS volume",
            "check the file and --offset, or make a volume with `steadyfs mkfs`",
        ),
        Error::Format(why) => Failure::new(what, why, "check the volume with `steadyfs fsck`"),
        Error::Io(why) => Failure::new(what, why, "check that the image is complete, and the disk it is on"),
        Error::NoSpace => Failure::new(what, e, "remove something, or make a larger volume"),
        Error::NotFound => Failure::new(what, e, "check the name"),
        Error::ReadOnly(_) | Error::Unsupported(_) => Failure::new(what, e, "see `steadyfs info`"),
        _ => Failure::new(what, e, "check the arguments"),
    }
}
