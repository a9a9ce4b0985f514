//! What a process that has volumes leaves to others of its host: files that only their owner reads, and no descriptors
//! for the programs that it starts.
#![allow(unsafe_code)] // flags of descriptors that others have opened

use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// For files that hold what only their owner may read.
pub const PRIVATE: u32 = 0o600;

/// Makes a file, or empties the one that is there, which keeps its permissions. Never through a symlink: another user
/// who may write in the directory could lead it elsewhere.
///
/// # Errors
/// What the system says, and that of a loop for a symlink.
pub fn create_file(path: &Path, mode: u32) -> io::Result<File> {
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    File::options().write(true).create(true).truncate(true).mode(mode).custom_flags(no_link).open(path)
}

/// Keeps descriptors beyond the three standard ones, whichever code opened them, from programs that this process
/// starts.
pub fn keep_descriptors() {
    const FIRST: libc::c_uint = 3;
    const CLOSE_ON_EXEC: libc::c_uint = 4;
    // SAFETY: it only sets a flag of descriptors.
    let done = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, CLOSE_ON_EXEC) };
    if done == 0 {
        return;
    }
    // Before Linux 5.11.
    for entry in std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        if let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse::<libc::c_int>().ok())
            && fd >= 3
        {
            // SAFETY: it only sets a flag of a descriptor, and fails where there is none.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

/// Asks to be traced by the parent, for the tests of the sandbox.
#[cfg(test)]
pub(crate) fn trace_me() -> io::Result<()> {
    // SAFETY: it takes no pointers.
    match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Maps memory that could be executed, for the same.
#[cfg(test)]
pub(crate) fn map_code() -> io::Result<()> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let flags = ProtFlags::READ | ProtFlags::EXEC;
    // SAFETY: new memory, where the system has room, which nobody uses.
    unsafe { mmap_anonymous(std::ptr::null_mut(), 4096, flags, MapFlags::PRIVATE) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_is_its_owners_and_no_link_leads_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        create_file(&file, PRIVATE).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
        std::fs::write(&file, "text").unwrap();
        symlink(&file, &link).unwrap();
        assert!(create_file(&link, PRIVATE).is_err());
        assert_eq!(std::fs::read(&file).unwrap(), b"text");
        create_file(&file, PRIVATE).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"");
    }
}
