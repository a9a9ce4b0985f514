//! Loop devices: block devices that the kernel makes of files.
//!
//! Two uses. A mount of an image file has one for its name, since only for block devices the kernel passes on `sync`
//! and has `umount` wait ([`LoopDevice`]). And a process that opens one has to know which bytes of which file it stands
//! for: other ways to those bytes need the same lock ([`Backing`]).
//!
//! Kept true: a loop device that was made here goes with its last user, whichever process is killed.
#![allow(unsafe_code)] // three ioctls that nobody has wrapped

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Gives out free loop devices.
const CONTROL: &str = "/dev/loop-control";
/// Size of a sector, in which the kernel counts partitions, in bytes.
const SECTOR: u64 = 512;
/// How often to try when others take the devices that the kernel calls free.
const ATTEMPTS: u32 = 32;

// Names and values of linux/loop.h.
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    lo_device: u64,
    lo_inode: u64,
    lo_rdevice: u64,
    lo_offset: u64,
    lo_sizelimit: u64,
    lo_number: u32,
    lo_encrypt_type: u32,
    lo_encrypt_key_size: u32,
    lo_flags: u32,
    lo_file_name: [u8; 64],
    lo_crypt_name: [u8; 64],
    lo_encrypt_key: [u8; 32],
    lo_init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopInfo>() == 232 && size_of::<LoopConfig>() == 304);

impl LoopInfo {
    const NONE: LoopInfo = LoopInfo {
        lo_device: 0,
        lo_inode: 0,
        lo_rdevice: 0,
        lo_offset: 0,
        lo_sizelimit: 0,
        lo_number: 0,
        lo_encrypt_type: 0,
        lo_encrypt_key_size: 0,
        lo_flags: 0,
        lo_file_name: [0; 64],
        lo_crypt_name: [0; 64],
        lo_encrypt_key: [0; 32],
        lo_init: [0; 2],
    };
}

/// A loop device that was made here. It exists for as long as this value, or a mount of it, does.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    /// Keeps it in existence.
    _file: File,
}

impl LoopDevice {
    /// Makes a loop device of what follows `offset` (bytes) in the file `image`, with no lock on it.
    ///
    /// # Errors
    /// Those of the system: only root may, and containers often have no loop devices.
    pub fn over(image: &Path, offset: u64, read_only: bool) -> io::Result<Self> {
        let open = |path: &Path| File::options().read(true).write(!read_only).open(path);
        let (image, control) = (open(image)?, File::options().read(true).write(true).open(CONTROL)?);
        let flags = LO_FLAGS_AUTOCLEAR | if read_only { LO_FLAGS_READ_ONLY } else { 0 };
        let fd = image.as_raw_fd().cast_unsigned();
        let info = LoopInfo { lo_offset: offset, lo_flags: flags, ..LoopInfo::NONE };
        let config = LoopConfig { fd, block_size: 0, info, reserved: [0; 8] };
        let mut last = io::Error::from_raw_os_error(libc::EBUSY);
        for _ in 0..ATTEMPTS {
            // SAFETY: the ioctl takes no argument.
            let number = checked(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) })?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = open(&path)?;
            // SAFETY: the ioctl reads a `struct loop_config`, which `config` is, of the asserted size.
            match checked(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) }) {
                // From now on open for reading only: some kernels mount no device that is open for writing.
                Ok(_) => return File::open(&path).map(|file| LoopDevice { path, _file: file }),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Its path, `/dev/loopN`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// What lies behind a loop device, or a partition of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backing {
    /// The file, as the kernel names it; it may have another name in this mount namespace.
    pub path: PathBuf,
    /// First of its bytes.
    pub start: u64,
    /// How many bytes.
    pub len: u64,
}

impl Backing {
    /// The file behind the block device with this number; `None` for a device of another kind.
    pub fn of(rdev: u64) -> Option<Self> {
        let here = PathBuf::from(format!("/sys/dev/block/{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev)));
        let number = |path: PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let is_partition = here.join("partition").exists();
        let disk = if is_partition { here.join("..").join("loop") } else { here.join("loop") };
        let path = std::fs::read_to_string(disk.join("backing_file")).ok()?;
        let first = if is_partition { number(here.join("start"))? } else { 0 };
        let start = number(disk.join("offset"))?.checked_add(first.checked_mul(SECTOR)?)?;
        let len = number(here.join("size"))?.checked_mul(SECTOR)?;
        Some(Backing { path: path.trim_end_matches('\n').into(), start, len })
    }

    /// Opens the file, if the path still leads to what is behind `device`, which is the loop device or its partition,
    /// opened.
    pub(crate) fn open(&self, device: &File, write: bool) -> Option<File> {
        let mut info = LoopInfo::NONE;
        // SAFETY: the ioctl writes a `struct loop_info64`, which `info` is, of the asserted size.
        checked(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) }).ok()?;
        let meta = std::fs::metadata(&self.path).ok()?;
        let same = meta.is_file() && (meta.dev(), meta.ino()) == (info.lo_device, info.lo_inode);
        same.then(|| File::options().read(true).write(write).open(&self.path).ok())?
    }
}
