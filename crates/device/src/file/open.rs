//! Opening a file device: what the path is, its lock, its size, direct I/O.

use super::locked::Locked;
use super::raw::RawFile;
use super::zones::{self, ZoneLimits};
use super::{Direct, OpenOptions};
use crate::private::PRIVATE;
use crate::{BLOCK_SIZE, DeviceInfo, OpenError, ZoneGeometry};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;
use steadyfs_rt::{now, sleep};

/// An opened and locked file, and what it is.
pub(super) struct Opened {
    pub(super) info: DeviceInfo,
    pub(super) raw: RawFile,
    /// I/O bypasses the page cache.
    pub(super) direct: bool,
    /// The zones of a zoned block device.
    pub(super) zones: Option<ZoneGeometry>,
}

/// Opens `path` as the options say.
pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<Opened, OpenError> {
    let system = |source: io::Error| OpenError::System { path: path.to_owned(), source };
    let (mut file, created) = open_locked(path, options)?;
    let prepared = (|| {
        if let Some(bytes) = options.create.filter(|_| created) {
            file.set_len(bytes).map_err(system)?;
        }
        let meta = file.metadata().map_err(system)?;
        let block_device = refuse_other_types(path, &meta)?;
        // Linux opens such a device for writing, and refuses the writes.
        if block_device && !options.read_only && is_protected(meta.rdev()) {
            return Err(OpenError::WriteProtected { path: path.to_owned(), why: "the device is set read-only" });
        }
        let len = if block_device { file.seek(SeekFrom::End(0)).map_err(system)? } else { meta.len() };
        let bytes = size(path, options, block_device, len)?;
        let limits = if block_device { zone_limits(meta.rdev()) } else { None };
        let mut blocks = bytes / BLOCK_SIZE as u64;
        let ends_early = len < options.offset_bytes.saturating_add(blocks * BLOCK_SIZE as u64);
        let raw = RawFile::new(file, options.offset_bytes, block_device, ends_early);
        let zones = match limits {
            Some(limits) => Some(open_zones(path, options, &raw, limits)?),
            None => None,
        };
        if let Some(zones) = zones {
            blocks = zones.zones * zones.size;
        }
        let direct = zones.is_some() || set_direct(path, options, &raw, block_device && !ends_early)?;
        let info = DeviceInfo {
            blocks,
            read_only: options.read_only,
            discard: !options.read_only && zones.is_none() && (!block_device || block_device_discards(meta.rdev())),
            synchronous: true,
            prefers_fua: false,
            name: path.display().to_string(),
        };
        Ok(Opened { info, raw, direct, zones })
    })();
    if created && prepared.is_err() {
        // Best effort: the error to report is why the new file could not be used.
        let _ = std::fs::remove_file(path);
    }
    prepared
}

/// How often a path that is in use is tried again.
const AGAIN: Duration = Duration::from_millis(5);

/// Opens and locks the path; true if the file was created for it.
pub(crate) fn open_locked(path: &Path, options: &OpenOptions) -> Result<(Locked, bool), OpenError> {
    let start = now();
    loop {
        let opened = open_file(path, options).and_then(|(file, created)| {
            let unlocked = options.read_only && options.despite_writers;
            let file = if unlocked { Locked::unlocked(file) } else { Locked::lock(path, file, options.read_only)? };
            Ok((file, created))
        });
        match opened {
            Err(OpenError::InUse { .. }) if start.elapsed() < options.patience => sleep(AGAIN),
            opened => return opened,
        }
    }
}

/// Opens the path, or creates a file if that is asked for and there is none; true if it was created.
fn open_file(path: &Path, options: &OpenOptions) -> Result<(File, bool), OpenError> {
    let system = |source: io::Error| OpenError::System { path: path.to_owned(), source };
    let mut flags = std::fs::OpenOptions::new();
    flags.read(true).write(!options.read_only);
    let mut claims = false;
    let mut fresh = flags.clone();
    fresh.create_new(true).mode(PRIVATE);
    let new = || fresh.open(path);
    if options.only_new && options.create.is_some() {
        return new().map(|file| (file, true)).map_err(system);
    }
    match std::fs::metadata(path) {
        Ok(meta) => {
            // Looked at before opening, since opening a pipe would wait for its other end.
            if refuse_other_types(path, &meta)? && !options.read_only && !options.own_mount {
                claims = true;
                flags.custom_flags(OFlags::EXCL.bits().cast_signed());
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && options.create.is_some() => {
            if options.read_only {
                let reason = "there is no such file, and it cannot be made read-only".to_owned();
                return Err(OpenError::Unsupported { path: path.to_owned(), reason });
            }
            match new() {
                Ok(file) => return Ok((file, true)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink()) {
                        let reason = "it is a symbolic link that leads to no file".to_owned();
                        return Err(OpenError::Unsupported { path: path.to_owned(), reason });
                    }
                    // Somebody was faster: open theirs.
                }
                Err(error) => return Err(system(error)),
            }
        }
        Err(error) => return Err(system(error)),
    }
    let opened = flags.open(path).and_then(|file| {
        if claims && options.leave_mountable {
            // Nobody has it mounted; the claim goes with this descriptor, and the next makes none.
            drop(file);
            return flags.custom_flags(0).open(path);
        }
        Ok(file)
    });
    match opened {
        Ok(file) => Ok((file, false)),
        Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
            Err(OpenError::InUse { path: path.to_owned() })
        }
        Err(error) => Err(protection(path, &error).unwrap_or_else(|| system(error))),
    }
}

