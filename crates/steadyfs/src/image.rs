//! Opening what the user named as DEVICE: the same options and the same words for every command.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use steadyfs_device::{Device, OpenError, OpenOptions, open_image};

use crate::failure::Failure;
use crate::size::Size;
use crate::text::warn;

/// Options of every command that takes a DEVICE.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ImageArgs {
    /// Where the volume starts in DEVICE (bytes, or with a suffix K, M, G)
    #[arg(long, value_name = "OFFSET", default_value = "0", hide_default_value = true)]
    pub(crate) offset: Size,
}

/// The DEVICE of a command that is told nothing else.
#[derive(Debug, clap::Args)]
pub(crate) struct DeviceArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    /// Image file or block device
    pub(crate) device: PathBuf,
}

impl ImageArgs {
    /// How to open the device for reading only; it is shared with other readers.
    pub(crate) fn for_reading(self) -> OpenOptions {
        OpenOptions { read_only: true, offset_bytes: self.offset.0, ..OpenOptions::default() }
    }

    /// How to open the device for changing the volume; nobody else can use it meanwhile.
    pub(crate) fn for_writing(self) -> OpenOptions {
        OpenOptions { offset_bytes: self.offset.0, ..OpenOptions::default() }
    }
}

/// Opens an image or block device.
pub(crate) fn open(path: &Path, options: OpenOptions) -> Result<Arc<dyn Device>, Failure> {
    open_image(path, options).map_err(|e| open_failure(path, &e))
}

/// A device that is looked at.
pub(crate) struct Looked {
    /// The device; it cannot be written to.
    pub(crate) device: Arc<dyn Device>,
    /// Somebody else has it open for writing: it may change between two reads.
    pub(crate) in_use: bool,
}

/// Said once, however often a command opens the device.
static SAID: Once = Once::new();

/// Opens an image or block device for looking at it, also while it is mounted or otherwise written to; then one line on
/// standard error says so.
pub(crate) fn look(path: &Path, args: ImageArgs) -> Result<Looked, Failure> {
    match open_image(path, args.for_reading()) {
        Ok(device) => Ok(Looked { device, in_use: false }),
        Err(OpenError::InUse { .. }) => {
            let options = OpenOptions { despite_writers: true, ..args.for_reading() };
            let device = open(path, options)?;
            SAID.call_once(|| {
                let who = in_use(path);
                warn(&format!("{}: {who}; this is its last checkpoint, which may change meanwhile", path.display()));
            });
            Ok(Looked { device, in_use: true })
        }
        Err(e) => Err(open_failure(path, &e)),
    }
}

/// Who uses the device, as far as the mount table says.
fn in_use(path: &Path) -> String {
    match steadyfs_fuse::mounted_at(path) {
        Some(dir) => format!("it is in use, mounted on {}", dir.display()),
        None => "it is in use by another process".to_owned(),
    }
}

/// The line for a device that cannot be opened.
pub(crate) fn open_failure(path: &Path, e: &OpenError) -> Failure {
    let what = format!("cannot open {}", path.display());
    let (why, hint) = match e {
        OpenError::System { source, .. } => {
            let hint = match source.kind() {
                ErrorKind::NotFound => "check the name",
                ErrorKind::PermissionDenied => "change its permissions, or run as a user who may",
                _ => "check the disk that it is on",
            };
            (source.to_string(), hint)
        }
        OpenError::WriteProtected { why, .. } => ((*why).to_owned(), "make it writable, or work on a copy"),
        OpenError::InUse { .. } => (in_use(path), "unmount it, or wait until the process ends"),
        OpenError::NotADevice { what: kind, .. } => {
            (format!("it is {kind}"), "give an image file, a chunk directory or a block device")
        }
        OpenError::TooSmall { have, want, .. } => (
            format!("it has {have} bytes after the offset, {want} are needed"),
            "check --offset and the size of the file",
        ),
        OpenError::Unsupported { reason, .. } => (reason.clone(), "see `steadyfs --help`"),
        OpenError::Sparse { reason, .. } => {
            (format!("the Android sparse image is damaged: {reason}"), "get the image again")
        }
    };
    Failure::new(what, why, hint)
}
