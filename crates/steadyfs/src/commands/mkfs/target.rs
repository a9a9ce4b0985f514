//! What a volume is made on: an existing device or image, or a file or chunk directory that is made for it.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use steadyfs_core::mkfs::{MkfsOptions, detect_signature};
use steadyfs_device::{ChunkDevice, Device, FileDevice, MemDevice, MigratingDevice, OpenError, OpenOptions};
use steadyfs_format::BLOCK_SIZE;

use super::d2fs;
use crate::failure::Failure;
use crate::image::{ImageArgs, open_failure};
use crate::size::{Size, human};
use crate::volume::failure;

/// An opened target.
pub(super) struct Target {
    device: Box<dyn Device>,
    path: PathBuf,
    /// The file or directory was made for the volume.
    created: bool,
    /// The file must have this length at the end.
    length: Option<u64>,
    /// Number of the block device, if it is one.
    block_device: Option<u64>,
}

impl Target {
    /// Opens `path`, or makes a file of `size` there, or a chunk directory, if the path ends with a slash or is a
    /// directory. Refuses what is in use, and without `force` what holds something.
    pub(super) fn open(
        path: &Path,
        args: ImageArgs,
        size: Option<Size>,
        dry_run: bool,
        force: bool,
    ) -> Result<Self, Failure> {
        let meta = fs::metadata(path).ok();
        let exists = meta.is_some();
        let block_device = meta.as_ref().filter(|m| m.file_type().is_block_device()).map(MetadataExt::rdev);
        let in_chunks = is_for_chunks(path);
        let is_file = block_device.is_none() && !in_chunks;
        let grows = is_file && !dry_run && args.partition.is_none();
        let length = size.filter(|_| grows).and_then(|size| args.offset.0.checked_add(size.0));
        let target = |device: Box<dyn Device>| Target {
            device,
            path: path.to_owned(),
            created: !exists && !dry_run,
            length,
            block_device,
        };
        match (exists, size) {
            (false, None) => {
                let why = "there is no such file";
                return Err(Failure::new(
                    format!("cannot make a volume on {}", path.display()),
                    why,
                    "give a SIZE to make an image file, or a directory of chunks if the name ends with a slash",
                ));
            }
            (false, Some(size)) if dry_run => return Ok(target(Box::new(MemDevice::new(size.0 / BLOCK_SIZE as u64)))),
            _ => {}
        }
        if let Some(place) = mounted_at(path) {
            let hint = format!("unmount it first: umount {place}");
            return Err(Failure::new(
                format!("will not make a volume on {}", path.display()),
                format!("it is mounted on {place}"),
                hint,
            ));
        }
        let mut options = if dry_run { args.for_reading(path) } else { args.for_writing(path) }?;
        let device: Box<dyn Device> = if in_chunks {
            Box::new(open_chunks(path, options, size)?)
        } else {
            options.size = within(path, size, options.size)?;
            options.create = length;
            Box::new(FileDevice::open(path, options).map_err(|e| match e {
                OpenError::System { source, .. } if source.kind() == ErrorKind::FileTooLarge => {
                    too_long(path, length.unwrap_or(0))
                }
                e => open_failure(path, &e),
            })?)
        };
        if !force && exists {
            let signature =
                detect_signature(&*device).map_err(|e| failure(format!("cannot read {}", path.display()), &e))?;
            if let Some(name) = signature {
                let what = format!("will not make a volume on {}", path.display());
                return Err(Failure::new(
                    what,
                    format!("it holds something already ({name})"),
                    "add -f to overwrite it",
                ));
            }
        }
        Ok(target(device))
    }

    /// Makes the directory of a device that collects, for the D2FS volume of these options.
    pub(super) fn collecting(path: &Path, options: &MkfsOptions, force: bool) -> Result<Self, Failure> {
        let created = !options.dry_run;
        let device = d2fs::open(path, options, force)?;
        Ok(Target { device, path: path.to_owned(), created, length: None, block_device: None })
    }

    /// Gives the file its length now, where that may be more than its file system takes.
    pub(super) fn lengthen(&self) -> Result<(), Failure> {
        match self.length {
            Some(length) => grow(&self.path, length).map_err(|e| match e.kind() {
                ErrorKind::FileTooLarge => too_long(&self.path, length),
                _ => Failure::new(format!("cannot give {} its size", self.path.display()), e, "make room"),
            }),
            None => Ok(()),
        }
    }

