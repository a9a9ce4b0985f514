//! Mounting as root, with `mount(2)`.

use crate::error::{Error, Result};
use crate::options::{Allow, FuseOptions};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Mounts; the connection to the kernel.
pub(super) fn mount(dir: &Path, options: &FuseOptions) -> Result<OwnedFd> {
    let fd = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Error::NoFuse { source: errno.into() })?;
    if options.block_device && is_block_device(&options.source) {
        match attach(&fd, dir, options, true) {
            Ok(()) => return Ok(fd),
            // Somebody has the device for himself, which may be this process; or the kernel was built without.
            Err(Errno::BUSY | Errno::NODEV) => tracing::debug!("not mounted as fuseblk"),
            Err(errno) => return Err(failed(dir, errno)),
        }
    }
    attach(&fd, dir, options, false).map_err(|errno| failed(dir, errno))?;
    Ok(fd)
}

fn is_block_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_block_device())
}

fn failed(dir: &Path, errno: Errno) -> Error {
    Error::Mount { dir: dir.to_owned(), source: errno.into() }
}

fn attach(fd: &OwnedFd, dir: &Path, options: &FuseOptions, block_device: bool) -> rustix::io::Result<()> {
    let kind = format!("{}.{}", if block_device { "fuseblk" } else { "fuse" }, options.subtype);
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut data = format!("fd={},rootmode=40000,user_id={uid},group_id={gid},default_permissions", fd.as_raw_fd());
    if options.allow != Some(Allow::Owner) {
        // For `allow_root` too: the kernel knows only this one, and the rest are kept out request by request.
        data.push_str(",allow_other");
    }
    if block_device {
        data.push_str(",blksize=4096");
    }
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    let source = match &options.name {
        Some(name) if !block_device => name.as_bytes(),
        _ => options.source.as_os_str().as_bytes(),
    };
    rustix::mount::mount(source, dir, kind.as_str(), flags(options), Some(data.as_c_str()))
}

fn flags(options: &FuseOptions) -> MountFlags {
    let switches = [
        (options.read_only, MountFlags::RDONLY),
        (!options.suid, MountFlags::NOSUID),
        (!options.dev, MountFlags::NODEV),
        (!options.exec, MountFlags::NOEXEC),
        (options.noatime, MountFlags::NOATIME),
    ];
    switches.into_iter().filter(|(on, _)| *on).fold(MountFlags::empty(), |all, (_, flag)| all | flag)
}
