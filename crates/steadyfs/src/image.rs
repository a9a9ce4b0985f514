//! Opening what the user named as DEVICE: the same options and the same words for every command.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use steadyfs_core::mkfs::detect_signature;
use steadyfs_device::{BLOCK_SIZE, Device, OpenError, OpenOptions, open_image};

use crate::failure::Failure;
use crate::partitions::{self, Partition, Table};
use crate::size::{Size, human};
use crate::text::warn;

/// Options of every command that takes a DEVICE.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ImageArgs {
    /// Where the volume starts in DEVICE (bytes, or with a suffix K, M, G)
    #[arg(long, value_name = "OFFSET", default_value = "0", hide_default_value = true)]
    pub(crate) offset: Size,
    /// Partition of DEVICE, a whole disk, that holds the volume: its number in the MBR or GPT
    #[arg(long, value_name = "N", conflicts_with = "offset")]
    pub(crate) partition: Option<u32>,
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
    /// Whether the volume is all of the device, as far as the user says.
    pub(crate) fn is_whole(self) -> bool {
        self.offset.0 == 0 && self.partition.is_none()
    }

    /// How to open the device for reading only; it is shared with other readers.
    pub(crate) fn for_reading(self, path: &Path) -> Result<OpenOptions, Failure> {
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        self.partition.map_or(Ok(OpenOptions { offset_bytes: self.offset.0, ..options }), |number| {
            let (_, partition) = find_partition(path, number)?;
            Ok(OpenOptions { offset_bytes: partition.start, size: Some(partition.bytes), ..options })
        })
    }

    /// How to open the device for changing the volume; nobody else can use it meanwhile.
    pub(crate) fn for_writing(self, path: &Path) -> Result<OpenOptions, Failure> {
        if let Some(number) = self.partition {
            let (table, partition) = find_partition(path, number)?;
            let overlaps = |other: &&Partition| other.start < partition.end() && partition.start < other.end();
            if let Some(other) = table.partitions.iter().filter(|other| other.number != number).find(overlaps) {
                let why = format!("it shares bytes with partition {}", other.number);
                let hint = "mend the partition table, or give --offset if you know better";
                return Err(Failure::new(format!("cannot change partition {number} of {}", path.display()), why, hint));
            }
        }
        Ok(OpenOptions { read_only: false, ..self.for_reading(path)? })
    }
}

/// The partition table of the disk, whichever process uses it; `None` if there is none.
pub(crate) fn partitions(path: &Path) -> Result<Option<Table>, Failure> {
    let options = OpenOptions { read_only: true, despite_writers: true, ..OpenOptions::default() };
    let disk = open(path, options)?;
    partitions::read(&*disk).map_err(|e| {
        let what = format!("cannot read the partition table of {}", path.display());
        Failure::new(what, e, "check that the image is complete, and the disk it is on")
    })
}

/// The partition of this number, which lies on the disk, and its table.
fn find_partition(path: &Path, number: u32) -> Result<(Table, Partition), Failure> {
    let what = || format!("cannot find partition {number} of {}", path.display());
    let Some(table) = partitions(path)? else {
        let why = "there is no partition table that is whole";
        return Err(Failure::usage(what(), why, "leave out --partition, or say with --offset where the volume starts"));
    };
    let Some(partition) = table.partitions.iter().find(|partition| partition.number == number).cloned() else {
        let all: Vec<String> = table.partitions.iter().take(TOLD).map(|other| other.number.to_string()).collect();
        let why = format!("the {} partition table has {}", table.scheme, all.join(", "));
        return Err(Failure::usage(what(), why, "give one of these numbers"));
    };
    let disk = open(path, OpenOptions { read_only: true, despite_writers: true, ..OpenOptions::default() })?;
    if !lies_on(&*disk, &partition) {
        let why = "the table says that it ends beyond the disk, or has no length";
        return Err(Failure::new(what(), why, "get the whole image again, or mend the partition table"));
    }
    Ok((table, partition))
}

/// Whether the device has all of the partition. The rest of a block at the end of a device counts as there.
fn lies_on(disk: &dyn Device, partition: &Partition) -> bool {
    let block = BLOCK_SIZE as u64;
    partition.bytes >= block && partition.end() < disk.info().blocks.saturating_add(1).saturating_mul(block)
}

/// Partitions that a line lists.
pub(crate) const TOLD: usize = 16;

/// The names that [`detect_signature`] has for what this program opens.
const OURS: [&str; 4] = ["f2fs", "f2fs with a metadata journal", "d2fs", "iplfs"];

/// The line for a device that holds no volume where one was looked for, and a partition table: its partitions, and
/// which of them is a volume. `None` if there is no such table.
pub(crate) fn disk_failure(what: &str, path: &Path) -> Option<Failure> {
    let table = partitions(path).ok()??;
    let disk = open(path, OpenOptions { read_only: true, despite_writers: true, ..OpenOptions::default() }).ok()?;
    let (mut told, mut ours) = (Vec::new(), Vec::new());
    for partition in &table.partitions {
        let held = if lies_on(&*disk, partition) { held(path, partition) } else { Some("not all of it is there") };
        let held = held.map(|name| format!(", {name}")).unwrap_or_default();
        if OURS.iter().any(|name| held.strip_prefix(", ") == Some(name)) {
            ours.push(partition.number);
        }
        let (start, size) = (human(partition.start), human(partition.bytes));
        told.push(format!("{} at {start} ({size}, {}{held})", partition.number, partition.label));
    }
    let more = told.len().saturating_sub(TOLD);
    told.truncate(TOLD);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let why = format!("it is a whole disk ({} partition table) with {}{more}", table.scheme, told.join(", "));
    let hint = match ours.as_slice() {
        [] => "no partition holds a volume that this program knows; check the file".to_owned(),
        [number] => format!("add `--partition {number}`"),
        _ => "say which one with `--partition N`".to_owned(),
    };
    Some(Failure::new(what, why, hint))
}

/// What a partition holds, if that is known.
fn held(path: &Path, partition: &Partition) -> Option<&'static str> {
    let options = OpenOptions { read_only: true, despite_writers: true, ..OpenOptions::default() };
    let options = OpenOptions { offset_bytes: partition.start, size: Some(partition.bytes), ..options };
    detect_signature(&*open_image(path, options).ok()?).ok()?
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
    let options = args.for_reading(path)?;
    match open_image(path, options) {
        Ok(device) => Ok(Looked { device, in_use: false }),
        Err(OpenError::InUse { .. }) => {
            let device = open(path, OpenOptions { despite_writers: true, ..options })?;
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