    pub(super) fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// Where the device begins on its disk, in sectors of 512 bytes.
    pub(super) fn start_sector(&self) -> u64 {
        self.queue_number("start").unwrap_or(0)
    }

    /// Bytes in a sector of the device.
    pub(super) fn sector_size(&self) -> u32 {
        let size =
            self.queue_number("queue/logical_block_size").or_else(|| self.queue_number("../queue/logical_block_size"));
        size.and_then(|size| size.try_into().ok())
            .filter(|size: &u32| size.is_power_of_two() && (512..=4096).contains(size))
            .unwrap_or(512)
    }

    /// A number that the kernel tells about the block device.
    fn queue_number(&self, name: &str) -> Option<u64> {
        let device = self.block_device?;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{name}")).ok()?.trim().parse().ok()
    }

    /// The volume is made: gives the file the length that the volume says it has.
    pub(super) fn keep(self) -> Result<(), Failure> {
        self.lengthen()
    }

    /// No volume was made: a file that was made for it goes again. Gives its name back.
    pub(super) fn abandon(self) -> PathBuf {
        if self.created {
            if MigratingDevice::is_at(&self.path) {
                d2fs::abandon(&self.path);
                return self.path;
            }
            // The failure to report is the one that led here.
            let _ = if self.path.is_dir() { fs::remove_dir_all(&self.path) } else { fs::remove_file(&self.path) };
        }
        self.path
    }
}

/// The size of a volume: as the user says, but no more than its partition has.
fn within(path: &Path, size: Option<Size>, partition: Option<u64>) -> Result<Option<u64>, Failure> {
    match (size, partition) {
        (Some(Size(size)), Some(has)) if size > has => Err(Failure::new(
            format!("cannot make a volume on {}", path.display()),
            format!("the partition has {}", human(has)),
            "leave SIZE out, or give a smaller one",
        )),
        (size, partition) => Ok(size.map(|size| size.0).or(partition)),
    }
}

/// Whether the path names a directory, which is to hold the device in chunks.
fn is_for_chunks(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Opens a chunk directory; one that is empty, or not there, is made so long first.
fn open_chunks(path: &Path, options: OpenOptions, size: Option<Size>) -> Result<ChunkDevice, Failure> {
    let (failed, exists) = (|e: OpenError| open_failure(path, &e), path.exists());
    if let Some(size) = size
        && !options.read_only
        && !ChunkDevice::is_complete(path)
    {
        ChunkDevice::create(path, size.0 / BLOCK_SIZE as u64).map_err(failed)?;
    }
    let device = ChunkDevice::open(path, options).map_err(failed).inspect_err(|_| {
        if !exists {
            // The failure to report is the one that led here.
            let _ = fs::remove_file(ChunkDevice::locked_file(path)).and_then(|()| fs::remove_dir(path));
        }
    })?;
    let length = device.info().blocks.saturating_mul(BLOCK_SIZE as u64);
    match size {
        Some(size) if size.0 / BLOCK_SIZE as u64 != device.info().blocks => Err(Failure::new(
            format!("cannot make a volume on {}", path.display()),
            format!("the chunk directory is {} long", human(length)),
            "leave SIZE out, or remove the directory",
        )),
        _ => Ok(device),
    }
}

/// Makes a file so long, if it is shorter.
fn grow(path: &Path, length: u64) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    if file.metadata()?.len() < length { file.set_len(length) } else { Ok(()) }
}

/// What to do where the host's file system does not have files this long.
fn too_long(path: &Path, bytes: u64) -> Failure {
    Failure::new(
        format!("cannot make a volume on {}", path.display()),
        format!("the file system there has no files of {}", human(bytes)),
        "name a directory, such as image.d/, put it on tmpfs, XFS or btrfs, or give a smaller SIZE: ext4 takes 15T",
    )
}

/// Where the file or device is mounted, if it is: itself, or through a loop device.
fn mounted_at(path: &Path) -> Option<String> {
    let wanted = path.canonicalize().ok()?;
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    table.lines().find_map(|line| {
        // The fields behind " - " are type and source; the fifth one before it is where it is mounted.
        let (before, after) = line.split_once(" - ")?;
        let source = PathBuf::from(after.split(' ').nth(1)?).canonicalize().ok()?;
        let place = before.split(' ').nth(4)?;
        let backing = || {
            let name = source.file_name()?.to_str()?.to_owned();
            let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()?;
            Path::new(file.trim_end()).canonicalize().ok()
        };
        (source == wanted || backing().is_some_and(|file| file == wanted)).then(|| place.to_owned())
    })
}
