//! Mounting as root, with `mount(2)`: a block device as such, an image file by the name of a loop device.

use super::Attached;
use crate::error::{Error, Result};
use crate::options::{Allow, Durable, FuseOptions};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use steadyfs_device::LoopDevice;

/// Mounts.
pub(super) fn mount(dir: &Path, options: &FuseOptions) -> Result<Attached> {
    let fd = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Error::NoFuse { source: errno.into() })?;
    if let Some((device, loop_device)) = device(options) {
        match attach(&fd, dir, options, Some(&device)) {
            Ok(()) => return Ok(Attached { fd, is_block_device: true, by_helper: false }),
            // A loop device is a help, no need. And somebody may have the device for himself, which may be this
            // process; or the kernel was built without.
            Err(errno) if loop_device.is_some() || matches!(errno, Errno::BUSY | Errno::NODEV) => {
                tracing::debug!("not mounted as fuseblk: {errno}");
            }
            Err(errno) => return Err(failed(dir, errno)),
        }
    }
    attach(&fd, dir, options, None).map_err(|errno| failed(dir, errno))?;
    Ok(Attached { fd, is_block_device: false, by_helper: false })
}

/// The block device to mount by: the source, or a loop device of the image, which is to live until the mount has it.
/// The server does not use that, it reads and writes the image; only the kernel has to have a name of a block device.
/// A name that the options give the mount comes instead.
fn device(options: &FuseOptions) -> Option<(PathBuf, Option<LoopDevice>)> {
    let kind = std::fs::metadata(&options.source).ok().filter(|_| options.block_device)?.file_type();
    if kind.is_block_device() {
        return Some((options.source.clone(), None));
    }
    if !kind.is_file() || options.name.is_some() {
        return None;
    }
    // The kernel makes no mount writable whose device is not.
    let over = |read_only| LoopDevice::over(&options.source, options.offset, read_only);
    let made = over(false).or_else(|error| if options.read_only { over(true) } else { Err(error) });
    let made =
        made.map_err(|error| tracing::debug!("no loop device for {}: {error}", options.source.display())).ok()?;
    Some((made.path().to_owned(), Some(made)))
}

fn failed(dir: &Path, errno: Errno) -> Error {
    Error::Mount { dir: dir.to_owned(), source: errno.into() }
}

fn attach(fd: &OwnedFd, dir: &Path, options: &FuseOptions, block_device: Option<&Path>) -> rustix::io::Result<()> {
    let kind = format!("{}.{}", if block_device.is_some() { "fuseblk" } else { "fuse" }, options.subtype);
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut data = format!("fd={},rootmode=40000,user_id={uid},group_id={gid},default_permissions", fd.as_raw_fd());
    if options.allow != Some(Allow::Owner) {
        // For `allow_root` too: the kernel knows only this one, and the rest are kept out request by request.
        data.push_str(",allow_other");
    }
    if block_device.is_some() {
        data.push_str(",blksize=4096");
    }
    for label in options.label_options(Path::new("/sys/fs/selinux").exists()) {
        data.push_str(&format!(",{label}"));
    }
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    let source = match (block_device, &options.name) {
        (Some(device), _) => device.as_os_str().as_bytes(),
        (None, Some(name)) => name.as_bytes(),
        (None, None) => options.source.as_os_str().as_bytes(),
    };
    rustix::mount::mount(source, dir, kind.as_str(), flags(options), Some(data.as_c_str()))
}

/// The flags of mount(2) that the options stand for.
pub(super) fn flags(options: &FuseOptions) -> MountFlags {
    let switches = [
        (options.read_only, MountFlags::RDONLY),
        (!options.suid, MountFlags::NOSUID),
        (!options.dev, MountFlags::NODEV),
        (!options.exec, MountFlags::NOEXEC),
        (options.noatime, MountFlags::NOATIME),
        (options.nodiratime, MountFlags::NODIRATIME),
        (options.nosymfollow, MountFlags::NOSYMFOLLOW),
        (options.durable == Durable::All, MountFlags::SYNCHRONOUS),
        (options.durable != Durable::Asked, MountFlags::DIRSYNC),
    ];
    switches.into_iter().filter(|(on, _)| *on).fold(MountFlags::empty(), |all, (_, flag)| all | flag)
}