/// If `error` keeps only writers out: what protects the path.
fn protection(path: &Path, error: &io::Error) -> Option<OpenError> {
    let why = match Errno::from_io_error(error)? {
        Errno::ROFS => "the file system that it is on is read-only",
        Errno::ACCESS => "you may read it, but not write it",
        // Also of files in memory that are sealed.
        Errno::PERM => "it is marked immutable or append-only",
        _ => return None,
    };
    File::open(path).ok().map(|_| OpenError::WriteProtected { path: path.to_owned(), why })
}

/// Whether the kernel refuses writes to the block device with this number.
fn is_protected(rdev: u64) -> bool {
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/ro")).is_ok_and(|text| text.trim() != "0")
}

/// True for a block device, false for a regular file, an error for everything else.
fn refuse_other_types(path: &Path, meta: &Metadata) -> Result<bool, OpenError> {
    let kind = meta.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(false),
        () if kind.is_block_device() => return Ok(true),
        () if kind.is_dir() => "a directory",
        () if kind.is_char_device() => "a character device",
        () if kind.is_fifo() => "a pipe",
        () => "a socket",
    };
    Err(OpenError::NotADevice { path: path.to_owned(), what })
}

/// Size of the device in bytes: what was asked for, or what follows the offset.
fn size(path: &Path, options: &OpenOptions, block_device: bool, len: u64) -> Result<u64, OpenError> {
    let have = len.saturating_sub(options.offset_bytes);
    let want = options.size.unwrap_or(have).max(BLOCK_SIZE as u64);
    let may_end_early = !block_device && options.size.is_some();
    if want > have && !may_end_early {
        return Err(OpenError::TooSmall { path: path.to_owned(), have, want });
    }
    // Positions in a file are signed.
    if options.offset_bytes.checked_add(want).is_none_or(|end| i64::try_from(end).is_err()) {
        let reason =
            format!("a device of {want} bytes at offset {} is larger than a file can be", options.offset_bytes);
        return Err(OpenError::Unsupported { path: path.to_owned(), reason });
    }
    Ok(want)
}

/// Switches direct I/O on where the options ask for it, and tries it with one read, since some file systems only refuse
/// then. True if it is on now.
fn set_direct(path: &Path, options: &OpenOptions, raw: &RawFile, automatic: bool) -> Result<bool, OpenError> {
    if options.direct == Direct::Off || (options.direct == Direct::Auto && !automatic) {
        return Ok(false);
    }
    let set = |on: bool| {
        let flags = fcntl_getfl(raw.file())?;
        fcntl_setfl(raw.file(), if on { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT })
    };
    let tried = set(true).and_then(|()| raw.try_read());
    match tried {
        Ok(()) => Ok(true),
        Err(errno) if options.direct == Direct::On => {
            let reason = format!("direct I/O is not possible here ({errno})");
            Err(OpenError::Unsupported { path: path.to_owned(), reason })
        }
        Err(_) => set(false)
            .map(|()| false)
            .map_err(|errno| OpenError::System { path: path.to_owned(), source: errno.into() }),
    }
}

/// The limits of a block device whose zones have to be written in order; `None` of any other. Zones that only should be
/// (host-aware) take writes anywhere.
fn zone_limits(rdev: u64) -> Option<ZoneLimits> {
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    let told = |name: &str| std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/queue/{name}")).ok();
    let number = |name: &str| told(name).and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let is_zoned = told("zoned").is_some_and(|model| model.trim() == "host-managed");
    is_zoned.then(|| ZoneLimits { max_open: number("max_open_zones"), max_active: number("max_active_zones") })
}

/// The zones of a zoned block device, which is written past the page cache, and as a whole.
fn open_zones(
    path: &Path,
    options: &OpenOptions,
    raw: &RawFile,
    limits: ZoneLimits,
) -> Result<ZoneGeometry, OpenError> {
    let unusable = |reason: String| OpenError::Unsupported { path: path.to_owned(), reason };
    if options.offset_bytes != 0 || options.size.is_some() || options.direct == Direct::Off {
        let why = "it is a zoned device, which is used as a whole, from its beginning, and with direct I/O";
        return Err(unusable(why.to_owned()));
    }
    set_direct(path, &OpenOptions { direct: Direct::On, ..*options }, raw, true)?;
    zones::geometry(raw, limits).map_err(|why| unusable(format!("it is a zoned device, and {why}")))
}

/// Whether the kernel says that the block device with this number takes discards. A partition has its disk's queue.
fn block_device_discards(rdev: u64) -> bool {
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    let queue = |up: &str| format!("/sys/dev/block/{major}:{minor}/{up}queue/discard_max_bytes");
    let limit = std::fs::read_to_string(queue("")).or_else(|_| std::fs::read_to_string(queue("../")));
    limit.is_ok_and(|text| text.trim().parse::<u64>().is_ok_and(|bytes| bytes > 0))
}
